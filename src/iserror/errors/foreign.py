"""Words of other exceptions inside an author's text: found, and shown as quoted data."""

from __future__ import annotations

import re
from typing import Final

from iserror.redact.speech import joined, quoted
from iserror.redact.text import Safe, cut_short
from iserror.support.causes import ARGS, CAUSE, CONTEXT, MAX_CHAIN, Group, members, notes, text_of
from iserror.support.look import look, shield

MIN_WORDS: Final = 12
"""An exception's words of fewer characters are as likely the author's own."""

STRETCH: Final = 24
"""A shorter piece of them is as likely the author's own."""

MAX_WORDS: Final = 300
"""The most characters of one quotation."""

MAX_QUOTED: Final = 8_000
"""The most characters of a text in which they are looked for."""


def in_quotes(text: str, exc: BaseException) -> str:
    """Quote the words of other exceptions in a text (`ToolError(f"search failed: {exc}")`).

    The author passed them on, but did not write them: an order inside them must not sound like the server's. Every
    stretch is quoted that an exception behind this one holds too, in its words, arguments or notes.

    Args:
        text: The author's text; a `Safe` stays as it is.
        exc: The exception that carries it.
    """
    if isinstance(text, Safe):
        return text
    text = str.__str__(text)
    words = look(_foreign_words, None, exc)
    found = None if words is None else shield(_quote, None, text, words)
    return quoted(text, MAX_WORDS) if found is None else found


def _quote(text: str, words: list[str]) -> str:
    if not words:
        return text
    if len(text) > MAX_QUOTED:
        text = cut_short(text, MAX_QUOTED)
    foreign = _marked(text, words)
    parts: list[str] = []
    end = 0
    for m in re.finditer(b"\1+", foreign):
        start, stop = m.span()
        if start and text[start - 1] in "\"'" and text[start - 1] == text[stop : stop + 1]:
            start, stop = start - 1, stop + 1  # the author has put it in quotes
        parts += (text[end:start], quoted(text[m.start() : m.end()], MAX_WORDS))
        end = stop
    return joined((*parts, text[end:]))


def _marked(text: str, words: list[str]) -> bytearray:
    """Return a byte for each character of the text: 1 where it is one of the words."""
    foreign = bytearray(len(text))
    stretches: set[str] = set()
    for said in words:
        for piece in {said, said.strip(), *map(str.strip, said.splitlines()[:50])}:
            at = text.find(piece) if len(piece) >= MIN_WORDS else -1
            while at >= 0:
                foreign[at : at + len(piece)] = b"\1" * len(piece)
                at = text.find(piece, at + len(piece))
        stretches.update(said[i : i + STRETCH] for i in range(len(said) - STRETCH + 1))
    for i in range(len(text) - STRETCH + 1):
        if text[i : i + STRETCH] in stretches:
            foreign[i : i + STRETCH] = b"\1" * STRETCH
    return foreign


def _foreign_words(exc: BaseException) -> list[str]:
    """Return what the exceptions behind this one say: causes, contexts (suppressed ones too) and leaves of groups."""
    words: dict[str, None] = {}
    waiting, seen = [CAUSE(exc), CONTEXT(exc)], {id(exc)}
    while waiting and len(seen) < MAX_CHAIN:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        waiting += (CAUSE(link), CONTEXT(link), *(members(link)[:MAX_CHAIN] if isinstance(link, Group) else ()))
        said = (text_of(link), *ARGS(link), *look(vars, {}, link).values(), *notes(link, MAX_CHAIN))
        for value in said[:MAX_CHAIN]:
            for item in value.values() if isinstance(value, dict) else (value,):
                if isinstance(item, bytes):
                    item = item[:MAX_QUOTED].decode(errors="replace")
                if isinstance(item, str) and len(item) >= MIN_WORDS:
                    item = str.__str__(item)[:MAX_QUOTED]
                    words.update(dict.fromkeys((item, repr(item)[1:-1])))
    return list(words)[:MAX_CHAIN]
