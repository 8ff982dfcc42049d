"""The search for all records of one id.

A request id is a UUIDv7, which holds the time when its call began: files are searched from that time's place on, in
steps that grow. The search may stop early only if the line that ended the call is found and tells how many lines the
call has, and so many are found. Otherwise all of the log is searched: a line may come long after its call began, and a
clock may have been set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from iserror.logs.read.files import sources
from iserror.logs.read.source import Line, Source
from iserror.logs.record import FINAL, Record, is_outside, is_own, minted, parse, stamp_in, stamp_of

_STEP: Final = 128 << 10
"""Bytes that are searched first from a time's place on; then four times as many, and so on."""

_SMALL: Final = 32 << 20
"""Bytes of a log up to which the lines of other calls that name the id are searched too, once the call is found."""


class Found(NamedTuple):
    """The result of a search."""

    records: list[Record]
    """The call's own in time order; then those of calls that name the id as their upstream's."""
    everything: bool = True
    """Whether all of the log was searched, and not only the part where the call has to be."""
    skipped: int = 0
    """Lines that hold the id and aren't records, or aren't lines of a log."""
    files: int = 0
    """Number of files."""


class _Part:
    """The lines of one file that hold the id."""

    def __init__(self, process: object) -> None:
        self.process = process
        """The process that wrote the file, if its lines count."""
        self.own: dict[int, Record] = {}
        self.upstream: dict[int, Record] = {}
        self.lines = 0
        """The number of lines of the call."""
        self.total: int | None = None
        """The number of lines that the call has, by its last line."""
        self.skipped: set[int] = set()


class _Search:
    """One search for the lines that hold an id, or the beginning of one."""

    def __init__(self, wanted: str, since: str, until: str) -> None:
        self.wanted, self.since, self.until = wanted, since, until
        self.parts: dict[object, _Part] = {}
        self.counted: set[object] = set()
        """The files whose lines count."""

    @cached_property
    def others(self) -> _Search:
        """The same search again, for the lines of other calls that name the id."""
        return _Search(self.wanted, self.since, self.until)

    def take(self, source: Source, lines: list[Line]) -> None:
        for start, line in lines:
            part = self.parts.get(source.key)
            if part is None:
                part = self.parts[source.key] = _Part(_writer(source) if source.key in self.counted else None)
            record = parse(line)
            if record is None:
                part.skipped.add(start)
                continue
            time = stamp_in(record)
            if start in part.own or is_outside(time, self.since, self.until):
                continue
            if is_own(record, self.wanted):
                part.own[start] = record
                self._count(part, record)
            elif str(record.get("upstream_request_id")).startswith(self.wanted):
                part.upstream[start] = record

    def _count(self, part: _Part, record: Record) -> None:
        if part.process is None or record.get("request_id") != self.wanted:
            return
        part.lines += 1
        lines = record.get("lines")
        if type(lines) is int and record.get("event") in FINAL and "schema_version" in record:
            part.total = lines

    def is_complete(self) -> bool:
        """Return True if no other file, and no other place in these files, can have a line of the call."""
        ended = [part for part in self.parts.values() if part.total is not None]
        return bool(ended) and all(
            sum(other.lines for other in self.parts.values() if other.process == part.process) == part.total
            for part in ended
        )

    def found(self, everything: bool, files: Sequence[Source]) -> Found:
        parts = [self.parts[source.key] for source in files if source.key in self.parts]
        own = [record for part in parts for _, record in sorted(part.own.items(), key=_position)]
        named = [self.others.parts[source.key] for source in files if source.key in self.others.parts] or parts
        upstream = [record for part in named for _, record in sorted(part.upstream.items(), key=_position)]
        skipped = sum(len(part.skipped) for part in parts) + sum(source.skipped for source in files)
        # Another server may send the id of a call that isn't its own: neither hides the other.
        records = [*sorted(own, key=stamp_in), *sorted(upstream, key=stamp_in)]
        return Found(records, everything, skipped, len(files))


def _writer(source: Source) -> object:
    """Return the process that wrote a file: the same for all its files in a folder."""
    name = source.name
    return source.key if name is None else (name.host, name.pid, source.path.parent)


def _position(item: tuple[int, Record]) -> int:
    return item[0]


def search(wanted: str, paths: Sequence[Path], since: datetime | None = None, until: datetime | None = None) -> Found:
    """Search for all records whose request id or trace id is, or begins with, `wanted`.

    Args:
        wanted: 4 to 32 lower-case hex digits.
        paths: Files and folders.
        since: Earliest time of a record.
        until: Latest time of a record.

    Raises:
        FileNotFoundError: If a path doesn't exist.
    """
    state = _Search(wanted, stamp_of(since) if since else "", stamp_of(until) if until else "")
    files = [source for source in sources(list(paths)) if source.may_hold(state.since, state.until)]
    time = minted(wanted) if since is None and until is None else None
    try:
        if time is not None and _look_near(state, files, time):
            if sum(_size(source) for source in files) <= _SMALL:
                for source in files:
                    _look(state.others, source, 0)
            return state.found(False, files)
        if time is None:
            for source in files:
                _look(state, source, _start(source, state))
        # Files that were created or renamed while the folder was read.
        while new := _new_ones(paths, files, state):
            files += new
            for source in new:
                _look(state, source, 0)
        return state.found(True, files)
    finally:
        for source in files:
            source.close()


def _start(source: Source, state: _Search) -> int:
    if not state.since or source.name is None:
        return 0
    try:
        return source.seek(state.since)
    except FileNotFoundError:
        return 0


def _new_ones(paths: Iterable[Path], files: Iterable[Source], state: _Search) -> list[Source]:
    known = {source.key for source in files}
    found = sources([path for path in paths if path.exists()])
    return [source for source in found if source.key not in known and source.may_hold(state.since, state.until)]


def _size(source: Source) -> int:
    try:
        return source.stat().st_size * (8 if source.packed else 1)
    except FileNotFoundError:
        return 0


def _look(state: _Search, source: Source, start: int) -> None:
    try:
        state.take(source, source.find(state.wanted.encode(), start)[0])
    except FileNotFoundError:  # deleted since it was listed
        pass
    finally:
        source.close()


class _Cursor:
    """The progress of the search in one file, from a time's place on. In between, the file is closed."""

    def __init__(self, source: Source, time: str) -> None:
        self.source = source
        self.start = self.at = 0
        self.step = _STEP
        try:
            self.start = self.at = source.seek(time)
        except FileNotFoundError:
            pass
        finally:
            source.close()
        self.identity = source.identity

    def advance(self, state: _Search) -> bool:
        """Search the next part; return False at the end of the file."""
        # A part of a compressed file holds several times as many bytes of lines.
        self.at = self._search(state, self.at, self.at + self.step // (8 if self.source.packed else 1))
        self.step *= 4
        return self.at < self.source.size

    def search_before(self, state: _Search) -> None:
        """Search the part before the time's place."""
        if self.start:
            self._search(state, 0, self.start)

    def _search(self, state: _Search, start: int, stop: int) -> int:
        source = self.source
        try:
            source.open()
            if source.identity != self.identity:  # it was compressed: its lines have other positions
                state.parts.pop(source.key, None)
                self.identity, self.start, start, stop = source.identity, 0, 0, source.size
            lines, at = source.find(state.wanted.encode(), start, stop)
        except FileNotFoundError:  # deleted since it was listed
            return source.size
        finally:
            source.close()
        state.take(source, lines)
        return at


def _look_near(state: _Search, files: list[Source], time: str) -> bool:
    """Search from a time's place on, then everywhere else; return True if it could stop before that."""
    apart: list[Source] = []
    then: list[Source] = []
    before: list[Source] = []
    after: list[Source] = []
    is_alone = sum(not source.is_late for source in files) == 1
    for source in files:
        name = source.name
        # If there are others, a file whose name isn't like ours may be another program's.
        if source.is_late or (name is None and not is_alone):
            apart.append(source)
            continue
        state.counted.add(source.key)
        if name is None or (name.first <= time and (name.last is None or name.last >= time)):
            then.append(source)
        elif name.first > time:
            after.append(source)
        else:
            before.append(source)
    # Those that were written at that time, all together; then those that came later.
    cursors = alive = [_Cursor(source, time) for source in then]
    while alive and not state.is_complete():
        alive = [cursor for cursor in alive if cursor.advance(state)]
    for source in after + before:
        if state.is_complete():
            break
        _look(state, source, 0)
    is_complete = state.is_complete()
    for source in apart:
        _look(state, source, 0)
    if not is_complete:
        for cursor in cursors:
            cursor.search_before(state)
    return is_complete
