"""Request ids: UUIDv7, sorted by time, unique in every process."""

from __future__ import annotations

import itertools
import os
import time
from typing import Final


class _Ids:
    """UUIDv7 request ids (RFC 9562, section 5.7): milliseconds, random bits of the process, a counter.

    The counter starts at a random number and keeps the ids of a process apart, as section 6.2 allows. A forked child
    draws its own bits.
    """

    def __init__(self) -> None:
        self.draw()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.draw)

    def draw(self) -> None:
        """Draw the bits of this process."""
        bits = os.urandom(9).hex()
        self._middle = f"7{bits[:3]}{'89ab'[int(bits[3], 16) % 4]}{bits[4:11]}"
        self._last = 0, ""
        self._count = itertools.count(int(bits[10:], 16) & 0xFFFF_FFFF).__next__

    def mint(self) -> str:
        """Return the id of a call that comes in now."""
        now = time.time_ns() // 1_000_000
        last, prefix = self._last
        if now != last:
            prefix = f"{now:012x}{self._middle}"
            self._last = now, prefix
        return f"{prefix}{self._count() & 0xFFFF_FFFF:08x}"


new_request_id: Final = _Ids().mint
"""Returns the id of a call that comes in now: 32 hex digits."""
