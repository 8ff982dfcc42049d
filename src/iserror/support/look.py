"""Looking at objects that are not ours: an attribute, a `__str__`, a hook may raise anything, at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")
D = TypeVar("D")


def attempt(look: Callable[[Unpack[Ts]], T], otherwise: D, *args: Unpack[Ts]) -> T | D:
    """Call `look` with `args`, and return `otherwise` whatever it raises, an exit included; an interrupt passes."""
    try:
        return look(*args)
    except KeyboardInterrupt:  # the operator's, who may press the keys at any time
        raise
    except BaseException:
        return otherwise


def either(thing: object, name: str, older: str) -> Any:
    """An attribute of an SDK's object, under its 2.x name or else its 1.x one; None if it has neither."""
    found = getattr(thing, name, _NOT_THERE)
    # Only where the newer one is not there: fastmcp 4 warns when the older is read from the newer class.
    return getattr(thing, older, None) if found is _NOT_THERE else found


_NOT_THERE: Final = object()
