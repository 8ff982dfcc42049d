"""What an SDK's session raised in a tool: this call's own client couldn't be asked, or another server didn't answer.

The same classes stand for both, and for what an author raises on purpose. The traceback tells them apart.
"""

from __future__ import annotations

from typing import Final, Literal

from iserror.errors.problem import Problem
from iserror.redact.text import Safe
from iserror.support.causes import frames, module_of, raised_in, text_of
from iserror.support.loading import is_library
from iserror.support.sdk import HOSTS, host_tool_errors, package_of, protocol_error_data, raised_by_sdk
from iserror.support.sdk_client import client_fault

Side = Literal["client", "upstream"]
"""Whom a session talked to: the client of this call, or a server behind this one."""

SESSION_CODES: Final = frozenset({"CLIENT_CANNOT_ASK", "UPSTREAM_TIMEOUT", "UPSTREAM_SESSION_LOST"})
"""The codes that a session's exception gets if no map has an entry for it."""

_ASKING: Final = frozenset(
    {
        "elicit",
        "elicit_as_task",
        "elicit_form",
        "elicit_url",
        "elicit_with_validation",
        "create_message",
        "sample",
        "sample_step",
        "list_roots",
    }
)
"""The functions of the hosts with which a tool asks its client."""

_CLIENTS: Final = ("mcp.client", "fastmcp.client")
_SERVERS: Final = ("mcp.server", "fastmcp.server")


def side_of(exc: BaseException) -> Side | None:
    """Return whom the session talked to that raised an exception; None if no session raised it.

    It is the first host's function after the last frame of the author's own that tells. A server behind this one may
    run in this process: then its author's frames come last, after those of a server.
    """
    side: Side | None = None
    served = False
    for frame in frames(exc):
        module = module_of(frame)
        if package_of(module) in HOSTS:
            if side is None and module.startswith(_CLIENTS):
                side, served = "upstream", False
            elif side is None and frame.f_code.co_name in _ASKING and module.startswith(_SERVERS):
                side = "client"
            served = served or module.startswith(_SERVERS)
        elif package_of(module) != "iserror" and not is_library(module) and not (side == "upstream" and served):
            side = None
    return side


def problem_of_session(exc: BaseException) -> Problem | None:
    """Return what an exception of a session means if no map has an entry; None for a crash."""
    side = side_of(exc)
    if side == "client" and _is_refusal(exc):
        return Problem(
            "CLIENT_CANNOT_ASK",
            Safe("This tool has to ask through the client, and the client could not be asked."),
            hint="Tell the user that this tool needs a client that can answer it (elicitation, sampling, roots).",
            exception=exc,
        )
    if side != "upstream":
        return None
    fault = client_fault(exc, text_of(exc))
    if fault == "timed_out":
        said = Safe("A server that this tool needs did not answer in time.")
        return Problem("UPSTREAM_TIMEOUT", said, exception=exc, can_help=True)
    if fault in ("ended", "not_connected"):
        said = Safe("The session with a server that this tool needs has ended.")
        return Problem("UPSTREAM_SESSION_LOST", said, exception=exc, can_help=True)
    return None


def _is_refusal(exc: BaseException) -> bool:
    """Return True if a host says that the client can't be asked, or that it failed to answer.

    A wrong argument of the author's, and an answer that doesn't fit, raise other classes, or elsewhere.
    """
    if protocol_error_data(exc) is not None:
        return raised_by_sdk(exc)
    kind = type(exc)
    if issubclass(kind, host_tool_errors()):
        return True
    place = raised_in(exc)
    return issubclass(kind, ValueError) and place.startswith(("fastmcp.server.context", "fastmcp.server.sampling"))
