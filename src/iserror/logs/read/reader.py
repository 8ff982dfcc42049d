"""Reading the log back: all records of a call, or all of a time, across files, processes and rotated files.

A request id is a UUIDv7, which says when its call began: files are searched from that time's place on, in steps
that grow. The search may stop early only where the line that ended the call is found and says how many lines the
call has, and so many are found. Everywhere else all of the log is searched: a line may come long after its call
began, and a clock may have been set.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from iserror.logs.read.source import Line, Source, settled, sources
from iserror.logs.record import (
    FINAL,
    ID,
    LOG_VARIABLE,
    SHORTEST_PREFIX,
    Record,
    expanded,
    is_outside,
    minted,
    parse,
    stamp_in,
    stamp_of,
    time_of,
)

DEFAULT_PATH: Final = "logs"


Where = str | os.PathLike[str]
_STEP: Final = 128 << 10
"""Bytes that are searched first from a time's place on; then four times as many, and so on."""


class Found(NamedTuple):
    """What a search gave."""

    records: list[Record]
    """In time order."""
    everything: bool = True
    """Whether all of the log was searched, and not only the part where the call has to be."""
    skipped: int = 0
    """Lines that hold the id and are no records, or no lines of a log."""
    files: int = 0
    """Number of files."""


def find(id: str, path: Where | Iterable[Where] | None = None) -> list[Record]:
    """Return every record of one request id or trace id, in time order.

    Args:
        id: The id as a client shows it, case and dashes do not matter; or its first digits, four at least, which
            give the records of every id that begins so.
        path: Files and folders, compressed files too; unsaid what `ISERROR_LOG` names, else `./logs`.

    Raises:
        FileNotFoundError: A path that does not exist.
        ValueError: `id` is no id.
    """
    return search(as_id(id), paths_of(path)).records


def records(
    path: Where | Iterable[Where] | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tool: str | None = None,
    code: str | None = None,
) -> Iterator[Record]:
    """Yield the records of a log one by one, in time order as far as its files are.

    Args:
        path: Files and folders, compressed files too; unsaid what `ISERROR_LOG` names, else `./logs`.
        since: Earliest time; UTC where it has no zone.
        until: Latest time.
        tool: Only those of this tool.
        code: Only those with this code.

    Raises:
        FileNotFoundError: A path that does not exist.
    """
    return Stream(paths_of(path), since, until).records(tool, code)


def paths_of(path: Where | Iterable[Where] | None) -> list[Path]:
    """The paths to read: those given, else that of `ISERROR_LOG`, else `./logs`."""
    if path is None:
        named = os.environ.get(LOG_VARIABLE, "")
        path = named if named and named != "stderr" else DEFAULT_PATH
    given: list[Where] = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return [expanded(each) for each in given] or paths_of(None)


def as_id(text: str) -> str:
    """An id, or the beginning of one, as the log has it.

    Raises:
        ValueError: The text is neither.
    """
    wanted = text.strip().replace("-", "").lower()
    if not ID.fullmatch(wanted):
        raise ValueError(
            f"{text!r} is no id: {SHORTEST_PREFIX} to 32 hexadecimal digits of a request id or trace id are needed"
        )
    return wanted


# --- one id --------------------------------------------------------------------------------------------------


class _Part:
    """What one file holds of the id."""

    def __init__(self, process: object) -> None:
        self.process = process
        """Who wrote the file, where it is one whose lines count."""
        self.own: dict[int, Record] = {}
        self.upstream: dict[int, Record] = {}
        self.lines = 0
        """How many lines of the call."""
        self.total: int | None = None
        """How many lines the call has, as its last line says."""
        self.skipped: set[int] = set()


class _Search:
    """One search for the lines that hold an id, or the beginning of one."""

    def __init__(self, wanted: str, since: str, until: str) -> None:
        self.wanted, self.since, self.until = wanted, since, until
        self.parts: dict[object, _Part] = {}
        self.counted: set[object] = set()
        """The files whose lines count."""

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
            if any(_begins(record.get(key), self.wanted) for key in ("request_id", "trace_id")):
                part.own[start] = record
                self._count(part, record)
            elif _begins(record.get("upstream_request_id"), self.wanted):
                part.upstream[start] = record

    def _count(self, part: _Part, record: Record) -> None:
        if part.process is None or record.get("request_id") != self.wanted:
            return
        part.lines += 1
        lines = record.get("lines")
        if type(lines) is int and record.get("event") in FINAL and "schema_version" in record:
            part.total = lines

    def is_complete(self) -> bool:
        """Whether it is certain that no other file has a line of the call, and no other place of the files."""
        ended = [part for part in self.parts.values() if part.total is not None]
        return bool(ended) and all(
            sum(other.lines for other in self.parts.values() if other.process == part.process) == part.total
            for part in ended
        )

    def found(self, everything: bool, files: Sequence[Source]) -> Found:
        parts = [self.parts[source.key] for source in files if source.key in self.parts]
        own = [record for part in parts for _, record in sorted(part.own.items(), key=_position)]
        upstream = [record for part in parts for _, record in sorted(part.upstream.items(), key=_position)]
        skipped = sum(len(part.skipped) for part in parts) + sum(source.skipped for source in files)
        # What a server that passed the call on wrote is of use where the call's own lines are elsewhere.
        return Found(sorted(own or upstream, key=stamp_in), everything, skipped, len(files))


def _writer(source: Source) -> object:
    """Who wrote a file: the same for all files of a process in a folder."""
    name = source.name
    return source.key if name is None else (name.host, name.pid, source.path.parent)


def _position(item: tuple[int, Record]) -> int:
    return item[0]


def _begins(value: object, wanted: str) -> bool:
    return isinstance(value, str) and value.startswith(wanted)


def search(wanted: str, paths: Sequence[Path], since: datetime | None = None, until: datetime | None = None) -> Found:
    """Search for all records whose request id or trace id is, or begins with, `wanted`.

    Args:
        wanted: 4 to 32 lower-case hex digits.
        paths: Files and folders.
        since: Earliest time of a record.
        until: Latest time of a record.

    Raises:
        FileNotFoundError: A path that does not exist.
    """
    state = _Search(wanted, stamp_of(since) if since else "", stamp_of(until) if until else "")
    files = [source for source in sources(list(paths)) if _may_hold(source, state.since, state.until)]
    time = minted(wanted) if since is None and until is None else None
    try:
        if time is not None and _look_near(state, files, time):
            return state.found(False, files)
        if time is None:
            for source in files:
                _look(state, source, _start(source, state))
        # What was begun meanwhile, or had its name changed while the folder was read.
        while new := _new_ones(paths, files, state):
            files += new
            for source in new:
                _look(state, source, 0)
        return state.found(True, files)
    finally:
        for source in files:
            source.close()


def _may_hold(source: Source, since: str, until: str) -> bool:
    name = source.name
    if name is None:
        return True
    return not ((name.last is not None and name.last < since) or (until and name.first > until))


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
    return [source for source in found if source.key not in known and _may_hold(source, state.since, state.until)]


def _look(state: _Search, source: Source, start: int) -> None:
    try:
        state.take(source, source.find(state.wanted.encode(), start)[0])
    except FileNotFoundError:  # deleted since it was listed
        pass
    finally:
        source.close()


class _Cursor:
    """How far a file is searched, from a time's place on. It is closed in between: there may be many files."""

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
        """Search the next part; False at the end of the file."""
        # A part of a compressed file holds several times as many bytes of lines.
        self.at = self._search(state, self.at, self.at + self.step // (8 if self.source.packed else 1))
        self.step *= 4
        return self.at < self.source.size

    def search_before(self, state: _Search) -> None:
        """Search what stands before the time's place."""
        if self.start:
            self._search(state, 0, self.start)

    def _search(self, state: _Search, start: int, stop: int) -> int:
        source = self.source
        try:
            source.open()
            if source.identity != self.identity:  # it was compressed, and stands under other positions
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
    """Search from a time's place on, then everywhere else; whether it could stop before that."""
    apart: list[Source] = []
    then: list[Source] = []
    before: list[Source] = []
    after: list[Source] = []
    is_alone = sum(not source.is_late for source in files) == 1
    for source in files:
        name = source.name
        # Beside others, a file with a name of its own may be another program's.
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


# --- all of them ---------------------------------------------------------------------------------------------


class Stream:
    """The records of a log in time order; `skipped`, `done` and `total` say how it goes.

    Args:
        paths: Files and folders.
        since: Earliest time.
        until: Latest time.

    Raises:
        FileNotFoundError: A path that does not exist.
    """

    def __init__(self, paths: Sequence[Path], since: datetime | None = None, until: datetime | None = None) -> None:
        self.since, self.until = stamp_of(since) if since else "", stamp_of(until) if until else ""
        found = settled(list(paths))
        self.sources = [source for source in found if _may_hold(source, self.since, self.until)]
        self.done = 0
        """Bytes of files read so far; `total` is that of all of them."""
        self.total = sum(source.weight() for source in self.sources)
        self._skipped = 0

    @property
    def skipped(self) -> int:
        """Lines so far that are no records."""
        return self._skipped + sum(source.skipped for source in self.sources)

    def records(self, tool: str | None = None, code: str | None = None) -> Iterator[Record]:
        """Yield those of a tool, with a code, or all. One pass: what `done` counts starts only once."""
        waiting = sorted(
            ((self._first(source), number, source) for number, source in enumerate(self.sources)), reverse=True
        )
        # Files are opened when their time has come; several are open where processes wrote at the same time.
        heap: list[tuple[str, int, Record, Iterator[tuple[str, Record]]]] = []
        while waiting or heap:
            while waiting and (not heap or waiting[-1][0] <= heap[0][0]):
                _, number, source = waiting.pop()
                self._push(heap, number, self._of(source, tool, code))
            if heap:
                _, number, record, following = heapq.heappop(heap)
                yield record
                self._push(heap, number, following)

    def _push(
        self,
        heap: list[tuple[str, int, Record, Iterator[tuple[str, Record]]]],
        number: int,
        following: Iterator[tuple[str, Record]],
    ) -> None:
        found = next(following, None)
        if found is not None:
            heapq.heappush(heap, (found[0], number, found[1], following))

    def _first(self, source: Source) -> str:
        if source.name is not None:
            return source.name.first
        try:
            return next((time for _, line in source.lines() if (time := time_of(line))), "")
        except FileNotFoundError:
            return ""
        finally:
            source.close()
            source.skipped = 0  # the lines are read once more

    def _of(self, source: Source, tool: str | None, code: str | None) -> Iterator[tuple[str, Record]]:
        # What is certain to stand in the line, however its writer writes JSON, saves reading it.
        needles = [text.encode() for text in (tool, code) if text and text.isascii() and text.isidentifier()]
        before = 0
        try:
            for at, line in source.lines(0, self.since, self.until):
                self.done += at - before
                before = at
                if not all(needle in line for needle in needles):
                    continue
                early = time_of(line) if self.since or self.until else None
                if early and is_outside(early, self.since, self.until):
                    continue
                record = parse(line)
                if record is None:
                    self._skipped += bool(line.strip())
                    continue
                time = stamp_in(record)
                if is_outside(time, self.since, self.until):
                    continue
                if (tool is None or record.get("tool") == tool) and (code is None or record.get("code") == code):
                    yield time, record
        except FileNotFoundError:  # deleted since it was listed
            pass
        finally:
            source.close()
