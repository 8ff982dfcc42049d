"""Every test file says where it is run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.hosts import ROOT

pytestmark = pytest.mark.hostless
KINDS = {"hostless", "sdk", "host"}
# The files of these folders have a session of their own.
APART = {"interop", "packs"}
FILES = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if file.parent.name not in APART]


def marks_of(file: Path) -> list[str]:
    """The names of the marks in a file's `pytestmark`."""
    assigned = [
        node.value
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    attributes = [part for value in assigned for part in ast.walk(value) if isinstance(part, ast.Attribute)]
    return [part.attr for part in attributes if ast.unparse(part.value) == "pytest.mark"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_has_one_kind(file: Path) -> None:
    """A test file is `hostless`, `sdk` or `host`: the sessions of the noxfile choose by that."""
    assert len(KINDS.intersection(marks_of(file))) == 1, f"set pytestmark to one of {', '.join(sorted(KINDS))}"
