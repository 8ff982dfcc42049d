"""Words of other exceptions inside an author's text: found, and shown as quoted data."""

from __future__ import annotations

import re
from typing import Final

from iserror.redact.speech import joined, quoted
from iserror.redact.text import Safe, cut_short
from iserror.support.causes import _ARGS, _CAUSE, _CONTEXT, MAX_CHAIN, Group, members, text_of
from iserror.support.look import attempt

MIN_WORDS: Final = 12  # an exception's words of fewer characters are as likely the author's own


MAX_WORDS: Final = 300


MAX_QUOTED: Final = 8_000  # characters of a text in which they are looked for


STRETCH: Final = 24  # a shorter piece of them is as likely the author's own


def in_quotes(text: str, exc: BaseException) -> str:
    """A text with the words of other exceptions in it (`ToolError(f"search failed: {exc}")`) as quoted data.

    Its author passed them on, but did not write them: an order inside them must not sound like the server's. What
    is foreign is every stretch that an exception behind this one holds too, in its words, arguments or notes.
    """
    if isinstance(text, Safe):
        return text
    text = str.__str__(text)
    found = attempt(_in_quotes, None, text, exc)
    return quoted(text, MAX_WORDS) if found is None else found


def _in_quotes(text: str, exc: BaseException) -> str:
    words = _foreign_words(exc)
    if not words:
        return text
    if len(text) > MAX_QUOTED:
        text = cut_short(text, MAX_QUOTED)
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
    parts: list[str] = []
    end = 0
    for m in re.finditer(b"\1+", foreign):
        start, stop = m.span()
        if start and text[start - 1] in "\"'" and text[start - 1] == text[stop : stop + 1]:
            start, stop = start - 1, stop + 1  # its author put it in quotes already
        parts += (text[end:start], quoted(text[m.start() : m.end()], MAX_WORDS))
        end = stop
    return joined((*parts, text[end:]))


def _foreign_words(exc: BaseException) -> list[str]:
    """What the exceptions behind this one say: causes and contexts, suppressed or not, and the leaves of groups."""
    words: dict[str, None] = {}
    waiting, seen = [_CAUSE(exc), _CONTEXT(exc)], {id(exc)}
    while waiting and len(seen) < MAX_CHAIN:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        waiting += (_CAUSE(link), _CONTEXT(link), *(members(link)[:MAX_CHAIN] if isinstance(link, Group) else ()))
        said = (text_of(link), *_ARGS(link), *attempt(vars, {}, link).values(), *getattr(link, "__notes__", ()))
        for value in said[:MAX_CHAIN]:
            for item in value.values() if isinstance(value, dict) else (value,):
                if isinstance(item, bytes):
                    item = item[:MAX_QUOTED].decode(errors="replace")
                if isinstance(item, str) and len(item) >= MIN_WORDS:
                    item = str.__str__(item)[:MAX_QUOTED]
                    words.update(dict.fromkeys((item, repr(item)[1:-1])))
    return list(words)[:MAX_CHAIN]
