"""The verdict on a failed call: did it take effect, may it be repeated, what to do next. Standard library only.

Whoever speaks of a failure asks here: the guard, partial results, idempotency, `iserror check --inject`, the catalog
and the report. So none of them can claim more than another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from iserror.errors.vocabulary import Effect, Outcome

Basis: TypeAlias = Literal["stated", "entry", "category", "pack", "upstream", "code", "none"]
"""Who says the outcome, the best evidence first.

- `stated`: a `ToolFailure`, of this one failure.
- `entry`: `outcome=` of an entry of the author's own map.
- `category`: the category that the author chose, for an exception of the author's own.
- `pack`: what a library recorded of its request.
- `upstream`: another server, of the call that it was sent. It never makes a retry safe.
- `code`: the meaning of a code that iserror issues itself.
- `none`: no evidence.
"""

_APPLIES_NOTHING: Final = frozenset(
    {
        "invalid_argument",
        "not_found",
        "already_exists",
        "permission_denied",
        "unauthenticated",
        "failed_precondition",
        "out_of_range",
        "unimplemented",
        "resource_exhausted",
    }
)
"""Categories with which an author declares that nothing was applied, unless the author says otherwise."""

_CHANGEABLE: Final = frozenset(
    {"invalid_argument", "not_found", "already_exists", "failed_precondition", "out_of_range"}
)
"""Categories of failures after which a changed call can succeed."""

_FOR_THE_USER: Final = frozenset({"unauthenticated", "permission_denied", "unimplemented"})
"""Categories of failures that no call can avoid."""

_AUTHORS_WORDS: Final = frozenset({"TOOL_ERROR", "RETURNED_ERROR", "REQUEST_ERROR"})
"""Codes whose text the author wrote for the model: no advice is put beside it without evidence."""

CRASHES: Final = frozenset({"INTERNAL_ERROR", "INVALID_OUTPUT"})
"""Codes of failures that an operator has to fix."""

REPEAT: Final = "may be repeated"
TOOK_EFFECT: Final = "it took effect, check before any further call"
PARTLY: Final = "part of it took effect, check before any further call"
UNSURE: Final = "it may have taken effect, check before any further call"
STOP: Final = "stop and tell the user"
ONLY_IF_HARMLESS: Final = "repeat it only if it changes nothing"
CHANGE: Final = "change the call first"
NOT_UNCHANGED: Final = "do not repeat it unchanged"

ADVICE_PATTERN: Final = (
    rf"^(?:{REPEAT}(?: after [0-9]+(?:\.[0-9])? s)?|"
    + "|".join((TOOK_EFFECT, PARTLY, UNSURE, STOP, ONLY_IF_HARMLESS, CHANGE, NOT_UNCHANGED))
    + r")$"
)
"""The phrases that `advice` is one of."""


@dataclass(frozen=True)
class Verdict:
    """What a failed call means for its side effect, and for the next call."""

    outcome: Outcome
    retryable: bool
    advice: str | None


def judge(
    *,
    code: str,
    category: str,
    effect: Effect | None,
    outcome: Outcome | None = None,
    basis: Basis = "none",
    can_help: bool = False,
    retry_after: float | None = None,
    untouched: bool = False,
    keyed: bool = False,
) -> Verdict:
    """Return outcome, `retryable` and advice of a failed call.

    Args:
        code: The failure's code.
        category: Its category.
        effect: What the tool does; None if no author declared it.
        outcome: The outcome that `basis` declares; None if there is none.
        basis: Who declares it.
        can_help: Whether an equal call can succeed.
        retry_after: Seconds to wait before it.
        untouched: Whether no body of this call began.
        keyed: Whether the call carries an idempotency key. A failure that isn't `not_applied` stays with the key, so
            that a retry gets it again.
    """
    if effect == "read" or untouched:
        outcome, proven = "not_applied", True
    elif basis == "category":
        outcome, proven = declared_by(category), False
    else:
        outcome, proven = outcome or "unknown", basis != "upstream"
    if keyed:
        safe = outcome == "not_applied"
    else:
        safe = effect in ("read", "idempotent") or (outcome == "not_applied" and proven)
    retryable = can_help and safe
    return Verdict(outcome, retryable, advice_for(code, category, effect, outcome, retryable, retry_after))


def declared_by(category: str) -> Outcome:
    """Return the outcome that an author declares with a category, for an exception of the author's own."""
    return "not_applied" if category in _APPLIES_NOTHING else "unknown"


def advice_for(
    code: str, category: str, effect: Effect | None, outcome: Outcome, retryable: bool, retry_after: float | None = None
) -> str | None:
    """Return the phrase that tells the model what to do next; None if there is nothing to add to the author's text."""
    if retryable:
        return repeat_after(retry_after)
    if outcome == "applied" and effect == "write":
        return TOOK_EFFECT
    if outcome == "partial":
        return PARTLY
    if category in _FOR_THE_USER or code == "CLIENT_CANNOT_ASK":
        return STOP
    if outcome == "unknown" and effect == "write" and code not in _AUTHORS_WORDS:
        return UNSURE
    if code in CRASHES:
        return STOP
    if code in _AUTHORS_WORDS:
        return None
    if outcome == "unknown":
        return ONLY_IF_HARMLESS if effect is None else None
    if outcome == "not_applied":
        return CHANGE if category in _CHANGEABLE else NOT_UNCHANGED
    return None


def repeat_after(seconds: float | None) -> str:
    """Return the advice to repeat the call, after some seconds if they are known."""
    return f"{REPEAT} after {math.ceil(seconds * 10) / 10:g} s" if seconds else REPEAT
