"""Where lines go: stderr, a file, or a folder with one file per process. No failure of a sink costs a result."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from iserror.logs.appender import Appender
from iserror.logs.housekeeping import Housekeeper, host_name
from iserror.logs.owner import Owner
from iserror.logs.record import SCHEMA_VERSION, TIMESTAMP_KEY, expanded, printable, stamp
from iserror.logs.segment import FILE_SUFFIXES, Name, late_file
from iserror.support.look import faults, look, shield

_told: set[str] = set()


def tell_once(key: str, text: str) -> None:
    """Write a message to stderr, once per process. Never raises."""
    if key not in _told:
        _told.add(key)
        tell(text)


def tell(text: str) -> None:
    """Write a message to stderr. Never raises."""
    to_stderr(f"iserror: {printable(text)}\n")


def to_stderr(text: str) -> None:
    """Write to whatever `sys.stderr` is now. Never raises."""
    stream = sys.stderr
    if stream is None:  # a process without a console (pythonw, a daemon)
        return
    # stderr may be closed or replaced.
    look(lambda: (stream.write(text), stream.flush()), None)


_KEY: Final = TIMESTAMP_KEY.decode()


def stamped(body: str, time: str) -> str:
    """Return a JSON object as a line of the log: with its time in front."""
    return f'{_KEY}{time}", {body[1:]}'


def now() -> str:
    """Return the time in the log's form."""
    return stamp(time.time_ns())


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return True if a path names a folder: it is one, ends in a slash, or doesn't exist and has no file's suffix."""
    text = os.fspath(path)
    full = expanded(path)
    return (
        full.is_dir()
        or text.endswith((os.sep, "/"))
        or (not full.exists() and not text.endswith(os.devnull) and full.suffix not in FILE_SUFFIXES)
    )


_HOUR: Final = len("2026-01-01T00")


class FileSink:
    """Append lines to a file, or to a file of this process in a folder; readable by the owner only.

    One `write` per line on an `O_APPEND` descriptor, so that several processes and threads may share a file. In a
    folder, a full file is closed, compressed and in time deleted. If a line can't be written, the sink warns once on
    stderr, counts the lost lines and tries again with each new line.

    Args:
        path: The file or folder (`is_folder`); created when it is missing.
        max_bytes: Size at which a file in a folder is closed; None for never.
        max_total_bytes: Size of a folder's files together above which the oldest closed ones are deleted; None for
            no limit.
        max_age: Seconds since the last line of a file in a folder after which it is deleted; None for no limit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_bytes: int | None = None,
        max_total_bytes: int | None = None,
        max_age: float | None = None,
    ) -> None:
        self.path = expanded(path).absolute()
        self.is_folder = is_folder(path)
        self.lost = 0
        """Lines lost since the sink last worked."""
        self._lock = threading.RLock()
        self._busy = False
        self._has_fault = False
        """Whether a bug ended the last write. Its `guard_error` line comes here too: it must not report another."""
        self._waiting: deque[tuple[str, Owner | None, bool]] = deque()
        self._clock = self._tidied = ""
        if self.is_folder:
            # Without a limit too, a clock that is set back starts a new file.
            # With an age, a file holds a day at most: it is deleted as a whole.
            daily, limit = max_age is not None, max_bytes or sys.maxsize
            self._file = Appender(self._named(late=False), limit, daily=daily)
            self._late = Appender(self._named(late=True), limit, daily=daily)
            self._housekeeper: Housekeeper | None = Housekeeper(self.path, max_total_bytes, max_age)
        else:
            self._file = self._late = Appender(lambda _: self.path, None)
            if self.path.suffix in FILE_SUFFIXES:
                self._late = Appender(lambda _: late_file(self.path), None)
            self._housekeeper = None
        _sinks.add(self)

    @property
    def folder(self) -> Path:
        return self.path if self.is_folder else self.path.parent

    def write(self, body: str, owner: Owner | None = None, *, final: bool = False) -> str:
        """Append a line and return it; the operating system has it then. Never raises.

        Args:
            body: A JSON object without its time.
            owner: The call that the line counts for, if it belongs to one.
            final: Whether the line ends the call. It says how many lines the call has, so that a reader knows when it
                has them all.
        """
        with self._lock:
            if self._busy:
                # A signal handler, or an object that is collected, logs while a line is written. The same thread
                # writes this one right after that.
                self._waiting.append((body, owner, final))
                return stamped(body, now())
            try:
                return self._alone(body, owner, final)
            finally:
                while self._waiting:
                    with suppress(IndexError):  # a handler in between has written it
                        self._alone(*self._waiting.popleft())

    def _alone(self, body: str, owner: Owner | None, final: bool) -> str:
        self._busy = True
        try:
            line = self._write(body, owner, final)
            self._has_fault = False
        except Exception as exc:
            if faults.raises:
                raise
            # Once until a line gets through again: the line about it comes here too.
            if not self._has_fault:
                self._has_fault = True
                faults.report(exc)
            line = stamped(body, now())
        finally:
            self._busy = False
        return line

    def _write(self, body: str, owner: Owner | None, final: bool) -> str:
        time = self._time()
        line = stamped(body, time)
        file = self._file
        if self._late is not self._file:
            # No call counts a line that is logged under its id after its end, or by a worker process that has the id.
            if owner.ended if owner is not None else '"request_id": "' in body:
                file = self._late
            elif owner is not None and final:
                line = f'{line[:-1]}, "lines": {owner.lines + 1}}}'
        try:
            opened = file.append(time, _encoded(line))
        except (OSError, ValueError) as exc:
            self._lose(getattr(exc, "strerror", None) or exc)
            return line
        except Exception:
            self._lose("a bug in iserror")
            raise
        if owner is not None and not owner.ended:
            owner.lines += 1
            owner.ended = final
        if self.lost:
            with suppress(OSError):  # if the note finds no room, the next line tries again
                self._resume(time)
        if self._housekeeper is not None and (opened or time[:_HOUR] != self._tidied):
            self._tidied = time[:_HOUR]
            self._housekeeper.wake()
        return line

    def _time(self) -> str:
        """Return the time of the next line, never before the last line's unless the clock was set back."""
        time = now()
        if time < self._clock and time[:17] == self._clock[:17]:  # within a minute: threads, a small correction
            return self._clock
        self._clock = time
        return time

    def _lose(self, why: object) -> None:
        self.lost += 1
        tell_once(
            f"sink {self.path}",
            f"cannot write the log to {self.path} ({why}): log lines are lost until it can be "
            "written again; results are not affected. Check free space, the folder and its permissions.",
        )

    def _resume(self, time: str) -> None:
        """Write to the log how many lines it lacks, once it takes lines again.

        Raises:
            OSError: If there is no room for this line.
        """
        lost = self.lost
        note = f'{{"level": "warning", "event": "log_resumed", "schema_version": {SCHEMA_VERSION}, "lost": {lost}}}'
        self._file.append(time, _encoded(stamped(note, time)))
        self.lost = 0
        _told.discard(f"sink {self.path}")
        tell(f"the log is written to {self.path} again; {lost} lines were lost")

    def _named(self, *, late: bool) -> Callable[[str], Path]:
        host = host_name()
        return lambda time: self.path / str(Name(time, None, host, os.getpid(), late))

    def tidy(self, seconds: float) -> None:
        """Wait for a compression that runs, up to this many seconds."""
        if self._housekeeper is not None:
            self._housekeeper.wait(seconds)

    def close(self) -> None:
        """Close the files; the next line opens them again."""
        with self._lock:
            self._file.close()
            self._late.close()

    def after_fork(self) -> None:
        """Start again in a child process, where a thread that isn't there may hold the lock."""
        self._lock, self._busy = threading.RLock(), False
        self._waiting.clear()
        if self._housekeeper is not None:
            self._housekeeper.after_fork()


def _encoded(line: str) -> bytes:
    return (line + "\n").encode("utf-8", "backslashreplace")


class StderrSink:
    """Write to whatever `sys.stderr` is when a line comes; to a terminal, as text for people.

    Args:
        console: Renders an event for people.
    """

    def __init__(self, console: Callable[[dict[str, Any]], str] | None = None) -> None:
        self.console = console

    def write(self, line: str, event: dict[str, Any]) -> None:
        """Write a line, or its event as text. Never raises."""
        text = line
        if self.console is not None and look(_is_terminal, False):
            text = shield(self.console, line, event)
        to_stderr(text + "\n")


def _is_terminal() -> bool:
    return sys.stderr.isatty()


_sinks: weakref.WeakSet[FileSink] = weakref.WeakSet()


def _after_fork() -> None:
    for sink in list(_sinks):
        sink.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
