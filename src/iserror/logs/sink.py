"""Where lines go: stderr, a file, or a folder with one file a process. No failure of a sink costs a result."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from iserror.logs.housekeeping import Housekeeper, host_name
from iserror.logs.record import SCHEMA_VERSION, TIMESTAMP_KEY, expanded, printable, stamp
from iserror.logs.segment import FILE_SUFFIXES, Name, late_file
from iserror.support.look import attempt

_told: set[str] = set()


def tell_once(key: str, text: str) -> None:
    """Say something to the operator on stderr, once a process; never raises."""
    if key not in _told:
        _told.add(key)
        tell(text)


def tell(text: str) -> None:
    """Say something to the operator on stderr; never raises."""
    to_stderr(f"iserror: {printable(text)}\n")


def to_stderr(text: str) -> None:
    """Write to whatever `sys.stderr` is now; never raises."""
    stream = sys.stderr
    if stream is None:  # a process without a console (pythonw, a daemon)
        return
    # It may be closed, or replaced by anything.
    attempt(lambda: (stream.write(text), stream.flush()), None)


class Counted(Protocol):
    """The call that a line belongs to, as the sink counts its lines; written under the sink's lock."""

    lines: int
    ended: bool
    """Whether its last line is written. What is logged under its id after that stands apart."""


_KEY: Final = TIMESTAMP_KEY.decode()


def stamped(body: str, time: str) -> str:
    """A JSON object as a line of the log: with its time in front."""
    return f'{_KEY}{time}", {body[1:]}'


def now() -> str:
    """The time, as the log writes it."""
    return stamp(time.time_ns())


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a folder: it is one, ends in a slash, or looks like no file and does not exist."""
    text = os.fspath(path)
    full = expanded(path)
    return (
        full.is_dir()
        or text.endswith((os.sep, "/"))
        or (not full.exists() and not text.endswith(os.devnull) and full.suffix not in FILE_SUFFIXES)
    )


_HOUR: Final = len("2026-01-01T00")
_RETRY: Final = 8
"""A file that cannot be rotated grows by another eighth before the next attempt."""


# A named pipe without a reader is refused, not waited for.
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class _Appender:
    """One file that this process appends to: opened for the first line, and anew when it has gone."""

    def __init__(self, path: Callable[[str], Path], max_bytes: int | None, *, daily: bool = False) -> None:
        self._path_at = path
        self._max_bytes = max_bytes
        self._daily = daily
        self._limit = max_bytes
        self._pid = 0
        self._path = Path()
        self._identity = 0, 0
        self._size = 0
        self._first = self._last = ""
        self._torn = False
        self.fd: int | None = None

    def append(self, time: str, data: bytes) -> bool:
        """Write a line; True where a file was closed or opened for it.

        Raises:
            OSError: It could not be written, or not whole.
        """
        changed = self._ready(time, len(data))
        fd = self.fd
        assert fd is not None
        if self._torn:
            data = b"\n" + data  # a reader loses the part that a full disk took, and not this line too
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as exc:
            if exc.errno == errno.EBADF:  # the descriptor is the file's, but not the one that was opened for writing
                self.fd = None
            if len(rest) != 1:  # the newline is all that is missing: the next line begins with one
                raise
        finally:
            written = len(data) - len(rest)
            self._size += written
            self._torn = bool(rest) and (self._torn or written > 0)
        self._last = time
        return changed

    def _ready(self, time: str, length: int) -> bool:
        fd = self.fd
        if fd is not None:
            if not self._is_open(fd):
                self.fd = None
            elif not self._is_in_place():
                self.close()
            elif self._limit is not None and (
                # Not while its first line's time stands still: the next file would have its name.
                (self._size + length > self._limit and time != self._first)
                or time < self._last
                or (self._daily and time[:10] != self._first[:10])
            ):
                self._rotate()
        if self.fd is not None:
            return False
        self._open(time)
        return True

    def _is_open(self, fd: int) -> bool:
        """Whether the descriptor is still of the file: a program may close all, and open others."""
        try:
            stat = os.fstat(fd)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._identity

    def _is_in_place(self) -> bool:
        """Whether the file is this process's and still has its name."""
        if self._pid != os.getpid():
            return False
        try:
            stat = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a permission was taken: the open file still takes lines
            return True
        return (stat.st_dev, stat.st_ino) == self._identity

    def _open(self, time: str) -> None:
        self._pid = os.getpid()
        path = self._path_at(time)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fd = os.open(path, _FLAGS if self._limit is None else _FLAGS | getattr(os, "O_NOFOLLOW", 0), 0o600)
        stat = os.fstat(self.fd)
        self._path, self._identity, self._size = path, (stat.st_dev, stat.st_ino), stat.st_size
        self._first, self._limit, self._torn = time, self._max_bytes, False

    def _rotate(self) -> None:
        """Give the file the name of a closed one. One that cannot be renamed goes on taking lines."""
        name = Name.of(self._path)
        assert name is not None
        try:
            os.rename(self._path, self._path.with_name(str(name._replace(last=self._last))))
        except OSError:
            self._limit = self._size + (self._max_bytes or 0) // _RETRY
            return
        self.close()

    def close(self) -> None:
        """Close the file, if one is open."""
        # In this order: a signal handler that logs in between must not write to a descriptor that is another's.
        fd, self.fd = self.fd, None
        if fd is not None:
            attempt(os.close, None, fd)


class FileSink:
    """Append lines to a file, or to a file of this process in a folder; readable by the owner only.

    One `write` a line on an `O_APPEND` descriptor, so that several processes and threads may share a file. In a
    folder, a full file is closed, compressed and in time deleted. A failure is told once on stderr and counted, and
    the next line tries again.

    Args:
        path: The file or folder (`is_folder`); made when it is missing.
        max_bytes: Size at which a file in a folder is closed; None for never.
        max_total_bytes: Size of a folder's files together above which the oldest closed ones go; None for none.
        max_age: Seconds since the last line of a file in a folder after which it goes; None for none.
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
        self._waiting: deque[tuple[str, Counted | None, bool]] = deque()
        self._clock = self._tidied = ""
        if self.is_folder:
            # Without a limit too, a clock that is set back starts a new file.
            # With an age, a file holds a day at most: it goes as a whole.
            daily, limit = max_age is not None, max_bytes or sys.maxsize
            self._file = _Appender(self._named(late=False), limit, daily=daily)
            self._late = _Appender(self._named(late=True), limit, daily=daily)
            self._housekeeper: Housekeeper | None = Housekeeper(self.path, max_total_bytes, max_age)
        else:
            self._file = self._late = _Appender(lambda _: self.path, None)
            if self.path.suffix in FILE_SUFFIXES:
                self._late = _Appender(lambda _: late_file(self.path), None)
            self._housekeeper = None
        _sinks.add(self)

    @property
    def folder(self) -> Path:
        return self.path if self.is_folder else self.path.parent

    def write(self, body: str, call: Counted | None = None, *, final: bool = False) -> str:
        """Append a line and return it; the operating system has it then. Never raises.

        Args:
            body: A JSON object without its time.
            call: The call that logs it, if one does.
            final: Whether it is the line that ends the call. It says how many lines the call has, so that a reader
                knows when it has them all.
        """
        with self._lock:
            if self._busy:
                # From within the writing of another: of a signal handler, or of an object that is collected. It is
                # written right after that one, by the same thread.
                self._waiting.append((body, call, final))
                return stamped(body, now())
            try:
                return self._alone(body, call, final)
            finally:
                while self._waiting:
                    with suppress(IndexError):  # a handler in between has written it
                        self._alone(*self._waiting.popleft())

    def _alone(self, body: str, call: Counted | None, final: bool) -> str:
        self._busy = True
        try:
            return self._write(body, call, final)
        finally:
            self._busy = False

    def _write(self, body: str, call: Counted | None, final: bool) -> str:
        time = self._time()
        line = stamped(body, time)
        file = self._file
        if self._late is not self._file:
            # What no call counts, though it stands under the id of one: logged after its end, or by a worker process
            # that was given the id.
            if call.ended if call is not None else '"request_id": "' in body:
                file = self._late
            elif call is not None and final:
                line = f'{line[:-1]}, "lines": {call.lines + 1}}}'
        try:
            opened = file.append(time, _encoded(line))
        except Exception as exc:  # of the system, or what no check foresaw: it costs the line and no more
            self._fail(exc)
            return line
        if call is not None and not call.ended:
            call.lines += 1
            call.ended = final
        if self.lost:
            attempt(self._resume, None, time)  # where the note finds no room, the next line tries again
        if self._housekeeper is not None and (opened or time[:_HOUR] != self._tidied):
            self._tidied = time[:_HOUR]
            self._housekeeper.wake()
        return line

    def _time(self) -> str:
        """The time of the next line, never before that of the last one unless the clock was set back."""
        time = now()
        if time < self._clock and time[:17] == self._clock[:17]:  # within a minute: threads, a small correction
            return self._clock
        self._clock = time
        return time

    def _fail(self, exc: Exception) -> None:
        self.lost += 1
        why = getattr(exc, "strerror", None) or exc
        tell_once(
            f"sink {self.path}",
            f"cannot write the log to {self.path} ({why}): log lines are lost until it can be "
            "written again; results are not affected. Check free space, the folder and its permissions.",
        )

    def _resume(self, time: str) -> None:
        """Leave a note in the log of what it lacks, once it takes lines again."""
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
        """Wait for the compression that runs, so long at most."""
        if self._housekeeper is not None:
            self._housekeeper.wait(seconds)

    def close(self) -> None:
        """Close the files; the next line opens them again."""
        with self._lock:
            self._file.close()
            self._late.close()

    def after_fork(self) -> None:
        """Start anew in a child process, where a lock may be held by a thread that is not there."""
        self._lock, self._busy = threading.RLock(), False
        self._waiting.clear()
        if self._housekeeper is not None:
            self._housekeeper.after_fork()


def _encoded(line: str) -> bytes:
    return (line + "\n").encode("utf-8", "backslashreplace")


class StderrSink:
    """Write to whatever `sys.stderr` is when a line comes; for a terminal, as text for a person.

    Args:
        console: Makes the text for a person of an event.
    """

    def __init__(self, console: Callable[[dict[str, Any]], str] | None = None) -> None:
        self.console = console

    def write(self, line: str, event: dict[str, Any]) -> None:
        """Write a line, or what it says; never raises."""
        text = line
        if self.console is not None and attempt(_is_terminal, False):
            text = attempt(self.console, line, event)
        to_stderr(text + "\n")


def _is_terminal() -> bool:
    return sys.stderr.isatty()


_sinks: weakref.WeakSet[FileSink] = weakref.WeakSet()


def _after_fork() -> None:
    for sink in list(_sinks):
        sink.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
