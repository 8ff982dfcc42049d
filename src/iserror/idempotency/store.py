"""The interface of a store, and what a claim finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

CALLER_DIGITS: Final = 16
"""The first digits of a key. They are the same for all keys of one caller, and differ between callers."""

State: TypeAlias = Literal["claimed", "in_progress", "lost", "done"]


@dataclass(frozen=True)
class Entry:
    """Say what a claim found.

    Args:
        state: `"claimed"`: the key was free, and is the caller's now. `"in_progress"`: another call has it.
            `"lost"`: the call that had it stopped renewing its lease, and it isn't known how far it got; no other may
            ever have the key. `"done"`: a call with it has finished.
        record: What the call that has the key wrote last; empty when it was claimed.
    """

    state: State
    record: bytes = b""


class IdempotencyStore(Protocol):
    """
    Keep the keys of calls. Each method is atomic; what it raises fails a claim and nothing else.

    All of them are called on one event loop that the library runs in its own thread, whichever loop or thread
    the tool runs in. A call of more than 10 s is given up.
    """

    async def claim(self, key: str, owner: str, record: bytes, lease: float) -> Entry:
        """Take a free key, or say who has it.

        A key that is in progress for the same owner is its own again: the answer to its claim was lost.

        Args:
            key: 64 hex digits. The first 16 are the same for all keys of one caller, so that a store can limit what
                each may keep.
            owner: Token of this call, 32 hex digits.
            record: What to keep with the key until the call finishes.
            lease: Seconds until the key counts as lost, if it is not renewed.
        """
        ...

    async def renew(self, key: str, owner: str, lease: float) -> None:
        """Keep a key in progress for `lease` seconds from now; nothing if it is not the owner's or is finished."""
        ...

    async def finish(self, key: str, owner: str, record: bytes) -> None:
        """Make a key done, with the record that every retry gets; also if its lease ran out or the key is gone.

        Nothing if another owner has it.
        """
        ...

    async def release(self, key: str, owner: str) -> None:
        """Forget a key that is in progress for the owner, so that the next call with it runs."""
        ...
