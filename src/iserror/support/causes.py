"""What an exception came from and what a group holds, even where its class overrides these attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from opcode import opmap
from types import FrameType, TracebackType
from typing import Any, Final

from iserror.support.look import look

if sys.version_info >= (3, 11):
    Group = BaseExceptionGroup  # noqa: F821 - a builtin from 3.11 on
else:
    from exceptiongroup import BaseExceptionGroup as Group  # comes with anyio, which comes with mcp

MAX_CHAIN: Final = 20
"""The most links of a chain that anything here follows."""

MAX_LEAVES: Final = 100
"""The most leaves of a group that anything here looks at."""

_MAX_GROUPS: Final = 1_000
"""The most exceptions that are looked at for that: groups may hold groups alone."""

# The slots of `BaseException` itself: a subclass may define properties of these names that raise or lie.
CAUSE: Final[Callable[[BaseException], Any]] = vars(BaseException)["__cause__"].__get__
CONTEXT: Final[Callable[[BaseException], Any]] = vars(BaseException)["__context__"].__get__
SUPPRESSED: Final[Callable[[BaseException], Any]] = vars(BaseException)["__suppress_context__"].__get__
ARGS: Final[Callable[[BaseException], Any]] = vars(BaseException)["args"].__get__
TRACEBACK: Final[Callable[[BaseException], Any]] = vars(BaseException)["__traceback__"].__get__


def text_of(exc: BaseException) -> str:
    """Return `str(exc)` as a plain text, or an empty one if that raises."""
    return str.__str__(look(str, "", exc))


def origin(exc: BaseException) -> tuple[BaseException | None, str]:
    """Return what an exception came from, and how: its `cause`, or the `context` if that isn't suppressed."""
    cause = CAUSE(exc)
    if cause is not None:
        return cause, "cause"
    return (None if SUPPRESSED(exc) else CONTEXT(exc)), "context"


def members(group: Any) -> tuple[BaseException, ...]:
    """Return the exceptions directly inside a group."""
    return look(lambda: tuple(e for e in group.exceptions if isinstance(e, BaseException)), ())


def leaves(group: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested groups in order, each once, up to `MAX_LEAVES`."""
    stack, count = [group], 0
    seen: set[int] = set()
    while stack and count < MAX_LEAVES and len(seen) < _MAX_GROUPS:
        exc = stack.pop()
        if id(exc) in seen:
            continue
        seen.add(id(exc))
        if issubclass(type(exc), Group):
            stack.extend(reversed(members(exc)))
        else:
            count += 1
            yield exc


def notes(exc: BaseException, most: int) -> list[str]:
    """Return the first notes of an exception. A list of notes of the author's own may have no end."""
    found = look(getattr, None, exc, "__notes__", None)
    given = (found,) if isinstance(found, str) else found if isinstance(found, (list, tuple)) else ()
    return [str.__str__(note) for note in look(lambda: list(islice(given, most)), []) if isinstance(note, str)]


def frames(exc: BaseException) -> Iterator[FrameType]:
    """Yield the frames that an exception passed, innermost last."""
    tb = TRACEBACK(exc)
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next


def module_of(frame: FrameType) -> str:
    """Return the name of the module that a frame runs in."""
    return str(frame.f_globals.get("__name__", ""))


def innermost(exc: BaseException) -> FrameType | None:
    """Return the frame in which an exception was raised, or None if it wasn't raised."""
    last = None
    for frame in frames(exc):
        last = frame
    return last


_RAISE: Final = opmap["RAISE_VARARGS"]


def raise_frame(exc: BaseException) -> FrameType | None:
    """Return the frame whose `raise` statement wrote an exception; None if it came from C code, or wasn't raised."""
    last: TracebackType | None = TRACEBACK(exc)
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE:
        return None
    return last.tb_frame


def raised_in(exc: BaseException) -> str:
    """Return the name of the module in which an exception was raised, or "" if it wasn't raised."""
    frame = innermost(exc)
    return "" if frame is None else module_of(frame)
