"""Results that are neither success nor failure: some items of a call succeeded, others failed or are pending.

`PartialResult` is what a tool returns then, `Batch` collects the failures of its items through the same map and
redaction as a failed call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator
from typing_extensions import Self

from iserror.errors.failure import Failure, Line
from iserror.errors.verdict import (
    ADVICE_PATTERN,
    PARTLY,
    REPEAT,
    TOOK_EFFECT,
    UNSURE,
    advice_for,
)
from iserror.errors.vocabulary import CODE_PATTERN, Effect, Outcome
from iserror.redact import Safe
from iserror.redact.echo import here
from iserror.redact.speech import MAX_MESSAGE, quoted_value, safe_line
from iserror.support.look import look

T = TypeVar("T")

MAX_SUMMARY: Final = MAX_MESSAGE - 1
MAX_LISTED: Final = 10
MAX_ID: Final = 40
MAX_TOKENS: Final = 100
MAX_DETAIL: Final = 200


def _safe_id(value: object) -> str | int:
    """Return an item's id for a client: a number that JSON keeps whole, else one redacted line."""
    if type(value) is int and abs(value) < 2**53:
        return value
    return safe_line(value if isinstance(value, Safe) else look(str, "", value), empty="(no id)", echo=here.find())


class ItemFailure(BaseModel):
    """Say what one failed item means."""

    # The docstring is in the output schema. The fields are those of `Failure` that differ by item. An author who makes
    # one by hand gets the same redaction as an item of a `Batch`.
    model_config = ConfigDict(frozen=True)

    id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE)] | int
    code: Annotated[str, StringConstraints(min_length=3, max_length=64, pattern=CODE_PATTERN)]
    message: Line
    hint: Line | None = None
    retryable: Annotated[bool, Field(description="Whether repeating exactly this item can succeed and is safe.")]
    outcome: Annotated[Outcome, Field(description="Whether the item's side effect took place.")]
    advice: Annotated[str | None, Field(description="What to do next with this item.", pattern=ADVICE_PATTERN)] = None

    @model_validator(mode="after")
    def _advise(self) -> Self:
        if self.advice is None:  # made by hand: nothing is known of the tool
            effect: Effect | None = "write" if self.outcome == "applied" else None
            said = advice_for(self.code, "unknown", effect, self.outcome, self.retryable)
            self.__dict__["advice"] = said  # the model is frozen for other code
        return self

    @field_validator("id", mode="before")
    @classmethod
    def _clean_id(cls, value: object) -> object:
        return _safe_id(value)

    @field_validator("message", "hint", mode="before")
    @classmethod
    def _clean(cls, value: object) -> object:
        return safe_line(value, echo=here.find()) if isinstance(value, str) else value


_IN_BRIEF: Final = {TOOK_EFFECT: "took effect", PARTLY: "partly took effect", UNSURE: "may have taken effect"}


def _in_brief(item: ItemFailure) -> str:
    """Return an item's advice in a few words; empty if a retry can't help and nothing has to be checked."""
    if item.retryable:
        return REPEAT
    return _IN_BRIEF.get(item.advice or "") or ("outcome unknown" if item.outcome == "unknown" else "")


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
        more = how_to_go_on({"next_cursor": self.next_cursor, "resume_token": self.resume_token}, "of this result")
        # The model is frozen for other code.
        self.__dict__["complete"] = not self.failed and not more
        self.__dict__["summary"] = _summary(len(self.succeeded), self.failed, more)
        self.__pydantic_fields_set__.update(("summary", "complete"))
        return self


def _count(number: int) -> str:
    return "1 item" if number == 1 else f"{number} items"


def _summary(succeeded: int, failed: Sequence[ItemFailure], more: str) -> str:
    """Return one line of up to 499 characters. It must not lead to a retry of what took effect, or may have."""
    if not failed:
        done = "There were no items." if not more else ""
        if succeeded:
            done = f"{_count(succeeded)} succeeded." if more or succeeded == 1 else f"All {succeeded} items succeeded."
        return " ".join(filter(None, (done, more)))
    again = sum(item.retryable for item in failed)
    unsure = sum(item.advice in (TOOK_EFFECT, PARTLY, UNSURE) for item in failed)
    undecided = sum(_in_brief(item) == "outcome unknown" for item in failed)
    tail = [""]
    if succeeded:
        tail.append("The rest is done: leave it out of any further call.")
    if unsure:
        them = "it" if unsure == 1 else "them"
        tail.append(f"Check the {_count(unsure)} that may have taken effect before any further call with {them}.")
    if undecided:
        tail.append(f"Repeat the {_count(undecided)} with an unknown outcome only if that changes nothing.")
    if again:
        tail.append(f"Call again with only the {_count(again)} that may be repeated.")
    if not unsure and not undecided and not again:
        tail.append("None of them can succeed unchanged.")
    head = f"{len(failed)} of {_count(succeeded + len(failed))} failed"
    return listed(head, failed, " ".join((*tail, more)).rstrip())


def is_harmless(item: ItemFailure | Failure) -> bool:
    """Return True if an item had no effect, or can be retried."""
    return item.retryable or item.outcome == "not_applied"


def listed(head: str, failed: Sequence[ItemFailure], tail: str) -> str:
    """Return a sentence that names the failed items that there is room for, those that may have had an effect first."""
    room = MAX_SUMMARY - len(head) - len(": , and  more.") - len(str(len(failed))) - len(tail)
    names: list[str] = []
    for item in sorted(failed, key=is_harmless)[:MAX_LISTED]:
        name = f"{quoted_value(item.id, MAX_ID)} ({', '.join(filter(None, (item.code, _in_brief(item))))})"
        room -= len(name) + 2
        if room < 0:
            break
        names.append(name)
    left = len(failed) - len(names)
    named = f": {', '.join(names)}" if names else ""
    return f"{head}{named}{f', and {left} more' if names and left else ''}.{tail}"


def how_to_go_on(tokens: Mapping[str, str | None], where: str) -> str:
    """Return how to get the pending items; empty if there are none.

    A token is written out, or its place if it is long or would be changed by redaction.
    """
    given = {name: value for name, value in tokens.items() if value}
    said: list[str] = []
    for name, value in given.items():
        shown = json.dumps(value, ensure_ascii=False)
        whole = len(shown) <= MAX_TOKENS // len(given) and safe_line(value, empty="") == value
        said.append(f"{name} {shown}" if whole else f"the {name} {where}")
    return f"More items follow: call again with {' and '.join(said)}." if said else ""
