"""`Problem`: what went wrong, before a tool's name and effect are known. `say` makes the `Failure` of one tool from it.

Nested tools share a problem and differ in effect: outcome and `retryable` are computed again at each layer, while code,
message and hint stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from iserror.errors.failure import Failure
from iserror.errors.verdict import CRASHES, STOP, Basis, declared_by, judge
from iserror.errors.vocabulary import BUILT_IN, Category, Effect, Level, Outcome
from iserror.redact.echo import here
from iserror.redact.speech import Scalar, safe_details, safe_line, safe_lines
from iserror.redact.text import Safe


@dataclass(frozen=True)
class ProtocolProblem:
    """A failed request: it leaves as a JSON-RPC error."""

    exception: BaseException
    code: int
    message: str
    data: Any = None
    untouched: bool = False
    """Whether it is control flow (a question to the client) that leaves as the SDK sends it."""
    name: str | None = None
    """The code of the library that it stands for, if any; for the log."""
    failure: Failure | None = None


_BY_CODE: Final = cast("Category", "")


@dataclass(frozen=True)
class Problem:
    """A failed execution. Without a category, `code` is one of the built-in ones and says it."""

    code: str
    message: str
    category: Category = _BY_CODE
    hint: str | None = None
    can_help: bool = False
    """Whether a second, equal call can succeed."""
    retry_after: float | None = None
    """Seconds to wait before it."""
    outcome: Outcome | None = None
    details: Mapping[str, Scalar] | None = None
    exception: BaseException | None = None
    mapped: bool = True
    """Whether a map, a pack or the author chose the code; False for built-in ones."""
    basis: Basis = "none"
    """Who says the outcome. For `category` it follows from that."""
    nested: bool = False
    """Whether it comes from a tool that this one called: what that tool says of its effect isn't this one's."""
    upstream: Failure | None = None
    """What a server behind this one said."""
    lines: bool = False
    """Whether the text for the model keeps the line breaks of `message`."""
    context_code: str | None = None
    """The code of what was being handled as this was raised, if it isn't what this says; for the log."""
    meta: Mapping[str, Any] | None = None
    """The `_meta` of a returned error result, without our own key."""
    blocks: Sequence[Mapping[str, Any]] = ()
    """Blocks beside the text, as they would be sent: images, links. They are made safe as they leave."""
    structured: Mapping[str, Any] | None = None
    """The structured content that came with a returned error, without what this library writes."""
    refused: bool = False
    """Whether the host refused the arguments, so that the negotiated revision decides the channel."""
    fields: Sequence[str] = ()
    """Names of the declared arguments, or fields of the result, that did not fit; for the log."""
    rules: Sequence[str] = ()
    """What a result breaks in its output schema, each with its field; for the log."""
    missing: Sequence[tuple[str, ...]] = ()
    """Attribute paths of the author's template that gave no value; for the log."""
    first_request_id: str | None = None
    """The call whose idempotency key this one uses again; for the log."""
    level: Level = "warning"
    """The level of the log line, unless it is a crash: a crash is always an error."""
    unsure: tuple[str, str | None] | None = None
    """Message and hint where the outcome isn't `not_applied`, if the others suit that outcome alone."""

    def __post_init__(self) -> None:
        if self.category == _BY_CODE:
            object.__setattr__(self, "category", BUILT_IN[self.code])
            object.__setattr__(self, "mapped", False)
            if self.basis == "none" and self.outcome is not None:
                object.__setattr__(self, "basis", "code")

    @property
    def is_crash(self) -> bool:
        """Whether an operator has to fix it."""
        return self.code in CRASHES

    @property
    def claim(self) -> Outcome:
        """The outcome, as far as it can be told without the tool's effect."""
        if self.basis == "category":
            return declared_by(self.category)
        return self.outcome or "unknown"

    def unproven(self) -> Problem:
        """Return the problem without the claim that nothing was applied, unless its author declared just that."""
        if self.basis in ("stated", "entry") or self.claim != "not_applied":
            return self
        return self.without_claim()

    def without_claim(self) -> Problem:
        """Return the problem for an exception that was only being handled: what that says of effects is past."""
        return replace(self._worded_for("unknown"), outcome=None, basis="none")

    def saying(self, text: str) -> Problem:
        """Return the problem with its author's own text for the message; line breaks stay.

        Args:
            text: The text, foreign words in quotes.
        """
        unsure = None if self.unsure is None else (text, self.unsure[1])
        return replace(self, message=text, lines=True, unsure=unsure, missing=())

    def _worded_for(self, outcome: Outcome) -> Problem:
        """Return the problem with words that claim no more than an outcome."""
        if self.unsure is None or outcome == "not_applied":
            return self
        return replace(self, message=self.unsure[0], hint=self.unsure[1], unsure=None)


def say(
    problem: Problem,
    *,
    tool: str,
    effect: Effect | None,
    request_id: str,
    trace_id: str | None,
    keyed: bool = False,
    untouched: bool = False,
) -> Failure:
    """Say a problem of one tool: the texts are redacted here, once.

    Args:
        problem: What went wrong. Texts that are `Safe` have been redacted, or their author marked them as safe.
        tool: The tool's name as the caller used it, cleaned.
        effect: What that tool does; None if no author declared it.
        request_id: 32 hex digits.
        trace_id: 32 hex digits or None.
        keyed: Whether the call has an idempotency key: a retry runs only if this call applied nothing.
        untouched: Whether no body of this call began.
    """
    verdict = judge(
        code=problem.code,
        category=problem.category,
        effect=effect,
        outcome=_outer(problem.claim, effect) if problem.nested else problem.outcome,
        basis="none" if problem.nested else problem.basis,
        can_help=problem.can_help,
        retry_after=problem.retry_after,
        untouched=untouched,
        keyed=keyed,
    )
    problem = problem._worded_for(verdict.outcome)
    echo = None if problem.is_crash or problem.refused else here.find()
    words = safe_lines(problem.message, echo=echo) if problem.lines else ""
    failure = Failure(
        code=problem.code,
        message=safe_line(Safe(words.partition("\n")[0]) if words else problem.message, echo=echo),
        hint=safe_line(problem.hint, empty="", echo=echo) or None if problem.hint else None,
        advice=verdict.advice,
        retryable=verdict.retryable,
        retry_after=problem.retry_after if verdict.retryable else None,
        outcome=verdict.outcome,
        category=problem.category,
        tool=tool,
        request_id=request_id,
        trace_id=trace_id,
        details=(safe_details(problem.details) or None) if problem.details else None,
    )
    return failure.worded(words) if "\n" in words or len(words) > len(failure.message) else failure


def _outer(inner: Outcome, effect: Effect | None) -> Outcome:
    """Return what the outcome of a nested call says of the outer one, which may have done more before it."""
    return "unknown" if inner == "not_applied" and effect != "idempotent" else inner


_CRASHED: Final = Safe("The tool failed because of an error on the server.")


def last_resort(request_id: str) -> Failure:
    """Return the failure of a call for which `say` itself failed.

    Args:
        request_id: 32 hex digits.
    """
    return Failure(
        code="INTERNAL_ERROR",
        message=_CRASHED,
        retryable=False,
        outcome="unknown",
        category="internal",
        advice=STOP,
        tool="",
        request_id=request_id,
    )


def crash(exc: BaseException) -> Problem:
    """Return the problem of an exception that the map doesn't know. Its text is never shown."""
    return Problem("INTERNAL_ERROR", _CRASHED, exception=exc, outcome="unknown")


def timeout(exc: BaseException | None, seconds: float | None = None) -> Problem:
    """Return the problem of a tool whose time limit ran out, the host's or the guard's."""
    within = f" within {seconds:g} s" if seconds else ""
    said = Safe(f"The tool did not finish{within}.")
    return Problem("TIMEOUT", said, exception=exc, outcome="unknown", can_help=True)


def invalid_output(exc: BaseException | None) -> Problem:
    """Return the problem of a body that ran to its end, and whose result doesn't fit the output schema."""
    return Problem(
        "INVALID_OUTPUT",
        Safe("The tool ran, but its result does not fit its output schema."),
        exception=exc,
        outcome="unknown",
    )


def invalid_arguments(reasons: Sequence[tuple[str, str]], exc: BaseException | None) -> Problem:
    """Return the problem of arguments that don't fit.

    Args:
        reasons: Pairs of a declared field (or "") and the broken rule.
        exc: The validator's exception, for the log.
    """
    said = "; ".join(f"{name}: {rule}" if name else rule for name, rule in reasons[:10])
    return Problem(
        "INVALID_ARGUMENTS",
        said or "the arguments do not fit the tool's input schema",
        exception=exc,
        outcome="not_applied",
        refused=True,
        fields=[name for name, _ in reasons],
    )
