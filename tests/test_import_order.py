"""The order of imports: rooms point down only, and no module is part of a circle.

Type-only and late imports count: both tie modules together for a reader. CONTRIBUTING.md shows the same order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.hostless

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "iserror"

FLOORS = [
    {"support"},
    {"redact"},
    {"errors"},
    {"packs", "idempotency"},
    {"logs"},
    {"layers"},
    {"hosts", "client"},
    {"guard"},
    {"__init__"},
    {"check"},
    {"testing", "cli"},
    {"__main__"},
]
"""Lowest first. A room imports from lower floors and from itself."""

MAX_LINES = 450


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(("iserror", *(part for part in parts if part != "__init__")))] = path
    return found


def imports_of(source: str, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known:
                    yield whole
                elif node.module in known:
                    yield node.module


def room_of(module: str) -> str:
    """The file or folder directly in the package that a module is in."""
    return module.split(".")[1] if "." in module else "__init__"


def arrows() -> dict[str, set[str]]:
    found = modules()
    return {name: set(imports_of(path.read_text(), set(found))) - {name} for name, path in found.items()}


def test_no_import_runs_up() -> None:
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    up = [
        f"{name} imports {target}"
        for name, targets in arrows().items()
        for target in targets
        if room_of(name) != room_of(target) and floor[room_of(target)] >= floor[room_of(name)]
    ]
    assert not up


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle; empty if there is none."""
    done: set[str] = set()
    for start in sorted(graph):
        path: list[str] = []
        waiting = [iter([start])]
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return path[path.index(name) :]
            elif name not in done:
                path.append(name)
                waiting.append(iter(sorted(graph[name])))
    return []


def test_no_circle() -> None:
    assert circle_in(arrows()) == []


@pytest.mark.parametrize(
    ("graph", "circle"),
    [({"a": {"b"}, "b": {"c"}, "c": set()}, []), ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c"])],
)
def test_a_circle_is_found(graph: dict[str, set[str]], circle: list[str]) -> None:
    assert circle_in(graph) == circle


def test_type_only_and_late_imports_count() -> None:
    source = """
if TYPE_CHECKING:
    from iserror.guard import ToolErrors
def late():
    from iserror import hosts
    import iserror.logs.sink
"""
    known = {"iserror", "iserror.guard", "iserror.hosts", "iserror.logs.sink"}
    assert list(imports_of(source, known)) == ["iserror.guard", "iserror.hosts", "iserror.logs.sink"]


def test_every_room_has_a_floor() -> None:
    """Nothing is flat in the package's root except the façade."""
    assert {room_of(name) for name in modules()} == set().union(*FLOORS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "guard.py"}


def test_no_module_is_long() -> None:
    long = {
        name: lines for name, path in modules().items() if (lines := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not long


def test_contributing_shows_the_order() -> None:
    """The tree in CONTRIBUTING.md names each room, lowest floor first."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = re.search(r"```text\nsrc/iserror/\n(.*?)```", text, re.DOTALL)
    assert tree is not None
    shown = re.findall(r"^  (\w+)(?:/|\.py)", tree[1], re.MULTILINE)
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    assert set(shown) == {room for room in floor if not room.startswith("__")}
    assert [floor[room] for room in shown] == sorted(floor[room] for room in shown)
