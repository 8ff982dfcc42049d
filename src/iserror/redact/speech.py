"""Texts for a reader: one safe line, foreign text as quoted data, names and details that may be shown."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from iserror.redact import current_redaction, redact, redact_text
from iserror.redact.echo import Echo, here
from iserror.redact.rule import MARKER, regex
from iserror.redact.text import MARGIN, Safe, bounded, clean, clean_line, cut_short
from iserror.support.look import look

Scalar: TypeAlias = str | int | float | bool | None
"""A value of `details`."""

MAX_MESSAGE: Final = 500
"""Characters of a message or hint."""

MAX_WORDS: Final = 1_500
"""Characters of an author's whole text, line breaks included."""

MAX_VALUE: Final = 120
"""Characters of a value in a message."""

MAX_TOOL_NAME: Final = 128
"""Characters of a tool's name."""

_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z|-?[0-9]+(\.[0-9]+)?\Z")


def _redact(text: str, echo: Echo | None = None) -> str:
    """Redact a text for the model, except what the caller sent."""
    if not echo:
        return redact_text(text)
    redactor, pii = current_redaction()
    return redactor.echoing(text, echo, pii=pii)


def _redacted(text: str, limit: int, echo: Echo | None = None) -> str:
    """Redact a text of which up to so many characters are shown, without reading much more of it.

    Redaction and clearing of white space make a text shorter. What is shown must not reach the end of the part that was
    read: there may be the head of a credential, or one that is known by what comes after it.
    """
    if len(text) > limit * 8:
        text = bounded(text)
    for size in (limit * 8, limit * 32):
        if len(text) <= size:
            return _redact(text, echo)
        safe = _redact(cut_short(text, size), echo)
        if len(" ".join(safe.split())) >= limit + MARGIN:
            return safe
    marker = regex(MARKER).match(safe)
    if marker is not None and marker.end() > len(safe) - MARGIN:
        return f"{marker[0]} …"
    return cut_short(safe, max(len(safe) - MARGIN, 2))


def safe_line(text: str, limit: int = MAX_MESSAGE, *, empty: str = "The tool failed.", echo: Echo | None = None) -> str:
    """Return any text as one redacted, printable line for a client.

    Args:
        text: The text. A `Safe` isn't redacted again.
        limit: The most characters.
        empty: The line for a text without any.
        echo: What the caller sent: paths, SQL and hosts that stay. For an author's text only.
    """
    return clean_line(text if isinstance(text, Safe) else _redacted(text, limit, echo), limit) or empty


def safe_lines(text: str, limit: int = MAX_WORDS, *, echo: Echo | None = None) -> str:
    """Return any text redacted, with its line breaks; each line is as `safe_line` makes it, and no two are blank.

    Args:
        text: The text. A `Safe` isn't redacted again.
        limit: The most characters.
        echo: As for `safe_line`.
    """
    whole = clean(str.__str__(text) if isinstance(text, Safe) else _redacted(text, limit, echo))
    lines: list[str] = []
    for line in whole.strip().split("\n"):
        shown = clean_line(line, limit)
        if shown or (lines and lines[-1]):
            lines.append(shown)
    said = "\n".join(lines).strip()
    return said if len(said) <= limit else cut_short(said, limit)


class Shown(str):
    """A part of a text that is ready to be shown: redacted and quoted, or marked as safe."""

    made_of: tuple[str, int] | None = None
    """The value and its limit, if it may be one that the caller sent: the call that it will answer is yet unknown."""

    def now(self) -> str:
        """Return the part as it is shown to the caller of the running call."""
        return self if self.made_of is None else quoted_value(*self.made_of)


def quoted(text: object, limit: int = MAX_VALUE) -> str:
    """Return untrusted text as data: redacted, shortened, bare if it reads like an identifier or number, else quoted.

    Use it for text from an untrusted source (an upstream's error body) that the model needs. An order inside the quotes
    isn't an order of the server's. `ErrorMap`'s templates do it for every value.

    Args:
        text: Any value; its `str()` counts.
        limit: The most characters, 1 to 500 (default: 120).
    """
    return _quoted(look(str, "", text), limit, None)


def quoted_value(text: object, limit: int = MAX_VALUE) -> str:
    """Return a value like `quoted`, not redacted if it is a path, SQL or a host that the caller sent, and nothing else.

    Args:
        text: As for `quoted`.
        limit: As for `quoted`.
    """
    value, echo = look(str, "", text), here.find()
    return _quoted(value, limit, echo if echo and look(echo.is_whole, False, value) else None)


def quoted_to_caller(text: str, limit: int = MAX_VALUE) -> str:
    """Return a text like `quoted`; paths, SQL and hosts in it that the caller sent aren't redacted.

    Args:
        text: The text.
        limit: As for `quoted`.
    """
    return _quoted(text, limit, here.find())


def quoted_later(text: object, limit: int = MAX_VALUE) -> str:
    """Return a value like `quoted`. `Shown.now` may show it otherwise.

    Args:
        text: As for `quoted`.
        limit: As for `quoted`.
    """
    value = look(str, "", text)
    shown = _quoted(value, limit, None)
    if isinstance(shown, Shown):
        shown.made_of = value, limit
    return shown


def _quoted(text: str, limit: int, echo: Echo | None) -> str:
    line = safe_line(text, limit, empty="", echo=echo)
    if not line or _BARE.match(line):
        return line
    shown = json.dumps(line, ensure_ascii=False)
    if (
        len(shown) > len(line) + 2 and _redact(shown, echo) != shown
    ):  # a later redaction would take escapes for a finding
        shown = json.dumps(redact_text(line.replace("\\", " ").replace('"', "'")), ensure_ascii=False)
    return Shown(shown)


_WORD: Final = f"zq{secrets.token_hex(3)}"
"""Begins the words that stand for parts. It differs in each process, so that no text from outside holds it."""


def joined(parts: Iterable[str]) -> str:
    """Return a text made of parts, redacted as a whole, with one opaque word for each `Shown` part.

    So a finding can't take half of a part, and a part that it takes whole (`password={exc.value}`) is gone. A text
    without such parts is returned as it is.
    """
    shown: list[str] = []
    text = ""
    for part in parts:
        if isinstance(part, Shown):
            text += f"{_WORD}x{len(shown)}x"
            shown.append(part)
        else:
            text += part
    if not shown:
        return text
    return Safe(re.sub(_WORD + r"x(\d+)x", lambda m: shown[int(m[1])], _redact(text, here.find())))


class Filled(Safe):
    """A text by an author, with values in quotes. It has been redacted."""

    parts: tuple[str, ...] = ()


def filled(parts: Iterable[str]) -> str:
    """Return what `joined` returns, with the parts: what an author wrote around the values may be looked at again."""
    kept = tuple(parts)
    whole = joined(kept)
    if not isinstance(whole, Safe):
        return whole
    made = Filled(whole)
    made.parts = kept
    return made


def safe_name(name: object) -> str:
    """Return a name that a caller gave as one printable line of up to 128 characters."""
    return clean_line(name, MAX_TOOL_NAME) if isinstance(name, str) else ""


def log_name(name: str) -> str:
    """Return a name that a caller gave, as it may be in the log. Redaction comes before the cut."""
    # Not without its last word: many a name is one word.
    return safe_name(redact_text(name[: MAX_TOOL_NAME * 32], profile="log"))


def safe_details(details: Mapping[str, object]) -> dict[str, Scalar]:
    """Return a flat copy of details, redacted by key and value, and JSON-safe. Only scalars are kept."""
    flat: dict[str, Scalar] = {}
    for key, value in list(details.items())[:20]:
        if not isinstance(value, (bool, int, float, str, type(None))):
            continue
        if isinstance(value, Safe):
            flat[safe_name(redact_text(look(str, "", key)))] = clean_line(value, 200)
            continue
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
            value = look(str, "", value)[:64]  # Python writes no number of more than 4,300 digits
        redacted = redact({look(str, "", key): value})
        for name, item in redacted.items() if isinstance(redacted, dict) else ():
            flat[safe_name(name)] = clean_line(item, 200) if isinstance(item, str) else item
    return flat
