"""The standard library's `logging`: its records become lines of the log."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from iserror.logs.chain import UNMADE, EventDict, State, call_ids, prepared, write_line
from iserror.logs.owner import running
from iserror.logs.record import LEVELS, printable
from iserror.support.look import look, shield
from iserror.support.sdk import logged_by_host

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
TAKEN: Final = "_iserror_taken"


class LogHandler(logging.Handler):
    """Takes the standard library's records into the log.

    Args:
        stderr: Whether they go to stderr too, where the log does; not where other handlers write there.
    """

    def __init__(self, level: int, *, stderr: bool) -> None:
        super().__init__(level)
        self.stderr = stderr

    def handle(self, record: logging.LogRecord) -> Any:
        """Write a record, without the lock that handlers have: the sinks have their own.

        With both, a thread that writes, and logs from a signal handler or a `__del__`, waits for one that waits for it.
        """
        found = self.filter(record)
        if found:
            self.emit(found if isinstance(found, logging.LogRecord) else record)
        return found

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, once for all loggers that it passes. Never raises."""
        if getattr(record, TAKEN, False):
            return
        setattr(record, TAKEN, True)
        if look(_is_wanted, True, record):
            shield(self._write, None, record)

    def _write(self, record: logging.LogRecord) -> None:
        level = _level_of(record.levelno)
        line = shield(_prepared_record, None, level, record)
        if line is None:
            line = {"level": level, "event": UNMADE, "logger": printable(record.name), **shield(call_ids, {})}
        write_line(line, running(), stderr=self.stderr)


def _prepared_record(level: str, record: logging.LogRecord) -> EventDict:
    message = look(record.getMessage, UNMADE)  # its arguments may not fit, and their texts may raise
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD and key[:1] != "_"}
    said = _structlog_event(record, message) if State.over_logging else None
    event = said if said is not None else {"event": message}
    event.pop("timestamp", None)
    # A caller's field may have one of these names too: keep both.
    extra = {f"event_{key}" if key in ("event", "logger") else key: value for key, value in extra.items()}
    event = {"event": event.pop("event"), "logger": record.name, **extra, **event}
    if record.stack_info:
        event["stack"] = record.stack_info
    if record.exc_text and not record.exc_info:
        event["exception"] = record.exc_text
    return prepared(level, event, record.exc_info)


def _level_of(number: int) -> str:
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "debug")


def _structlog_event(record: logging.LogRecord, message: str) -> EventDict | None:
    """Return the event of a structlog that goes over logging. It is the message, or the message is its JSON."""
    event = record.msg if isinstance(record.msg, dict) else _json_object(message)
    return dict(event) if event is not None and "event" in event else None


def _is_wanted(record: logging.LogRecord) -> bool:
    return (
        record.levelno >= logging.WARNING
        or State.level < logging.INFO
        or not logged_by_host(record.name, record.pathname)
    )


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
