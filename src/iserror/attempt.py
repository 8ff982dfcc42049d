"""Looking at objects of the user's: an attribute, a `__str__`, a hook may raise anything, at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
D = TypeVar("D")


def attempt(look: Callable[[], T], otherwise: D) -> T | D:
    """Call `look`, and return `otherwise` whatever it raises, an exit included; an interrupt passes."""
    try:
        return look()
    except KeyboardInterrupt:  # the operator's, who may press the keys at any time
        raise
    except BaseException:
        return otherwise
