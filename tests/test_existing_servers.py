"""The worked examples of the page "An existing server in ten minutes": each call before and after, on every host."""

from __future__ import annotations

import re
from typing import Any

import pytest
from examples.existing import store, tracker

from iserror import ToolErrors
from tests.helpers.hosts import IS_FASTMCP, ROOT, WITHHOLDS, ToolError, in_memory, new_server

pytestmark = [pytest.mark.host, pytest.mark.anyio]

PAGE = (ROOT / "docs/how-to/existing-server.md").read_text(encoding="utf-8")


def refusal(tool: str, text: str) -> str:
    return text if IS_FASTMCP else f"Error executing tool {tool}: {text}"


def crash(tool: str, text: str) -> str:
    if IS_FASTMCP:
        return f"Error calling tool '{tool}': {text}"
    return f"Error executing tool {tool}" + (f": {text}" if not WITHHOLDS else "")


NOT_FOUND = "Issue PROJ-7 not found. Verify the issue key and project access."
BUSY = "cannot list the boards: the tracker takes no more requests for 20 s"
COLUMN = "Unknown column 'later'. Use one of: todo, doing, done."
TRACKER: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "get_issue",
        {"key": "PROJ-7"},
        refusal("get_issue", NOT_FOUND),
        f"ISSUE_NOT_FOUND: {NOT_FOUND}\nSearch for it with its title.\n[get_issue failed; change the call first; id]",
    ),
    (
        "list_boards",
        {},
        refusal("list_boards", BUSY),
        'TRACKER_BUSY: cannot list the boards: "the tracker takes no more requests for 20 s"\n'
        "[list_boards failed; may be repeated after 20 s; id]",
    ),
    (
        "move_issue",
        {"key": "PROJ-1", "column": "later"},
        refusal("move_issue", COLUMN),
        f"TOOL_ERROR: {COLUMN}\n[move_issue failed; id]",
    ),
    (
        "close_issue",
        {"key": "PROJ-1"},
        crash("close_issue", "PROJ-1 is closed already"),
        "NOT_POSSIBLE: PROJ-1 is closed already\n[close_issue failed; repeat it only if it changes nothing; id]",
    ),
]
STORE: list[tuple[str, dict[str, Any], str]] = [
    (
        "get",
        {"key": "a"},
        "KEY_MISSING: There is no key 'a'.\nCall scan first.\n[get failed; change the call first; id]",
    ),
    ("query", {"expression": "x"}, "RETURNED_ERROR: the index is still being built\n[query failed; id]"),
    (
        "scan",
        {"pattern": "*"},
        "RETURNED_ERROR: Error scanning keys with pattern '*': the connection was reset\n[scan failed; id]",
    ),
    ("count", {}, "RETURNED_ERROR: Error counting keys: the connection was reset\n[count failed; id]"),
]


async def texts(server: Any, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[bool, str]]:
    found = []
    async with in_memory(server) as call:
        for tool, arguments in calls:
            result = (await call(tool, arguments))["result"]
            text = re.sub(r"request_id: [0-9a-f]{32}", "id", result["content"][0]["text"])
            found.append((result["isError"], text))
    return found


def serve(add: Any, guard: ToolErrors | None) -> Any:
    server = new_server()
    add(server)
    if guard is not None:
        guard.attach(server)
    return server


async def test_the_tracker() -> None:
    """A server that raises `ToolError` for everything keeps its words, and gains codes, advice and next steps."""
    calls = [(tool, arguments) for tool, arguments, _, _ in TRACKER]

    def add(server: Any) -> None:
        tracker.add_tools(server, ToolError)

    assert await texts(serve(add, None), calls) == [(True, before) for _, _, before, _ in TRACKER]
    assert await texts(serve(add, tracker.make_guard()), calls) == [(True, after) for *_, after in TRACKER]


async def test_the_store() -> None:
    """A server that returns its errors as successes answers with errors, in its own words; its successes stay."""
    calls = [(tool, arguments) for tool, arguments, _ in STORE]
    before = await texts(serve(store.add_tools, None), calls[:3])
    assert [failed for failed, _ in before] == [False, False, False]
    guarded = serve(store.add_tools, store.make_guard())
    assert await texts(guarded, calls) == [(True, after) for *_, after in STORE]
    fine = [("get", {"key": "greeting"}), ("search", {"text": "x"})]
    assert await texts(guarded, fine) == await texts(serve(store.add_tools, None), fine)


def test_the_page_shows_it() -> None:
    """The page has each answer as the tests see it."""
    for after in (*(row[-1] for row in TRACKER), *(row[-1] for row in STORE)):
        assert after.replace("; id]", "; request_id: …]") in PAGE, after
