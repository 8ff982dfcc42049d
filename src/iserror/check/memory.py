"""A connection to a server object in this process.

The server runs in its own thread with its own event loop, so that a tool that blocks its loop, or ends its thread,
doesn't stop the check.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import anyio

from iserror.check.connection import GRACE, Connection, GoneError
from iserror.hosts.inside import dumped_message, lifespan_of, parsed_message, serve

R = TypeVar("R")


class Memory(Connection):
    """A connection to a server object, which starts to serve at once."""

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
        self._there(self.requests.send_nowait, parsed_message(data))

    def close(self) -> None:
        if self.requests is not None:
            self._there(self.requests.close)

    async def inside(self, work: Callable[[], Coroutine[Any, Any, R]], seconds: float) -> R:
        """Run a coroutine on the server's event loop, and return its result.

        Args:
            work: Makes the coroutine.
            seconds: How long to wait for it.

        Raises:
            GoneError: If the loop has ended, or the coroutine takes longer.
        """
        await self.started.wait()
        if self.there is None or not self.thread.is_alive():
            raise GoneError("died", "it stopped serving")
        with anyio.move_on_after(seconds):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.there))
        raise GoneError("timeout", f"its event loop did not answer within {seconds:g} s")

    def _there(self, function: Any, *arguments: Any) -> None:
        assert self.there is not None
        # If the loop has ended, the inbox holds the reason.
        with contextlib.suppress(RuntimeError):
            self.there.call_soon_threadsafe(function, *arguments)

    def _here(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):
            self.here.call_soon_threadsafe(function, *arguments)

    # --- in the server's thread ---

    def _run(self) -> None:
        try:
            anyio.run(self._serve)
            gone = "it stopped serving"
        except BaseException as exc:  # A server's SystemExit ends its thread, not the check.
            gone = f"{type(exc).__name__} ended it"
        self._here(self.put, GoneError("died", gone))
        self._here(self.started.set)

    async def _serve(self) -> None:
        self.there = asyncio.get_running_loop()
        self.requests, incoming = anyio.create_memory_object_stream[Any](float("inf"))
        outgoing, answers = anyio.create_memory_object_stream[Any](float("inf"))
        lifespan = lifespan_of(self.server)
        async with lifespan, incoming, outgoing, answers, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass_on, answers)
            self._here(self.started.set)
            await serve(self.server, incoming, outgoing)
            tasks.cancel_scope.cancel()

    async def _pass_on(self, answers: Any) -> None:
        async for message in answers:
            try:
                data = dumped_message(message)
            except Exception as exc:
                self._here(self.put, GoneError("undecodable", f"it cannot be sent ({type(exc).__name__})"))
                continue
            self._here(self.put_bytes, data)


@contextlib.asynccontextmanager
async def memory(server: Any) -> AsyncIterator[Connection]:
    """Serve a server object and connect to it."""
    connection = Memory(server)
    try:
        yield connection
    finally:
        connection.close()
        with anyio.CancelScope(shield=True):
            for _ in range(int(GRACE * 20)):
                if not connection.thread.is_alive():
                    break
                await anyio.sleep(0.05)
