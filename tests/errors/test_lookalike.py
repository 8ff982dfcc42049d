"""Errors returned as a success: what the default predicate takes for one, and what it leaves alone."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from iserror.errors.lookalike import looks_like_an_error, read, words_in
from tests.errors.returned_values import ERRORS, HARD, HARMLESS

pytestmark = pytest.mark.hostless

WRITTEN = [value for values in ERRORS.values() for value in values]


def test_the_corpus_is_large() -> None:
    """There are enough of both kinds."""
    assert len(WRITTEN) + len(HARD) > 180
    assert len(HARMLESS) > 500


@pytest.mark.parametrize("family", ERRORS)
def test_each_family_is_found(family: str) -> None:
    """No family of errors is beyond the rules."""
    missed = [value for value in ERRORS[family] if not looks_like_an_error(value)]
    assert missed == []


def test_recall() -> None:
    """Of all errors, those without a mark included, 95 % are found."""
    everything = [*WRITTEN, *HARD]
    assert sum(map(looks_like_an_error, everything)) / len(everything) >= 0.95


def test_no_false_alarm() -> None:
    """No harmless value is taken for an error."""
    assert [value for value in HARMLESS if looks_like_an_error(value)] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"success": False, "error": "no such key"}, "no such key"),
        ({"ok": False, "error": {"code": 7, "message": "no such page"}}, "no such page"),
        ('{"status": "error", "message": "the index is not ready"}', "the index is not ready"),
        ([{"type": "text", "text": '{"error": "quota is used up"}'}], "quota is used up"),
        ({"success": False, "errors": ["name is required", "age is required"]}, "name is required; age is required"),
        ("  ❌ Failed to open 'a'\n", "❌ Failed to open 'a'"),
    ],
)
def test_text(value: Any, text: str) -> None:
    """What it says is the text inside, never JSON around it."""
    found = read(value)
    assert found is not None
    assert (found.text, found.partial) == (text, False)
    assert words_in(value) == text


@pytest.mark.parametrize(
    "value",
    [
        {"success": False, "error": "2 of 4 failed", "data": [1, 2]},
        {"status": "error", "message": "some pages are missing", "pages": {"a": 1}},
        [{"type": "text", "text": "Error: page one is missing"}, {"type": "text", "text": "page two: fine"}],
    ],
)
def test_partial(value: Any) -> None:
    """An answer beside the error makes it a partial one, which is told apart."""
    found = read(value)
    assert found is not None
    assert found.partial
    assert not looks_like_an_error(value)


def test_objects() -> None:
    """Models and dataclasses are read by their fields."""

    class Answer(BaseModel):
        success: bool
        error: str | None = None
        rows: list[int] = []

    @dataclasses.dataclass
    class Plain:
        ok: bool
        message: str

    assert looks_like_an_error(Answer(success=False, error="no such table"))
    assert not looks_like_an_error(Answer(success=True, rows=[1]))
    assert looks_like_an_error(Plain(ok=False, message="no such table"))
    assert not looks_like_an_error(Plain(ok=True, message="done"))


class Lying:
    """Has whatever is asked for, and raises when it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_hostile_values() -> None:
    """Neither cycles nor lies nor size matter."""
    cycle: dict[str, Any] = {"success": False}
    cycle["error"] = cycle
    endless: list[Any] = []
    endless.append(endless)
    assert not looks_like_an_error(cycle)
    for value in (
        endless,
        Lying(),
        "{" * 100_000,
        "[" * 19_000,
        {"error": Lying()},
        "Error " * 10**6,
        "\ud800",
        {}.keys(),
    ):
        assert looks_like_an_error(value) is False


def test_a_success_costs_little() -> None:
    """The usual successes are told from errors in a few calls."""

    def calls(value: Any) -> int:
        count = 0

        def profile(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event == "call"

        read(value)
        sys.setprofile(profile)
        try:
            read(value)
        finally:
            sys.setprofile(None)
        return count

    assert calls("Done: 7 rows were written.") <= 3
    assert calls({"id": 7, "name": "Ann", "rows": [1, 2]}) <= 16
    assert calls("x" * 1_000_000) <= 3
    assert calls(7) <= 1
