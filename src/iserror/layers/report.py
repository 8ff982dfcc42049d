"""What the operator gets of a failed call: one line, the hook, the span's status. Never fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, ProtocolProblem, built_in
from iserror.errors.returned import text_of_value
from iserror.errors.vocabulary import BUILT_IN, Outcome, default_outcome
from iserror.layers.call import Call
from iserror.layers.cancel import must_pass
from iserror.logs.emit import emit
from iserror.logs.excinfo import described
from iserror.logs.record import SCHEMA_VERSION
from iserror.logs.redaction import log_text, redacted
from iserror.logs.sink import tell_once
from iserror.redact.speech import log_name
from iserror.support.look import attempt
from iserror.support.otel import mark_span

if TYPE_CHECKING:
    from iserror.guard import ToolErrors

# JSON-RPC's own codes in gRPC's words.
_CATEGORIES: Final = {
    -32600: "invalid_argument",
    -32601: "unimplemented",
    -32602: "invalid_argument",
    -32603: "internal",
}


def report(call: Call, *, handled: str | None = None) -> None:
    """Log the call's failure, call the hook, mark the span.

    Args:
        call: A call whose `problem` and `failure` are set.
        handled: Why the client does not see this failure (`retried`, `recovered`, `cancelled`), if so.
    """
    problem, failure = call.problem, call.failure
    if not isinstance(problem, Problem) or failure is None:
        return
    call.root.told(problem)
    final = handled is None and call.parent is None
    if final:
        call.tell_kept()
    _report(call, "tool_failed", problem, failure, final=final, handled=handled)
    if not handled:
        mark_span(failure.code, call.request_id)


def report_item(call: Call, problem: Problem, failure: Failure, item_id: object) -> None:
    """Log the failure of one item of a call that goes on, and call the hook. The call's end is another line."""
    call.root.told(problem)
    _report(call, "item_failed", problem, failure, item=log_text(attempt(str, "", item_id)))


def _report(call: Call, event: str, problem: Problem, failure: Failure, *, final: bool = False, **more: Any) -> None:
    upstream = problem.envelope.request_id if problem.envelope is not None else None
    line = _line(
        call,
        problem.exception,
        code=failure.code,
        category=failure.category,
        retryable=failure.retryable,
        outcome=failure.outcome,
        mapped=problem.mapped,
        fields=list(problem.fields) or None,
        upstream_request_id=upstream if upstream != call.request_id else None,
        first_request_id=problem.first_request_id,
        **more,
    )
    if problem.refused:
        _hide_arguments(line, failure)
    emit("error" if problem.is_crash else problem.level, event, line, call, final=final)
    hook = call.guard.on_error
    if hook is not None and (problem.exception is not None or problem.first_request_id is None):
        exception = problem.exception if problem.exception is not None else Exception(failure.text)
        if attempt(lambda: (hook(exception, failure),), None) is None:
            tell_once("on_error", "the on_error hook raised; results are not affected")


def _protocol_category(problem: ProtocolProblem) -> str:
    return BUILT_IN.get(problem.name or "") or _CATEGORIES.get(problem.code, "unknown")


def protocol_outcome(call: Call, problem: ProtocolProblem) -> Outcome:
    """What a JSON-RPC error means for the side effect of the tool that it ended."""
    return "not_applied" if call.effect == "read" else default_outcome(_protocol_category(problem))


def report_protocol(call: Call, problem: ProtocolProblem, *, level: str = "warning") -> None:
    """Log an error that leaves as a JSON-RPC error."""
    refused = call.problem
    fields = refused.fields if isinstance(refused, Problem) else ()
    category = _protocol_category(problem)
    line = _line(
        call,
        problem.exception,
        jsonrpc_error_code=problem.code,
        code=problem.name or str(problem.code),
        category=category,
        retryable=False,
        outcome=protocol_outcome(call, problem),
        mapped=False,
        fields=list(fields) or None,
    )
    if problem.failure is not None:
        _hide_arguments(line, problem.failure)
    call.tell_kept()
    emit(level, "protocol_error", line, call, final=call.parent is None)
    mark_span(problem.name or str(problem.code), call.request_id)


def _hide_arguments(line: dict[str, Any], failure: Failure) -> None:
    """Of arguments that do not fit, the log has the safe words too: a location may be a key of the caller's."""
    if "exception" in line:
        line["exception"][0]["message"] = failure.message


def report_cancelled(call: Call) -> None:
    """Log that a call ended because its caller gave it up: no failure, and no answer."""
    call.tell_kept()
    emit("info", "tool_cancelled", _line(call), call, final=call.parent is None)


def report_given_up(call: Call, exc: BaseException) -> None:
    """Log that a call which no client made was cancelled; an interrupt says nothing about it."""
    if must_pass(exc) and not isinstance(exc, (KeyboardInterrupt, GeneratorExit)):
        report_cancelled(call)


def report_started(call: Call) -> None:
    """Log that a call begins; only with `ToolErrors(calls=True)`."""
    emit("debug", "tool_started", {key: value for key, value in _line(call).items() if key != "duration_ms"}, call)


def report_finished(call: Call) -> None:
    """Log that a call ended well; only with `ToolErrors(calls=True)`."""
    call.tell_kept()
    emit("debug", "tool_finished", _line(call), call, final=call.parent is None)


def report_returned(call: Call) -> None:
    """Log that a tool's success reads like an error: its author should raise instead."""
    emit("warning", "error_returned", _line(call), call)


def report_replayed(call: Call, first_request_id: str) -> None:
    """Log that a call ran nothing and got the result of an earlier one with its idempotency key."""
    emit("info", "idempotent_replay", _line(call, first_request_id=first_request_id), call)


def _line(call: Call, exc: BaseException | None = None, **more: Any) -> dict[str, Any]:
    """The fields of a line; what is None is left out. The exception comes last, where it is out of the eye's way."""
    arguments = call.arguments
    line: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "server": None,
        "tool": log_name(call.tool),
        "request_id": call.request_id,
        "trace_id": call.trace_id,
        "jsonrpc_id": call.jsonrpc_id,
        "protocol_version": call.protocol_version,
        **attempt(call.facts, {}),
        "duration_ms": round((time.perf_counter_ns() - call.started) / 1e6, 3),
        "fingerprint": call.fingerprint,
    }
    if call.guard.log_arguments and arguments is not None and "item" not in more:  # not once an item
        line["arguments"] = redacted(dict(arguments))
    line.update(more)
    if exc is not None:
        line["exception"] = described(exc)
    return {key: value for key, value in line.items() if value is not None}


Hook = Callable[[BaseException, Failure], object]


def from_value(guard: ToolErrors, call: Call, value: Any) -> Problem | None:
    """The problem that a success reads like, if the guard converts such; otherwise it is only told."""
    says_error = attempt(lambda: bool(guard.is_returned_error(value)), None)
    if says_error is None:
        tell_once("is_returned_error", "is_returned_error raised; the value counts as a success")
    if not says_error:
        return None
    problem = built_in("RETURNED_ERROR", text_of_value(value), outcome="unknown")
    if guard.returned_errors == "convert":
        return problem
    report_returned(call)
    return None
