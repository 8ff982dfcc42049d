"""The tool layer: what a server runs when it runs a tool, between the host's dispatch and the function.

Hosts log and trace what leaves a tool object. So in a served call the look-up hands out a *view* of the tool: a
copy whose run method goes through `guarded_run`. The tool object itself stays as it is; other servers may have
it too, and with another guard or none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from iserror import returned
from iserror.arguments import reasons_of
from iserror.attempt import attempt
from iserror.call import Call, current
from iserror.cancel import must_pass
from iserror.errormap import ErrorMap
from iserror.failure import ToolFailure
from iserror.function import body_of, options_of, settle
from iserror.problem import (
    Problem,
    ProtocolProblem,
    crash,
    invalid_arguments,
    invalid_output,
    raised_by_sdk,
    resolve,
    timeout,
)
from iserror.report import report

_BAD_OUTPUT: Final = (ValidationError, PydanticSerializationError)


class ToolHost(Protocol):
    """What a host's adapter knows about its tool objects."""

    run: str
    """Name of the method that the host's dispatch calls."""

    def unwrap(self, exc: BaseException) -> BaseException:
        """The exception inside the host's own wrapping of it."""

    def argument_error(self, exc: BaseException) -> BaseException | None:
        """The validation error, if the host refused the arguments with it."""

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        """Seconds, if the host's own per-tool limit ended the call."""

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        """What the output schema has against a result that the host does not check itself."""

    def delegates(self, tool: Any) -> bool:
        """Whether the tool runs one of a mounted server, so that both are the same call."""

    def answer(self, failed: BaseException) -> Any:
        """Raise the failure, or return it in the form that the host's dispatch passes on quietly."""


def view(host: ToolHost, tool: Any, errors: ErrorMap | None) -> Any:
    """The tool as the host runs it for the current call.

    Args:
        host: The adapter.
        tool: The host's tool object (a pydantic model).
        errors: The map of the guard attached to the server that has the tool, if one is.
    """
    seen = _with_body(tool)
    # A class of the user's may keep state on the object: its own method runs on the tool itself.
    runner = seen if _is_the_hosts(type(tool)) else tool
    inner = getattr(runner, host.run)

    async def run(arguments: Any, *args: Any, **kwargs: Any) -> Any:
        return await guarded_run(host, seen, errors, arguments, lambda: inner(arguments, *args, **kwargs))

    seen.__dict__[host.run] = run
    return seen


def _with_body(tool: Any) -> Any:
    """A copy of a tool object with its function marked as the body; of a transformed tool, the one behind it."""
    copy = tool.model_copy()
    fields = copy.__dict__
    if "parent_tool" in fields:
        fields["parent_tool"] = _with_body(fields["parent_tool"])
    fn = fields.get("fn")
    # fastmcp's transformed tools forward through a function of its own, which is nobody's body.
    if fn is not None and not _is_the_hosts(fn):
        fields["fn"] = body_of(fn)
    return copy


def _is_the_hosts(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(("mcp.server.", "fastmcp."))


def _body_key(tool: Any) -> object:
    """What tells the tool's function from every other that runs below the tool object."""
    fields = tool.__dict__
    options = options_of(fields.get("fn"))
    if options is not None:
        return options.key
    return _body_key(fields["parent_tool"]) if "parent_tool" in fields else None


async def guarded_run(
    host: ToolHost, tool: Any, errors: ErrorMap | None, arguments: Mapping[str, Any], run: Callable[[], Awaitable[Any]]
) -> Any:
    """Run a tool object for its host: as a layer of the call being served, or nested in one."""
    call = current.get()
    if call is None or call.closed:  # a view that was kept beyond its call
        return await run()
    nested = not _is_the_call(call, tool.name)
    if nested:
        # Another tool: called by a tool's body, or by a middleware of the call that is being served.
        maps = call.maps
        call = Call(call.guard, tool.name, parent=call)
        call.maps = maps
        call.enter()
    try:
        failed = await _run(host, call, tool, errors, arguments, run)
        if isinstance(failed, _Done):
            return failed.result
        if nested:
            settle(call)
    finally:
        if nested:
            call.leave()
    try:
        return host.answer(failed)
    finally:
        del failed, call


def _is_the_call(call: Call, name: str) -> bool:
    """Whether a tool that is about to run is the one that the call is for, or a layer of it.

    A middleware may have renamed it, so it is the first one that runs; or it ran others before, so it is the one
    that was asked for, too.
    """
    if not call.awaiting:
        return False
    if call.running:
        return call.delegating
    return call.target in (None, name) or name == call.tool


class _Done:
    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


async def _run(
    host: ToolHost,
    call: Call,
    tool: Any,
    errors: ErrorMap | None,
    arguments: Mapping[str, Any],
    run: Callable[[], Awaitable[Any]],
) -> _Done | BaseException:
    again = _refuse_again(call, tool.name, arguments)
    if again is not None:
        return again
    if not call.running:
        call.target = tool.name
    call.delegating = host.delegates(tool)
    call.tool_arguments = arguments
    call.annotations = getattr(tool, "annotations", None)
    if not call.running:
        call.output_schema = getattr(tool, "output_schema", None)
    if errors is not None and errors not in call.maps:
        call.maps = (errors, *call.maps)
    options = options_of(tool.__dict__.get("fn"))
    if options is not None and options.guard is not None:
        call.options = options
    call.body = _body_key(tool)
    call.awaiting, call.entered, call.returned = True, False, False
    call.running += 1
    try:
        result = await run()
        problem = _returned(host, tool, result)
        if problem is None:
            return _Done(result)
    except BaseException as exc:
        caught = exc
        found = attempt(lambda: _problem(host, call, tool, caught), crash(exc))
        if not isinstance(found, Problem):
            return found
        problem = found
    finally:
        call.running -= 1
        call.awaiting = True
    return call.fail(problem)


def _refuse_again(call: Call, name: str, arguments: Mapping[str, Any]) -> BaseException | None:
    """What a middleware gets that runs a failed tool again: the same failure, unless a repeat is sensible."""
    problem, failure = call.problem, call.failure
    if problem is not None and not call.running and call.target != name:
        report(call, handled="recovered")  # of another tool, that ran before
        call.problem = call.failure = None
        return None
    if isinstance(problem, ProtocolProblem):
        return problem.exception
    if problem is None or failure is None:
        return None
    changed = failure.advice == "change the call first" and arguments != call.tool_arguments
    if not failure.retryable and not changed:
        return ToolFailure.raised_for(failure, problem)
    report(call, handled="retried")
    call.problem = call.failure = None
    return None


def _returned(host: ToolHost, tool: Any, result: Any) -> Problem | None:
    """What is wrong with a result: it states an error itself, or does not fit the output schema."""
    problem = returned.from_result(result)
    if problem is not None:
        return problem
    bad = host.check_output(tool, result)
    return invalid_output(bad) if bad is not None else None


def _problem(host: ToolHost, call: Call, tool: Any, exc: BaseException) -> Problem | BaseException:
    """What an exception of a tool object means; an exception is one that passes as it is."""
    exc = host.unwrap(exc)
    if call.said(exc) and isinstance(call.problem, Problem):
        return call.problem
    if must_pass(exc):
        return exc
    seconds = host.time_limit(exc, tool)
    if seconds is not None:
        return timeout(exc, seconds)
    if not call.entered:
        refused = host.argument_error(exc)
        if refused is not None:
            return invalid_arguments(reasons_of(refused, tool, call.tool_arguments), refused)
    if call.returned and isinstance(exc, _BAD_OUTPUT):
        return invalid_output(exc)
    problem = resolve(exc, call.maps)
    if isinstance(problem, ProtocolProblem):
        call.problem = problem
        return problem.exception
    if call.returned and (problem.is_crash or (not problem.mapped and raised_by_sdk(exc))):
        return invalid_output(exc)
    return problem
