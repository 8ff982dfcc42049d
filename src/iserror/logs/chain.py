"""One chain for every line of the process: the library's own, structlog's, and the standard library's.

Context variables, redaction, exceptions without local variables, JSON, then the sinks. Nothing here writes to
stdout, and nothing here raises.
"""

from __future__ import annotations

import inspect
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.contextvars import get_contextvars, merge_contextvars

from iserror.logs.excinfo import LogText, describe, log_text, long_log_text
from iserror.logs.owner import Owner as Call
from iserror.logs.owner import current
from iserror.logs.record import LEVELS, printable
from iserror.logs.render import format_chain
from iserror.logs.sink import FileSink, StderrSink, now, stamped, tell_once
from iserror.redact import cut_short, redact
from iserror.redact.speech import log_name
from iserror.support.look import attempt

EventDict = dict[str, Any]

_METHODS: Final = {"warn": "warning", "exception": "error", "err": "error", "fatal": "critical", "msg": "info"}


class State:
    """What `configure_logging` chose for this process; stderr until then."""

    file: FileSink | None = None
    stderr: StderrSink | None = StderrSink()
    level: int = logging.INFO
    over_logging = False
    """Whether structlog, as its user configured it, makes records of logging."""
    unsettled = False
    """Whether something may have been configured over it since; the first call looks."""
    configured = False
    root_levels: tuple[int, int] | None = None
    """The root logger's level as it was, and as it was set to, where it was."""
    captured: list[EventDict] | None = None
    """Where a test collects the library's lines of failures, besides where they go."""


# --- the library's own lines ---------------------------------------------------------------------------------


def emit(level: str, event: str, fields: EventDict, call: Call | None = None, *, final: bool = False) -> None:
    """Write one line; returns once the operating system has it. Never raises.

    Args:
        level: As a name in lower case.
        event: The event's name.
        fields: Plain JSON data, redacted.
        call: The call that it is about.
        final: Whether it says how the call ended.
    """
    if State.captured is not None and LEVELS[level] >= logging.WARNING:
        attempt(_capture, None, State.captured, {"level": level, "event": event, **fields})
    if not attempt(_emit, False, level, event, fields, call, final):
        tell_once("emit", "a log line could not be made or written; results are not affected")


def _emit(level: str, event: str, fields: EventDict, call: Call | None, final: bool) -> bool:
    if not State.configured and configured_by_user() and attempt(_to_user, False, level, event, fields):
        return True
    if LEVELS[level] >= State.level:
        deliver({"level": level, "event": event, **fields}, call, final=final)
    return True


def _capture(lines: list[EventDict], event: EventDict) -> None:
    lines.append(json.loads(stamped(_to_json(event), now())))


def deliver(event: EventDict, call: Call | None, *, final: bool = False, stderr: bool = True) -> None:
    """Give a finished event to the sinks."""
    body = _to_json(event)
    file = State.file
    root = call.root if call is not None else None
    line = file.write(body, root, final=final) if file is not None else stamped(body, now())
    if stderr and State.stderr is not None:
        State.stderr.write(line, event)


def _to_json(event: EventDict) -> str:
    try:
        return _ENCODE(event)
    except (TypeError, ValueError, RecursionError):  # a key that is no text, a cycle
        return json.dumps(redacted(event), ensure_ascii=False)


def redacted(value: object) -> object:
    """A value as it may stand in the log."""
    return redact(value, profile=LogText.profile)


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, default=redacted).encode


# --- lines of others -----------------------------------------------------------------------------------------


def prepared(level: str, event: Mapping[str, Any], exc_info: object = None) -> EventDict:
    """A line of another logger as it goes into the log: under the ids of the call, redacted, exceptions as data."""
    fields = {_key(key): value for key, value in {**get_contextvars(), **event}.items()}
    text = fields.pop("event", "")
    exc = _exception(fields.pop("exc_info", None) or exc_info)
    exception, stack = fields.pop("exception", None), fields.pop("stack", None)
    ids = _ids()
    for key in (*ids, "schema_version"):
        # What a caller calls `request_id` is not the call's: the operator finds both.
        other, own = fields.pop(key, None), ids.get(key)
        if other is not None and other is not own and (type(other) is not type(own) or other != own):
            fields[f"event_{key}"] = other
    for key in ("level", "timestamp"):
        fields.pop(key, None)
    line: EventDict = {
        "level": level,
        "event": log_text(text if isinstance(text, str) else attempt(repr, _UNSEEN, text)),
        **ids,
    }
    plain = _Plain()
    safe = redacted({key: attempt(plain.of, _UNSEEN, value) for key, value in fields.items()})
    line.update(safe if isinstance(safe, dict) else {"fields": safe})
    if stack is not None:
        line["stack"] = long_log_text(attempt(str, _UNSEEN, stack))
    if exc is not None:
        line["exception"] = attempt(describe, [{"type": type(exc).__qualname__, "message": "", "frames": []}], exc)
    elif exception is not None:
        text_only = isinstance(exception, str)
        line["exception"] = long_log_text(exception) if text_only else redacted(_without_locals(exception))
    return line


def _ids() -> EventDict:
    """The ids of the call that is running here, whatever its tool bound over them."""
    running = current.get()
    if running is None:
        return {}
    root = running.root
    ids = {
        "request_id": root.request_id,
        "trace_id": root.trace_id,
        "tool": log_name(root.tool),
        "jsonrpc_id": root.jsonrpc_id,
    }
    return {key: value for key, value in ids.items() if value is not None}


def _key(key: object) -> str:
    return key if type(key) is str else attempt(str, "(a key that cannot be shown)", key)


def _exception(exc_info: object) -> BaseException | None:
    if exc_info is True:
        exc_info = sys.exc_info()
    exc = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) > 1 else exc_info
    return exc if isinstance(exc, BaseException) else None


_DEPTH: Final = 8
_NODES: Final = 2_000
_MAX_VALUE: Final = 4_000


class _Plain:
    """What is no JSON as text: the log is for people, who want the time and the path. Bounded for all of a line."""

    def __init__(self) -> None:
        self.left = _NODES
        self.above: set[int] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0:
            return "[redacted:size]"
        kind = type(value)
        if kind is str:
            return _cut(value)
        if value is None or kind in (int, float, bool):
            return value
        is_mapping = isinstance(value, Mapping)
        if depth < _DEPTH and (is_mapping or kind in (list, tuple, set, frozenset)):
            if id(value) in self.above:
                return "[redacted:cycle]"
            self.above.add(id(value))
            try:
                return self._mapping(value, depth) if is_mapping else self._items(value, depth)
            finally:
                self.above.discard(id(value))
        if hasattr(kind, "model_dump") or hasattr(kind, "__dataclass_fields__"):
            return value
        return _cut(attempt(str, f"({kind.__qualname__})", value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        items = itertools.islice(value.items(), self.left + 1)
        return {_key(key): attempt(self.of, _UNSEEN, item, depth + 1) for key, item in items}

    def _items(self, value: Any, depth: int) -> Any:
        return [attempt(self.of, _UNSEEN, item, depth + 1) for item in itertools.islice(value, self.left + 1)]


_UNSEEN: Final = "(a value that cannot be shown)"
_UNMADE: Final = "(a line that could not be made)"


def _cut(text: str) -> str:
    # With the word at the end: half of a secret looks like none.
    return text if len(text) <= _MAX_VALUE else cut_short(text, _MAX_VALUE)


def _without_locals(value: Any) -> Any:
    """A traceback as structlog's `dict_tracebacks` makes it, without the local variables."""
    if isinstance(value, list):
        return [_without_locals(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_locals(item) for key, item in value.items() if key != "locals"}
    return value


def _method_level(method: str) -> str:
    name = _METHODS.get(method, method)
    return name if name in LEVELS else "info"


# --- structlog -----------------------------------------------------------------------------------------------


class _SinkLogger:
    """What structlog calls with the prepared event; every level is the same to it."""

    def msg(self, event: EventDict) -> None:
        attempt(deliver, None, event, current.get())

    log = debug = info = warn = warning = err = error = fatal = critical = failure = exception = msg


class _Factory:
    """Structlog's logger factory of ours; its type tells our configuration from a user's."""

    def __call__(self, *args: object) -> _SinkLogger:
        return _SinkLogger()


def _prepare(_logger: object, method: str, event: MutableMapping[str, Any]) -> tuple[tuple[EventDict], dict[str, Any]]:
    least = {"level": _method_level(method), "event": _UNMADE, **attempt(_ids, {})}
    # No processor before this one adds a level or a time: what is called so is the caller's.
    given = {f"event_{key}" if key in ("level", "timestamp") else key: value for key, value in event.items()}
    return (attempt(prepared, least, _method_level(method), given),), {}


def configure_structlog() -> None:
    """Make structlog's lines the log's; it prints to stdout otherwise, which is the protocol."""
    structlog.configure(
        processors=[_prepare],
        logger_factory=_Factory(),
        wrapper_class=structlog.make_filtering_bound_logger(State.level),
        cache_logger_on_first_use=False,
    )


def configured_by_user() -> bool:
    """Whether structlog has a configuration that is not ours."""
    return structlog.is_configured() and not isinstance(structlog.get_config()["logger_factory"], _Factory)


def copy_to_log(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor in a user's own configuration: writes the line to the log too, and passes it on as it is."""
    if isinstance(event, Mapping):
        attempt(_copy, None, _method_level(method), event)
    else:
        tell_once("copy", "your structlog's lines are texts before its last processor, and cannot be copied to the log")
    return event


def _copy(level: str, event: Mapping[str, Any]) -> None:
    if State.file is not None and LEVELS[level] >= State.level:
        given = {key: value for key, value in event.items() if key != "timestamp" and not key.startswith("_")}
        deliver(prepared(level, given), current.get(), stderr=False)


def follow_structlog() -> str:
    """Get the lines of a user's structlog too; says how."""
    config = structlog.get_config()
    made: object = attempt(config["logger_factory"], None, "iserror")
    if isinstance(made, logging.Logger):
        State.over_logging = True
        return "structlog stays as you configured it, over logging"
    processors = config["processors"]
    if copy_to_log not in processors:
        if not isinstance(processors, list):
            processors = list(processors)
            structlog.configure(processors=processors)
        # In place, and before the renderer: loggers that were made before hold this very list.
        names = [type(processor).__name__ for processor in processors]
        last = ("JSONRenderer", "LogfmtRenderer", "KeyValueRenderer", "ConsoleRenderer", "EventRenamer")
        renderers = (index for index, name in enumerate(names) if name in last)
        processors.insert(next(renderers, max(len(processors) - 1, 0)), copy_to_log)
    to_stdout = " (which writes to stdout: over stdio that is the protocol)" if writes_to_stdout() else ""
    return f"structlog stays as you configured it{to_stdout}, its lines are copied to the log"


def unfollow_structlog() -> None:
    """Undo `follow_structlog`."""
    processors = structlog.get_config()["processors"]
    if isinstance(processors, list) and copy_to_log in processors:
        processors.remove(copy_to_log)


def _to_user(level: str, event: str, fields: EventDict) -> bool:
    """Pass the line through the user's own structlog configuration; False where that does not take it."""
    config = structlog.get_config()
    processors = config["processors"]
    if merge_contextvars not in processors:
        tell_once(
            "merge_contextvars",
            "your structlog configuration has no structlog.contextvars.merge_contextvars processor: what tools log "
            "will not carry request_id, trace_id and tool. Add it as the first processor.",
        )
    if writes_to_stdout():
        tell_once("stdout", "your structlog configuration writes to stdout; the library's lines go to stderr instead")
        return False
    if "exception" in fields and not any(isinstance(p, structlog.processors.JSONRenderer) for p in processors):
        # Renderers for people take the exception as text.
        fields = {**fields, "exception": format_chain(fields["exception"])}
    pending = getattr(structlog.get_logger("iserror"), level)(event, **fields)
    if inspect.iscoroutine(pending):  # an async logger: the line has to be out before the result
        pending.close()
        return False
    return True


def writes_to_stdout() -> bool:
    """Whether structlog's lines go to stdout."""
    # A factory with a signature of its own makes loggers that are not ours to judge.
    inner: object = attempt(structlog.get_config()["logger_factory"], None, "iserror")
    if isinstance(inner, logging.Logger):
        logger: logging.Logger | None = inner
        while logger is not None:
            # A queue's own handlers are known from Python 3.12 on.
            queued = [getattr(getattr(handler, "listener", None), "handlers", ()) for handler in logger.handlers]
            handlers = [*logger.handlers, *(handler for found in queued for handler in found)]
            if any(_is_stdout(getattr(handler, "stream", None)) for handler in handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False
    return _is_stdout(getattr(inner, "_file", None))


def _is_stdout(stream: object) -> bool:
    if stream is None:
        return False
    outs: list[TextIO | None] = [sys.stdout, sys.__stdout__]
    return any(out is not None and stream in (out, getattr(out, "buffer", None)) for out in outs)


# --- the standard library ------------------------------------------------------------------------------------

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogHandler(logging.Handler):
    """Takes the standard library's records into the log.

    Args:
        stderr: Whether they go to stderr too, where the log does; not where other handlers write there.
    """

    def __init__(self, level: int, *, stderr: bool) -> None:
        super().__init__(level)
        self.stderr = stderr

    def handle(self, record: logging.LogRecord) -> Any:
        """Take a record, without the lock that handlers have: the sinks have their own.

        With both, a thread that writes, and logs from a signal handler or a `__del__`, waits for one that waits for it.
        """
        found = self.filter(record)
        if found:
            self.emit(found if isinstance(found, logging.LogRecord) else record)
        return found

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, once however many loggers it passes; never raises."""
        if getattr(record, _TAKEN, False):
            return
        setattr(record, _TAKEN, True)
        if record.levelno >= logging.WARNING or State.level < logging.INFO or not _is_the_hosts(record):
            level = _level_of(record.levelno)
            line = attempt(_prepared_record, None, level, record)
            if line is None:
                line = {"level": level, "event": _UNMADE, "logger": printable(record.name), **attempt(_ids, {})}
            attempt(lambda: deliver(line, current.get(), stderr=self.stderr), None)


_TAKEN: Final = "_iserror_taken"


def _prepared_record(level: str, record: logging.LogRecord) -> EventDict:
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD and key[:1] != "_"}
    said = _structlog_event(record) if State.over_logging else None
    event = said if said is not None else {"event": record.getMessage()}
    event.pop("timestamp", None)
    # A field of the caller's with one of these names hides neither.
    extra = {f"event_{key}" if key in ("event", "logger") else key: value for key, value in extra.items()}
    event = {"event": event.pop("event"), "logger": record.name, **extra, **event}
    if record.stack_info:
        event["stack"] = record.stack_info
    if record.exc_text and not record.exc_info:
        event["exception"] = record.exc_text
    return prepared(level, event, record.exc_info)


def _level_of(number: int) -> str:
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "debug")


def _structlog_event(record: logging.LogRecord) -> EventDict | None:
    """The event of a structlog that goes over logging: it is the message, or the message is the JSON of it."""
    message = record.msg if isinstance(record.msg, dict) else _json_object(record.getMessage())
    return dict(message) if message is not None and "event" in message else None


def _is_the_hosts(record: logging.LogRecord) -> bool:
    """Whether a host or its HTTP server says this, which note every request at info level: a success logs nothing."""
    top = record.name.partition(".")[0].lower()
    folders = getattr(sys.modules.get(top), "__path__", ()) if top in ("mcp", "fastmcp", "uvicorn") else ()
    return any(record.pathname.startswith(os.path.join(folder, "")) for folder in folders)


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# --- a terminal ----------------------------------------------------------------------------------------------


def console() -> Callable[[EventDict], str]:
    """What makes the text of an event for a person at a terminal."""
    renderer = structlog.dev.ConsoleRenderer(sort_keys=False)

    def render(event: EventDict) -> str:
        shown = {"timestamp": now()}
        for key, value in event.items():
            if key in ("exception", "stack"):
                lines = map(printable, str(value).splitlines())
                shown[key] = format_chain(value) if isinstance(value, list) else "\n".join(lines)
            elif key != "schema_version":
                shown[printable(key)] = printable(value)
        return str(renderer(None, event["level"], shown))

    return render
