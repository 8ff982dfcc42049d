"""One file that this process appends to, whatever happens to it: deleted, moved, truncated, closed, full."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from iserror.logs.segment import Name

_RETRY: Final = 8
"""A file that can't be rotated grows by another eighth before the next attempt."""

# A named pipe without a reader is refused, not waited for.
_FLAGS: Final = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)


def open_private(path: Path) -> int:
    """Open a file to append to that no other user can read, and that no other user chose; create it if it is missing.

    Raises:
        OSError: If the file can't be opened, is a link, or belongs to another user. Its text says which.
    """
    _check_folder(path.parent)
    if os.path.islink(path):  # also for systems without O_NOFOLLOW
        raise _is_link(path)
    try:
        return os.open(path, _FLAGS | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    try:
        fd = os.open(path, _FLAGS, 0o600)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.EMLINK):  # it has become one since
            raise _is_link(path) from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISCHR(found.st_mode) and _is_foreign(found):
            raise PermissionError(errno.EPERM, f"{path.name} belongs to another user: remove it or choose another path")
        if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077 and hasattr(os, "fchmod"):
            with suppress(OSError):  # a file system without modes
                os.fchmod(fd, 0o600)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _is_link(path: Path) -> OSError:
    return OSError(errno.ELOOP, f"{path.name} is a symbolic link: remove it or name the file that it leads to")


def _check_folder(folder: Path) -> None:
    """Raise `PermissionError` if a folder is a link that another user made."""
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode) and found.st_uid != 0 and _is_foreign(found):
        raise PermissionError(errno.EPERM, f"the folder {folder.name} is a link that belongs to another user")


def _is_foreign(found: os.stat_result) -> bool:
    return found.st_uid != getattr(os, "geteuid", lambda: found.st_uid)()


class Appender:
    """One file that this process appends to: opened for the first line, and again when it has gone.

    Args:
        path: Gives the path for the time of a first line.
        max_bytes: Size at which the file is closed and renamed; None for never.
        daily: Whether a file holds the lines of one day only.
    """

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
        """Write a line; return True if a file was closed or opened for it.

        Raises:
            OSError: If the line could not be written, or not whole.
            ValueError: If the path can't be a file's.
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
            if len(rest) != 1:  # only the newline is missing: the next line begins with one
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
        """Return True if the descriptor is still the file's: a program may close all, and open others."""
        try:
            found = os.fstat(fd)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def _is_in_place(self) -> bool:
        """Return True if the file is this process's and still has its name."""
        if self._pid != os.getpid():
            return False
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a permission was taken: the open file still takes lines
            return True
        return (found.st_dev, found.st_ino) == self._identity

    def _open(self, time: str) -> None:
        self._pid = os.getpid()
        path = self._path_at(time)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fd = open_private(path)
        found = os.fstat(self.fd)
        self._path, self._identity, self._size = path, (found.st_dev, found.st_ino), found.st_size
        self._first, self._limit, self._torn = time, self._max_bytes, False

    def _rotate(self) -> None:
        """Give the file the name of a closed one. A file that can't be renamed takes further lines."""
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
            with suppress(OSError):
                os.close(fd)
