"""The outermost layer of a served call: what ended it, in which channel the answer leaves, and in what form.

Hosts differ in how a call reaches this layer (`iserror.hosts`). This layer decides what they send, so that the same
failure gives the same bytes on each.

A failure passes these steps. A function raises (`run`). `resolve` finds what that means, and `say` puts it into words.
The host carries it here. `settle` chooses the channel, `report` writes the line, and the adapter's `error_result` gives
it the host's form.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import anyio.lowlevel

from iserror.errors.blocks import safe_blocks
from iserror.errors.failure import Failure
from iserror.errors.partial import PartialResult
from iserror.errors.problem import Problem, ProtocolProblem, crash
from iserror.errors.resolve import resolve
from iserror.errors.returned import problem_of_result, redacted_meta, safe_structured
from iserror.layers.call import Call
from iserror.layers.cancel import (
    cancellations,
    cancelled_by_scope,
    ends_request,
    may_pass,
    stay,
    task_now,
    was_asked_to_end,
)
from iserror.layers.lifecycle import Scope, fail
from iserror.layers.protocol import report_wire_error, wire_error
from iserror.layers.report import log_cancelled, log_finished, report
from iserror.layers.returned import sendable
from iserror.layers.toolhost import WireHost
from iserror.logs.chain import State
from iserror.logs.configure import reinstall
from iserror.redact.speech import MAX_MESSAGE, safe_line, safe_name
from iserror.redact.text import clean_line
from iserror.support.jsonrpc import (
    FAILURE_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    REQUEST_ID_KEY,
    RESULT_REVISION,
    TOOL_FAILURE_KEY,
    UPSTREAM_KEY,
)
from iserror.support.look import shield
from iserror.support.schema import schema_error
from iserror.support.sdk import protocol_error_data, raised_by_sdk, validated_by_host

R = TypeVar("R")

_FAULT: Final = object()


async def serve(host: WireHost, call: Call, invoke: Callable[[], Awaitable[R]]) -> R | Any:
    """Run a served call in its own scope.

    Args:
        host: The forms that the host sends.
        call: The call, not yet entered.
        invoke: Runs what the host has for it.

    Returns:
        The result: the host's own, or the error result that stands for a failure.

    Raises:
        Exception: The host's protocol error, or what has to propagate (cancellation, the SDK's own errors).
    """
    if State.reinstall_due:  # an HTTP server configures logging after everything else
        State.reinstall_due = False
        shield(reinstall, None)
    result: Any = None
    ended: BaseException | None = None
    task = task_now()
    before = cancellations(task)
    call.progress.served(task)
    scope = Scope(call)
    try:
        try:
            result = await invoke()
            if cancelled_by_scope():
                # The tool swallowed it, or a thread could not see it. No answer is due (specification 2026-07-28,
                # cancellation), and the 1.x SDK's session dies of one.
                await anyio.lowlevel.checkpoint()
        except BaseException as exc:
            ended = exc
        if was_asked_to_end(task, before):
            await stay(task, before)
        answer = shield(_answer, _FAULT, host, call, result, ended)
        if answer is _FAULT:
            answer = _answer_of_fault(host, call, result, ended)
    finally:
        scope.leave()
        ended = None
    if isinstance(answer, BaseException):
        try:
            raise answer
        finally:
            del answer
    return answer


def _answer(host: WireHost, call: Call, result: Any, ended: BaseException | None) -> Any:
    """Return what the host sends, or the exception to raise."""
    if ended is not None and ends_request(ended):
        report(call, handled="cancelled")
        log_cancelled(call)
        return ended
    error = host.error_in(result) if ended is None else None
    unsendable = None
    if ended is None and error is None:
        result, unsendable = shield(sendable, (result, None), call, result)
    if ended is None and error is None and unsendable is None:
        if call.progress.problem is not None:
            # A middleware answered instead. The client has a result; the operator has the line.
            report(call, handled="recovered")
        log_finished(call)
        return shield(host.led, result, result, lambda structured, text: _lead(call, structured, text))
    problem = unsendable or call.progress.problem or _outside_the_tool(host, call, error, ended)
    if problem is None:
        return ended if ended is not None else result
    return _failure(host, call, settle(call, problem))


def _answer_of_fault(host: WireHost, call: Call, result: Any, ended: BaseException | None) -> Any:
    """Return an answer although a step of ours failed.

    What has to propagate still does, a success stays one, and a failure that has been said stays that. Anything else
    is a crash.
    """
    progress = call.progress
    if ended is not None and may_pass(ended, ends_request):
        return ended
    if ended is None and progress.finished and progress.problem is None and progress.escaped is None:
        return result
    if progress.failure is None or not isinstance(progress.problem, Problem):
        fail(call, crash(ended or RuntimeError("the call could not be settled")))
    answer = shield(lambda: _failure(host, call, progress.problem), _FAULT)
    return _last_resort(host, call) if answer is _FAULT else answer


def _last_resort(host: WireHost, call: Call) -> Any:
    """Return the exception that says no more than that the request failed: the host's form couldn't be made."""
    data = {REQUEST_ID_KEY: call.request_id}
    # Without that either, the host makes its own error of this one.
    unmade = RuntimeError("The request failed.")
    return shield(host.protocol_error, unmade, INTERNAL_ERROR, "The request failed.", data)


def settle(call: Call, problem: Problem | ProtocolProblem) -> Problem | ProtocolProblem:
    """Choose the channel of a failure: a `Problem` leaves as a result, a `ProtocolProblem` as a JSON-RPC error."""
    if isinstance(problem, ProtocolProblem):
        return problem
    if call.progress.problem is not problem or call.progress.failure is None:
        fail(call, problem)
    if not problem.refused or not _arguments_are_protocol(call):
        return problem
    failure = call.progress.failure
    assert failure is not None
    message = safe_line(f"Invalid arguments for tool {failure.tool}: {failure.message}")
    cause = problem.exception or ValueError(message)
    return ProtocolProblem(cause, INVALID_PARAMS, message, name=failure.code, failure=failure)


def _arguments_are_protocol(call: Call) -> bool:
    setting, version = call.settings.invalid_arguments, call.request.protocol_version
    if setting != "auto":
        return setting == "protocol"
    return version is not None and version < RESULT_REVISION


def _failure(host: WireHost, call: Call, problem: Problem | ProtocolProblem | None) -> Any:
    """Report a failure, and return it in the host's form."""
    assert problem is not None
    if isinstance(problem, ProtocolProblem):
        sent = wire_error(call, problem)
        report_wire_error(call, problem, sent)
        return host.protocol_error(*sent)
    failure = call.progress.failure
    assert failure is not None
    if call.progress.traceback is not None and problem.exception is not None:
        problem.exception.__traceback__ = call.progress.traceback  # without the host's frames that it passed since
    report(call)
    # It is reported: whatever fails from here on must not make another failure of it.
    answer = shield(_error_result, _FAULT, host, call, problem, failure)
    return _last_resort(host, call) if answer is _FAULT else answer


def _error_result(host: WireHost, call: Call, problem: Problem, failure: Failure) -> Any:
    envelope = failure.to_wire()
    meta = shield(redacted_meta, {}, problem.meta)
    meta[FAILURE_KEY] = envelope
    if problem.upstream is not None:
        meta[UPSTREAM_KEY] = {"request_id": problem.upstream.request_id}
    if call.settings.tool_failure_meta and TOOL_FAILURE_KEY not in meta:
        meta[TOOL_FAILURE_KEY] = draft_tool_failure(failure)
    blocks, left_out = shield(lambda: safe_blocks(problem.blocks, call.echo.is_whole), ([], ""))
    text = failure.noting(left_out) if left_out else failure.text
    content = [{"type": "text", "text": text}, *blocks]
    structured = _structured(call, problem, envelope)
    version = call.request.protocol_version
    answer = shield(host.error_result, None, content, structured, meta, version) if blocks else None
    # A block that the SDK's own types refuse must not cost the answer.
    return answer if answer is not None else host.error_result(content[:1], structured, meta, version)


def _structured(call: Call, problem: Problem, envelope: dict[str, Any]) -> dict[str, Any] | None:
    """Return the structured content of an error: the author's own beside the envelope, or the envelope alone.

    In a tool with an output schema it has to fit that: clients validate it, of an error too.
    """
    setting, schema = call.settings.structured, call.progress.output_schema
    own = shield(safe_structured, None, problem.structured)
    if schema is None:
        if own is None:
            return None if setting == "never" else dict(envelope)
        return own if setting == "never" else {**own, FAILURE_KEY: envelope}
    if own is not None and schema_error(schema, own) is None:
        return own
    return dict(envelope) if setting == "always" else None


def _outside_the_tool(
    host: WireHost, call: Call, error: tuple[object, object, object] | None, ended: BaseException | None
) -> Problem | ProtocolProblem | None:
    """Return the problem of a call that ended badly although no tool failed; None leaves the host's answer as it is."""
    progress = call.progress
    exc = progress.missing or progress.denied or progress.escaped or ended
    if exc is None:
        stated = problem_of_result(*(error or ((), None, None)))
        return stated.unproven() if progress.touched else stated
    if exc is not progress.denied and host.is_unknown_tool(exc):
        return _unknown_tool(call, exc)
    if progress.escaped is None and (validated_by_host(exc) or (protocol_error_data(exc) and raised_by_sdk(exc))):
        # Malformed requests, protocol state: the SDK's own answer to the host.
        return None
    problem = resolve(exc, progress.maps)
    if progress.touched and isinstance(problem, Problem):
        # A body ran before something else failed: what that says of itself isn't true of the call.
        return problem.unproven()
    return problem


def _unknown_tool(call: Call, exc: BaseException) -> Problem | ProtocolProblem:
    """Return the problem of a tool that doesn't exist, or that this caller may not see: both look the same."""
    message = f"Unknown tool: {safe_name(call.tool)}"
    if call.settings.unknown_tool == "result":
        return Problem("UNKNOWN_TOOL", message, exception=exc, outcome="not_applied")
    return ProtocolProblem(exc, INVALID_PARAMS, message, name="UNKNOWN_TOOL")


def _lead(call: Call, structured: object, text: str) -> str | None:
    """Return the line that goes before the text of a partial result; None before any other success.

    Structured content tells what the result is, wherever it comes from (a cache, a proxied server). Without it, the
    text has to be what the tool returned in this call, or the beginning of that.
    """
    summary: object = call.progress.incomplete
    if isinstance(structured, Mapping):
        incomplete = structured.get("complete") is False and structured.keys() >= PartialResult.model_fields.keys()
        summary = structured["summary"] if incomplete else None
    elif '"summary"' not in text[:20]:
        return None
    line = clean_line(summary, MAX_MESSAGE) if isinstance(summary, str) else ""
    return line if line and not text.startswith(line) else None


_GOVERNANCE: Final = frozenset({"unauthenticated", "permission_denied"})
_RELIABILITY: Final = frozenset({"unavailable", "deadline_exceeded", "resource_exhausted", "aborted"})


def draft_tool_failure(failure: Failure) -> dict[str, Any]:
    """Return the draft's shape (SEP-3313): `retryable` only for class `reliability`, times in epoch milliseconds."""
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
        "agentGuidance": failure.hint or failure.advice or failure.message,
    }
    if failure.retry_after is not None:
        draft["retryNotBefore"] = int((time.time() + failure.retry_after) * 1000)
    return draft
