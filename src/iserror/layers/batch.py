"""`Batch`: the failures of a loop's items, collected inside a guarded tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, cast

from iserror.errors.failure import Failure
from iserror.errors.partial import MAX_DETAIL, ItemFailure, PartialResult, how_to_go_on, is_harmless, listed
from iserror.errors.problem import Problem, crash
from iserror.errors.resolve import resolve
from iserror.errors.returned import stated_problem
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call, current_call
from iserror.layers.cancel import may_pass, must_pass
from iserror.layers.lifecycle import failure_of
from iserror.layers.report import report_item
from iserror.redact.speech import safe_line
from iserror.redact.text import Safe
from iserror.support.look import shield

T = TypeVar("T")

MAX_WORDS: Final = 200
"""The most characters of the first item's message, where none succeeded."""


class Item(Generic[T]):
    """One item of a `Batch`: a context manager that records the item's failure instead of raising it."""

    value: T
    """What `succeeded` holds for it: the item's id, unless the block sets another value."""

    def __init__(self, batch: Batch[T], item_id: object) -> None:
        self.id = item_id
        self.value = cast("T", item_id)
        self._batch = batch
        self.done = False
        self.failure: Failure | None = None

    def __enter__(self) -> Item[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> bool:
        if exc is None:
            problem = shield(_problem_in, None, self.value)
        else:
            problem = shield(self._batch._problem, None if may_pass(exc) else crash(exc), exc)
            if problem is None:
                return False
        if problem is None:
            self.done = True
        else:
            self._fail(problem)
        return True

    def _fail(self, problem: Problem) -> None:
        call = self._batch._call
        self.failure = failure_of(call, problem)
        self.done = True
        report_item(call, problem, self.failure, self.id)


class Batch(Generic[T]):
    """Collect what succeeds and what fails in a loop over items, inside a guarded tool.

    An item's failure goes through the same error map and redaction as a failed call's, and ends that item only. Items
    may run one after another, in tasks or in threads. Results keep the order in which the items were made.

    Raises:
        RuntimeError: If no guarded call is running here.
    """

    def __init__(self) -> None:
        call = current_call()
        if call is None:
            raise RuntimeError(
                "Batch() outside of a guarded call: make it inside the tool's function, and guard that with @guard or "
                "its server with guard.attach(server)"
            )
        self._call: Call = call
        self._items: list[Item[T]] = []

    def item(self, item_id: str | int, /) -> Item[T]:
        """Return the context manager for one item.

        Exceptions that end the call propagate: an interrupt, the cancellation of the call, and protocol errors that
        are raised on purpose, URL elicitation among them.

        Args:
            item_id: The caller's name for the item. It shows on the wire and in the log, redacted; it may occur twice.
        """
        item = Item(self, item_id)
        self._items.append(item)
        return item

    def result(self, *, next_cursor: str | None = None, resume_token: str | None = None) -> PartialResult[T]:
        """Return what succeeded and what failed.

        An item whose block has not ended (it was cut off, or still runs) counts as failed with `TIMEOUT`.

        Args:
            next_cursor: The cursor with which the caller gets the next items. It shows on the wire as it is.
            resume_token: The token with which the caller resumes the work. It shows on the wire as it is.

        Raises:
            ToolFailure: If items failed and none succeeded. Its code, category and hint are the items' if all agree,
                else the code is `NOTHING_SUCCEEDED`. Its outcome is `not_applied` if every item's is, else `unknown`.
        """
        items = list(self._items)
        for item in items:
            if not item.done:
                item._fail(_unfinished())
        failures = [(item.id, item.failure) for item in items if item.failure is not None]
        failed = [_item_failure(item_id, failure) for item_id, failure in failures]
        if failed and len(failed) == len(items):
            tokens = {"next_cursor": next_cursor, "resume_token": resume_token}
            raise _nothing_succeeded(failed, [failure for _, failure in failures], tokens)
        succeeded = [item.value for item in items if item.failure is None]
        return PartialResult[T](succeeded=succeeded, failed=failed, next_cursor=next_cursor, resume_token=resume_token)

    def _problem(self, exc: BaseException) -> Problem | None:
        """Return what an item's exception means; None if it propagates."""
        if must_pass(exc):
            return None
        call = self._call
        progress = call.progress
        maps = progress.options.maps if progress.options is not None else ()
        own = progress.options.own_map if progress.options is not None else None
        problem = resolve(exc, (*maps, *progress.maps), own)
        if call.failed_with(exc):  # an inner run of the tool's own body: the call goes on without it
            progress.recovers()
        return problem if isinstance(problem, Problem) else None


def _problem_in(value: object) -> Problem | None:
    """Return the problem of an item's value that is the error result of another server's tool."""
    problem = stated_problem(value)
    return replace(problem, nested=True) if problem is not None else None


def _unfinished() -> Problem:
    return Problem("TIMEOUT", Safe("The item was not finished."), outcome="unknown", can_help=True)


def _item_failure(item_id: object, failure: Failure) -> ItemFailure:
    return ItemFailure(
        id=cast("Any", item_id),
        code=failure.code,
        # Redacted already; an author's `Safe` would not stand a second time.
        message=Safe(failure.message),
        hint=Safe(failure.hint) if failure.hint else None,
        advice=failure.advice,
        retryable=failure.retryable,
        outcome=failure.outcome,
    )


def _nothing_succeeded(
    failed: Sequence[ItemFailure], failures: Sequence[Failure], tokens: Mapping[str, str | None]
) -> ToolFailure:
    first, alone = min(failures, key=is_harmless), len(failed) == 1
    agree = len({failure.code for failure in failures}) == 1
    hints = {failure.hint for failure in failures}
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    # Cut, a token would be another.
    tokens = {name: value for name, value in tokens.items() if value and len(value) <= MAX_DETAIL}
    more = how_to_go_on(tokens, "in the details")
    words = safe_line(Safe(first.message), MAX_WORDS)
    tail = " ".join(filter(None, ("", words if alone else f"The first: {words}", more)))
    said = listed("The only item failed" if alone else f"All {len(failed)} items failed", failed, f" {tail}")
    return ToolFailure(
        first.code if agree else "NOTHING_SUCCEEDED",
        Safe(said),
        hint=Safe(first.hint) if len(hints) == 1 and first.hint else None,
        category=first.category if agree else "failed_precondition",
        retryable=all(failure.retryable for failure in failures),
        retry_after=max(waits, default=None),
        outcome="not_applied" if all(failure.outcome == "not_applied" for failure in failures) else "unknown",
        details={name: Safe(value) for name, value in tokens.items()},
    )
