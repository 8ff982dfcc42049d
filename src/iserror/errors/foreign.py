"""Words of other exceptions inside an author's text: found, and shown as quoted data.

Both sides are compared folded: letters and digits alone, in one case. So neither a wrapped line, a blank, an escape nor
a comma that the author put in or took out hides them. `support/words.py` says what of an exception is read.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Final

from iserror.redact.echo import Echo, here
from iserror.redact.speech import Filled, Shown, joined, quoted, quoted_to_caller, quoted_value
from iserror.redact.text import Safe, cut_short
from iserror.support.causes import ARGS, CAUSE, CONTEXT, module_of, origin, raise_frame, text_of
from iserror.support.loading import full_name
from iserror.support.look import look, shield
from iserror.support.sdk import package_of
from iserror.support.words import texts_behind

MIN_WORDS: Final = 12
"""An exception's words of fewer characters are as likely the author's own."""

STRETCH: Final = 18
"""A piece of them with fewer letters and digits is as likely the author's own: about 24 characters of prose."""

MAX_WORDS: Final = 300
"""The most characters of one quotation."""

MAX_QUOTED: Final = 8_000
"""The most characters of a text in which they are looked for."""

_JOINTS: Final = " \t\n:;,=(>-\u2013\u2014"
"""What an author writes between a name and what is said of it."""

_QUOTES: Final = "\"'`"

_MAX_EDGES: Final = 40
"""How many parts a text may have before what the caller sent is no longer told from the words beside it."""

_BLOCK: Final = STRETCH // 2
_LEAST: Final = 6
"""A line with fewer letters and digits says nothing."""

_MARKS: Final = 4
"""The most brackets and quotes before or behind a stretch that count as a part of it."""

_MAX_LINES: Final = 2_000
"""The most lines of a text that are looked for as a whole: half of them at its end."""


def in_quotes(text: str, exc: BaseException, own: Collection[int] = ()) -> str:
    """Quote the words of other exceptions in a text (`ToolError(f"search failed: {exc}")`).

    The author passed them on, but did not write them: an order inside them must not sound like the server's. Every
    stretch is quoted that an exception behind this one holds too, in its words, arguments, attributes or notes.

    Args:
        text: The author's text; a `Safe` stays as it is.
        exc: The exception that carries it.
        own: Ids of exceptions behind it whose words the author declared to be the server's.
    """
    if isinstance(text, Safe) and not isinstance(text, Filled):
        return text
    literals = text.parts if isinstance(text, Filled) else (str.__str__(text),)
    if text_of(exc) == text and look(_repeats_own_words, False, exc):
        return quoted_to_caller(text, MAX_WORDS)
    words = look(texts_behind, None, exc, own)
    found = None if words is None else shield(_quoted_parts, None, literals, words, text_of(exc))
    return quoted(text, MAX_WORDS) if found is None else joined(found)


def _repeats_own_words(exc: BaseException) -> bool:
    """Return True for an exception that says what the one behind it says, of the same package's own class and raising.

    That is `raise ToolError(str(exc)) from exc`. It stays a quotation: who made the words up, nothing tells. But what
    the caller sent is no secret in them.
    """
    came_from, frame = origin(exc)[0], raise_frame(exc)
    wrote = None if came_from is None else raise_frame(came_from)
    if came_from is None or frame is None or wrote is None or text_of(came_from) != text_of(exc):
        return False
    return len({package_of(name) for name in (module_of(frame), module_of(wrote), full_name(type(came_from)))}) == 1


def beside(text: str, exc: BaseException) -> str:
    """Return what is left of a text without the words of the exceptions behind it: folded, with single blanks.

    Args:
        text: The author's text.
        exc: The exception that carries it.
    """
    words = look(texts_behind, None, exc) or []
    parts = shield(_quoted_parts, [text], (text,), words, "")
    rest = " ".join(" ".join(parts[::2]).casefold().split())
    for link in (CAUSE(exc), CONTEXT(exc)):
        held = held_words(rest, link) if link is not None else ""
        rest = rest.replace(held, " ") if held else rest
    return rest


_HEAD: Final = 40
"""An exception's words are often cut: so many of its first characters stand for all of them."""


def held_words(text: str, exc: BaseException) -> str:
    """Return the words of an exception that a text holds; "" if it holds none.

    What counts is its `str()`, whole or cut, and a text among its arguments: at least 12 characters and two words, in
    any case and with any white space.

    Args:
        text: The text.
        exc: The exception.

    Returns:
        The words, in lower case and with single blanks, as they stand in the text folded so.
    """
    said = " ".join(text.casefold().split())
    whole = text_of(exc)
    arguments = [str.__str__(arg) for arg in look(lambda: ARGS(exc)[:3], ()) if issubclass(type(arg), str)]
    for one in (whole, *arguments, whole.partition("\n")[0]):
        words = " ".join(one[:MAX_QUOTED].casefold().split())
        if len(words) < MIN_WORDS or " " not in words:
            continue
        if words in said:
            return words
        head = words[:_HEAD]
        if len(words) > _HEAD and head.count(" ") > 1 and head in said:
            return _common(said[said.index(head) :], words)
    return ""


def _common(text: str, other: str) -> str:
    """Return with what both texts begin."""
    length = next((i for i, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), None)
    return text[: min(len(text), len(other)) if length is None else length]


def _quoted_parts(parts: Iterable[str], words: list[str], whole: str) -> list[str]:
    made: list[str] = []
    for part in parts:
        if isinstance(part, Shown):
            made.append(part.now())
        else:
            made += _quote(part, words, whole) if words else [part]
    return made


def _quote(text: str, words: list[str], whole: str) -> list[str]:
    if len(text) > MAX_QUOTED:
        text = cut_short(text, MAX_QUOTED)
    parts: list[str] = []
    end = 0
    echo = here.find()
    said = cache(lambda: [folded(one) for one in words])
    inside = [m.span() for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"', text)]
    for start, stop in _regions(text, words, whole):
        if start < end or any(first < start and stop < last for first, last in inside):
            continue  # the author has put it in quotes
        start, stop = _widened(text, start, stop, words)
        first = start
        if start > end and text[start - 1] in "\"'" and text[start - 1] == text[stop : stop + 1]:
            first, stop = start - 1, stop + 1
        stretch = text[start : stop - (first < start)]
        own = _edges(stretch, echo, said) if echo and len(parts) < _MAX_EDGES else (0, 0)
        parts += (text[end:first], *_quotes(stretch, *own))
        end = stop
    # A quote that the author opened, or cut off, would turn the rest inside out.
    parts = [part.replace('"', "'") if i % 2 == 0 and part.count('"') % 2 else part for i, part in enumerate(parts)]
    return [*parts, text[end:]]


def _edges(text: str, echo: Echo, said: Callable[[], list[str]]) -> tuple[int, int]:
    """Return how many characters at the start and end of a stretch the author put there, and the caller had sent.

    `f"{path}: {exc}"` is one stretch if the exception's text has the path, too. Its words aren't taken apart.
    """
    first, last = echo.begins(text), echo.ends(text)
    if first and any(folded(text[: first + STRETCH]) in one for one in said()):
        first = 0
    if last and any(folded(text[-last - STRETCH :]) in one for one in said()):
        last = 0
    return first, last


def _quotes(text: str, first: int, last: int) -> list[str]:
    """Return a stretch as quotes, with a quote of its own for so many characters at its start and end."""
    if not 0 < first + last < len(text):
        return [quoted_value(text, MAX_WORDS)]
    inner = text[first : len(text) - last]
    start = len(inner) - len(inner.lstrip(_JOINTS)) if first else 0
    stop = len(inner.rstrip(_JOINTS)) if last else len(inner)
    parts = [quoted_value(text[:first].strip(_QUOTES), MAX_WORDS), inner[:start]] if first else []
    if stop > start:
        parts.append(quoted(inner[start:stop], MAX_WORDS))
    if last:
        parts += [inner[stop:]] if stop > start else []
        parts.append(quoted_value(text[len(text) - last :].strip(_QUOTES), MAX_WORDS))
    return parts


def _widened(text: str, start: int, stop: int, words: list[str]) -> tuple[int, int]:
    """Return a region with the brackets and quotes around it that belong to the words, not to the author."""
    for _ in range(_MARKS):
        if start and _is_mark(text[start - 1]) and any(text[start - 1 : start + _BLOCK] in said for said in words):
            start -= 1
    for _ in range(_MARKS):
        if _is_mark(text[stop : stop + 1]) and any(text[stop - _BLOCK : stop + 1] in said for said in words):
            stop += 1
    return start, stop


def _is_mark(char: str) -> bool:
    return bool(char) and not char.isalnum() and not char.isspace()


def _regions(text: str, words: list[str], whole: str) -> list[tuple[int, int]]:
    """Return where in the text the words are, in order: from a first letter to behind a last one."""
    letters, places = _folded_with_places(text)
    if not letters:
        return []
    pieces = {letters[i : i + STRETCH] for i in range(len(letters) - STRETCH + 1)}
    blocks = {letters[i : i + _BLOCK] for i in range(len(letters) - _BLOCK + 1)}
    stretches: set[str] = set()
    lines: set[str] = set()
    said = []
    for one in words:
        one = one.replace(whole, "") if _is_remote(one, whole) else one
        lines.update(_short_lines(one))
        said.append(folded(one))
    # Without anything between them: an author may join the items of a list.
    spoken = "".join(said)
    for at in range(0, len(spoken) - _BLOCK + 1, _BLOCK):
        if spoken[at : at + _BLOCK] in blocks:
            first = max(at - STRETCH + _BLOCK, 0)
            stretches.update(spoken[i : i + STRETCH] for i in range(first, at + 1) if spoken[i : i + STRETCH] in pieces)
    foreign = bytearray(len(letters))
    for i in range(len(letters) - STRETCH + 1):
        if letters[i : i + STRETCH] in stretches:
            foreign[i : i + STRETCH] = b"\1" * STRETCH
    for length in {len(line) for line in lines}:
        for i in range(len(letters) - length + 1):
            if letters[i : i + length] in lines:
                foreign[i : i + length] = b"\1" * length
    return [(places[m.start()][0], places[m.end() - 1][1]) for m in re.finditer(b"\1+", bytes(foreign))]


def _short_lines(text: str) -> Iterable[str]:
    """Yield the folded lines of a text that are too short for a stretch, and long enough to be words."""
    lines = [text] if len(text) < MAX_WORDS else []
    split = text.splitlines()
    lines += split if len(split) <= _MAX_LINES else split[: _MAX_LINES // 2] + split[-_MAX_LINES // 2 :]
    for line in lines:
        if MIN_WORDS <= len(line.strip()) <= MAX_WORDS:
            found = folded(line)
            if _LEAST <= len(found) < STRETCH:
                yield found


def _is_remote(text: str, whole: str) -> bool:
    """Return True for the traceback with which a worker process sent this exception: its text ends it."""
    ends_so = bool(whole) and text.rstrip(' \n"').endswith(whole.rstrip(' \n"'))
    return ends_so and "Traceback (most recent call last):" in text


# --- folding -------------------------------------------------------------------------------------------------

_ESCAPE: Final = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|[nrtabfv0])|%([0-9a-fA-F]{2})|(&(?:#\w{1,8}|\w{2,8});)"
)
_NOT_A_LETTER: Final = re.compile(r"[\W_]+")
_SMALL: Final = bytes(range(256)).lower()
_NO_LETTERS: Final = bytes(c for c in range(128) if not chr(c).isalnum())


def folded(text: str) -> str:
    """Return the letters and digits of a text, in one case; escapes as what they stand for."""
    if "\\" in text or "%" in text or "&" in text:
        text = _ESCAPE.sub(_unescaped, text)
    if text.isascii():
        return text.encode().translate(_SMALL, _NO_LETTERS).decode()
    return _NOT_A_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold())


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3] or match[4]
    if digits:
        return look(lambda: chr(int(digits, 16)), "")
    return html.unescape(match[5]) if match[5] else " "


def _folded_with_places(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a folded text, and for each of its characters where what it stands for begins and ends."""
    letters: list[str] = []
    places: list[tuple[int, int]] = []

    def take(piece: str, start: int, stop: int) -> None:
        found = folded(piece)
        letters.append(found)
        places.extend([(start, stop)] * len(found))

    end = 0
    for escape in (*_ESCAPE.finditer(text), None):
        upto = len(text) if escape is None else escape.start()
        for i in range(end, upto):
            take(text[i], i, i + 1)
        if escape is not None:
            end = escape.end()
            take(_unescaped(escape), escape.start(), end)
    return "".join(letters), places
