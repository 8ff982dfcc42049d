"""An agent's calls over real connections: the same outcome through every client library and transport."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iserror import configure_logging, logs
from iserror.client import (
    CallOutcome,
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolCaller,
    ToolFailed,
    UrlElicitationRequired,
    classify,
)
from iserror.client.session import list_tools
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, ON_SDK_1

pytestmark = [pytest.mark.host, pytest.mark.newest]

SCRIPT = "tests/servers/calls_server.py"
RAW = "tests/servers/raw_server.py"
CLIENTS = ["sdk", "fastmcp"] if IS_FASTMCP else ["sdk"]
QUICK: dict[str, Any] = {"backoff": 0.01}


class Connected:
    """A client's session, the notes of the server behind it since then."""

    def __init__(self, session: Any, notes: Path) -> None:
        self.session = session
        self.notes = notes
        self._before = len(notes.read_text().splitlines())

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines()[self._before :]

    def runs(self, tool: str) -> int:
        return sum(line.split()[0] == tool for line in self.lines())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path, Path]]:
    """A server over HTTP for many tests: port, notes and log. A process of its own: a process has one log."""
    folder, port = tmp_path_factory.mktemp("shared"), hosts.free_port()
    notes, log = folder / "notes.txt", folder / "log"
    notes.touch()
    with hosts.serving_http(SCRIPT, port, str(notes), "--log", str(log)):
        yield port, notes, log


@contextlib.asynccontextmanager
async def to(shared: tuple[int, Path, Path], client: str) -> AsyncIterator[Connected]:
    """Connect a client to the shared server."""
    port, notes, _ = shared
    async with getattr(hosts, f"{client}_http")(f"http://127.0.0.1:{port}/mcp") as session:
        yield Connected(session, notes)


@pytest.fixture
def reach(shared: tuple[int, Path, Path], tmp_path: Path) -> Any:
    """Connects a client to the server: over HTTP to the shared one, over stdio to one of its own."""

    def reached(client: str, transport: str, *more: str) -> Any:
        return to(shared, client) if transport == "http" else connected(client, transport, tmp_path, *more)

    return reached


@contextlib.asynccontextmanager
async def connected(
    client: str, transport: str, folder: Path, *more: str, script: str = SCRIPT
) -> AsyncIterator[Connected]:
    """Start the server and connect a client to it."""
    notes = folder / "notes.txt"
    notes.touch()
    if transport == "stdio":
        async with getattr(hosts, f"{client}_stdio")(script, str(notes), *more) as session:
            yield Connected(session, notes)
        return
    port = hosts.free_port()
    with hosts.serving_http(script, port, str(notes), *more):
        async with getattr(hosts, f"{client}_http")(f"http://127.0.0.1:{port}/mcp") as session:
            yield Connected(session, notes)


def plain(outcome: CallOutcome) -> CallOutcome:
    """The outcome without ids, and without what a host puts into `_meta` and its JSON's white space."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "0" * 32, repr(outcome.report))
    if isinstance(outcome, ToolFailed):
        assert outcome.failure is not None
        failure = outcome.failure.model_copy(update={"request_id": "0" * 32, "trace_id": None})
        return ToolFailed(failure, ({"type": "text", "text": text},), attempts=outcome.attempts)
    if isinstance(outcome, Succeeded):
        return replace(outcome, content=(), meta={})
    if isinstance(outcome, ProtocolFailed):
        assert outcome.request_id is not None
        return replace(outcome, data=None)
    return outcome


# --- the same through every client ---------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_every_client_says_the_same(client: str, transport: str, reach: Any) -> None:
    """The same failure gives the same outcome through each client library over each transport."""
    async with reach(client, transport) as on:
        caller = ToolCaller(on.session, **QUICK)
        said = {
            tool: plain(await caller.call(tool, arguments))
            for tool, arguments in (
                ("answer", {}),
                ("refused", {}),
                ("busy", {"times": 1, "key": f"same-{client}"}),
                ("crash", {}),
                ("on_purpose", {}),
                ("anser", {}),
            )
        }

    assert said["answer"] == Succeeded((), {"id": 7})
    assert said["busy"] == Succeeded((), {"result": "done"}, attempts=2)
    assert said["on_purpose"] == ProtocolFailed(-32000, "the session has no workspace")
    assert said["anser"] == ProtocolFailed(-32602, "Unknown tool: anser", closest=("answer",))
    refused, crashed = said["refused"], said["crash"]
    assert isinstance(refused, ToolFailed)
    assert isinstance(crashed, ToolFailed)
    assert refused.failure is not None
    assert refused.failure.to_wire() == {
        "code": "NOT_ALLOWED",
        "message": "This account is closed.",
        "hint": "Tell the user.",
        "advice": "stop and tell the user",
        "retryable": False,
        "outcome": "not_applied",
        "category": "permission_denied",
        "tool": "refused",
        "request_id": "0" * 32,
    }
    assert "stop and tell the user" in refused.text
    assert (crashed.code, crashed.retryable, crashed.attempts) == ("INTERNAL_ERROR", False, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_bare_server(client: str, tmp_path: Path) -> None:
    """A server that speaks no envelope fails all the same: words kept, no code, and nothing is repeated."""
    async with connected(client, "stdio", tmp_path, "--bare") as on:
        outcome = await ToolCaller(on.session, **QUICK).call("busy", {"times": 1})
        runs = on.runs("busy")

    assert isinstance(outcome, ToolFailed)
    assert (outcome.failure, outcome.code, outcome.retryable) == (None, None, None)
    assert outcome.text
    assert (outcome.attempts, runs) == (1, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_server_that_dies(client: str, tmp_path: Path) -> None:
    """A connection that breaks in the middle of a write leaves its outcome unknown, and it is not sent again."""
    async with connected(client, "stdio", tmp_path) as on:
        caller = ToolCaller(on.session, **QUICK)
        outcome = await caller.call("die")
        after = await caller.call("answer")
        runs = on.runs("die")

    assert isinstance(outcome, OutcomeUnknown)
    assert (outcome.reason, outcome.repeatable, outcome.attempts, runs) == ("connection", False, 1, 1)
    assert "may have taken effect" in outcome.report
    # A client that knows that it is closed sends nothing; another one cannot tell.
    assert isinstance(after, (NotSent, OutcomeUnknown))


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_time_runs_out(client: str, transport: str, reach: Any) -> None:
    """Out of time, a write is sent once; a read, which its annotations say it is, as often as allowed."""
    async with reach(client, transport) as on:
        caller = ToolCaller(on.session, tools=await list_tools(on.session), timeout=0.4, max_attempts=2, **QUICK)
        write = await caller.call("slow_write", {"seconds": 30})
        read = await caller.call("slow_read", {"seconds": 30})
        runs = on.runs("slow_write"), on.runs("slow_read")

    assert write == OutcomeUnknown("timeout", "nothing within 0.4 s.", repeatable=False, attempts=1)
    assert read == OutcomeUnknown("timeout", "nothing within 0.4 s.", repeatable=True, attempts=2)
    assert runs == (1, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_key_makes_a_write_repeatable(client: str, shared: tuple[int, Path, Path]) -> None:
    """With an idempotency key, the caller's own, a write whose outcome is unknown is repeated, with the same key."""
    async with to(shared, client) as on:
        tools, keys = await list_tools(on.session), {"slow_write": "key"}
        caller = ToolCaller(on.session, tools=tools, timeout=0.4, max_attempts=2, idempotency_keys=keys, **QUICK)
        first = await caller.call("slow_write", {"seconds": 30})
        again = await caller.call("slow_write", {"seconds": 30})
        sent = [line.split()[1] for line in on.lines() if line.startswith("slow_write")]

    assert isinstance(first, OutcomeUnknown)
    assert (first.repeatable, first.attempts) == (True, 2)
    assert isinstance(again, OutcomeUnknown)
    assert again.attempts == 2
    assert sent == [first.idempotency_key] * 4
    assert re.fullmatch("[0-9a-f]{32}", sent[0])


ODD: dict[str, type] = {
    "ok": Succeeded,
    "failed": ToolFailed,
    "null_flag": ContractBroken,
    "hologram": ContractBroken,
    "no_content": ContractBroken,
    "bad_structure": ContractBroken,
    "no_structure": ContractBroken,
    "bad_schema": ContractBroken,
    "sign_in": UrlElicitationRequired,
    "bank": ProtocolFailed,
    "date": ProtocolFailed,
    "job": ProtocolFailed,
}


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_odd_answers(client: str, transport: str, tmp_path: Path) -> None:
    """What a server sends that no SDK would send comes out as what it is, through every client, and is sent once."""
    async with connected(client, transport, tmp_path, script=RAW) as on:
        caller = ToolCaller(on.session, timeout=5, **QUICK)
        outcomes = {name: await caller.call(name) for name in ODD}
        runs = on.notes.read_text().split()

    assert {name: type(outcome) for name, outcome in outcomes.items()} == ODD
    assert runs == list(ODD)
    assert "before the payment was made" in outcomes["bank"].report
    assert "may have taken effect" in outcomes["bank"].report
    assert "2026-13-01" in outcomes["date"].report
    assert "may have taken effect" not in outcomes["date"].report


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_success_that_cannot_be_checked(client: str, tmp_path: Path) -> None:
    """A write that succeeded is not said to have failed because the client's own request for its schema does."""
    async with connected(client, "stdio", tmp_path, "--no-list", script=RAW) as on:
        outcome = await ToolCaller(on.session, **QUICK).call("ok")
        runs = on.runs("ok")

    assert isinstance(outcome, ContractBroken)
    assert "may have taken effect" in outcome.report
    assert runs == 1


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_lost_call_is_not_said_to_be_unsent(client: str, tmp_path: Path) -> None:
    """If the repeats of a call that got no answer cannot be sent, the call is a lost one still, or a read."""
    async with connected(client, "stdio", tmp_path, script=RAW) as on:
        caller = ToolCaller(on.session, timeout=5, **QUICK)
        read = await caller.call("closes_read")
        runs = on.runs("closes_read")

    assert runs == 1
    assert isinstance(read, (OutcomeUnknown, NotSent))
    assert read.attempts > 1


@pytest.mark.anyio
@pytest.mark.parametrize("status", [401, 429, 500, 502])
@pytest.mark.parametrize("client", CLIENTS)
async def test_http_statuses(client: str, status: int, tmp_path: Path) -> None:
    """A status in place of an answer is no result: refused where the client tells it, else unknown; never repeated."""
    outcome: CallOutcome
    try:
        async with connected(client, "http", tmp_path, script=RAW) as on:
            outcome = await ToolCaller(on.session, timeout=5, **QUICK).call(f"http{status}")
    except Exception as exc:  # some clients end their whole block
        outcome = classify(exc)
    runs = (tmp_path / "notes.txt").read_text().split()

    assert isinstance(outcome, OutcomeUnknown if status >= 500 else (ProtocolFailed, OutcomeUnknown))
    assert "internal" not in outcome.report
    assert runs == [f"http{status}"]


# --- the log -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_one_trace_through_both_logs(
    client: str, transport: str, reach: Any, shared: tuple[int, Path, Path], tmp_path: Path
) -> None:
    """Both sides' lines are found by the server's request id, and carry the run's trace id; the run has its own id."""
    server_logs, own_logs = shared[2] if transport == "http" else tmp_path / "server", tmp_path / "own"
    configure_logging(own_logs, stderr=False)
    run_trace = "0af7651916cd43dd8448eb211c80319c"
    async with reach(client, transport, "--log", str(server_logs)) as on:
        caller = ToolCaller(on.session, run_id="run-1", traceparent=f"00-{run_trace}-b7ad6b7169203331-01", **QUICK)
        refused = await caller.call("refused")
        busy = await caller.call("busy", {"times": 1, "key": f"trace-{client}"})

    assert refused.request_id is not None
    (theirs,) = logs.find(refused.request_id, server_logs)
    (ours,) = logs.find(refused.request_id, own_logs)
    assert theirs["trace_id"] == ours["trace_id"] == run_trace
    assert theirs["event"] == "tool_failed"
    shown = {key: value for key, value in ours.items() if key not in ("timestamp", "duration_ms", "fingerprint")}
    assert shown == {
        "level": "warning",
        "event": "tool_call_failed",
        "schema_version": 1,
        "tool": "refused",
        "run_id": "run-1",
        "attempt": 1,
        "trace_id": run_trace,
        "request_id": refused.request_id,
        "kind": "ToolFailed",
        "code": "NOT_ALLOWED",
        "message": "NOT_ALLOWED: This account is closed.",
        "will_repeat": False,
    }
    assert busy.attempts == 2
    repeated = [line for line in logs.records(own_logs) if line.get("tool") == "busy"]
    assert [(line["code"], line["will_repeat"]) for line in repeated] == [("BUSY", True)]


@pytest.mark.anyio
async def test_a_trace_of_its_own(shared: tuple[int, Path, Path]) -> None:
    """Without a trace context a run makes one: every call has the run's trace id, of a valid form."""
    async with to(shared, "sdk") as on:
        caller = ToolCaller(on.session, **QUICK)
        outcomes = [await caller.call("refused"), await caller.call("crash")]
        outcomes.append(await ToolCaller(on.session, **QUICK).call("crash"))

    ids = [logs.find(outcome.request_id or "", shared[2])[0]["trace_id"] for outcome in outcomes]
    assert ids[0] == ids[1] != ids[2]
    assert all(re.fullmatch(r"[0-9a-f]{32}", found) and found.strip("0") for found in ids)


@pytest.mark.anyio
async def test_the_active_span_is_the_runs_trace(shared: tuple[int, Path, Path]) -> None:
    """Inside an OpenTelemetry span the server's lines carry that span's trace id."""
    from opentelemetry.sdk.trace import TracerProvider

    async with to(shared, "sdk") as on:
        caller = ToolCaller(on.session, **QUICK)
        with TracerProvider().get_tracer("agent").start_as_current_span("run") as span:
            outcome = await caller.call("refused")

    (line,) = logs.find(outcome.request_id or "", shared[2])
    assert line["trace_id"] == f"{span.get_span_context().trace_id:032x}"


@pytest.mark.anyio
@pytest.mark.skipif(ON_SDK_1, reason="mcp 1.x knows no input-required result")
async def test_input_that_a_client_cannot_give() -> None:
    """Where a client library answers requests for input itself and cannot, the tool asks for input: no failure."""
    server = hosts.new_server()

    @server.tool()
    async def ask():  # type: ignore[no-untyped-def]
        asked = hosts.types.ElicitRequestFormParams(message="m", requested_schema={"type": "object", "properties": {}})
        request = hosts.types.ElicitRequest(params=asked)
        return hosts.types.InputRequiredResult(request_state="s", input_requests={"q": request})

    @server.tool()
    async def ask_for_ever():  # type: ignore[no-untyped-def]
        return hosts.types.InputRequiredResult(request_state="s")

    if IS_FASTMCP:
        from fastmcp import Client
    else:
        from mcp import Client
    async with Client(server) as client:
        caller = ToolCaller(client, **QUICK)
        assert await caller.call("ask") == InputRequired({})
        assert await caller.call("ask_for_ever") == InputRequired({})
        session = getattr(client, "session")
        assert isinstance(await ToolCaller(session, **QUICK).call("ask"), InputRequired)


def test_a_client_that_traces_itself(tmp_path: Path) -> None:
    """Where OpenTelemetry is set up, the spans of the client are children in the run's trace, and the server's too."""
    given = "0af7651916cd43dd8448eb211c80319c"
    code = f"""
import sys; sys.path.insert(0, {str(hosts.ROOT)!r})
import anyio
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from iserror import configure_logging
from iserror.client import ToolCaller
from tests.client.test_agents import CLIENTS, connected
trace.set_tracer_provider(TracerProvider())
configure_logging({str(tmp_path / "own")!r}, stderr=False)
async def main():
    for client in CLIENTS:
        async with connected(client, "stdio", Path({str(tmp_path)!r}), "--log", {str(tmp_path / "server")!r}) as on:
            for traceparent in ("00-{given}-b7ad6b7169203331-01", None):
                caller = ToolCaller(on.session, traceparent=traceparent)
                await caller.call("refused")
                await caller.call("crash")
anyio.run(main)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stderr=subprocess.DEVNULL)
    own, server = (
        [
            line["trace_id"]
            for line in logs.records(tmp_path / folder)
            if line["event"] in ("tool_failed", "tool_call_failed")
        ]
        for folder in ("own", "server")
    )
    assert own == server
    for run in range(0, 4 * len(CLIENTS), 4):
        first, second, third, fourth = own[run : run + 4]
        assert first == second == given
        assert third == fourth != given


# --- the public fault reports --------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_c18_each_reader_keeps_the_reason(client: str, shared: tuple[int, Path, Path]) -> None:
    """Whatever part of an error result a client keeps, code, hint and request id are in it."""
    async with to(shared, client) as on:
        outcome = await ToolCaller(on.session, **QUICK).call("refused")

    assert isinstance(outcome, ToolFailed)
    readers = {
        "first text block": outcome.content[0]["text"],
        "all text blocks": " ".join(block["text"] for block in outcome.content),
        "structured content first": str(outcome.structured_content or outcome.text),
        "the report": outcome.report,
    }
    for reader, kept in readers.items():
        for word in ("NOT_ALLOWED", "Tell the user.", outcome.request_id):
            assert word is not None
            assert word in kept, reader


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_c19_a_failure_that_cannot_succeed_is_sent_once(client: str, shared: tuple[int, Path, Path]) -> None:
    """A failure that no repeat can mend is sent once, and the text says to stop."""
    async with to(shared, client) as on:
        outcome = await ToolCaller(on.session, max_attempts=5, max_identical_failures=5, **QUICK).call("refused")
        crash = await ToolCaller(on.session, max_attempts=5, max_identical_failures=5, **QUICK).call("crash")
        runs = on.runs("refused"), on.runs("crash")

    assert runs == (1, 1)
    assert "stop and tell the user" in outcome.report
    assert "stop and tell the user" in crash.report


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_c42_a_protocol_error_ends_no_run(client: str, shared: tuple[int, Path, Path]) -> None:
    """A JSON-RPC error is an outcome like any other: the agent's loop goes on, and its reason can be read."""
    async with to(shared, client) as on:
        caller = ToolCaller(on.session, **QUICK)
        refused = await caller.call("on_purpose")
        unknown = await caller.call("no_such_tool")
        after = await caller.call("answer")

    assert isinstance(refused, ProtocolFailed)
    assert isinstance(unknown, ProtocolFailed)
    assert "the session has no workspace" in refused.report
    assert "no_such_tool" in unknown.report
    assert isinstance(after, Succeeded)
