"""Texts with values read from an exception's attributes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Final

from iserror.redact.names import announces_secret
from iserror.redact.speech import MAX_MESSAGE, Shown, joined, quoted
from iserror.redact.text import Safe, clean_line
from iserror.support.look import attempt

MAX_ITEMS: Final = 10


MAX_LIST: Final = 250


_PATH = re.compile(r"exc((?:\.[A-Za-z]\w*)+)\Z")


_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def _read(exc: BaseException, path: tuple[str, ...]) -> object:
    """The value at an attribute path; None where there is none that could be shown."""
    value: object = exc
    for name in path:
        value = getattr(value, name)
    return None if callable(value) or isinstance(value, (bytes, bytearray, memoryview)) else value


def _show(value: object, safe: bool) -> str:
    """One value as it may stand in a text for the model: bare if it looks like an identifier or number."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if safe or isinstance(value, Safe):
        return Shown(clean_line(str(value), MAX_MESSAGE))
    return quoted(value)


def shown_parts(value: object, safe: bool = False) -> list[str]:
    """Make the parts of a template's value, as `joined` takes them; a list has commas between, ten items at most."""
    if isinstance(value, Iterator):  # reading it would take it from whoever comes next
        return []
    if not isinstance(value, Iterable) or isinstance(value, (str, Enum)):
        return [shown] if (shown := _show(value, safe)) else []
    parts: list[str] = []
    flag = ""
    for item in itertools.islice(value, MAX_ITEMS):
        # A command's `--password`, and what follows it.
        shown = _show(item, safe) if safe or not announces_secret(flag) else "[redacted:secret]"
        flag = item if isinstance(item, str) else ""
        if parts and sum(map(len, parts)) + len(shown) > MAX_LIST:
            break  # what a message or hint is cut at would otherwise cut a quoted value open
        if shown:
            parts += [", ", shown] if parts else [shown]
    return parts


def _shown(exc: BaseException, path: tuple[str, ...], safe: bool) -> list[str]:
    return shown_parts(_read(exc, path), safe)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Template:
    """A constant text with values read from the exception's attributes: `{exc.invoice_id}`, nothing else.

    `parts` alternates literal texts (str) and attribute paths (tuple of names).
    """

    parts: tuple[str | tuple[str, ...], ...]

    @classmethod
    def parse(cls, what: str, text: object) -> Template:
        """Check and split a template; raise `ValueError` that names what is wrong with it."""
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{what} must be a text that is not empty, not {text!r}")
        parts: list[str | tuple[str, ...]] = []
        literal, end = "", 0
        for match in _FIELD.finditer(text):
            literal += text[end : match.start()]
            end = match.end()
            if match.group() in ("{{", "}}"):
                literal += match.group()[0]
                continue
            path = _PATH.match(match.group(1) or "")
            names = tuple(path.group(1)[1:].split(".")) if path else ()
            if not names or any("__" in name for name in names):
                raise ValueError(
                    f"{what} {text!r}: {match.group()!r} is no attribute path; a template reads attributes of "
                    "the exception, such as {exc.invoice_id} (no calls, indexes, formats or names with '__'; "
                    "write {{ and }} for braces)"
                )
            parts += [literal, names]
            literal = ""
        parts.append(literal + text[end:])
        return cls(tuple(parts))

    def __str__(self) -> str:
        shown = (f"{{exc.{'.'.join(part)}}}" if isinstance(part, tuple) else _escaped(part) for part in self.parts)
        return "".join(shown)

    @property
    def paths(self) -> set[tuple[str, ...]]:
        return {part for part in self.parts if isinstance(part, tuple)}

    def render(self, exc: BaseException, safe: AbstractSet[tuple[str, ...]] = frozenset()) -> str:
        """Fill in the values; one that is missing or empty goes, together with what introduced it."""
        parts: list[str] = []
        gone = False
        for part in self.parts:
            if isinstance(part, tuple):
                shown = attempt(_shown, [], exc, part, part in safe)
                if shown:
                    parts += shown
                else:
                    gone = True
                    if parts and not isinstance(parts[-1], Shown):
                        parts[-1] = parts[-1].rstrip(" \t:=#'\"`([{<-–")
                continue
            if gone:
                part = part.lstrip("'\"`)]}>")
                if part[:1].isalnum():
                    part = " " + part
                gone = False
            parts.append(part)
        whole = joined(parts)
        return Safe(whole.strip()) if isinstance(whole, Safe) else whole.strip()
