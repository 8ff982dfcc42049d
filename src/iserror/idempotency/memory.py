"""`MemoryStore`: keys in the memory of this process."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from iserror.idempotency.store import Entry


@dataclass
class _Held:
    owner: str
    record: bytes
    lease_ends: float | None
    """By `time.monotonic()`; None once it is done."""
    expires: float
    """By the same clock: when it is forgotten."""


class MemoryStore:
    """Keep keys in this process: gone with it, and unknown to others.

    Where it is full, the oldest finished keys are forgotten; a key in progress never is, so one more is refused then.

    Args:
        max_entries: Keys at most.
        max_bytes: Bytes of all records together, at most.
        max_age: Seconds for which a key is remembered after its call has ended, or its lease has.

    Raises:
        ValueError: If a limit isn't above 0.
    """

    def __init__(self, max_entries: int = 10_000, max_bytes: int = 64 << 20, max_age: float = 86_400) -> None:
        for what, value in (("max_entries", max_entries), ("max_bytes", max_bytes), ("max_age", max_age)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ValueError(f"{what} {value!r} is not valid: use a number above 0")
        self.max_entries, self.max_bytes, self.max_age = max_entries, max_bytes, max_age
        self._held: dict[str, _Held] = {}  # the longest untouched first
        self._bytes = 0
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
        """Set a key, as the last one touched; make room for it first."""
        old = self._held.get(key)
        size = self._bytes + len(new.record) - (len(old.record) if old is not None else 0)
        count = len(self._held) + (old is None)
        finished = (k for k, held in self._held.items() if held.lease_ends is None and k != key)
        going: list[str] = []
        while count > self.max_entries or size > self.max_bytes:
            oldest = next(finished, None)
            if oldest is None:
                raise RuntimeError("the memory of idempotency keys is full of calls in progress")
            going.append(oldest)
            count, size = count - 1, size - len(self._held[oldest].record)
        for oldest in (*going, *([key] if old is not None else ())):
            self._drop(oldest)
        self._held[key] = new
        self._bytes += len(new.record)

    def _drop(self, key: str) -> None:
        self._bytes -= len(self._held.pop(key).record)

    def _forget_old(self, now: float) -> None:
        while self._held:
            key, held = next(iter(self._held.items()))
            if held.expires >= now:
                return
            self._drop(key)
