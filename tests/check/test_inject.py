"""`iserror check --inject` proves a guarded server on every host, runs no body, and finds what is broken on purpose."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gc
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
import pytest
from pydantic import Field, ValidationError

from iserror import ErrorMap, Redactor, ToolErrors, ToolFailure, configure_logging, configure_redaction, redact_text
from iserror.check import audit
from iserror.check.checks.arguments import fitting
from iserror.check.connection import GoneError
from iserror.check.memory import Memory, memory
from iserror.check.notes import CheckOptions
from iserror.check.plants import Plants
from iserror.check.session import Session
from iserror.check.target import Target
from iserror.cli import run as cli
from iserror.errors import problem, resolve
from iserror.errors.failure import Failure
from iserror.layers import report, run, toolrun, wire
from iserror.logs import chain
from iserror.logs.sink import FileSink
from iserror.support.causes import Group
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import HOST, IS_FASTMCP, ROOT, ProtocolError, ToolError
from tests.servers import injected_server
from tests.servers.injected_server import PAGED, RAN, attached, billing, decorated, small, tool_objects

pytestmark = [pytest.mark.host, pytest.mark.newest, pytest.mark.timeout(120)]

SERVER = ROOT / "tests" / "servers" / "injected_server.py"
# What is tried with every tool of an attached guard.
ALWAYS = {
    "crash",
    "secrets",
    "group",
    "SystemExit",
    "stray CancelledError",
    "protocol error",
    "cancelled by the client",
}
OUTPUT = "return value that breaks the output schema"


@pytest.fixture(autouse=True)
def _no_body_runs() -> Iterator[None]:
    """Whatever a test does, no body may have run, and no hook."""
    RAN.clear()
    PAGED.clear()
    yield
    assert RAN == []
    assert PAGED == []


def inject(server: Any, *calls: tuple[str, dict[str, Any]], steps: Callable[[str], None] = lambda step: None) -> Any:
    """Check a server object, and give what was found."""
    target = Target("memory", "server", lambda _: memory(server), server)
    return audit.check(target, CheckOptions(20, calls, inject=True), steps)


def keys(done: Any) -> set[tuple[str, str]]:
    """Check and place of each finding."""
    return {(check, where) for check, _, where in done.found}


# --- good servers --------------------------------------------------------------------------------------------


def test_the_billing_example() -> None:
    """The billing example comes out clean, and no tool of it is left out."""
    done = inject(billing())
    assert done.found == {}
    on_loop = {"a cancellation, since the host runs it on its event loop": ["find_invoices", "export_report"]}
    assert done.skipped == (on_loop if HOST == "mcp1" else {})


def test_an_attached_guard(lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tool gets every fault; nothing is found, no body or hook runs, and then all is as it was."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server, steps, sink = attached(), [], chain.State.file
    done = inject(server, steps=steps.append)

    assert done.found == {}
    tried: dict[str, set[str]] = {}
    for step in steps:
        tool, colon, fault = step.partition(" of ")[2].partition(", ")[2].partition(": ")
        if colon:
            tried.setdefault(tool, set()).add(fault)
    module = injected_server.__name__
    mapped = {f"{module}.{name}" for name in ("NotFound", "Busy", "Upstream")}
    mapped |= {"json.JSONDecodeError", "builtins.UnicodeDecodeError"}
    assert tried.pop("write") == {*ALWAYS, *mapped, "builtins.LookupError", OUTPUT}
    if IS_FASTMCP:
        assert tried.pop("items") == {*ALWAYS, *mapped}
    assert tried == {tool: {*ALWAYS, *mapped, OUTPUT} for tool in ("read", "plain", "bare", "month")}
    on_loop = "a cancellation, since the host runs it on its event loop"
    assert set(done.skipped) - {on_loop} == {
        "no_such_package.Error, since it can't be imported",
        f"{module}.Unmade, since it can't be constructed",
    }

    assert chain.State.file is sink
    assert lines.read() == []
    assert list(tmp_path.glob("iserror-inject-*")) == []
    assert (RAN, PAGED) == ([], [])

    async def use() -> None:
        async with hosts.in_memory(server) as call:
            answer = await call("read", {"item_id": "7"})
            failed = await call("read", {"item_id": "gone"})
        assert answer["result"]["structuredContent"] == {"id": "7", "size": 1}
        assert hosts.failure_of(failed)["code"] == "NOT_FOUND"

    anyio.run(use)
    assert (RAN, len(PAGED)) == (["read", "read"], 1)
    # `NotFound` has no known ids to name here.
    assert [line["event"] for line in lines.read()] == ["tool_failed", "template_value_missing"]
    RAN.clear()
    PAGED.clear()


def test_decorators_alone() -> None:
    """Tools with the decorator alone keep what it promises; the one without is found, and not called."""
    done = inject(decorated())
    assert set(done.found) == {("inject.unguarded", "forgotten", "")}


def test_tool_objects_of_any_class() -> None:
    """Mounted, renamed and transformed tools, and classes with a run method of their own, pass; a proxy is left out."""
    done = inject(tool_objects())
    assert done.found == {}
    left_out = done.skipped.get("fault injection, since its body can't be replaced (a proxy, or made for each call)")
    assert left_out == (["own_dispatch", "far_behind"] if IS_FASTMCP else None)


@pytest.mark.skipif(IS_FASTMCP, reason="fastmcp makes such tools itself: the proxy of the test before")
def test_a_tool_that_is_made_for_each_call() -> None:
    """A tool that the server makes anew is not called, since its body would run."""
    server = tool_objects()
    server.anew = True
    done = inject(server)
    (left_out,) = (tools for why, tools in done.skipped.items() if "can't be replaced" in why)
    assert left_out == ["derived"]


def test_arguments_that_no_schema_gives() -> None:
    """A tool whose arguments cannot be made up is named; with --call it is tried with those."""
    server = hosts.new_server("odd")
    ToolErrors().attach(server)

    @server.tool()
    def odd(code: Annotated[str, Field(pattern="^Q7[xyz]{3}$")]) -> str:
        RAN.append("odd")
        return code

    assert list(inject(server).skipped.values()) == [["odd"]]
    steps: list[str] = []
    done = inject(server, ("odd", {"code": "Q7xyz"}), ("gone", {}), steps=steps.append)
    assert (done.found, sum(" 1, odd: " in step for step in steps)) == ({}, len(ALWAYS) + 1)
    assert done.skipped["the call that you asked for, since there is no such tool"] == ["gone"]
    refused = inject(server, ("odd", {"code": 7}))
    assert [why.partition(" (")[0] for why in refused.skipped] == [
        "fault injection, since a call ended before its body"
    ]


# --- broken ones ---------------------------------------------------------------------------------------------


def _loses(monkeypatch: pytest.MonkeyPatch) -> None:
    write = FileSink.write
    monkeypatch.setattr(FileSink, "write", lambda s, b, c=None, **k: "" if "tool_failed" in b else write(s, b, c, **k))


def _twice(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = report.emit
    monkeypatch.setattr(report, "emit", lambda *a, **k: (emit(*a, **k), emit(*a, **k)))


def _no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    described = report.described
    monkeypatch.setattr(report, "described", lambda exc: [{**item, "frames": []} for item in described(exc)])


def _other_type(monkeypatch: pytest.MonkeyPatch) -> None:
    described = report.described
    monkeypatch.setattr(report, "described", lambda exc: [{**item, "type": "Exception"} for item in described(exc)])


def _no_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failure, "to_wire", lambda self: {})


def _other_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = problem.judge
    monkeypatch.setattr(problem, "judge", lambda **known: dataclasses.replace(judge(**known), outcome="applied"))


def _reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Failure.text.fget
    assert text is not None
    monkeypatch.setattr(Failure, "text", property(lambda self: f"Please retry. {text(self)}"))
    monkeypatch.setattr("iserror.check.checks.inject.Failure", _Unpatched)


def _hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Failure.text.fget
    assert text is not None
    monkeypatch.setattr(Failure, "text", property(lambda self: f"{text(self)}\u200b"))


def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    text = Failure.text.fget
    assert text is not None
    monkeypatch.setattr(Failure, "text", property(lambda self: text(self) + "." * 2_000))


def _protocol_as_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "protocol_error_data", lambda exc: None)


def _exits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((run, "must_pass"), (toolrun, "must_pass"), (wire, "ends_request")):
        passes = getattr(module, name)
        monkeypatch.setattr(module, name, lambda exc, passes=passes: isinstance(exc, SystemExit) or passes(exc))


def _silent_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "log_cancelled", lambda call: None)
    monkeypatch.setattr("iserror.check.checks.inject._LOGGED_WITHIN", 0.3)


class _Unpatched:
    """`Failure` as its module has it: its text is what the contract says."""

    text = Failure.text

    @staticmethod
    def model_validate(envelope: Any) -> Any:
        made = Failure.model_validate(envelope)
        lines = [f"{made.code}: {made.message}", *([made.hint] if made.hint else [])]
        text = "\n".join([*lines, f"[{made.tool} failed; {made.advice}; request_id: {made.request_id}]"])
        return type("Made", (), {"text": text})()


FAILURES = {"crash", "secrets", "group", "SystemExit", "stray CancelledError", OUTPUT}


def of(check: str, faults: set[str]) -> set[tuple[str, str]]:
    return {(check, fault) for fault in faults}


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[tuple[str, str]]]] = {
    "loses lines": (_loses, of("inject.log", FAILURES)),
    "writes lines twice": (_twice, of("inject.log", FAILURES | {"protocol error", "cancelled by the client"})),
    "no traceback": (_no_traceback, of("inject.log", FAILURES - {OUTPUT} | {"protocol error"})),
    "another type": (_other_type, of("inject.log", FAILURES - {OUTPUT, "group"} | {"protocol error"})),
    "no envelope": (_no_envelope, of("inject.code", FAILURES)),
    "another outcome": (_other_outcome, of("inject.code", FAILURES)),
    "reworded": (_reworded, of("inject.text", FAILURES)),
    "hidden characters": (_hidden, of("inject.text", FAILURES)),
    "too long": (_long, of("inject.text", FAILURES)),
    "a protocol error as a result": (
        _protocol_as_result,
        {("inject.channel", "protocol error"), ("inject.log", "protocol error")},
    ),
    "an exit that passes": (_exits, {("session.died", "SystemExit")}),
    "a cancellation not logged": (_silent_cancel, of("inject.log", {"cancelled by the client"})),
}


# What the SDK had open when its thread ended is collected some time.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_found(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is broken in the guard is a finding of its own check, at just the faults that show it."""
    break_it, expected = BROKEN[how]
    server = small()
    break_it(monkeypatch)
    found = keys(inject(server))
    gc.collect()  # here, where the warnings of it count for nothing
    assert found == expected


def test_a_cancellation_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is answered though its client cancelled it is found, by the answer and by its log line."""

    async def cancel(session: Session) -> None:
        pass  # the server never hears of it

    monkeypatch.setattr(Session, "cancel", cancel)
    server = hosts.new_server("plain")
    ToolErrors().attach(server)

    @server.tool()
    def plain() -> str:
        RAN.append("plain")
        return ""

    expected = {("inject.channel", "cancelled by the client"), ("inject.log", "cancelled by the client")}
    assert keys(inject(server)) == (set() if HOST == "mcp1" else expected)  # which runs it on its loop: not tried


def test_decorators_that_reword(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `attach` the text is all there is: one that is not the contract's is found."""
    text = ToolFailure.raised_for
    server = hosts.new_server("decorated")

    @server.tool()
    @ToolErrors()
    async def do() -> str:
        RAN.append("do")
        return ""

    def raised_for(*args: Any) -> ToolFailure:
        made = text(*args)
        made.args = (f"{made.args[0]} Please retry.",)
        return made

    monkeypatch.setattr(ToolFailure, "raised_for", raised_for)
    assert keys(inject(server)) == of("inject.text", FAILURES - {OUTPUT})


def test_a_map_that_vouches_for_what_an_exception_holds() -> None:
    """A `safe=` attribute shows whatever stands in it: that is found, and not repeated."""
    done = inject(injected_server.vouching())
    (finding,) = done.found.values()
    where = f"{injected_server.__name__}.NotFound"
    assert (finding.check, finding.where) == ("inject.leak", where)
    assert finding.seen.startswith("password of a DSN, bearer token, ")
    assert finding.seen.endswith(" in the answer (the map marks item_id as safe)")


def test_a_redactor_without_rules() -> None:
    """What no rule takes out is found: in answers, wherever a template reads it, and in every log line."""
    configure_redaction(Redactor(()))
    module = injected_server.__name__
    told = {f"{module}.NotFound", f"{module}.Upstream", "json.JSONDecodeError", "protocol error"}
    untold = {f"{module}.Busy", "builtins.UnicodeDecodeError"}
    logged = {*told, *untold, "secrets", "group", "SystemExit", "stray CancelledError"}
    # Some hosts' validators quote the value, which is for the log only.
    found = keys(inject(small(injected_server.errors()))) - of("inject.leak", {f"{OUTPUT}, log"})
    assert found == of("inject.leak", told | {f"{fault}, log" for fault in logged})


def test_a_list_in_a_template() -> None:
    """An attribute that is a list is planted as one."""
    configure_redaction(Redactor(()))
    assert ("inject.leak", "builtins.LookupError") in keys(inject(small(injected_server.own_errors())))


def test_a_map_of_special_classes() -> None:
    """A catch-all, groups and the host's own refusals come out as the map says; what it cannot speak for is named."""
    errors = ErrorMap()
    kinds = [Exception, type(Group("", [ValueError()])), ToolError, ValidationError, ProtocolError, ToolFailure]
    for number, kind in enumerate(kinds):
        errors.add(kind, code=f"CODE_{number}", category="internal", message="It said {exc.args}.")
    done = inject(small(errors))
    assert done.found == {}
    module, name = ProtocolError.__module__, ProtocolError.__qualname__
    special = "since its entry applies only if an SDK raised it"
    assert set(done.skipped) == {
        "pydantic_core._pydantic_core.ValidationError, since it can't be constructed",
        f"{module}.{name}, {special}",
        f"iserror.ToolFailure, {special}",
    }


def test_a_map_that_speaks_for_every_exception() -> None:
    """With a catch-all, whatever is raised comes out by its code, a group too."""
    errors = ErrorMap()
    errors.add(Exception, code="ANYTHING", category="internal", message="It failed.", retryable=True)
    errors.add(LookupError, code="NO_ROW", category="internal", message="No row.")
    assert inject(small(errors)).found == {}


def test_a_server_that_answers_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers a fault, and nothing after it, is found at that fault."""

    async def ping(session: Session) -> None:
        monkeypatch.undo()
        raise GoneError("died", "it stopped serving")

    monkeypatch.setattr(Session, "ping", ping)
    assert keys(inject(small())) == {("session.died", "crash")}


@pytest.mark.anyio
async def test_a_server_that_has_ended() -> None:
    """Nothing is run on the loop of a server that has ended."""

    async def work() -> None:
        raise AssertionError("it ran")

    async with memory(small()) as wire:
        assert isinstance(wire, Memory)
        await wire.started.wait()
        wire.close()
        await anyio.to_thread.run_sync(wire.thread.join)
        with pytest.raises(GoneError):
            await wire.inside(work, 5)


def test_an_envelope_that_breaks_the_output_schema() -> None:
    """`structured="always"` puts the envelope where clients look for the tool's output, and is found."""
    assert set(inject(small(structured="always")).found) == {("results.output_schema", "do", "")}


def test_a_map_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped exception that comes out as a crash is found by its code, and so is the line that says the same."""
    monkeypatch.setattr(toolrun, "resolve", lambda exc, maps: problem.crash(exc))
    monkeypatch.setattr(run, "resolve", lambda exc, maps: problem.crash(exc))
    done = inject(small(injected_server.own_errors()))
    assert {key for key in keys(done) if "LookupError" in key[1]} == {
        ("inject.code", "builtins.LookupError"),
        ("inject.log", "builtins.LookupError"),
    }


# --- parts ---------------------------------------------------------------------------------------------------


def test_planted_words_in_disguise() -> None:
    """A planted word is found in part, in capitals, backwards, in base64 at any alignment and in hexadecimal."""
    plant = Plants().found[0]
    word = plant.word.encode()
    disguises = [plant.word[3:11], plant.word.upper(), plant.word[::-1], word.hex().upper()]
    disguises += [base64.b64encode(before + word + b"?").decode() for before in (b"", b"a", b"ab", b"abc")]
    assert [shown for shown in disguises if not plant.is_in(f"it said {shown}!")] == []
    assert not plant.is_in(f"it said {plant.word[:7]}! {Plants().found[0].word}")


def test_the_redactor_knows_what_is_planted() -> None:
    """Each planted text but the unknown ones is taken out of every text for a client: none is found by chance."""
    for _ in range(50):
        plants = Plants()
        assert plants.sent([redact_text(plants.text), *(redact_text(plant.text) for plant in plants.found)]) == []
        assert plants.logged([redact_text(plants.everything, profile="log")]) == []


def prop(**kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"it": kind}, "required": ["it"]}


SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    ({"type": "object", "properties": {"not_required": {"type": "string"}}}, {}),
    (prop(type="string", minLength=3), {"it": "2026-01-01T00:00:00Z"}),
    (prop(type="string", format="uuid"), {"it": "00000000-0000-4000-8000-000000000000"}),
    (prop(type="string", pattern=r"^[A-Z]{3}$"), {"it": "EUR"}),
    (prop(type="string", pattern="^(?!)"), None),
    (prop(type="integer", exclusiveMinimum=41, maximum=50), {"it": 42}),
    (prop(type="number", multipleOf=7), {"it": 0}),
    (prop(type="number", minimum=4, maximum=3), None),
    (prop(type="boolean"), {"it": False}),
    (prop(enum=["b", "c"]), {"it": "b"}),
    (prop(const=4), {"it": 4}),
    (prop(anyOf=[{"type": "string", "pattern": "^(?!)"}, {"type": "null"}]), {"it": None}),
    (prop(type="array", minItems=2, items=prop(type="integer")), {"it": [{"it": 1}, {"it": 1}]}),
    (prop(type="string", examples=["ex"], default="de"), {"it": "ex"}),
    ({**prop(type="string"), "examples": [{"it": "whole"}]}, {"it": "whole"}),
    ({**prop(**{"$ref": "#/$defs/Node"}), "$defs": {"Node": prop(**{"$ref": "#/$defs/Node"})}}, None),
    ({**prop(**{"$ref": "#/$defs/Id"}), "$defs": {"Id": {"type": "integer"}}}, {"it": 1}),
    ({"type": "object", "required": 7}, None),
]


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_arguments_that_fit(schema: dict[str, Any], expected: Any) -> None:
    """The fewest arguments of a schema are found, or none where nothing is sure to fit."""
    assert fitting(schema) == expected


# --- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in this process."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setattr(signal, "signal", lambda *args: None)  # not of this process's own
    return lambda *arguments: cli.main(["check", "--inject", *arguments])


def test_exit_codes(command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """0 for a clean server, 1 for a finding, which a baseline accepts; a sentence and 2 for one without a guard."""
    assert command("--json", f"{SERVER}:small") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    accepted, leaking = str(tmp_path / "accepted.json"), f"{SERVER}:vouching"
    assert command("--write-baseline", accepted, "--format", "github", leaking) == 0
    assert command("--json", "--baseline", accepted, leaking) == 0
    capsys.readouterr()
    assert command("--format", "github", leaking) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(
        "::error file=tests/servers/injected_server.py,title=iserror inject.leak::do: password of a DSN"
    )
    for arguments, said in (
        ([f"{SERVER}:bare"], "no tool has a guard: use guard.attach(server), and check again"),
        (["--", "true"], "faults are injected in memory only: name a server as module:object or file.py:object"),
        (["--read-only", f"{SERVER}:bare"], "give --inject or --read-only, not both"),
    ):
        assert command(*arguments) == 2
        assert capsys.readouterr() == ("", f"iserror: {said}\n")


def test_a_server_that_configures_its_log_when_it_starts(tmp_path: Path) -> None:
    """A lifespan that configures a log gets none of the injected failures into it."""

    @contextlib.asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        configure_logging(tmp_path / "theirs")
        yield

    server = hosts.new_server("logs", lifespan=lifespan)
    ToolErrors().attach(server)

    @server.tool()
    async def late() -> str:
        RAN.append("late")
        return ""

    assert inject(server).found == {}
    assert Lines(tmp_path / "theirs").read() == []
