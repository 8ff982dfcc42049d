"""The documentation is under test: it names everything public, and what it shows runs."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys

import pytest

import iserror
from iserror import ErrorMap, Failure, ToolErrors, client, logs, testing
from iserror.errormap import BUILT_IN
from iserror.redact import DEFAULT_RULES
from tests.helpers.hosts import HOST, ROOT

pytestmark = pytest.mark.sdk

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("name", iserror.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """A public name without a heading in the reference fails the build."""
    assert re.search(rf"^## `(?:@)?{name}\b", _page("api.md"), re.MULTILINE)


@pytest.mark.parametrize("name", list(inspect.signature(ToolErrors).parameters)[1:])
def test_every_setting_is_in_the_reference(name: str) -> None:
    """A setting without a row in the reference fails the build."""
    assert f"| `{name}` |" in _page("api.md")


@pytest.mark.parametrize("name", list(inspect.signature(ErrorMap.add).parameters)[1:])
def test_every_argument_of_an_entry_is_in_the_reference(name: str) -> None:
    """An argument of `add` without a row in the reference fails the build."""
    assert re.search(rf"^\| [^|]*`{name}`", _page("api.md"), re.MULTILINE)


@pytest.mark.parametrize("name", list(Failure.model_fields))
def test_every_field_is_on_the_wire_page(name: str) -> None:
    """A field of the envelope without a row on the wire page fails the build."""
    assert f"| `{name}` |" in _page("wire-format.md")


@pytest.mark.parametrize("name", list(inspect.signature(client.ToolCaller).parameters)[1:])
def test_every_limit_of_a_caller_is_on_the_agents_page(name: str) -> None:
    """A parameter of `ToolCaller` without a row on the page for agent authors fails the build."""
    assert f"| `{name}` |" in _page("agents.md")


@pytest.mark.parametrize("name", [name for name in client.__all__ if name not in ("CallOutcome", "classify")])
def test_every_outcome_is_on_the_agents_page(name: str) -> None:
    """An outcome that the page for agent authors does not name fails the build."""
    assert f"`{name}`" in _page("agents.md")


@pytest.mark.parametrize("name", testing.__all__)
def test_every_helper_is_on_the_pytest_page(name: str) -> None:
    """A helper that the page on tests does not name, or an assertion without all its parameters, fails the build."""
    if name.startswith("assert_"):
        row = re.search(rf"^\| `{name}\((.*?)\)` \|", _page("pytest.md"), re.MULTILINE)
        assert row is not None
        assert re.findall(r"\w+", row[1]) == list(inspect.signature(getattr(testing, name)).parameters)
    assert name in _page("pytest.md") + _page("api.md")


@pytest.mark.parametrize("name", ["iserror_servers", "iserror_calls", "iserror_baseline"])
def test_every_setting_of_the_plugin_is_on_the_pytest_page(name: str, pytestconfig: pytest.Config) -> None:
    """A setting of the plugin without a row on the page on tests fails the build."""
    assert not pytestconfig.getini(name)
    assert f"| `{name}` |" in _page("pytest.md")


@pytest.mark.parametrize(("code", "category"), list(BUILT_IN.items()))
def test_every_built_in_code_is_on_the_wire_page(code: str, category: str) -> None:
    """A code of the library's own without its category on the wire page fails the build."""
    assert f"| `{code}` | `{category}` |" in _page("wire-format.md")


def test_log_keys_are_documented(lines: logs.Record) -> None:
    """A key of a log line without a row on the logging page fails the build."""

    @ToolErrors(log_arguments=True)
    def tool() -> None:
        raise ValueError

    with pytest.raises(iserror.ToolFailure):
        tool()

    (line,) = lines.read()  # type: ignore[attr-defined]
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", _page("logging.md"), re.MULTILINE))))
    assert set(line) - documented == set()


def test_every_redaction_rule_is_documented() -> None:
    """The table of rules names each default rule, in order, with its marker and profiles."""
    table = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([^|]+) \| (.+) \|$", _page("redaction.md"), re.MULTILINE)
    rules = [(rule.name, rule.kind, ", ".join(rule.profiles) + ("; pii" if rule.pii else "")) for rule in DEFAULT_RULES]
    assert [row[:3] for row in table] == rules
    assert all(about.strip() for *_, about in table)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page) -> None:  # type: ignore[no-untyped-def]
    """A relative link to a file that is not there fails the build."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.skipif(HOST != "mcp1", reason="the README's server is written for mcp 1.x")
def test_the_readme_server_runs() -> None:
    """The shortest server of the README starts, registers its tool, and its tool fails as the README says."""
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    check = "\ntry:\n    get_invoice('INV-42')\nexcept Exception as exc:\n    print(exc)\n"
    done = subprocess.run(
        [sys.executable, "-c", source + check], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout.splitlines()[:2] == [
        "INVOICE_NOT_FOUND: No invoice with id INV-42.",
        "Ask the user for the invoice number.",
    ]
    assert "[get_invoice failed; change the call first; request_id: " in done.stdout


@pytest.mark.parametrize("name", ["tutorial.md", "agents.md", "pytest.md"])
def test_a_page_is_valid_python(name: str) -> None:
    """Every Python block of the page compiles."""
    for source in re.findall(r"```python\n(.*?)```", _page(name), re.DOTALL):
        compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
