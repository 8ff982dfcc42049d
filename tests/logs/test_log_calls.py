"""The log of a call, on every host: all under its id, counted, each failure once, there when it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog

from iserror import ToolErrors, ToolFailure, configure_logging, current_call, in_call, logs
from iserror.layers.report import orphans
from tests.conftest import Lines
from tests.helpers import hosts, workers
from tests.helpers.log_children import duplicates, run
from tests.helpers.log_files import (
    assert_counted,
    ids_of,
    needs_posix,
    scaled,
)

pytestmark = pytest.mark.host

# --- answered, then killed ----------------------------------------


@pytest.mark.slow
@needs_posix
@pytest.mark.timeout(300)
@pytest.mark.newest
def test_server_is_killed(tmp_path: Path) -> None:
    """Every result that a client received from a server before it was killed is in the log, with all its lines."""
    folder = tmp_path / "logs"
    received, _ = run("servers_killed", folder, scaled(20), 3_000)
    with hosts.RawStdio("tests/servers/log_server.py", str(folder), "3000") as raw:
        received += [of_answer(raw.call("fail", {"number": number})) for number in range(7)]
    assert len(received) > scaled(20) * 5
    found = ids_of(logs.records(folder))
    assert duplicates(found) == []
    assert set(received) - set(found) == set()
    for one in received[:: max(1, len(received) // 40)]:
        said, failed = logs.find(one, folder)
        assert (said["event"], failed["event"], failed["lines"]) == ("about to fail", "tool_failed", 2)


# --- the tool's own lines --------------------------------------------------------------------------------------


def _say(where: str) -> None:
    structlog.get_logger().info("by structlog", where=where)
    logging.getLogger("of.the.tool").warning("by logging", extra={"where": where})


async def _in_async() -> None:
    _say("async")
    raise RuntimeError("no such row")


def _in_sync() -> None:
    _say("sync")
    raise RuntimeError("no such row")


async def _in_thread() -> None:
    await asyncio.to_thread(_say, "to_thread")
    raise RuntimeError("no such row")


async def _in_task() -> None:
    await asyncio.create_task(_in_async())


TOOLS = {"async": _in_async, "sync": _in_sync, "to_thread": _in_thread, "task": _in_task}


def of_answer(answer: dict[str, Any]) -> str:
    return str(answer["result"]["_meta"]["iserror/failure"]["request_id"])


@pytest.mark.anyio
@pytest.mark.parametrize("where", TOOLS)
async def test_lines_of_a_tool(where: str, lines: Lines) -> None:
    """What a tool logs, wherever it runs, carries its call's id, tool and JSON-RPC id, and is counted."""
    server = hosts.new_server()
    ToolErrors().attach(server)
    server.tool(name="talker")(TOOLS[where])
    async with hosts.in_memory(server) as call:
        one, other = of_answer(await call("talker")), of_answer(await call("talker"))
    assert one != other
    for request_id in (one, other):
        found = logs.find(request_id, lines.folder)
        assert [record["event"] for record in found] == ["by structlog", "by logging", "tool_failed"]
        assert {record["tool"] for record in found} == {"talker"}
        assert len({record["jsonrpc_id"] for record in found}) == 1
        assert found[0]["where"] == found[1]["where"] == ("async" if where == "task" else where)
        assert_counted(found)


@pytest.mark.anyio
async def test_an_id_of_the_callers(lines: Lines) -> None:
    """What a tool says or binds as `request_id` does not displace the call's, nor does clearing what is bound."""
    server = hosts.new_server()
    ToolErrors().attach(server)

    @server.tool()
    async def tool() -> None:
        log = structlog.get_logger()
        log.info("said", request_id="mine", tool="hammer", jsonrpc_id="j")
        logging.getLogger("x").warning("by logging", extra={"request_id": "mine"})
        structlog.contextvars.bind_contextvars(request_id="mine")
        log.info("bound")
        structlog.contextvars.clear_contextvars()
        log.info("cleared")
        logging.getLogger("x").warning('{"event": "as JSON", "request_id": "mine"}')
        raise RuntimeError("no such row")

    async with hosts.in_memory(server) as call:
        request_id = of_answer(await call("tool"))
    found = {record["event"]: record for record in logs.find(request_id, lines.folder)}
    forged = '{"event": "as JSON", "request_id": "mine"}'  # a text, whatever it looks like
    assert list(found) == ["said", "by logging", "bound", "cleared", forged, "tool_failed"]
    assert {record["request_id"] for record in found.values()} == {request_id}
    assert {record["tool"] for record in found.values()} == {"tool"}
    assert [found[event].get("event_request_id") for event in ("said", "by logging", "bound")] == ["mine"] * 3
    assert (found["said"]["event_tool"], found["said"]["event_jsonrpc_id"]) == ("hammer", "j")
    assert_counted(list(found.values()))


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [True, False])
async def test_a_late_line(fails: bool, lines: Lines) -> None:
    """A line that a task logs after the result belongs to no call; with the id as its own field, it is found."""
    server, tasks, go = hosts.new_server(), [], asyncio.Event()
    ToolErrors().attach(server)
    seen: list[str] = []

    async def later(request_id: str) -> None:
        await go.wait()
        _say("late")
        assert "request_id" not in structlog.contextvars.get_contextvars()
        structlog.get_logger().info("told", request_id=request_id)

    @server.tool()
    async def tool() -> str:
        call = current_call()
        assert call is not None
        seen.append(call.request_id)
        tasks.append(asyncio.create_task(later(call.request_id)))
        structlog.get_logger().info("in time")
        if fails:
            raise RuntimeError("no such row")
        return "done"

    async with hosts.in_memory(server) as call:
        await call("tool")
        go.set()
        await asyncio.gather(*tasks)
        await call("tool")
    found = logs.find(seen[0], lines.folder)
    assert [record["event"] for record in found] == ["in time", *(["tool_failed"] if fails else []), "told"]
    assert [record["lines"] for record in found if "lines" in record] == ([2] if fails else [])
    late = [record for record in logs.records(lines.folder) if record.get("where") == "late"]
    assert [record["event"] for record in late][:2] == ["by structlog", "by logging"]
    assert not any({"request_id", "trace_id", "tool", "jsonrpc_id"} & set(record) for record in late)


@pytest.mark.anyio
async def test_counted_with_nested_tools_and_hooks(lines: Lines) -> None:
    """Lines of nested tools, told or not, are counted with the call's; what the hook logs comes after, and is found."""
    hooked: list[str] = []

    def hook(exc: BaseException, failure: Any) -> None:
        hooked.append(failure.code)
        structlog.get_logger().info("by the hook")

    errors = ToolErrors(on_error=hook)

    @errors
    def inner(number: int) -> None:
        structlog.get_logger().info("inner", number=number)
        raise LookupError("inner")

    server = hosts.new_server()
    errors.attach(server)

    @server.tool()
    def outer() -> None:
        for number in range(2):
            with pytest.raises(ToolFailure):
                inner(number)
        structlog.get_logger().info("outer")
        raise RuntimeError("no such row")

    async with hosts.in_memory(server) as call:
        found = logs.find(of_answer(await call("outer")), lines.folder)
    events = [(record["event"], record.get("handled")) for record in found]
    final = events.index(("tool_failed", None))
    assert events[:3] == [("inner", None)] * 2 + [("outer", None)]
    assert events.count(("tool_failed", "recovered")) == 2
    assert events.count(("by the hook", None)) == len(hooked) == 3
    assert found[final]["lines"] == final + 1 == len(found) - 1


@pytest.mark.anyio
@pytest.mark.skipif(not hosts.IS_FASTMCP, reason="only fastmcp has middleware that runs a tool again")
async def test_counted_with_retries(lines: Lines) -> None:
    """Lines of runs that a middleware repeats are one call's, and counted together."""
    from fastmcp.server.middleware.error_handling import RetryMiddleware

    from iserror import ErrorMap

    errors = ErrorMap()
    errors.add(
        TimeoutError, code="BUSY", category="unavailable", message="Busy.", retryable=True, outcome="not_applied"
    )
    server = hosts.new_server()
    server.add_middleware(RetryMiddleware(max_retries=2, base_delay=0.001, retry_exceptions=(Exception,)))
    ToolErrors(errors).attach(server)

    @server.tool()
    def tool() -> None:
        structlog.get_logger().info("run")
        raise TimeoutError("busy")

    async with hosts.in_memory(server) as call:
        found = logs.find(of_answer(await call("tool")), lines.folder)
    own = [record for record in found if "logger" not in record]  # the middleware logs too
    events = [(record["event"], record.get("handled")) for record in own]
    assert events == [("run", None), ("tool_failed", "retried")] * 2 + [("run", None), ("tool_failed", None)]
    assert_counted(found)


# --- the cases -------------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.newest
def test_cases_c06_c31_c32_c36(tmp_path: Path) -> None:
    """C06, C31, C32, C36: over stdio stdout is the protocol; each failure, an exit too, has one line under its id."""
    with hosts.RawStdio(
        "tests/servers/hostile_server.py", "--log", str(tmp_path / "logs"), "--signs", str(tmp_path)
    ) as raw:
        answers = [raw.call("talk"), raw.call("fail", {"kind": "__str__ raises exit"}), raw.call("fail", {"kind": "?"})]
        answers.append(raw.call("succeed"))
        assert raw.noise == []
    ids = [of_answer(answer) for answer in answers[:3]]
    records = list(logs.records(tmp_path / "logs"))
    assert ids_of(records) == ids
    assert [record["level"] for record in records if record["event"] == "tool_failed"] == ["error"] * 3
    assert {record["request_id"] for record in records} == set(ids)
    for one in ids:
        assert_counted(logs.find(one, tmp_path / "logs"))


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["sync", "async", "wrapped"])
async def test_case_c36(kind: str, lines: Lines) -> None:
    """C36: a tool that exits has one line, at level error, under the id that the client got; the server goes on."""
    server = hosts.new_server()
    ToolErrors().attach(server)

    def leave() -> None:
        structlog.get_logger().info("leaving")
        sys.exit(3)

    async def leave_async() -> None:
        leave()

    def wrapped() -> None:
        try:
            leave()
        except SystemExit as exc:
            raise hosts.ToolError("it ended") from exc

    server.tool(name="tool")({"sync": leave, "async": leave_async, "wrapped": wrapped}[kind])
    async with hosts.in_memory(server) as call:
        one, other = of_answer(await call("tool")), of_answer(await call("tool"))
    for request_id in (one, other):
        found = logs.find(request_id, lines.folder)
        assert [record["event"] for record in found] == ["leaving", "tool_failed"]
        assert "SystemExit" in json.dumps(found[1]["exception"])
        assert_counted(found)


# --- started and finished --------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("calls", "level", "told"), [(True, "DEBUG", True), (True, "INFO", False), (False, "DEBUG", False)]
)
async def test_calls(calls: bool, level: str, told: bool, tmp_path: Path) -> None:
    """With `calls` and at level DEBUG only, a call has a line at its start, and at its end if it ended well."""
    configure_logging(tmp_path, level=level)
    errors, server, ids = ToolErrors(calls=calls), hosts.new_server(), []
    errors.attach(server)

    def noted() -> None:
        call = current_call()
        assert call is not None
        ids.append(call.request_id)

    @errors
    def inner(works: bool) -> str:
        if not works:
            raise LookupError("inner")
        return "inner"

    @server.tool()
    def good() -> str:
        noted()
        return inner(True)

    @server.tool()
    async def bad() -> str:
        noted()
        raise RuntimeError("no such row")

    @server.tool()
    async def recovering() -> str:
        noted()
        with pytest.raises(ToolFailure):
            inner(False)
        return "done"

    async with hosts.in_memory(server) as call:
        for tool in ("good", "bad", "recovering"):
            await call(tool)

    def events(number: int) -> list[tuple[str, str, str]]:
        found = [record for record in logs.find(ids[number], tmp_path) if not record.get("logger")]
        if told or number == 1:
            assert_counted(found)
        return [(record["event"], record["tool"], record["level"]) for record in found]

    start, done = "tool_started", "tool_finished"
    shown = {
        0: [(start, "good"), (start, "inner"), (done, "inner"), (done, "good")],
        1: [(start, "bad"), ("tool_failed", "bad")],
        2: [(start, "recovering"), (start, "inner"), ("tool_failed", "inner"), (done, "recovering")],
    }
    for number, expected in shown.items():
        seen = events(number)
        assert [item[:2] for item in seen] == [item for item in expected if told or item[0] == "tool_failed"]
        assert {item[2] for item in seen if item[0] in (start, done)} <= {"debug"}


def _events(folder: Path) -> list[str]:
    return [record["event"] for record in logs.records(folder) if not record.get("logger")]


def test_calls_of_decorated_functions(tmp_path: Path) -> None:
    """A decorated function and a generator have a line at their start and one at their end, and only one of each."""
    configure_logging(tmp_path, level="DEBUG")
    errors = ToolErrors(calls=True)

    @errors
    def plain(works: bool) -> int:
        return 1 if works else {}[0]

    @errors
    def generator(works: bool) -> Iterator[int]:
        yield 1
        yield 2
        if not works:
            raise LookupError("no")

    @errors
    async def agenerator(works: bool) -> Any:
        yield 1
        if not works:
            raise LookupError("no")

    async def drain(works: bool) -> list[int]:
        return [item async for item in agenerator(works)]

    uses: list[Callable[[bool], object]] = [
        plain,
        lambda works: list(generator(works)),
        lambda works: asyncio.run(drain(works)),
    ]
    for use in uses:
        before = len(_events(tmp_path))
        use(True)
        assert _events(tmp_path)[before:] == ["tool_started", "tool_finished"]
        before = len(_events(tmp_path))
        with pytest.raises(ToolFailure):
            use(False)
        assert _events(tmp_path)[before:] == ["tool_started", "tool_failed"]
    before = len(_events(tmp_path))
    begun = generator(True)
    next(begun)
    begun.close()
    assert _events(tmp_path)[before:] == ["tool_started"]
    for one in {record["request_id"] for record in logs.records(tmp_path)}:
        found = logs.find(one, tmp_path)
        if len(found) > 1:
            assert_counted(found)


@pytest.mark.anyio
async def test_a_cancelled_call_did_not_finish(tmp_path: Path) -> None:
    """A call that is cancelled has no line that says it finished."""
    configure_logging(tmp_path, level="DEBUG")
    started = asyncio.Event()

    @ToolErrors(calls=True)
    async def tool() -> None:
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(tool())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "tool_started" in _events(tmp_path)
    assert "tool_finished" not in _events(tmp_path)


@pytest.mark.anyio
async def test_a_call_without_a_client_that_is_cancelled(lines: Lines) -> None:
    """A decorated function, and a tool called in process, that are cancelled leave one line that ends the call."""
    started = asyncio.Event()

    @ToolErrors()
    async def waits() -> None:
        started.set()
        await asyncio.sleep(60)

    server = hosts.new_server()
    ToolErrors().attach(server)

    @server.tool()
    async def slow() -> str:
        started.set()
        await asyncio.sleep(60)
        return "done"

    for work in (waits, lambda: server.call_tool("slow", {})):
        started.clear()
        task = asyncio.ensure_future(work())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [(line["event"], line["tool"], line["lines"]) for line in lines.read()] == [
        ("tool_cancelled", "waits", 1),
        ("tool_cancelled", "slow", 1),
    ]


@pytest.mark.anyio
async def test_what_the_host_notes_of_every_request(lines: Lines, caplog: pytest.LogCaptureFixture) -> None:
    """Successful calls log nothing, whatever the host notes at info level; a user's logger of a like name does."""
    logging.root.setLevel(logging.INFO)
    server = hosts.new_server()
    ToolErrors().attach(server)

    @server.tool()
    def tool() -> str:
        for name in ("mcp.mine", "fastmcp.billing", "mcp"):
            logging.getLogger(name).propagate = True
            logging.getLogger(name).info("paid")
        return "done"

    async with hosts.in_memory(server) as call:
        await call("tool")
    written = [json.loads(line) for file in lines.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(line["logger"] for line in written) == ["fastmcp.billing", "mcp", "mcp.mine"]


# --- other processes -------------------------------------------------------------------------------------------


def _in_pool(method: str, work: Any, *numbers: int) -> list[Any]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        waiting = [pool.submit(work, number) for number in numbers]
        return [future.result() for future in waiting]


def _in_old_pool(method: str, work: Any, *numbers: int) -> list[Any]:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return [pool.apply(work, (number,)) for number in numbers]


def _in_child(_: str, work: Any, number: int) -> None:
    child = os.fork()
    if not child:
        try:
            work(number)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    raise RuntimeError("the child failed")


WAYS = {"executor": _in_pool, "pool": _in_old_pool, "fork": _in_child}


@needs_posix
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("way", "method", "work"),
    [
        *itertools.product(["executor", "pool", "fork"], ["fork"], [workers.divide, workers.refuse, workers.bare]),
        ("executor", "spawn", workers.divide),  # it takes a second
    ],
)
async def test_a_failure_in_another_process(
    work: Any, way: str, method: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged there under an id of its own, and with the call that it ends: the whole chain, and that id."""
    monkeypatch.setenv("ISERROR_LOG", str(lines.folder))
    server = hosts.new_server()
    ToolErrors().attach(server)

    @server.tool()
    def tool() -> list[Any] | None:
        return WAYS[way](method, work, 3)  # type: ignore[operator, no-any-return]

    async with hosts.in_memory(server) as call:
        answer = await call("tool")
    failure, parent = hosts.failure_of(answer), of_answer(answer)
    failed = [line for line in lines.read() if line["event"] == "tool_failed"]
    guarded = work is not workers.bare
    mine = next(line for line in failed if line["request_id"] == parent)
    assert len(failed) == 1 + guarded
    said = [line for line in lines.read() if line["event"] == "dividing"]
    assert not any(line.get("request_id") == parent or line.get("jsonrpc_id") for line in said)
    if guarded:
        child = next(line for line in failed if line is not mine)
        assert child["request_id"] != parent
        assert {line["request_id"] for line in said} <= {child["request_id"]}
        assert (child["tool"], child["outcome"]) == (work.__name__, "not_applied")
        assert mine.get("child_request_id") == (child["request_id"] if way != "fork" else None)
    if way == "fork":
        return
    # The child's tool reads, and the parent's may have done more.
    assert failure["code"] == ("NOT_TODAY" if work is workers.refuse else "INTERNAL_ERROR")
    assert (failure["outcome"], mine["outcome"], mine["mapped"]) == ("unknown", "unknown", work is workers.refuse)
    if work is workers.refuse:
        assert failure["message"] == "Not today, 3."
    types = [link["type"].rpartition(".")[2] for link in mine["exception"]]
    original = "ToolFailure" if work is workers.refuse else "ZeroDivisionError"
    assert types == [*(["ToolFailure"] if guarded else [original]), types[1], *([original] if guarded else [])]
    assert types[1] in ("_RemoteTraceback", "RemoteTraceback")
    if guarded:
        assert mine["exception"][-1]["frames"][-1]["function"] == work.__name__
    else:
        assert "number / (number - number)" in mine["exception"][1]["message"]


@needs_posix
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
async def test_no_call_in_another_process(lines: Lines) -> None:
    """A forked worker that lives longer than the call that started it has no call, and none is bound for structlog."""
    server = hosts.new_server()
    ToolErrors().attach(server)
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))

    @server.tool()
    def tool() -> str:
        return json.dumps(pool.submit(workers.who, 0).result())

    with pool:
        async with hosts.in_memory(server) as call:
            answers = [json.loads(hosts.text_of(await call("tool"))) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0][1:] == [None, None]
    assert answers[0][0] != os.getpid()


# --- a worker that serves many calls ---------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["after", "handed over", "overlapping", "detached"])
async def test_a_shared_worker(how: str, lines: Lines) -> None:
    """A failure of a worker that an earlier call started is logged once, as that of the call that waits for it."""
    server, guard = hosts.new_server(), ToolErrors()
    guard.attach(server)
    jobs: asyncio.Queue[Any] = asyncio.Queue()
    ids: dict[str, str] = {}
    alive: list[Any] = []
    done = asyncio.Event()

    @guard(effect="read")
    async def fetch(what: str) -> str:
        structlog.get_logger().info("fetching", what=what)
        if what == "bad":
            raise ToolFailure("GONE", "It is gone.")
        return what

    async def serve() -> None:
        while True:
            what, future, caller = await jobs.get()
            structlog.get_logger().info("serving", what=what)
            try:
                with in_call(caller) if how == "handed over" else contextlib.nullcontext():
                    future.set_result(await fetch(what))
            except Exception as exc:
                future.set_exception(exc)

    @server.tool()
    async def get(what: str) -> str:
        caller = current_call()
        assert caller is not None
        ids[what] = caller.request_id
        if not alive:
            with in_call(None) if how == "detached" else contextlib.nullcontext():
                alive.append(asyncio.create_task(serve()))
        future = asyncio.get_running_loop().create_future()
        jobs.put_nowait((what, future, caller))
        result = await future
        if what == "good" and how in ("handed over", "overlapping"):
            await done.wait()
        return str(result)

    async with hosts.in_memory(server) as call:
        first = asyncio.create_task(call("get", {"what": "good"}))
        if how in ("handed over", "overlapping"):
            while "good" not in ids:
                await asyncio.sleep(0)
        else:
            await first
        bad = await call("get", {"what": "bad"})
        done.set()
        assert hosts.text_of(await first) == "good"
    alive[0].cancel()
    orphans.report_all()
    found = [line for line in logs.records(lines.folder) if line.get("code") == "GONE"]
    assert [line["request_id"] for line in found] == [ids["bad"]] == [of_answer(bad)]
    assert not found[0].get("handled")
    said = {line["event"]: line.get("request_id") for line in logs.records(lines.folder) if line.get("what") == "bad"}
    if how == "handed over":
        assert said == {"serving": ids["good"], "fetching": ids["bad"]}
    elif how == "overlapping":  # its context is the first call's, which still runs
        assert said == {"serving": ids["good"], "fetching": ids["good"]}
    else:
        assert said["serving"] is None
        assert said["fetching"] not in ids.values()
    if how in ("after", "detached"):
        assert found[0]["child_request_id"] == said["fetching"]


@pytest.mark.anyio
async def test_a_worker_that_fails_for_no_call(lines: Lines) -> None:
    """What no call takes over is logged once, under an id of its own, and with the time that it took."""
    server, guard, go = hosts.new_server(), ToolErrors(), asyncio.Event()
    guard.attach(server)
    tasks: list[Any] = []

    @guard
    async def later() -> None:
        await go.wait()
        raise LookupError("no such row")

    @server.tool()
    async def start() -> None:
        tasks.append(asyncio.create_task(go.wait()))
        tasks.append(asyncio.create_task(asyncio.wait_for(_after(go, later), 20)))

    async with hosts.in_memory(server) as call:
        await call("start")
        go.set()
        await asyncio.wait(tasks)
    assert [line["event"] for line in lines.read()] == []
    orphans.report_all(-1)
    assert [line["event"] for line in lines.read()] == []
    orphans.report_all()
    orphans.report_all()
    (line,) = lines.read()
    assert (line["event"], line["tool"], line["exception"][0]["type"]) == ("tool_failed", "later", "LookupError")
    assert "child_request_id" not in line


async def _after(go: asyncio.Event, work: Any) -> None:
    await go.wait()
    await work()
