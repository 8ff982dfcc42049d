"""The library's own lines, and the `guard_error` line about a bug of the library."""

from __future__ import annotations

import json
import logging

from iserror.logs.chain import EventDict, State, call_ids, to_json, write_line
from iserror.logs.owner import Owner, running
from iserror.logs.record import LEVELS, SCHEMA_VERSION
from iserror.logs.sink import now, stamped
from iserror.logs.structlog_bridge import configured_by_user, pass_to_user
from iserror.support.look import Fault, faults, shield


def emit(level: str, event: str, fields: EventDict, owner: Owner | None = None, *, final: bool = False) -> None:
    """Write one line; returns once the operating system has it. Never raises.

    Args:
        level: As a name in lower case.
        event: The event's name.
        fields: Plain JSON data, redacted.
        owner: The call that the line is about.
        final: Whether the line ends the call.
    """
    line = {"level": level, "event": event, **fields}
    if State.captured is not None and LEVELS[level] >= logging.WARNING:
        shield(_capture, None, State.captured, line)
    if not shield(_emit, False, line, owner, final):
        # A bug on the way. The shortest way may still work.
        shield(lambda: write_line(line, owner, final=final), None)


def _emit(line: EventDict, owner: Owner | None, final: bool) -> bool:
    if not State.configured and configured_by_user() and pass_to_user(line):
        return True
    if LEVELS[line["level"]] >= State.level:
        write_line(line, owner, final=final)
    return True


def _capture(lines: list[EventDict], line: EventDict) -> None:
    lines.append(json.loads(stamped(to_json(line), now())))


def write_fault(fault: Fault) -> None:
    """Write a line about a bug of this library, under the ids of the call that runs here."""
    fields = {
        "schema_version": SCHEMA_VERSION,
        **shield(call_ids, {}),
        "error": fault.error,
        "places": list(fault.places),
    }
    emit("error", "guard_error", fields, running())


faults.listener = write_fault
