"""What ends a call from outside passes through the guard; what only looks like that becomes a failure."""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from iserror import ErrorMap, ToolErrors, ToolFailure, configure_logging
from iserror.support.causes import Group
from iserror.testing import assert_tool_error
from tests.conftest import Lines
from tests.helpers import hosts
from tests.servers import hostile_server

pytestmark = [pytest.mark.host, pytest.mark.python]

SCRIPT = "tests/servers/hostile_server.py"
ONLY_IF_HARMLESS = "repeat it only if it changes nothing"


class NotFound(Exception):
    pass


def new_guard(**settings: Any) -> ToolErrors:
    errors = ErrorMap()
    errors.add(NotFound, code="NOT_FOUND", category="not_found", message="No such thing.")
    errors.add(TimeoutError, code="UPSTREAM_TIMEOUT", category="deadline_exceeded", message="The upstream is slow.")
    return ToolErrors(errors, **settings)


def wait_for(path: Path, seconds: float = 15) -> bool:
    """Whether the file appears in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists():
            return True
        time.sleep(0.01)
    return False


class Recorder(hosts.RawStdio):
    """Keeps every message that the server sends."""

    def __init__(self, *arguments: str, version: str = "2025-06-18") -> None:
        self.messages: list[dict[str, Any]] = []
        super().__init__(SCRIPT, *arguments, version=version)

    def read(self, wanted: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            self.messages.append(json.loads(line))
            if self.messages[-1].get("id") == wanted:
                return self.messages[-1]
        raise AssertionError("no answer")

    def start(self, tool: str) -> int:
        self._id += 1
        self.send({"method": "tools/call", "params": {"name": tool, "arguments": {}}, "id": self._id})
        return self._id

    def cancel(self, request: int) -> None:
        self.send({"method": "notifications/cancelled", "params": {"requestId": request, "reason": "changed my mind"}})

    def answers(self, request: int) -> list[dict[str, Any]]:
        """What was sent for a request, without the 1.x SDK's own error for a cancelled one."""
        own = {"code": 0, "message": "Request cancelled"}
        return [m for m in self.messages if m.get("id") == request and not (hosts.ON_SDK_1 and m.get("error") == own)]


@pytest.fixture(scope="module")
def started() -> Iterator[list[tuple[Recorder, Path, Path]]]:
    """The servers that this module started: one, or more if one was killed."""
    servers: list[tuple[Recorder, Path, Path]] = []
    yield servers
    for raw, *_ in servers:
        raw.close()


@pytest.fixture
def server(started: list[Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorder, Path, Path]:
    """A server over stdio, the folder of its tools' signs, and its log, both empty."""
    if not started or started[-1][0].process.poll() is not None:
        signs = tmp_path_factory.mktemp("signs")
        log = tmp_path_factory.mktemp("log") / "log.jsonl"
        started.append((Recorder("--signs", str(signs), "--log", str(log)), signs, log))
    raw, signs, log = started[-1]
    for file in (*signs.iterdir(), *log.parent.glob("*.jsonl")):
        file.unlink()
    return raw, signs, log


def read_log(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


# --- by the client -----------------------------------------------------------------------------------------------

# What a tool does with its cancellation, and whether it is still cancelled when it ends.
CANCELLED = ["wait", "fail_in_cleanup", "swallow", "wait_in_thread"]


@pytest.mark.parametrize("tool", CANCELLED)
def test_cancelled_by_notification(tool: str, server: tuple[Recorder, Path, Path]) -> None:
    """A cancelled call reaches the tool, gets no answer, is logged as cancelled, and the session goes on."""
    if tool == "wait_in_thread" and hosts.HOST == "mcp1":
        pytest.skip("mcp 1.x runs sync tools on the event loop, where nothing can be cancelled meanwhile")
    raw, signs, log = server
    request = raw.start(tool)
    assert wait_for(signs / "started")
    raw.cancel(request)
    assert wait_for(signs / "ended")
    for _ in range(2):
        assert raw.call("succeed")["result"]["content"] == [{"type": "text", "text": "done"}]
    assert raw.answers(request) == []
    *failed, line = read_log(log)
    assert [(other["event"], other["handled"]) for other in failed] == (
        [("tool_failed", "cancelled")] if tool == "fail_in_cleanup" else []
    )
    assert (line["event"], line["level"], line["tool"]) == ("tool_cancelled", "info", tool)
    assert line["jsonrpc_id"] == request
    assert "code" not in line
    assert "exception" not in line


def test_cancelled_twice_and_too_late(server: tuple[Recorder, Path, Path]) -> None:
    """Cancelling twice, after the answer, or what never was, leaves the session as it is."""
    raw, signs, _ = server
    request = raw.start("wait")
    assert wait_for(signs / "started")
    for id_ in (request, request, 10_000):
        raw.cancel(id_)
    done = raw.call("succeed")
    raw.cancel(done["id"])
    failed = raw.call("fail", {"kind": "1 MB"})["result"]
    assert failed["_meta"]["iserror/failure"]["code"] == "INTERNAL_ERROR"
    assert raw.answers(request) == []


def test_dropped_connection(tmp_path: Path) -> None:
    """A dropped HTTP stream cancels the call where the revision says so, and the server answers the next one."""
    httpx = pytest.importorskip("httpx")
    signs, log = tmp_path / "signs", tmp_path / "log.jsonl"
    signs.mkdir()
    configure_logging(log)
    server = hostile_server.make()
    hostile_server.add_witnesses(server, ToolErrors(), signs)
    name = "io.modelcontextprotocol/"
    meta = {f"{name}protocolVersion": "2026-07-28", f"{name}clientCapabilities": {}}
    meta[f"{name}clientInfo"] = {"name": "raw", "version": "1"}  # type: ignore[assignment]
    headers = {"accept": "application/json, text/event-stream"}

    def body(tool: str) -> dict[str, Any]:
        if hosts.MODERN:
            headers.update({"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool})
        params = {"name": tool, "arguments": {}, **({"_meta": meta} if hosts.MODERN else {})}
        return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}

    with hosts.serving(server, stateless=True) as url, httpx.Client(timeout=20) as client:
        dropped = http.client.HTTPConnection(url.split("/")[2], timeout=20)
        asked = json.dumps(body("wait"))
        dropped.request("POST", "/mcp", asked, {**headers, "content-type": "application/json"})
        assert wait_for(signs / "started")
        dropped.close()
        if hosts.MODERN:
            assert wait_for(signs / "cancelled")
        assert "done" in client.post(url, json=body("succeed"), headers=headers).text
        if hosts.MODERN:
            assert [line["event"] for line in read_log(log)] == ["tool_cancelled"]


# --- in process --------------------------------------------------------------------------------------------------


async def sleep() -> str:
    await asyncio.sleep(30)
    return "done"


@pytest.mark.anyio
async def test_task_cancel(lines: Lines) -> None:
    """Cancelling the task of an in-process call ends it with CancelledError, and no failure is logged."""
    hooked: list[object] = []
    guard = new_guard(on_error=lambda *args: hooked.append(args))
    task = asyncio.ensure_future(guard(sleep)())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert hooked == []
    assert [line["event"] for line in lines.read() if line["event"] != "tool_cancelled"] == []


@pytest.mark.anyio
@pytest.mark.parametrize("settings", [{}, {"timeout": 10}])
async def test_a_limit_outside_of_the_call(settings: dict[str, Any]) -> None:
    """anyio's scopes and asyncio.wait_for round an in-process call end as they do round a bare one."""
    tool = new_guard()(**settings)(sleep)
    with anyio.move_on_after(0.02) as scope:
        await tool()
    assert scope.cancelled_caught
    with pytest.raises(asyncio.TimeoutError) as caught:
        await asyncio.wait_for(tool(), 0.02)
    assert not isinstance(caught.value, ToolFailure)


@pytest.mark.anyio
@pytest.mark.parametrize("wrap", [lambda tool: asyncio.wait_for(tool(), 0.02), None])
async def test_timeout_inside_a_served_tool(wrap: Callable[[Any], Any] | None, lines: Lines) -> None:
    """A time limit that a tool sets on another guarded one is an exception of the tool's, found in the map."""
    guard, server = new_guard(), hosts.new_server()
    guard.attach(server)
    inner = guard(sleep)

    @server.tool()
    async def outer():  # type: ignore[no-untyped-def]
        if wrap is not None:
            return await wrap(inner)
        with anyio.fail_after(0.02):
            return await inner()

    async with hosts.in_memory(server) as call:
        answer = await call("outer")
    # Before Python 3.11, asyncio's TimeoutError is another class.
    code = "UPSTREAM_TIMEOUT" if wrap is None or sys.version_info >= (3, 11) else "INTERNAL_ERROR"
    assert_tool_error(answer, code=code)
    assert [line["code"] for line in lines.read()] == [code]


# --- the guard's own time limit ----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_guard_timeout() -> None:
    """A tool that is stopped by its guard sees a cancellation; its caller gets TIMEOUT and is not cancelled."""
    seen: list[str] = []

    @new_guard()(timeout=0.02)
    async def pay() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(ToolFailure) as caught:
        await pay()
    failure = caught.value.failure
    assert failure is not None
    assert failure.text == (
        "TIMEOUT: The tool did not finish within 0.02 s.\n"
        f"[pay failed; {ONLY_IF_HARMLESS}; request_id: {failure.request_id}]"
    )
    assert seen == ["cancelled"]
    await asyncio.sleep(0)  # nothing is left to be raised here


async def own_timeout() -> None:
    raise TimeoutError("upstream")


async def fails_in_cleanup() -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise NotFound from None


@pytest.mark.anyio
@pytest.mark.parametrize(("tool", "code"), [(own_timeout, "UPSTREAM_TIMEOUT"), (fails_in_cleanup, "NOT_FOUND")])
async def test_own_exception_under_a_time_limit(tool: Callable[[], Any], code: str) -> None:
    """What a tool raises itself, before the limit or in its clean-up after it, is what is said."""
    with pytest.raises(ToolFailure) as caught:
        await new_guard()(timeout=0.05)(tool)()
    assert caught.value.code == code


# --- what only looks like it, and what is more -------------------------------------------------------------------


async def stray() -> None:
    other = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


@pytest.mark.anyio
async def test_stray_cancelled_error_on_a_server(lines: Lines) -> None:
    """A CancelledError of somebody else's task is a crash, alone or in a group, and the session goes on."""
    server = hosts.new_server()
    new_guard().attach(server)

    @server.tool()
    async def alone():  # type: ignore[no-untyped-def]
        await stray()

    @server.tool()
    async def grouped():  # type: ignore[no-untyped-def]
        raise Group("both", [asyncio.CancelledError(), NotFound()])

    async with hosts.in_memory(server) as call:
        for tool in ("alone", "grouped", "alone"):
            assert_tool_error(await call(tool), code="INTERNAL_ERROR")
    assert [line["level"] for line in lines.read()] == ["error", "error", "error"]


@pytest.mark.parametrize(("kind", "code"), [(KeyboardInterrupt, None), (GeneratorExit, "INTERNAL_ERROR")])
@pytest.mark.parametrize("is_async", [False, True])
def test_passes(kind: type[BaseException], code: str | None, is_async: bool, lines: Lines) -> None:
    """KeyboardInterrupt leaves a guarded function as it is and logs nothing; a raised GeneratorExit is a crash."""
    raised = kind()

    def sync_tool() -> None:
        raise raised

    async def async_tool() -> None:
        raise raised

    with pytest.raises((kind, ToolFailure)) as caught:
        if is_async:
            new_guard()(async_tool)().send(None)
        else:
            new_guard()(sync_tool)()
    assert caught.value is raised or isinstance(caught.value, ToolFailure)
    assert [line["code"] for line in lines.read()] == ([code] if code else [])
    assert getattr(caught.value, "code", None) == code


@pytest.mark.anyio
async def test_closed_coroutine(lines: Lines) -> None:
    """A coroutine that is closed while it waits ends quietly, nested guards included."""
    ended: list[str] = []

    @new_guard()
    async def inner() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("closed")

    @new_guard()
    async def outer() -> None:
        await inner()

    running = outer()
    running.send(None)
    running.close()
    assert ended == ["closed"]
    assert lines.read() == []


@pytest.mark.anyio
async def test_time_limit_of_a_middleware() -> None:
    """An asyncio time limit of the author's between host and tool ends the tool, and the author sees a TimeoutError."""
    if not hosts.IS_FASTMCP:
        pytest.skip("only fastmcp has middleware around its tools")
    from fastmcp.server.middleware import Middleware

    seen: list[str] = []

    class Limit(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            try:
                return await asyncio.wait_for(call_next(context), 0.02)
            except asyncio.TimeoutError:
                seen.append("limit")
                raise NotFound from None

    guard, server = new_guard(), hosts.new_server()
    guard.attach(server)
    server.add_middleware(Limit())
    server.tool(sleep)
    async with hosts.in_memory(server) as call:
        assert_tool_error(await call("sleep"), code="NOT_FOUND")
    assert seen == ["limit"]


@pytest.mark.anyio
async def test_hand_made_limit_around_a_nested_call(lines: Lines) -> None:
    """A tool that cancels its own task after a while, as older `async_timeout` does, can tell that from a failure."""
    guard, server = new_guard(), hosts.new_server()
    guard.attach(server)
    inner = guard(sleep)

    @server.tool()
    async def outer():  # type: ignore[no-untyped-def]
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        try:
            return await inner()
        except asyncio.CancelledError:
            raise NotFound from None

    async with hosts.in_memory(server) as call:
        assert_tool_error(await call("outer"), code="NOT_FOUND")
        assert_tool_error(await call("outer"), code="NOT_FOUND")
    assert [line["code"] for line in lines.read() if line["event"] == "tool_failed"] == ["NOT_FOUND"] * 2


GROUPS: list[tuple[list[BaseException], str | None]] = [
    ([NotFound(), NotFound()], "NOT_FOUND"),
    ([NotFound(), ValueError()], "INTERNAL_ERROR"),
    ([SystemExit(1), NotFound()], "INTERNAL_ERROR"),
    ([NotFound(), KeyboardInterrupt()], None),
    ([Group("inner", [ValueError(), KeyboardInterrupt()]), NotFound()], None),
    ([GeneratorExit()], "INTERNAL_ERROR"),
]


@pytest.mark.parametrize(("leaves", "code"), GROUPS)
def test_group(leaves: list[BaseException], code: str | None) -> None:
    """A group passes whole when an interrupt is among its leaves, else it is one failure."""
    group = Group("several", leaves)

    @new_guard()
    def tool() -> None:
        raise group

    with pytest.raises((Group, ToolFailure)) as caught:
        tool()
    if code is None:
        assert caught.value is group
    else:
        assert isinstance(caught.value, ToolFailure)
        assert caught.value.code == code


@pytest.mark.anyio
async def test_group_while_being_cancelled() -> None:
    """A group with a CancelledError in it passes when the call itself is being cancelled."""

    @new_guard()
    async def tool() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as exc:
            raise Group("clean-up failed too", [exc, ValueError("x")]) from None

    task = asyncio.ensure_future(tool())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(Group):
        await task


@pytest.mark.anyio
async def test_closed_generator(lines: Lines) -> None:
    """A guarded async generator that its reader leaves is closed, and nothing failed."""
    ended: list[str] = []

    @new_guard()
    async def tool() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("closed")

    numbers = tool()
    assert await numbers.__anext__() == 1
    await numbers.aclose()  # type: ignore[attr-defined]
    assert ended == ["closed"]
    assert lines.read() == []
