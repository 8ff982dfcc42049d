"""Texts for a reader: one safe line, foreign text as quoted data, names and details that may be shown."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from iserror.redact import redact, redact_text
from iserror.redact.text import Safe, clean_line, cut_short
from iserror.support.look import attempt

MAX_MESSAGE: Final = 500


MAX_VALUE: Final = 120


MAX_TOOL_NAME: Final = 128


_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z|-?[0-9]+(\.[0-9]+)?\Z")


def safe_line(text: str, limit: int = MAX_MESSAGE, *, empty: str = "The tool failed.") -> str:
    """Make one redacted, printable line of any text, `limit` characters at most, for a client to read."""
    return clean_line(text if isinstance(text, Safe) else redact_text(text), limit) or empty


class Shown(str):
    """A part of a text that is ready to be shown: redacted and in quotes, or vouched for."""

    __slots__ = ()


def quoted(text: object, limit: int = MAX_VALUE) -> str:
    """
    Return foreign text as data: redacted, shortened, bare if it reads like an identifier or number, else in quotes.

    For what a stranger wrote (an upstream's error body) and the model needs: within a message, an order inside the
    quotes is no order of the server's. `ErrorMap`'s templates do it for every value.

    Args:
        text: Any value; its `str()` counts.
        limit: Characters, 1 to 500.
    """
    # Redaction comes before the cut, which could otherwise leave the head of a secret.
    whole = attempt(str, "", text)
    line = safe_line(whole if len(whole) <= limit * 8 else cut_short(whole, limit * 8), limit, empty="")
    if not line or _BARE.match(line):
        return line
    shown = json.dumps(line, ensure_ascii=False)
    if redact_text(shown) != shown:  # its escapes look like a finding to whoever redacts it again
        shown = json.dumps(redact_text(line.replace("\\", " ").replace('"', "'")), ensure_ascii=False)
    return Shown(shown)


# No text that a stranger wrote holds it, since it is made anew for each process.
_WORD: Final = f"zq{secrets.token_hex(3)}"


def joined(parts: Iterable[str]) -> str:
    """
    Redact a text made of parts as a whole; the `Shown` ones are one opaque word each meanwhile.

    So a finding cannot take a half of one, and what it takes whole (`password={exc.value}`) goes.
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
    return Safe(re.sub(_WORD + r"x(\d+)x", lambda m: shown[int(m[1])], redact_text(text)))


def safe_name(name: object) -> str:
    """Make a caller's tool name fit to be shown: one printable line of at most 128 characters."""
    return clean_line(name, MAX_TOOL_NAME) if isinstance(name, str) else ""


def log_name(name: str) -> str:
    """Make a caller's tool name fit for the log."""
    return attempt(lambda: redact_text(safe_name(name), profile="log"), "[redacted]")


def safe_details(details: Mapping[str, object]) -> dict[str, Scalar]:
    """Make a flat copy of details that is redacted, by key too, and JSON-safe; what is no scalar is left out."""
    flat: dict[str, Scalar] = {}
    for key, value in list(details.items())[:20]:
        if not isinstance(value, (bool, int, float, str, type(None))):
            continue
        if isinstance(value, Safe):
            flat[safe_name(redact_text(str(key)))] = clean_line(value, 200)
            continue
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
            value = str(value)[:64]
        redacted = redact({str(key): value})
        for name, item in redacted.items() if isinstance(redacted, dict) else ():
            flat[safe_name(name)] = clean_line(item, 200) if isinstance(item, str) else item
    return flat


Scalar: TypeAlias = str | int | float | bool | None
