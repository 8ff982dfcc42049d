"""The files of a log folder: their names, and the compressed form of those that are closed.

A process writes `FIRST-HOST-PID.jsonl`, where FIRST is the time of its first line. When it is full it becomes
`FIRST_LAST-HOST-PID.jsonl`, and then `FIRST_LAST-HOST-PID.jsonl.gz`. Its lines are in time order: a clock that is set
back starts a new file. What is logged under the id of a call that has ended goes to a file with `.late` before
`.jsonl`.

The compressed form is gzip (RFC 1952) in members of whole lines. An extra field of each member's header holds its size,
and its first and last time: a reader goes from one member to the next without decompressing any.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from iserror.logs.record import STAMP_LENGTH, stamp, time_of

SUFFIX: Final = ".jsonl"
COMPRESSED: Final = ".gz"

_NAME = re.compile(
    r"(?P<first>\d{8}T\d{6}\.\d{6}Z)(?:_(?P<last>\d{8}T\d{6}\.\d{6}Z))?-(?P<host>.+)-(?P<pid>\d+)(?P<late>\.late)?"
    r"\.jsonl(?P<gz>\.gz)?"
)


class Name(NamedTuple):
    """The parts of the name of a file of ours. Times are in the log's form."""

    first: str
    last: str | None
    host: str
    pid: int
    late: bool = False
    compressed: bool = False

    @classmethod
    def of(cls, path: Path) -> Name | None:
        """Return the parts of a file's name, or None if it isn't named as ours are."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            return None
        last = match["last"]
        return cls(
            _long(match["first"]),
            None if last is None else _long(last),
            match["host"],
            int(match["pid"]),
            match["late"] is not None,
            match["gz"] is not None,
        )

    @property
    def key(self) -> tuple[str, str, int, bool]:
        """The same for a file while it is written, closed and compressed."""
        return self.first, self.host, self.pid, self.late

    def __str__(self) -> str:
        times = _short(self.first) + ("" if self.last is None else f"_{_short(self.last)}")
        late = ".late" if self.late else ""
        return f"{times}-{self.host}-{self.pid}{late}{SUFFIX}{COMPRESSED if self.compressed else ''}"


def _short(time: str) -> str:
    return time.replace("-", "").replace(":", "")


def _long(time: str) -> str:
    return f"{time[:4]}-{time[4:6]}-{time[6:11]}:{time[11:13]}:{time[13:]}"


FILE_SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".log", ".txt")
"""The endings of log files that aren't in a folder of ours."""


def late_file(path: Path) -> Path:
    """Return the file next to one that isn't in a folder of ours, for lines under the id of a call that has ended."""
    return path.with_name(f"{path.stem}.late{path.suffix}")


def is_late(path: Path) -> bool:
    """Return True if a file is for late lines."""
    return path.name.removesuffix(COMPRESSED).rpartition(".")[0].endswith(".late")


def is_log(name: str) -> bool:
    """Return True if a file in a folder is taken for a log."""
    return name.endswith((SUFFIX, SUFFIX + COMPRESSED))


# --- the compressed form -------------------------------------------------------------------------------------

MEMBER: Final = 128 << 10
"""Bytes of lines in a member; a longer line is a separate member."""

# RFC 1952, section 2.3: magic, deflate, FEXTRA, no time, no hint, system unknown; then the extra field.
_HEADER: Final = struct.Struct("<4sIBBHccHIQQ")
_START: Final = b"\x1f\x8b\x08\x04"
_FIELD: Final = struct.calcsize("<IQQ")
HEADER_SIZE: Final = _HEADER.size


class Member(NamedTuple):
    """A compressed member: where it begins and ends in the file, and its first and last time."""

    start: int
    stop: int
    first: str
    last: str


def member_at(header: bytes, start: int) -> Member | None:
    """Return the member with this header, or None if another program wrote the header, or it is torn."""
    if len(header) < HEADER_SIZE:
        return None
    magic, _, _, _, extra, one, two, length, size, first, last = _HEADER.unpack_from(header)
    if (magic, extra, one + two, length) != (_START, _FIELD + 4, b"IE", _FIELD) or size <= HEADER_SIZE:
        return None
    return Member(start, start + size, _time(first, ""), _time(last, "~"))


def member_in(data: bytes, start: int) -> Member | None:
    """Return the first member whose header is in these bytes."""
    at = data.find(_START)
    while at >= 0:
        member = member_at(data[at : at + HEADER_SIZE], start + at)
        if member is not None:
            return member
        at = data.find(_START, at + 1)
    return None


def _time(microseconds: int, unknown: str) -> str:
    try:
        return stamp(microseconds * 1000)
    except (ValueError, OverflowError, OSError):  # not ours after all
        return unknown


def compress(source: BinaryIO, target: BinaryIO) -> None:
    """Copy the lines of a file of ours, which are in time order, into members.

    Little of it is Python: a thread that computes keeps an event loop waiting for some milliseconds.
    """
    held: list[bytes] = []
    while block := source.read(MEMBER):
        whole = block.rfind(b"\n") + 1
        if whole:
            target.write(_member(b"".join((*held, block[:whole]))))
            held = []
        held.append(block[whole:])
    if any(held):
        target.write(_member(b"".join(held)))


def _member(data: bytes) -> bytes:
    import zlib

    first = _microseconds(time_of(data[: data.find(b"\n") + 1 or None]))
    last = _microseconds(time_of(data[data.rstrip(b"\n").rfind(b"\n") + 1 :]))
    if first is None or last is None:  # torn: it may hold anything
        first, last = 0, _FOREVER
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    tail = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFF_FFFF)
    size = HEADER_SIZE + len(body) + len(tail)
    return _HEADER.pack(_START, 0, 0, 255, _FIELD + 4, b"I", b"E", _FIELD, size, first, last) + body + tail


_FOREVER: Final = 253_402_300_799_000_000  # the last second of the year 9999


def _microseconds(time: str | None) -> int | None:
    from datetime import datetime

    if not time or len(time) != STAMP_LENGTH:
        return None
    try:
        then = datetime.fromisoformat(time[:-1] + "+00:00")
    except ValueError:
        return None
    return max(0, int(then.timestamp()) * 1_000_000 + then.microsecond)


def inflate(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of gzip data, in pieces of up to 1 MiB.

    Raises:
        zlib.error: If the data is damaged or torn. The content before that comes first.
    """
    import zlib

    unpacker, begun = zlib.decompressobj(16 + zlib.MAX_WBITS), False
    for piece in pieces:
        data = piece
        while data:
            begun = True
            content = unpacker.decompress(data, 1 << 20)
            if content:
                yield content
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data = unpacker.unused_data.lstrip(b"\0")  # some programs pad with zeros
                unpacker, begun = zlib.decompressobj(16 + zlib.MAX_WBITS), False
    if begun:
        rest = unpacker.flush()
        if rest:
            yield rest
        if not unpacker.eof:
            raise zlib.error("the data ends within a member")


# --- a folder ------------------------------------------------------------------------------------------------


def names(folder: Path) -> list[tuple[Path, Name]]:
    """Return the files of ours in a folder, without its folders."""
    with os.scandir(folder) as entries:
        paths = [folder / entry.name for entry in entries if is_log(entry.name)]
    return [(path, name) for path in paths if (name := Name.of(path)) is not None]


def folder_sizes(folder: Path) -> list[tuple[Path, Name, os.stat_result]]:
    """Return the files of ours in a folder with their size and age, without those that go during the call."""
    found: list[Any] = []
    for path, name in names(folder):
        try:
            found.append((path, name, path.stat()))
        except OSError:
            continue
    return found
