"""`iserror check` finds what it should on every host and over every transport, runs no tool, and shows no secret."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iserror.check.checks.arguments import NO_SUCH_PROBE
from tests.check.commands import Done, process
from tests.helpers.hosts import HOST, IS_FASTMCP, MCP, MODERN, ROOT, free_port, serving_http
from tests.servers.checked_server import PASSWORD

pytestmark = [pytest.mark.host, pytest.mark.newest]

SERVER = ROOT / "tests" / "servers" / "checked_server.py"

Keys = set[tuple[str, str]]

EVERYWHERE: Keys = {("channels.unknown_tool", "")} | {
    (check, tool)
    for check in ("arguments.echo", "arguments.channel")
    for tool in ("pay", "read_one", "read_other", "every_type")
}
EXCEPTION_TEXT: Keys = {
    ("leaks.secret", "crash"),
    ("leaks.insides", "crash"),
    ("results.exception_text", "crash"),
    ("results.exception_text", "protocol"),
}
OF_BODIES: dict[str, Keys] = {
    "mcp1": EXCEPTION_TEXT | {("results.validator_text", "rejected")},
    "mcp2": set(),
    "fastmcp3": EXCEPTION_TEXT | {("results.validator_text", "rejected")},
    "fastmcp4": EXCEPTION_TEXT,
}
if HOST == "mcp2" and MCP[:2] == (2, 0):  # later ones withhold the text of a crash, and keep a returned error
    OF_BODIES["mcp2"] = OF_BODIES["mcp1"] - {("results.exception_text", "protocol")}
# What only a server object shows.
UNGUARDED: Keys = {
    ("coverage.unguarded", tool)
    for tool in ("crash", "every_type", "pay", "protocol", "read", "read_one", "read_other", "rejected", "undecodable")
}
CALLS = ("--call", "crash={}", "--call", "protocol={}", "--call", "rejected={}", "--call", 'pay={"amount": 7}')


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the checked server notes what ran."""
    monkeypatch.setenv("CHECK_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def found(run: Callable[..., Done], *arguments: str) -> Keys:
    """Check and tool of each finding."""
    done = run("--json", "--timeout", "20", *arguments)
    assert done.returncode in (0, 1), done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert (done.returncode == 1) == bool(findings)
    shown = done.stdout + done.stderr
    assert PASSWORD not in shown
    assert re.search("canary[0-9a-f]", shown) is None
    return {(finding["check"], finding["tool"]) for finding in findings}


# --- the hosts -----------------------------------------------------------------------------------------------


def test_bare_in_memory(run: Callable[..., Done], runs: Path) -> None:
    """On a bare server every bold cell of the contract's section 6 is found, and a tool that is called runs once."""
    assert found(run, *CALLS, f"{SERVER}:bare") == EVERYWHERE | OF_BODIES[HOST] | UNGUARDED
    assert sorted(runs.read_text().split()) == ["crash", "pay", "protocol", "rejected"]


def test_attached_in_memory(run: Callable[..., Done]) -> None:
    """On the same server with a guard nothing is found."""
    assert found(run, *CALLS, f"{SERVER}:attached") == set()


of_an_sdk = pytest.mark.skipif(IS_FASTMCP, reason="its transports are the SDK's, and tested there")


@of_an_sdk
@pytest.mark.timeout(200)  # a process for each revision
def test_bare_over_stdio(runs: Path) -> None:
    """Over stdio the same is found as in memory."""
    command = ("--", sys.executable, str(SERVER))
    assert found(process, *CALLS, "--probe-all", *command) == EVERYWHERE | OF_BODIES[HOST]
    assert sorted(runs.read_text().split()) == ["crash", "pay", "protocol", "rejected"]


@of_an_sdk
@pytest.mark.parametrize(("transport", "path", "attach"), [("http", "mcp", True), ("sse", "sse", False)])
def test_over_http(transport: str, path: str, attach: bool, run: Callable[..., Done]) -> None:
    """Over SSE the same is found as over stdio, and over streamable HTTP nothing on a guarded server."""
    port = free_port()
    with serving_http("tests/servers/checked_server.py", port, *(["--attach"] if attach else []), f"--{transport}"):
        keys = found(run, *CALLS, "--probe-all", f"http://127.0.0.1:{port}/{path}")
    assert keys == (set() if attach else EVERYWHERE | OF_BODIES[HOST])


def test_no_tool_runs(run: Callable[..., Done], runs: Path) -> None:
    """In memory every tool is probed and none runs; each revision is checked, and judges arguments by itself."""
    document = json.loads(run("--json", "--probe", "nothing", f"{SERVER}:bare").stdout)
    assert {(finding["check"], finding["tool"]) for finding in document["findings"]} == EVERYWHERE | UNGUARDED
    assert not runs.exists()
    spoken = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert document["revisions"] == (["2026-07-28"] if MODERN else []) + spoken
    channel = next(f for f in document["findings"] if f["check"] == "arguments.channel")
    assert channel["revisions"] == ["2025-06-18", "2025-03-26", "2024-11-05"]
    assert document["not_checked"][NO_SUCH_PROBE] == ["nothing"]
    assert document["not_probed"] == 0


def test_read_only(run: Callable[..., Done], runs: Path) -> None:
    """With --read-only the tools that say so run once, with the schema's examples; one without examples does not."""
    done = run("--json", "--read-only", f"{SERVER}:attached")
    assert runs.read_text().splitlines() == ["read", "read_one INV-1"]
    document = json.loads(done.stdout)
    assert document["findings"] == []
    assert document["not_checked"]["its result, since the schema has no examples of what it requires"] == ["read_other"]


def test_what_is_not_utf8_in_memory(run: Callable[..., Done]) -> None:
    """A text that a transport could not send is found in memory, too. A guard makes it one that can be sent."""
    undecodable = ("results.undecodable", "undecodable")
    assert undecodable in found(run, "--call", "undecodable={}", f"{SERVER}:bare")
    assert undecodable not in found(run, "--call", "undecodable={}", f"{SERVER}:attached")


def test_a_tool_that_blocks_its_loop(tmp_path: Path) -> None:
    """In memory, a tool that never returns is a finding, and the command ends."""
    path = tmp_path / "blocks.py"
    path.write_text(
        f"import sys, time\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.helpers.hosts import new_server\n"
        "server = new_server()\n\n\n@server.tool()\ndef wait() -> str:\n    time.sleep(600)\n    return ''\n"
    )
    done = process("--json", "--timeout", "3", "--call", "wait={}", f"{path}:server")
    assert ("session.timeout", "wait") in {(f["check"], f["tool"]) for f in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1


# --- coverage ------------------------------------------------------------------------------------------------

COVERED = ROOT / "tests" / "servers" / "covered_server.py"


def gaps(run: Callable[..., Done], factory: str) -> list[tuple[str, str, str]]:
    """What the coverage checks find: the check without its group, the tool, and where."""
    found = json.loads(run("--json", f"{COVERED}:{factory}").stdout)["findings"]
    split = [(*f["check"].split("."), f["tool"], f["where"]) for f in found]
    return sorted((check, tool, where) for group, check, tool, where in split if group == "coverage")


MISNAMED = [("unraised_entry", "", f"json.{name}") for name in ("NoSuchError", "dumps")]
UNRAISED = [("unraised_entry", "", f"covered_server.{name}") for name in ("Caught", "Given")]


def test_what_is_not_guarded(run: Callable[..., Done]) -> None:
    """Tools without a guard, a guard in the wrong place, unknown exceptions and entries that nothing raises."""
    assert gaps(run, "decorated") == [
        ("decorator_order", "wrong_order", ""),
        ("unguarded", "bare", ""),
        ("unmapped_exception", "", "covered_server.Locked"),
        *UNRAISED,
        *MISNAMED,
        ("unraised_entry", "", "no_such_library.Error"),
        ("unraised_entry", "good", "json.NoSuchErrorEither"),
    ]


def test_what_cannot_be_made_json(run: Callable[..., Done]) -> None:
    """A return type that no JSON can be made of; under an attached guard the decorators' order does not matter."""
    # What a host itself refuses to register is not there.
    others = (
        {"handles": "covered_server.Handle", "point": "covered_server.Point"}
        if IS_FASTMCP
        else {"function": "collections.abc.Callable[..., int]"}
    )
    assert gaps(run, "attached") == [
        *sorted(("output_type", *other) for other in {"handle": "covered_server.Handle", **others}.items()),
        ("unmapped_exception", "", "covered_server.Locked"),
        ("unmapped_exception", "", "covered_server.Refused"),
        *UNRAISED,
        *MISNAMED,
        ("unraised_entry", "", "no_such_library.Error"),
    ]


def test_no_gaps(run: Callable[..., Done]) -> None:
    """A server whose every tool and exception is covered has no finding."""
    assert gaps(run, "good") == []


ERRORS = """
from dataclasses import dataclass


class Named(Exception): ...
class Dotted(Exception): ...
class Late(Exception): ...
class Made(Exception):
    @classmethod
    def of(cls, number): return cls(number)
class Caught(Exception): ...
class Unused(Exception): ...
class NotFound(Exception):
    def __init__(self, item_id):
        super().__init__(item_id)
        self.item_id = item_id
class Deeper(NotFound):
    def __init__(self):
        super().__init__("7")
        self.depth = 1
@dataclass
class Fields(Exception):
    amount: int
class Slots(Exception):
    __slots__ = ("left",)
class Property(Exception):
    @property
    def total(self): return 7
class Outside(Exception): ...
class Anything(Exception):
    def __getattr__(self, name): return name
class Updated(Exception):
    def __init__(self, **more): self.__dict__.update(more)
class Decorated(Exception): ...
"""
LAID_OUT = """
import sqlite3
from tests.helpers import hosts
from iserror import ErrorMap, ToolErrors
{imports}

entries = ErrorMap()
def add(kind, message, **more):
    entries.add(kind, code=kind.__name__.upper(), category="not_found", message=message, **more)
add(errors.NotFound, "No {{exc.itme_id}}.", hint="Look at {{exc.depth}}.")
add(errors.Deeper, "No {{exc.item_id}} in {{exc.depth}}, {{exc.args}}.")
add(errors.Fields, "Not {{exc.amount}}, {{exc.amuont}}.")
add(errors.Slots, "Not {{exc.left}}, {{exc.lfet}}.")
add(errors.Property, "Not {{exc.total}}.", details={{"sum": "totla.value"}})
add(errors.Outside, "Not {{exc.later}}, {{exc.laterr}}.")
add(errors.Anything, "Not {{exc.this}}.")
add(errors.Updated, "Not {{exc.this}}.")
server = hosts.new_server("laid out")
ToolErrors(entries).attach(server)


@server.tool()
def tool(n: int) -> str:
    {late}
    try:
        raise sqlite3.OperationalError if n else Named
    except Caught as exc:
        raise errors.Dotted("x") from exc
    made = errors.Outside()
    made.later = 7
    if n > 3:
        raise Late()
    raise errors.Made.of(7)
"""


@pytest.fixture(params=["modules", "package"])
def laid_out(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server whose exceptions are in a module of their own, beside its own: the target that names it."""
    name, dot = f"laid_out_{request.param}", "." if request.param == "package" else ""
    folder = tmp_path / name if dot else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text("") if dot else None
    module = "errors" if dot else f"{name}_errors"
    late = f"from {dot}{module} import Late"
    imports = "from . import errors" if dot else f"import {module} as errors"
    imports += f"\nfrom {dot}{module} import Caught, Named"
    (folder / f"{module}.py").write_text(ERRORS)
    (folder / f"{name}.py").write_text(LAID_OUT.format(imports=imports, late=late))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield f"{name}.{name}:server" if dot else f"{name}:server"
    for added in set(sys.modules) - before:
        if added.startswith("laid_out_"):
            del sys.modules[added]


def test_exceptions_of_a_module_of_their_own(laid_out: str, run: Callable[..., Done]) -> None:
    """What the tool raises is found wherever the user's own code defines it, and so is a misspelt attribute."""
    found = json.loads(run("--json", laid_out).stdout)["findings"]
    raised = {f["where"].rpartition(".")[2] for f in found if f["check"] == "coverage.unmapped_exception"}
    assert raised == {"Named", "Dotted", "Late", "Made"}
    misspelt = {f["seen"] for f in found if f["check"] == "coverage.template_attribute"}
    assert {seen.partition(": ")[0] for seen in misspelt} == {
        "NOTFOUND reads {exc.itme_id}",
        "FIELDS reads {exc.amuont}",
        "SLOTS reads {exc.lfet}",
        "PROPERTY reads {exc.totla.value}",
        "OUTSIDE reads {exc.laterr}",
    }
    assert any(seen.endswith("has no attribute 'itme_id', only 'item_id'") for seen in misspelt)


def test_injected_exceptions_without_a_value(laid_out: str, run: Callable[..., Done]) -> None:
    """Where a template can't have its value, the injected exception has none either, and that is found."""
    found = json.loads(run("--inject", "--json", laid_out).stdout)["findings"]
    assert {f["check"] for f in found} == {"inject.template"}
    assert {f["where"].rpartition(".")[2] for f in found} == {"NotFound", "Fields", "Slots", "Property", "Outside"}


@pytest.mark.parametrize(("factory", "tool"), [("attached", "read_other"), ("bare", "read_one")])
def test_the_guards_own_predicate(factory: str, tool: str, run: Callable[..., Done]) -> None:
    """An attached guard's own predicate tells whether a success reads like an error, else the default one."""
    calls = ("--call", 'read_one={"id": "7"}', "--call", 'read_other={"id": "Refused."}')
    keys = found(run, *calls, f"{SERVER}:{factory}")
    assert {key for key in keys if key[0].startswith("results.")} == {("results.error_shaped_success", tool)}


def test_remedies_on_a_guarded_server(run: Callable[..., Done]) -> None:
    """No finding on a server with a guard is told to attach one, in memory or over the wire."""
    over_stdio = [] if IS_FASTMCP else [(process, ("--", sys.executable, str(SERVER), "--loose"))]
    for how, target in [(run, (f"{SERVER}:loose",)), *over_stdio]:
        document = json.loads(how("--json", "--probe-all", *target).stdout)
        found = {f["check"]: f["remedy"] for f in document["findings"]}
        assert "arguments.channel" in found
        assert [remedy for remedy in found.values() if "attach" in remedy] == []
