"""The stores' own contract, in memory and in a real Redis server, and random sequences of calls. It knows no host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from pydantic import BaseModel, Field, SecretStr

from iserror import ToolErrors, ToolFailure
from iserror.idempotency import Idempotency, IdempotencyStore, MemoryStore, RedisStore, record, scope
from iserror.idempotency.memory import OVERHEAD
from tests.helpers.clock import Clock
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.hostless, pytest.mark.anyio]
A, B, C = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[IdempotencyStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    made = RedisStore(request.getfixturevalue("redis").url, prefix=f"{request.node.name}:")
    yield made
    await made.aclose()


@pytest.fixture
def elapse(request: pytest.FixtureRequest, clock: Clock) -> Callable[[float], None]:
    """Lets time pass for the store of a test."""

    def passed(seconds: float) -> None:
        clock.forward(seconds)
        if "redis" in request.node.callspec.params.values():
            request.getfixturevalue("redis").elapse(seconds)

    return passed


async def test_one_of_many_claims_wins(store: IdempotencyStore) -> None:
    """Of claims at once exactly one gets the key, and the others learn what it wrote."""
    found = await asyncio.gather(*(store.claim("k", f"{n:032x}", b"%d" % n, 10) for n in range(50)))
    (winner,) = [n for n, entry in enumerate(found) if entry.state == "claimed"]
    assert {(e.state, e.record) for n, e in enumerate(found) if n != winner} == {("in_progress", b"%d" % winner)}


async def test_done_for_good(store: IdempotencyStore) -> None:
    """A finished key gives its record to everybody, is not released, renewed or claimed, and is not its own's again."""
    await store.claim("k", A, b"begun", 10)
    await store.finish("k", A, b"\x00ended")
    await store.release("k", A)
    await store.renew("k", A, 10)
    for owner in (A, B):
        entry = await store.claim("k", owner, b"other", 10)
        assert (entry.state, entry.record) == ("done", b"\x00ended")


async def test_released_is_free(store: IdempotencyStore) -> None:
    """A released key is anybody's; only its owner can release it."""
    await store.claim("k", A, b"begun", 10)
    await store.release("k", B)
    assert (await store.claim("k", B, b"", 10)).state == "in_progress"
    await store.release("k", A)
    assert (await store.claim("k", B, b"", 10)).state == "claimed"


async def test_an_expired_lease_is_lost(store: IdempotencyStore, elapse: Callable[[float], None]) -> None:
    """A key that was not renewed is lost to all others; its late owner may still say how it ended."""
    await store.claim("k", A, b"begun", 60)
    elapse(61)
    for _ in range(2):
        entry = await store.claim("k", B, b"", 10)
        assert (entry.state, entry.record) == ("lost", b"begun")
    await store.finish("k", B, b"not mine")
    assert (await store.claim("k", B, b"", 10)).state == "lost"
    await store.finish("k", A, b"late")
    assert (await store.claim("k", B, b"", 10)).record == b"late"


async def test_a_renewed_lease_holds(store: IdempotencyStore, elapse: Callable[[float], None]) -> None:
    """Renewing keeps a key in progress, and only its owner can."""
    await store.claim("k", A, b"", 60)
    await store.claim("l", A, b"", 60)
    await store.renew("k", A, 600)
    await store.renew("l", B, 600)
    elapse(61)
    assert (await store.claim("k", B, b"", 10)).state == "in_progress"
    assert (await store.claim("l", B, b"", 10)).state == "lost"


async def test_a_claim_whose_answer_was_lost(store: IdempotencyStore) -> None:
    """Asked again with the same owner, a claim is granted again."""
    await store.claim("k", A, b"", 10)
    assert (await store.claim("k", A, b"", 10)).state == "claimed"


async def test_finished_without_a_claim(store: IdempotencyStore) -> None:
    """The end of a call whose key the store lost meanwhile is kept."""
    await store.finish("k", A, b"ended")
    assert (await store.claim("k", B, b"", 10)).state == "done"


@pytest.mark.parametrize("kind", ["memory", "redis"])
async def test_a_key_is_forgotten_in_time(kind: str, redis: RedisServer, elapse: Callable[[float], None]) -> None:
    """After `max_age` a finished key is free again."""
    made: Any = MemoryStore(max_age=60) if kind == "memory" else RedisStore(redis.url, prefix="age:", max_age=60)
    await made.claim("k", A, b"", 10)
    await made.finish("k", A, b"")
    assert (await made.claim("k", B, b"", 10)).state == "done"
    elapse(30)
    assert (await made.claim("k", B, b"", 10)).state == "done"
    elapse(31)
    assert (await made.claim("k", B, b"", 10)).state == "claimed"
    if kind == "redis":
        await made.aclose()


@pytest.mark.parametrize("kind", ["memory", "redis"])
async def test_a_key_in_progress_is_not_forgotten(
    kind: str, redis: RedisServer, elapse: Callable[[float], None]
) -> None:
    """A key in progress outlives `max_age`: it is kept for as long as its lease, and `max_age` beyond it."""
    made: Any = MemoryStore(max_age=60) if kind == "memory" else RedisStore(redis.url, prefix="long:", max_age=60)
    await made.claim("k", A, b"", 120)
    elapse(90)
    assert (await made.claim("k", B, b"", 10)).state == "in_progress"
    await made.renew("k", A, 120)
    elapse(90)
    assert (await made.claim("k", B, b"", 10)).state == "in_progress"
    elapse(60)
    assert (await made.claim("k", B, b"", 10)).state == "lost"
    elapse(31)
    assert (await made.claim("k", B, b"", 10)).state == "claimed"
    if kind == "redis":
        await made.aclose()


async def test_memory_forgets_behind_a_key_in_progress(clock: Clock) -> None:
    """A finished key is forgotten in time though an older one is still in progress."""
    store = MemoryStore(max_age=60)
    await store.claim("going", A, b"", 600)
    await store.finish("k", A, b"")
    clock.forward(61)
    assert (await store.claim("k", B, b"", 10)).state == "claimed"


def key_of(caller: str, number: int) -> str:
    """A key of a caller, in the form that stores get."""
    return scope.digest(caller)[:16] + scope.digest(number)[16:]


async def fill(store: MemoryStore, caller: str, count: int, record: bytes = b"") -> None:
    for number in range(count):
        await store.claim(key_of(caller, number), A, b"", 10)
        await store.finish(key_of(caller, number), A, record)


async def states(store: MemoryStore, caller: str, count: int) -> list[str]:
    """What a claim would find, without claiming."""
    held = [store._held.get(key_of(caller, number)) for number in range(count)]
    return ["free" if h is None else "done" if h.lease_ends is None else "in_progress" for h in held]


async def test_memory_forgets_the_callers_oldest_finished() -> None:
    """At its limit of entries a caller loses its oldest finished key, never one in progress, else it is refused."""
    store = MemoryStore(max_entries_per_caller=3)
    for number in range(3):
        await store.claim(key_of("me", number), A, b"", 10)
    with pytest.raises(RuntimeError, match="no room for another idempotency key"):
        await store.claim(key_of("me", 3), A, b"", 10)
    await store.finish(key_of("me", 1), A, b"")
    await store.finish(key_of("me", 2), A, b"")
    assert (await store.claim(key_of("me", 3), A, b"", 10)).state == "claimed"
    assert await states(store, "me", 4) == ["in_progress", "free", "done", "in_progress"]


async def test_a_caller_takes_nothing_from_another() -> None:
    """However many keys and bytes a caller uses, another one's stay, and the whole stays within its limits."""
    store = MemoryStore(max_entries=100, max_bytes=100_000, max_entries_per_caller=10, max_bytes_per_caller=20_000)
    await fill(store, "victim", 3)
    await fill(store, "many", 1_000)
    assert await states(store, "victim", 3) == ["done"] * 3
    assert len(store._held) == 3 + 10
    await fill(store, "large", 30, b"x" * 4_000)
    assert await states(store, "victim", 3) == ["done"] * 3
    assert len(store._held) == 3 + 10 + 4
    assert (
        store._size == sum(held.size for held in store._held.values()) == sum(c.size for c in store._callers.values())
    )
    assert store._size <= store.max_bytes


@pytest.mark.parametrize("limits", [{"max_entries": 10}, {"max_bytes": 10 * OVERHEAD}])
async def test_a_full_memory_refuses(limits: dict[str, int], clock: Clock) -> None:
    """If all callers together fill the store, new keys are refused, also where own keys could go; none is lost."""
    store = MemoryStore(max_age=60, **limits)
    await fill(store, "victim", 3)
    for caller in range(7):
        await fill(store, str(caller), 1)
    with pytest.raises(RuntimeError, match="full of other callers' keys"):
        await store.claim(key_of("new", 0), A, b"", 10)
    with pytest.raises(RuntimeError, match="full of other callers' keys"):
        await store.claim(key_of("victim", 3), A, b"", 10)
    assert await states(store, "victim", 4) == ["done"] * 3 + ["free"]
    assert len(store._held) == 10
    clock.forward(61)
    assert (await store.claim(key_of("new", 0), A, b"", 10)).state == "claimed"
    assert len(store._callers) == 1


async def test_a_call_ends_in_a_full_memory() -> None:
    """A call that has begun is renewed and finished though the store is full; a record without room leaves its key."""
    store = MemoryStore(max_entries=2, max_bytes=3 * OVERHEAD)
    await store.claim(key_of("me", 0), A, b"begun", 10)
    await fill(store, "other", 1, b"x" * (OVERHEAD - 5))
    await store.renew(key_of("me", 0), A, 20)
    with pytest.raises(RuntimeError, match="full"):
        await store.finish(key_of("me", 0), A, b"x" * 10)
    assert await states(store, "me", 1) == ["in_progress"]
    await store.finish(key_of("me", 0), A, b"short")
    assert await states(store, "me", 1) == ["done"]


async def test_memory_is_bounded_in_bytes() -> None:
    """At its limit of bytes a caller's oldest finished records go; what alone is too large is refused."""
    store = MemoryStore(max_bytes_per_caller=2 * OVERHEAD + 100)
    await fill(store, "me", 3, b"x" * 40)
    assert await states(store, "me", 3) == ["free", "done", "done"]
    await store.claim(key_of("me", 0), B, b"", 10)
    with pytest.raises(RuntimeError):
        await store.finish(key_of("me", 0), B, b"x" * (OVERHEAD + 101))


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_one_tenant_evicts_nothing_of_another(kind: str, request: pytest.FixtureRequest) -> None:
    """However many keys somebody else uses, the repeat of a write doesn't run again."""
    store: IdempotencyStore = MemoryStore(max_entries_per_caller=20)
    if kind == "redis":
        store = RedisStore(request.getfixturevalue("redis").url, prefix="tenants:")
    who = ["victim"]
    effects: list[str] = []
    guard = ToolErrors(idempotency=Idempotency(store, subject=lambda: who[0]))

    @guard(idempotency_key="key")
    async def pay(amount: int, key: str | None = None) -> str:
        effects.append(who[0])
        return "paid"

    @guard(idempotency_key="key")
    async def note(text: str, key: str | None = None) -> str:
        return "noted"

    async def calls() -> None:
        await pay(100, key="invoice-7")
        who[0] = "somebody else"
        for number in range(200):
            await note("x", key=f"k{number}")
        who[0] = "victim"
        assert await pay(100, key="invoice-7") == "paid"
        if isinstance(store, RedisStore):
            await store.aclose()

    asyncio.run(calls())
    assert effects == ["victim"]


def test_the_caller_begins_the_key() -> None:
    """Keys of one caller begin alike, whichever the tool, and those of another caller don't."""
    settings = [Idempotency(subject=lambda name=name: name) for name in ("me", "you")]  # type: ignore[misc]
    mine, yours = (
        {scope.scoped(s, "server", None, (tool,), key)[:16] for tool in ("a", "b") for key in ("k", "l")}
        for s in settings
    )
    assert len(mine) == len(yours) == 1
    assert mine != yours


def test_memory_in_threads_and_loops() -> None:
    """Claims from the event loops of many threads are atomic."""
    store, won = MemoryStore(), []

    def claim(n: int) -> None:
        for key in range(200):
            if asyncio.run(store.claim(str(key), f"{n:032x}", b"", 10)).state == "claimed":
                won.append(key)

    threads = [threading.Thread(target=claim, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(200))


@pytest.mark.parametrize(
    "limits", [{"max_entries": 0}, {"max_bytes": -1}, {"max_age": 0}, {"max_age": True}, {"max_bytes_per_caller": 0}]
)
def test_wrong_limits_of_memory(limits: dict[str, Any]) -> None:
    """A limit of no sense is refused."""
    with pytest.raises(ValueError, match="is not valid"):
        MemoryStore(**limits)


@pytest.mark.parametrize("limits", [{"max_age": 0.5}, {"timeout": 0}, {"timeout": float("inf")}])
def test_wrong_limits_of_redis(limits: dict[str, Any]) -> None:
    """A limit of no sense, and a malformed URL, are refused when the store is made."""
    with pytest.raises(ValueError, match="is not valid"):
        RedisStore("redis://127.0.0.1/0", **limits)
    with pytest.raises(ValueError, match="URL"):
        RedisStore("nonsense")
    with pytest.raises(ValueError, match="decode_responses"):
        RedisStore("redis://127.0.0.1/0?decode_responses=True")


@pytest.mark.parametrize("url", ["redis://:s3cr/et@h:1/0", "redis://:s3cret@h:s3cr", "s3cr://"])
def test_a_malformed_url_shows_nothing(url: str) -> None:
    """What is wrong with a URL is said without any part of it, which may be the password's."""
    with pytest.raises(ValueError, match="malformed Redis URL") as wrong:
        RedisStore(url)
    assert "s3cr" not in str(wrong.value)
    assert wrong.value.__suppress_context__


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without redis-py the error says what to install."""
    import sys

    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ImportError, match=r"install iserror\[redis\]"):
        RedisStore("redis://127.0.0.1/0")


# --- arguments and results ---------------------------------------------------------------------------------------


class Inner(BaseModel):
    names: set[str] = set()
    hidden: str = Field("", exclude=True)
    secret: SecretStr = SecretStr("")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Inner(hidden="a"), Inner(hidden="b")),
        (Inner(secret=SecretStr("a")), Inner(secret=SecretStr("b"))),
        (Inner(names={"a"}), Inner(names={"b"})),
        ({1: 2}, {1: 3}),
        ([1, 2], [2, 1]),
        (True, 1),
        (None, "null"),
        ("1", 1),
        (b"\xff", b"\xfe"),
        ({}, []),
        ([], set()),
        (b"ab", "YWI="),
        (float("nan"), "NaN"),
        ({"a": 1}, [["a", 1]]),
    ],
)
def test_other_arguments_are_other(one: object, other: object) -> None:
    """Values that differ anywhere, also where their JSON does not show it, have different hashes."""
    nothing: frozenset[str] = frozenset()
    assert scope.arguments_digest({"a": one}, nothing) != scope.arguments_digest({"a": other}, nothing)


def test_equal_arguments_are_equal() -> None:
    """The order of sets and dicts does not count, and neither does what is left out."""
    names = [str(n) for n in range(50)]
    one = {"a": Inner(names=set(names)), "b": {"x": 1, "y": 2}, "key": "k"}
    other = {"b": {"y": 2, "x": 1}, "a": Inner(names={*names, *names}), "key": "l"}
    assert scope.arguments_digest(one, frozenset({"key"})) == scope.arguments_digest(other, frozenset({"key"}))


def test_a_context_is_no_argument() -> None:
    """A host's context does not count, whatever it holds; a model of a host's does, since it is data."""
    context = type("Context", (BaseModel,), {"__module__": "mcp.server.x", "__annotations__": {"n": int}})
    model = type("Root", (BaseModel,), {"__module__": "mcp.types", "__annotations__": {"n": int}})
    of = [[scope.arguments_digest({"a": kind(n=n)}, frozenset()) for n in (1, 2)] for kind in (context, model)]
    assert of[0][0] == of[0][1]
    assert of[1][0] != of[1][1]


@pytest.mark.parametrize(("key", "text"), [("k", "k"), (42, "42"), (UUID(int=7), str(UUID(int=7)))])
def test_what_a_key_may_be(key: object, text: str) -> None:
    """A text, an integer and a UUID are keys."""
    assert scope.key_text(key) == text


@pytest.mark.parametrize("key", [True, 1.5, b"k", object(), "", "x" * 256, "\x00", "\u200b", 10**300])
def test_what_a_key_may_not_be(key: object) -> None:
    """Anything else is none."""
    with pytest.raises(ValueError, match="printable"):
        scope.key_text(key)


def _typed() -> Inner: ...  # type: ignore[empty-body]
def _untyped(): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("fn", "value"),
    [(_typed, Inner(names={"a"})), (_untyped, {"a": [1, None]}), (_untyped, None), (_untyped, "\u2028\ud800")],
)
def test_results_come_back_equal(fn: Any, value: object) -> None:
    """A result is rebuilt as what it was."""
    kept = record.read(record.packed(record.of_result(fn, value)))
    again = record.result_in(fn, kept)
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("value", [object(), Inner(secret=SecretStr("s")), float("nan"), lambda: None])
def test_what_cannot_be_rebuilt_is_not_kept(value: object) -> None:
    """A result that JSON would change, or lose a secret of, is not kept."""
    assert record.of_result(_typed if isinstance(value, Inner) else _untyped, value) == record.LOST


@pytest.mark.parametrize("stored", [b"", b"\xff", b"[]", b"{", b"null", b'{"arguments":1}'])
def test_a_corrupt_record_is_unknown(stored: bytes) -> None:
    """What is no record of ours reads as an unknown outcome, not as a result."""
    problem = record.problem_in(record.read(stored))
    assert problem is not None
    assert (problem.code, problem.outcome, problem.can_help) == ("OUTCOME_UNKNOWN", "unknown", False)


# --- random sequences --------------------------------------------------------------------------------------------

ENDS = ("return", "applied", "partial", "unknown", "not_applied", "crash", "cancelled")


class Calls(RuleBasedStateMachine):
    """Calls in any order against a model of what each key must answer."""

    def __init__(self) -> None:
        super().__init__()
        guard = ToolErrors(idempotency=Idempotency(subject=lambda: "me", lease=5))
        self.runs = 0
        self.settled: dict[str, tuple[int, str, int]] = {}

        @guard(idempotency_key="key")
        async def pay(amount: int, ending: list[str], key: str | None = None) -> int:
            self.runs += 1
            end = self.end
            if end == "crash":
                raise RuntimeError
            if end == "cancelled":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(1)
            if end != "return":
                raise ToolFailure("ENDED_SO", "It ended so.", category="internal", outcome=end)  # type: ignore[arg-type]
            return self.runs

        self.pay = pay

    @rule(key=st.sampled_from(["k", "l", None]), amount=st.integers(1, 2), end=st.sampled_from(ENDS))
    def call(self, key: str | None, amount: int, end: str) -> None:
        self.end = end
        before = self.runs
        got, value = asyncio.run(self._call(key, amount))
        if key is None or key not in self.settled:
            assert self.runs == before + 1
            assert got == {"return": "return", "crash": "INTERNAL_ERROR", "cancelled": "cancelled"}.get(end, "ENDED_SO")
            if key is not None and end != "not_applied":
                self.settled[key] = (amount, {"cancelled": "OUTCOME_UNKNOWN"}.get(end, got), value)
            return
        assert self.runs == before
        first_amount, first_got, first_value = self.settled[key]
        if amount != first_amount:
            assert got == "IDEMPOTENCY_KEY_REUSED"
        else:
            assert (got, value) == (first_got, first_value)

    async def _call(self, key: str | None, amount: int) -> tuple[str, int]:
        task = asyncio.ensure_future(self.pay(amount, [], key))
        try:
            return "return", await task
        except ToolFailure as exc:
            return exc.code, 0
        except asyncio.CancelledError:
            return "cancelled", 0


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
