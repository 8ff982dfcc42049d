"""From an exception to what is said of it: the one place where a failure gets its meaning.

A `Problem` is what went wrong before it is said of a particular tool; `Problem.failure` says it of one. It
exists because nested tools share a problem and differ in effect, so that outcome and `retryable` are
computed again at each layer while code, message and hint stay.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError

from iserror.errors.errormap import BUILT_IN, Entry, ErrorMap, Level
from iserror.errors.failure import (
    Category,
    Effect,
    Failure,
    Outcome,
    Scalar,
    ToolFailure,
    default_outcome,
    host_tool_errors,
    joined,
    parse_retry_after,
    quoted,
    safe_details,
    safe_line,
)
from iserror.redact import Safe, cut_short
from iserror.support.look import attempt

if sys.version_info >= (3, 11):
    Group = BaseExceptionGroup  # noqa: F821 - a builtin from 3.11 on
else:
    from exceptiongroup import BaseExceptionGroup as Group  # comes with anyio, which comes with mcp

MAX_CHAIN: Final = 20
MIN_WORDS: Final = 12  # an exception's words of fewer characters are as likely the author's own
MAX_WORDS: Final = 300
MAX_QUOTED: Final = 8_000  # characters of a text in which they are looked for
STRETCH: Final = 24  # a shorter piece of them is as likely the author's own
MAX_LEAVES: Final = 100

# JSON-RPC codes with a meaning of their own (specification 2026-07-28, basic protocol, error codes).
URL_ELICITATION_REQUIRED: Final = -32042
MISSING_CLIENT_CAPABILITY: Final = -32021


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


def text_of(exc: BaseException) -> str:
    """`str(exc)`, whatever it does."""
    return attempt(str, "", exc)


def in_quotes(text: str, exc: BaseException) -> str:
    """A text with the words of other exceptions in it (`ToolError(f"search failed: {exc}")`) as quoted data.

    Its author passed them on, but did not write them: an order inside them must not sound like the server's. What
    is foreign is every stretch that an exception behind this one holds too, in its words, arguments or notes.
    """
    if isinstance(text, Safe):
        return text
    text = str.__str__(text)
    found = attempt(_in_quotes, None, text, exc)
    return quoted(text, MAX_WORDS) if found is None else found


def _in_quotes(text: str, exc: BaseException) -> str:
    words = _foreign_words(exc)
    if not words:
        return text
    if len(text) > MAX_QUOTED:
        text = cut_short(text, MAX_QUOTED)
    foreign = bytearray(len(text))
    stretches: set[str] = set()
    for said in words:
        for piece in {said, said.strip(), *map(str.strip, said.splitlines()[:50])}:
            at = text.find(piece) if len(piece) >= MIN_WORDS else -1
            while at >= 0:
                foreign[at : at + len(piece)] = b"\1" * len(piece)
                at = text.find(piece, at + len(piece))
        stretches.update(said[i : i + STRETCH] for i in range(len(said) - STRETCH + 1))
    for i in range(len(text) - STRETCH + 1):
        if text[i : i + STRETCH] in stretches:
            foreign[i : i + STRETCH] = b"\1" * STRETCH
    parts: list[str] = []
    end = 0
    for m in re.finditer(b"\1+", foreign):
        start, stop = m.span()
        if start and text[start - 1] in "\"'" and text[start - 1] == text[stop : stop + 1]:
            start, stop = start - 1, stop + 1  # its author put it in quotes already
        parts += (text[end:start], quoted(text[m.start() : m.end()], MAX_WORDS))
        end = stop
    return joined((*parts, text[end:]))


def _foreign_words(exc: BaseException) -> list[str]:
    """What the exceptions behind this one say: causes and contexts, suppressed or not, and the leaves of groups."""
    words: dict[str, None] = {}
    waiting, seen = [_CAUSE(exc), _CONTEXT(exc)], {id(exc)}
    while waiting and len(seen) < MAX_CHAIN:
        link = waiting.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        waiting += (_CAUSE(link), _CONTEXT(link), *(members(link)[:MAX_CHAIN] if isinstance(link, Group) else ()))
        said = (text_of(link), *_ARGS(link), *attempt(vars, {}, link).values(), *getattr(link, "__notes__", ()))
        for value in said[:MAX_CHAIN]:
            for item in value.values() if isinstance(value, dict) else (value,):
                if isinstance(item, bytes):
                    item = item[:MAX_QUOTED].decode(errors="replace")
                if isinstance(item, str) and len(item) >= MIN_WORDS:
                    item = str.__str__(item)[:MAX_QUOTED]
                    words.update(dict.fromkeys((item, repr(item)[1:-1])))
    return list(words)[:MAX_CHAIN]


def is_protocol_error(kind: type) -> bool:
    """Whether a class is an SDK's protocol error (`McpError`, `MCPError`); none is imported for it."""
    return any(c.__name__ in ("McpError", "MCPError") and _package(c.__module__) == "mcp" for c in kind.__mro__)


def protocol_error_data(exc: BaseException) -> tuple[int, str, Any] | None:
    """Code, message and data if this is an SDK's protocol error (`McpError`, `MCPError`), else None."""
    if not is_protocol_error(type(exc)):
        return None
    error = getattr(exc, "error", None)
    code = getattr(error, "code", None)
    if isinstance(code, bool) or not isinstance(code, int):
        return -32603, "", None
    return code, str(getattr(error, "message", "")), getattr(error, "data", None)


def raised_below(exc: BaseException, function: str) -> bool:
    """Whether a function of this name, of the host's, stands in the traceback."""
    tb = exc.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_name == function and _package(tb.tb_frame.f_globals.get("__name__", "")) in _HOSTS:
            return True
        tb = tb.tb_next
    return False


def validated_by_host(exc: BaseException) -> bool:
    """Whether this is pydantic's error of a validation that the host asked for, not the tool's own code."""
    if not isinstance(exc, ValidationError):
        return False
    caller, tb = "", exc.__traceback__
    while tb is not None:
        module = str(tb.tb_frame.f_globals.get("__name__", ""))
        # anyio: where the host validates in a worker thread.
        caller = caller if _package(module) in ("pydantic", "anyio") else module
        tb = tb.tb_next
    return caller.startswith(_VALIDATORS)


_HOSTS: Final = ("mcp", "fastmcp")
_VALIDATORS: Final = ("mcp.server.", "mcp_types.", "fastmcp.tools.", "fastmcp.utilities.async_utils")
_ON_PURPOSE: Final = ("fastmcp.server.middleware", "fastmcp.server.tasks")


def _package(module: str) -> str:
    return module.partition(".")[0]


def raised_in(exc: BaseException) -> str:
    """Name of the module in which an exception was raised; "" if it was not."""
    tb = exc.__traceback__
    if tb is None:
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    return str(tb.tb_frame.f_globals.get("__name__", ""))


def raised_by_sdk(exc: BaseException) -> bool:
    """Whether the SDK raised it: the innermost traceback frame lies inside the `mcp` or `fastmcp` package.

    A session raises the same class for a refused sampling request or a failed upstream call that an
    author raises on purpose, and only the place tells them apart. What fastmcp's middleware raises (rate
    limiting, say) counts as the author's, who chose it; what its task routing raises is about the request.
    """
    module = raised_in(exc)
    return _package(module) in _HOSTS and not module.startswith(_ON_PURPOSE)


def members(group: Any) -> tuple[BaseException, ...]:
    """The exceptions of a group, whatever its class makes of the attribute."""
    return attempt(lambda: tuple(e for e in group.exceptions if isinstance(e, BaseException)), ())


def leaves(group: BaseException) -> Iterator[BaseException]:
    """The exceptions inside nested groups, in order, each once, a hundred at most."""
    stack, seen, count = [group], set(), 0
    while stack and count < MAX_LEAVES:
        exc = stack.pop()
        if id(exc) in seen:
            continue
        seen.add(id(exc))
        if isinstance(exc, Group):
            stack.extend(reversed(members(exc)))
        else:
            count += 1
            yield exc


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


def origin(exc: BaseException) -> tuple[BaseException | None, str]:
    """What an exception came from and how (`cause`, `context`), whatever its class makes of these attributes."""
    cause = _CAUSE(exc)
    if cause is not None:
        return cause, "cause"
    return (None if _SUPPRESSED(exc) else _CONTEXT(exc)), "context"


def came_from(exc: BaseException) -> tuple[BaseException | None, str]:
    """The same for the log: a guard's `ToolFailure` does not show what it was raised for, but knows it."""
    problem = exc._problem if isinstance(exc, ToolFailure) else None
    if problem is not None and problem.exception is not None:
        return problem.exception, "cause"
    return origin(exc)


_CAUSE: Final[Callable[[BaseException], Any]] = vars(BaseException)["__cause__"].__get__
_ARGS: Final[Callable[[BaseException], Any]] = vars(BaseException)["args"].__get__
_CONTEXT: Final[Callable[[BaseException], Any]] = vars(BaseException)["__context__"].__get__
_SUPPRESSED: Final[Callable[[BaseException], Any]] = vars(BaseException)["__suppress_context__"].__get__


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


Hook = Callable[[BaseException, Failure], object]
