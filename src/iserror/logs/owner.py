"""`Owner`: the call that a line of the log belongs to, as far as the log knows calls."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class Owner(Protocol):
    """The call that a line belongs to."""

    lines: int
    """How many lines of the log belong to it; written under the sink's lock."""
    ended: bool
    """Whether its last line is written. What is logged under its id after that goes to another file."""

    @property
    def root(self) -> Owner:
        """The outermost call, whose ids and count hold for nested ones."""

    @property
    def request_id(self) -> str:
        """32 hex digits."""

    @property
    def trace_id(self) -> str | None:
        """32 hex digits or None."""

    @property
    def tool(self) -> str:
        """The tool's name, as the caller used it."""

    @property
    def jsonrpc_id(self) -> str | int | None:
        """The id of the JSON-RPC request."""


current: Final[ContextVar[Owner | None]] = ContextVar("iserror_call", default=None)
"""The innermost call that is running here."""
