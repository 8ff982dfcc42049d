"""The owner of a log line: the call that runs while the line is written, as far as the log needs to know it.

Its ids are bound as structlog's context variables too. A task that outlives a call keeps both in its context: `running`
takes its ids away there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Any, Final, Protocol

from structlog.contextvars import bind_contextvars, reset_contextvars

from iserror.redact import current_redaction
from iserror.redact.speech import MAX_TOOL_NAME, log_name


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
    over: bool
    """Whether it has ended, hooks included: what is logged in its context from then on isn't its own."""

    @property
    def root(self) -> Owner:
        """The outermost call around this one, which all lines count for."""


current: Final[ContextVar[Owner | None]] = ContextVar("iserror_call", default=None)
"""The call that runs here. The layers set it."""


_NAMES: Final = ("request_id", "trace_id", "tool", "jsonrpc_id")


def _structlog_vars(*names: str) -> tuple[ContextVar[Any], ...]:
    """Return structlog's own context variables of these names. To set one is what binding does, and fast."""
    tokens = bind_contextvars(**dict.fromkeys(names))
    reset_contextvars(**tokens)
    return tuple(tokens[name].var for name in names)


_VARS: Final = dict(zip(_NAMES, _structlog_vars(*_NAMES), strict=True))


def ids_of(root: Owner) -> dict[str, str | int]:
    """Return the ids of an outermost call, as they may be in the log."""
    name = root.tool
    tool = _shown(name, current_redaction()) if len(name) <= MAX_TOOL_NAME else log_name(name)
    ids: dict[str, str | int] = {"request_id": root.request_id, "tool": tool}
    if root.trace_id is not None:
        ids["trace_id"] = root.trace_id
    if root.jsonrpc_id is not None:
        ids["jsonrpc_id"] = root.jsonrpc_id
    return ids


@lru_cache(maxsize=1_000)
def _shown(tool: str, _redaction: object) -> str:
    return log_name(tool)


def bind(ids: Mapping[str, object]) -> tuple[Token[Any], ...]:
    """Bind ids for structlog; the tokens undo it. `...` marks a name as not bound, as structlog does."""
    return tuple([_VARS[name].set(value) for name, value in ids.items()])


def bound_here(owner: Owner) -> dict[str, str | int]:
    """Return what is bound here for structlog and is this call's: the user may have bound something else."""
    return {name: value for name, value in ids_of(owner.root).items() if _VARS[name].get(...) == value}


def unbind(owner: Owner) -> dict[str, str | int]:
    """Take away what is bound here for structlog and is this call's; return it."""
    bound = bound_here(owner)
    bind(dict.fromkeys(bound, ...))
    return bound


def running() -> Owner | None:
    """Return the call that what is logged here belongs to. The ids of a call that is over don't stay bound."""
    owner = current.get()
    if owner is None or not owner.root.over:
        return owner
    unbind(owner)
    return None
