"""The limits of a `ToolCaller`: what one run may send, and how often the same call may fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import anyio

from iserror.client.outcome import CallOutcome, NotSent, OutcomeUnknown, Succeeded, code_of, is_failure
from iserror.redact.speech import safe_name


@dataclass
class SameCalls:
    """The calls of one tool with the same arguments."""

    failures: int = 0
    """Calls in a row that failed, no matter how many attempts each took. A success resets it."""
    in_flight: int = 0
    last: CallOutcome | None = None
    """The last failure."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The failures by code, or by kind of outcome."""
    keys: list[str | int] = field(default_factory=list)
    """Idempotency keys of calls that may not be done. The next calls are sent with them."""
    done: anyio.Event = field(default_factory=anyio.Event)
    """Set when a call ends, then replaced."""


class Budget:
    """What is left of a run.

    Args:
        max_attempts: Attempts per call, 1 or more.
        max_identical_failures: Failures in a row of the same call, after which it isn't sent again, 1 or more.
        max_attempts_per_run: Attempts in the whole run, 1 or more.
        max_retries_per_run: How many of these attempts may be retries, 0 or more.

    Raises:
        ValueError: If a limit is out of range.
    """

    def __init__(
        self,
        *,
        max_attempts: int,
        max_identical_failures: int,
        max_attempts_per_run: int,
        max_retries_per_run: int,
    ) -> None:
        for name, number, least in (
            ("max_attempts", max_attempts, 1),
            ("max_identical_failures", max_identical_failures, 1),
            ("max_attempts_per_run", max_attempts_per_run, 1),
            ("max_retries_per_run", max_retries_per_run, 0),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{name} {number!r} is not valid: use a whole number, {least} or more")
        self.max_attempts = max_attempts
        self.max_identical_failures = max_identical_failures
        self.attempts_left = max_attempts_per_run
        self.retries_left = max_retries_per_run
        self.calls: dict[str, SameCalls] = {}
        """By the identity of a call. Calls of which nothing has to be remembered aren't in it."""

    async def enter(self, tool: str, identity: str) -> SameCalls | NotSent:
        """Begin a call and return its record, or the limit that forbids it.

        It waits while the calls in flight could reach the limit of identical failures: one of them may succeed.

        Args:
            tool: The tool's name, for the message.
            identity: The same for the same tool and arguments.
        """
        while True:
            if not self.attempts_left:
                return _run_is_over()
            same = self.calls.setdefault(identity, SameCalls())
            if same.failures >= self.max_identical_failures:
                tried = ", ".join(f"{count} x {kind}" for kind, count in same.kinds.most_common(5))
                return NotSent(
                    "identical_failures",
                    f"{safe_name(tool)} failed {same.failures} times with exactly these arguments ({tried}). "
                    "Change the call, or stop and tell the user.",
                    same.last,
                )
            if same.failures + same.in_flight < self.max_identical_failures:
                same.in_flight += 1
                return same
            await same.done.wait()

    def leave(self, identity: str, same: SameCalls, key: str | int | None, outcome: CallOutcome | None) -> None:
        """End a call.

        Args:
            identity: As for `enter`.
            same: The record that `enter` returned.
            key: The idempotency key that the call was sent with.
            outcome: None if the call was canceled.
        """
        same.in_flight -= 1
        if isinstance(outcome, Succeeded):
            same.failures, same.last = 0, None
            same.kinds.clear()
        else:
            if key is not None:
                same.keys.append(key)
            if outcome is not None and is_failure(outcome) and not isinstance(outcome, NotSent):
                same.failures += 1
                same.last = replace(outcome, exception=None) if isinstance(outcome, OutcomeUnknown) else outcome
                same.kinds[code_of(outcome) or type(outcome).__name__] += 1
        same.done.set()
        same.done = anyio.Event()
        if not (same.in_flight or same.failures or same.keys) and self.calls.get(identity) is same:
            del self.calls[identity]

    def take_attempt(self, *, retry: bool) -> NotSent | None:
        """Take one attempt from the run, or return the limit that forbids it."""
        if not self.attempts_left or (retry and not self.retries_left):
            return _run_is_over()
        self.attempts_left -= 1
        self.retries_left -= retry
        return None

    def has_retry(self, attempts: int) -> bool:
        """Return True if a call that took so many attempts may take another one."""
        return attempts < self.max_attempts and self.attempts_left > 0 and self.retries_left > 0


def _run_is_over() -> NotSent:
    return NotSent("run_budget", "this run has used up its tool calls. Stop and tell the user.")
