"""A server that raises the host's `ToolError` for everything, as many do, and the guard that its author attaches.

`add_tools` is the server as it was. `make_guard` is all that the author adds.
"""

from __future__ import annotations

from typing import Any

from iserror import ErrorMap, OwnWords, ToolErrors


class NoIssueError(Exception):
    """The tracker has no such issue."""


class TrackerBusyError(Exception):
    """The tracker takes no more requests at the moment."""


ISSUES = {"PROJ-1": "done"}


def add_tools(server: Any, ToolError: type[Exception]) -> None:  # noqa: N803 - the class of the host
    """Register the tools of the server."""

    @server.tool()
    def get_issue(key: str) -> str:
        try:
            return _fetch(key)
        except NoIssueError as exc:
            raise ToolError(f"Issue {key} not found. Verify the issue key and project access.") from exc

    @server.tool()
    def list_boards() -> str:
        try:
            raise TrackerBusyError("the tracker takes no more requests for 20 s")
        except TrackerBusyError as exc:
            raise ToolError(f"cannot list the boards: {exc}")  # noqa: B904 - as it is written in many servers

    @server.tool()
    def move_issue(key: str, column: str) -> str:
        raise ToolError(f"Unknown column {column!r}. Use one of: todo, doing, done.")

    @server.tool()
    def close_issue(key: str) -> str:
        if ISSUES.get(key) == "done":
            raise ValueError(f"{key} is closed already")
        return "closed"


def _fetch(key: str) -> str:
    if key not in ISSUES:
        raise NoIssueError(key)
    return ISSUES[key]


def make_guard() -> ToolErrors:
    """Return the guard. The texts stay; the map adds codes, what a repeat can do, and the next step."""
    errors = ErrorMap()
    errors.add(
        NoIssueError,
        code="ISSUE_NOT_FOUND",
        category="not_found",
        message="There is no such issue.",
        hint="Search for it with its title.",
    )
    errors.add(
        TrackerBusyError,
        code="TRACKER_BUSY",
        category="resource_exhausted",
        message="The tracker is busy.",
        retryable=True,
        retry_after=20,
    )
    errors.add(ValueError, code="NOT_POSSIBLE", category="failed_precondition", message=OwnWords(), raised_in=__name__)
    return ToolErrors(errors, effects={"get_*": "read", "list_*": "read"})
