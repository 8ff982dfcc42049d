"""Whether an exception is a failure of the call, or the runtime's own and has to propagate."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeGuard

import anyio
import anyio.from_thread

from iserror.layers.call import current
from iserror.support.causes import TRACEBACK, Group, leaves
from iserror.support.look import look, shield


def must_pass(exc: BaseException) -> bool:
    """Return True for the runtime's own inside a call: an interrupt, a closed coroutine, a cancellation.

    A cancellation of the task passes, too, whoever asked for it: a time limit of the author's further out waits for it.
    What reaches the outermost layer of a served call is judged again there, by `ends_request`.
    """
    return _is_runtimes(exc, being_cancelled)


def ends_request(exc: BaseException) -> bool:
    """Return True for what ends a served call without an answer: only the host's own scope counts as cancellation.

    A tool that cancels its own task, or an exception that only looks like the runtime's, would end the whole session.
    """
    return _is_runtimes(exc, cancelled_by_scope if task_now() is not None else being_cancelled)


def _is_runtimes(exc: BaseException, cancelled: Callable[[], bool]) -> bool:
    kind = type(exc)  # not isinstance(): an object may lie about its class
    if issubclass(kind, (Exception, SystemExit)):
        return False
    if issubclass(kind, Group):
        # A leaf was raised somewhere below: nothing closes a coroutine through a group.
        return any(not issubclass(type(leaf), GeneratorExit) and _is_runtimes(leaf, cancelled) for leaf in leaves(exc))
    if issubclass(kind, asyncio.CancelledError):
        return cancelled()
    if issubclass(kind, GeneratorExit):
        return _thrown_here(exc)
    return issubclass(kind, KeyboardInterrupt) or kind is _cancelled_class()


def _thrown_here(exc: BaseException) -> bool:
    """Return True if an exception began in the frame that caught it: closing a coroutine or generator throws it there.

    What is awaited inside has been closed before, so that nothing of it shows in the traceback.
    """
    tb = TRACEBACK(exc)
    return tb is not None and tb.tb_next is None


def may_pass(exc: BaseException, passes: Callable[[BaseException], bool] = must_pass) -> bool:
    """Return True if an exception propagates although a step of ours failed on it. Never raises.

    A failure doesn't, and an exit doesn't; the rest propagates if `passes` says so or can't say.
    """
    return not issubclass(type(exc), (Exception, SystemExit)) and shield(passes, True, exc)


def _cancelled_class() -> type[BaseException] | None:
    """Return the cancellation of the running async library, which doesn't have to be asyncio."""
    return look(anyio.get_cancelled_exc_class, None)


def being_cancelled() -> bool:
    """Return True if the running call itself is being cancelled, by its task or by one of anyio's scopes.

    If not, a `CancelledError` comes from another task that was awaited: a crash of this call, which would end a whole
    stdio session if it propagated.
    """
    task = task_now()
    if task is None:
        return _cancelled_from_thread()
    if cancelled_by_scope():
        return True
    if sys.version_info >= (3, 11):
        return task.cancelling() > 0
    # Before 3.11 asyncio doesn't count requests to cancel. Hosts cancel the calls that they serve through scopes of
    # anyio; a task that anyio did not start may be cancelled directly.
    call = current.get()
    if call is not None and call.root.progress.served_by is task:
        return call.parent is not None  # the tool that made the nested call may have a time limit around it
    return anyio.get_current_task().parent_id is None


def task_now() -> asyncio.Task[object] | None:
    """Return the running task of asyncio, if there is one."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def cancelled_by_scope() -> bool:
    """Return True if a cancel scope of anyio around the running code is cancelled, as hosts do."""
    return anyio.current_effective_deadline() == -math.inf


def cancellations(task: asyncio.Task[object] | None) -> int:
    """Return how often a task was asked to end; 0 where asyncio doesn't count that (before Python 3.11)."""
    return task.cancelling() if task is not None and sys.version_info >= (3, 11) else 0


def was_asked_to_end(task: asyncio.Task[object] | None, before: int) -> TypeGuard[asyncio.Task[object]]:
    """Return True if a task has been asked to end since `before`, and has not been told that it needn't."""
    if task is None:
        return False
    return (sys.version_info >= (3, 11) and task.cancelling() > before) or getattr(task, PENDING, False)


async def stay(task: asyncio.Task[object], before: int) -> None:
    """Take back what a tool did to the task that serves it: what follows in it, the answer, must not be cancelled.

    A scope of the host's that is cancelled stays so.

    Args:
        task: The task.
        before: What `cancellations` gave before the tool ran.
    """
    if cancelled_by_scope():
        return
    if sys.version_info >= (3, 11):
        while task.cancelling() > before:
            task.uncancel()
    await endure(task)


async def endure(task: asyncio.Task[object]) -> None:
    """Take a cancellation that a task has been asked for and not met. `uncancel` leaves it before Python 3.13."""
    while getattr(task, PENDING, False):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


PENDING: Final = "_must_cancel"
"""The flag of a task of asyncio that will be cancelled as soon as it waits."""


def _cancelled_from_thread() -> bool:
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:  # not a worker thread of anyio
        return False
    except BaseException:
        return True
    return False
