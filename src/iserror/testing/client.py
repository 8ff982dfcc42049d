"""The host's real client, connected in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from iserror.client.classify import classify
from iserror.client.outcome import CallOutcome
from iserror.client.session import sender
from iserror.hosts.memory import in_memory_client
from iserror.support.look import look


class Connection:
    """A connected client.

    Args:
        client: The host's client: `ClientSession` of mcp 1.x, `Client` of mcp 2.x or of fastmcp.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._send = sender(client)

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> CallOutcome:
        """Call a tool once and return the outcome. No error is raised: each is an outcome too.

        Args:
            tool: The tool's name.
            arguments: JSON-safe arguments.
            meta: The `_meta` to send.
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
        settings: Further arguments of the host's client, such as callbacks.

    Raises:
        TypeError: If `server` is anything else.
    """
    __tracebackhide__ = True
    raised: BaseException | None = None
    async with in_memory_client(server, settings) as client:
        try:
            yield Connection(client)
        except GeneratorExit:
            raise
        except BaseException as exc:
            # Not through the client's task groups, which would wrap a test's assertion in a group.
            raised = exc
    if raised is not None:
        raise raised


@contextmanager
def caller() -> Iterator[Callable[..., CallOutcome]]:
    """Yield a function that calls a tool without `await`: one event loop, and one connection per call."""
    loop = asyncio.new_event_loop()

    def call_tool(
        server: Any, tool: str, arguments: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> CallOutcome:
        __tracebackhide__ = True
        if look(asyncio.get_running_loop, None) is not None:
            raise RuntimeError("an event loop is running: use `async with connect(server)` in an async test")
        return loop.run_until_complete(_call(server, tool, arguments, meta))

    try:
        yield call_tool
    finally:
        loop.run_until_complete(_finish(loop))
        loop.close()


async def _finish(loop: asyncio.AbstractEventLoop) -> None:
    """Clean up in the way of `asyncio.run`."""
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
