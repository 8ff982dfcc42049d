"""`ToolCaller` with a session that does as it is told: limits, keys, waits, bad input. No host is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
)
from tests.helpers import hosts
from tests.helpers.hosts import ON_SDK_1, CallToolResult, protocol_error

pytestmark = pytest.mark.hostless

QUICK: dict[str, Any] = {"backoff": 0.01}


# --- a session that does as it is told -----------------------------------------------------------------------


class ClientSession:
    """A client's session of which a test says what each call comes to."""

    __module__ = "mcp.client.session"

    def __init__(self, answer: Callable[[int, str, dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.listed = 0

    async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
        self.sent.append((name, arguments))
        found = self.answer(len(self.sent), name, arguments)
        await anyio.sleep(0)
        if isinstance(found, BaseException):
            raise found
        return found

    async def list_tools(self) -> Any:
        self.listed += 1
        return [_Tool("read", True), _Tool("write", False), _Tool("keyed", False)]


class _Tool:
    input_schema: Any = {"properties": {"id": {}, "key": {}}}  # noqa: RUF012

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
        envelope |= {"retry_after": retry_after, "advice": f"may be repeated after {retry_after:g} s"}
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
async def test_the_report_has_what_the_call_sent() -> None:
    """An agent's model reads the path that it sent."""
    path = "/home/ann/report.txt"
    session = ClientSession(lambda n, tool, arguments: protocol_error(-32001, f"No {path}."))
    assert path in (await ToolCaller(session, **QUICK).call("read", {"id": path})).report
    assert path not in (await ToolCaller(session, **QUICK).call("read", {"id": "x"})).report


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
    assert [arguments["key"] for _, arguments in session.sent] == ["0", "0"]


@pytest.mark.anyio
async def test_keys_of_calls() -> None:
    """Each call has a key of its own, but as long as one is not known to be done, its key goes with the next."""
    answers = {1: DONE, 2: DONE, 3: LOST, 4: failed(outcome="unknown"), 5: failed(), 6: DONE, 7: LOST, 8: LOST}
    session = ClientSession(lambda n, tool, arguments: answers[n])
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_attempts=1, max_identical_failures=9, **QUICK)
    for _ in answers:
        await caller.call("write", {"id": 1})

    one, two, lost, unknown, not_applied, done, lost_too, again = (sent["key"] for _, sent in session.sent)
    # What was not applied by one attempt may have been by the one before.
    assert lost == unknown == not_applied == done
    assert lost_too == again
    assert len({one, two, lost, lost_too}) == 4


@pytest.mark.anyio
async def test_the_key_of_another_call_that_is_lost() -> None:
    """A call that succeeds beside one that is lost does not cost that one its key."""
    lost = anyio.Event()

    class Slow(ClientSession):
        __module__ = "mcp.client.session"

        async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
            if len(self.sent) == 1:
                self.sent.append((name, arguments))
                await lost.wait()
                return DONE
            return await super().call_tool(name, arguments, meta=meta)

    session = Slow(lambda n, tool, arguments: LOST if n == 1 else DONE)
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_attempts=1, **QUICK)
    async with anyio.create_task_group() as tasks:

        async def one() -> None:
            await caller.call("write")
            lost.set()  # the one that is lost comes back first, since the other waits for this

        tasks.start_soon(one)
        tasks.start_soon(one)
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
    ended = anyio.Event()

    class Counting(ClientSession):
        __module__ = "mcp.client.session"

        async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
            nonlocal together
            result = await super().call_tool(name, arguments, meta=meta)
            await anyio.wait_all_tasks_blocked()
            if not ended.is_set():  # none has come back yet
                together = len(self.sent)
                ended.set()
            return result

    caller = ToolCaller(Counting(lambda n, tool, arguments: DONE), max_identical_failures=3, **QUICK)
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(caller.call, "write", {"id": 1})
    assert together == 3


@pytest.mark.anyio
async def test_not_before_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat waits as long as the failure asks; one that asks for more than `max_wait` comes back at once."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(anyio, "sleep", sleep)
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, retry_after=9.0) if n == 1 else DONE)
    outcome = await ToolCaller(session, **QUICK).call("write")
    assert isinstance(outcome, Succeeded)
    assert outcome.attempts == 2
    assert sum(waits) >= 9

    waits.clear()
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, retry_after=60.0))
    outcome = await ToolCaller(session, max_wait=5, **QUICK).call("write")
    assert isinstance(outcome, ToolFailed)
    assert (outcome.attempts, len(session.sent)) == (1, 1)
    assert "may be repeated after 60 s" in outcome.report
    assert sum(waits) == 0


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
    async with anyio.create_task_group() as group:
        group.start_soon(caller.call, "write")
        while not session.sent:
            await anyio.sleep(0)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()  # its wait is longer than a test may take
    assert len(session.sent) == 1
    events = [line["event"] for line in logs.records(tmp_path / "logs")]
    assert events == ["tool_call_cancelled" if when == "answer" else "tool_call_failed"]


@pytest.mark.anyio
@pytest.mark.skipif(ON_SDK_1, reason="mcp 1.x knows no input-required result")
async def test_input_required_is_no_failure() -> None:
    """A request for input comes back as it is, counts for nothing, and is not repeated."""
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


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("then", "repeatable"),
    [(ConnectionRefusedError(), True), (protocol_error(-32602, "no"), True), ("refused", True)],
    ids=["unsent", "protocol", "refused"],
)
async def test_what_a_lost_attempt_leaves(then: Any, repeatable: bool) -> None:
    """After an attempt that got no answer, a later one that did nothing does not make it undone."""
    session = ClientSession(lambda n, tool, arguments: LOST if n == 1 else failed() if then == "refused" else then)
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, **QUICK)
    outcome = await caller.call("write", {"id": 1})
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.repeatable == repeatable
    assert outcome.attempts == len(session.sent) > 1
    assert outcome.idempotency_key == session.sent[0][1]["key"]
    assert outcome.last is not None
    assert "A later attempt: " in outcome.report

    session = ClientSession(lambda n, tool, arguments: LOST if n == 1 else failed())
    assert isinstance(await ToolCaller(session, **QUICK).call("read"), ToolFailed)


@pytest.mark.anyio
async def test_keys_of_parallel_calls() -> None:
    """Of two identical calls that are lost, each key goes with one of the next two."""
    session = ClientSession(lambda n, tool, arguments: LOST if n <= 2 else DONE)
    caller = ToolCaller(session, idempotency_keys={"write": "key"}, max_attempts=1, **QUICK)
    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, "write")
            tasks.start_soon(caller.call, "write")
    keys = [arguments["key"] for _, arguments in session.sent]
    assert len(set(keys[:2])) == 2
    assert set(keys[:2]) == set(keys[2:])


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["", None, True, 1.5, ["k"]], ids=repr)
async def test_what_is_no_key(key: Any) -> None:
    """What is no key is replaced by one: it would make a repeat look safe that is not."""
    session = ClientSession(lambda n, tool, arguments: DONE)
    await ToolCaller(session, idempotency_keys={"write": "key"}, **QUICK).call("write", {"key": key})
    assert re.fullmatch("[0-9a-f]{32}", session.sent[0][1]["key"])


@pytest.mark.anyio
async def test_a_parameter_that_is_none() -> None:
    """A misspelt parameter for keys is refused with those that there are; one that nobody lists makes nothing safe."""
    session = ClientSession(lambda n, tool, arguments: LOST)
    with pytest.raises(ValueError, match=r"'write' has no parameter 'kye'; it has id, key"):
        await ToolCaller(session, idempotency_keys={"write": "kye"}, **QUICK).call("write")
    assert session.sent == []

    outcome = await ToolCaller(session, tools=[], idempotency_keys={"write": "key"}, **QUICK).call("write")
    assert isinstance(outcome, OutcomeUnknown)
    assert (outcome.repeatable, outcome.attempts) == (False, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", ["applied", "partial"])
async def test_what_took_effect_is_not_repeated(outcome: str) -> None:
    """A failure that took effect is sent once, whatever its envelope says of a repeat."""
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, outcome=outcome))
    assert (await ToolCaller(session, **QUICK).call("write")).attempts == 1


@pytest.mark.anyio
async def test_each_attempt_sends_the_same() -> None:
    """Arguments that change between two attempts do not change what is sent."""
    rows = [1]

    def answer(n: int, tool: str, arguments: dict[str, Any]) -> Any:
        rows.append(n)
        return failed(retryable=True) if n == 1 else DONE

    session = ClientSession(answer)
    await ToolCaller(session, **QUICK).call("write", {"rows": rows})
    assert [arguments for _, arguments in session.sent] == [{"rows": [1]}] * 2


@pytest.mark.anyio
async def test_tools_of_a_result() -> None:
    """The result of `tools/list` serves as well as its list; what is neither is refused."""

    class Listed:
        tools = [_Tool("write", True)]  # noqa: RUF012

    session = ClientSession(lambda n, tool, arguments: LOST if n == 1 else DONE)
    assert (await ToolCaller(session, tools=Listed(), **QUICK).call("write")).attempts == 2  # type: ignore[arg-type]
    for wrong in (7, ["write"]):
        with pytest.raises(TypeError, match="tools must be a result of tools/list"):
            ToolCaller(session, tools=wrong)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_tools_are_listed_once_by_parallel_calls() -> None:
    """Calls that begin together wait for one list; a list that fails or hangs fails no call."""

    class Broken(ClientSession):
        __module__ = "mcp.client.session"

        async def list_tools(self) -> Any:
            await anyio.wait_all_tasks_blocked()
            listed = await super().list_tools()
            if self.listed == 1:
                raise protocol_error(-32601, "no")
            return listed

    for kind, listed in ((ClientSession, 1), (Broken, 2)):
        session = kind(lambda n, tool, arguments: DONE)
        caller = ToolCaller(session, **QUICK)
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(caller.call, "write", {"id": number})
        assert (session.listed, len(session.sent)) == (listed, 5)


@pytest.mark.anyio
async def test_a_run_forgets_what_it_need_not_know() -> None:
    """A long run keeps nothing of calls that are done, and nothing of those that its budget forbids."""
    session = ClientSession(lambda n, tool, arguments: DONE)
    caller = ToolCaller(session, max_attempts_per_run=10, **QUICK)
    for number in range(50):
        await caller.call("write", {"id": number})
    assert len(session.sent) == 10
    assert caller._budget.calls == {}


@pytest.mark.anyio
async def test_a_session_that_gives_nonsense() -> None:
    """What a session gives that is no result is a broken contract, not an exception."""
    assert isinstance(await ToolCaller(ClientSession(lambda *_: object()), **QUICK).call("write"), ContractBroken)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "outcome", "keys", "attempts"),
    [
        ("write", "unknown", {}, 1),
        ("write", "not_applied", {}, 2),
        ("read", "unknown", {}, 2),
        ("keyed", "unknown", {"keyed": "key"}, 2),
        ("unlisted", "unknown", {}, 1),
        ("unlisted", "unknown", {"unlisted": "key"}, 1),
    ],
)
async def test_an_envelope_makes_nothing_safe(tool: str, outcome: str, keys: dict[str, str], attempts: int) -> None:
    """Of an unknown outcome a retry needs the tool's own annotations or a key, whatever the envelope says of it."""
    session = ClientSession(lambda n, tool, arguments: failed(retryable=True, outcome=outcome))
    found = await ToolCaller(session, idempotency_keys=keys, max_attempts=2, **QUICK).call(tool, {"id": 1})
    assert found.attempts == len(session.sent) == attempts


@pytest.mark.anyio
@pytest.mark.parametrize(
    "error", [protocol_error(32600, "Session terminated"), protocol_error(-32600, "Session not found")]
)
async def test_a_session_that_is_gone(error: Exception) -> None:
    """What a server said that doesn't know the session was not sent to a tool. It isn't tried again on that session."""
    session = ClientSession(lambda n, tool, arguments: error)
    for tool in ("read", "write"):
        outcome = await ToolCaller(session, **QUICK).call(tool)
        assert isinstance(outcome, NotSent)
        assert (outcome.reason, outcome.attempts) == ("session", 1)
        assert "may have taken effect" not in outcome.report


@pytest.mark.anyio
async def test_a_read_tool_takes_no_effect() -> None:
    """A report never says of a tool that only reads that it may have taken effect, whatever came."""
    unsure = "it may have taken effect, check before any further call"
    said = failed(outcome="unknown").model_dump(by_alias=True)
    said["_meta"]["iserror/failure"]["advice"] = unsure
    for answer in (object(), protocol_error(-1, "own"), LOST, CallToolResult.model_validate(said)):
        session = ClientSession(lambda n, tool, arguments: answer)
        reports = [(await ToolCaller(session, max_attempts=1, **QUICK).call(tool)).report for tool in ("read", "write")]
        assert ["may have taken effect" in report for report in reports] == [False, True]
        refused = ToolCaller(session, max_attempts=1, max_identical_failures=1, **QUICK)
        await refused.call("read")
        assert "may have taken effect" not in (await refused.call("read")).report


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
            if "lost" in mine and tool != "read":  # it may have taken effect, whatever came after
                assert not isinstance(outcome, (NotSent, ProtocolFailed))
                failure = outcome.failure if isinstance(outcome, ToolFailed) else None
                assert failure is None or failure.outcome != "not_applied"

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
    sent_of: Counter[tuple[str, int]] = Counter((tool, arguments["id"]) for tool, arguments in session.sent)
    in_a_row: Counter[tuple[str, int]] = Counter()
    if parallel:  # successes and failures of one call interleave
        if not {"done", "unsent"} & set(kinds):
            assert all(count <= max_identical * max_attempts for count in sent_of.values())
        return
    for same, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, NotSent) and not outcome.attempts:
            continue
        in_a_row[same] = 0 if isinstance(outcome, Succeeded) else in_a_row[same] + (type(outcome) is not NotSent)
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
@pytest.mark.parametrize("arguments", [[1], "x", {"x": object()}, {"x": float("nan")}, {("a",): 1}, {"x": "\ud800"}])
async def test_arguments_that_are_no_json(arguments: Any) -> None:
    """Arguments that are no JSON object are refused before anything is sent."""
    session = ClientSession(lambda *_: DONE)
    with pytest.raises(TypeError, match="not a JSON object"):
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
