"""The pytest plugin: what a suite gets that names its server, and what one pays that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

# Here, since pytester forgets the modules that a run in this process is the first to import, but not their packages.
from iserror.check import audit, baseline  # noqa: F401
from iserror.check.finding import CHECKS, UNREPLACED
from tests.helpers.hosts import HOST, IS_FASTMCP, ROOT

pytestmark = [pytest.mark.host, pytest.mark.newest]

pytest_plugins = ["pytester"]

# As in conftest.py.
PLUGIN = [] if "iserror" in entry_points(group="pytest11").names else ["-p", "iserror.testing.plugin"]

SERVER = """
import os, warnings
from iserror import ToolErrors
from tests.helpers import hosts

print("not to be shown")
with open("runs", "a") as file:
    file.write(f"{os.getpid()} imported\\n")

def build(guarded):
    server = hosts.new_server()
    if guarded:
        ToolErrors().attach(server)

    @server.tool()
    def pay(invoice: str) -> str:
        with open("runs", "a") as file:
            file.write(f"{os.getpid()} paid {invoice}\\n")
        raise hosts.ToolError("no invoice " + invoice)

    return server

guarded, bare = build(True), build(False)

def factory():
    warnings.warn("of an old library", DeprecationWarning)
    return guarded

def fails():
    raise RuntimeError("cannot connect to " + "postgres" + "://app:hunter2hunter2@10.0.0.9/prod")
"""

STREAMS = {"channels.malformed_json", "stdout.noise"}
OTHERS = ("results.", "inject.")
WITHOUT_CALLS = [check for check in CHECKS if check not in STREAMS and not check.startswith(OTHERS)]
OF_PROBES = [check for check in CHECKS if check.startswith("arguments.")]
TEST = "def test_mine():\n    pass\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Any:
    """A user's suite; call it with the settings and the command line."""
    pytester.makepyfile(served=SERVER)
    pytester.makepyfile(**{"tests/test_mine": TEST})

    def run(settings: str, *arguments: str, own: bool = True) -> pytest.RunResult:
        # The second as in our own suite: of mcp 1.23, which makes its servers here too.
        warns = """filterwarnings = ["error", "ignore:Field 'lifespan' has an incomplete definition"]"""
        named = f'testpaths = ["tests"]\naddopts = "--strict-markers --strict-config"\n{warns}\n'
        pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\n{named if own else ''}{settings}\n")
        return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:anyio", *arguments)

    return run


def runs(pytester: pytest.Pytester) -> list[str]:
    """What the server did, without who did it."""
    path = pytester.path / "runs"
    return [line.partition(" ")[2] for line in path.read_text().splitlines()] if path.exists() else []


def test_a_guarded_server(suite: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is an item that passes, without the extra; the server is loaded and checked once, and says nothing."""
    monkeypatch.setitem(sys.modules, "rich", None)
    at_the_end = "import sys\ndef pytest_sessionfinish():\n    print('\\nPATH', *sys.path)"
    (pytester.path / "tests/conftest.py").write_text(at_the_end)
    done = suite('iserror_servers = ["served.py:guarded"]\niserror_probe_all = true', "-v")
    done.assert_outcomes(passed=1 + len(WITHOUT_CALLS))
    names = [line.partition(" ")[0] for line in done.outlines if "PASSED" in line]
    assert names == [
        "tests/test_mine.py::test_mine",
        *(f"pyproject.toml::served.py:guarded::{check}" for check in WITHOUT_CALLS),
    ]
    assert runs(pytester) == ["imported"]
    assert "not to be shown" not in done.stdout.str()
    (path,) = (line for line in done.outlines if line.startswith("PATH "))
    assert str(pytester.path) not in path.split(" ")


def test_a_bare_server(suite: Any, pytester: pytest.Pytester) -> None:
    """A fault fails the item of its check with what was seen, the remedy and the rule, unless the baseline has it."""
    done = suite('iserror_servers = ["served:bare"]\niserror_probe = ["pay"]')
    assert done.ret == 1
    failed = {line.split("::")[2].split(" ")[0] for line in done.outlines if line.startswith("FAILED ")}
    assert {"channels.unknown_tool", "arguments.echo"} <= failed
    done.stdout.fnmatch_lines(
        [
            "*_ served:bare arguments.echo _*",
            "pay: an undeclared argument: the result repeats the value that was sent",
            "Name the field and the broken rule, never the value. *",
            "https://modelcontextprotocol.io/specification/*",
        ]
    )
    keys = ",".join(f'{{"check": "{check}", "tool": "{tool}"}}' for check in failed for tool in ("", "pay"))
    (pytester.path / "known.json").write_text(f'{{"findings": [{keys}]}}')
    named = 'iserror_servers = ["served:bare"]\niserror_baseline = "known.json"'
    suite(named).assert_outcomes(passed=1 + len(WITHOUT_CALLS))
    assert [line for line in runs(pytester) if line != "imported"] == []


def test_a_server_that_is_not_probed(suite: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that needs bad arguments skips where no tool may get any, and the end of the run says how to allow it."""
    monkeypatch.setattr("iserror.check.bodies.body_field", lambda tool: None)
    done = suite('iserror_servers = ["served:bare"]', "-rs", "-m", "iserror")
    reason = f"{UNREPLACED} (use iserror_probe or iserror_probe_all): pay"
    assert done.parseoutcomes()["skipped"] == len(OF_PROBES)
    done.stdout.fnmatch_lines(["*= iserror: not checked =*", f"served:bare: {reason}"])
    done.stdout.fnmatch_lines([f"SKIPPED * not checked: {reason}"])


def test_a_probe_of_no_tool(suite: Any) -> None:
    """A probe of a tool that the only server doesn't have is one failure that says so."""
    done = suite("""iserror_servers = ["served:guarded"]\niserror_probe = ["refund"]""", "-m", "iserror")
    done.assert_outcomes(failed=1, skipped=len(WITHOUT_CALLS) - 1, deselected=1)
    done.stdout.fnmatch_lines(["iserror_probe: served:guarded has no tool refund"])


def test_calls(suite: Any, pytester: pytest.Pytester) -> None:
    """A tool that is named is called once a server, and only then are there items for results."""
    calls = """iserror_calls = ['pay={"invoice": "INV-7"}']"""
    done = suite(f'iserror_servers = ["served:factory", "served:bare"]\n{calls}', "-k", "results or stdout")
    runs_here = runs(pytester)
    results = [check for check in CHECKS if check.startswith("results.")]
    failed = [] if IS_FASTMCP else ["results.exception_text"]
    assert [line.split(" ")[1].split("::")[1:] for line in done.outlines if line.startswith("FAILED ")] == [
        ["served:bare", check] for check in failed
    ]
    done.assert_outcomes(
        passed=2 * len(results) - len(failed), failed=len(failed), deselected=1 + 2 * len(WITHOUT_CALLS)
    )
    assert runs_here == ["imported", "paid INV-7", "paid INV-7"]


def test_a_call_of_no_tool(suite: Any) -> None:
    """A call of a tool that the only server does not have fails; among several servers it is said at the end."""
    calls = """iserror_calls = ['refund={}']"""
    done = suite(f'iserror_servers = ["served:guarded"]\n{calls}', "-k", "results")
    done.assert_outcomes(failed=1, skipped=6, deselected=1 + len(WITHOUT_CALLS))
    done.stdout.fnmatch_lines(["iserror_calls: served:guarded has no tool refund"])
    done = suite(f'iserror_servers = ["served:guarded", "served:factory"]\n{calls}', "-k", "results")
    assert done.ret == 0
    done.stdout.fnmatch_lines(
        [
            "*= iserror: not checked =*",
            "served:guarded: the call that you asked for, since there is no such tool: refund",
            "served:factory: the call that you asked for, since there is no such tool: refund",
        ]
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:mcp", "nowhere cannot be imported: ModuleNotFoundError: *"),
        ("served:fails", "served:fails cannot make a server: RuntimeError: cannot connect to *"),
        ("served", "'served' is not a target: *"),
        ("https://example.test/mcp", "https://example.test/mcp is not in memory: use module:object or file.py:object"),
    ],
)
def test_a_server_that_cannot_be_loaded(suite: Any, target: str, said: str) -> None:
    """It is one failure that says why, without the secret in it; the other checks skip, and the tests run."""
    done = suite(f'iserror_servers = ["{target}"]', "-rs")
    done.assert_outcomes(passed=1, failed=1, skipped=len(WITHOUT_CALLS) - 1)
    done.stdout.fnmatch_lines([said])
    done.stdout.fnmatch_lines([f"SKIPPED * {target} could not be checked"])
    assert "hunter2" not in done.stdout.str()
    assert "During handling" not in done.stdout.str()


@pytest.mark.parametrize(
    "setting", ["iserror_calls = ['pay']", "iserror_calls = ['pay=[1]']", 'iserror_baseline = "missing.json"']
)
def test_a_setting_that_is_wrong(suite: Any, setting: str) -> None:
    """It is one error that names the setting, and no server is loaded."""
    done = suite(f'iserror_servers = ["served:guarded"]\n{setting}')
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["iserror_calls or iserror_baseline: *"])


@pytest.mark.parametrize(
    ("arguments", "own", "checks"),
    [
        ([], 1, len(WITHOUT_CALLS)),
        (["tests"], 1, len(WITHOUT_CALLS)),
        (["."], 1, len(WITHOUT_CALLS)),
        (["tests/test_mine.py"], 1, 0),
        (["tests/test_mine.py::test_mine"], 1, 0),
        (["pyproject.toml"], 0, len(WITHOUT_CALLS)),
        (["pyproject.toml::served:guarded::arguments.echo"], 0, 1),
        (["-m", "iserror"], 0, len(WITHOUT_CALLS)),
        (["-m", "not iserror"], 1, 0),
        (["-m", "xdist_group"], 0, len(WITHOUT_CALLS)),
        (["-k", "arguments.echo"], 0, 1),
    ],
    ids=str,
)
def test_what_is_collected(suite: Any, pytester: pytest.Pytester, arguments: list[str], own: int, checks: int) -> None:
    """Folders bring the checks along, files and tests do not; collecting alone loads no server."""
    done = suite('iserror_servers = ["served:guarded"]', "--collect-only", "-q", *arguments)
    found = [line for line in done.outlines if "::" in line]
    assert [line for line in found if line.startswith("tests/")] == ["tests/test_mine.py::test_mine"] * own
    assert len([line for line in found if line.startswith("pyproject.toml::served:guarded::")]) == checks
    assert runs(pytester) == []


def test_without_servers(suite: Any) -> None:
    """A suite that names no server gets no items, not even of its own configuration file's."""
    suite('iserror_baseline = "missing.json"', ".").assert_outcomes(passed=1)


def test_without_a_configuration_file(pytester: pytest.Pytester) -> None:
    """Servers that only the command line names are refused in one line."""
    done = pytester.runpytest_inprocess(*PLUGIN, "-o", "iserror_servers=served:guarded")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: iserror_servers needs a configuration file: set it in pytest.ini, *"])


@pytest.mark.skipif(HOST != "mcp2", reason="it takes seconds, and one host shows it")
def test_under_xdist(suite: Any, pytester: pytest.Pytester) -> None:
    """With `--dist loadscope` one worker loads and checks a server, and says what it left out."""
    servers = 'iserror_servers = ["served:guarded", "served.py:bare"]'
    done = suite(f"{servers}\niserror_calls = ['refund={{}}']", "-n", "2", "--dist", "loadscope", "-m", "iserror")
    assert runs(pytester) == ["imported"] * 2
    done.stdout.fnmatch_lines(["*= iserror: not checked =*", "served*: the call that you asked for, *: refund"])
    assert "INTERNALERROR" not in done.stdout.str()


def test_fixtures(pytester: pytest.Pytester, suite: Any) -> None:
    """A user's test calls tools of a server in one line, and reads the failures that it logged."""
    (pytester.path / "tests/test_mine.py").write_text(
        """
import pytest
from iserror.testing import assert_protocol_error, assert_tool_error
from served import guarded

@pytest.mark.parametrize("number", [1, 2])
def test_pay(number, call_tool, captured_failures):
    failure = assert_tool_error(call_tool(guarded, "pay", {"invoice": "7"}), code="TOOL_ERROR")
    assert_protocol_error(call_tool(guarded, "pai"), code=-32602)
    assert [line["code"] for line in captured_failures] == ["TOOL_ERROR", "UNKNOWN_TOOL"]
    assert captured_failures[0]["request_id"] == failure.request_id

def test_wrong(call_tool):
    assert_tool_error(call_tool(guarded, "pay", {"invoice": "7"}), code="NO_INVOICE")
"""
    )
    done = suite(
        'pythonpath = ["."]\niserror_servers = ["served.py:guarded"]\niserror_probe_all = true',
        "--tb=short",
        "-k",
        "pay or wrong or echo",
    )
    done.assert_outcomes(passed=3, failed=1, deselected=len(WITHOUT_CALLS) - 1)
    assert runs(pytester) == ["imported", *["paid 7"] * 3]  # the server that is checked is the one that is tested
    done.stdout.fnmatch_lines(
        [
            "tests/test_mine.py:*: in test_wrong",
            "    assert_tool_error(call_tool(guarded, *",
            "E   AssertionError: expected code 'NO_INVOICE', found 'TOOL_ERROR' in TOOL_ERROR: no invoice 7 *",
        ]
    )
    assert "asserts.py" not in done.stdout.str()


def test_the_billing_example(pytester: pytest.Pytester) -> None:
    """The tests of the example pass, and so does every check of its server, results included."""
    done = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", ROOT / "examples/billing")
    results = [check for check in CHECKS if check.startswith("results.")]
    done.assert_outcomes(passed=5 + len(WITHOUT_CALLS) + len(results))


def test_the_entry_point_is_declared() -> None:
    """Pytest finds the plugin where the package is installed."""
    declared = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\niserror = "iserror.testing.plugin"\n' in declared


def test_a_suite_that_does_not_use_it(pytester: pytest.Pytester) -> None:
    """With the plugin there and unused, pytest loads no host, nor what the library itself needs."""
    pytester.makepyfile(TEST)
    code = """
import sys, pytest
before = set(sys.modules)
assert pytest.main(['-q', '-p', 'iserror.testing.plugin']) == 0
print(sorted(name for name in set(sys.modules) - before if name.startswith(
    ('iserror', 'mcp', 'fastmcp', 'structlog', 'pydantic', 'anyio', 'asyncio'))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.stdout.splitlines()[-1:] == ["['iserror', 'iserror.testing', 'iserror.testing.plugin']"], done.stderr
