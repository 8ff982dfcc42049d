"""Looking at objects that are not ours: an attribute, a `__str__`, a hook may raise anything, at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

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
