"""The structure of each pattern bounds its work, so the tests need no clock."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import iserror.redact
from iserror.logs.redaction import log_text
from iserror.redact import DEFAULT_RULES, Redactor, Rule, names, redact, redact_text
from iserror.redact.rule import regex
from iserror.redact.speech import quoted, safe_line, safe_lines
from tests.redact.corpus import leaks, samples

pytestmark = pytest.mark.hostless

parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

SEARCHES = ("finditer", "findall", "search", "sub")
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def endless_repeats(pattern: str, flags: int = 0) -> list[str]:
    """
    List the endless repetitions of a pattern that may read a whole text once per position.

    A search tries each position. An endless repetition is harmless only if nothing after it can fail. The match then
    succeeds, and the search continues after it. So everything that follows must match the empty text. An assertion
    consumes nothing, so it must not contain an endless repetition at all.
    """
    return list(_endless(parser.parse(pattern, flags), can_fail=False))


def _endless(sequence: Any, can_fail: bool) -> Iterator[str]:
    items = list(sequence)
    for at, (op, value) in enumerate(items):
        fails = can_fail or any(not _may_be_empty(item) for item in items[at + 1 :])
        if str(op) in REPEATS:
            _, most, inner = value
            if most == parser.MAXREPEAT and fails:
                yield str(list(inner))
            yield from _endless(inner, fails)
        elif str(op) in ("ASSERT", "ASSERT_NOT"):
            yield from _endless(value[1], can_fail=True)
        else:
            for inner in _inside(str(op), value):
                yield from _endless(inner, fails)


def _inside(op: str, value: Any) -> list[Any]:
    """Return the sequences inside a node other than a repetition or an assertion."""
    if op == "BRANCH":
        return list(value[1])
    if op == "SUBPATTERN":
        return [value[-1]]
    return [value] if op == "ATOMIC_GROUP" else []


def _may_be_empty(item: Any) -> bool:
    op, value = str(item[0]), item[1]
    if op in REPEATS:
        return value[0] == 0 or all(map(_may_be_empty, value[2]))
    if op in ("BRANCH", "SUBPATTERN", "ATOMIC_GROUP"):
        return any(all(map(_may_be_empty, inner)) for inner in _inside(op, value))
    return False


@pytest.mark.parametrize(
    ("pattern", "endless"),
    [
        (r"host [a-z]\w*(?:[-_\d]\w*|db)(?=,)", 2),  # the shape of the rule that once was quadratic
        (r"a\w+!", 1),
        (r"a(?:b\w+!)?", 1),
        (r"a(?=\w*!)", 1),
        (r"a(?!\w*)", 1),
        (r"(?:a+b)+", 1),
        (r"a\w{3,}(?:=|b*){0,2}", 0),
        (r"a\w{3,4096}!", 0),
    ],
)
def test_an_endless_repeat_is_seen(pattern: str, endless: int) -> None:
    """The lint tells repetitions that a search may read again from harmless ones."""
    assert endless == len(endless_repeats(pattern))


@pytest.mark.parametrize("rule", [rule for rule in DEFAULT_RULES if rule.pattern], ids=lambda rule: rule.name)
def test_rules_are_bounded(rule: Rule) -> None:
    """No rule reads the rest of a text again from each position."""
    assert endless_repeats(rule.pattern) == []


class Spy:
    """A compiled pattern that records whether it searched."""

    def __init__(self, pattern: re.Pattern[str], searched: set[tuple[str, int]]) -> None:
        self.pattern, self.searched = pattern, searched

    def __getattr__(self, name: str) -> Any:
        if name in SEARCHES:
            self.searched.add((self.pattern.pattern, self.pattern.flags & re.S))
        return getattr(self.pattern, name)


def test_every_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns that functions search with are bounded too, before, in and after the rules."""
    searched: set[tuple[str, int]] = set()

    def spy(pattern: str, flags: int = 0) -> Spy:
        return Spy(regex(pattern, flags), searched)

    for info in pkgutil.iter_modules(iserror.redact.__path__, "iserror.redact."):
        module = importlib.import_module(info.name)
        if hasattr(module, "regex"):
            monkeypatch.setattr(module, "regex", spy)
    for name in ("dev", "formats", "places", "mixed", "insides", "harmless"):
        for sample in samples(name):
            redact_text(sample.text, pii=True)
    assert len(searched) > len([rule for rule in DEFAULT_RULES if rule.pattern])
    endless = {pattern: found for pattern, flags in searched if (found := endless_repeats(pattern, flags))}
    assert endless == {}


def test_a_long_name_is_read_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in a structure may have any length: only its end is graded and cached."""
    lengths: list[int] = []
    grade = names._grade_of

    def spy(name: str) -> str:
        lengths.append(len(name))
        return grade(name)

    monkeypatch.setattr(names, "_grade_of", spy)
    long = "a" * 100_000

    assert [*redact({f"{long}_password": "x1"}).values()] == ["[redacted:secret]"]  # type: ignore[attr-defined]
    assert [*redact({f"{long}_": "x1"}).values()] == ["x1"]  # type: ignore[attr-defined]
    assert max(lengths) == names.MAX_NAME


def count_calls(run: Callable[[str], object], text: str) -> int:
    """Count the Python and C calls of a run, which no load of the machine changes."""
    count = 0

    def profile(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("rule", [rule for rule in DEFAULT_RULES if rule.find], ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    "unit",
    [
        "\\n",
        ":\n@",
        "\nat a(b.py:1) 0x",
        "password=",
        "'password', ",
        "--token a1 ",
        "Cookie: a=bcdef; ",
        "select a from b\n",
        "Call a_a( ",
        "host:80 ",
        "ab_live_" + "a1" * 10 + ", ",
    ],
)
def test_calls_grow_with_the_text(rule: Rule, unit: str) -> None:
    """A function that finds makes four times as many calls for four times the text, and not sixteen times."""

    def find(text: str) -> object:
        return list(rule.spans(text))

    find(unit)  # patterns are compiled once
    short, long = (count_calls(find, unit * (size // len(unit))) for size in (2_000, 8_000))
    assert long <= 5 * short + 50


def shown_in(place: str, text: str) -> str:
    """A long text as it is shown in one place, which never shows all of it."""
    if place == "log":
        return log_text(text, 100)
    return {"line": safe_line, "lines": safe_lines, "quoted": quoted}[place](
        text, *([200] if place != "quoted" else [])
    )


@pytest.mark.parametrize("place", ["line", "lines", "quoted", "log"])
@pytest.mark.parametrize("filler", [" ", "\u200b", "word ", "-----"])
def test_a_credential_at_the_cut(place: str, filler: str) -> None:
    """Wherever a long text is cut, no secret in it is shown: not its head, nor one that is known by what follows it."""
    limit = {"log": 250, "quoted": 960}.get(place, 1_600)
    chosen = [sample for name in ("dev", "insides") for sample in samples(name)][::11]
    checked = 0
    for number, sample in enumerate(chosen):
        secrets = [(secret, kind) for secret, kind in sample.spans if kind == "secret"]
        if not secrets or any(leaks(*one, redact_text(sample.text, profile=PROFILES[place])) for one in secrets):
            continue
        at = limit - (number * 7) % (len(sample.text) + 40)
        text = (filler * limit)[:at] + " " + sample.text + " and words." * 5_000
        out = shown_in(place, text)
        assert not [one for one in secrets if leaks(*one, out)], (sample.id, out)
        checked += 1
    assert checked > 10


PROFILES: dict[str, Any] = {"line": "model", "lines": "model", "quoted": "model", "log": "log"}


def test_known_by_what_follows() -> None:
    """A password that only the program behind it gives away isn't shown if the text is cut between the two."""
    for filler in (" " * 9_000, "\u200b" * 9_000):
        for before in range(0, 90, 3):
            piped = "echo hunter2" + "hunter2 | docker login --password-stdin registry" + " and words" * 10_000
            assert "hunter" not in safe_line(filler[: 4_000 - before] + piped)
            assert "hunter" not in log_text(filler[: 8_250 - before] + piped)


@pytest.mark.parametrize("place", ["line", "lines", "quoted", "log"])
def test_little_of_a_long_text_is_read(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200,000 characters as many are read as are shown, and some more."""
    read: list[int] = []
    original = Redactor.redact_text

    def spy(self: Redactor, text: str, **options: Any) -> str:
        read.append(len(text))
        return original(self, text, **options)

    monkeypatch.setattr(Redactor, "redact_text", spy)
    out = shown_in(place, "many words of a text " * 10_000)
    assert 80 < len(out) <= 230
    assert sum(read) < 4_000


def test_a_long_text_without_blanks() -> None:
    """A text in a script without blanks is cut, and not dropped."""
    assert safe_line("\u7cfb\u7d71" * 50_000).startswith("\u7cfb\u7d71" * 200)
