"""The event loop that stores run on: one per process, in its own thread.

So a lease is renewed while a tool blocks the server's loop (mcp 1.x runs sync tools on it). Sync tools reach an async
store without waiting for the loop that waits for them. A store has one loop for its connections.
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
    """The thread, once something has needed it."""

    lock = threading.Lock()
    loop: asyncio.AbstractEventLoop | None = None
    thread: threading.Thread


def _forget() -> None:
    """Start over in a forked child: it has no thread, and the lock may have been held."""
    _Thread.lock, _Thread.loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget)


def _end() -> None:
    """Cancel what still runs, so that it does not complain about the end of the process."""
    loop, _Thread.loop = _Thread.loop, None
    if loop is not None:
        loop.call_soon_threadsafe(loop.stop)
        _Thread.thread.join(1)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


def is_running() -> bool:
    """Return True if anything has been submitted in this process."""
    return _Thread.loop is not None


def submit(run: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start a coroutine on the loop, from any thread.

    Raises:
        OSError, RuntimeError: If no loop can be made because descriptors or threads have run out.
    """
    try:
        with _Thread.lock:
            if _Thread.loop is None:
                _start()
            assert _Thread.loop is not None
            return asyncio.run_coroutine_threadsafe(run, _Thread.loop)
    except BaseException:
        run.close()
        raise


def _start() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(loop,), name="iserror-idempotency", daemon=True)
    try:
        thread.start()
    except BaseException:
        loop.close()
        raise
    _Thread.loop, _Thread.thread = loop, thread
    atexit.register(_end)


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
