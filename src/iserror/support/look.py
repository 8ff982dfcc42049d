"""The two rules for what may raise: `look` reads an object that isn't ours, `shield` runs a step that is.

An attribute, a `__str__` or a hook of the user's may raise anything, at any time: that says nothing about this library,
so `look` is silent. A step of our own that raises is a bug, and a swallowed bug is never found: `shield` reports
each one (`faults.report`), and still gives the call its answer.
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from types import FrameType

    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")
D = TypeVar("D")

MAX_TOLD: Final = 1_000
"""The most faults that stderr gets, in a process whose classes are made at run time."""

MAX_PLACES: Final = 20
"""The most places of a fault that are reported."""

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of this package: a frame below it is ours."""


def is_ours(frame: FrameType) -> bool:
    """Return True if a frame runs code of this library."""
    return frame.f_code.co_filename.startswith(ROOT)


def look(fn: Callable[[Unpack[Ts]], T], otherwise: D, *args: Unpack[Ts]) -> T | D:
    """Read a foreign object: return `fn(*args)`, or `otherwise` whatever it raises.

    Args:
        fn: A function that touches what a user, a host or a library made: attributes, `__str__`, exceptions, hooks.
        otherwise: The value to go on with.
        args: Arguments of `fn`.

    Raises:
        KeyboardInterrupt: Ctrl+C always gets through.
    """
    try:
        return fn(*args)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return otherwise


def shield(step: Callable[[Unpack[Ts]], T], otherwise: D, *args: Unpack[Ts]) -> T | D:
    """Run a step of our own: return `step(*args)`, or report the fault and return `otherwise`.

    Args:
        step: A function of this library that must not raise.
        otherwise: The value that still gives the caller a valid answer.
        args: Arguments of `step`.

    Raises:
        BaseException: If the step raises and `faults.raises` is set, as in this library's tests.
        KeyboardInterrupt: Ctrl+C always gets through.
    """
    try:
        return step(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        if faults.raises:
            raise
        try:  # noqa: SIM105 - at the end of the stack there may be no room for another frame
            faults.report(exc)
        except Exception:  # noqa: S110 - it was the report that failed: there is nothing left to tell it to
            pass
        return otherwise


class Fault(NamedTuple):
    """A bug of this library, without a word of the user's: an exception's text may hold their data."""

    error: str
    """The exception's class."""
    places: tuple[str, ...]
    """Where it passed our code, outermost first: `errors/template.py:120 in render`."""


class Faults:
    """What is done about faults of this library in this process."""

    raises: bool = False
    """Whether `shield` raises instead of going on. Tests of this library set it."""

    def __init__(self) -> None:
        self.listener: Callable[[Fault], object] | None = None
        """Writes the `guard_error` line. The log sets it; until then stderr has the fault alone."""
        self._told: dict[Fault, object] = {}
        self._reporting: ContextVar[bool] = ContextVar("iserror_reporting_a_fault", default=False)

    def report(self, exc: BaseException) -> None:
        """Tell the operator about a fault: a line in the log each time, a line on stderr once for each place.

        Never raises. A fault that comes up while another is being reported goes to stderr only.
        """
        fault = _fault(exc)
        if issubclass(type(exc), RecursionError) and len(fault.places) < MAX_PLACES:
            return  # whatever called us had used up the stack: a recursion of our own passes more of our code
        first = object()
        # One atomic step: two threads that meet the same fault write one line.
        if len(self._told) < MAX_TOLD and self._told.setdefault(fault, first) is first:
            look(_to_stderr, None, fault)
        if self.listener is None or self._reporting.get():
            return
        token = self._reporting.set(True)
        try:
            look(self.listener, None, fault)
        finally:
            self._reporting.reset(token)


# The slots themselves: a class or its metaclass may define properties of these names that raise or lie.
_QUALNAME: Final[Callable[[type], str]] = vars(type)["__qualname__"].__get__
_TRACEBACK: Final[Callable[[BaseException], Any]] = vars(BaseException)["__traceback__"].__get__


def _fault(exc: BaseException) -> Fault:
    places: list[str] = []
    tb = _TRACEBACK(exc)
    while tb is not None and len(places) < MAX_PLACES:
        code = tb.tb_frame.f_code
        if code.co_filename.startswith(ROOT):
            place = code.co_filename[len(ROOT) :].replace(os.sep, "/")
            places.append(f"{place}:{tb.tb_lineno} in {code.co_name}")
        tb = tb.tb_next
    return Fault(_QUALNAME(type(exc)), tuple(places))


def _to_stderr(fault: Fault) -> None:
    stream: Any = sys.stderr
    if stream is not None:
        where = fault.places[-1] if fault.places else "an unknown place"
        stream.write(
            f"iserror: guard_error: {fault.error} at {where}: this is a bug in iserror; the call was answered without "
            "this step. Please report it.\n"
        )
        stream.flush()


faults: Final = Faults()
"""The faults of this process."""
