"""`configure_logging`, and the log of a process that doesn't call it."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Final

import structlog

from iserror.logs import structlog_bridge
from iserror.logs.chain import State
from iserror.logs.fingerprint import keep_key_in
from iserror.logs.logging_bridge import LogHandler
from iserror.logs.record import LOG_VARIABLE
from iserror.logs.redaction import LogText
from iserror.logs.segment import FILE_SUFFIXES
from iserror.logs.sink import FileSink, StderrSink, is_folder, tell, tell_once
from iserror.logs.terminal import console
from iserror.redact.rule import Profile
from iserror.support.validate import check_choice

MAX_BYTES: Final = 64 << 20
_STDERR: Final = ("/dev/stderr", "/dev/fd/2", "/proc/self/fd/2")
_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def configure_logging(
    path: str | os.PathLike[str] | None = None,
    *,
    stderr: bool | None = None,
    level: int | str = "INFO",
    max_bytes: int | None = None,
    max_total_bytes: int | None = None,
    max_age: timedelta | float | None = None,
    profile: Profile = "log",
) -> None:
    """Send every line of this process, the library's, structlog's and `logging`'s, to a folder, a file or stderr.

    Args:
        path: A folder, in which each process writes its own file, or a file. A path that exists decides that, else its
            ending: .jsonl, .ndjson, .json, .log and .txt are files. Created when missing, readable by its owner only;
            `~` is the home folder. If omitted, the environment variable `ISERROR_LOG` names it.
        stderr: Whether to write to stderr too, to a terminal as text for people. If omitted, only without a path.
        level: Minimum level to log. Known failures log at warning, crashes at error.
        max_bytes: Size in bytes at which a file in a folder is closed and compressed (default: 64 MiB); 0 for never.
        max_total_bytes: Size in bytes of all files in a folder above which the oldest are deleted (default: no limit).
        max_age: Age of a file's last line, as a `timedelta` or in seconds, at which it is deleted (default: no limit).
        profile: What is redacted in every line: `"log"` (secrets) or `"model"` (also paths, SQL and internal hosts).

    Raises:
        ValueError: If the level or profile is unknown, there is nowhere to write to, a size or age isn't positive, or
            one is given for a file that isn't in a folder.

    Your own configuration of structlog or `logging` stays as it is: structlog's lines are copied to the file, and
    `logging` gets one more handler. One line on stderr reports what was configured. Nothing is written to stdout.
    """
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int) or number not in _LEVELS:
        raise ValueError(f"level {level!r} is not valid: use DEBUG, INFO, WARNING, ERROR or CRITICAL")
    check_choice("profile", profile, frozenset({"log", "model"}))
    if path is not None and not os.fspath(path):
        raise ValueError("path is empty: name a file or a folder, or leave it out to log to stderr")
    if path is None:
        named = os.environ.get(LOG_VARIABLE) or None
        path, stderr = (None, True if stderr is None else stderr) if named == "stderr" else (named, stderr)
    if path is not None and os.fspath(path) in _STDERR:
        path, stderr = None, True  # these are links, and log files are not opened through links
    if stderr is None:
        stderr = path is None
    if path is None and not stderr:
        raise ValueError("configure_logging needs somewhere to write: give a path, or leave stderr on")
    if path is not None and _is_stdout(path):
        raise ValueError(f"{os.fspath(path)!r} is stdout, which is the protocol over stdio: use stderr=True")
    age = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
    for what, value in (("max_bytes", max_bytes or None), ("max_total_bytes", max_total_bytes), ("max_age", age)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
            raise ValueError(f"{what} {value!r} is not valid: use a number above 0")
        if value is not None and (path is None or not is_folder(path)):
            raise ValueError(
                f"{what} needs a folder, got {os.fspath(path) if path else 'stderr'}: give the path of a folder"
            )
    limit = MAX_BYTES if max_bytes is None else max_bytes or None

    _undo()
    State.file = None if path is None else FileSink(path, limit, max_total_bytes, age)
    State.stderr = StderrSink(console()) if stderr else None
    State.level, State.configured, LogText.profile = number, True, profile
    State.reinstall_due = True
    is_kept = State.file is not None and (State.file.is_folder or State.file.path.suffix in FILE_SUFFIXES)
    keep_key_in(State.file.folder if State.file is not None and is_kept else None)
    done = [_take_structlog(), _follow_logging()]
    where = ["stderr"] if stderr else []
    if State.file is not None:
        where.insert(0, f"{State.file.path}{' (one file per process)' if State.file.is_folder else ''}")
    tell(f"logging to {' and '.join(where)}, level {logging.getLevelName(number)} and above; {'; '.join(done)}")


def from_environment() -> None:
    """Configure the log that `ISERROR_LOG` names, unless `configure_logging` was called."""
    if not State.configured and os.environ.get(LOG_VARIABLE):
        try:
            configure_logging()
        except (ValueError, OSError) as exc:
            tell_once("environment", f"the environment variable {LOG_VARIABLE} is not used: {exc}")


def prepare() -> None:
    """Prepare the log of a server: to where it is asked for, and nothing to stdout, which is the protocol."""
    from_environment()
    if not structlog.is_configured():
        structlog_bridge.configure_structlog()
    elif State.configured:
        reinstall()


def reinstall() -> None:
    """Put our processor and our handlers back after other code has configured structlog or `logging`."""
    if State.file is not None and structlog_bridge.configured_by_user():
        structlog_bridge.follow_structlog()
    _follow_logging()


def _is_stdout(path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(1)) and not os.path.samefile(path, os.devnull)
    except (OSError, ValueError):  # no such file, a closed stdout, a path that can't be one
        return False


def _undo() -> None:
    structlog_bridge.unfollow_structlog()
    if State.file is not None:
        State.file.close()
    if State.root_levels is not None and logging.root.level == State.root_levels[1]:
        logging.root.setLevel(State.root_levels[0])
    State.root_levels = None
    State.over_logging = False
    for logger in _loggers():
        for handler in [found for found in logger.handlers if isinstance(found, LogHandler)]:
            logger.removeHandler(handler)


def _take_structlog() -> str:
    if not structlog_bridge.configured_by_user():
        structlog_bridge.configure_structlog()
        return "structlog configured"
    return structlog_bridge.follow_structlog() if State.file is not None else "structlog stays as you configured it"


def _loggers() -> list[logging.Logger]:
    """Return every logger that exists, the root first."""
    named = list(logging.root.manager.loggerDict.values())
    return [logging.root, *(found for found in named if isinstance(found, logging.Logger))]


def _follow_logging() -> str:
    """Get the records of `logging`, without those on stderr that another handler shows there; return how."""
    others = sum(not isinstance(handler, LogHandler) for handler in logging.root.handlers)
    if not others and State.root_levels is None and logging.root.level in (logging.WARNING, logging.NOTSET):
        State.root_levels = logging.root.level, State.level
        logging.root.setLevel(State.level)  # its default
    for logger in _loggers():
        theirs = any(not isinstance(handler, LogHandler) for handler in logger.handlers)
        mine = next((handler for handler in logger.handlers if isinstance(handler, LogHandler)), None)
        if mine is not None:
            mine.stderr = not theirs
        elif logger is logging.root:
            if State.file is not None or not theirs:
                logger.addHandler(LogHandler(State.level, stderr=not theirs))
        elif theirs and not logger.propagate and State.file is not None:
            logger.addHandler(LogHandler(State.level, stderr=False))
    if State.file is None and others:
        return f"logging stays as it is ({_count(others, 'handler')})"
    beside = f" beside {_count(others, 'handler')} of yours" if others else ""
    kept = logging.getLevelName(logging.root.level)
    below = f" (the root logger's level {kept} is yours)" if logging.root.level > State.level else ""
    return f"logging's records too{beside}{below}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
