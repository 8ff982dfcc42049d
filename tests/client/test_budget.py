"""The limits of a `ToolCaller`: what one run may send, and how often the same call may fail."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from iserror.client import NotSent, OutcomeUnknown, Succeeded, ToolFailed
from iserror.client.budget import Budget, SameCalls
from iserror.client.outcome import CallOutcome

pytestmark = pytest.mark.hostless

FAILED = ToolFailed(None, ({"type": "text", "text": "no"},))
DONE = Succeeded(())


def budget(**limits: int) -> Budget:
    """Return a budget with these limits."""
    limits = {
        "max_attempts": 3,
        "max_identical_failures": 2,
        "max_attempts_per_run": 5,
        "max_retries_per_run": 2,
        **limits,
    }
    return Budget(**limits)


async def end(of: Budget, outcome: CallOutcome | None, key: str | None = None, identity: str = "a") -> SameCalls:
    """Begin a call and end it with this outcome."""
    same = await of.enter("pay", identity)
    assert isinstance(same, SameCalls)
    of.leave(identity, same, key, outcome)
    return same


@pytest.mark.parametrize("limit", ["max_attempts", "max_identical_failures", "max_attempts_per_run"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "3", None])
def test_a_limit_out_of_range(limit: str, value: Any) -> None:
    """A limit is a whole number from 1, and the message names it."""
    with pytest.raises(ValueError, match=f"^{limit} {value!r} is not valid: use a whole number, 1 or more$"):
        budget(**{limit: value})


def test_no_retries() -> None:
    """A run may have no retries at all, but not fewer."""
    assert budget(max_retries_per_run=0).take_attempt(retry=True) is not None
    with pytest.raises(ValueError, match="max_retries_per_run -1 is not valid: use a whole number, 0 or more"):
        budget(max_retries_per_run=-1)


def test_attempts_of_a_run() -> None:
    """Retries are attempts, too, and have their own limit."""
    of = budget()
    assert [of.take_attempt(retry=retry) for retry in (False, True, True, False)] == [None] * 4
    refused = of.take_attempt(retry=True)
    assert isinstance(refused, NotSent)
    assert refused.reason == "run_budget"
    assert of.take_attempt(retry=False) is None
    assert of.take_attempt(retry=False) == refused


def test_whether_there_is_a_retry() -> None:
    """A retry needs room in the call, in the run's attempts and in the run's retries."""
    assert budget().has_retry(2)
    assert not budget().has_retry(3)
    assert not budget(max_retries_per_run=0).has_retry(1)
    of = budget(max_attempts_per_run=1)
    of.take_attempt(retry=False)
    assert not of.has_retry(1)


@pytest.mark.anyio
async def test_failures_in_a_row() -> None:
    """The same call isn't sent again after so many failures in a row; another call is."""
    of = budget()
    await end(of, FAILED)
    await end(of, OutcomeUnknown("timeout", "x", exception=ValueError()))
    refused = await of.enter("pay", "a")
    assert isinstance(refused, NotSent)
    assert refused.reason == "identical_failures"
    assert "pay failed 2 times with exactly these arguments (1 x ToolFailed, 1 x OutcomeUnknown)" in refused.message
    assert isinstance(refused.last, OutcomeUnknown)
    assert refused.last.exception is None  # it would keep the frames of the call alive
    assert isinstance(await of.enter("pay", "b"), SameCalls)


@pytest.mark.anyio
async def test_a_success_forgets_failures() -> None:
    """After a success the count begins again, and nothing is kept."""
    of = budget()
    await end(of, FAILED)
    await end(of, DONE)
    assert of.calls == {}
    await end(of, FAILED)
    assert isinstance(await of.enter("pay", "a"), SameCalls)


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", [None, NotSent("connection", "x")])
async def test_what_is_no_failure(outcome: CallOutcome | None) -> None:
    """A canceled call and one that wasn't sent don't count."""
    of = budget()
    for _ in range(5):
        await end(of, outcome)
    assert of.calls == {}


@pytest.mark.anyio
async def test_pending_keys() -> None:
    """The key of a call that may not be done is kept for the next one; a done call gives none back."""
    of = budget()
    assert (await end(of, None, "k1")).keys == ["k1"]
    assert list(of.calls) == ["a"]
    same = await of.enter("pay", "a")
    assert isinstance(same, SameCalls)
    key = same.keys.pop(0)
    of.leave("a", same, key, DONE)
    assert of.calls == {}


@pytest.mark.anyio
async def test_waiting_for_calls_in_flight() -> None:
    """A call that could be one too many waits until one in flight ends, and goes if that one succeeded."""
    of = budget()
    first, second = await of.enter("pay", "a"), await of.enter("pay", "a")
    assert isinstance(first, SameCalls)
    assert second is first
    begun: list[object] = []

    async def third() -> None:
        begun.append(await of.enter("pay", "a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(third)
        await anyio.wait_all_tasks_blocked()
        assert begun == []
        of.leave("a", first, None, FAILED)
        await anyio.wait_all_tasks_blocked()
        assert begun == []
        of.leave("a", first, None, DONE)
    (waited,) = begun
    assert waited is of.calls["a"]
    assert isinstance(waited, SameCalls)
    assert (waited.in_flight, waited.failures) == (1, 0)
