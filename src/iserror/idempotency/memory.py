"""`MemoryStore`: keys in the memory of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from iserror.idempotency.store import CALLER_DIGITS, Entry

OVERHEAD: Final = 640
"""Bytes that count for each key beside its record: what Python needs for it, about."""


@dataclass
class _Held:
    owner: str
    record: bytes
    lease_ends: float | None
    """By `time.monotonic()`; None once it is done."""
    expires: float
    """By the same clock: when it is forgotten."""

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.record)


@dataclass
class _Caller:
    """What one caller holds."""

    keys: dict[str, None] = field(default_factory=dict)
    """The longest untouched first."""
    size: int = 0


class MemoryStore:
    """Keep keys in this process: gone with it, and unknown to others.

    A caller that has used up its room loses its own oldest finished keys. A key in progress is never forgotten. If that
    makes no room, or the whole store is full, a new key is refused and its call doesn't run. So no caller can make
    another caller's write run twice.

    Args:
        max_entries: Keys of all callers, at most.
        max_bytes: Bytes of all keys with their records, at most. Each key counts 640 bytes beside its record.
        max_age: Seconds for which a key is remembered after its call has ended, or its lease has.
        max_entries_per_caller: Keys of one caller, at most.
        max_bytes_per_caller: Bytes of one caller's keys with their records, at most.

    Raises:
        ValueError: If a limit isn't above 0.
    """

    def __init__(
        self,
        max_entries: int = 100_000,
        max_bytes: int = 128 << 20,
        max_age: float = 86_400,
        *,
        max_entries_per_caller: int = 10_000,
        max_bytes_per_caller: int = 32 << 20,
    ) -> None:
        for what, value in (
            ("max_entries", max_entries),
            ("max_bytes", max_bytes),
            ("max_age", max_age),
            ("max_entries_per_caller", max_entries_per_caller),
            ("max_bytes_per_caller", max_bytes_per_caller),
        ):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"{what} {value!r} is not valid: use a number above 0")
        self.max_entries, self.max_bytes, self.max_age = max_entries, max_bytes, max_age
        self.max_entries_per_caller, self.max_bytes_per_caller = max_entries_per_caller, max_bytes_per_caller
        self._held: dict[str, _Held] = {}  # the longest untouched first
        self._callers: dict[str, _Caller] = {}
        self._size = 0
        self._lock = threading.Lock()

    async def claim(self, key: str, owner: str, record: bytes, lease: float) -> Entry:
        """Take a free key, or say who has it."""
        with self._lock:
            now = time.monotonic()
            self._forget_old(now)
            held = self._held.get(key)
            if held is not None and held.expires < now:
                self._drop(key)
                held = None
            if held is None or (held.owner == owner and held.lease_ends is not None):
                self._put(key, _Held(owner, record, now + lease, now + lease + self.max_age))
                return Entry("claimed")
            if held.lease_ends is None:
                return Entry("done", held.record)
            return Entry("lost" if held.lease_ends < now else "in_progress", held.record)

    async def renew(self, key: str, owner: str, lease: float) -> None:
        """Keep a key in progress for `lease` seconds from now."""
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.owner == owner and held.lease_ends is not None:
                now = time.monotonic()
                self._put(key, _Held(owner, held.record, now + lease, now + lease + self.max_age))

    async def finish(self, key: str, owner: str, record: bytes) -> None:
        """Make a key done, with the record that every retry gets."""
        with self._lock:
            held = self._held.get(key)
            if held is None or held.owner == owner:
                self._put(key, _Held(owner, record, None, time.monotonic() + self.max_age))

    async def release(self, key: str, owner: str) -> None:
        """Forget a key that is in progress for the owner."""
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.owner == owner and held.lease_ends is not None:
                self._drop(key)

    def _put(self, key: str, new: _Held) -> None:
        """Set a key, as the last one touched. Its caller makes room for it."""
        old = self._held.get(key)
        caller = self._callers.get(key[:CALLER_DIGITS]) or _Caller()
        count, size = int(old is None), new.size - (old.size if old is not None else 0)
        going: list[str] = []
        finished = self._finished(caller, key)
        while self._is_too_much_for(caller, count, size):
            oldest = next(finished, None)
            if oldest is None:
                raise RuntimeError("the caller has no room for another idempotency key: its calls in progress fill it")
            going.append(oldest)
            count, size = count - 1, size - self._held[oldest].size
        # Its own keys stay if others fill the store: no other caller can make them go.
        if (count > 0 and len(self._held) + count > self.max_entries) or (
            size > 0 and self._size + size > self.max_bytes
        ):
            raise RuntimeError("the memory of idempotency keys is full of other callers' keys")
        for oldest in (*going, *([key] if old is not None else ())):
            self._drop(oldest)
        self._held[key] = new
        caller = self._callers.setdefault(key[:CALLER_DIGITS], caller)
        caller.keys[key] = None
        caller.size += new.size
        self._size += new.size

    def _is_too_much_for(self, caller: _Caller, count: int, size: int) -> bool:
        """Return True if so many more keys and bytes break a limit of the caller. A key that shrinks never does."""
        entries = min(self.max_entries_per_caller, self.max_entries)
        limit = min(self.max_bytes_per_caller, self.max_bytes)
        return (count > 0 and len(caller.keys) + count > entries) or (size > 0 and caller.size + size > limit)

    def _finished(self, caller: _Caller, key: str) -> Iterator[str]:
        return (k for k in caller.keys if k != key and self._held[k].lease_ends is None)

    def _drop(self, key: str) -> None:
        held = self._held.pop(key)
        self._size -= held.size
        caller = self._callers[key[:CALLER_DIGITS]]
        caller.size -= held.size
        del caller.keys[key]
        if not caller.keys:
            del self._callers[key[:CALLER_DIGITS]]

    def _forget_old(self, now: float) -> None:
        while self._held:
            key, held = next(iter(self._held.items()))
            if held.expires >= now:
                return
            self._drop(key)
