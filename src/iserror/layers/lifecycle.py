"""How a call begins, is stepped out of, fails and ends."""

from __future__ import annotations

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, crash, last_resort, say
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call, current
from iserror.layers.report import log_started, report_kept
from iserror.logs.owner import bind, ids_of
from iserror.redact.speech import safe_name
from iserror.support.look import shield


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
        self._bound = bind(ids_of(call)) if call.parent is None else ()

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
            call.ends()
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
