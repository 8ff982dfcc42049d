"""A store of idempotency keys that a test can watch."""

from __future__ import annotations

import threading
from typing import Any

import anyio.to_thread

from iserror.idempotency import Entry, MemoryStore
from tests.helpers.clock import Clock


class Watched(MemoryStore):
    """A store that says who waits for a key, and how often a lease was renewed.

    Args:
        clock: Drives the stores' loop, too.
        passing: Seconds that pass whenever a call finds a key taken.
    """

    def __init__(self, clock: Clock | None = None, passing: float = 0) -> None:
        super().__init__()
        self.waiting: set[str] = set()
        self.renewals = 0
        self._clock = clock
        self._passing = passing
        self._changed = threading.Condition()

    async def claim(self, key: str, owner: str, record: bytes, lease: float) -> Entry:
        if self._clock is not None:
            self._clock.drive()
        found = await super().claim(key, owner, record, lease)
        if found.state == "in_progress":
            with self._changed:
                self.waiting.add(owner)
                self._changed.notify_all()
            if self._clock is not None:
                self._clock.forward(self._passing)
        return found

    async def renew(self, *arguments: Any) -> None:
        await super().renew(*arguments)
        with self._changed:
            self.renewals += 1
            self._changed.notify_all()

    def until(self, *, waiting: int = 0, renewals: int = 0) -> None:
        """Wait until so many calls wait for a key, and leases have been renewed so often."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self.waiting) >= waiting and self.renewals >= renewals, 30)
        assert done, f"{len(self.waiting)} wait, {self.renewals} renewals"

    async def until_async(self, *, waiting: int = 0) -> None:
        """The same without holding up the loop."""
        await anyio.to_thread.run_sync(lambda: self.until(waiting=waiting))
