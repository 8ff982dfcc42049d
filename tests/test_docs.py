"""The documentation is under test: it names everything public, and what it shows runs."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import iserror
from iserror import ErrorMap, Failure, ToolErrors, client, idempotency, logs, packs, testing
from iserror.errors.vocabulary import BUILT_IN
from iserror.redact import DEFAULT_RULES
from tests.helpers import hosts
from tests.helpers.hosts import HOST, ROOT

pytestmark = [pytest.mark.host, pytest.mark.newest]

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _page(name: str) -> str:
    (page,) = (ROOT / "docs").rglob(name)
    return page.read_text()


@pytest.mark.parametrize("name", iserror.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    """A public name without a heading in the reference fails the build."""
    assert re.search(rf"^## `(?:@)?{name}\b", _page("api.md"), re.MULTILINE)


@pytest.mark.parametrize("module", [iserror, client, idempotency, logs, packs, testing], ids=lambda m: m.__name__)
def test_every_docstring_is_on_its_page(module: ModuleType) -> None:
    """A public name without its docstring on the page of the docstrings fails the build."""
    shown = re.findall(rf"^\.\. auto\w+:: {module.__name__}\.(\w+)$", _page("python.md"), re.MULTILINE)
    # `Record` is an alias of dict: it has no docstring.
    assert sorted(shown) == sorted(set(module.__all__) - {"Record"})


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


@pytest.mark.parametrize(
    "name", ["iserror_servers", "iserror_calls", "iserror_probe", "iserror_probe_all", "iserror_baseline"]
)
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


# The README's name of each host; its row says how the first line of the shortest server reads there.
_ROW = {"mcp1": "`mcp` 1.x", "mcp2": "`mcp` 2.x", "fastmcp3": "`fastmcp` 3.x", "fastmcp4": "`fastmcp` 4.x"}


def _shortest_server() -> str:
    """The first Python block of the README, with the first line that the README documents for this host."""
    readme = (ROOT / "README.md").read_text()
    first_block = re.search(r"```console\npip install iserror\n```\n\n```python\n(.*?)```", readme, re.DOTALL)
    assert first_block is not None, "the install line stands right before the server"
    assert readme.index("```python") in range(*first_block.span())
    documented = dict(
        re.findall(r"^\| (`\w+` \d\.x) \| `pip install [^|]+` \| `(from [^`]+)` \|$", readme, re.MULTILINE)
    )
    assert list(documented) == [_ROW["mcp2"], _ROW["mcp1"], _ROW["fastmcp3"], _ROW["fastmcp4"]]
    first_line, rest = first_block[1].split("\n", 1)
    assert first_line == documented[_ROW["mcp2"]], "pip installs mcp 2.x: the block runs on it as it stands"
    return f"{documented[_ROW[HOST]]}\n{rest}"


@pytest.mark.anyio
async def test_the_readme_server_runs(tmp_path: Path) -> None:
    """The shortest server runs as a script, and its failed call reads as its map says."""
    script = tmp_path / "server.py"
    script.write_text(_shortest_server())
    async with hosts.over_stdio(str(script)) as call:
        answer = await call("get_invoice", {"invoice_id": "INV-42"})

    assert answer["result"]["isError"] is True
    assert hosts.failure_of(answer)["code"] == "INVOICE_NOT_FOUND"
    message, hint, advice = hosts.text_of(answer).splitlines()
    assert message == "INVOICE_NOT_FOUND: No invoice with id INV-42."
    assert hint == "Ask the user for the invoice number."
    assert advice.startswith("[get_invoice failed; change the call first; request_id: ")


def test_old_addresses_lead_to_a_page() -> None:
    """A redirect of the site whose page is not there, or whose old address is a page again, fails the build."""
    (found,) = re.findall(r"^redirects = (\{.*?^\})", _page("conf.py"), re.MULTILINE | re.DOTALL)
    redirects = ast.literal_eval(found)
    assert redirects
    assert [old for old in redirects if (ROOT / "docs" / f"{old}.md").exists()] == []
    pages = {old: ROOT / "docs" / new.replace(".html", ".md") for old, new in redirects.items()}
    assert [old for old, page in pages.items() if not page.exists()] == []


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "reference", "explanation"])
def test_every_page_is_in_the_index_of_its_folder(folder: str) -> None:
    """A page that its folder's index does not list fails the build."""
    index = (ROOT / "docs" / folder / "index.md").read_text().splitlines()
    pages = {page.stem for page in (ROOT / "docs" / folder).glob("*.md")} - {"index"}
    assert pages - set(index) == set()
