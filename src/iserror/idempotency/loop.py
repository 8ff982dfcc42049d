"""The event loop that stores run on: one a process, in a thread of its own.

So a lease is renewed while a tool blocks the server's loop (mcp 1.x runs sync tools on it), sync tools reach an
async store without waiting for the loop that waits for them, and a store has one loop for its connections.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio.from_thread

T = TypeVar("T")


class _Thread:
    """The thread, once something needed it."""

    lock = threading.Lock()
    loop: asyncio.AbstractEventLoop | None = None
    stop: asyncio.Event
    thread: threading.Thread


def _forget() -> None:
    """A forked child has no thread, and the lock may have been held."""
    _Thread.lock, _Thread.loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget)


def _end() -> None:
    """Cancel what still runs, so that it does not complain about the end of the process."""
    if _Thread.loop is not None:
        _Thread.loop.call_soon_threadsafe(_Thread.stop.set)
        _Thread.thread.join(1)


async def _serve(ready: threading.Event) -> None:
    _Thread.stop = asyncio.Event()
    _Thread.loop = asyncio.get_running_loop()
    ready.set()
    await _Thread.stop.wait()


def is_running() -> bool:
    """Whether anything has been submitted in this process."""
    return _Thread.loop is not None


def submit(run: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the loop, from any thread."""
    with _Thread.lock:
        if _Thread.loop is None:
            ready = threading.Event()
            _Thread.thread = threading.Thread(
                target=lambda: asyncio.run(_serve(ready)), name="iserror-idempotency", daemon=True
            )
            _Thread.thread.start()
            ready.wait()
            atexit.register(_end)
        assert _Thread.loop is not None
        return asyncio.run_coroutine_threadsafe(run, _Thread.loop)


async def wait(future: concurrent.futures.Future[T]) -> T:
    """Wait in an async function; what runs goes on when this is cancelled."""
    return await asyncio.shield(asyncio.wrap_future(future))


def wait_blocking(future: concurrent.futures.Future[T], *, cancellable: bool) -> T:
    """Wait in a sync function.

    Args:
        future: What was submitted.
        cancellable: Whether to leave when the call that a host runs in this worker thread is cancelled.
    """
    if _Thread.loop is not None and threading.current_thread() is _Thread.thread:
        raise RuntimeError("a store called a tool that has an idempotency key of its own")
    while not concurrent.futures.wait([future], timeout=0.05 if cancellable else None).done:
        try:
            anyio.from_thread.check_cancelled()
        except RuntimeError:  # no worker thread of anyio
            cancellable = False
    return future.result()
