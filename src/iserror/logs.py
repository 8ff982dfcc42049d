"""The log: one JSON line a failure, written before the result is returned, and read back by id.

Writing and reading share this module, and with it one schema (`SCHEMA_VERSION`, `docs/logging.md`).
Nothing here writes to stdout, and no failure of a sink costs a result.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, TextIO

import structlog
from structlog.contextvars import merge_contextvars

from iserror.attempt import attempt
from iserror.excinfo import describe, format_chain, log_text
from iserror.redact import redact

SCHEMA_VERSION: Final = 1
FINGERPRINT_KEY: Final = "ISERROR_FINGERPRINT_KEY"

EventDict = dict[str, Any]

_told: set[str] = set()


def tell_once(key: str, text: str) -> None:
    """Say something to the operator on stderr, once a process; never raises."""
    if key in _told:
        return
    _told.add(key)
    _to_stderr(f"iserror: {text}\n")


def _to_stderr(line: str) -> None:
    stream = sys.stderr
    if stream is None:  # a process without a console (pythonw, a daemon)
        return
    # It may be closed, or replaced by anything.
    attempt(lambda: (stream.write(line), stream.flush()), None)


class _StderrSink:
    """Write to whatever `sys.stderr` is when a line comes."""

    def write(self, line: str) -> None:
        _to_stderr(line + "\n")


_FILE_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".log", ".txt")


class FileSink:
    """Append lines to a file, or to a file of this process in a folder; readable by the owner only.

    One `write` a line on an `O_APPEND` descriptor, so that several processes and threads may share a file.
    A failure is told once on stderr and the next line tries again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        self.path = Path(text).expanduser().absolute()
        self.is_folder = (
            self.path.is_dir()
            or text.endswith((os.sep, "/"))
            or (not self.path.exists() and self.path.suffix not in _FILE_SUFFIXES)
        )
        self.lost = 0
        self._fd: int | None = None
        self._pid = 0
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        return self.path if self.is_folder else self.path.parent

    def write(self, line: str) -> None:
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                fd = self._open()
                while data:
                    data = data[os.write(fd, data) :]
            except OSError as exc:
                self.lost += 1
                self._close()
                tell_once(
                    f"sink {self.path}",
                    f"cannot write the log to {self.path} ({exc.strerror or exc}): log lines are lost until it can be "
                    "written again; results are not affected. Check free space, the folder and its permissions.",
                )

    def _open(self) -> int:
        if self._fd is not None:
            # A child process needs a descriptor of its own, and a deleted file takes no lines.
            if self._pid == os.getpid() and os.fstat(self._fd).st_nlink:
                return self._fd
            self._close()
        self._pid = os.getpid()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(self._file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        return self._fd

    def _file(self) -> Path:
        if not self.is_folder:
            return self.path
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return self.path / f"{started}-{socket.gethostname()}-{self._pid}.jsonl"

    def _close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None


Sink = _StderrSink | FileSink


class _SinkLogger:
    """What structlog calls with the rendered line; every level is the same to it."""

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self._sinks = sinks

    def msg(self, line: str) -> None:
        for sink in self._sinks:
            sink.write(line)

    log = debug = info = warn = warning = err = error = fatal = critical = failure = exception = msg


class _Factory:
    """Structlog's logger factory of ours; its type tells our configuration from a user's."""

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self.sinks = sinks

    def __call__(self, *args: object) -> _SinkLogger:
        return _SinkLogger(self.sinks)


def _stamp(_logger: object, method: str, event: EventDict) -> EventDict:
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    return {"timestamp": now[:-6] + "Z", "level": method, **event}


def _render_exception(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Turn `exc_info` into our `exception` records, without locals."""
    exc_info = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    exc = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(exc, BaseException):
        event["exception"] = describe(exc)
    return event


def _to_json(_logger: object, _method: str, event: EventDict) -> str:
    try:
        return _ENCODE(event)
    except (TypeError, ValueError, RecursionError):  # a key that is no text, a cycle
        return json.dumps(redact(event, profile="log"), ensure_ascii=False)


def _no_json(value: object) -> object:
    return redact(value, profile="log")


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, default=_no_json).encode


def _redact_texts(_logger: object, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and key not in ("timestamp", "level"):
            event[key] = log_text(value)
    return event


_ANY_LINE: Final[list[Any]] = [
    merge_contextvars,
    _stamp,
    _render_exception,
    _redact_texts,
    _to_json,
]


class _State:
    """What `configure_logging` chose; stderr until then."""

    sinks: tuple[Sink, ...] = (_StderrSink(),)
    configured = False
    key: bytes | None = None


def configure_logging(
    path: str | os.PathLike[str] | None = None, *, stderr: bool | None = None, level: int | str = "INFO"
) -> None:
    """Send the library's lines, and structlog's unless you configured it yourself, to a file or folder.

    Args:
        path: A file (what exists as one, or ends in .jsonl, .ndjson, .json, .log or .txt), or else a folder in
            which each process writes a file of its own. Created when missing, readable by its owner only; `~` is
            the home folder.
        stderr: Whether to write to stderr too; unsaid, only when there is no `path`.
        level: Least level that is written of what goes through structlog; failures log at warning and error.

    Raises:
        ValueError: An unknown level, or nowhere to write to.

    Structlog's own configuration is set only where none is, or ours: a user's stays, and only the
    library's lines go to `path` then. Nothing is ever written to stdout.
    """
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if number not in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        raise ValueError(f"level {level!r} is not valid: use DEBUG, INFO, WARNING, ERROR or CRITICAL")
    if path is not None and not os.fspath(path):
        raise ValueError("path is empty: name a file or a folder, or leave it out to log to stderr")
    if stderr is None:
        stderr = path is None
    sinks: tuple[Sink, ...] = (FileSink(path),) if path is not None else ()
    if stderr:
        sinks += (_StderrSink(),)
    if not sinks:
        raise ValueError("configure_logging needs somewhere to write: give a path, or leave stderr on")
    _State.sinks, _State.configured, _State.key = sinks, True, None
    if not configured_by_user():
        _configure_structlog(sinks, number)


def _configure_structlog(sinks: tuple[Sink, ...], level: int) -> None:
    structlog.configure(
        processors=_ANY_LINE,
        logger_factory=_Factory(sinks),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )


def configured_by_user() -> bool:
    """Whether structlog has a configuration that is not ours."""
    return structlog.is_configured() and not isinstance(structlog.get_config()["logger_factory"], _Factory)


def keep_off_stdout() -> None:
    """Give structlog a destination that is not stdout where nobody gave it one: stdout is the protocol."""
    if not structlog.is_configured():
        _configure_structlog(_State.sinks, logging.INFO)


def emit(level: str, event: str, fields: EventDict) -> None:
    """Write one line; returns once the operating system has it. Never raises."""
    if not attempt(_emit, False, level, event, fields):
        tell_once("emit", "a log line could not be made or written; results are not affected")


def _emit(level: str, event: str, fields: EventDict) -> bool:
    if not _State.configured and configured_by_user() and attempt(_to_user, False, level, event, fields):
        return True
    line = _to_json(None, level, _stamp(None, level, {"event": event, **fields}))
    for sink in _State.sinks:
        sink.write(line)
    return True


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


def fingerprint(tool: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Hash a tool and its arguments with a secret key: equal calls are seen, values cannot be guessed."""
    if arguments is None:
        return None

    def digest() -> str:
        text = json.dumps([tool, arguments], sort_keys=True, default=str, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), key=_key(), digest_size=8).hexdigest()

    return attempt(digest, None)


def _key() -> bytes:
    if _State.key is None:
        given = os.environ.get(FINGERPRINT_KEY, "").encode()
        _State.key = hashlib.blake2b(given, digest_size=32).digest() if given else _stored_key()
    return _State.key


def _stored_key() -> bytes:
    """The key beside the log, made by the first process that needs it; of this process alone without one."""
    fresh = secrets.token_bytes(32)
    for sink in _State.sinks:
        if isinstance(sink, FileSink):
            file = sink.folder / ".iserror-fingerprint-key"
            try:
                sink.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                temporary = file.with_name(f"{file.name}-{os.getpid()}-{secrets.token_hex(4)}")
                temporary.touch(0o600)
                try:
                    temporary.write_bytes(fresh)
                    os.link(temporary, file)  # atomic: another process never reads half a key
                finally:
                    temporary.unlink()
            except OSError:
                pass  # it is there already, or the folder takes no files
            try:
                stored = file.read_bytes()
            except OSError:
                continue
            if len(stored) == 32:
                return stored
    return fresh


# --- reading -----------------------------------------------------------------------------------------------

Record = dict[str, Any]

_BLOCK: Final = 1 << 20


def log_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The log files that the paths name; of a folder, every `*.jsonl` file below it.

    Raises:
        FileNotFoundError: A path that does not exist.
    """
    files: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            files += sorted(path.rglob("*.jsonl"))
        elif path.exists():
            files.append(path)
        else:
            raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    return files


def _lines_with(file: Path, needle: bytes) -> Iterator[bytes]:
    """The lines of a file that hold these bytes; of the file, a block at a time is in memory.

    It is read, not mapped: a file that is truncated meanwhile would kill a process that has it mapped.
    """
    rest = b""
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            data = rest + block
            whole = data.rfind(b"\n") + 1  # the end of the last whole line
            yield from _matching(data, needle, whole)
            rest = data[whole:]
    yield from _matching(rest, needle, len(rest))


def _matching(data: bytes, needle: bytes, stop: int) -> Iterator[bytes]:
    at = data.find(needle, 0, stop)
    while at >= 0:
        end = data.find(b"\n", at, stop)
        end = stop if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(needle, end, stop)


def _record(line: bytes) -> Record | None:
    """The record of a line; None of one that is none (torn, another program's)."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "event" in record else None


def find(wanted: str, paths: Iterable[str | os.PathLike[str]]) -> list[Record]:
    """Return every record of one request id or trace id, in time order.

    Args:
        wanted: The id as a client shows it; case and dashes do not matter.
        paths: Files and folders.

    Raises:
        FileNotFoundError: A path that does not exist.
    """
    key = wanted.strip().replace("-", "").lower()
    found = []
    files = log_files(paths)
    for file in files if key else ():
        for record in filter(None, map(_record, _lines_with(file, key.encode()))):
            if key in (record.get("request_id"), record.get("trace_id"), record.get("upstream_request_id")):
                found.append(record)
    return sorted(found, key=lambda record: str(record.get("timestamp", "")))
