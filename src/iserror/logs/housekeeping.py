"""Housekeeping of a log folder: closed files are compressed, and the oldest are deleted.

It runs in its own thread. Several processes may do it in one folder at a time: each step is atomic, and doing it twice
is harmless.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from iserror.logs.record import stamp
from iserror.logs.segment import Name, compress, folder_sizes, names
from iserror.support.look import look, shield

_ABANDONED: Final = 60.0
"""Seconds after which a temporary file that no process wrote to has no owner: compressing writes all the time."""
_IDLE: Final = 86_400.0
"""Seconds after which another host's file counts as closed, although its name says that it is open."""
_TEMPORARY: Final = re.compile(r"(.+\.gz)\.\d+-[0-9a-f]{8}\.tmp")
_IMPORTED: Final = stamp(time.time_ns())


class Housekeeper:
    """Keeps one folder: compresses what is closed, deletes what is too old or too much."""

    def __init__(self, folder: Path, max_total_bytes: int | None, max_age: float | None) -> None:
        self.folder = folder
        self.max_total_bytes = max_total_bytes
        self.max_age = max_age
        # Not a plain one: an object that is collected while it is held may log.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._wanted = False

    def after_fork(self) -> None:
        """Start again in a child process, which has none of its parent's threads."""
        self._lock, self._thread, self._wanted = threading.RLock(), None, False

    def wake(self) -> None:
        """Tidy soon, in a separate thread."""
        with self._lock:
            self._wanted = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="iserror-housekeeping", daemon=True)
                # No more threads, or the interpreter is going down: the next rotation tries again.
                look(self._thread.start, None)

    def wait(self, seconds: float) -> None:
        """Wait for the running thread to end."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                self._wanted = False
            shield(self._try_to_tidy, None)

    def _try_to_tidy(self) -> None:
        with suppress(OSError):  # a folder that is gone, a disk that is full: as above
            self.tidy()

    def tidy(self) -> None:
        """Compress what is closed, then delete.

        Raises:
            OSError: If the folder can't be read.
        """
        self._sweep()
        for path, name in sorted(names(self.folder), key=lambda found: found[1].first):
            if name.last is not None and not name.compressed and not self._is_at_it(path):
                try:
                    _pack(path, name)
                except OSError:
                    continue
        self._retain()

    def _temporaries(self) -> list[Path]:
        found = ((path, _TEMPORARY.fullmatch(path.name)) for path in self.folder.glob("*.jsonl.gz.*.tmp"))
        return [path for path, match in found if match is not None and Name.of(path.with_name(match[1])) is not None]

    def _sweep(self) -> None:
        for path in self._temporaries():
            if _age(path) > _ABANDONED:
                _delete(path)

    def _is_at_it(self, path: Path) -> bool:
        """Return True if another process is compressing the file."""
        return any(temporary.name.startswith(path.name) for temporary in self._temporaries())

    def _retain(self) -> None:
        if self.max_total_bytes is None and self.max_age is None:
            return
        now = time.time()
        found = folder_sizes(self.folder)
        total = sum(stat.st_size for _, _, stat in found)
        for path, name, stat in sorted(found, key=lambda item: (item[2].st_mtime, item[1].first)):
            age = now - stat.st_mtime
            too_old = self.max_age is not None and age > self.max_age
            too_much = self.max_total_bytes is not None and total > self.max_total_bytes
            if (too_old or (too_much and _is_closed(name, age))) and _delete(path):
                total -= stat.st_size


def _pack(path: Path, name: Name) -> None:
    """Replace a closed file with its compressed form; at every moment one of them is there, and whole."""
    final = path.with_name(str(name._replace(compressed=True)))
    temporary = final.with_name(f"{final.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(path, "rb", opener=_not_through_link) as source, open(temporary, "xb", opener=_private) as target:
            stat = os.fstat(source.fileno())
            compress(source, target)
            target.flush()
            os.fsync(target.fileno())
        # It is as old as its lines.
        times, follow = (stat.st_atime_ns, stat.st_mtime_ns), os.utime not in os.supports_follow_symlinks
        os.utime(temporary, ns=times, follow_symlinks=follow)
        os.replace(temporary, final)
    except OSError:
        _delete(temporary)
        raise
    _delete(path)


def _not_through_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _is_closed(name: Name, age: float) -> bool:
    """Return True if no process writes the file any more. If that is wrong, its writer starts a new file."""
    if name.last is not None:
        return True
    if name.host == host_name() and os.name == "posix" and name.pid != os.getpid():
        try:
            os.kill(name.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
    # In a container, process ids begin again: a file with our id from before we ran is another process's.
    return age > _IDLE and (name.pid != os.getpid() or name.host != host_name() or name.first < _IMPORTED)


def host_name() -> str:
    """Return the name of this host for file names."""
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in socket.gethostname()) or "host"
