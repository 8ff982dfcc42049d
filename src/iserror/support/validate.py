"""Checks of what a caller passes, with messages that name the argument and the remedy."""

from __future__ import annotations

import inspect
import math
from collections.abc import Set as AbstractSet


def check_choice(what: str, value: object, choices: AbstractSet[str]) -> None:
    """Check that `value` is one of `choices`.

    Raises:
        ValueError: If it isn't. The message lists the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{what} {value!r} is not valid: use one of {', '.join(sorted(choices))}")


def check_flag(what: str, value: object) -> None:
    """Check that `value` is True or False.

    Raises:
        ValueError: If it is anything else.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{what} {value!r} is not valid: use True or False")


def check_plain_function(what: str, value: object) -> None:
    """Check that `value` is None or a function that isn't async.

    Raises:
        TypeError: If it can't be called, or if nothing would await it.
    """
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be a function, not {value!r}")
    if inspect.iscoroutinefunction(value):
        raise TypeError(f"{what} must be a plain function, not an async one: nothing would await it")


def is_number(value: object) -> bool:
    """Return True for a finite number that isn't a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
