"""`Ticket`: one call's claim to an idempotency key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

from iserror.idempotency import loop, record
from iserror.idempotency.settings import Idempotency
from iserror.idempotency.store import Entry
from iserror.layers.call import Call
from iserror.logs.sink import tell_once

STORE_LIMIT: Final = 10.0
"""Seconds for one answer of the store."""
FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks at a key that another call has."""

held: Final[ContextVar[tuple[Ticket, ...]]] = ContextVar("iserror_idempotency_held", default=())
"""The claims of the calls that are running here, one inside another."""


class Ticket:
    """One call's claim to a key. Its coroutines run on the store's loop."""

    def __init__(self, settings: Idempotency, call: Call, key: str, arguments: str, limit: float | None) -> None:
        self.store = settings.store
        self.wait = settings.wait if limit is None else min(settings.wait, 0.9 * limit)
        self.lease = settings.lease
        self.call = call
        self.key = key
        self.begun = record.begun(arguments, call.root.request_id)
        self.owner = secrets.token_hex(16)
        self.running = False
        self._gone = False
        self._beat: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self.running = True
        self._before = held.set((*held.get(), self))

    def __exit__(self, *exc: object) -> None:
        self.running = False
        with suppress(ValueError):
            held.reset(self._before)

    @staticmethod
    def claimed_by(found: Entry | Exception | None) -> bool:
        """Whether the key is this call's now."""
        return isinstance(found, Entry) and found.state == "claimed"

    def is_repeated_by(self, kept: dict[str, Any]) -> bool:
        """Whether a record is of a call with the same arguments."""
        return bool(kept.get("arguments") == self.begun["arguments"])

    async def acquire(self) -> Entry | Exception:
        """Claim the key, or wait for the call that has it; what there is then, or why nobody knows."""
        ends = asyncio.get_running_loop().time() + self.wait
        pause = FIRST_PAUSE
        while True:
            try:
                found: Entry = await self._ask(
                    self.store.claim(self.key, self.owner, record.packed(self.begun), self.lease)
                )
            except Exception as exc:
                self._late = asyncio.create_task(self._release_quietly())  # it may have got there
                return exc
            if found.state == "claimed":
                self._beat = asyncio.create_task(self._renew())
                if self._gone:
                    await self.release()
                return found
            left = ends - asyncio.get_running_loop().time()
            waits = found.state == "in_progress" and self.is_repeated_by(record.read(found.record))
            if not waits or left <= 0 or self._gone:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def leave(self) -> None:
        """Give the key back, now or once it is claimed: the caller has gone."""
        self._gone = True
        loop.submit(self._give_back())

    async def _give_back(self) -> None:
        if self._beat is not None:
            await self.release()

    async def finish(self, ended: Mapping[str, Any]) -> None:
        """Make the key done; without more than who and what, for an unknown outcome."""
        await self._end(self.store.finish(self.key, self.owner, record.packed({**self.begun, **ended})))

    async def release(self) -> None:
        """Make the key free."""
        await self._end(self.store.release(self.key, self.owner))

    async def _end(self, asked: Coroutine[Any, Any, None]) -> None:
        if self._beat is not None:
            self._beat.cancel()
        try:
            await self._ask(asked)
        except Exception:
            tell_once(
                "idempotency_store",
                "the store of idempotency keys did not take how a call ended; its key reads as unknown from now on",
            )

    async def _release_quietly(self) -> None:
        with suppress(Exception):
            await self._ask(self.store.release(self.key, self.owner))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.lease / 3)
            with suppress(Exception):  # it is tried again, and the end of the call tells
                await self._ask(self.store.renew(self.key, self.owner, self.lease))

    @staticmethod
    async def _ask(asked: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.wait_for(asked, STORE_LIMIT)
