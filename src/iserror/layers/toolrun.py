"""The tool layer: what a server runs when it runs a tool, between the host's dispatch and the function.

Hosts log and trace what leaves a tool object. So in a served call the look-up hands out a *view* of the tool: a
copy whose run method goes through `guarded_run`. The tool object itself stays as it is; other servers may have
it too, and with another guard or none.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from iserror.errors import returned
from iserror.errors.arguments import reasons_of
from iserror.errors.errormap import ErrorMap
from iserror.errors.problem import Problem, ProtocolProblem, crash, invalid_arguments, invalid_output, timeout
from iserror.errors.resolve import resolve
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call, current
from iserror.layers.cancel import must_pass
from iserror.layers.function import Options, body_of, options_of, settle
from iserror.layers.report import report, report_finished
from iserror.support.look import attempt
from iserror.support.sdk import raised_below, raised_by_sdk

if TYPE_CHECKING:
    from iserror.guard import ToolErrors

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


@dataclass(frozen=True, eq=False)
class Layer:
    """What is known of a tool object before it runs."""

    host: ToolHost
    tool: Any
    errors: ErrorMap | None
    options: Options | None
    body: object
    """The key of its function, which tells that from every other that runs below the tool object."""
    delegates: bool


class Views:
    """The views of tool objects on one server, made once for a tool object as it is."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[weakref.ref[Any], ToolErrors | None, dict[str, Any], Any]] = {}

    def of(self, host: ToolHost, tool: Any, guard: ToolErrors | None) -> Any:
        """The tool as the host runs it for the current call.

        Args:
            host: The adapter.
            tool: The host's tool object (a pydantic model).
            guard: The guard attached to the server that has the tool, if one is.
        """
        made = self._made.get(id(tool))
        if made is not None and made[0]() is tool and made[1] is guard and _is_unchanged(made[2], tool.__dict__):
            return made[3]
        # A tool that no view can be made of runs as it is: the wire layer still answers for it.
        return attempt(self._make, tool, host, tool, guard)

    def _make(self, host: ToolHost, tool: Any, guard: ToolErrors | None) -> Any:
        seen = _with_body(tool, guard)
        # A class of the user's may keep state on the object: its own method runs on the tool itself.
        runner = seen if is_the_hosts(type(tool)) else tool
        inner = getattr(runner, host.run)
        options, body = _body(seen)
        layer = Layer(host, seen, guard.errors if guard is not None else None, options, body, host.delegates(tool))

        async def run(arguments: Any, *args: Any, **kwargs: Any) -> Any:
            return await guarded_run(layer, arguments, lambda: inner(arguments, *args, **kwargs))

        seen.__dict__[host.run] = run
        if runner is seen:
            key = id(tool)
            gone = weakref.ref(tool, lambda _: self._made.pop(key, None))
            self._made[key] = (gone, guard, dict(tool.__dict__), seen)
        return seen


def _is_unchanged(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the fields are the same objects; a comparison of their values is not ours to run."""
    return len(before) == len(now) and all(now.get(key, _NONE) is value for key, value in before.items())


_NONE: Final = object()


def _with_body(tool: Any, guard: ToolErrors | None) -> Any:
    """A copy of a tool object with its function marked as the body; of a transformed tool, the one behind it."""
    copy = tool.model_copy()
    fields = copy.__dict__
    if "parent_tool" in fields:
        fields["parent_tool"] = _with_body(fields["parent_tool"], guard)
    fn = fields.get("fn")
    # fastmcp's transformed tools forward through a function of its own, which is nobody's body.
    if fn is not None and not is_the_hosts(fn):
        fields["fn"] = body_of(fn, guard)
    return copy


def is_the_hosts(thing: Any) -> bool:
    """Whether a class or function is one of the hosts' own."""
    return str(getattr(thing, "__module__", "")).startswith(("mcp.server.", "fastmcp."))


def _body(tool: Any) -> tuple[Options | None, object]:
    """The options of a tool's function, and its key."""
    fields = tool.__dict__
    options = options_of(fields.get("fn"))
    if options is None and "parent_tool" in fields:
        return None, _body(fields["parent_tool"])[1]
    if options is None:
        return None, None
    return (options if options.guard is not None else None), options.key


async def guarded_run(layer: Layer, arguments: Mapping[str, Any], run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a tool object for its host: as a layer of the call being served, or nested in one."""
    call = current.get()
    if call is None or call.closed:  # a view that was kept beyond its call
        return await run()
    name = layer.tool.name
    nested = not _is_the_call(call, name)
    if nested:
        # Another tool: called by a tool's body, or by a middleware of the call that is being served.
        maps = call.maps
        call = Call(call.guard, name, parent=call)
        call.maps = maps
        call.enter()
    try:
        failed = _refuse_again(call, name, arguments)
        if failed is None:
            _begin(call, layer, arguments)
            try:
                result = await run()
                problem = _returned(layer, result)
                if problem is None:
                    if nested and call.guard.calls:
                        report_finished(call)
                    return result
                failed = call.fail(problem)
            except BaseException as exc:
                failed = _failed(call, layer, exc)
            finally:
                call.running -= 1
                call.awaiting = True
        if nested:
            settle(call)
    finally:
        if nested:
            call.leave()
    try:
        return layer.host.answer(failed)
    finally:
        del failed, call


def _begin(call: Call, layer: Layer, arguments: Mapping[str, Any]) -> None:
    tool = layer.tool
    call.missing = None
    call.tool_arguments = arguments
    call.annotations = tool.annotations
    if not call.running:
        call.target = tool.name
        call.output_schema = tool.output_schema
    if layer.errors is not None and layer.errors not in call.maps:
        call.maps = (layer.errors, *call.maps)
    if layer.options is not None:
        call.options = layer.options
    call.body, call.delegating = layer.body, layer.delegates
    call.awaiting, call.entered, call.returned = True, False, False
    call.running += 1


def _failed(call: Call, layer: Layer, exc: BaseException) -> BaseException:
    """What to answer for an exception that came out of a tool object."""
    found = attempt(_problem, crash(exc), call, layer, exc)
    return call.fail(found) if isinstance(found, Problem) else found


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


def _returned(layer: Layer, result: Any) -> Problem | None:
    """What is wrong with a result: it states an error itself, or does not fit the output schema."""
    problem = returned.from_result(result)
    if problem is not None:
        return problem
    bad = layer.host.check_output(layer.tool, result)
    return invalid_output(bad) if bad is not None else None


def _problem(call: Call, layer: Layer, exc: BaseException) -> Problem | BaseException:
    """What an exception of a tool object means; an exception is one that passes as it is."""
    host = layer.host
    exc = host.unwrap(exc)
    if call.said(exc) or must_pass(exc):
        return exc
    seconds = host.time_limit(exc, layer.tool)
    if seconds is not None:
        return timeout(exc, seconds)
    # A transformed tool of fastmcp runs its parent as that is, so that `returned` says nothing of a bare function.
    converting = raised_below(exc, "convert_result")
    if (converting and raised_by_sdk(exc)) or (isinstance(exc, _BAD_OUTPUT) and (call.returned or converting)):
        return invalid_output(exc)
    if not call.entered:
        refused = host.argument_error(exc)
        if refused is not None:
            return invalid_arguments(reasons_of(refused, layer.tool, call.tool_arguments), refused)
    problem = resolve(exc, call.maps)
    if isinstance(problem, ProtocolProblem):
        call.problem = problem
        return problem.exception
    if call.returned and (problem.is_crash or (not problem.mapped and raised_by_sdk(exc))):
        return invalid_output(exc)
    return problem
