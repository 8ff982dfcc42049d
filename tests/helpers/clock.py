"""Clocks that a test sets forward, so that it waits for nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest


class Clock:
    """A clock that is ahead of the real one by what the test says; event loops and modules can be set to it."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._loops: list[asyncio.AbstractEventLoop] = []

    def drive(self) -> None:
        """Make it the running loop's."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            real = loop.time
            loop.time = lambda: real() + self.ahead  # type: ignore[method-assign]
            self._loops.append(loop)

    def forward(self, seconds: float) -> None:
        """Let so many seconds have passed; what waits for them goes on now."""
        self.ahead += seconds
        for loop in self._loops:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: None)  # it sleeps by what its clock was

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def stop(self) -> None:
        """Give the loops their own clock again."""
        for loop in self._loops:
            del loop.time  # type: ignore[method-assign]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """A clock for the loops of this test; the memory store goes by it."""
    from iserror.idempotency import memory

    made = Clock()
    monkeypatch.setattr(memory, "time", SimpleNamespace(monotonic=made.monotonic))
    yield made
    made.stop()
