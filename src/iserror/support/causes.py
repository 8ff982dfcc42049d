"""What an exception came from and what a group holds, whatever its class makes of these attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from iserror.support.look import attempt

if sys.version_info >= (3, 11):
    Group = BaseExceptionGroup  # noqa: F821 - a builtin from 3.11 on
else:
    from exceptiongroup import BaseExceptionGroup as Group  # comes with anyio, which comes with mcp


MAX_CHAIN: Final = 20


MAX_LEAVES: Final = 100


def text_of(exc: BaseException) -> str:
    """`str(exc)`, whatever it does."""
    return attempt(str, "", exc)


def members(group: Any) -> tuple[BaseException, ...]:
    """The exceptions of a group, whatever its class makes of the attribute."""
    return attempt(lambda: tuple(e for e in group.exceptions if isinstance(e, BaseException)), ())


def leaves(group: BaseException) -> Iterator[BaseException]:
    """The exceptions inside nested groups, in order, each once, a hundred at most."""
    stack, seen, count = [group], set(), 0
    while stack and count < MAX_LEAVES:
        exc = stack.pop()
        if id(exc) in seen:
            continue
        seen.add(id(exc))
        if isinstance(exc, Group):
            stack.extend(reversed(members(exc)))
        else:
            count += 1
            yield exc


def origin(exc: BaseException) -> tuple[BaseException | None, str]:
    """What an exception came from and how (`cause`, `context`), whatever its class makes of these attributes."""
    cause = _CAUSE(exc)
    if cause is not None:
        return cause, "cause"
    return (None if _SUPPRESSED(exc) else _CONTEXT(exc)), "context"


_CAUSE: Final[Callable[[BaseException], Any]] = vars(BaseException)["__cause__"].__get__


_ARGS: Final[Callable[[BaseException], Any]] = vars(BaseException)["args"].__get__


_CONTEXT: Final[Callable[[BaseException], Any]] = vars(BaseException)["__context__"].__get__


_SUPPRESSED: Final[Callable[[BaseException], Any]] = vars(BaseException)["__suppress_context__"].__get__


def raised_in(exc: BaseException) -> str:
    """Name of the module in which an exception was raised; "" if it was not."""
    tb = exc.__traceback__
    if tb is None:
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    return str(tb.tb_frame.f_globals.get("__name__", ""))
