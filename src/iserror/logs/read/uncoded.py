"""Failures that are told in an author's words alone: which text, what led to it, and what would give it a code."""

from __future__ import annotations

import re
from typing import Final

from iserror.logs import frames
from iserror.logs.read.crashes import pack_of
from iserror.logs.read.suggestion import suggested_entry
from iserror.logs.read.values import text
from iserror.logs.record import Record

UNCODED: Final = frozenset({"TOOL_ERROR", "RETURNED_ERROR"})
"""Codes that say no more than that the author's words stand alone."""

MAX_PATTERN: Final = 120

Key = tuple[str, bool, str, str, str]
"""The code, whether a client saw a success, the exception's type, the type of what led to it, the text's pattern."""

_VARIES: Final = re.compile(
    r"\"[^\"\n]{0,300}\"|(?<!\w)'[^'\n]{0,300}'|`[^`\n]{0,300}`|\[redacted:\w{1,40}\]|\b\w{2,10}://\S+"
    r"|(?<!\w)(?:[A-Za-z]:)?[\\/][\w.\\/-]+|[\w.:-]*\d[\w.:-]*"
)
_SEVERAL: Final = re.compile(r"…(?:[\s,;:.]*…)+")

_CATEGORIES: Final = (
    (r"\bnot found\b|\bdoes(?: not|n't) exist\b|\bno such\b|\bthere is no\b", "not_found"),
    (r"\balready exists\b|\bduplicate\b", "already_exists"),
    (r"\bpermission\b|\bforbidden\b|\bnot allowed\b|\baccess denied\b", "permission_denied"),
    (r"\bunauthori[sz]ed\b|\bnot logged in\b|\bapi key\b|\bcredentials\b", "unauthenticated"),
    (r"\brate limit|\bquota\b|\btoo many requests\b", "resource_exhausted"),
    (r"\btime[ds]?[ -]?out\b", "deadline_exceeded"),
    (r"\bconnection refused\b|\bunavailable\b|\bcould not connect\b", "unavailable"),
    (r"\binvalid\b|\bmust be\b|\bis required\b|\bmissing\b", "invalid_argument"),
)
"""What a text says beyond doubt. Anything else is for the author to say."""


def key_of(record: Record, *, as_success: bool = False) -> Key:
    """Return what tells a failure of this kind from others.

    Args:
        record: The line.
        as_success: Whether the client saw a success.
    """
    chain = frames.read(record.get("exception"))
    said = text(record.get("message")) if as_success or not chain else chain[0].message
    kind = chain[0].type if chain else ""
    cause = chain[1].type if len(chain) > 1 else ""
    return text(record.get("code")), as_success, kind, cause, pattern_of(said)


def pattern_of(said: str) -> str:
    """Return a text with `…` for what varies: names in quotes, numbers, paths, addresses, what was redacted."""
    line = said.lstrip().partition("\n")[0][:1_000]
    found = _SEVERAL.sub("…", _VARIES.sub("…", line))
    found = " ".join(found.split())
    return found if len(found) <= MAX_PATTERN else f"{found[:MAX_PATTERN]}…"


def remedy_of(key: Key, taken: set[tuple[str, str]]) -> tuple[str, str]:
    """Return a line that gives such failures a code, and advice; each may be empty.

    Args:
        key: What `key_of` returned.
        taken: The codes that have a meaning already, each with its category.
    """
    code, as_success, _, cause, pattern = key
    if as_success:
        return (
            'ToolErrors(errors, returned_errors="convert")',
            "The client sees a success. is_returned_error may return a ToolFailure, so that it gets a code of its own.",
        )
    if code == "RETURNED_ERROR":
        return "", "Raise a ToolFailure instead of returning it, or let is_returned_error return one."
    if cause:
        pack = pack_of(cause)
        if pack:
            return f"errors.include(iserror.packs.{pack})", "The text stays; the pack gives code, category and wait."
        line, advice = suggested_entry(cause, taken)
        if line:
            return line, advice or "The text of the ToolError stays."
    category = next((found for words, found in _CATEGORIES if re.search(words, pattern, re.IGNORECASE)), "")
    said = f'category="{category}"' if category else "category=..."
    return (
        f'raise ToolFailure("...", ..., {said})',
        "Or raise an exception class of your own, with an entry in the map.",
    )
