"""Crashes in the log: which exception an entry has to name, where it was raised, and the pack that knows it."""

from __future__ import annotations

import re
from typing import Final

from iserror.logs import frames
from iserror.logs.frames import Link
from iserror.logs.read.suggestion import HOST_ERRORS, SEVERAL
from iserror.logs.read.values import MAX_TEXT

_FOREIGN: Final = re.compile(r"[\\/](site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]|\A<", re.IGNORECASE)
_MAX_LEAVES: Final = 100


def crashed(exception: object) -> tuple[str, str]:
    """Return the exception type that an entry has to name, and where it was raised; empty if unknown.

    Args:
        exception: The `exception` of a record.
    """
    chain = frames.read(exception)
    if not chain:
        return "", ""
    # A host's error stands for what it was raised for.
    link = next((link for link in chain if _type_of(link) not in HOST_ERRORS), chain[-1])
    types = _types_inside(link) or {_type_of(link)}
    return (SEVERAL if len(types) > 1 else types.pop()), _place(link)


def _type_of(link: Link) -> str:
    return link.type[:MAX_TEXT].removeprefix("builtins.")


def _types_inside(group: Link) -> set[str]:
    """Return the types of the exceptions in a group, of groups inside it too. Anything else has none."""
    types: set[str] = set()
    pending = [group]
    for _ in range(_MAX_LEAVES):
        if not pending:
            break
        link = pending.pop()
        if link.exceptions is not None:
            pending += [chain[0] for chain in link.exceptions[:_MAX_LEAVES]]
        elif link is not group:
            types.add(_type_of(link))
    return types


def _place(link: Link) -> str:
    """Return the innermost frame of the author's own code, else the innermost one: file, line, function."""
    found = ""
    for frame in reversed(link.frames):
        if not frame.file:
            continue
        place = f"{_tail(frame.file)}:{frame.line} in {frame.function[:MAX_TEXT]}"
        if not _FOREIGN.search(frame.file[-1_000:]):
            return place
        found = found or place
    return found


def _tail(file: str) -> str:
    """Return the last parts of a path: they tell files apart, and say nothing about the machine."""
    parts = re.split(r"[\\/]", file[-MAX_TEXT:])
    return "/".join(parts[-3:])


def pack_of(kind: str) -> str:
    """Return the pack that knows an exception class by its name, or an empty text."""
    if not kind or kind == SEVERAL:
        return ""
    from iserror import packs  # they need pydantic, and most logs have no such crash

    return packs.named_by(kind if "." in kind else f"builtins.{kind}")
