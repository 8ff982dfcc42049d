"""What the operator gets of a call: its line in the log, the hook, the span's status.

Each function here writes a line, and none of them raises.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from typing import Any, Final

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, ProtocolProblem
from iserror.errors.toolfailure import came_from, id_elsewhere
from iserror.errors.verdict import judge
from iserror.errors.vocabulary import BUILT_IN, Outcome
from iserror.layers.call import Call
from iserror.logs.emit import emit
from iserror.logs.excinfo import described
from iserror.logs.forward import forward
from iserror.logs.record import SCHEMA_VERSION
from iserror.logs.redaction import MAX_ARGUMENTS, log_text, redacted
from iserror.logs.sink import tell_once
from iserror.redact.speech import log_name
from iserror.support.causes import MAX_CHAIN, leaves
from iserror.support.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from iserror.support.look import MAX_TOLD, look, shield
from iserror.support.otel import mark_span

_CATEGORIES: Final = {
    -32600: "invalid_argument",
    -32601: "unimplemented",
    INVALID_PARAMS: "invalid_argument",
    INTERNAL_ERROR: "internal",
}
"""JSON-RPC's own codes in gRPC's words."""


def report(call: Call, *, handled: str | None = None) -> None:
    """Log what a call failed with, call the hook, mark the span.

    Args:
        call: A failed call; any other is left alone.
        handled: Why the client doesn't see this failure (`retried`, `recovered`, `cancelled`), if so.
    """
    shield(_report, None, call, handled)


def _report(call: Call, handled: str | None) -> None:
    problem, failure = call.progress.problem, call.progress.failure
    if not isinstance(problem, Problem) or failure is None:
        return
    other = _taken_over(call, problem)
    final = handled is None and call.parent is None
    if final:
        report_kept(call)
    _log_failure(call, "tool_failed", problem, failure, final=final, handled=handled, child_request_id=other)
    if not handled:
        mark_span(failure.code, call.request_id)


def report_item(call: Call, problem: Problem, failure: Failure, item_id: object) -> None:
    """Log the failure of one item of a call that goes on, and call the hook. The call's end is another line."""
    shield(_report_item, None, call, problem, failure, item_id)


def _report_item(call: Call, problem: Problem, failure: Failure, item_id: object) -> None:
    item, other = log_text(look(str, "", item_id)), _taken_over(call, problem)
    _log_failure(call, "item_failed", problem, failure, item=item, child_request_id=other)


def _log_failure(
    call: Call, event: str, problem: Problem, failure: Failure, *, final: bool = False, **more: Any
) -> None:
    said = {
        "code": failure.code,
        "category": failure.category,
        "retryable": failure.retryable,
        "outcome": failure.outcome,
        "mapped": problem.mapped,
        "fields": list(problem.fields) or None,
        "rules": list(problem.rules) or None,
        "context_code": problem.context_code,
        "upstream_request_id": problem.upstream.request_id if problem.upstream is not None else None,
        "first_request_id": problem.first_request_id,
        # No exception has its text.
        "message": log_text(problem.message, MAX_SAID) if failure.code == "RETURNED_ERROR" else None,
        **more,
    }
    # What failed, at least, where nothing more can be told of the call.
    least = {"schema_version": SCHEMA_VERSION, "request_id": call.request_id, **_present(said)}
    line = shield(lambda: _line(call, problem.exception, **said), least)
    if problem.refused:
        _hide_arguments(line, failure)
    emit("error" if problem.is_crash else problem.level, event, line, call, final=final)
    for path in problem.missing:
        _log_missing(call, failure.code, ".".join(path))
    hook = call.settings.on_error
    if hook is not None and (problem.exception is not None or problem.first_request_id is None):
        exception = problem.exception if problem.exception is not None else Exception(failure.text)
        if look(lambda: (hook(exception, failure),), None) is None:
            tell_once("on_error", "the on_error hook raised; results are not affected")
    if final:
        shield(_forward, None, call, problem)


def _forward(call: Call, problem: Problem) -> None:
    """Let the host's own sinks hear of a failure."""
    wanted = call.settings.forward
    if wanted == "all" or (wanted == "crashes" and problem.is_crash and call.settings.on_error is None):
        logged = call.request.logged()
        if logged is not None and problem.exception is not None:
            forward(*logged, problem.exception)


_told_missing: Final[set[tuple[str, str]]] = set()


def _log_missing(call: Call, code: str, attribute: str) -> None:
    """Log once that an entry's template got no value from an attribute: its name may be misspelt."""
    if (code, attribute) not in _told_missing and len(_told_missing) < MAX_TOLD:
        _told_missing.add((code, attribute))
        line = {"schema_version": SCHEMA_VERSION, "request_id": call.request_id, "code": code, "attribute": attribute}
        emit("warning", "template_value_missing", line, call)


def protocol_outcome(call: Call, problem: ProtocolProblem) -> Outcome:
    """Return what a JSON-RPC error means for the side effect of the tool that it ended."""
    return judge(
        code=problem.name or str(problem.code),
        category=_protocol_category(problem),
        effect=call.effect,
        # Only our own codes say it: an author's may come after an effect.
        outcome="not_applied" if problem.name else None,
        basis="code" if problem.name else "none",
        untouched=not call.progress.touched,
    ).outcome


def _protocol_category(problem: ProtocolProblem) -> str:
    return BUILT_IN.get(problem.name or "") or _CATEGORIES.get(problem.code, "unknown")


def log_protocol_error(call: Call, problem: ProtocolProblem, *, level: str = "warning") -> None:
    """Log an error that leaves as a JSON-RPC error, and mark the span."""
    shield(_log_protocol_error, None, call, problem, level)


def _log_protocol_error(call: Call, problem: ProtocolProblem, level: str) -> None:
    refused = call.progress.problem
    fields = refused.fields if isinstance(refused, Problem) else ()
    line = _line(
        call,
        problem.exception,
        jsonrpc_error_code=problem.code,
        code=problem.name or str(problem.code),
        category=_protocol_category(problem),
        retryable=False,
        outcome=protocol_outcome(call, problem),
        mapped=False,
        fields=list(fields) or None,
    )
    if problem.failure is not None:
        _hide_arguments(line, problem.failure)
    report_kept(call)
    emit(level, "protocol_error", line, call, final=call.parent is None)
    mark_span(problem.name or str(problem.code), call.request_id)


def _hide_arguments(line: dict[str, Any], failure: Failure) -> None:
    """Put the safe words for the exception's: a location of arguments that don't fit may be a key of the caller's."""
    if "exception" in line:
        line["exception"][0]["message"] = failure.message


# --- nested calls --------------------------------------------------------------------------------------------


ORPHANED: Final = 5.0
"""Seconds that the failure of a task without a call waits for a call that fails with it."""

MAX_ORPHANS: Final = 100
"""The most failures that wait so. Others are reported at once."""


def report_or_keep(call: Call) -> None:
    """Report a failed call, or leave that to the call that it is nested in, which may fail with it."""
    root = call.root
    # A task that outlives the call in which it was started has no call above it that would report.
    if root.orphaned:
        orphans.keep(call)
    elif root is call or root.progress.closed:
        report(call)
    elif isinstance(call.progress.problem, Problem):
        key = id(call.progress.problem.exception)
        root.kept = root.kept or {}
        root.kept[key] = call
        _keepers[key] = root


_keepers: Final[dict[int, Call]] = {}
"""The calls that keep failures, by the ids of their exceptions: a worker may pass one on to another call."""


def report_kept(call: Call) -> None:
    """Report the failures of nested calls that the call went on without."""
    if call.kept:
        kept, call.kept = call.kept, None
        for key in kept:
            _keepers.pop(key, None)
        for nested in kept.values():
            report(nested, handled="recovered")


def _taken_over(call: Call, problem: Problem) -> str | None:
    """Drop the failures that a failure came from: they are not reported again.

    Returns:
        The id under which one of them failed in another call, if any: in a child process, or in a task that outlived
        the call that started it.
    """
    other: str | None = None
    for leaf in leaves(problem.exception) if problem.exception is not None else ():
        link: BaseException | None = leaf
        for _ in range(MAX_CHAIN):
            if link is None:
                break
            keeper = _keepers.pop(id(link), None)
            failed = orphans.take(link) if keeper is None or not keeper.kept else keeper.kept.pop(id(link), None)
            said = failed.request_id if failed is not None else id_elsewhere(link)
            other = other or (said if said != call.request_id else None)
            link = came_from(link)[0]
    return other


class _Orphans:
    """Failures of guarded functions in tasks that outlived the call that started them.

    A worker hands its failures to the call that waits for them, which reports them. If no call does so soon, none
    waits: then each is reported under its own id.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[float, Call, Problem, Failure]] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.waiting.clear)  # the parent reports them
        atexit.register(self.report_all)

    def keep(self, call: Call) -> None:
        """Report a failed call later, unless another call takes it over."""
        problem, failure = call.progress.problem, call.progress.failure
        if isinstance(problem, Problem) and failure is not None and len(self.waiting) < MAX_ORPHANS:
            self.waiting[id(problem.exception)] = time.monotonic(), call, problem, failure
            self._wake()
        else:
            report(call)

    def take(self, exc: BaseException) -> Call | None:
        """Return the failed call of an exception, which another call reports."""
        found = self.waiting.pop(id(exc), None)
        return None if found is None else found[1]

    def _wake(self) -> None:
        timer = threading.Timer(ORPHANED, self._report_old)
        timer.daemon = True
        look(timer.start, None)  # no more threads, or the interpreter is going down: then `atexit`

    def _report_old(self) -> None:
        self.report_all(time.monotonic() - ORPHANED)

    def report_all(self, since: float = math.inf) -> None:
        """Report what has waited since a time or longer."""
        for key, (begun, call, problem, failure) in list(self.waiting.items()):
            if begun <= since and self.waiting.pop(key, None) is not None:
                call.waited(time.monotonic() - begun)  # it did not take longer for that
                call.progress.fails(problem, failure)
                report(call)
                call.progress.lets_go()


orphans: Final = _Orphans()


# --- calls that did not fail ---------------------------------------------------------------------------------


def log_cancelled(call: Call) -> None:
    """Log that a call ended because its caller gave it up: this isn't a failure, and no answer is due."""
    report_kept(call)
    shield(lambda: emit("info", "tool_cancelled", _line(call), call, final=call.parent is None), None)


def log_started(call: Call) -> None:
    """Log that a call begins, if `ToolErrors(calls=True)` asked for that."""
    if call.settings.calls:
        shield(lambda: emit("debug", "tool_started", _without(_line(call), "duration_ms"), call), None)


def log_finished(call: Call) -> None:
    """Log that a call ended well, if `ToolErrors(calls=True)` asked for that."""
    if call.settings.calls:
        report_kept(call)
        shield(lambda: emit("debug", "tool_finished", _line(call), call, final=call.parent is None), None)


def log_returned_error(call: Call, problem: Problem, setting: str, *, partial: bool) -> None:
    """Log that a tool's success reads like an error: its author should raise instead.

    Args:
        call: The call.
        problem: What it says.
        setting: What `returned_errors` is.
        partial: Whether there is an answer beside the error.
    """
    shield(_log_returned_error, None, call, problem, setting, partial)


def _log_returned_error(call: Call, problem: Problem, setting: str, partial: bool) -> None:
    message = log_text(problem.message, MAX_SAID)
    line = _line(call, code=problem.code, message=message, returned_errors=setting, partial=partial)
    emit("warning", "error_returned", line, call)


MAX_SAID: Final = 200
"""Characters of what a returned error says, in the log."""


def log_surrogates(call: Call) -> None:
    """Log that a success held texts that no encoding has: U+FFFD stands in their place."""
    shield(lambda: emit("warning", "surrogates_replaced", _line(call), call), None)


def log_replayed(call: Call, first_request_id: str) -> None:
    """Log that a call ran nothing and got the result of an earlier one with its idempotency key."""
    shield(lambda: emit("info", "idempotent_replay", _line(call, first_request_id=first_request_id), call), None)


def _without(line: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != key}


def _line(call: Call, exc: BaseException | None = None, **more: Any) -> dict[str, Any]:
    """Return the fields of a line without those that are None. The exception comes last: it is long."""
    request = call.request
    line: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "server": None,
        "tool": log_name(call.tool),
        "request_id": call.request_id,
        "trace_id": call.trace_id,
        "jsonrpc_id": call.jsonrpc_id,
        "protocol_version": request.protocol_version,
        **look(request.facts, {}),
        "duration_ms": round((time.perf_counter_ns() - call.started) / 1e6, 3),
        "fingerprint": call.fingerprint,
    }
    if call.settings.log_arguments and request.arguments is not None and "item" not in more:  # not once per item
        line["arguments"] = redacted(request.arguments, MAX_ARGUMENTS)
    line.update(more)
    if exc is not None:
        line["exception"] = described(exc)
    return _present(line)


def _present(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if value is not None}
