"""One rule of a redactor, and the markers that rules leave."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Literal, Protocol

Profile = Literal["model", "log"]

FAILED: Final = "[redacted]"
MARK: Final = "[redacted:"
MARKER: Final = r"\[redacted:\w{1,40}\]"

# The start of a word, also after the `\\n` and `%3D` of escaped texts.
START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"

QUOTE = r"(?:\\{0,6}[\"'`]|\\{1,4}u00(?:22|27)|&quot;|&#3[49];|%22|[“”„‘’«»‹›「」『』])"  # of any escape level

regex = lru_cache(maxsize=None)(re.compile)
"""Compile a pattern at its first use, so that an import of the package stays cheap."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """
    One named kind of finding.

    Args:
        name: Unique in a redactor. `Redactor.remove` takes it.
        kind: The kind in the marker `[redacted:KIND]`: up to forty letters, digits and underscores.
        pattern: A regular expression. The first group that took part among `v`, `w` and `x` (also with a number:
            `v2`) is replaced, otherwise the whole match. Bound its repetitions, since texts are untrusted.
        gates: Lower-case literals, one of which must occur in the lower-cased text. Empty means always.
        run: Length, in characters, that the longest run of word characters and `.*-$~+` in the text must have
            for the rule to be tried: 16 or more, or 0 for any. Gates of only such characters must be in a run.
        profiles: The profiles with this rule.
        pii: Whether the rule needs `pii=True`.
        check: Returns True if a match counts, if a pattern alone can't decide.
        find: Yields start and end of each finding, instead of `pattern`.
        starts: Lower-case literals, one of which must begin a word within a run. They begin with two letters or digits.
    """

    name: str
    kind: str
    pattern: str = ""
    gates: tuple[str, ...] = ()
    run: int = 0
    profiles: tuple[Profile, ...] = ("model", "log")
    pii: bool = False
    check: Callable[[re.Match[str]], bool] | None = None
    find: Callable[[str], Iterable[tuple[int, int]]] | None = None
    starts: tuple[str, ...] = ()

    def spans(self, text: str) -> Iterable[tuple[int, int]]:
        """Yield start and end, in characters, of each finding in `text`, in order."""
        if self.find is not None:
            yield from self.find(text)
            return
        for m in regex(self.pattern).finditer(text):
            if self.check is None or self.check(m):
                yield m.span(group_of(m))


def model_rule(name: str, kind: str, pattern: str, gates: str) -> Rule:
    """Return a rule for the profile `model`; `gates` are separated by `|`."""
    return Rule(name, kind, pattern, tuple(gates.split("|")), 0, ("model",))


def group_of(m: re.Match[str]) -> str | int:
    """Return the group of a match that is the finding, or 0 for the whole match."""
    return next((name for name in _finding_groups(m.re) if m.start(name) >= 0), 0)


@lru_cache(maxsize=512)
def _finding_groups(pattern: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(name for name in pattern.groupindex if re.fullmatch(r"[vwx]\d*", name))


def any_word(words: str) -> str:
    """Spell a case-insensitive choice of words so that `re` can reject a position by its first character."""
    return "(?:" + "|".join(f"[{w[0].lower()}{w[0].upper()}](?i:{w[1:]})" for w in words.split()) + ")"


def has_marker(text: str) -> bool:
    """Return True if a whole marker is in the text. The head of a marker proves nothing."""
    return MARK in text and regex(MARKER).search(text) is not None


def is_marked(text: str, start: int) -> bool:
    """Return True if a whole marker begins at `start` or surrounds it."""
    opened = text.rfind("[", max(0, start - 60), start + 1)
    if opened < 0 or not text.startswith(MARK, opened):
        return False
    whole = regex(MARKER).match(text, opened)
    return whole is not None and start < whole.end()


class Kept(Protocol):
    """Findings that stay. While the rules run, a marker stands for each of them, as for any other finding."""

    at: dict[int, str]
    """What a marker stands for, by where it begins, in order."""

    def takes(self, kind: str, text: str, start: int, stop: int) -> int:
        """Return up to where a finding of this kind stays; its start if it doesn't."""


def replace_all(text: str, rule: Rule, kept: Kept | None = None) -> str:
    """Replace each finding of the rule in the text by its marker.

    Args:
        text: The text.
        rule: The rule.
        kept: Knows which findings stay, and gets what their markers stand for.
    """
    parts: list[str] = []
    end = length = 0
    stayed = False
    moved: dict[int, str] = {}
    spans = sorted(rule.spans(text))
    has_marks = bool(spans) and MARK in text
    for start, stop in spans:
        start = max(start, end)
        if stop <= start or (has_marks and is_marked(text, start)):
            continue
        if has_marks:  # a finding that ends inside a marker takes the whole marker
            marker = regex(MARKER).match(text, max(text.rfind("[", start, stop), start))
            stop = max(stop, marker.end()) if marker else stop
        if text.startswith('"', stop) and text[stop - 1] == "\\" and stop - 1 > start:
            stop -= 1  # the backslash stays, so that the quote after it doesn't end the string
        between = text[end:start]
        stays = False
        if kept is not None and (upto := kept.takes(rule.kind, text, start, stop)) > start:
            stays, stop = True, upto
        if not parts or between.strip() or stays or stayed:  # findings with only blanks between them share one marker
            if kept is not None:
                moved.update((at - end + length, found) for at, found in kept.at.items() if end <= at < start)
                length += len(between)
                if stays:
                    moved[length] = text[start:stop]
                length += len(f"{MARK}{rule.kind}]")
            parts += (between, f"{MARK}{rule.kind}]")
        end, stayed = stop, stays
    if not parts:
        return text
    if kept is not None:
        moved.update((at - end + length, found) for at, found in kept.at.items() if at >= end)
        kept.at = moved
    return "".join((*parts, text[end:]))
