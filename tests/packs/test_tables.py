"""The page on packs says what the packs say, and loading them stays cheap to the last one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import iserror
from iserror.errors.vocabulary import BUILT_IN
from iserror.packs import _PACKS
from iserror.packs.codes import VOCABULARY
from tests.packs import tables
from tests.packs.failing import ERRORS

PACKS = {name: getattr(iserror.packs, name) for name in _PACKS}


def test_the_page_is_current() -> None:
    """The tables of docs/reference/packs.md are those of the data: else run `python -m tests.packs.tables`."""
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.page(text) == text


@pytest.mark.parametrize("name", PACKS)
def test_one_vocabulary(name: str) -> None:
    """A pack has its own name, sources, and no code, category or level but those of the vocabulary."""
    pack = PACKS[name]
    assert pack.name == name
    assert pack.sources
    for exception, _, entry in pack.entries():
        known = VOCABULARY[entry.code]
        assert (entry.category, entry.level, entry.packed) == (known.category, known.level, True), exception


CLAIMS = re.compile(r"nothing was|was not|not made|not sent|not changed|rolled back|undone")
SURE = re.compile(r"^The last attempt was rolled back")


@pytest.mark.parametrize("name", PACKS)
def test_no_entry_claims_more_than_its_outcome(name: str) -> None:
    """Without `not_applied`, no message says that nothing was done, and a hint is right whatever was done."""
    for exception, _, entry in PACKS[name].entries():
        said = entry.unproven() if entry.outcome == "not_applied" else entry
        assert said.outcome != "not_applied"
        assert SURE.search(str(said.message)) or not CLAIMS.search(str(said.message)), exception
        assert said.hint is None or str(said.hint).startswith(("Stop and tell", "Look at the present state")), exception


def test_no_code_has_two_meanings() -> None:
    """A pack's code is one of iserror's own only where it means the same: a session's timeout is an upstream's."""
    assert set(VOCABULARY) & set(BUILT_IN) == {"UPSTREAM_TIMEOUT"}
    assert BUILT_IN["UPSTREAM_TIMEOUT"] == VOCABULARY["UPSTREAM_TIMEOUT"].category


@pytest.mark.parametrize("name", PACKS)
def test_each_class_is_looked_for(name: str) -> None:
    """A pack is asked for every class that it has a row for, and is not loaded for one that it cannot know."""
    pack = PACKS[name]
    assert [exception for exception in pack.rows if not pack.may_know(exception)] == []
    assert not pack.may_know("shop.rooms.RoomGone")


def test_what_an_operator_has_to_mend() -> None:
    """The tests of the packs expect the level `error` of the codes that have it."""
    assert {code for code, entry in VOCABULARY.items() if entry.level == "error"} == ERRORS


def test_nothing_is_imported_for_it() -> None:
    """To include every pack loads none of them, and to look one up no module that is not the library's own."""
    script = (
        "import sys, iserror\n"
        "errors = iserror.ToolErrors().errors\n"
        "before = set(sys.modules)\n"
        "from iserror.packs import _PACKS\n"
        "errors.include(*(getattr(iserror.packs, name) for name in _PACKS))\n"
        "print(sorted(set(sys.modules) - before - {'iserror.packs.codes'}))\n"
        "for name in _PACKS: getattr(iserror.packs, name).rows\n"
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('iserror.packs')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['iserror.packs', 'iserror.packs.listed']", "[]"]
