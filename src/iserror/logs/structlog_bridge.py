"""structlog: its lines become lines of the log.

Without `configure_logging`, the library's lines go through the structlog that the user configured.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.contextvars import merge_contextvars

from iserror.logs import frames
from iserror.logs.chain import UNMADE, EventDict, State, call_ids, prepared, write_line
from iserror.logs.owner import current, running, unbind
from iserror.logs.record import LEVELS
from iserror.logs.render import format_chain
from iserror.logs.sink import tell_once
from iserror.support.look import look, shield

_METHODS: Final = {"warn": "warning", "exception": "error", "err": "error", "fatal": "critical", "msg": "info"}
_RENDERERS: Final = frozenset({"JSONRenderer", "LogfmtRenderer", "KeyValueRenderer", "ConsoleRenderer", "EventRenamer"})


# --- configured by us ----------------------------------------------------------------------------------------


class _SinkLogger:
    """What structlog calls with the prepared event; every level is the same to it."""

    def msg(self, event: EventDict) -> None:
        shield(write_line, None, event, running())

    log = debug = info = warn = warning = err = error = fatal = critical = failure = exception = msg


class _Factory:
    """Our logger factory for structlog; its type tells our configuration from a user's."""

    def __call__(self, *args: object) -> _SinkLogger:
        return _SinkLogger()


def _prepare(_logger: object, method: str, event: MutableMapping[str, Any]) -> tuple[tuple[EventDict], dict[str, Any]]:
    line = shield(_prepared, None, _level_of(method), event)
    if line is None:
        line = {"level": _level_of(method), "event": UNMADE, **shield(call_ids, {})}
    return (line,), {}


def _prepared(level: str, event: Mapping[str, Any]) -> EventDict:
    # No processor before this one adds a level or a time: a field of this name is the caller's.
    given = look(lambda: {f"event_{key}" if key in ("level", "timestamp") else key: event[key] for key in event}, {})
    return prepared(level, given)


def _level_of(method: str) -> str:
    name = _METHODS.get(method, method)
    return name if name in LEVELS else "info"


def configure_structlog() -> None:
    """Make structlog's lines the log's; it prints to stdout otherwise, which is the protocol."""
    structlog.configure(
        processors=[_prepare],
        logger_factory=_Factory(),
        wrapper_class=structlog.make_filtering_bound_logger(State.level),
        cache_logger_on_first_use=False,
    )


# --- configured by a user ------------------------------------------------------------------------------------


def configured_by_user() -> bool:
    """Return True if structlog has a configuration that isn't ours."""
    return structlog.is_configured() and not isinstance(structlog.get_config()["logger_factory"], _Factory)


def copy_to_log(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Write the line to the log too, and pass it on as it is: a processor in the user's configuration."""
    if isinstance(event, Mapping):
        shield(_drop_stale, None, event)
        shield(_write_copy, None, _level_of(method), event)
    else:
        tell_once("copy", "your structlog's lines are texts before its last processor, and cannot be copied to the log")
    return event


def _drop_stale(event: MutableMapping[str, Any]) -> None:
    """Take the ids of a call that is over out of an event: they were still bound when structlog merged them."""
    owner = current.get()
    if owner is not None and owner.root.over:
        for key, value in unbind(owner).items():
            if event.get(key) == value:
                del event[key]


def _write_copy(level: str, event: Mapping[str, Any]) -> None:
    if State.file is not None and LEVELS[level] >= State.level:
        write_line(prepared(level, look(_own_fields, {}, event)), running(), stderr=False)


def _own_fields(event: Mapping[str, Any]) -> EventDict:
    return {key: value for key, value in event.items() if key != "timestamp" and not key.startswith("_")}


def follow_structlog() -> str:
    """Get the lines of a user's structlog too; return how, for the operator."""
    config = structlog.get_config()
    made: object = look(config["logger_factory"], None, "iserror")
    if isinstance(made, logging.Logger):
        State.over_logging = True
        return "structlog stays as you configured it, over logging"
    processors = config["processors"]
    if not _is_followed(processors):
        if not isinstance(processors, list):
            processors = list(processors)
            structlog.configure(processors=processors)
        # In place, and before the renderer: loggers that were made before hold this very list.
        names = [type(processor).__name__ for processor in processors]
        renderers = (index for index, name in enumerate(names) if name in _RENDERERS)
        processors.insert(next(renderers, max(len(processors) - 1, 0)), copy_to_log)
    to_stdout = " (which writes to stdout: over stdio that is the protocol)" if writes_to_stdout() else ""
    return f"structlog stays as you configured it{to_stdout}, its lines are copied to the log"


def unfollow_structlog() -> None:
    """Undo `follow_structlog`."""
    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and _is_followed(processors):
        processors[:] = [processor for processor in processors if processor is not copy_to_log]


def _is_followed(processors: Any) -> bool:
    return any(processor is copy_to_log for processor in processors)


def pass_to_user(line: EventDict) -> bool:
    """Write a line of ours through the user's own structlog configuration; return False if that doesn't take it."""
    processors = structlog.get_config()["processors"]
    if not any(processor is merge_contextvars for processor in processors):
        tell_once(
            "merge_contextvars",
            "your structlog configuration has no structlog.contextvars.merge_contextvars processor: what tools log "
            "will not carry request_id, trace_id and tool. Add it as the first processor.",
        )
    if writes_to_stdout():
        tell_once("stdout", "your structlog configuration writes to stdout; the library's lines go to stderr instead")
        return False
    level, event = line["level"], line["event"]
    fields = {key: value for key, value in line.items() if key not in ("level", "event")}
    if "exception" in fields and not any(isinstance(p, structlog.processors.JSONRenderer) for p in processors):
        # Renderers for people take the exception as text.
        fields["exception"] = format_chain(frames.read(fields["exception"]))
    return look(_call_user, False, level, event, fields)


def _call_user(level: str, event: str, fields: EventDict) -> bool:
    pending = getattr(structlog.get_logger("iserror"), level)(event, **fields)
    if inspect.iscoroutine(pending):  # an async logger: the line has to be out before the result
        pending.close()
        return False
    return True


def writes_to_stdout() -> bool:
    """Return True if structlog's lines go to stdout."""
    # A factory with its own signature makes loggers that are not ours to judge.
    logger: object = look(structlog.get_config()["logger_factory"], None, "iserror")
    if not isinstance(logger, logging.Logger):
        return look(_is_stdout, False, look(getattr, None, logger, "_file", None))
    return any(look(_is_stdout, False, stream) for stream in _streams(logger))


def _streams(logger: logging.Logger) -> Iterator[object]:
    """Yield the streams that a logger's records reach."""
    above: logging.Logger | None = logger
    while above is not None:
        # A queue's own handlers are known from Python 3.12 on.
        for handler in above.handlers:
            behind = look(lambda handler=handler: tuple(handler.listener.handlers), ())  # type: ignore[misc]
            for each in (handler, *behind):
                yield look(getattr, None, each, "stream", None)
        above = above.parent if above.propagate else None


def _is_stdout(stream: object) -> bool:
    if stream is None:
        return False
    outs: list[TextIO | None] = [sys.stdout, sys.__stdout__]
    return any(out is not None and stream in (out, getattr(out, "buffer", None)) for out in outs)
