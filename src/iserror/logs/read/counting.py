"""Bounded tables of counts, for a summary that is made in one pass over a log of any size."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from iserror.logs.read.figures import Forgotten
from iserror.logs.read.values import text
from iserror.logs.record import Record

KEEP_SESSIONS: Final = 16

BURST_GAP: Final = 300.0
"""Seconds. Equal failures further apart aren't one burst."""


class Counted:
    """Failures with one key: how many, when, and the latest example."""

    __slots__ = ("count", "first", "last", "request_id", "turn")

    def __init__(self) -> None:
        self.count = 0
        self.turn = 0
        self.first: float | None = None
        self.last: float | None = None
        self.request_id = ""

    def see(self, turn: int, when: float | None, record: Record) -> bool:
        """Count one; return True if it is the latest so far, by its time or else by its turn."""
        self.count += 1
        self.turn = turn
        latest = self.last is None or (when is not None and when >= self.last)
        if when is not None:
            self.first = when if self.first is None else min(self.first, when)
            self.last = when if self.last is None else max(self.last, when)
        if latest:
            self.request_id = text(record.get("request_id"))
        return latest


class Pair(Counted):
    """Failures of one tool with one code."""

    __slots__ = ("buckets", "category")

    def __init__(self) -> None:
        super().__init__()
        self.buckets: dict[int, int] = {}
        self.category = ""


class TypeCount(Counted):
    """Crashes by one exception type."""

    __slots__ = ("more_tools", "place", "tools")

    def __init__(self) -> None:
        super().__init__()
        self.tools: list[str] = []
        self.more_tools = False
        self.place = ""


class Repeated(Counted):
    """Failures of calls with one fingerprint."""

    __slots__ = ("burst", "longest", "sessions", "told")

    def __init__(self) -> None:
        super().__init__()
        self.burst = 0
        self.longest = 0
        self.told: float | None = None
        self.sessions: tuple[int, ...] = ()

    def repeat(self, when: float | None, session: object) -> None:
        """Continue the burst, or begin another."""
        near = when is not None and self.told is not None and abs(when - self.told) <= BURST_GAP
        self.burst = self.burst + 1 if near or (when is None and self.told is None) else 1
        self.longest = max(self.longest, self.burst)
        self.told = when
        if isinstance(session, str) and len(self.sessions) <= KEEP_SESSIONS:
            known = hash(session)  # a session's id may be long, and is not shown
            if known not in self.sessions:
                self.sessions += (known,)


_C = TypeVar("_C", bound=Counted)


class Table(Generic[_C]):
    """Counts by key, up to twice `keep`. A full table drops the lesser half.

    A key stays at least until `keep` others came after it: a burst isn't forgotten while it lasts.
    """

    def __init__(self, kind: type[_C], keep: int) -> None:
        self.kind = kind
        self.keep = keep
        self.counts: dict[Any, _C] = {}
        self.keys = 0
        self.failures = 0

    def of(self, key: Any) -> _C:
        """Return the counts of a key."""
        found = self.counts.get(key)
        if found is None:
            if len(self.counts) >= 2 * self.keep:
                self._drop()
            found = self.counts[key] = self.kind()
        return found

    def _drop(self) -> None:
        ranked = sorted(self.counts.items(), key=lambda item: (item[1].count, item[1].turn), reverse=True)
        gone = ranked[self.keep :]
        self.keys += len(gone)
        self.failures += sum(counted.count for _, counted in gone)
        self.counts = dict(ranked[: self.keep])

    def ranked(self) -> list[tuple[Any, _C]]:
        """Return all counts, the most frequent first, equal ones by key."""
        return sorted(self.counts.items(), key=lambda item: (-item[1].count, item[0]))

    def forgotten(self) -> Forgotten:
        return Forgotten(self.keys, self.failures)
