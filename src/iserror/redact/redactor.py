"""A set of rules applied to texts and structures."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from iserror.redact import assignments, commands, formats, headers, hosts, messages, paths, personal, sql, traces
from iserror.redact.echo import Echo, Left
from iserror.redact.names import counts, grade_of
from iserror.redact.rule import FAILED, MARK, START, Profile, Rule, regex, replace_all
from iserror.redact.text import CAP, MARGIN, bounded, cut_short

_SHORT = 8_192
"""Length of a text up to which the rules run several times."""
_PASSES = 5
"""How often the rules run at most over a short text."""
_DEPTH, _NODES, _CHARS = 12, 5_000, 262_144
"""Bounds of one structure: levels, values, characters."""
_LEAST = 16
"""Characters for which a shorter text counts: each takes time."""

_RUN_CHARS = r"[\w.…*$~+-]*"
_RUN = r"(?:\\[nrt]|%[0-9a-f]{2}|(?<![\w.…*$~+-]))[\w.…*$~+-]{16,}"

DEFAULT_RULES: tuple[Rule, ...] = (
    *formats.rules(),
    *headers.rules(),
    *assignments.rules(),
    *commands.rules(),
    *messages.rules(),
    *traces.rules(),
    *sql.rules(),
    *paths.rules(),
    *hosts.rules(),
    *personal.rules(),
)
"""The rules of `redact_text`, in the order in which they run."""


class _Gates:
    """The rules that could find something in a text, by literals. A set of rules is the bits of a number."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.always = 0
        self.in_run: dict[str, int] = {}
        self.starts: dict[str, dict[str, int]] = {}
        """Starts by their first two characters."""
        anywhere: dict[str, int] = {}
        for i, rule in enumerate(rules):
            if is_late(rule) or not (rule.gates or rule.starts):
                self.always |= 1 << i
                continue
            for gate in rule.gates:
                among = self.in_run if rule.run and regex(_RUN_CHARS).fullmatch(gate) else anywhere
                among[gate] = among.get(gate, 0) | 1 << i
            for start in rule.starts:
                among = self.starts.setdefault(start[:2], {})
                among[start] = among.get(start, 0) | 1 << i
        # A gate is looked up only if the shortest gate within it occurs, or a sign within it.
        self.first: dict[str, tuple[int, dict[str, int]]] = {}
        self.foreign: dict[str, tuple[int, dict[str, int]]] = {}
        for gate in sorted(anywhere, key=len):
            first = self.first if gate.isascii() else self.foreign
            within = next((stem for stem in first if stem in gate), None)
            sign = regex(r"[^a-z0-9 ]").search(gate)
            if within is None and sign and gate != sign[0]:
                within = sign[0]
                first[within] = (0, {})
            if within is None:
                first[gate] = (anywhere[gate], {})
            else:
                first[within][1][gate] = anywhere[gate]

    def open(self, text: str) -> Iterable[Rule]:
        """Return the rules with an open gate, in their order."""
        low = text.lower()
        found = self.always
        for first in (self.first,) if low.isascii() else (self.first, self.foreign):
            for stem in filter(low.__contains__, first):
                behind, gates = first[stem]
                found |= behind
                for gate in filter(low.__contains__, gates):
                    found |= gates[gate]
        longest = 0
        runs = regex(_RUN).findall(low)
        if runs:
            longest = max(map(len, runs))
            together = " ".join(runs)
            for gate in filter(together.__contains__, self.in_run):
                found |= self.in_run[gate]
            for head in set(regex(START + "(?=([a-z0-9]{2}))").findall(together)).intersection(self.starts):
                starts = self.starts[head]
                for start in filter(together.__contains__, starts):
                    found |= starts[start]
        opened = []
        while found:
            lowest = found & -found
            rule = self.rules[lowest.bit_length() - 1]
            if rule.run <= longest:
                opened.append(rule)
            found ^= lowest
        return opened


def _check_all(rules: tuple[Rule, ...]) -> None:
    names = [rule.name for rule in rules]
    if taken := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"rule names must be unique: {', '.join(taken)}")
    for rule in rules:
        _check(rule)


def _check(rule: Rule) -> None:
    """Raise `ValueError` if a rule can't work."""
    if not re.fullmatch(r"\w{1,40}", rule.kind):
        raise ValueError(f"a kind has letters, digits and underscores only, forty at most, not {rule.kind!r}")
    if not rule.pattern and rule.find is None:
        raise ValueError(f"rule {rule.name} needs a pattern, or a function `find`")
    if not set(rule.profiles) <= {"model", "log"}:
        raise ValueError(f"rule {rule.name}: profiles are 'model' and 'log', not {rule.profiles!r}")
    for literal in (*rule.gates, *rule.starts):
        if not literal or literal != literal.lower():
            raise ValueError(
                f"rule {rule.name}: {literal!r} never opens, since gates and starts are lower-case literals"
            )
    for start in rule.starts:
        if not re.fullmatch(r"[a-z0-9]{2}.*", start) or rule.run < 16:
            raise ValueError(f"rule {rule.name}: start {start!r} needs two letters or digits in front, and a run of 16")
    if 0 < rule.run < 16:
        raise ValueError(f"rule {rule.name}: a run is 0 or 16 or more characters, not {rule.run}")


def is_late(rule: Rule) -> bool:
    """Return True if a rule reads the markers of other rules. Its gates open only while the rules run."""
    return bool(rule.gates) and rule.gates[0].startswith(MARK)


class Redactor:
    """
    An immutable, ordered set of rules.

    Args:
        rules: The rules, applied in this order. The default rules if omitted.
    """

    def __init__(self, rules: Iterable[Rule] = DEFAULT_RULES) -> None:
        self.rules: tuple[Rule, ...] = tuple(rules)
        if rules is not DEFAULT_RULES:  # tests check the default rules, so that an import doesn't have to
            _check_all(self.rules)
        self._gates: dict[tuple[Profile, bool, frozenset[str]], _Gates] = {}

    def add(self, *rules: Rule) -> Redactor:
        """
        Return a redactor that applies `rules` before its own.

        Raises:
            ValueError: If a name is taken, or if a rule could never find anything.
            re.error: If a pattern doesn't compile.
        """
        for rule in rules:
            re.compile(rule.pattern)
        return Redactor((*rules, *self.rules))

    def remove(self, *names: str) -> Redactor:
        """
        Return a redactor without the rules of these names.

        Raises:
            KeyError: If a name is unknown.
        """
        if unknown := set(names) - {r.name for r in self.rules}:
            raise KeyError(", ".join(sorted(unknown)))
        return Redactor(r for r in self.rules if r.name not in names)

    def redact_text(self, text: str, *, profile: Profile = "model", pii: bool = False) -> str:
        """Return `text` with each finding replaced by `[redacted:KIND]`. See `iserror.redact_text`."""
        return self._replaced(text, profile, pii)

    def echoing(self, text: str, echo: Echo, *, pii: bool = False) -> str:
        """Return `text` redacted for the model whose call it answers: the paths, SQL and hosts that it sent stay.

        Args:
            text: The text, the author's own.
            echo: What the caller sent.
            pii: As for `redact_text`.
        """
        return self._replaced(text, "model", pii, echo)

    def _replaced(
        self, text: str, profile: Profile, pii: bool, echo: Echo | None = None, without: frozenset[str] = frozenset()
    ) -> str:
        def stays(kind: str, text: str, start: int, stop: int) -> int:
            """Return up to where a finding is the caller's; its start if it holds something else that is found."""
            end = start if echo is None else echo.holds(kind, text, start, stop)
            found = text[start:end]
            return end if not found or self._replaced(found, profile, pii, echo, without | {kind}) == found else start

        try:
            whole = str.__str__(text)
            text = bounded(whole)
            was_cut = len(whole) > CAP and text.endswith(" …")
            kept = Left(stays) if echo else None
            # A marker ends with a bracket where a letter may have stood, so another rule can match beside it.
            # The rules run over a short text until nothing changes. For a long text that would take too long.
            for _ in range(_PASSES):
                before = text
                for rule in self._gates_of(profile, pii, without).open(text):
                    if not is_late(rule) or any(gate in text for gate in rule.gates):
                        text = replace_all(text, rule, kept)
                if text == before or len(before) > _SHORT:
                    break
            if kept is not None and kept.at:
                text = kept.restored(text)
            return bounded(cut_short(text, len(text) - MARGIN) if was_cut and len(text) > MARGIN else text)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a rule of the user's may raise anything
            return FAILED

    def _gates_of(self, profile: Profile, pii: bool, without: frozenset[str] = frozenset()) -> _Gates:
        key = (profile, pii, without)
        gates = self._gates.get(key)
        if gates is None:
            if profile not in ("model", "log"):
                raise ValueError(f"unknown profile: {profile!r}")
            rules = [r for r in self.rules if profile in r.profiles and (pii or not r.pii) and r.kind not in without]
            gates = self._gates[key] = _Gates(rules)
        return gates

    def redact(
        self, value: object, *, profile: Profile = "model", pii: bool = False, max_chars: int = _CHARS
    ) -> object:
        """Return `value` as plain JSON data with its secrets replaced. See `iserror.redact.redact`."""
        try:
            return _Walk(self, profile, pii, max_chars).plain(value, 0, "")
        except KeyboardInterrupt:
            raise
        except BaseException:  # a rule of the user's may raise anything
            return FAILED


class _Walk:
    """One walk through one structure: what is left of its bounds, and the containers around the current value."""

    def __init__(self, redactor: Redactor, profile: Profile, pii: bool, chars: int) -> None:
        self.redactor, self.profile, self.pii = redactor, profile, pii
        self.nodes, self.chars = _NODES, chars
        self.above: set[int] = set()

    def plain(self, value: object, depth: int, grade: str) -> object:
        """Return `value` as JSON data. `grade` is the grade of the key above it."""
        self.nodes -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(str.__str__(value), grade)
        if isinstance(value, (int, float)):
            return self.number(value, grade)
        if id(value) in self.above:
            return "[redacted:cycle]"
        if depth >= _DEPTH or self.nodes <= 0:
            return "[redacted:size]"
        self.above.add(id(value))
        try:
            return self.container(value, depth, grade)
        finally:
            self.above.discard(id(value))

    def container(self, value: object, depth: int, grade: str) -> object:
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):
            value = dump(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            result: dict[str, object] = {}
            for key, item in value.items():
                if self.nodes <= 0:
                    result["…"] = "[redacted:size]"
                    break
                name = str.__str__(key) if isinstance(key, str) else str(self.plain(key, _DEPTH, ""))
                own = "strong" if grade == "strong" else grade_of(name)
                header = regex(r"(?:proxy-)?authorization|(?:set-)?cookies?").fullmatch(name.lower().replace("_", "-"))
                result[self.text(name, "")] = self.plain(item, depth + 1, "strong" if header else own)
            return result
        if isinstance(value, (list, tuple, AbstractSet)):
            items: list[object] = []
            for item in value:
                if self.nodes <= 0:
                    items.append("[redacted:size]")
                    break
                items.append(self.plain(item, depth + 1, grade))
            return items
        return f"{MARK}{''.join(regex('[A-Za-z0-9_]').findall(type(value).__name__)) or 'object'}]"

    def text(self, value: str, grade: str) -> str:
        if self.chars <= 0:
            return "[redacted:size]"
        left, self.chars = self.chars, self.chars - max(len(value), _LEAST)
        if counts(grade, value.strip()):
            return "[redacted:secret]"
        if len(value) > left:
            value = cut_short(value, left)
        return self.redactor.redact_text(value, profile=self.profile, pii=self.pii)

    def number(self, value: int | float, grade: str) -> object:
        if grade == "strong" or (grade == "digits" and counts(grade, str(value))):
            return "[redacted:secret]"
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else repr(float(value))
        return int(value) if value.bit_length() <= 256 else "[redacted:int]"
