"""The channel of an error, and its code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from iserror.check.checks import leaks
from iserror.check.checks.answer import note_answer
from iserror.check.connection import Status
from iserror.check.notes import Audit
from iserror.check.session import Session
from iserror.client.outcome import Succeeded

_NO_TOOL: Final = "iserror_check_no_such_tool"
INVALID_PARAMS: Final = -32602
_MALFORMED: Final = (INVALID_PARAMS, -32600)
_UNREADABLE: Final = (-32700, -32600)

_RUNS_UNKNOWN: Final = "calls that name no listed tool, since this server runs something for them"


async def _expect(
    audit: Audit, session: Session, check: str, params: Mapping[str, Any], codes: tuple[int, ...], asked: str
) -> None:
    if not audit.knows_its_tools:
        audit.skip(_RUNS_UNKNOWN, asked)
        return
    answer = await session.ask("tools/call", params)
    note_answer(audit, answer)
    if answer.code not in codes:
        audit.add(check, f"{asked}: {answer.shown()}, not JSON-RPC error {codes[0]}")
    if isinstance(answer.outcome, Succeeded):
        audit.knows_its_tools = False


def _unlisted(audit: Audit) -> str:
    """Return a name that the server lists in no revision: the same name for every server if possible."""
    name = _NO_TOOL
    while name in audit.names:
        name += "_"
    return name


async def _unknown_tool(audit: Audit, session: Session) -> None:
    params = {"name": _unlisted(audit), "arguments": {}}
    await _expect(audit, session, "channels.unknown_tool", params, (INVALID_PARAMS,), "an unknown tool")


async def _missing_name(audit: Audit, session: Session) -> None:
    params: dict[str, Any] = {"arguments": {}}
    await _expect(audit, session, "channels.missing_name", params, _MALFORMED, "tools/call without a name")


async def _arguments_type(audit: Audit, session: Session) -> None:
    params = {"name": _unlisted(audit), "arguments": "none"}
    await _expect(audit, session, "channels.arguments_type", params, _MALFORMED, "arguments that are a string")


async def _unknown_method(audit: Audit, session: Session) -> None:
    answer = await session.ask("iserror-check/no-such-method")
    if answer.code not in (-32601, INVALID_PARAMS):
        audit.add("channels.unknown_method", f"an unknown method: {answer.shown()}, not JSON-RPC error -32601")


STEPS: Final[list[tuple[str, Callable[[Audit, Session], Awaitable[None]]]]] = [
    ("unknown tool", _unknown_tool),
    ("tools/call without a name", _missing_name),
    ("arguments that are a string", _arguments_type),
    ("unknown method", _unknown_method),
]


async def before_initialize(audit: Audit, session: Session) -> None:
    """Call a tool in the first message. The tool is unknown, since some servers serve the call."""
    if not audit.knows_its_tools:
        audit.skip(_RUNS_UNKNOWN, "a call before initialization")
        return
    answer = await session.ask("tools/call", {"name": _unlisted(audit), "arguments": {}})
    # A server over HTTP doesn't have to keep sessions. Without them it can't know whether a client initialized.
    if answer.code is None and not isinstance(answer.outcome, Status) and session.connection.name != "http":
        audit.add("channels.before_initialize", f"a call before initialization: {answer.shown()}")


async def malformed_json(audit: Audit, session: Session) -> None:
    """Send half a message. In memory, no parser would see it."""
    if session.connection.name == "memory":
        return
    session.strays.clear()
    await session.send_raw(b'{"jsonrpc": "2.0", "id": "iserror-check", "method"')
    await session.ask("tools/list")  # The server still answers. Strays before this answer belong to the bytes.
    for stray in session.strays:
        leaks.note_leaks(audit, stray, "")
        refused = isinstance(stray.outcome, Status) and 400 <= stray.outcome.code < 500
        if not refused and stray.code not in _UNREADABLE:
            audit.add("channels.malformed_json", f"malformed JSON: {stray.shown()}")
    if not session.strays and session.connection.name == "http":
        audit.add("channels.malformed_json", "malformed JSON: an empty answer, not HTTP status 400")
