"""Idempotency keys in a real Redis server that several server processes share."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from iserror import ToolErrors, ToolFailure
from iserror.idempotency import Idempotency, RedisStore, loop
from tests.helpers import hosts
from tests.helpers.hosts import RawStdio, text_of
from tests.servers.idempotent_server import Effects
from tests.servers.redis_server import RedisServer

SCRIPT = "tests/servers/idempotent_server.py"
pytestmark = [pytest.mark.hostless, pytest.mark.newest, pytest.mark.anyio]


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture
def redis(shared: RedisServer) -> RedisServer:
    """The server, running and empty."""
    shared.resume()
    shared.stop()
    shared.start()
    return shared


LEASE = 1.0


class Pool:
    """Server processes over stdio that share the Redis server, and take their time to start: one for all tests."""

    def __init__(self, redis: RedisServer, effects: Effects) -> None:
        self.command = SCRIPT, "--redis", redis.url, "--effects", str(effects.file), "--lease", str(LEASE)
        self.effects = effects
        self.started: list[RawStdio] = []

    def take(self, count: int) -> list[RawStdio]:
        """So many that are running."""
        running = [server for server in self.started if server.process.poll() is None]
        more = [RawStdio(*self.command) for _ in range(count - len(running))]
        self.started += more
        return [*running, *more][:count]


@pytest.fixture(scope="module")
def pool(shared: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(shared, Effects(tmp_path_factory.mktemp("pool") / "effects"))
    yield made
    for server in made.started:
        server.close()


@pytest.fixture
def effects(pool: Pool) -> Effects:
    """What the processes did in this test."""
    pool.effects.file.unlink(missing_ok=True)
    return pool.effects


PAY = {"amount": 5, "key": "k"}


def test_a_repeat_in_another_process(redis: RedisServer, pool: Pool, effects: Effects) -> None:
    """A process that never ran a call repeats its result, and its failure, to the last field."""
    one, other = pool.take(2)
    for tool, arguments in (
        ("pay", PAY),
        ("pay_sync", PAY),
        ("give", {"kind": "result", "key": "k"}),
        ("give", {"kind": "host_result", "key": "l"}),
        ("give", {"kind": "blocks", "key": "m"}),
        ("fail", {"kind": "applied", "key": "k"}),
    ):
        first, again = one.call(tool, arguments), other.call(tool, arguments)
        assert hosts.normalize(first) == hosts.normalize(again)
    assert len(effects.all()) == 6


@pytest.mark.timeout(180)
def test_concurrent_duplicates_in_processes(redis: RedisServer, pool: Pool, effects: Effects) -> None:
    """Processes that get the same call at once have one effect between them, and one result."""
    servers = pool.take(4)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for tool in ("pay", "pay_sync"):
            answers = list(threads.map(lambda s: s.call(tool, {**PAY, "hold": 0.4}), servers))
            assert {text_of(answer) for answer in answers} == {text_of(answers[0])}
    assert effects.all() == ["pay 5", "pay_sync 5"]


def test_killed_between_effect_and_store(redis: RedisServer, pool: Pool, effects: Effects) -> None:
    """A process killed after its effect leaves a key that reads as unknown: no other one runs the call again."""
    doomed, other = pool.take(2)
    with pytest.raises(AssertionError, match="no answer: the server ended with -9"):
        doomed.call("die", {"key": "k"})
    answer = other.call("die", {"key": "k"})
    assert "OUTCOME_UNKNOWN: An earlier call with this idempotency key was interrupted" in text_of(answer)
    assert "it may have taken effect, check before any further call" in text_of(answer)
    assert "OUTCOME_UNKNOWN" in text_of(other.call("die", {"key": "k"}))
    assert effects.all() == ["die"]


def test_a_lease_is_renewed_while_the_body_runs(redis: RedisServer, pool: Pool, effects: Effects) -> None:
    """A body that runs for many leases keeps its key, an async one and a sync one that blocks its loop."""
    servers, arguments = pool.take(4), {**PAY, "hold": 4 * LEASE}

    def twice(tool: str, one: RawStdio, other: RawStdio) -> None:
        with concurrent.futures.ThreadPoolExecutor() as threads:
            first = threads.submit(one.call, tool, arguments)
            time.sleep(3 * LEASE)
            again = other.call(tool, arguments)
            assert text_of(again) == text_of(first.result())

    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(twice, ("pay", "pay_sync"), servers[:2], servers[2:]))
    assert sorted(effects.all()) == ["pay 5", "pay_sync 5"]


def test_a_late_owner(redis: RedisServer, pool: Pool, effects: Effects) -> None:
    """A process that stood still beyond its lease reads as unknown, runs nowhere else, and still finishes its key."""
    arguments = {**PAY, "hold": 0.5}
    late, other = pool.take(2)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        first = threads.submit(late.call, "pay", arguments)
        while not effects.all():
            time.sleep(0.01)
        late.process.send_signal(signal.SIGSTOP)
        redis.elapse(LEASE)
        assert "OUTCOME_UNKNOWN" in text_of(other.call("pay", arguments))
        late.process.send_signal(signal.SIGCONT)
        done = text_of(first.result())
        assert text_of(other.call("pay", arguments)) == done
    assert effects.all() == ["pay 5"]


def keyed(redis: RedisServer, runs: list[str], **settings: Any) -> tuple[Any, RedisStore]:
    """A keyed function of this process, and its store."""
    store = RedisStore(redis.url, timeout=0.5)
    guard = ToolErrors(idempotency=Idempotency(store, subject=lambda: "me", **settings))

    @guard(idempotency_key="key")
    async def pay(key: str, hold: float = 0) -> int:
        runs.append(key)
        await anyio.sleep(hold)
        return len(runs)

    return pay, store


@pytest.mark.timeout(20)
async def test_the_server_has_gone(redis: RedisServer) -> None:
    """Without the server nothing runs, the answer comes in bounded time and is retryable; with it again, it runs."""
    runs: list[str] = []
    pay, store = keyed(redis, runs)
    assert await pay("before") == 1
    redis.stop()
    with pytest.raises(ToolFailure) as failed:
        await pay("k")
    assert (failed.value.code, failed.value.retryable) == ("IDEMPOTENCY_STORE_UNAVAILABLE", True)
    assert runs == ["before"]
    redis.start()
    assert await pay("k") == 2
    await store.aclose()


@pytest.mark.timeout(20)
async def test_the_server_hangs(redis: RedisServer) -> None:
    """A server that takes connections and does not answer is unavailable in bounded time, and nothing runs."""
    runs: list[str] = []
    pay, store = keyed(redis, runs)
    assert await pay("before") == 1
    redis.pause()
    with pytest.raises(ToolFailure, match="IDEMPOTENCY_STORE_UNAVAILABLE"):
        await pay("k")
    assert runs == ["before"]
    redis.resume()
    await store.aclose()


async def test_the_server_goes_while_the_body_runs(redis: RedisServer, capfd: pytest.CaptureFixture[str]) -> None:
    """The caller gets its result though the store can no longer take it, and the operator is told."""
    runs: list[str] = []
    pay, store = keyed(redis, runs)
    async with anyio.create_task_group() as group:

        async def stop() -> None:
            while not runs:
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(redis.stop)

        group.start_soon(stop)
        assert await pay("k", 0.3) == 1
    assert "did not take how a call ended" in capfd.readouterr().err
    await store.aclose()


def asking() -> list[str]:
    """The calls that still look for their key, on the stores' loop."""
    assert loop._Thread.loop is not None
    names = [getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks(loop._Thread.loop)]
    return [name for name in names if name == "acquire"]


async def test_closing_waits_for_no_call(redis: RedisServer) -> None:
    """`aclose` does not wait for calls that wait for a key, only for what was asked of the server."""
    runs: list[str] = []
    ended: list[str] = []
    pay, store = keyed(redis, runs, wait=50)

    async def call() -> None:
        await pay("k", 50)
        ended.append("k")

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(call)
        while not runs:
            await anyio.sleep(0.01)
        redis.pause()
        await anyio.sleep(0.3)  # now they all wait for the server
        group.start_soon(anyio.to_thread.run_sync, redis.resume)
        await store.aclose()
        assert ended == []
        group.cancel_scope.cancel()
    while asking():  # those that waited look once more
        await anyio.sleep(0.01)
    assert runs == ["k"]
    await store.aclose()


async def test_what_is_stored_tells_nothing(redis: RedisServer) -> None:
    """Neither key nor arguments of a call stand in the store, and a key is only a hash under the prefix."""
    runs: list[str] = []
    pay, store = keyed(redis, runs)
    await pay("order-4711-of-alice", 0.125)
    await store.aclose()
    from redis.asyncio import Redis

    async with Redis.from_url(redis.url) as client:
        (name,) = await client.keys()
        stored = await client.hgetall(name)
        ttl = await client.pttl(name)
    assert name.startswith(b"iserror:")
    assert len(name) == len("iserror:") + 64
    text = json.dumps([name.decode(), {k.decode(): v.decode() for k, v in stored.items()}])
    assert "4711" not in text
    assert "0.125" not in text
    assert 86_000_000 < ttl <= 86_400_000
