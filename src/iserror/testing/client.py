"""A real client of the host's own, connected in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from iserror.client.classify import classify
from iserror.client.outcome import CallOutcome
from iserror.client.session import sender
from iserror.hosts import SUPPORTED, adapter_of
from iserror.support.look import attempt


class Connection:
    """A connected client.

    Args:
        client: The host's own: `ClientSession` of mcp 1.x, `Client` of mcp 2.x or of fastmcp.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._send = sender(client)

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> CallOutcome:
        """Call a tool once and say what came of it; an error of any kind is an outcome, never an exception.

        Args:
            tool: The tool's name.
            arguments: JSON-safe arguments.
            meta: What goes along as `_meta`.
        """
        answer: Any
        try:
            answer = await self._send(tool, dict(arguments or {}), dict(meta or {}))
        except Exception as exc:
            answer = exc
        return classify(answer, tool=tool)


@asynccontextmanager
async def connect(server: Any, **settings: Any) -> AsyncIterator[Connection]:
    """Connect the host's own client to a server of this process, over the SDK's in-memory transport.

    Args:
        server: An `mcp` 1.x `FastMCP`, an `mcp` 2.x `MCPServer`, or a `fastmcp` 3.x or 4.x `FastMCP`.
        settings: What the host's client takes besides, such as callbacks.

    Raises:
        TypeError: `server` is none of these.
    """
    __tracebackhide__ = True
    raised: BaseException | None = None
    async with _client(server, settings) as client:
        try:
            yield Connection(client)
        except GeneratorExit:
            raise
        except BaseException as exc:
            # Not through the task groups of the client, which would make a group of a test's own assertion.
            raised = exc
    if raised is not None:
        raise raised


def _client(server: Any, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
    host = adapter_of(server)
    opened: AbstractAsyncContextManager[Any]
    if host == "mcp1":
        from mcp.shared.memory import create_connected_server_and_client_session

        opened = create_connected_server_and_client_session(server._mcp_server, **settings)
    elif host == "mcp2":
        from mcp import Client

        opened = Client(server, **settings)
    elif host == "fastmcp":
        from fastmcp import Client as FastMCPClient

        opened = FastMCPClient(server, **settings)
    else:
        raise TypeError(
            f"cannot connect to {type(server).__module__}.{type(server).__qualname__}: supported are {SUPPORTED}"
        )
    return opened


@contextmanager
def caller() -> Iterator[Callable[..., CallOutcome]]:
    """Give a function that calls a tool without `await`: one event loop, and a connection for each call."""
    loop = asyncio.new_event_loop()

    def call_tool(
        server: Any, tool: str, arguments: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> CallOutcome:
        __tracebackhide__ = True
        if attempt(asyncio.get_running_loop, None) is not None:
            raise RuntimeError("an event loop is running: use `async with connect(server)` in an async test")
        return loop.run_until_complete(_call(server, tool, arguments, meta))

    try:
        yield call_tool
    finally:
        loop.run_until_complete(_finish(loop))
        loop.close()


async def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """What `asyncio.run` does at the end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


async def _call(
    server: Any, tool: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> CallOutcome:
    async with connect(server) as connection:
        return await connection.call(tool, arguments, meta=meta)
