"""Redaction for the log: texts and values without secrets, and cut where they are long. Nothing here writes a line."""

from __future__ import annotations

from typing import Final

from iserror.redact import current_redaction, cut_short, redact_text
from iserror.redact.rule import Profile
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
    text = text if len(text) <= _MAX_LONG else cut_short(text, _MAX_LONG)
    return shield(_redacted_text, "[redacted]", text)


def log_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return a text for the log: without secrets, up to 4,000 characters."""
    rest = max(0, len(text) - 2 * limit)  # what is far beyond is not worth the redaction
    text = long_log_text(cut_short(text, 2 * limit) if rest else text)
    return text if len(text) <= limit else text[:limit] + f"… [{len(text) - limit + rest} more characters]"


def _redacted_text(text: str) -> str:
    return redact_text(text, profile=LogText.profile)


def redacted(value: object, max_chars: int = MAX_VALUES) -> object:
    """Return a value as plain JSON data without secrets, up to so many characters in all."""
    redactor, pii = current_redaction()
    return redactor.redact(value, profile=LogText.profile, pii=pii, max_chars=max_chars)
