"""A bug in the client's own steps is heard, and the caller still gets the outcome."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp import ClientSession as Session

from iserror.client import OutcomeUnknown, ToolCaller
from iserror.logs import excinfo
from iserror.support.look import Fault, faults
from tests.helpers import hosts

pytestmark = pytest.mark.sdk


class ClientSession:
    """A session whose connection breaks in each call."""

    __module__ = "mcp.client.session"

    async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
        raise EOFError("the pipe broke")

    async def list_tools(self) -> Any:
        return []


@pytest.mark.anyio
async def test_a_bug_in_the_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the exception of a lost call cannot be described, the fault is reported without the user's text."""

    def broken(exc: BaseException) -> Any:
        raise LookupError(f"secret of {exc}")

    heard: list[Fault] = []
    monkeypatch.setattr(excinfo, "describe", broken)
    monkeypatch.setattr(faults, "raises", False)
    monkeypatch.setattr(faults, "listener", heard.append)
    outcome = await ToolCaller(ClientSession(), max_attempts=1).call("pay")
    assert isinstance(outcome, OutcomeUnknown)
    assert [fault.error for fault in heard] == ["LookupError"]
    assert "secret" not in repr(heard)


@pytest.mark.anyio
async def test_a_limit_that_runs_out_cancels_the_request() -> None:
    """Before a retry the server hears that nobody waits for the first attempt: each id once, and the right one."""
    heard: list[tuple[str, Any]] = []
    to_client, from_server = anyio.create_memory_object_stream[Any](100)
    to_server, from_client = anyio.create_memory_object_stream[Any](100)

    async def server() -> None:
        async for sent in from_client:
            message = getattr(sent.message, "root", sent.message)
            params = message.params or {}
            if message.method == "tools/call":
                heard.append(("call", message.id))
            elif message.method == "notifications/cancelled":
                heard.append(("cancelled", params["requestId"]))

    class Read:
        name = "read"
        annotations = hosts.annotations(readOnlyHint=True)

    async with from_server, to_client, to_server, from_client, anyio.create_task_group() as tasks:
        tasks.start_soon(server)
        async with Session(from_server, to_server) as session:
            caller = ToolCaller(session, tools=[Read()], timeout=0.3, max_attempts=2, backoff=0.01)  # type: ignore[list-item]
            async with anyio.create_task_group() as calls:
                calls.start_soon(caller.call, "read", {"n": 1})
                calls.start_soon(caller.call, "read", {"n": 2})
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    sent = [number for what, number in heard if what == "call"]
    assert len(sent) == len(set(sent)) == 4
    assert sorted(number for what, number in heard if what == "cancelled") == sorted(sent)
    for number in sent:  # a retry follows what was given up
        assert heard.index(("call", number)) < heard.index(("cancelled", number))
    assert [what for what, _ in heard[:4]] == ["call", "call", "cancelled", "cancelled"]
