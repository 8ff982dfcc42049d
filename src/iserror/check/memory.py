"""A server object of this process as one end of a connection.

It runs in a thread with an event loop of its own: a tool that blocks its loop must not block the check, and one
that ends its thread must not end the check.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import anyio

from iserror.check.connection import GRACE, GoneError, Wire

R = TypeVar("R")


def lowlevel_of(server: Any) -> Any:
    """The SDK's lowlevel server inside one of the four hosts' servers, or the object itself; None of anything else."""
    if isinstance(server, type):
        return None
    if hasattr(server, "create_initialization_options"):
        return server
    return getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", None)


class Memory(Wire):
    """The connection to it."""

    name = "memory"

    def __init__(self, server: Any) -> None:
        super().__init__()
        self.server = server
        self.here = asyncio.get_running_loop()
        self.there: asyncio.AbstractEventLoop | None = None
        self.started = anyio.Event()
        self.requests: Any = None
        self.thread = threading.Thread(target=self._run, daemon=True, name="iserror check")
        self.thread.start()

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        await self.started.wait()
        self._there(self.requests.send_nowait, _parsed(data))

    def close(self) -> None:
        if self.requests is not None:
            self._there(self.requests.close)

    async def inside(self, work: Callable[[], Coroutine[Any, Any, R]], seconds: float) -> R:
        """Run something on the server's own event loop.

        Raises:
            GoneError: The loop has ended, or did not answer within so many seconds.
        """
        await self.started.wait()
        if self.there is None or not self.thread.is_alive():
            raise GoneError("died", "it stopped serving")
        with anyio.move_on_after(seconds):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.there))
        raise GoneError("timeout", f"its event loop did not answer within {seconds:g} s")

    def _there(self, function: Any, *arguments: Any) -> None:
        assert self.there is not None
        with contextlib.suppress(RuntimeError):  # its loop has ended: what it said last is in the inbox
            self.there.call_soon_threadsafe(function, *arguments)

    def _here(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):
            self.here.call_soon_threadsafe(function, *arguments)

    # --- in the server's thread ---

    def _run(self) -> None:
        try:
            anyio.run(self._serve)
            gone = "it stopped serving"
        except BaseException as exc:  # a SystemExit of the server ends its thread, not the check
            gone = f"{type(exc).__name__} ended it"
        self._here(self.put, GoneError("died", gone))
        self._here(self.started.set)

    async def _serve(self) -> None:
        self.there = asyncio.get_running_loop()
        lowlevel = lowlevel_of(self.server)
        self.requests, incoming = anyio.create_memory_object_stream[Any](float("inf"))
        outgoing, answers = anyio.create_memory_object_stream[Any](float("inf"))
        lifespan = getattr(self.server, "_lifespan_manager", contextlib.nullcontext)  # fastmcp's
        async with lifespan(), incoming, outgoing, answers, anyio.create_task_group() as tasks:
            tasks.start_soon(self._hand_on, answers)
            self._here(self.started.set)
            await lowlevel.run(incoming, outgoing, lowlevel.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _hand_on(self, answers: Any) -> None:
        async for item in answers:
            try:
                # As the SDKs' transports do it.
                data = item.message.model_dump_json(by_alias=True, exclude_none=True).encode()
            except Exception as exc:
                self._here(self.put, GoneError("undecodable", f"it cannot be sent ({type(exc).__name__})"))
                continue
            self._here(self.put_bytes, data)


def _parsed(data: bytes) -> Any:
    """What the SDKs' transports hand to a server: the message, or the exception that it could not be read with."""
    from mcp import types
    from mcp.shared.message import SessionMessage

    adapter: Any = getattr(types, "jsonrpc_message_adapter", None)
    try:
        if adapter is not None:
            return SessionMessage(adapter.validate_json(data))
        return SessionMessage(types.JSONRPCMessage.model_validate_json(data))
    except ValueError as exc:
        return exc


@contextlib.asynccontextmanager
async def memory(server: Any) -> AsyncIterator[Wire]:
    """Serve a server object and connect to it."""
    wire = Memory(server)
    try:
        yield wire
    finally:
        wire.close()
        with anyio.CancelScope(shield=True):
            for _ in range(int(GRACE * 20)):
                if not wire.thread.is_alive():
                    break
                await anyio.sleep(0.05)
