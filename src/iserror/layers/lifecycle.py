"""How a call begins, is stepped out of, fails and ends."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from structlog.contextvars import bind_contextvars, reset_contextvars

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, crash, last_resort, say
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call, current
from iserror.layers.report import log_started, report_kept
from iserror.redact.speech import MAX_TOOL_NAME, log_name, safe_name
from iserror.support.look import shield


def _structlog_vars(*names: str) -> tuple[ContextVar[Any], ...]:
    """Return structlog's own context variables of these names. To set one is what binding does, and fast."""
    tokens = bind_contextvars(**dict.fromkeys(names))
    reset_contextvars(**tokens)
    return tuple(tokens[name].var for name in names)


_REQUEST_ID, _TOOL, _TRACE_ID, _JSONRPC_ID = _structlog_vars("request_id", "tool", "trace_id", "jsonrpc_id")


class Scope:
    """The stretch of code that runs in a call: what `enter` changed, for `step_out` to undo."""

    __slots__ = ("_bound", "_current", "call")

    def __init__(self, call: Call) -> None:
        self.call = call
        self._enter()
        log_started(call)

    def _enter(self) -> None:
        call = self.call
        self._current = current.set(call)
        bound: tuple[Token[Any], ...] = ()
        if call.parent is None:
            tool = call.tool if call.tool.isidentifier() and len(call.tool) <= MAX_TOOL_NAME else log_name(call.tool)
            bound = (_REQUEST_ID.set(call.request_id), _TOOL.set(tool))
            if call.trace_id is not None:
                bound += (_TRACE_ID.set(call.trace_id),)
            if call.jsonrpc_id is not None:
                bound += (_JSONRPC_ID.set(call.jsonrpc_id),)
        self._bound = bound

    def step_out(self) -> None:
        """Leave the call for a while, as a generator does between two items."""
        try:
            current.reset(self._current)
            for token in self._bound:
                token.var.reset(token)
        except ValueError:  # a generator may be closed in another context, where there is nothing to undo
            pass

    def step_in(self) -> None:
        """Go on in the call."""
        self._enter()

    def leave(self) -> None:
        """End the call, and report what failed in it that has not been reported."""
        call = self.call
        call.progress.closes()
        try:
            report_kept(call)
        finally:
            self.step_out()
        if call.parent is None and call.progress.problem is not None:
            call.progress.lets_go()


def failure_of(call: Call, problem: Problem) -> Failure:
    """Say a problem of this call's tool. Never raises."""
    said = shield(_say, None, call, problem)
    if said is None:  # a crash says less, but of the right tool
        said = shield(_say, None, call, crash(RuntimeError()))
    return said if said is not None else last_resort(call.request_id)


def _say(call: Call, problem: Problem) -> Failure:
    return say(
        problem,
        tool=safe_name(call.tool),
        effect=call.effect,
        request_id=call.request_id,
        trace_id=call.trace_id,
        keyed=call.progress.keyed,
        untouched=not call.progress.touched,
    )


def fail(call: Call, problem: Problem) -> ToolFailure:
    """Note what the call failed with, for the layers above, and return the exception that says it."""
    failure = failure_of(call, problem)
    call.progress.fails(problem, failure)
    return ToolFailure.raised_for(failure, problem)
