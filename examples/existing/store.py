"""A server that returns its errors as successes, as many do, and the guard that its author attaches.

`add_tools` is the server as it was. `make_guard` is all that the author adds.
"""

from __future__ import annotations

import json
from typing import Any

from iserror import ToolErrors, ToolFailure, looks_like_an_error

KEYS = {"greeting": "hello"}


def add_tools(server: Any) -> None:
    """Register the tools of the server."""

    @server.tool()
    def get(key: str) -> dict[str, Any]:
        if key not in KEYS:
            return {"success": False, "error": f"There is no key {key!r}.", "errorType": "KeyMissing"}
        return {"success": True, "value": KEYS[key]}

    @server.tool()
    def query(expression: str) -> str:
        return json.dumps({"status": "error", "message": "the index is still being built"})

    @server.tool()
    def scan(pattern: str) -> str:
        return f"Error scanning keys with pattern '{pattern}': the connection was reset"

    @server.tool()
    def count() -> int:
        return "Error counting keys: the connection was reset"  # type: ignore[return-value]

    @server.tool()
    def search(text: str) -> dict[str, Any]:
        return {"success": True, "found": []}


def meaning(value: object) -> object:
    """Return what a returned error means, where the server says it."""
    if isinstance(value, dict) and value.get("errorType") == "KeyMissing":
        return ToolFailure(
            "KEY_MISSING", value["error"], hint="Call scan first.", category="not_found", outcome="not_applied"
        )
    return looks_like_an_error(value)


def make_guard() -> ToolErrors:
    """Return the guard: errors become errors, with the server's own words."""
    return ToolErrors(returned_errors="convert", is_returned_error=meaning, effects=lambda tool: "read")
