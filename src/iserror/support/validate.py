"""Checks of what a caller passes, with messages that name the remedy."""

from __future__ import annotations


def check_choice(what: str, value: object, choices: frozenset[str]) -> None:
    """Raise `ValueError` that names the choices when `value` is none of them."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{what} {value!r} is not valid: use one of {', '.join(sorted(choices))}")
