"""Following a log as it grows, across rotation and new processes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from iserror.logs.read.files import listed
from iserror.logs.read.source import Source
from iserror.logs.record import Record, parse, stamp_in
from iserror.logs.segment import COMPRESSED

PAUSE: Final = 0.25
"""Seconds between two looks at the files."""
_TAIL: Final = 1 << 20
"""Bytes at the end of a file in which its last records are looked for."""
_DONE: Final = -1

Key = tuple[Any, ...]


def _all(_: Record) -> bool:
    return True


class Follower:
    """The records that come into a log from now on.

    Args:
        paths: Files and folders; a folder may still be empty.
        is_wanted: Returns True for the records to yield.
    """

    def __init__(self, paths: Sequence[Path], is_wanted: Callable[[Record], bool] = _all) -> None:
        self.paths = paths
        self.is_wanted = is_wanted
        self.skipped = 0
        self._read: dict[Key, int] = {}
        """The position after the last line read of each file; for a compressed file, in its content."""
        self._seen: dict[Key, tuple[Path, int, int]] = {}
        """The path, inode and size that each file had then."""
        self._heads: dict[Key, bytes] = {}
        """The beginning of each file then: another file in its place may have its inode."""

    def last(self, count: int) -> list[Record]:
        """Return the last records, from the ends of all files; the next look begins after them.

        Raises:
            FileNotFoundError: If a path doesn't exist.
        """
        held: list[Record] = []
        for source in listed(list(self.paths)):
            try:
                source.open()
            except FileNotFoundError:  # deleted since it was listed
                continue
            if source.path.suffix == COMPRESSED:
                self._read[source.key] = _DONE
                source.close()
                continue
            if source.size > _TAIL:
                # The line around this position isn't read as a record then.
                self._read[source.key] = source.size - _TAIL
            held += deque(self._new(source), count)
        self.skipped = 0
        return sorted(held, key=stamp_in)[-count:] if count else []

    def new(self) -> list[Record]:
        """Return the records that came since the last look, in time order."""
        found = listed([path for path in self.paths if path.exists()])
        return sorted((record for source in found for record in self._new(source)), key=stamp_in)

    def _new(self, source: Source) -> Iterator[Record]:
        key = source.key
        at = self._read.get(key, 0)
        try:
            if at == _DONE:
                return
            try:
                stat = source.stat()
            except FileNotFoundError:  # it has another name by now; later records must not come before its own
                source.open()
                stat = source.stat()
            before, now = self._seen.get(key), (source.path, stat.st_ino, stat.st_size)
            if before == now:
                return
            source.open()
            known = self._heads.get(key, b"")
            if source.name is None and (stat.st_size < at or not source.head.startswith(known)):
                at = 0  # another file has its place
            self._seen[key], self._heads[key] = now, source.head
            for following, line in source.lines(at):
                if following == at:
                    break
                at = following
                record = parse(line)
                if record is None:
                    self.skipped += bool(line.strip())
                elif self.is_wanted(record):
                    yield record
            # No line comes into a compressed file any more.
            self._read[key] = _DONE if source.path.suffix == COMPRESSED else at
        except FileNotFoundError:  # deleted
            self._seen.pop(key, None)
        finally:
            source.close()


def follow(paths: Sequence[Path], count: int, is_wanted: Callable[[Record], bool] = _all) -> Iterator[Record]:
    """Yield the last records of a log, and then each new one, without end.

    Args:
        paths: Files and folders.
        count: How many of the last records.
        is_wanted: As for `Follower`.

    Raises:
        FileNotFoundError: If a path doesn't exist.
    """
    follower = Follower(paths, is_wanted)
    yield from follower.last(count)
    while True:
        yield from follower.new()
        time.sleep(PAUSE)
