"""The tool layer: what a server runs when it runs a tool, between the host's dispatch and the function.

Hosts catch, log and trace what leaves a tool object. So a tool of an attached server gets a subclass of its own
class whose run method goes through `guarded_run`; copies that a host makes of the tool stay guarded.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from iserror import returned
from iserror.arguments import reasons_of
from iserror.attempt import attempt
from iserror.call import Call, current
from iserror.failure import ToolFailure
from iserror.guard import (
    Options,
    ToolErrors,
    guard_function,
    is_guarded,
    must_pass,
    options_of,
    remember,
    untold,
)
from iserror.problem import Problem, ProtocolProblem, crash, invalid_arguments, invalid_output, resolve, timeout
from iserror.report import report

_BAD_OUTPUT: Final = (ValidationError, PydanticSerializationError)


class ToolHost(Protocol):
    """What a host's adapter knows about its tool objects."""

    def unwrap(self, exc: BaseException) -> BaseException:
        """The exception inside the host's own wrapping of it."""

    def argument_error(self, exc: BaseException) -> BaseException | None:
        """The validation error, if the host refused the arguments with it."""

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        """Seconds, if the host's own per-tool limit ended the call."""

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        """What the output schema has against a result that the host does not check itself."""

    def answer(self, failed: BaseException) -> Any:
        """Raise the failure, or return it in the form that the host's dispatch passes on quietly."""


def guard_tool(guard: ToolErrors, host: ToolHost, tool: Any, method: str) -> Any:
    """Guard a tool object in place: its function, and its run method. Twice is once.

    Args:
        guard: The guard of the server that the tool was found on.
        host: The adapter.
        tool: The host's tool object (a pydantic model).
        method: The name of the method that the host's dispatch calls.
    """
    guard_body(guard, tool)
    if not hasattr(tool, GUARD):
        tool.__class__ = _guarded_class(guard, host, type(tool), method)
    return tool


def guard_body(guard: ToolErrors, tool: Any) -> None:
    """Guard the function of a tool object; of a transformed one, the function of the tool behind it."""
    parent = getattr(tool, "parent_tool", None)
    if parent is not None:
        guard_body(guard, parent)
    fn = getattr(tool, "fn", None)
    if callable(fn) and not is_guarded(fn) and not _is_the_hosts(fn):
        options = options_of(fn) or Options(guard, (guard.errors,))
        tool.fn = guard_function(fn, replace(options, wrapper=None))


def _is_the_hosts(fn: Any) -> bool:
    """fastmcp's transformed tools forward through a function of its own, which is no tool's body."""
    return str(getattr(fn, "__module__", "")).startswith(("fastmcp.tools.", "fastmcp.server."))


GUARD: Final = "__iserror_guard__"


def _guarded_class(guard: ToolErrors, host: ToolHost, cls: type, method: str) -> type:
    made = guard.tool_classes.get(cls)
    if made is None:

        async def run(self: Any, arguments: Any, *args: Any, **kwargs: Any) -> Any:
            inner = getattr(super(made, self), method)
            return await guarded_run(guard, host, self, arguments, lambda: inner(arguments, *args, **kwargs))

        namespace = {
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            GUARD: guard,
            method: run,
        }
        made = guard.tool_classes[cls] = type(cls)(cls.__name__, (cls,), namespace)
    return made


async def guarded_run(
    guard: ToolErrors, host: ToolHost, tool: Any, arguments: Mapping[str, Any], run: Callable[[], Awaitable[Any]]
) -> Any:
    """Run a tool object for its host: as a layer of the call being served, nested in one, or as a call."""
    call = current.get()
    mine = True
    if call is None or call.closed:
        call = Call(guard, tool.name)
        call.arguments = arguments
    elif call.awaiting and (call.running or _is_called(call.tool, tool.name)):
        mine = False
    else:
        # Another tool: called by a tool's body, or by a middleware of the call that is being served.
        call = Call(guard, tool.name, parent=call)
    if mine:
        call.enter()
    try:
        failed = await _run(guard, host, call, tool, arguments, run)
        if isinstance(failed, _Done):
            return failed.result
        if mine:
            if call.parent is None:
                report(call)
            else:
                untold(call.root, call)
    finally:
        if mine:
            call.leave()
    return host.answer(failed)


_HASHED = re.compile(r"_{0,2}[0-9a-f]{8,}_")


def _is_called(name: str, tool: str) -> bool:
    """Whether a request for `name` means this tool; fastmcp also addresses tools as `HASH_NAME`."""
    return name == tool or (name.endswith(tool) and _HASHED.fullmatch(name[: -len(tool)]) is not None)


class _Done:
    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


async def _run(
    guard: ToolErrors,
    host: ToolHost,
    call: Call,
    tool: Any,
    arguments: Mapping[str, Any],
    run: Callable[[], Awaitable[Any]],
) -> _Done | BaseException:
    again = _refuse_again(call, arguments)
    if again is not None:
        return again
    call.tool_arguments = arguments
    call.annotations = getattr(tool, "annotations", None)
    if not call.running:
        call.output_schema = getattr(tool, "output_schema", None)
    call.options = options_of(getattr(tool, "fn", None)) or call.options
    if guard.errors not in call.maps:
        call.maps = (guard.errors, *call.maps)
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
    return remember(call, problem)


def _refuse_again(call: Call, arguments: Mapping[str, Any]) -> BaseException | None:
    """What a middleware gets that runs a failed tool again: the same failure, unless a repeat is sensible."""
    problem, failure = call.problem, call.failure
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
    if isinstance(exc, ToolFailure) and exc._problem is not None and exc._problem is call.problem:
        return exc._problem
    if must_pass(exc):
        return exc
    seconds = host.time_limit(exc, tool)
    if seconds is not None:
        return timeout(exc, seconds)
    if not call.entered:
        refused = host.argument_error(exc)
        if refused is not None:
            return invalid_arguments(reasons_of(refused, tool), refused)
    if call.returned and isinstance(exc, _BAD_OUTPUT):
        return invalid_output(exc)
    problem = resolve(exc, call.maps)
    if isinstance(problem, ProtocolProblem):
        call.problem = problem
        return problem.exception
    if call.returned and problem.is_crash:
        return invalid_output(exc)
    return problem
