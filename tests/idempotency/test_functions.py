"""Idempotency keys of guarded functions, without a host: who runs, who waits for how long, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from iserror import ToolErrors, ToolFailure
from iserror.idempotency import Entry, Idempotency, IdempotencyStore, MemoryStore
from tests.conftest import Lines
from tests.helpers.clock import Clock
from tests.helpers.stores import Watched
from tests.servers.idempotent_server import PaymentLost, error_map

pytestmark = [pytest.mark.hostless, pytest.mark.anyio]


def mine(store: IdempotencyStore | None = None, **settings: Any) -> Idempotency:
    """Settings for calls in process, where no host tells who is calling."""
    return Idempotency(store, subject=lambda: "me", **settings)


async def test_a_waiter_runs_when_the_first_applied_nothing() -> None:
    """When the first call releases the key, exactly one of those that wait runs, and the others get its result."""
    store = Watched()
    guard, runs = ToolErrors(idempotency=mine(store)), []

    @guard(idempotency_key="key")
    async def pay(key: str) -> int:
        runs.append(key)
        run = len(runs)
        await store.until_async(waiting=4)
        if run == 1:
            raise ToolFailure("NOT_YET", "Not yet.", outcome="not_applied")
        return run

    results: list[object] = []

    async def one() -> None:
        try:
            results.append(await pay("k"))
        except ToolFailure as exc:
            results.append(exc.code)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(one)
    assert sorted(map(str, results)) == ["2", "2", "2", "2", "NOT_YET"]
    assert len(runs) == 2


async def test_a_cancelled_waiter_leaves_at_once() -> None:
    """Cancelling a call that waits for a key ends it while the first call runs, and that keeps the key."""
    store, left = Watched(), anyio.Event()
    guard, runs = ToolErrors(idempotency=mine(store)), []

    @guard(idempotency_key="key")
    async def pay(key: str) -> int:
        runs.append(key)
        await left.wait()
        return len(runs)

    async def cancel_the_waiter() -> None:
        await store.until_async(waiting=1)
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(pay, "k")
        while not runs:
            await anyio.sleep(0)
        with anyio.CancelScope() as scope:
            group.start_soon(cancel_the_waiter)
            await pay("k")
        assert scope.cancelled_caught
        left.set()
        assert await pay("k") == 1
    assert len(runs) == 1


@pytest.mark.parametrize("how", ["scope", "task", "timeout"])
async def test_a_body_that_was_stopped_is_unknown(how: str, clock: Clock) -> None:
    """A call that was cancelled or timed out in its body never runs again, and a repeat says why."""
    guard, runs = ToolErrors(idempotency=mine()), []
    clock.drive()

    @guard(idempotency_key="key", timeout=60 if how == "timeout" else None)
    async def pay(key: str) -> None:
        runs.append(key)
        if how == "scope":
            scope.cancel()
        elif how == "task":
            task.cancel()
        else:
            clock.forward(61)
        await anyio.sleep_forever()

    if how == "scope":
        with anyio.CancelScope() as scope:
            await pay("k")
    elif how == "task":
        task = asyncio.create_task(pay("k"))
        with contextlib.suppress(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(ToolFailure) as stopped:
            await pay("k")
        assert (stopped.value.code, stopped.value.retryable) == ("TIMEOUT", False)
    with pytest.raises(ToolFailure) as again:
        await pay("k")
    assert (again.value.code, again.value.outcome, again.value.retryable) == ("OUTCOME_UNKNOWN", "unknown", False)
    assert len(runs) == 1


class Slow(MemoryStore):
    """A store whose claims take until the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    async def claim(self, *arguments: Any) -> Entry:
        self.asked.set()
        await asyncio.to_thread(self.may_answer.wait, 30)
        return await super().claim(*arguments)


async def test_cancelled_before_the_body_began() -> None:
    """A call that is cancelled while it claims its key gives it back: the next one runs."""
    store = Slow()
    guard, runs = ToolErrors(idempotency=mine(store)), []

    @guard(idempotency_key="key")
    async def pay(key: str) -> int:
        runs.append(key)
        return len(runs)

    async with anyio.create_task_group() as group:
        group.start_soon(pay, "k")
        await asyncio.to_thread(store.asked.wait, 30)
        group.cancel_scope.cancel()
    store.may_answer.set()
    assert runs == []
    assert await pay("k") == 1


async def test_an_interrupt_in_the_body_is_unknown() -> None:
    """KeyboardInterrupt passes, and the key reads as unknown."""
    guard = ToolErrors(idempotency=mine())

    @guard(idempotency_key="key")
    def pay(key: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pay("k")
    with pytest.raises(ToolFailure, match="OUTCOME_UNKNOWN"):
        pay("k")


async def test_a_call_inside_its_own_body() -> None:
    """A body that calls its tool with its own key fails at once instead of waiting for itself."""
    store = Watched()
    guard = ToolErrors(idempotency=mine(store))
    seen: list[ToolFailure] = []

    @guard(idempotency_key="key")
    async def pay(key: str, deep: bool = False) -> str:
        try:
            await pay(key, deep)
        except ToolFailure as exc:
            seen.append(exc)
        return "paid"

    assert await pay("k") == await pay("k") == "paid"
    assert store.waiting == set()
    assert [(exc.code, exc.retryable, exc.outcome) for exc in seen] == [
        ("IDEMPOTENCY_KEY_IN_USE", False, "not_applied")
    ]


def test_in_threads() -> None:
    """Sync calls in plain threads wait for one another, and the body runs once."""
    store = Watched()
    guard, runs, results = ToolErrors(idempotency=mine(store)), [], []

    @guard(idempotency_key="key")
    def pay(key: str) -> int:
        runs.append(key)
        store.until(waiting=7)
        return len(runs)

    threads = [threading.Thread(target=lambda: results.append(pay("k"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 8
    assert len(runs) == 1


async def test_a_blocked_loop_keeps_its_lease(clock: Clock) -> None:
    """A body that blocks the event loop for longer than the lease does not lose its key."""
    store = Watched(clock)
    guard, runs, results = ToolErrors(idempotency=mine(store, lease=60)), [], []
    thread = threading.Thread(target=lambda: results.append(anyio.run(pay, "k")))

    @guard(idempotency_key="key")
    async def pay(key: str) -> int:
        runs.append(key)
        for thirds in range(1, 7):
            clock.forward(21)
            store.until(renewals=thirds)
        thread.start()
        store.until(waiting=1)
        return len(runs)

    assert await pay("k") == 1
    thread.join()
    assert results == [1]
    assert len(runs) == 1


async def test_a_plain_function_that_hands_out_a_coroutine(lines: Lines) -> None:
    """It is refused before its body runs, the log says what to do, and its key is free."""
    guard, runs = ToolErrors(idempotency=mine()), []

    async def body(key: str) -> None:
        runs.append(key)

    @guard(idempotency_key="key")
    def pay(key: str):  # type: ignore[no-untyped-def]
        return body(key)

    for _ in range(2):
        with pytest.raises(ToolFailure) as failed:
            pay("k")
        assert (failed.value.code, failed.value.outcome) == ("INTERNAL_ERROR", "not_applied")
    assert "make the tool async" in lines.read()[0]["exception"][0]["message"]
    assert runs == []


async def test_waiting_ends_before_the_guard_s_timeout(clock: Clock) -> None:
    """A duplicate that only waited says so; it is not stopped by the time limit, as if it had run."""
    clock.drive()
    guard, ended, runs = ToolErrors(idempotency=mine(Watched(clock, 95), wait=1_000, lease=1_000)), anyio.Event(), []

    @guard(idempotency_key="key")
    async def pay(key: str) -> None:
        runs.append(key)
        await ended.wait()

    limited = guard(idempotency_key="key", timeout=100)(pay.__wrapped__)  # type: ignore[attr-defined]
    async with anyio.create_task_group() as group:
        group.start_soon(pay, "k")
        while not runs:
            await anyio.sleep(0)
        with pytest.raises(ToolFailure) as early:
            await limited("k")
        ended.set()
    assert (early.value.code, early.value.retryable) == ("IDEMPOTENCY_KEY_IN_USE", True)


async def test_a_replayed_crash_is_no_news_for_the_hook() -> None:
    """`on_error` is called for the crash, and not for its repeats, which have no exception."""
    seen: list[BaseException] = []
    guard = ToolErrors(idempotency=mine(), on_error=lambda exc, _: seen.append(exc))

    @guard(idempotency_key="key")
    async def pay(key: str) -> None:
        raise RuntimeError

    for _ in range(3):
        with pytest.raises(ToolFailure, match="INTERNAL_ERROR"):
            await pay("k")
    assert [type(exc) for exc in seen] == [RuntimeError]


def test_no_descriptors_no_run() -> None:
    """Where the library's loop cannot start, calls fail at once and nothing runs; once it can, they do."""
    script = """if True:
        import os, resource
        from iserror import ToolErrors, ToolFailure
        from iserror.idempotency import Idempotency
        @ToolErrors(idempotency=Idempotency(subject=lambda: "me"))(idempotency_key="key")
        def pay(key: str) -> str:
            return "paid"
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        taken = []
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for _ in range(2):
            try:
                pay("k")
            except ToolFailure as exc:
                said = f"{exc.code} {exc.outcome}"
        for file in taken:
            os.close(file)
        print(said, pay("k"))
    """
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["IDEMPOTENCY_STORE_UNAVAILABLE", "not_applied", "paid"], ran.stderr


async def test_arguments_that_cannot_be_compared() -> None:
    """An argument that is no data is a crash before the body runs, and no two of them count as equal."""
    guard, runs = ToolErrors(idempotency=mine()), []

    @guard(idempotency_key="key")
    async def pay(what: object, key: str) -> None:
        runs.append(key)

    for what in (object(), iter([1]), print):
        with pytest.raises(ToolFailure) as failed:
            await pay(what, "k")
        assert (failed.value.code, failed.value.outcome) == ("INTERNAL_ERROR", "not_applied")
    assert runs == []


def _async_gen() -> Callable[..., Any]:
    async def tool(key: str):  # type: ignore[no-untyped-def]
        yield key

    return tool


def _gen() -> Callable[..., Any]:
    def tool(key: str):  # type: ignore[no-untyped-def]
        yield key

    return tool


@pytest.mark.parametrize(
    ("fn", "options", "words"),
    [
        (lambda other: None, {}, "has no parameter of that name"),
        (lambda key, /: None, {}, "has no parameter of that name"),
        (lambda *key: None, {}, "has no parameter of that name"),
        (lambda **key: None, {}, "has no parameter of that name"),
        (lambda key: None, {"effect": "read"}, "goes with a write"),
        (_gen(), {}, "a generator has no result to keep"),
        (_async_gen(), {}, "a generator has no result to keep"),
    ],
)
def test_a_wrong_declaration(fn: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    """A key that the tool cannot have is found when it is declared."""
    with pytest.raises(ValueError, match=words):
        ToolErrors()(idempotency_key="key", **options)(fn)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"wait": -1}, ValueError),
        ({"wait": float("nan")}, ValueError),
        ({"lease": 0}, ValueError),
        ({"lease": True}, ValueError),
        ({"subject": "alice"}, TypeError),
        ({"allow_unauthenticated": 1}, ValueError),
        ({"store": object()}, TypeError),
    ],
)
def test_wrong_settings(settings: dict[str, Any], error: type[Exception]) -> None:
    """A setting of no sense is refused when it is made."""
    with pytest.raises(error):
        Idempotency(**settings)
    with pytest.raises(TypeError, match="idempotency must be an Idempotency"):
        ToolErrors(idempotency=MemoryStore())  # type: ignore[arg-type]


class Bank:
    """Has a method of a common name."""

    @staticmethod
    def pay(key: str) -> str:
        return "bank"


def pay(key: str) -> str:
    """Has the same name."""
    return "plain"


def test_functions_of_one_name_in_other_places() -> None:
    """The qualified name counts, so a method and a function do not share a key."""
    guard = ToolErrors(idempotency=mine())
    one, other = [guard(idempotency_key="key")(fn) for fn in (Bank.pay, pay)]
    assert [one("k"), other("k"), one("k"), other("k")] == ["bank", "plain"] * 2


async def test_a_subject_that_fails(lines: Lines) -> None:
    """A `subject=` that raises is a crash before the body runs, whatever the map says of its exception."""
    guard = ToolErrors(error_map(), idempotency=Idempotency(subject=_lost))

    @guard(idempotency_key="key")
    async def pay(key: str) -> None:
        raise AssertionError

    with pytest.raises(ToolFailure) as failed:
        await pay("k")
    assert (failed.value.code, failed.value.outcome) == ("INTERNAL_ERROR", "not_applied")
    assert lines.read()[0]["exception"][0]["type"].endswith("PaymentLost")


def _lost() -> str:
    raise PaymentLost


def test_a_subject_of_one_s_own() -> None:
    """`subject=` says who is calling: two do not share, and nobody is refused."""
    who: list[str | None] = ["alice"]
    guard, runs = ToolErrors(idempotency=Idempotency(subject=lambda: who[0])), []

    @guard(idempotency_key="key")
    def pay(key: str) -> int:
        runs.append(key)
        return len(runs)

    assert [pay("k"), pay("k")] == [1, 1]
    who[0] = "bob"
    assert pay("k") == 2
    who[0] = None
    with pytest.raises(ToolFailure) as refused:
        pay("k")
    assert (refused.value.code, refused.value.retryable) == ("IDEMPOTENCY_UNAUTHENTICATED", False)
