"""The guard: `@guard` on a function, `guard.attach(server)` on a server, and the steps they share.

Read top to bottom it is the life of a call: a scope is opened, the tool runs, an exception becomes a
`Problem` (`iserror.problem`), the outermost layer says it of the tool as a `Failure`, writes the line, and
answers. A `ToolFailure` is what travels between the layers.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from types import CoroutineType
from typing import Any, Final, Literal, ParamSpec, TypeVar, overload

import anyio

from iserror import hosts, returned
from iserror.attempt import attempt
from iserror.call import Call, current
from iserror.errormap import ErrorMap
from iserror.failure import EFFECTS, Effect, Failure, ToolFailure, check_choice, safe_name
from iserror.logs import keep_off_stdout
from iserror.problem import Group, Hook, Problem, crash, leaves, resolve, timeout
from iserror.protocol import sanitized
from iserror.report import report

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

MARK: Final = "__iserror__"


@dataclass(frozen=True)
class Options:
    """What `@guard(...)` says of one function."""

    guard: ToolErrors
    maps: tuple[ErrorMap, ...]
    effect: Effect | None = None
    timeout: float | None = None
    wrapper: Callable[..., Any] | None = None


def options_of(fn: object) -> Options | None:
    """The options of a guarded function, of one that `functools.wraps` it, or of the bare one underneath."""
    found = getattr(_core(fn), MARK, None)
    return found if isinstance(found, Options) else None


def is_guarded(fn: object) -> bool:
    """Whether calling this calls a guard's wrapper first (and it did not only copy a wrapper's attributes)."""
    core = _core(fn)
    options = options_of(core)
    return options is not None and options.wrapper is core


def _core(fn: Any) -> Any:
    """The function that runs when `fn` is called: inside partials, bound methods and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn):
        return getattr(fn, "__func__", fn)
    return getattr(type(fn), "__call__", fn)  # noqa: B004 - the function itself is wanted


class ToolErrors:
    """Guard tools: every failure becomes a safe, stable answer for the model and one line in the log.

    Args:
        errors: What domain exceptions mean; none makes every exception that is not raised through
            `ToolFailure` a crash.
        unknown_tool: Channel for a tool that is unknown or hidden: `"protocol"` (JSON-RPC -32602) or
            `"result"` (`UNKNOWN_TOOL`, as SEP-2145 proposes).
        invalid_arguments: Channel for arguments that do not fit: `"auto"` follows the protocol revision in
            force (SEP-1303: a result from 2025-11-25 on), else `"result"` or `"protocol"`.
        returned_errors: What to do with a return value that reads like an error though it is a success:
            `"off"`, `"log"` it, or `"convert"` it into `RETURNED_ERROR`.
        is_returned_error: The predicate behind `returned_errors`: `(value) -> bool`.
        structured: When `structuredContent` holds the envelope: `"auto"` (only where the tool has no
            output schema, since clients validate it), `"always"`, `"never"`.
        tool_failure_meta: Also write the draft `io.modelcontextprotocol/toolFailure` (pull requests 3312
            and 3313 of the specification).
        log_arguments: Put the arguments, redacted, into the log line. Off: they are the users' data.
        on_error: `hook(exception, failure)`, called once a failure with the original exception, for trackers.

    Raises:
        TypeError, ValueError: A setting that is not one of these.
    """

    def __init__(
        self,
        errors: ErrorMap | None = None,
        *,
        unknown_tool: Literal["protocol", "result"] = "protocol",
        invalid_arguments: Literal["auto", "result", "protocol"] = "auto",
        returned_errors: Literal["off", "log", "convert"] = "off",
        is_returned_error: Callable[[Any], bool] | None = None,
        structured: Literal["auto", "always", "never"] = "auto",
        tool_failure_meta: bool = False,
        log_arguments: bool = False,
        on_error: Hook | None = None,
    ) -> None:
        self.errors = _checked_map(errors) if errors is not None else ErrorMap()
        check_choice("unknown_tool", unknown_tool, frozenset({"protocol", "result"}))
        check_choice("invalid_arguments", invalid_arguments, frozenset({"auto", "result", "protocol"}))
        check_choice("returned_errors", returned_errors, frozenset({"off", "log", "convert"}))
        check_choice("structured", structured, frozenset({"auto", "always", "never"}))
        for what, value in (("tool_failure_meta", tool_failure_meta), ("log_arguments", log_arguments)):
            if not isinstance(value, bool):
                raise ValueError(f"{what} {value!r} is not valid: use True or False")
        for what, hook in (("on_error", on_error), ("is_returned_error", is_returned_error)):
            if hook is not None and not callable(hook):
                raise TypeError(f"{what} must be a function, not {hook!r}")
        self.unknown_tool = unknown_tool
        self.invalid_arguments = invalid_arguments
        self.returned_errors = returned_errors
        self.is_returned_error = is_returned_error or returned.looks_like_an_error
        self.structured = structured
        self.tool_failure_meta = tool_failure_meta
        self.log_arguments = log_arguments
        self.on_error = on_error
        # The guarded subclass of each tool class that was met (`iserror.toolrun`).
        self.tool_classes: dict[type, type] = {}

    # --- the decorator -------------------------------------------------------------------------------------

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self,
        fn: None = None,
        /,
        *,
        effect: Effect | None = None,
        errors: ErrorMap | None = None,
        timeout: float | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def __call__(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        effect: Effect | None = None,
        errors: ErrorMap | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Guard one function: use it as `@guard` or `@guard(effect="read")`, below the host's decorator.

        The function keeps its name, signature, annotations, docstring and kind. It returns what it
        returned, or raises `ToolFailure`.

        Args:
            fn: The tool's function; sync, async, generator or async generator, or a callable object.
            effect: What the tool does: `"read"`, `"idempotent"` or `"write"`. Unsaid, the tool's annotations
                decide, else it is a write.
            errors: Entries for this tool only; they go before the guard's own.
            timeout: Seconds after which an async tool is stopped and answers `TIMEOUT`.

        Raises:
            TypeError: `fn` is no function (a registered tool object, a class, a coroutine).
            ValueError: An unknown effect, a timeout that is not positive, or one on a sync function.
        """
        if effect is not None:
            check_choice("effect", effect, EFFECTS)
        maps = (self.errors,) if errors is None else (_checked_map(errors), self.errors)
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf
        ):
            raise ValueError(f"timeout {timeout!r} is not valid: use a number of seconds above 0")
        options = Options(self, maps, effect, timeout)
        if fn is None:
            return functools.partial(_guarded, options)
        return _guarded(options, fn)

    # --- a server ------------------------------------------------------------------------------------------

    def attach(self, server: Any) -> None:
        """Guard a whole server: every tool, now or later, and what fails before and after the tools run.

        Args:
            server: An `mcp` 1.x `FastMCP`, an `mcp` 2.x `MCPServer`, or a `fastmcp` 3.x or 4.x `FastMCP`.

        Raises:
            TypeError: `server` is none of these.
            ValueError: Another guard is attached to it already. The same one again is harmless.
        """
        hosts.attach(server, self)
        keep_off_stdout()


def _checked_map(errors: object) -> ErrorMap:
    if not isinstance(errors, ErrorMap):
        raise TypeError(f"errors must be an ErrorMap, not {type(errors).__name__}")
    return errors


# --- the function layer --------------------------------------------------------------------------------------


def _guarded(options: Options, fn: Any) -> Any:
    if not callable(fn) or inspect.isclass(fn):
        if hasattr(fn, "fn") and hasattr(fn, "parameters"):
            raise TypeError(
                f"{type(fn).__name__} {getattr(fn, 'name', '')!r} is registered already: put @guard below the "
                "decorator that registers the tool, directly above the function"
            )
        raise TypeError(f"@guard needs a function, not {fn!r}: put it directly above the tool's def")
    if isinstance(fn, (staticmethod, classmethod)):  # callable since 3.10, but not with a signature of a tool
        raise TypeError(f"@guard needs a plain function: put it below @{type(fn).__name__}")
    wrapper = guard_function(fn, options)
    with suppress(AttributeError, TypeError):
        # On the bare function too: where the host has registered that one, attach finds out from here.
        setattr(fn, MARK, options)
    return wrapper


def guard_function(fn: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """Wrap a function by its kind, so that every host sees what it saw before."""
    kind = _core(fn)
    name = getattr(fn, "__name__", None) or getattr(kind, "__name__", None) or type(fn).__name__
    if name == "__call__":
        name = type(fn).__name__

    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(kind):
        wrapper = _async_wrapper(fn, options, name)
    elif options.timeout is not None:
        raise ValueError(f"timeout= on {name!r}: only an async function can be stopped, and this one is not async")
    elif inspect.isasyncgenfunction(kind):
        wrapper = _asyncgen_wrapper(fn, options, name)
    elif inspect.isgeneratorfunction(kind):
        wrapper = _generator_wrapper(fn, options, name)
    else:
        wrapper = _sync_wrapper(fn, options, name)

    functools.update_wrapper(wrapper, fn)
    if not hasattr(fn, "__name__"):
        # A callable object or a partial has none, and hosts name the tool after it.
        wrapper.__name__ = wrapper.__qualname__ = name
        wrapper.__doc__ = inspect.getdoc(kind) or wrapper.__doc__
    setattr(wrapper, MARK, replace(options, wrapper=wrapper))
    return wrapper


def _async_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    limit = options.timeout

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        failed: BaseException
        call, mine = begin(options, name)
        try:
            if limit is None:
                result = await fn(*args, **kwargs)
                return result if mine else accepted(call, result)
            with anyio.move_on_after(limit) as timer:
                result = await fn(*args, **kwargs)
                return result if mine else accepted(call, result)
            # Only the timer's own cancellation gets here.
            assert timer.cancelled_caught
            failed = stopped(call, mine, timeout(TimeoutError(f"stopped after {limit:g} s"), limit))
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            if mine:
                call.leave()
        raise failed

    return guarded


def _sync_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        call, mine = begin(options, name)
        try:
            result = fn(*args, **kwargs)
            if type(result) is CoroutineType:
                # A plain function that hands out a coroutine: its body has yet to run, when the host awaits it.
                call.awaiting = not mine
                return _async_wrapper(lambda: result, options, name)()
            return result if mine else accepted(call, result)
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            if mine:
                call.leave()
        raise failed

    return guarded


def _generator_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Iterator[Any]:
        call, mine = begin(options, name)
        try:
            yield from fn(*args, **kwargs)
            call.returned = True
            return
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            if mine:
                call.leave()
        raise failed

    return guarded


def _asyncgen_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    async def guarded(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call, mine = begin(options, name)
        try:
            async for item in fn(*args, **kwargs):
                yield item
            call.returned = True
            return
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            if mine:
                call.leave()
        raise failed

    return guarded


# --- the steps of a guarded function -------------------------------------------------------------------------


def begin(options: Options, name: str) -> tuple[Call, bool]:
    """The call that a function runs in, and whether it is the function's own.

    It is not where the host runs the function for a call that is being served; then the layers above end it.
    """
    outer = current.get()
    if outer is None or outer.closed:
        call = Call(options.guard, name)
    elif outer.awaiting:
        outer.awaiting = False
        outer.entered = True
        outer.options = options
        return outer, False
    else:
        call = Call(options.guard, name, parent=outer)
    call.options = options
    call.enter()
    return call, True


def accepted(call: Call, result: Any) -> Any:
    """The body ran to its end for a host; what it returned may still say that it failed."""
    call.returned = True
    problem = returned_problem(call, result)
    if problem is not None:
        raise remember(call, problem)
    return result


def failure_for(call: Call, mine: bool, options: Options, exc: BaseException) -> BaseException:
    """What to raise for an exception: itself if it has to pass, else a `ToolFailure`."""
    if must_pass(exc):
        return exc
    if not mine and call.returned and isinstance(exc, ToolFailure):
        return exc  # raised by `accepted`, just now
    problem = resolve(exc, (*options.maps, *call.maps))
    if isinstance(problem, Problem):
        return stopped(call, mine, problem)
    if not mine:
        call.problem = problem
    elif call.parent is None:
        return sanitized(call, problem)
    return problem.exception


def stopped(call: Call, mine: bool, problem: Problem) -> ToolFailure:
    """The `ToolFailure` that says a problem; the outermost layer reports it."""
    failed = remember(call, problem)
    # A task that outlives the call it was started in has nobody above it to report.
    if mine:
        root = call.root
        if root is call or root.closed:
            report(call)
        else:
            untold(root, call)
    return failed


# --- the steps of every layer --------------------------------------------------------------------------------


def must_pass(exc: BaseException) -> bool:
    """Whether this is the runtime's own: an interrupt, a generator's end, the cancellation of this call."""
    kind = type(exc)  # not isinstance(): an object may lie about its class
    if issubclass(kind, (Exception, SystemExit)):
        return False
    if issubclass(kind, Group):
        return any(must_pass(leaf) for leaf in leaves(exc))
    if issubclass(kind, asyncio.CancelledError):
        return being_cancelled()
    return issubclass(kind, (KeyboardInterrupt, GeneratorExit)) or kind is _cancelled_class()


def _cancelled_class() -> type[BaseException] | None:
    """The cancellation of the running async library, which need not be asyncio."""
    return attempt(anyio.get_cancelled_exc_class, None)


def being_cancelled() -> bool:
    """Whether the running call itself is being cancelled, by its task or by one of anyio's scopes.

    If not, a `CancelledError` comes from someone else's task that was awaited: a crash of this call, which
    would end a whole stdio session if it passed.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        return _cancelled_from_thread()
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if sys.version_info >= (3, 11):
        return task.cancelling() > 0
    # Before 3.11 asyncio does not count requests to cancel. Hosts run calls in tasks of anyio, which cancel
    # through scopes; a task that anyio did not start is one that someone may cancel directly.
    return anyio.get_current_task().parent_id is None


def _cancelled_from_thread() -> bool:
    try:
        anyio.from_thread.check_cancelled()
    except RuntimeError:  # no worker thread of anyio
        return False
    except BaseException:
        return True
    return False


def returned_problem(call: Call, result: Any) -> Problem | None:
    """What a return value says that is no success, before the host makes a result of it."""
    problem = returned.from_result(result)
    guard = call.guard
    if problem is None and guard.returned_errors != "off":
        problem = returned.from_value(guard, call, result)
    return problem


def say(call: Call, problem: Problem) -> Failure:
    """Say a problem of the call's tool; never fails."""
    about: dict[str, Any] = {
        "tool": safe_name(call.tool),
        "effect": call.effect,
        "request_id": call.request_id,
        "trace_id": call.trace_id,
    }
    # Whatever value no check foresaw: the answer has to be valid.
    said = attempt(lambda: problem.failure(**about), None)
    return said if said is not None else crash(RuntimeError()).failure(**about)


def untold(root: Call, call: Call) -> None:
    """Keep a nested failure: if what called the tool goes on without it, the end of the whole call tells it."""
    if isinstance(call.problem, Problem):
        root.untold = root.untold or {}
        root.untold[id(call.problem.exception)] = call


def remember(call: Call, problem: Problem) -> ToolFailure:
    """Note what the host's call failed with, for the layers above, and make the exception that says it."""
    call.problem = problem
    call.failure = say(call, problem)
    return ToolFailure.raised_for(call.failure, problem)
