"""`Run`: the function layer's part in a failure. It catches what a guarded function raises, and says what to raise.

A guarded function runs in its own call, if nothing guards its caller; or nested in the call of another tool. Or it is
the body of the tool that a host runs: then the layers above it end the call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iserror.errors.partial import PartialResult
from iserror.errors.problem import Problem, ProtocolProblem, crash
from iserror.errors.resolve import resolve
from iserror.errors.returned import stated_problem
from iserror.errors.sessions import side_of
from iserror.layers.call import Call, current, still_open
from iserror.layers.cancel import may_pass, must_pass
from iserror.layers.lifecycle import Scope, fail
from iserror.layers.options import Options
from iserror.layers.protocol import protocol_exception
from iserror.layers.report import log_cancelled, log_finished, log_returned_error, report_or_keep
from iserror.layers.returned import checked, reading
from iserror.logs.owner import unbind
from iserror.support.look import shield


class Run:
    """One run of a guarded function."""

    __slots__ = ("call", "options", "scope")

    def __init__(self, call: Call, options: Options, scope: Scope | None) -> None:
        self.call = call
        self.options = options
        self.scope = scope
        """None if the function is the body of the tool of a call that a host serves."""

    @classmethod
    def begin(cls, options: Options, name: str) -> Run | None:
        """Step into the call that the function runs in; None if the function isn't guarded here.

        Args:
            options: Those of the function.
            name: The name of its tool, if it gets its own call.
        """
        outer, settings = current.get(), options.settings
        orphaned = False
        if outer is not None:
            if outer.progress.closed:
                orphaned = outer.root.over
                if orphaned:
                    unbind(outer)
                outer = still_open(outer)
            elif outer.progress.body is options.key:
                outer.progress.body_begins(options if settings is not None else None)
                return cls(outer, options, None)
        if settings is None:
            return None
        call = Call(settings, name, outer)
        if orphaned:
            call.outlives()
        call.progress.stands_alone(options)
        if outer is not None:
            outer.progress.touches()
        return cls(call, options, Scope(call))

    def pause(self) -> None:
        """Step out of the call while a generator waits for its caller."""
        if self.scope is not None:
            self.scope.step_out()

    def resume(self) -> None:
        """Step back in."""
        if self.scope is not None:
            self.scope.step_in()

    def end(self) -> None:
        """Leave the function, and the call with it if that is the function's own."""
        if self.scope is not None:
            self.scope.leave()
        else:
            self.call.progress.body_ends()

    def returned(self, result: Any) -> Any:
        """Return what the function returned.

        Raises:
            ToolFailure: If a host serves the call, and the result says that the tool failed.
        """
        call = self.call
        if self.scope is not None:
            log_finished(call)
            return result
        call.progress.body_returns(result)
        result = checked(call, self.options, result)
        problem = shield(problem_in, None, call, self.options, result)
        if problem is not None:
            raise fail(call, problem)
        is_partial = isinstance(result, PartialResult) and not result.complete
        call.progress.completes(result.summary if is_partial else None)
        return result

    def failed(self, exc: BaseException) -> BaseException:
        """Return what to raise for an exception: itself if it has to propagate, else a `ToolFailure`."""
        found = shield(self._failed, None, exc)
        if found is not None:
            return found
        return exc if self.call.failed_with(exc) or may_pass(exc) else self.stopped(crash(exc))

    def _failed(self, exc: BaseException) -> BaseException:
        call, alone = self.call, self.scope is not None
        if must_pass(exc):
            if alone and call.parent is None and not isinstance(exc, (KeyboardInterrupt, GeneratorExit)):
                log_cancelled(call)
            return exc
        if call.failed_with(exc):  # raised by `returned`, by the layer of the key, or by an inner run of the same body
            if alone:
                report_or_keep(call)
            return exc
        problem = meaning(call, self.options, exc)
        if isinstance(problem, ProtocolProblem) and call.forbids(problem):
            problem = crash(exc)
        if isinstance(problem, Problem):
            return self.stopped(problem)
        call.ends_with(problem)
        if not alone:
            call.progress.errs(problem)
        elif call.parent is None:
            return protocol_exception(call, problem)
        return problem.exception

    def stopped(self, problem: Problem) -> BaseException:
        """Return the `ToolFailure` that says a problem. The outermost layer reports it."""
        failed = fail(self.call, problem)
        if self.scope is not None:
            report_or_keep(self.call)
        return failed


def meaning(call: Call, options: Options, exc: BaseException) -> Problem | ProtocolProblem:
    """Return what an exception means that left a guarded function."""
    problem = resolve(exc, (*options.maps, *call.progress.maps), options.own_map)
    if options.asks_first and isinstance(problem, Problem) and side_of(exc) == "client":
        return replace(problem, outcome="not_applied", basis="stated")
    return problem


def problem_in(call: Call, options: Options, result: Any) -> Problem | None:
    """Return the problem that a returned value states: a host's error result, or an error returned as a success.

    A success that reads like an error is a problem only with `returned_errors="convert"`; with `"log"` it is logged.
    """
    problem = stated_problem(result)
    if problem is not None:
        return problem.unproven()  # the function may have done more than to ask the other server
    setting = options.returned_errors or call.settings.returned_errors
    found = None if setting == "off" else reading(call, result)
    if found is None:
        return None
    problem, partial = found
    if setting == "convert" and not partial:
        return problem
    log_returned_error(call, problem, setting, partial=partial)
    return None
