"""An agent's calls: the same outcome through every client library and transport, and never more calls than allowed."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iserror import configure_logging, logs
from iserror.client import (
    CallOutcome,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolCaller,
    ToolFailed,
)
from tests import hosts
from tests.hosts import IS_FASTMCP, ON_SDK_1, CallToolResult, protocol_error

SCRIPT = "tests/calls_server.py"
CLIENTS = ["sdk", "fastmcp"] if IS_FASTMCP else ["sdk"]
QUICK: dict[str, Any] = {"backoff": 0.01}


class Connected:
    """A client's session, and the notes of the server behind it."""

    def __init__(self, session: Any, notes: Path) -> None:
        self.session = session
        self.notes = notes

    def runs(self, tool: str) -> int:
        return sum(line.split()[0] == tool for line in self.notes.read_text().splitlines())


@contextlib.asynccontextmanager
async def connected(client: str, transport: str, folder: Path, *more: str) -> AsyncIterator[Connected]:
    """Start the server and connect a client to it."""
    notes = folder / "notes.txt"
    notes.touch()
    if transport == "stdio":
        async with getattr(hosts, f"{client}_stdio")(SCRIPT, str(notes), *more) as session:
            yield Connected(session, notes)
        return
    port = hosts.free_port()
    with hosts.serving_http(SCRIPT, port, str(notes), *more):
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
async def test_every_client_says_the_same(client: str, transport: str, tmp_path: Path) -> None:
    """The same failure gives the same outcome through each client library over each transport."""
    async with connected(client, transport, tmp_path) as on:
        caller = ToolCaller(on.session, **QUICK)
        said = {
            tool: plain(await caller.call(tool, arguments))
            for tool, arguments in (
                ("answer", {}),
                ("refused", {}),
                ("busy", {"times": 1}),
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
async def test_time_runs_out(client: str, transport: str, tmp_path: Path) -> None:
    """Out of time, a write is sent once; a read, which its annotations say it is, as often as allowed."""
    async with connected(client, transport, tmp_path) as on:
        caller = ToolCaller(on.session, timeout=0.4, max_attempts=2, **QUICK)
        await caller.call("answer")
        write = await caller.call("slow_write", {"seconds": 30})
        read = await caller.call("slow_read", {"seconds": 30})
        runs = on.runs("slow_write"), on.runs("slow_read")

    assert write == OutcomeUnknown("timeout", "nothing within 0.4 s.", repeatable=False, attempts=1)
    assert read == OutcomeUnknown("timeout", "nothing within 0.4 s.", repeatable=True, attempts=2)
    assert runs == (1, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_key_makes_a_write_repeatable(client: str, tmp_path: Path) -> None:
    """With an idempotency key, the caller's own, a write whose outcome is unknown is repeated, with the same key."""
    async with connected(client, "stdio", tmp_path) as on:
        keys = {"slow_write": "key"}
        caller = ToolCaller(on.session, timeout=0.4, max_attempts=2, idempotency_keys=keys, **QUICK)
        await caller.call("answer")
        first = await caller.call("slow_write", {"seconds": 30})
        again = await caller.call("slow_write", {"seconds": 30})
        sent = [line.split()[1] for line in on.notes.read_text().splitlines() if line.startswith("slow_write")]

    assert isinstance(first, OutcomeUnknown)
    assert (first.repeatable, first.attempts) == (True, 2)
    # Three identical failures are the limit, over both calls.
    assert isinstance(again, OutcomeUnknown)
    assert again.attempts == 1
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert re.fullmatch("[0-9a-f]{32}", sent[0])


# --- the log -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_one_trace_through_both_logs(client: str, transport: str, tmp_path: Path) -> None:
    """Both sides' lines are found by the server's request id, and carry the run's trace id; the run has its own id."""
    server_logs, own_logs = tmp_path / "server", tmp_path / "own"
    configure_logging(own_logs, stderr=False)
    run_trace = "0af7651916cd43dd8448eb211c80319c"
    async with connected(client, transport, tmp_path, "--log", str(server_logs)) as on:
        caller = ToolCaller(on.session, run_id="run-1", traceparent=f"00-{run_trace}-b7ad6b7169203331-01", **QUICK)
        refused = await caller.call("refused")
        busy = await caller.call("busy", {"times": 1})

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
async def test_a_trace_of_its_own(tmp_path: Path) -> None:
    """Without a trace context a run makes one: every call has the run's trace id, of a valid form."""
    server_logs = tmp_path / "server"
    async with connected("sdk", "stdio", tmp_path, "--log", str(server_logs)) as on:
        caller = ToolCaller(on.session, **QUICK)
        await caller.call("refused")
        await caller.call("crash")
        await ToolCaller(on.session, **QUICK).call("crash")

    ids = [line["trace_id"] for line in logs.records(server_logs) if line["event"] == "tool_failed"]
    assert len(ids) == 3
    assert ids[0] == ids[1] != ids[2]
    assert all(re.fullmatch(r"[0-9a-f]{32}", found) and found.strip("0") for found in ids)


@pytest.mark.anyio
async def test_the_active_span_is_the_runs_trace(tmp_path: Path) -> None:
    """Inside an OpenTelemetry span the server's lines carry that span's trace id."""
    from opentelemetry.sdk.trace import TracerProvider

    server_logs = tmp_path / "server"
    async with connected("sdk", "stdio", tmp_path, "--log", str(server_logs)) as on:
        caller = ToolCaller(on.session, **QUICK)
        with TracerProvider().get_tracer("agent").start_as_current_span("run") as span:
            await caller.call("refused")

    (line,) = [line for line in logs.records(server_logs) if line["event"] == "tool_failed"]
    assert line["trace_id"] == f"{span.get_span_context().trace_id:032x}"


# --- a session that does as it is told -----------------------------------------------------------------------


class ClientSession:
    """A client's session of which a test says what each call comes to."""

    __module__ = "mcp.client.session"

    def __init__(self, answer: Callable[[int, str, dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.times: list[float] = []
        self.listed = 0

    async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
        self.sent.append((name, arguments))
        self.times.append(time.monotonic())
        found = self.answer(len(self.sent), name, arguments)
        await anyio.sleep(0)
        if isinstance(found, BaseException):
            raise found
        return found

    async def list_tools(self) -> Any:
        self.listed += 1
        return [_Tool("read", True), _Tool("write", False)]


class _Tool:
    def __init__(self, name: str, read_only: bool) -> None:
        self.name = name
        self.annotations = hosts.annotations(readOnlyHint=read_only)


def failed(
    *, retryable: bool = False, retry_after: float | None = None, outcome: str = "not_applied"
) -> CallToolResult:
    envelope = {
        "code": "BUSY",
        "message": "Busy.",
        "retryable": retryable,
        "outcome": outcome,
        "category": "unavailable",
        "tool": "write",
        "request_id": "0197f0a0c0de7000800000000000beef",
    }
    if retry_after is not None:
        envelope["retry_after"] = retry_after
    return CallToolResult.model_validate({"content": [], "isError": True, "_meta": {"iserror/failure": envelope}})


DONE = CallToolResult.model_validate({"content": []})
LOST = protocol_error(-32000, "Connection closed")


@pytest.mark.anyio
async def test_after_so_many_identical_failures_nothing_is_sent() -> None:
    """The same call that failed N times is refused with a report of what was tried; another one still goes out."""
    session = ClientSession(lambda n, tool, arguments: failed() if arguments.get("id") == 1 else DONE)
    caller = ToolCaller(session, max_identical_failures=2, **QUICK)

    outcomes = [await caller.call("write", {"id": 1}) for _ in range(4)]

    assert [type(outcome) for outcome in outcomes] == [ToolFailed, ToolFailed, NotSent, NotSent]
    assert len(session.sent) == 2
    refused = outcomes[-1]
    assert isinstance(refused, NotSent)
    assert (refused.reason, refused.attempts) == ("identical_failures", 0)
    assert refused.last == outcomes[1]
    assert "write failed 2 times with exactly these arguments (2 x BUSY)" in refused.report
    assert len(refused.report) < 1_000
    assert isinstance(await caller.call("write", {"id": 2}), Succeeded)
    assert isinstance(await caller.call("read", {"id": 1}), ToolFailed)


@pytest.mark.anyio
async def test_the_budget_of_a_run() -> None:
    """A run that has used up its calls or its repeats sends no more of them, and says so."""
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True))
    caller = ToolCaller(session, max_attempts_per_run=6, max_retries_per_run=3, **QUICK)
    tried = [(await caller.call("write", {"id": n})) for n in range(5)]
    assert [outcome.attempts for outcome in tried] == [3, 2, 1, 0, 0]
    assert len(session.sent) == 6
    assert isinstance(tried[2], ToolFailed)
    assert isinstance(tried[3], NotSent)
    assert tried[3].reason == "run_budget"
    assert "used up its tool calls" in tried[3].report


@pytest.mark.anyio
async def test_a_success_forgets_failures() -> None:
    """Failures count in a row: after a success the same call may fail again as often."""
    session = ClientSession(lambda n, tool, arguments: DONE if n % 2 == 0 else failed())
    caller = ToolCaller(session, max_identical_failures=2, **QUICK)
    outcomes = [type(await caller.call("write", {})) for _ in range(6)]
    assert outcomes == [ToolFailed, Succeeded] * 3


@pytest.mark.anyio
async def test_a_new_key_each_time_is_the_same_call() -> None:
    """A model that makes up a new idempotency key for each repeat does not get past the limit."""
    session = ClientSession(lambda n, tool, arguments: failed())
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_identical_failures=2, **QUICK)
    outcomes = [type(await caller.call("write", {"id": 1, "key": str(n)})) for n in range(4)]
    assert outcomes == [ToolFailed, ToolFailed, NotSent, NotSent]
    assert [arguments["key"] for _, arguments in session.sent] == ["0", "1"]


@pytest.mark.anyio
async def test_keys_of_calls() -> None:
    """Each call has a key of its own, but one whose last outcome is unknown goes with that one's key."""
    answers = {1: DONE, 2: DONE, 3: LOST, 4: failed(outcome="unknown"), 5: failed(), 6: DONE, 7: LOST, 8: LOST}
    session = ClientSession(lambda n, tool, arguments: answers[n])
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_attempts=1, max_identical_failures=9, **QUICK)
    for _ in answers:
        await caller.call("write", {"id": 1})

    one, two, lost, still_unknown, not_applied, after, lost_too, again = (sent["key"] for _, sent in session.sent)
    assert lost == still_unknown == not_applied
    assert lost_too == again
    assert len({one, two, lost, after, lost_too}) == 5


@pytest.mark.anyio
async def test_the_key_of_another_call_that_is_lost() -> None:
    """A call that succeeds beside one that is lost does not cost that one its key."""

    class Slow(ClientSession):
        __module__ = "mcp.client.session"

        async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
            if len(self.sent) == 1:
                self.sent.append((name, arguments))
                await anyio.sleep(0.1)
                return DONE
            return await super().call_tool(name, arguments, meta=meta)

    session = Slow(lambda n, tool, arguments: LOST if n == 1 else DONE)
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_attempts=1, **QUICK)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.call, "write")
        tasks.start_soon(caller.call, "write")
    await caller.call("write")
    first, second, third = (arguments["key"] for _, arguments in session.sent)
    assert first == third != second


@pytest.mark.anyio
async def test_parallel_calls_of_one_kind() -> None:
    """Ten identical calls at once that all fail are sent as often as the limit says, not ten times."""
    session = ClientSession(lambda n, tool, arguments: failed())
    caller = ToolCaller(session, max_identical_failures=3, **QUICK)
    outcomes: list[CallOutcome] = []

    async def one() -> None:
        outcomes.append(await caller.call("write", {"id": 1}))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)

    assert Counter(map(type, outcomes)) == {ToolFailed: 3, NotSent: 7}
    assert len(session.sent) == 3


@pytest.mark.anyio
async def test_parallel_calls_that_succeed() -> None:
    """Ten identical calls at once that succeed are all sent."""
    session = ClientSession(lambda n, tool, arguments: DONE)
    caller = ToolCaller(session, max_identical_failures=3, **QUICK)
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(caller.call, "write", {"id": 1})
    assert len(session.sent) == 10


@pytest.mark.anyio
async def test_parallel_calls_run_in_parallel() -> None:
    """Identical calls wait for one another only where the limit of failures is in reach."""
    together = 0

    class Counting(ClientSession):
        __module__ = "mcp.client.session"

        async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
            nonlocal together
            before = len(self.sent)
            result = await super().call_tool(name, arguments, meta=meta)
            await anyio.sleep(0.05)
            together = max(together, len(self.sent) - before)
            return result

    caller = ToolCaller(Counting(lambda n, tool, arguments: DONE), max_identical_failures=3, **QUICK)
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(caller.call, "write", {"id": 1})
    assert together == 3


@pytest.mark.anyio
async def test_not_before_retry_after() -> None:
    """A repeat waits as long as the failure asks; one that asks for more than `max_wait` comes back at once."""
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, retry_after=0.3) if n == 1 else DONE)
    outcome = await ToolCaller(session, **QUICK).call("write")
    assert isinstance(outcome, Succeeded)
    assert outcome.attempts == 2
    assert session.times[1] - session.times[0] >= 0.3

    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, retry_after=60.0))
    started = time.monotonic()
    outcome = await ToolCaller(session, max_wait=5, **QUICK).call("write")
    assert isinstance(outcome, ToolFailed)
    assert (outcome.attempts, len(session.sent)) == (1, 1)
    assert "may be repeated after 60 s" in outcome.report
    assert time.monotonic() - started < 4


@pytest.mark.anyio
async def test_the_wait_grows_and_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits before repeats are drawn below a bound that doubles, and never exceed `max_wait`."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    session = ClientSession(lambda n, tool, arguments: failed(retryable=True))
    monkeypatch.setattr(anyio, "sleep", sleep)
    limits: dict[str, Any] = {"max_attempts": 9, "max_identical_failures": 9, "max_retries_per_run": 99}
    for _ in range(20):
        session.sent.clear()
        await ToolCaller(session, backoff=0.5, max_wait=4, **limits).call("write")
    drawn = [[wait for wait in waits if wait][turn::8] for turn in range(8)]
    assert all(len(set(turn)) > 10 for turn in drawn)
    for turn, found in enumerate(drawn):
        assert max(found) <= min(0.5 * 2**turn, 4)
    assert max(drawn[7]) > 1


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["answer", "wait"])
async def test_cancellation_is_immediate(when: str, tmp_path: Path) -> None:
    """A cancelled call ends at once, in the middle of an answer or of a wait, is logged, and not sent again."""
    configure_logging(tmp_path / "logs", stderr=False)

    class Slow(ClientSession):
        __module__ = "mcp.client.session"

        async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
            result = await super().call_tool(name, arguments, meta=meta)
            if when == "answer":
                await anyio.sleep(60)
            return result

    session = Slow(lambda n, tool, arguments: failed(retryable=True, retry_after=60.0))
    caller = ToolCaller(session, max_wait=90, **QUICK)
    started = time.monotonic()
    with anyio.move_on_after(0.2) as scope:
        await caller.call("write")
    assert scope.cancelled_caught
    assert time.monotonic() - started < 5
    assert len(session.sent) == 1
    events = [line["event"] for line in logs.records(tmp_path / "logs")]
    assert events == ["tool_call_cancelled" if when == "answer" else "tool_call_failed"]


@pytest.mark.anyio
async def test_input_required_is_no_failure() -> None:
    """A request for input comes back as it is, counts for nothing, and is not repeated."""
    if ON_SDK_1:
        from iserror.client.classify import classify

        assert isinstance(
            classify({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s"}}),
            InputRequired,
        )
        return
    session = ClientSession(lambda n, tool, arguments: hosts.types.InputRequiredResult(request_state="s"))
    caller = ToolCaller(session, max_identical_failures=1, **QUICK)
    assert await caller.call("write") == InputRequired({}, "s")
    assert await caller.call("write") == InputRequired({}, "s")
    assert len(session.sent) == 2


@pytest.mark.anyio
async def test_tools_are_asked_for_once() -> None:
    """The list of tools is asked for once, and not at all where the agent has it."""
    session = ClientSession(lambda n, tool, arguments: DONE)
    caller = ToolCaller(session, **QUICK)
    await caller.call("read")
    await caller.call("read")
    assert session.listed == 1

    session = ClientSession(lambda n, tool, arguments: LOST if n == 1 else DONE)
    outcome = await ToolCaller(session, tools=[_Tool("write", True)], **QUICK).call("write")
    assert isinstance(outcome, Succeeded)
    assert (session.listed, outcome.attempts) == (0, 2)


# --- the public fault reports --------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_c18_each_reader_keeps_the_reason(client: str, tmp_path: Path) -> None:
    """Whatever part of an error result a client keeps, code, hint and request id are in it."""
    async with connected(client, "stdio", tmp_path) as on:
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
async def test_c19_a_failure_that_cannot_succeed_is_sent_once(client: str, tmp_path: Path) -> None:
    """A failure that no repeat can mend is sent once, and the text says to stop."""
    async with connected(client, "stdio", tmp_path) as on:
        outcome = await ToolCaller(on.session, max_attempts=5, max_identical_failures=5, **QUICK).call("refused")
        crash = await ToolCaller(on.session, max_attempts=5, max_identical_failures=5, **QUICK).call("crash")
        runs = on.runs("refused"), on.runs("crash")

    assert runs == (1, 1)
    assert "stop and tell the user" in outcome.report
    assert "check before any further call" in crash.report


@pytest.mark.anyio
@pytest.mark.parametrize("client", CLIENTS)
async def test_c42_a_protocol_error_ends_no_run(client: str, tmp_path: Path) -> None:
    """A JSON-RPC error is an outcome like any other: the agent's loop goes on, and its reason can be read."""
    async with connected(client, "stdio", tmp_path) as on:
        caller = ToolCaller(on.session, **QUICK)
        refused = await caller.call("on_purpose")
        unknown = await caller.call("no_such_tool")
        after = await caller.call("answer")

    assert isinstance(refused, ProtocolFailed)
    assert isinstance(unknown, ProtocolFailed)
    assert "the session has no workspace" in refused.report
    assert "no_such_tool" in unknown.report
    assert isinstance(after, Succeeded)


# --- budgets -------------------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "done": DONE,
    "refused": failed(),
    "busy": failed(retryable=True),
    "half": failed(outcome="partial"),
    "unsaid": CallToolResult.model_validate({"content": [], "isError": True}),
    "lost": LOST,
    "protocol": protocol_error(-32602, "no"),
    "unsent": ConnectionRefusedError(),
}


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=60),
    calls=st.lists(st.tuples(st.sampled_from(["read", "write", "keyed"]), st.integers(0, 1)), max_size=25),
    max_attempts=st.integers(1, 4),
    max_identical=st.integers(1, 4),
    per_run=st.integers(1, 20) | st.integers(1, 3),
    retries=st.integers(0, 5),
    parallel=st.booleans(),
)
def test_a_budget_is_never_exceeded(
    answers: list[str],
    calls: list[tuple[str, int]],
    max_attempts: int,
    max_identical: int,
    per_run: int,
    retries: int,
    parallel: bool,
) -> None:
    """Whatever answers come, no limit is exceeded, and what may not be repeated is sent once a call."""
    kinds: list[str] = []

    def answer(n: int, tool: str, arguments: dict[str, Any]) -> Any:
        kinds.append(answers[(n - 1) % len(answers)])
        return KINDS[kinds[-1]]

    session = ClientSession(answer)
    outcomes: list[CallOutcome] = []

    async def run() -> None:
        caller = ToolCaller(
            session,
            idempotency_keys={"keyed": "key"},
            max_attempts=max_attempts,
            max_identical_failures=max_identical,
            max_attempts_per_run=per_run,
            max_retries_per_run=retries,
            backoff=1e-9,
            max_wait=1e-6,
        )

        async def one(tool: str, number: int) -> None:
            before = len(session.sent)
            outcome = await caller.call(tool, {"id": number})
            outcomes.append(outcome)
            if parallel:
                return
            mine = kinds[before:]
            assert outcome.attempts == len(mine) <= max_attempts
            for kind in mine[:-1]:  # all that were followed by a repeat
                assert kind in ("busy", "unsent") or (kind == "lost" and tool != "write")

        async with anyio.create_task_group() as tasks:
            for tool, number in calls:
                if parallel:
                    tasks.start_soon(one, tool, number)
                else:
                    await one(tool, number)

    anyio.run(run)
    assert len(outcomes) == len(calls)
    assert len(session.sent) <= per_run
    sent_calls = sum(outcome.attempts > 0 for outcome in outcomes)
    assert len(session.sent) - sent_calls <= retries
    in_a_row: Counter[tuple[str, int]] = Counter()
    if not parallel:  # in parallel, successes and failures of one call interleave
        for (tool, arguments), kind in zip(session.sent, kinds, strict=True):
            same = (tool, arguments["id"])
            in_a_row[same] = 0 if kind == "done" else in_a_row[same] + 1
            assert in_a_row[same] <= max_identical


# --- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_identical_failures": 0},
        {"max_attempts_per_run": 0},
        {"max_retries_per_run": -1},
        {"max_attempts": 1.5},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"max_wait": -1},
        {"backoff": "1"},
        {"traceparent": "00-zz"},
    ],
    ids=repr,
)
def test_a_limit_out_of_range(limits: dict[str, Any]) -> None:
    """A limit that makes no sense is refused by name."""
    with pytest.raises(ValueError, match=rf"^{next(iter(limits))} "):
        ToolCaller(ClientSession(lambda *_: DONE), **limits)


def test_a_session_of_no_supported_library() -> None:
    """What is no client session is refused with the list of what is."""
    with pytest.raises(TypeError, match=r"builtins\.object: use ClientSession of mcp 1\.x"):
        ToolCaller(object())


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", [[1], "x", {"x": object()}, {"x": float("nan")}, {("a",): 1}])
async def test_arguments_that_are_no_json(arguments: Any) -> None:
    """Arguments that are no JSON object are refused before anything is sent."""
    session = ClientSession(lambda *_: DONE)
    with pytest.raises(TypeError, match="no JSON object"):
        await ToolCaller(session).call("write", arguments)
    assert session.sent == []


def test_without_tenacity() -> None:
    """Where tenacity is missing, the error names the extra, and `classify` works all the same."""
    code = (
        "import sys; sys.modules['tenacity'] = None\n"
        "from iserror.client import ToolCaller, classify\n"
        "print(type(classify(b'x')).__name__)\n"
        "try:\n    ToolCaller(None)\nexcept ImportError as exc:\n    print(exc)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.splitlines() == ["ContractBroken", "ToolCaller needs tenacity: install iserror[client]"]
