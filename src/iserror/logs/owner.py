"""The owner of a log line: the call that runs while the line is written, as far as the log needs to know it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class Owner(Protocol):
    """A call, as the log sees it: the ids that its lines carry, and how many lines it has."""

    request_id: str
    trace_id: str | None
    tool: str
    jsonrpc_id: str | int | None

    lines: int
    """How many lines the log holds. The sink counts them under its lock."""
    ended: bool
    """Whether the last line is written. The sink keeps what is logged under the id after it in a separate file."""

    @property
    def root(self) -> Owner:
        """The outermost call around this one, which all lines count for."""


current: Final[ContextVar[Owner | None]] = ContextVar("iserror_call", default=None)
"""The call that runs here. The layers set it."""
