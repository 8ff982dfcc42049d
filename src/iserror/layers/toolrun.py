"""The tool layer: what runs when a host runs a tool object, between the host's dispatch and the function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from iserror.errors.arguments import reasons_of
from iserror.errors.problem import (
    Problem,
    ProtocolProblem,
    crash,
    invalid_arguments,
    timeout,
)
from iserror.errors.resolve import resolve
from iserror.errors.returned import stated_problem
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call, current
from iserror.layers.cancel import PENDING, cancelled_by_scope, endure, may_pass, must_pass
from iserror.layers.lifecycle import Scope, fail
from iserror.layers.report import log_finished, report, report_or_keep
from iserror.layers.returned import unfit
from iserror.layers.toolhost import Layer
from iserror.support.look import shield
from iserror.support.sdk import is_proxied, raised_below, raised_by_sdk

_BAD_OUTPUT: Final = (ValidationError, PydanticSerializationError)
_CONVERSION: Final = "convert_result"
"""The function with which the hosts turn what a body returned into a result."""


async def guarded_run(layer: Layer, arguments: Mapping[str, Any], run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a tool object for its host: as a layer of the call being served, or nested in one.

    Args:
        layer: What is known of the tool object.
        arguments: Those that the host gives it.
        run: Runs it.
    """
    call = current.get()
    if call is None or call.progress.closed:  # a view that was kept beyond its call
        return await run()
    scope = None if _is_the_call(call, layer.tool.name) else _nested(call, layer.tool.name)
    if scope is not None:
        call = scope.call
    try:
        failed = _refuse_again(call, layer.tool.name, arguments)
        if failed is None:
            call.progress.tool_begins(layer, arguments)
            try:
                result = await run()
                if not call.progress.entered:
                    call.progress.touches()  # a class of the user's ran something else than the function
                task = call.progress.served_by
                if task is not None and getattr(task, PENDING, False) and not cancelled_by_scope():
                    await endure(task)  # the tool asked to cancel its own task, and succeeded
                problem = shield(_problem_in, None, call, layer, result)
                if problem is None:
                    if scope is not None:
                        log_finished(call)
                    return result
                failed = fail(call, problem)
            except BaseException as exc:
                failed = _failed(call, layer, exc)
            finally:
                call.progress.tool_ends()
        if scope is not None:
            report_or_keep(call)
    finally:
        if scope is not None:
            scope.leave()
    try:
        return layer.host.pass_on(failed)
    finally:
        del failed, call, scope


def _nested(outer: Call, name: str) -> Scope:
    """Open the call of another tool: one that a tool's body calls, or a middleware of the call being served."""
    outer.progress.touches()
    call = Call(outer.settings, name, parent=outer)
    call.progress.looks_in(outer.progress.maps)
    return Scope(call)


def _is_the_call(call: Call, name: str) -> bool:
    """Return True if a tool that is about to run is the one that the call is for, or a layer of it.

    A middleware may have renamed it: so it is the first tool that runs. Or the middleware ran others before: so it is
    the tool that was asked for, too.
    """
    progress = call.progress
    if not progress.awaiting:
        return False
    if progress.running:
        return progress.delegating
    return progress.target in (None, name) or name == call.tool


def _refuse_again(call: Call, name: str, arguments: Mapping[str, Any]) -> BaseException | None:
    """Return what a middleware gets that runs a failed tool again: of a declared write, the same failure.

    Unless a retry is safe, or the arguments are others. A tool that isn't declared to write runs as on the bare host.
    """
    progress = call.progress
    problem, failure = progress.problem, progress.failure
    if problem is None:
        return None
    if not progress.running and progress.target != name:
        report(call, handled="recovered")  # the failure of another tool that ran before
        progress.recovers()
        return None
    if call.effect == "write" and arguments == progress.arguments:
        if isinstance(problem, ProtocolProblem):
            return problem.exception
        if failure is not None and not failure.retryable:
            return ToolFailure.raised_for(failure, problem)
    report(call, handled="retried")
    progress.recovers()
    return None


def _problem_in(call: Call, layer: Layer, result: Any) -> Problem | None:
    """Return what is wrong with a result: it states an error itself, or doesn't fit the output schema."""
    problem = stated_problem(result)
    if problem is not None:
        # A proxy does no more than to ask the other server; a class of the user's may.
        return problem if is_proxied(layer.tool) else problem.unproven()
    bad = layer.host.check_output(layer.tool, result) if call.settings.output_check == "always" else None
    return unfit(call, bad, result) if bad is not None else None


def _failed(call: Call, layer: Layer, exc: BaseException) -> BaseException:
    """Return what to answer for an exception that left a tool object."""
    exc = shield(layer.host.unwrap, exc, exc)
    otherwise = exc if call.failed_with(exc) or may_pass(exc) else crash(exc)
    found = shield(_meaning, otherwise, call, layer, exc)
    return fail(call, found) if isinstance(found, Problem) else found


def _meaning(call: Call, layer: Layer, exc: BaseException) -> Problem | BaseException:
    """Return the problem that an exception of a tool object means, or an exception that propagates as it is."""
    host, progress = layer.host, call.progress
    if call.failed_with(exc) or must_pass(exc):
        return exc
    if not progress.entered:
        refused = host.argument_error(exc)
        if refused is not None and not raised_below(exc, _CONVERSION):
            return invalid_arguments(reasons_of(refused, layer.tool, progress.arguments), refused)
        progress.touches()  # a dependency, or what a class of the user's runs instead of the function
    seconds = host.time_limit(exc, layer.tool)
    if seconds is not None:
        return timeout(exc, seconds)
    # fastmcp's transformed tools run their parent as that is, so that nothing tells whether its bare function returned.
    converting = raised_below(exc, _CONVERSION)
    bad_output = issubclass(type(exc), _BAD_OUTPUT) and (progress.finished or converting)
    if bad_output or (converting and raised_by_sdk(exc)):
        return unfit(call, exc)
    problem = resolve(exc, progress.maps)
    if isinstance(problem, ProtocolProblem) and call.forbids(problem):
        return crash(exc)
    if isinstance(problem, ProtocolProblem):
        call.ends_with(problem)
        progress.errs(problem)
        return problem.exception
    if progress.finished and (problem.is_crash or (not problem.mapped and raised_by_sdk(exc))):
        return unfit(call, exc)
    return problem
