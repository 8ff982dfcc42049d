"""One chain for every line of the process: the library's own, structlog's, and the standard library's.

Context variables, redaction, exceptions without local variables, JSON, then the sinks. Nothing here writes to
stdout, and nothing here raises.
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.contextvars import get_contextvars, merge_contextvars

from iserror.attempt import attempt
from iserror.call import Call, current
from iserror.excinfo import LogText, describe, log_text, long_log_text
from iserror.failure import log_name
from iserror.logs.record import printable
from iserror.logs.sink import FileSink, StderrSink, now, stamped, tell_once
from iserror.redact import redact
from iserror.render import format_chain

EventDict = dict[str, Any]

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_METHODS: Final = {"warn": "warning", "exception": "error", "err": "error", "fatal": "critical", "msg": "info"}


class State:
    """What `configure_logging` chose for this process; stderr until then."""

    file: FileSink | None = None
    stderr: StderrSink | None = StderrSink()
    level: int = logging.INFO
    configured = False
    root_levels: tuple[int, int] | None = None
    """The root logger's level as it was, and as it was set to, where it was."""


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
    if not attempt(_emit, False, level, event, fields, call, final):
        tell_once("emit", "a log line could not be made or written; results are not affected")


def _emit(level: str, event: str, fields: EventDict, call: Call | None, final: bool) -> bool:
    if not State.configured and configured_by_user() and attempt(_to_user, False, level, event, fields):
        return True
    if _LEVELS[level] >= State.level:
        deliver({"level": level, "event": event, **fields}, call, final=final)
    return True


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
        other = fields.pop(key, None)
        if other is not None and other != ids.get(key):
            fields[f"event_{key}"] = other
    for key in ("level", "timestamp"):
        fields.pop(key, None)
    line: EventDict = {"level": level, "event": log_text(text if isinstance(text, str) else repr(text)), **ids}
    safe = redacted({key: _plain(value, 0) for key, value in fields.items()})
    line.update(safe if isinstance(safe, dict) else {"fields": safe})
    if stack is not None:
        line["stack"] = long_log_text(str(stack))
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
    return key if isinstance(key, str) else str(key)


def _exception(exc_info: object) -> BaseException | None:
    if exc_info is True:
        exc_info = sys.exc_info()
    exc = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) > 1 else exc_info
    return exc if isinstance(exc, BaseException) else None


_DEPTH: Final = 8
_MAX_VALUE: Final = 16_000


def _plain(value: Any, depth: int) -> Any:
    """The value with what is no JSON as its text: the log is for people, who want the time and the path."""
    kind = type(value)
    if kind is str:
        return value[:_MAX_VALUE]  # all of a line's values share what a redactor reads
    if value is None or kind in (int, float, bool):
        return value
    if depth < _DEPTH and isinstance(value, Mapping):
        return {_key(key): _plain(item, depth + 1) for key, item in value.items()}
    if depth < _DEPTH and kind in (list, tuple, set, frozenset):
        return [_plain(item, depth + 1) for item in value]
    if hasattr(kind, "model_dump") or hasattr(kind, "__dataclass_fields__"):
        return value
    return attempt(str, f"({kind.__qualname__})", value)[:1_000]


def _without_locals(value: Any) -> Any:
    """A traceback as structlog's `dict_tracebacks` makes it, without the local variables."""
    if isinstance(value, list):
        return [_without_locals(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_locals(item) for key, item in value.items() if key != "locals"}
    return value


def _method_level(method: str) -> str:
    name = _METHODS.get(method, method)
    return name if name in _LEVELS else "info"


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
    least = {"level": _method_level(method), "event": "(a line that could not be made)"}
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
    attempt(_copy, None, _method_level(method), event)
    return event


def _copy(level: str, event: Mapping[str, Any]) -> None:
    if State.file is not None and _LEVELS[level] >= State.level:
        given = {key: value for key, value in event.items() if key != "timestamp" and not key.startswith("_")}
        deliver(prepared(level, given), current.get(), stderr=False)


def follow_structlog() -> str:
    """Get the lines of a user's structlog too; says how."""
    config = structlog.get_config()
    made: object = attempt(config["logger_factory"], None, "iserror")
    if isinstance(made, logging.Logger):
        return "structlog stays as you configured it, over logging"
    processors = config["processors"]
    if copy_to_log not in processors:
        if not isinstance(processors, list):
            processors = list(processors)
            structlog.configure(processors=processors)
        # In place, and before the renderer: loggers that were made before hold this very list.
        processors.insert(max(len(processors) - 1, 0), copy_to_log)
    return "structlog stays as you configured it, its lines are copied to the log"


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
    if _writes_to_stdout(config["logger_factory"]):
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


def _writes_to_stdout(factory: Callable[..., Any]) -> bool:
    # A factory with a signature of its own makes loggers that are not ours to judge.
    inner: object = attempt(factory, None, "iserror")
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
        """Write a record; never raises."""
        if record.levelno >= logging.WARNING or State.level < logging.INFO or not _is_the_hosts(record.name):
            attempt(self._emit, None, record)

    def _emit(self, record: logging.LogRecord) -> None:
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD and key[:1] != "_"}
        message = record.msg if isinstance(record.msg, dict) else attempt(record.getMessage, str(record.msg))
        said = message if isinstance(message, dict) else _json_object(message)
        # Of structlog over logging the message is the event, or the JSON of it.
        event = dict(said) if said is not None and "event" in said else {"event": message}
        event.pop("timestamp", None)
        # A field of the caller's with one of these names hides neither.
        extra = {f"event_{key}" if key in ("event", "logger") else key: value for key, value in extra.items()}
        event = {"event": event.pop("event"), "logger": record.name, **extra, **event}
        if record.stack_info:
            event["stack"] = record.stack_info
        if record.exc_text and not record.exc_info:
            event["exception"] = record.exc_text
        level = record.levelname.lower()
        deliver(
            prepared(level if level in _LEVELS else "info", event, record.exc_info), current.get(), stderr=self.stderr
        )


def _is_the_hosts(logger: str) -> bool:
    """Whether a logger is of a host, which notes every request at info level: successful calls log nothing."""
    return logger.partition(".")[0].lower() in ("mcp", "fastmcp")


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
            if key == "exception":
                shown[key] = (
                    format_chain(value)
                    if isinstance(value, list)
                    else "\n".join(map(printable, str(value).splitlines()))
                )
            elif key != "schema_version":
                shown[printable(key)] = printable(value)
        return str(renderer(None, event["level"], shown))

    return render
