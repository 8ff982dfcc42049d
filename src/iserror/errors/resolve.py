"""From an exception to a `Problem`: what it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.foreign import MAX_WORDS, in_quotes
from iserror.errors.problem import Problem, ProtocolProblem, built_in, crash
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import default_outcome
from iserror.errors.wait import parse_retry_after
from iserror.redact.speech import quoted
from iserror.support.causes import MAX_CHAIN, Group, leaves, origin, raised_in, text_of
from iserror.support.jsonrpc import MISSING_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED
from iserror.support.look import attempt
from iserror.support.sdk import host_tool_errors, protocol_error_data, raised_by_sdk


def of_tool_failure(exc: ToolFailure) -> Problem:
    """The problem behind a `ToolFailure`: the inner guard's own, or what the author raised it with."""
    if exc._problem is not None:
        return replace(exc._problem, nested=True)
    return Problem(
        code=exc.code,
        category=exc.category,
        message=in_quotes(exc.message, exc),
        hint=in_quotes(exc.hint, exc) if exc.hint else None,
        can_help=exc.retryable,
        retry_after=exc.retry_after,
        outcome=exc.outcome,
        details=exc.details,
        exception=exc,
        declared=exc.outcome is not None,
    )


def of_entry(entry: Entry, exc: BaseException) -> Problem:
    """What the map says of this exception."""
    wait = entry.retry_after
    seconds = attempt(lambda: parse_retry_after(wait(exc) if callable(wait) else wait), None)
    return Problem(
        code=entry.code,
        category=entry.category,
        message=entry.message.render(exc, entry.safe),
        hint=entry.hint.render(exc, entry.safe) if entry.hint else None,
        can_help=entry.retryable,
        retry_after=seconds,
        outcome=entry.outcome,
        details=entry.details_of(exc),
        exception=exc,
        declared=entry.outcome is not None and not entry.packed,
        level=entry.level,
    )


def resolve(exc: BaseException, maps: Sequence[ErrorMap]) -> Problem | ProtocolProblem:
    """Say what an exception means. Never raises: what goes wrong here makes the exception a crash.

    What is no `Exception` and got here (an exit, a stray cancellation) is a crash too.
    """
    if not issubclass(type(exc), (Exception, Group)):
        return crash(exc)
    return attempt(_resolve, crash(exc), exc, maps)


def _resolve(exc: BaseException, maps: Sequence[ErrorMap]) -> Problem | ProtocolProblem:
    if isinstance(exc, ToolFailure):
        return of_tool_failure(exc)
    protocol = protocol_error_data(exc)
    if protocol is not None:
        code, message, data = protocol
        if code in (URL_ELICITATION_REQUIRED, MISSING_CLIENT_CAPABILITY):
            return ProtocolProblem(exc, code, message, data, untouched=True)
        if not raised_by_sdk(exc):
            return ProtocolProblem(exc, code, in_quotes(message, exc), data)
    if isinstance(exc, Group):
        return _resolve_group(exc, maps)
    host_error = isinstance(exc, host_tool_errors())
    if host_error and raised_by_sdk(exc):
        return _of_another_server(exc, maps)
    for link, meanwhile in _chain(exc, causes_only=host_error):
        if link is not exc and isinstance(link, Group):
            inner = _resolve_group(link, maps)
            if isinstance(inner, Problem) and inner.mapped:
                return _seen_from(exc, inner, meanwhile)
            continue
        entry = _find(link, maps)
        if entry is not None and not (host_error and _is_catch_all(maps, entry)):
            return _seen_from(exc, of_entry(entry, link), meanwhile)
    if host_error:
        return built_in(
            "TOOL_ERROR",
            in_quotes(text_of(exc), exc) or "The tool refused the call.",
            exception=exc,
            outcome="not_applied",
        )
    return crash(exc)


def _seen_from(exc: BaseException, problem: Problem, meanwhile: bool) -> Problem:
    """A problem found along the chain of an exception.

    Args:
        meanwhile: Whether something was raised while this was being handled, and nobody said that it came of it: the
            handler may have asked another server in between. What a pack says of the outcome is of the one request.
    """
    unsure = meanwhile and problem.outcome == "not_applied" and not problem.declared
    return replace(problem, exception=exc, outcome="unknown" if unsure else problem.outcome)


def _of_another_server(exc: BaseException, maps: Sequence[ErrorMap]) -> Problem | ProtocolProblem:
    """A `ToolError` that a host made, of what another tool or server said or raised: not this author's words."""
    cause = origin(exc)[0]
    if cause is not None:
        problem = _resolve(cause, maps)
        return replace(problem, exception=exc) if isinstance(problem, Problem) else crash(exc)
    if ".client" in raised_in(exc):
        said = quoted(text_of(exc), MAX_WORDS)
        return built_in("RETURNED_ERROR", said or "The call failed.", exception=exc, outcome="unknown")
    return crash(exc)


def _find(exc: BaseException, maps: Sequence[ErrorMap]) -> Entry | None:
    for errors in maps:
        entry = errors.find(exc)
        if entry is not None:
            return entry
    return None


def _is_catch_all(maps: Sequence[ErrorMap], entry: Entry) -> bool:
    """Whether the entry was found through `Exception` itself: too far to speak for a host's `ToolError`."""
    return _find(Exception(), maps) is entry


def _chain(exc: BaseException, *, causes_only: bool) -> Iterator[tuple[BaseException, bool]]:
    """The exception, then what it came from: `__cause__`, else `__context__` unless it is suppressed.

    Each with whether a `__context__` led to it. Of a deliberate refusal only the causes: what was being handled when
    its author wrote it is not what it says.
    """
    seen: set[int] = set()
    link: BaseException | None = exc
    meanwhile = False
    while link is not None and id(link) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(link))
        yield link, meanwhile
        found, how = origin(link)
        meanwhile = meanwhile or how == "context"
        link = None if causes_only and how != "cause" else found


# Least certain first: what may have happened outweighs what did not.
_CERTAINTY: Final = {"unknown": 0, "partial": 1, "applied": 2, "not_applied": 3}


def _resolve_group(group: BaseException, maps: Sequence[ErrorMap]) -> Problem | ProtocolProblem:
    entry = _find(group, maps)
    if entry is not None and not _is_catch_all(maps, entry):
        return of_entry(entry, group)
    found = list(leaves(group))
    if not found:
        return crash(group)
    problems = [_resolve(leaf, maps) for leaf in found]
    said = [p for p in problems if isinstance(p, Problem)]
    worst = min(
        said,
        key=lambda p: (not p.is_crash, p.can_help, _CERTAINTY[p.outcome or default_outcome(p.category)]),
        default=None,
    )
    # A crash outweighs the rest; a protocol error outweighs a failure that the model could act on.
    for problem in problems:
        if isinstance(problem, ProtocolProblem) and (worst is None or not worst.is_crash):
            return problem
    assert worst is not None
    return replace(worst, exception=group)
