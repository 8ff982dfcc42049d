"""Whether an exception is a failure of the call, or the runtime's own and has to propagate."""

from __future__ import annotations

import asyncio
import math
import sys

import anyio
import anyio.from_thread

from iserror.layers.call import current
from iserror.support.causes import Group, leaves
from iserror.support.look import look, shield


def must_pass(exc: BaseException) -> bool:
    """Return True for the runtime's own: an interrupt, a generator's end, the cancellation of this call."""
    kind = type(exc)  # not isinstance(): an object may lie about its class
    if issubclass(kind, (Exception, SystemExit)):
        return False
    if issubclass(kind, Group):
        return any(must_pass(leaf) for leaf in leaves(exc))
    if issubclass(kind, asyncio.CancelledError):
        return being_cancelled()
    return issubclass(kind, (KeyboardInterrupt, GeneratorExit)) or kind is _cancelled_class()


def may_pass(exc: BaseException) -> bool:
    """Return True if an exception propagates although a step of ours failed on it. Never raises.

    A failure doesn't, and an exit doesn't; the rest propagates if `must_pass` says so or can't say.
    """
    return not issubclass(type(exc), (Exception, SystemExit)) and shield(must_pass, True, exc)


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
        return False
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


def _cancelled_from_thread() -> bool:
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:  # not a worker thread of anyio
        return False
    except BaseException:
        return True
    return False
