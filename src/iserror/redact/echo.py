"""What the caller of one call sent in its arguments: a text for that caller may say it back.

A caller gains nothing from a path that it named itself, but misses it in the answer. Only arguments from the wire
count, and only whole words of them. A text that says more than the caller sent, or less, isn't an echo: a caller could
send a guess and look for it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from iserror.redact.rule import MARK, regex
from iserror.redact.text import clean

MAX_LEAVES: Final = 32
"""The most texts of the arguments that count."""

MAX_DEPTH: Final = 4
"""How deep in the arguments a text may be."""

MAX_LEAF: Final = 4_096
"""The most characters of one of them."""

MAX_VALUES: Final = 256
"""The most values of any kind that are looked at."""

MAX_NAMED: Final = 8
"""The most paths and hosts that one text may name: a list of more may be a list of guesses."""

MIN_WORD: Final = 6
"""The least characters of a word inside a text, as opposed to a whole text."""

MAX_LOOKS: Final = 200
"""How many different findings of one text are looked up."""

_QUOTES: Final = "\"'`“”„‘’«»‹›"
_WORD: Final = rf"[^\s{_QUOTES}]+"
_APART: Final = rf"\Z|[\s{_QUOTES})\]}}>,;:]|[.!?](?:\Z|[\s{_QUOTES}])"
_PROSE: Final = r"\s?[:\u2013\u2014-]\s{1,4}"
"""Follows a statement in a sentence. It isn't part of one."""

_INTERNAL: Final = (".internal", ".local", ".lan", ".corp", ".intra", ".home.arpa", ".private", ".svc", ".consul")
_NAMED: Final = r"[/\\~%$]|[A-Za-z]:[\\/]|[A-Za-z][\w+.-]{1,30}:/"
_HOST: Final = (
    r"(?:[a-z][a-z0-9+.-]{0,30}://(?:[^\s/@]{0,300}@)?)?(?P<name>\w[\w.-]{0,252})(?P<port>:\d{1,5})?(?:[/?#]\S*)?"
)
_OWN_MACHINE: Final = (
    r"(?:.*\.)?(?:localhost|localdomain|loopback|ip6-\w+)(?:\..*)?|(?:.*\D)?(?:\d{1,3}[.-]){3}\d{1,3}(?:\D.*)?"
)


def leaves_of(arguments: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the texts of a call's arguments, those near the top first, as they are now: the tool may change them.

    Args:
        arguments: Plain JSON data; values of other types are left out.
    """
    if type(arguments) is not dict or not arguments:
        return ()
    found: list[str] = []
    level: list[Any] = [arguments]
    left = MAX_VALUES
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            for item in value.values() if type(value) is dict else value:
                if left <= 0:
                    break
                left -= 1
                kind = type(item)
                if kind is str:
                    found.append(item)
                elif kind is dict or kind is list:
                    below.append(item)
        if not below or len(found) >= MAX_LEAVES:
            break
        level = below
    return tuple([text for text in found[:MAX_LEAVES] if len(text) <= MAX_LEAF])


class Echo:
    """What the caller of one call sent.

    Args:
        leaves: What `leaves_of` returned.
    """

    def __init__(self, leaves: tuple[str, ...]) -> None:
        kept: list[str] = []
        paths: set[str] = set()
        edges: set[str] = set()
        for leaf in (clean(leaf).strip() for leaf in leaves):
            words = _named(leaf)
            if leaf and MARK not in leaf and len(words) + sum(map(leaf.lower().count, _INTERNAL)) <= MAX_NAMED:
                kept.append(leaf)
                paths.update(_folded(word) for word in (leaf, *words))
                edges.update(word for word in (leaf, *words) if len(word) >= MIN_WORD)
        self._leaves = tuple(kept)
        self._edges = sorted(edges, key=len, reverse=True)
        self._paths = paths
        """Each text, and each word inside of one that is a path."""
        self._hosts = {host for leaf in kept for host in _host_of(leaf)}
        """The host of each text that is one or a URL of one, with and without its port."""
        self._folded: list[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._leaves)

    @property
    def _statements(self) -> list[str]:
        """The texts that may be SQL. Few texts for a model hold any."""
        if self._folded is None:
            self._folded = [_folded_statement(leaf) for leaf in self._leaves if len(leaf.split(None, 1)) > 1]
        return self._folded

    def is_whole(self, text: str) -> bool:
        """Return True if a text is one that the caller sent, or a whole word of one, and nothing else."""
        text = clean(text[: MAX_LEAF + 1]).strip()
        return len(text) <= MAX_LEAF and (
            _folded(text) in self._paths
            or text.casefold() in self._hosts
            or (" " in text and _folded_statement(text) in self._statements)
        )

    def begins(self, text: str) -> int:
        """Return how many characters at the start of a text are a text that the caller sent, or a path in one."""
        quote = text[:1] if text[:1] in _QUOTES else ""
        edges = (f"{quote}{edge}{quote}" for edge in self._edges)
        return next((len(edge) for edge in edges if text.startswith(edge) and _is_apart(text, 0, len(edge))), 0)

    def ends(self, text: str) -> int:
        """Return how many characters at the end of a text are so."""
        quote = text[-1:] if text[-1:] in _QUOTES else ""
        edges = (f"{quote}{edge}{quote}" for edge in self._edges)
        found = (len(edge) for edge in edges if text.endswith(edge))
        return next((size for size in found if _is_apart(text, len(text) - size, len(text))), 0)

    def holds(self, kind: str, text: str, start: int, stop: int) -> int:
        """Return up to where what a rule found in a text is the caller's; its start if it isn't.

        A rule takes what follows a statement on its line, too: `SELECT a FROM b: no such table`.

        Args:
            kind: One of `KINDS`.
            text: The text.
            start: Where the finding begins.
            stop: Where it ends.
        """
        found = text[start:stop] if stop - start <= MAX_LEAF else ""
        if kind == "sql":
            if self._states(_folded_statement(found)):
                return stop
            whole = (len(leaf) for leaf in self._leaves if text.startswith(leaf, start) and start + len(leaf) < stop)
            return next((start + size for size in whole if regex(_PROSE).match(text, start + size)), start)
        if kind == "path" and found:
            return stop if _folded(found) in self._paths or self._surrounds(text, start, found) else start
        return stop if found.casefold() in self._hosts else start

    def _surrounds(self, text: str, start: int, found: str) -> bool:
        """Return True if a finding is a part of a whole text of the caller's: a rule ends at a bracket in a name."""
        for leaf in self._leaves:
            at = start - max(leaf.find(found), 0)
            if found in leaf and at >= 0 and text.startswith(leaf, at) and _is_apart(text, at, at + len(leaf)):
                return True
        return False

    def _states(self, found: str) -> bool:
        """Return True if a statement is in one of the caller's, from the start of a word to the end of one."""
        for statement in self._statements:
            at = statement.find(found)
            around = statement[max(at - 1, 0) : at], statement[at + len(found) :][:1]
            if found and at >= 0 and not (_is_letter(around[0]) or _is_letter(around[1])):
                return True
        return False


class Left:
    """Findings that stay in a text. While the rules run, a marker stands for each of them, as for any other finding.

    Args:
        stays: Returns up to where a finding stays: its kind, the text, start and end.
    """

    def __init__(self, stays: Callable[[str, str, int, int], int]) -> None:
        self._stays = stays
        self._looks = 0
        self.at: dict[int, str] = {}
        """What a marker stands for, by where it begins, in order."""

    def takes(self, kind: str, text: str, start: int, stop: int) -> int:
        """Return up to where a finding stays; its start if it doesn't."""
        if kind not in KINDS or self._looks >= MAX_LOOKS:
            return start
        self._looks += 1
        return self._stays(kind, text, start, stop)

    def restored(self, text: str) -> str:
        """Return the text with the findings in their places."""
        parts: list[str] = []
        end = 0
        for start, found in self.at.items():
            parts += (text[end:start], found)
            end = text.index("]", start) + 1
        return "".join((*parts, text[end:]))


KINDS: Final = frozenset({"path", "sql", "host"})
"""The kinds of findings that a caller may be told again."""


class _Here:
    """Where to find what the caller sent whose call runs here. The layers set it."""

    find: Callable[[], Echo | None] = staticmethod(lambda: None)


here: Final = _Here()


def _named(text: str) -> list[str]:
    """Return the paths and URLs in a text. White space and quotes bound them."""
    if "/" not in text and "\\" not in text:
        return []
    words = (word.rstrip(",;:!?") for word in regex(_WORD).findall(text))
    return [word for word in words if len(word) >= MIN_WORD and regex(_NAMED).match(word)]


def _host_of(text: str) -> set[str]:
    """Return the host that a text is, or that it is a URL of, with and without its port; nothing of an own machine."""
    whole = regex(_HOST).fullmatch(text.casefold())
    if whole is None or regex(_OWN_MACHINE).fullmatch(whole["name"]):
        return set()
    name = whole["name"].rstrip(".")
    return {name, name + (whole["port"] or "")}


def _folded(text: str) -> str:
    """Return a text in one case, with single blanks and backslashes, without quotes around it or a mark behind it."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "\\" in text:
        text = regex(r"\\+").sub(r"\\", text).replace("\\/", "/")
    text = " ".join(text.casefold().split()).strip(_QUOTES)
    return regex(r"(?:[/\\]{1,9}|\.)\Z").sub("", text)


def _folded_statement(text: str) -> str:
    """Return SQL in one case and with single blanks, without escapes, and without punctuation around it."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if "\\" in text:
        text = regex(r"\\+(?=[\"'])").sub("", regex(r"\\+[nrt]").sub(" ", text))
    return " ".join(text.casefold().split()).strip(_QUOTES + " .,;:!?)]}([{")


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


def _is_apart(text: str, start: int, stop: int) -> bool:
    """Return True if a stretch of a text stands alone: between blanks, quotes, brackets or a sentence's marks."""
    before = start == 0 or text[start - 1].isspace() or text[start - 1] in _QUOTES + "([{<=,;:"
    return before and regex(_APART).match(text, stop) is not None
