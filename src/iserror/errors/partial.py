"""Results that are neither success nor failure: some items of a call succeeded, others failed or are yet to come.

`PartialResult` is what a tool returns then, `Batch` collects the failures of its items through the same map and
redaction as a failed call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Annotated, Any, Final, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator
from typing_extensions import Self

from iserror.errors.failure import CODE_PATTERN, MAX_MESSAGE, Failure, Line, Outcome, ToolFailure, quoted, safe_line
from iserror.errors.problem import Problem, built_in, crash, resolve
from iserror.errors.returned import from_result
from iserror.layers.call import Call, current_call
from iserror.layers.cancel import must_pass
from iserror.layers.report import report_item
from iserror.redact import Safe
from iserror.support.look import attempt

T = TypeVar("T")

MAX_SUMMARY: Final = MAX_MESSAGE - 1
MAX_LISTED: Final = 10
MAX_ID: Final = 40
MAX_TOKENS: Final = 100
MAX_DETAIL: Final = 200
MAX_WORDS: Final = 200


def _safe_id(value: object) -> str | int:
    """An item's id for a client: a number that JSON keeps whole, else one redacted line."""
    if type(value) is int and abs(value) < 2**53:
        return value
    return safe_line(value if isinstance(value, Safe) else attempt(str, "", value), empty="(no id)")


class ItemFailure(BaseModel):
    """Say what one failed item means."""

    # The docstring is in the output schema. Of `Failure`'s fields those that differ by item; whoever makes one by hand
    # gets the same redaction as an item of a `Batch`.
    model_config = ConfigDict(frozen=True)

    id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE)] | int
    code: Annotated[str, StringConstraints(min_length=3, max_length=64, pattern=CODE_PATTERN)]
    message: Line
    hint: Line | None = None
    retryable: Annotated[bool, Field(description="Whether repeating exactly this item can succeed and is safe.")]
    outcome: Annotated[Outcome, Field(description="Whether the item's side effect took place.")]

    @field_validator("id", mode="before")
    @classmethod
    def _clean_id(cls, value: object) -> object:
        return _safe_id(value)

    @field_validator("message", "hint", mode="before")
    @classmethod
    def _clean(cls, value: object) -> object:
        return safe_line(value) if isinstance(value, str) else value

    @property
    def advice(self) -> str:
        """What the summary says of repeating it; empty where nothing was applied and a repeat cannot help."""
        if self.retryable:
            return "may be repeated"
        if self.outcome == "not_applied":
            return ""
        return "took effect" if self.outcome == "applied" else "may have taken effect"


class PartialResult(BaseModel, Generic[T]):
    """Return what succeeded beside what failed or is yet to come: a tool's return type, for its output schema.

    `summary` and `complete` are derived, whatever is passed for them. On an attached server the summary of an
    incomplete one also stands before the text; it is the first field, so that it leads the JSON elsewhere.
    """

    model_config = ConfigDict(frozen=True)

    summary: Annotated[str, Field(description="How much is missing, and how to go on.")] = ""
    complete: Annotated[bool, Field(description="Whether nothing failed and nothing is yet to come.")] = False
    succeeded: list[T] = []
    failed: list[ItemFailure] = []
    next_cursor: str | None = None
    resume_token: str | None = None

    @model_validator(mode="after")
    def _derive(self) -> Self:
        more = _more({"next_cursor": self.next_cursor, "resume_token": self.resume_token}, "of this result")
        # The model is frozen for everybody else.
        self.__dict__["complete"] = not self.failed and not more
        self.__dict__["summary"] = _summary(len(self.succeeded), self.failed, more)
        self.__pydantic_fields_set__.update(("summary", "complete"))
        return self


def _count(number: int) -> str:
    return "1 item" if number == 1 else f"{number} items"


def _summary(succeeded: int, failed: Sequence[ItemFailure], more: str) -> str:
    """One line, below 500 characters. It must not lead to a repeat of what took effect, or may have."""
    if not failed:
        done = "There were no items." if not more else ""
        if succeeded:
            done = f"{_count(succeeded)} succeeded." if more or succeeded == 1 else f"All {succeeded} items succeeded."
        return " ".join(filter(None, (done, more)))
    again = sum(item.retryable for item in failed)
    unsure = sum(bool(item.advice) for item in failed) - again
    tail = [""]
    if succeeded:
        tail.append("The rest is done: leave it out of any further call.")
    if unsure:
        them = "it" if unsure == 1 else "them"
        tail.append(f"Check the {_count(unsure)} that may have taken effect before any further call with {them}.")
    if again:
        tail.append(f"Call again with only the {_count(again)} that may be repeated.")
    if not unsure and not again:
        tail.append("None of them can succeed unchanged.")
    head = f"{len(failed)} of {_count(succeeded + len(failed))} failed"
    return _listed(head, failed, " ".join((*tail, more)).rstrip())


def _is_harmless(item: ItemFailure | Failure) -> bool:
    return item.retryable or item.outcome == "not_applied"


def _listed(head: str, failed: Sequence[ItemFailure], tail: str) -> str:
    """A sentence that names the failed items, as many as there is room for; those that may have had an effect first."""
    room = MAX_SUMMARY - len(head) - len(": , and  more.") - len(str(len(failed))) - len(tail)
    names: list[str] = []
    for item in sorted(failed, key=_is_harmless)[:MAX_LISTED]:
        name = f"{quoted(item.id, MAX_ID)} ({', '.join(filter(None, (item.code, item.advice)))})"
        room -= len(name) + 2
        if room < 0:
            break
        names.append(name)
    left = len(failed) - len(names)
    named = f": {', '.join(names)}" if names else ""
    return f"{head}{named}{f', and {left} more' if names and left else ''}.{tail}"


def _more(tokens: Mapping[str, str | None], where: str) -> str:
    """How to get what is yet to come, empty where nothing is: a token word for word, or where it stands if it is long
    or would not come through whole."""
    given = {name: value for name, value in tokens.items() if value}
    said: list[str] = []
    for name, value in given.items():
        shown = json.dumps(value, ensure_ascii=False)
        whole = len(shown) <= MAX_TOKENS // len(given) and safe_line(value, empty="") == value
        said.append(f"{name} {shown}" if whole else f"the {name} {where}")
    return f"More items follow: call again with {' and '.join(said)}." if said else ""


class Item(Generic[T]):
    """One item of a `Batch`: a context manager that records the item's failure in place of raising it.

    `value` is what stands in `succeeded`: unset, the item's id.
    """

    value: T

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
            problem = attempt(_returned, None, self.value)
        else:
            problem = attempt(self._batch._problem, crash(exc), exc)
            if problem is None:
                return False
        if problem is None:
            self.done = True
        else:
            self._fail(problem)
        return True

    def _fail(self, problem: Problem) -> None:
        call = self._batch._call
        self.failure = call.failure_of(problem)
        self.done = True
        attempt(report_item, None, call, problem, self.failure, self.id)


class Batch(Generic[T]):
    """Collect what succeeds and what fails in a loop over items, inside a guarded tool.

    An item's failure goes through the same error map and redaction as a failed call's, and ends that item only. Items
    may run one after another, in tasks or in threads; results stand in the order in which the items were made.

    Raises:
        RuntimeError: No guarded call is running here.
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

        What is not the item's own passes: an interrupt, the cancellation of the call, and protocol errors that are
        raised on purpose, URL elicitation among them.

        Args:
            item_id: What the caller knows the item by. It shows on the wire and in the log, redacted; it may occur
                twice.
        """
        item = Item(self, item_id)
        self._items.append(item)
        return item

    def result(self, *, next_cursor: str | None = None, resume_token: str | None = None) -> PartialResult[T]:
        """Return what succeeded and what failed.

        An item whose block has not ended (it was cut off, or still runs) counts as failed with `TIMEOUT`.

        Args:
            next_cursor: With what the caller gets the next items; shows on the wire as it is.
            resume_token: With what the caller resumes the work; shows on the wire as it is.

        Raises:
            ToolFailure: Items failed, and none succeeded. Its code, category and hint are the items' where all agree,
                else the code is `NOTHING_SUCCEEDED`; its outcome is `not_applied` if every item's was, else `unknown`.
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
        """What an item's exception means; None if it passes."""
        if must_pass(exc):
            return None
        call = self._call
        maps = call.options.maps if call.options is not None else ()
        problem = resolve(exc, (*maps, *call.maps))
        if call.said(exc):  # an inner run of the tool's own body: the call goes on without that
            call.problem = call.failure = None
        return problem if isinstance(problem, Problem) else None


def _returned(value: object) -> Problem | None:
    """The problem if an item's value is the error result of another server's tool."""
    problem = from_result(value)
    return replace(problem, nested=True) if problem is not None else None


def _unfinished() -> Problem:
    return built_in("TIMEOUT", "The item was not finished.", outcome="unknown", can_help=True, constant=True)


def _item_failure(item_id: object, failure: Failure) -> ItemFailure:
    return ItemFailure(
        id=cast("Any", item_id),
        code=failure.code,
        # Redacted already; an author's `Safe` would not stand a second time.
        message=Safe(failure.message),
        hint=Safe(failure.hint) if failure.hint else None,
        retryable=failure.retryable,
        outcome=failure.outcome,
    )


def _nothing_succeeded(
    failed: Sequence[ItemFailure], failures: Sequence[Failure], tokens: Mapping[str, str | None]
) -> ToolFailure:
    first, alone = min(failures, key=_is_harmless), len(failed) == 1
    agree = len({failure.code for failure in failures}) == 1
    hints = {failure.hint for failure in failures}
    waits = [failure.retry_after for failure in failures if failure.retry_after is not None]
    # Cut, a token would be another.
    tokens = {name: value for name, value in tokens.items() if value and len(value) <= MAX_DETAIL}
    more = _more(tokens, "in the details")
    words = safe_line(Safe(first.message), MAX_WORDS)
    tail = " ".join(filter(None, ("", words if alone else f"The first: {words}", more)))
    said = _listed("The only item failed" if alone else f"All {len(failed)} items failed", failed, f" {tail}")
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
