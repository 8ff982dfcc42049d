"""What servers that exist do, one tool a kind: the exact text on the bare host, and with a guard and packs attached.

The tools are modelled on published servers. None of them was written for iserror.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

import iserror
from iserror import ErrorMap, OwnWords, ToolErrors
from tests.helpers.hosts import IS_FASTMCP, WITHHOLDS, ToolError, in_memory, new_server

pytestmark = [pytest.mark.host, pytest.mark.anyio]

CRASHED = "INTERNAL_ERROR: The tool failed because of an error on the server."


class HTTPStatusError(Exception):
    """Stands for httpx's, which the packs know by name."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Client error '{status}' for url 'https://tracker.internal/rest/issue/7'")
        self.response = type("Response", (), {"status_code": status, "headers": {}})()
        self.request = None


HTTPStatusError.__module__ = "httpx"


def issue(key: str) -> str:
    try:
        raise HTTPStatusError(404)
    except HTTPStatusError as exc:
        raise ToolError(f"Issue {key} not found. Verify the issue key and project access.") from exc


def databases() -> str:
    try:
        raise ConnectionRefusedError(111, "Connection refused by the database")
    except ConnectionRefusedError as exc:
        raise ToolError(f"cannot list databases: {exc}")


def plain_refusal() -> str:
    raise ToolError("No board is selected.\nCall select_board first.")


def create_issue(additional_fields: str) -> str:
    try:
        json.loads(additional_fields)
    except ValueError as exc:
        raise ValueError(f"additional_fields is not valid JSON: {exc}") from exc
    return "created"


def run(arguments: str) -> str:
    return str(json.loads(arguments))


def close(column: str) -> str:
    return {"done": "closed"}[column]


def open_sheet(path: str) -> str:
    raise ToolError(f"Path '{path}' must point to an Excel file, not below /srv/data/cache.")


def hash_fields(name: str) -> str:
    return f"Error getting all fields from hash '{name}': Connection refused"


def list_columns(table: str) -> str:
    return json.dumps({"success": False, "table": table, "error": f"Table not found: {table}"})


def count_keys() -> int:
    return "Error counting keys: Connection refused"  # type: ignore[return-value]


def search(text: str) -> str:
    return "No results found"


@dataclass(frozen=True)
class Row:
    """One kind of failure."""

    body: Callable[..., Any]
    arguments: dict[str, Any]
    how: Literal["refused", "crashed", "returned", "unfit"]
    text: str
    """The exception's text, or the returned one."""
    after: str
    """The text with a guard and packs, without the request id."""
    mapped: str | None = None
    """The text with the one entry of `own`, too, if that changes it."""

    @property
    def name(self) -> str:
        return self.body.__name__

    @property
    def before(self) -> str:
        """The text on the bare host."""
        if self.how == "returned":
            return self.text
        if self.how == "unfit":
            return "what a validator says, with the value"
        if self.how == "refused":
            return self.text if IS_FASTMCP else f"Error executing tool {self.name}: {self.text}"
        if IS_FASTMCP:
            return f"Error calling tool '{self.name}': {self.text}"
        return f"Error executing tool {self.name}" + (f": {self.text}" if not WITHHOLDS else "")


BAD_JSON = "Expecting value: line 1 column 1 (char 0)"
ROWS = [
    Row(
        issue,
        {"key": "PROJ-404"},
        "refused",
        "Issue PROJ-404 not found. Verify the issue key and project access.",
        "UPSTREAM_NOT_FOUND: Issue PROJ-404 not found. Verify the issue key and project access.\n"
        "Change the call, or tell the user.\n[issue failed; change the call first; id]",
    ),
    Row(
        databases,
        {},
        "refused",
        "cannot list databases: [Errno 111] Connection refused by the database",
        'DEPENDENCY_UNAVAILABLE: cannot list databases: "[Errno 111] Connection refused by the database"\n'
        "[databases failed; repeat it only if it changes nothing; id]",
    ),
    Row(
        plain_refusal,
        {},
        "refused",
        "No board is selected.\nCall select_board first.",
        "TOOL_ERROR: No board is selected.\nCall select_board first.\n[plain_refusal failed; id]",
    ),
    Row(
        create_issue,
        {"additional_fields": "x"},
        "crashed",
        f"additional_fields is not valid JSON: {BAD_JSON}",
        f"{CRASHED}\n[create_issue failed; stop and tell the user; id]",
        f'INVALID_REQUEST: additional_fields is not valid JSON: "{BAD_JSON}"\n'
        "[create_issue failed; repeat it only if it changes nothing; id]",
    ),
    # A decoding error in the tool's own code is no upstream's, and nobody wrote its text for a model.
    Row(run, {"arguments": "x"}, "crashed", BAD_JSON, f"{CRASHED}\n[run failed; stop and tell the user; id]"),
    # The caller named the first path, and nobody the second.
    Row(
        open_sheet,
        {"path": "/home/ann/notes.txt"},
        "refused",
        "Path '/home/ann/notes.txt' must point to an Excel file, not below /srv/data/cache.",
        "TOOL_ERROR: Path '/home/ann/notes.txt' must point to an Excel file, not below [redacted:path].\n"
        "[open_sheet failed; id]",
    ),
    # Errors as successes stay as they are, and are logged. `returned_errors="convert"` makes them errors.
    Row(
        hash_fields,
        {"name": "a"},
        "returned",
        "Error getting all fields from hash 'a': Connection refused",
        "Error getting all fields from hash 'a': Connection refused",
        "RETURNED_ERROR: Error getting all fields from hash 'a': Connection refused\n[hash_fields failed; id]",
    ),
    Row(
        list_columns,
        {"table": "t"},
        "returned",
        '{"success": false, "table": "t", "error": "Table not found: t"}',
        '{"success": false, "table": "t", "error": "Table not found: t"}',
        "RETURNED_ERROR: Table not found: t\n[list_columns failed; id]",
    ),
    Row(
        count_keys,
        {},
        "unfit",
        "",
        "RETURNED_ERROR: Error counting keys: Connection refused\n[count_keys failed; id]",
    ),
    Row(search, {"text": "x"}, "returned", "No results found", "No results found"),
    Row(close, {"column": "x"}, "crashed", "'x'", f"{CRASHED}\n[close failed; stop and tell the user; id]"),
]


def own() -> ErrorMap:
    """The map that such a server needs: one entry."""
    errors = ErrorMap()
    errors.add(
        ValueError,
        code="INVALID_REQUEST",
        category="invalid_argument",
        message=OwnWords(),
        raised_in=__name__,
    )
    return errors


async def texts(errors: ErrorMap | None, **settings: Any) -> dict[str, str]:
    """Call every tool of a bare server, or of one with a guard and packs."""
    server = new_server()
    for row in ROWS:
        server.tool()(row.body)
    if errors is not None:
        errors.include(*iserror.packs.detect())
        ToolErrors(errors, **settings).attach(server)
    found = {}
    async with in_memory(server) as call:
        for row in ROWS:
            if errors is None and row.how == "unfit":
                found[row.name] = row.before  # each host and each client has its own words
                continue
            result = (await call(row.name, row.arguments))["result"]
            is_success = row.how == "returned" and (not settings or row.mapped is None)
            assert result["isError"] is not is_success
            found[row.name] = re.sub(r"request_id: [0-9a-f]{32}", "id", result["content"][0]["text"])
    return found


async def test_before() -> None:
    """The bare host says what the table says."""
    assert await texts(None) == {row.name: row.before for row in ROWS}


async def test_after() -> None:
    """With packs alone no word of an author's is gone, and nothing is claimed that nobody knows."""
    assert await texts(ErrorMap()) == {row.name: row.after for row in ROWS}


async def test_one_entry() -> None:
    """One entry lets a server's own texts through."""
    assert await texts(own(), returned_errors="convert") == {row.name: row.mapped or row.after for row in ROWS}
