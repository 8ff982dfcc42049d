"""From an exception to what is said of it: the one place where a failure gets its meaning.

A `Problem` is what went wrong before it is said of a particular tool; `Problem.failure` says it of one. It
exists because nested tools share a problem and differ in effect, so that outcome and `retryable` are
computed again at each layer while code, message and hint stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iserror.errors.failure import Failure
from iserror.errors.vocabulary import BUILT_IN, Category, Effect, Level, Outcome, default_outcome
from iserror.redact.speech import Scalar, safe_details, safe_line


@dataclass(frozen=True)
class ProtocolProblem:
    """A failed request: it leaves as a JSON-RPC error. `untouched` errors are control flow, not failures."""

    exception: BaseException
    code: int
    message: str
    data: Any = None
    untouched: bool = False
    name: str | None = None
    """Which of the library's codes it stands for, if one; for the log."""
    failure: Failure | None = None


@dataclass(frozen=True)
class Problem:
    """A failed execution, not yet said of a tool."""

    code: str
    category: Category
    message: str
    hint: str | None = None
    can_help: bool = False
    retry_after: float | None = None
    outcome: Outcome | None = None
    details: Mapping[str, Scalar] | None = None
    exception: BaseException | None = None
    mapped: bool = True
    declared: bool = False
    """Whether the author stated the outcome, so that an outer tool keeps it."""
    nested: bool = False
    """Whether it comes from a tool that this one called; what that one says of its effect is its own."""
    envelope: Failure | None = None
    """What a server behind this one said; it is passed on as it is."""
    meta: Mapping[str, Any] | None = None
    """The `_meta` of an error result that was returned, without our own key."""
    constant: bool = False
    """Whether the message is one of the library's own constants, which needs no redaction."""
    refused: bool = False
    """Whether the host refused the arguments, so that the revision in force decides the channel."""
    fields: Sequence[str] = field(default=())
    """Names of the declared arguments that did not fit; for the log."""
    first_request_id: str | None = None
    """The call whose idempotency key this one repeats; for the log."""
    level: Level = "warning"
    """Of the log line; a crash is always an error."""

    @property
    def is_crash(self) -> bool:
        return self.code in ("INTERNAL_ERROR", "INVALID_OUTPUT")

    def failure(
        self, *, tool: str, effect: Effect, request_id: str, trace_id: str | None, keyed: bool = False
    ) -> Failure:
        """Say the problem of one tool.

        Args:
            tool: The tool's name as the caller used it, cleaned.
            effect: What that tool does; decides with the outcome whether a repeat is safe.
            request_id: 32 hex digits.
            trace_id: 32 hex digits or None.
            keyed: Whether the call has an idempotency key: a repeat runs only if this one applied nothing.
        """
        if self.envelope is not None and not self.nested:
            if keyed and self.envelope.outcome != "not_applied":
                return self.envelope.model_copy(update={"retryable": False, "retry_after": None})
            return self.envelope
        outcome: Outcome = self.outcome or default_outcome(self.category)
        if effect == "read":
            outcome = "not_applied"
        elif self.nested and outcome == "not_applied" and effect == "write" and not self.declared:
            outcome = "unknown"
        retryable = self.can_help and (outcome == "not_applied" or (effect != "write" and not keyed))
        return Failure(
            code=self.code,
            message=self.message if self.constant else safe_line(self.message),
            hint=safe_line(self.hint, empty="") or None if self.hint else None,
            retryable=retryable,
            retry_after=self.retry_after if retryable else None,
            outcome=outcome,
            category=self.category,
            tool=tool,
            request_id=request_id,
            trace_id=trace_id,
            details=(safe_details(self.details) or None) if self.details else None,
        )


def built_in(
    code: str,
    message: str,
    *,
    exception: BaseException | None = None,
    outcome: Outcome | None = None,
    can_help: bool = False,
    **more: Any,
) -> Problem:
    """Make a problem with one of the library's own codes."""
    return Problem(
        code, BUILT_IN[code], message, exception=exception, outcome=outcome, can_help=can_help, mapped=False, **more
    )


def crash(exc: BaseException) -> Problem:
    """An exception that nobody foresaw: nothing of its text is said."""
    return built_in(
        "INTERNAL_ERROR",
        "The tool failed because of an error on the server.",
        exception=exc,
        outcome="unknown",
        constant=True,
    )


def timeout(exc: BaseException | None, seconds: float | None = None) -> Problem:
    """The tool's own time limit ran out, the host's or the guard's."""
    within = f" within {seconds:g} s" if seconds else ""
    return built_in(
        "TIMEOUT", f"The tool did not finish{within}.", exception=exc, outcome="unknown", can_help=True, constant=True
    )


def invalid_output(exc: BaseException | None) -> Problem:
    """The body ran to its end and returned what the tool's output schema does not allow."""
    return built_in(
        "INVALID_OUTPUT",
        "The tool ran, but its result does not fit its output schema.",
        exception=exc,
        outcome="applied",
        constant=True,
    )


def invalid_arguments(reasons: Sequence[tuple[str, str]], exc: BaseException | None) -> Problem:
    """Arguments that do not fit: `reasons` are pairs of a declared field and the broken rule."""
    said = "; ".join(f"{name}: {rule}" if name else rule for name, rule in reasons[:10])
    return built_in(
        "INVALID_ARGUMENTS",
        said or "the arguments do not fit the tool's input schema",
        exception=exc,
        outcome="not_applied",
        refused=True,
        fields=[name for name, _ in reasons],
    )
