"""All records of a log, in time order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from iserror.logs.read.files import listed
from iserror.logs.read.source import Source
from iserror.logs.record import Record, is_outside, parse, stamp_in, stamp_of, time_of


class Stream:
    """The records of a log in time order; `skipped`, `done` and `total` show the progress.

    Args:
        paths: Files and folders.
        since: Earliest time.
        until: Latest time.

    Raises:
        FileNotFoundError: If a path doesn't exist.
    """

    def __init__(self, paths: Sequence[Path], since: datetime | None = None, until: datetime | None = None) -> None:
        self.since, self.until = stamp_of(since) if since else "", stamp_of(until) if until else ""
        found = listed(list(paths))
        self.sources = [source for source in found if source.may_hold(self.since, self.until)]
        self.done = 0
        """Bytes of files read so far."""
        self.total = sum(source.weight() for source in self.sources)
        """Bytes of all files."""
        self._skipped = 0

    @property
    def skipped(self) -> int:
        """Lines so far that aren't records."""
        return self._skipped + sum(source.skipped for source in self.sources)

    def records(self, tool: str | None = None, code: str | None = None) -> Iterator[Record]:
        """Yield the records of a tool, with a code, or all. `done` counts one pass: call it once."""
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
            source.skipped = 0  # the lines are read again

    def _of(self, source: Source, tool: str | None, code: str | None) -> Iterator[tuple[str, Record]]:
        # A line without these bytes isn't read as JSON. However JSON is written, such names appear as they are.
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
