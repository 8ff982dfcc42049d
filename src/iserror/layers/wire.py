"""The outermost layer of a served call: what ended it, in which channel the answer goes, and in what form.

Hosts differ in how a call reaches this layer (`iserror.hosts`); what is said is decided here, so that the same
failure gives the same bytes on each.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import anyio.lowlevel

from iserror.errors import returned
from iserror.errors.failure import Failure
from iserror.errors.partial import PartialResult
from iserror.errors.problem import Problem, ProtocolProblem, built_in, crash
from iserror.errors.resolve import resolve
from iserror.errors.returned import redacted_meta
from iserror.layers.call import Call
from iserror.layers.cancel import cancelled_by_scope, must_pass, task_now
from iserror.layers.protocol import protocol_parts
from iserror.layers.report import report, report_cancelled, report_finished
from iserror.logs.chain import State
from iserror.logs.configure import reinstall
from iserror.redact import clean_line
from iserror.redact.speech import MAX_MESSAGE, safe_line, safe_name
from iserror.support.jsonrpc import FAILURE_KEY, INVALID_PARAMS, RESULT_REVISION, TOOL_FAILURE_KEY
from iserror.support.look import attempt
from iserror.support.sdk import protocol_error_data, raised_by_sdk, validated_by_host

R = TypeVar("R")


_UNSETTLED: Final = object()


class WireHost(Protocol):
    """What a host's adapter knows and this layer does not."""

    def error_parts(self, result: Any) -> tuple[list[str], object] | None:
        """Texts and `_meta` of an error result; None for anything else."""

    def error_result(self, call: Call, text: str, structured: Mapping[str, Any] | None, meta: Mapping[str, Any]) -> Any:
        """The host's own error result."""

    def led(self, result: Any, line: Callable[[object, str], str | None]) -> Any:
        """A success with a line before its text, if `line` gives one for its structured content and first text.

        The result itself stays as it is: a cache of a middleware may hold it.
        """

    def protocol_error(self, code: int, message: str, data: Any) -> Any:
        """The exception that the host sends as this JSON-RPC error."""

    def is_unknown_tool(self, exc: BaseException) -> bool:
        """Whether this is the host's way of saying that there is no such tool for this caller."""


async def serve(host: WireHost, call: Call, invoke: Callable[[], Awaitable[R]]) -> R | Any:
    """Run a served call in its own scope and return the result, ours or the host's.

    Raises:
        Exception: The host's protocol error, or what has to pass (cancellation, the SDK's own errors).
    """
    if State.reinstall_due:  # an HTTP server configures logging after everything else
        State.reinstall_due = False
        attempt(reinstall, None)
    result: Any = None
    ended: BaseException | None = None
    call.awaiting = True
    call.served_by = task_now()
    call.enter()
    try:
        try:
            result = await invoke()
            if cancelled_by_scope():
                # The tool swallowed it, or a thread could not see it. No answer is due (specification 2026-07-28,
                # cancellation), and the 1.x SDK's session dies of one.
                await anyio.lowlevel.checkpoint()
        except BaseException as exc:
            ended = exc
        settled = attempt(_settle, _UNSETTLED, host, call, result, ended)
        if settled is _UNSETTLED:
            # The guard never fails: whatever went wrong in it makes the call a crash like any other.
            settled = answer(host, call, crash(ended or RuntimeError("the call could not be settled")))
    finally:
        call.leave()
        ended = None
    if isinstance(settled, BaseException):
        try:
            raise settled
        finally:
            del settled
    return settled


def _settle(host: WireHost, call: Call, result: Any, ended: BaseException | None) -> Any:
    if ended is not None and must_pass(ended):
        report(call, handled="cancelled")
        report_cancelled(call)
        return ended
    parts = host.error_parts(result) if ended is None else None
    if ended is None and parts is None:
        if call.problem is not None:
            # A middleware answered in the failure's place. The client has a result; the operator has the line.
            report(call, handled="recovered")
        if call.guard.calls:
            report_finished(call)
        return attempt(host.led, result, result, lambda structured, text: _lead(call, structured, text))
    problem = call.problem or _outside_the_tool(host, call, parts, ended)
    if problem is None:
        return ended if ended is not None else result
    return answer(host, call, problem)


def _lead(call: Call, structured: object, text: str) -> str | None:
    """The line that goes before the text of a success that is a partial result; None before any other.

    Structured content tells what the result is, wherever it comes from (a cache, a proxied server). Without it, the
    text has to be what the tool returned in this call, or the beginning of that.
    """
    summary: object = call.incomplete
    if isinstance(structured, Mapping):
        incomplete = structured.get("complete") is False and structured.keys() >= PartialResult.model_fields.keys()
        summary = structured["summary"] if incomplete else None
    elif '"summary"' not in text[:20]:
        return None
    line = clean_line(summary, MAX_MESSAGE) if isinstance(summary, str) else ""
    return line if line and not text.startswith(line) else None


def _outside_the_tool(
    host: WireHost, call: Call, parts: tuple[list[str], object] | None, ended: BaseException | None
) -> Problem | ProtocolProblem | None:
    """The call ended badly and no tool failed: the host or a middleware did. None leaves it as it is."""
    exc = call.missing or call.escaped or ended
    if exc is None:
        return returned.from_parts(*(parts or ([], None)))
    if host.is_unknown_tool(exc):
        return unknown_tool(call, exc)
    if call.escaped is None and (validated_by_host(exc) or (protocol_error_data(exc) and raised_by_sdk(exc))):
        # Malformed requests, protocol state: the SDK's own answer to the host.
        return None
    problem = resolve(exc, call.maps)
    if call.returned and isinstance(problem, Problem) and not problem.declared:
        # The body ran to its end before something else failed: it cannot be said that nothing was applied.
        return replace(problem, outcome="applied")
    return problem


def unknown_tool(call: Call, exc: BaseException | None) -> Problem | ProtocolProblem:
    """There is no such tool, or none that this caller may see; both look the same."""
    message = f"Unknown tool: {safe_name(call.tool)}"
    if call.guard.unknown_tool == "result":
        return built_in("UNKNOWN_TOOL", message, exception=exc, outcome="not_applied")
    return ProtocolProblem(exc or LookupError(message), INVALID_PARAMS, message, name="UNKNOWN_TOOL")


def answer(host: WireHost, call: Call, problem: Problem | ProtocolProblem) -> Any:
    """Report the problem and make the host's result of it, or the exception that is its JSON-RPC error."""
    if isinstance(problem, Problem):
        if call.problem is not problem or call.failure is None:
            call.fail(problem)
        failure = call.failure
        assert failure is not None
        if not problem.refused or not _arguments_are_protocol(call):
            report(call)
            return _result(host, call, problem, failure)
        message = safe_line(f"Invalid arguments for tool {failure.tool}: {failure.message}")
        problem = ProtocolProblem(
            problem.exception or ValueError(message), INVALID_PARAMS, message, name=failure.code, failure=failure
        )
    return host.protocol_error(*protocol_parts(call, problem))


def _arguments_are_protocol(call: Call) -> bool:
    setting = call.guard.invalid_arguments
    if setting != "auto":
        return setting == "protocol"
    return call.protocol_version is not None and call.protocol_version < RESULT_REVISION


def _result(host: WireHost, call: Call, problem: Problem, failure: Failure) -> Any:
    envelope = failure.to_wire()
    meta = redacted_meta(problem.meta)
    meta[FAILURE_KEY] = envelope
    if call.guard.tool_failure_meta and TOOL_FAILURE_KEY not in meta:
        meta[TOOL_FAILURE_KEY] = draft_tool_failure(failure)
    setting = call.guard.structured
    structured = setting == "always" or (setting == "auto" and call.output_schema is None)
    return host.error_result(call, failure.text, dict(envelope) if structured else None, meta)


_GOVERNANCE: Final = frozenset({"unauthenticated", "permission_denied"})
_RELIABILITY: Final = frozenset({"unavailable", "deadline_exceeded", "resource_exhausted", "aborted"})


def draft_tool_failure(failure: Failure) -> dict[str, Any]:
    """The draft's shape (SEP-3313): `retryable` only for class `reliability`, times in epoch milliseconds."""
    kind = "capability"
    if failure.category in _GOVERNANCE:
        kind = "governance"
    elif failure.retryable or failure.category in _RELIABILITY:
        kind = "reliability"
    draft: dict[str, Any] = {
        "class": kind,
        "code": failure.code,
        "retryable": failure.retryable,
        "correlationId": failure.request_id,
        "agentGuidance": failure.hint or failure.advice,
    }
    if failure.retry_after is not None:
        draft["retryNotBefore"] = int((time.time() + failure.retry_after) * 1000)
    return draft
