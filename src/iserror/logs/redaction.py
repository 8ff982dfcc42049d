"""Redaction for the log: texts and values without secrets, and cut where they are long. Nothing here writes a line."""

from __future__ import annotations

from typing import Final

from iserror.redact import current_redaction, cut_short, redact_text
from iserror.redact.rule import FAILED, Profile
from iserror.redact.text import MARGIN
from iserror.support.look import shield

MAX_TEXT: Final = 4_000
_MAX_LONG: Final = 20_000
MAX_VALUES: Final = 65_536
"""Characters of a line's values in all, names included."""
MAX_ARGUMENTS: Final = 16_384
"""Characters of a call's arguments in all: they are logged while the call waits for its answer."""


class LogText:
    """The redaction profile of the log's texts. `configure_logging` sets it."""

    profile: Profile = "log"


def long_log_text(text: str) -> str:
    """Return a text for the log: without secrets, up to 20,000 characters."""
    if len(text) <= _MAX_LONG:
        return shield(_redacted_text, FAILED, text)
    return _without_end(shield(_redacted_text, FAILED, cut_short(text, _MAX_LONG)), MARGIN)


def log_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return a text for the log: without secrets, up to 4,000 characters."""
    rest = len(text) - looked_at(len(text), limit)
    if rest:
        safe = shield(_redacted_text, FAILED, cut_short(text, len(text) - rest))
        return f"{_without_end(safe, min(limit, MARGIN))[:limit]}… [{len(text) - limit} more characters]"
    text = shield(_redacted_text, FAILED, text)
    return text if len(text) <= limit else f"{text[:limit]}… [{len(text) - limit} more characters]"


def looked_at(length: int, limit: int) -> int:
    """Return how many characters `log_text` reads: what is far beyond is not worth the redaction."""
    return min(length, 2 * limit + min(limit, MARGIN // 2))


def _without_end(text: str, margin: int) -> str:
    """Drop the end of a text that was cut: a rule may know a credential by what comes after it."""
    return cut_short(text, len(text) - margin) if len(text) > margin else "…"


def _redacted_text(text: str) -> str:
    return redact_text(text, profile=LogText.profile)


def redacted(value: object, max_chars: int = MAX_VALUES) -> object:
    """Return a value as plain JSON data without secrets, up to so many characters in all."""
    redactor, pii = current_redaction()
    return redactor.redact(value, profile=LogText.profile, pii=pii, max_chars=max_chars)
