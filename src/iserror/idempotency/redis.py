"""`RedisStore`: keys in Redis or Valkey, which several processes share. Needs the `iserror[redis]` extra."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from iserror.idempotency import loop
from iserror.idempotency.store import Entry

if TYPE_CHECKING:
    from redis.asyncio import Redis

# A hash per key: `owner`, `record`, and `lease`, the server's time in ms at which it ends, empty once it is done. The
# server's clock is the only one, and each script may run twice: a lost answer is asked for again.
_NOW: Final = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
_CLAIM: Final = (
    _NOW
    + """
local held = redis.call('HMGET', KEYS[1], 'owner', 'lease', 'record')
if not held[1] or (held[1] == ARGV[1] and held[2] ~= '') then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'record', ARGV[2], 'lease', string.format('%.0f', now + ARGV[3]))
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return {'claimed', ''}
end
if held[2] == '' then return {'done', held[3]} end
if tonumber(held[2]) < now then return {'lost', held[3]} end
return {'in_progress', held[3]}
"""
)
_RENEW: Final = (
    _NOW
    + """
local held = redis.call('HMGET', KEYS[1], 'owner', 'lease')
if held[1] == ARGV[1] and held[2] ~= '' then
  redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', now + ARGV[2]))
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
"""
)
_FINISH: Final = """
local owner = redis.call('HGET', KEYS[1], 'owner')
if not owner or owner == ARGV[1] then
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'record', ARGV[2], 'lease', '')
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
"""
_RELEASE: Final = """
local held = redis.call('HMGET', KEYS[1], 'owner', 'lease')
if held[1] == ARGV[1] and held[2] ~= '' then redis.call('DEL', KEYS[1]) end
"""


class RedisStore:
    """Keep keys in Redis or Valkey, so that several processes share them.

    They are as safe as the server's data: what it forgets (a restart without persistence, an eviction, a failover
    that lost writes) may run again.

    Args:
        url: As redis-py reads it: `redis://`, `rediss://` or `unix://`, with user, password and database.
        prefix: What each key begins with; the rest is a hash.
        max_age: Seconds for which a key is remembered after its call has ended, or its lease has; at least 1.
        timeout: Seconds for connecting, and for an answer; each is tried twice.

    Raises:
        ImportError: The package `redis` is missing.
        ValueError: A malformed URL or limit.
    """

    def __init__(self, url: str, *, prefix: str = "iserror:", max_age: float = 86_400, timeout: float = 2.0) -> None:
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import ConstantBackoff
            from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004
        except ImportError as exc:
            raise ImportError("RedisStore needs the package redis: install iserror[redis]") from exc
        for what, value, least in (("max_age", max_age, 1), ("timeout", timeout, 0.01)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
                raise ValueError(f"{what} {value!r} is not valid: use a number of seconds, {least:g} or more")

        def connect() -> Redis:
            return Redis.from_url(
                url,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(ConstantBackoff(0.05), 1),
                retry_on_error=[ConnectionError, TimeoutError],
            )

        try:
            wrong = "decode_responses" in connect().connection_pool.connection_kwargs
        except ValueError:
            # What redis-py or urllib says may quote a part of the password.
            raise ValueError("malformed Redis URL: use redis://, rediss:// or unix://") from None
        if wrong:
            raise ValueError("the Redis URL says decode_responses, but records are bytes: leave it out")
        self._connect = connect
        self._prefix = prefix
        self._max_age = int(max_age * 1000)
        # A connection belongs to the loop that it was opened on.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Redis] = WeakKeyDictionary()
        self._asked: set[asyncio.Future[Any]] = set()

    async def claim(self, key: str, owner: str, record: bytes, lease: float) -> Entry:
        """Take a free key, or say who has it."""
        state, found = await self._run(_CLAIM, key, owner, record, *self._terms(lease))
        return Entry(state.decode(), found)

    async def renew(self, key: str, owner: str, lease: float) -> None:
        """Keep a key in progress for `lease` seconds from now."""
        await self._run(_RENEW, key, owner, *self._terms(lease))

    async def finish(self, key: str, owner: str, record: bytes) -> None:
        """Make a key done, with the record that every retry gets."""
        await self._run(_FINISH, key, owner, record, self._max_age)

    async def release(self, key: str, owner: str) -> None:
        """Forget a key that is in progress for the owner."""
        await self._run(_RELEASE, key, owner)

    def _terms(self, lease: float) -> tuple[int, int]:
        """Milliseconds for which a key is its owner's, and for which it is remembered if it isn't renewed."""
        return int(lease * 1000), int(lease * 1000) + self._max_age

    async def aclose(self) -> None:
        """Close the connections of this loop and of the library's; the next use opens new ones."""
        await self._close()
        if loop.is_running():
            await loop.wait(loop.submit(self._close()))

    async def _close(self) -> None:
        here = asyncio.get_running_loop()
        asked = [command for command in self._asked if command.get_loop() is here]
        if asked:
            await asyncio.wait(asked)
        client = self._clients.pop(here, None)
        if client is not None:
            await client.aclose()

    async def _run(self, script: str, key: str, *arguments: object) -> Any:
        here = asyncio.get_running_loop()
        client = self._clients.get(here)
        if client is None:
            client = self._clients[here] = self._connect()
        run: Any = client.register_script(script)
        asked = asyncio.ensure_future(run(keys=[self._prefix + key], args=arguments))
        self._asked.add(asked)
        try:
            return await asked
        finally:
            self._asked.discard(asked)
