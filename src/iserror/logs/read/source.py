"""One file of the log as a reader sees it: a place for a time, the lines that hold some bytes, all lines.

Positions are offsets in the file; in a compressed file of ours, offsets of members. Files are read, not mapped: a file
that is truncated kills a process that has it mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from iserror.logs.record import STAMP_LENGTH, time_of
from iserror.logs.segment import (
    COMPRESSED,
    HEADER_SIZE,
    MEMBER,
    Member,
    Name,
    inflate,
    is_late,
    member_at,
    member_in,
)

BLOCK: Final = 1 << 20
MAX_LINE: Final = 64 << 20
"""Bytes. A longer line isn't a line of a log, and is left out."""
_PROBE: Final = 4 << 10
_NEAR: Final = 64 << 10
"""Bytes before a time's place that are read too: threads may have written out of order."""

Line = tuple[int, bytes]
"""A line and its position in its file."""


class Source:
    """A file; `name` has the parts of its name if it is one of ours.

    Every method raises `FileNotFoundError` when the file has gone, under its other names too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = Name.of(path)
        folder = os.path.dirname(path)
        self.key: tuple[Any, ...] = (folder, *self.name.key) if self.name is not None else (folder, path.name)
        """The same for a file of ours while it is written, closed and compressed."""
        self.is_late = is_late(path)
        self.skipped = 0
        """The number of lines that aren't records."""
        self.size = 0
        self.identity = 0, 0
        """It changes if opening the file again finds another file (its compressed form), with other positions."""
        self.head = b""
        """How the file begins: with the time of its first line, if it is one of ours."""
        self.packed = False
        self._fd: int | None = None
        self._ours = False

    def open(self) -> None:
        """Open the file, under its present name."""
        if self._fd is not None:
            return
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        for _ in range(5):
            try:
                self._fd = os.open(self.path, flags)
                break
            except FileNotFoundError:
                self.path = _renamed(self)
        else:
            raise FileNotFoundError(f"there is no file {str(self.path)!r}")
        found = self.stat()
        self.size, self.identity = found.st_size, (found.st_dev, found.st_ino)
        self.head = self._read(0, HEADER_SIZE + STAMP_LENGTH)
        self.packed = self.head.startswith(b"\x1f\x8b")
        self._ours = self.packed and member_at(self.head, 0) is not None

    def may_hold(self, since: str, until: str) -> bool:
        """Return True if the file may have lines between two times. An empty time sets no limit."""
        name = self.name
        if name is None:
            return True
        return not ((name.last is not None and name.last < since) or (until and name.first > until))

    def stat(self) -> os.stat_result:
        """Return the state of the open file, else of the file with its name."""
        return os.stat(self.path) if self._fd is None else os.fstat(self._fd)

    def weight(self) -> int:
        """Return the size of the file; for a compressed file, about the size of its content."""
        try:
            size = self.path.stat().st_size
        except OSError:
            return 0
        return size * 8 if self.path.suffix == COMPRESSED else size

    def close(self) -> None:
        """Close it; the next use opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self, at: int, size: int) -> bytes:
        assert self._fd is not None
        if hasattr(os, "pread"):
            return os.pread(self._fd, size, at)
        os.lseek(self._fd, at, os.SEEK_SET)  # Windows
        return os.read(self._fd, size)

    # --- a time's place ----------------------------------------------------------------------------------------

    def seek(self, time: str) -> int:
        """Return a position that the lines of this time and later come after, if lines are in time order."""
        self.open()
        if self.packed and not self._ours:
            return 0
        time_after = self._member_after if self._ours else self._time_after
        low, high = 0, self.size
        while high - low > _NEAR:
            middle = (low + high) // 2
            found = time_after(middle, high)
            if found is None or found >= time:
                high = middle
            else:
                low = middle
        if self._ours:
            return next((each.start for each in self._members(low) if each and each.last >= time), self.size)
        return max(0, low - _NEAR)

    def _time_after(self, at: int, stop: int) -> str | None:
        """Return the time of the first line that begins after a position and has one, or None if there is none near."""
        data = self._read(at, _PROBE)
        if b"\n" not in data[:-64]:
            data = self._read(at, _NEAR)
        begin = data.find(b"\n") + 1
        while begin and at + begin < stop:
            end = data.find(b"\n", begin)
            time = time_of(data[begin:] if end < 0 else data[begin:end])
            if time:
                return time
            begin = end + 1
        return None

    def _member_after(self, at: int, stop: int) -> str | None:
        """Return the last time of the first member that begins after a position, or None if there is none."""
        member = self._next_member(at, stop)
        return None if member is None else member.last

    def _next_member(self, at: int, stop: int) -> Member | None:
        size = MEMBER // 4
        while at < stop:
            data = self._read(at, size)
            member = member_in(data, at)
            if member is not None:
                return member if member.start < stop else None
            if len(data) < size:
                return None
            at += size - HEADER_SIZE + 1
            size = min(size * 2, BLOCK)
        return None

    def _members(self, at: int) -> Iterator[Member | None]:
        """Yield the members from one on; None for a part that is damaged or another program's."""
        while at < self.size:
            member = member_at(self._read(at, HEADER_SIZE), at)
            if member is None:
                yield None
                member = self._next_member(at + 1, self.size)
                if member is None:
                    return
            yield member
            at = member.stop

    # --- lines that hold some bytes ----------------------------------------------------------------------------

    def find(self, needle: bytes, start: int = 0, stop: int | None = None) -> tuple[list[Line], int]:
        """Return the lines that hold some bytes in a part of the file, and where the next part begins.

        Args:
            needle: The bytes.
            start: Where to begin: at a position that `seek` or this method returned, or 0.
            stop: Where to end; None for the end of the file.
        """
        self.open()
        stop = self.size if stop is None else min(stop, self.size)
        if not self.packed:
            return self._plain_with(needle, start, stop)
        found: list[Line] = []
        if not self._ours:
            found += ((at, line) for at, (_, line) in enumerate(self.lines()) if needle in line)
            return found, self.size
        for member in self._members(start):
            if member is None:
                self.skipped += 1
            elif member.start >= stop:
                return found, member.start
            else:
                found += _matching(self._unpacked(member), needle, member.start << 32)
        return found, self.size

    def _plain_with(self, needle: bytes, start: int, stop: int) -> tuple[list[Line], int]:
        found: list[Line] = []
        # A match that begins in this piece may end in the next one.
        buffer = bytearray(min(BLOCK, max(0, stop - start)) + len(needle) - 1)
        after = start
        while start < stop:
            wanted = min(BLOCK, stop - start)
            got = self._read_into(memoryview(buffer)[: wanted + len(needle) - 1], start)
            at = buffer.find(needle, max(0, after - start), got)
            while at >= 0:
                line = self._line_at(start + at)
                if line is None:
                    self.skipped += 1
                    after = self._line_end(start + at)
                else:
                    found.append(line)
                    after = line[0] + len(line[1])
                at = buffer.find(needle, after - start, got)
            start += wanted
        return found, max(stop, after)

    def _read_into(self, view: memoryview, at: int) -> int:
        assert self._fd is not None
        if hasattr(os, "preadv"):
            return os.preadv(self._fd, [view], at)
        data = self._read(at, len(view))  # macOS, Windows
        view[: len(data)] = data
        return len(data)

    def _line_at(self, at: int) -> Line | None:
        """Return the line around a position, or None if it is too long to be one."""
        size = _PROBE
        while True:
            begin = max(0, at - size)
            data = self._read(begin, at - begin + size)
            first = data.rfind(b"\n", 0, at - begin) + 1
            last = data.find(b"\n", at - begin)
            if last < 0 and len(data) < at - begin + size:  # the end of the file
                last = len(data)
            if (first or not begin) and last >= 0:
                return (begin + first, data[first:last]) if last - first <= MAX_LINE else None
            if size >= MAX_LINE:
                return None
            size = min(size * 8, MAX_LINE)

    def _line_end(self, at: int) -> int:
        while data := self._read(at, BLOCK):
            end = data.find(b"\n")
            if end >= 0:
                return at + end
            at += len(data)
        return at

    def _unpacked(self, member: Member) -> bytes:
        """Return the lines of a member, as far as they can be read."""
        import zlib

        found = []
        try:
            for piece in inflate([self._read(member.start, min(member.stop, self.size) - member.start)]):
                found.append(piece)
                if len(found) * BLOCK > MAX_LINE + MEMBER:
                    raise zlib.error("no member of ours")
        except zlib.error:
            self.skipped += 1
        return b"".join(found)

    # --- all lines ---------------------------------------------------------------------------------------------

    def lines(self, start: int = 0, since: str = "", until: str = "") -> Iterator[tuple[int, bytes]]:
        """Yield every line from a position on, except those that are too long, and where the next line begins.

        A last line without a newline is perhaps still being written: its own beginning comes with it.

        Args:
            start: A position; in a compressed file of lines.
            since: Members that end before this time are left out.
            until: Members that begin after it are left out.
        """
        rest, skipping, at = b"", False, start
        for at, block in self._blocks(start, since, until):
            data = rest + block if rest else block
            begin, base = 0, at - len(data)
            end = data.find(b"\n", len(rest))
            while end >= 0:
                if skipping or end - begin > MAX_LINE:
                    self.skipped += not skipping
                    skipping = False
                else:
                    yield base + end + 1, data[begin:end]
                begin = end + 1
                end = data.find(b"\n", begin)
            rest = data[begin:]
            if skipping or len(rest) > MAX_LINE:
                self.skipped += not skipping
                rest, skipping = b"", True
        if rest:
            yield at - len(rest), rest

    def _blocks(self, start: int, since: str = "", until: str = "") -> Iterator[tuple[int, bytes]]:
        """Yield the content in blocks, and where each ends; for a compressed file, in its decompressed content."""
        self.open()
        if not self.packed:
            for block in self._pieces(start):
                start += len(block)
                yield start, block
            return
        at = 0
        for block in self._contents(since, until):
            at += len(block)
            if at > start:
                yield at, block[max(0, start - at + len(block)) :]

    def _contents(self, since: str, until: str) -> Iterator[bytes]:
        """Yield the content of a compressed file, piece by piece."""
        import zlib

        if not self._ours:
            try:
                yield from inflate(self._pieces(0))
            except zlib.error:
                self.skipped += 1
            return
        for member in self._members(0):
            if member is None:
                self.skipped += 1
            elif member.last >= since and not (until and member.first > until):
                block = self._unpacked(member)
                if member.stop >= self.size:
                    self.close()
                yield block

    def _pieces(self, at: int) -> Iterator[bytes]:
        """Yield the bytes of the file. At its end, close it at once: many small files may be read at a time."""
        while self._fd is not None and (block := self._read(at, BLOCK)):
            at += len(block)
            if at >= self.size:
                self.close()
            yield block


def _matching(data: bytes, needle: bytes, base: int) -> Iterator[Line]:
    at = data.find(needle)
    while at >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield base + begin, data[begin:end]
        at = data.find(needle, end)


def _renamed(source: Source) -> Path:
    """Return the new path of a file of ours that was closed or compressed since it was listed.

    Raises:
        FileNotFoundError: If the file has gone.
    """
    if source.name is not None:
        for entry in os.listdir(source.path.parent):
            path = source.path.with_name(entry)
            name = Name.of(path)
            if name is not None and name.key == source.name.key:
                return path
    raise FileNotFoundError(f"there is no file {str(source.path)!r}")
