"""The function layer: a guarded function keeps its kind and signature, and raises `ToolFailure`.

It runs in one of three places: in a call of its own, when nothing guards what called it; nested in the call of
another tool; or as the body of the tool that a host runs for the call it is serving. Then the layers above it
end the call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import CoroutineType, FunctionType
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import anyio

from iserror.errors.errormap import ErrorMap
from iserror.errors.partial import PartialResult
from iserror.errors.problem import Problem, timeout
from iserror.errors.resolve import resolve
from iserror.errors.returned import from_result
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import Effect
from iserror.layers.call import Call, current
from iserror.layers.cancel import must_pass
from iserror.layers.protocol import sanitized
from iserror.layers.report import from_value, report, report_finished, report_given_up
from iserror.support.look import attempt

if TYPE_CHECKING:
    from iserror.guard import ToolErrors

MARK: Final = "__iserror__"


@dataclass(frozen=True)
class Options:
    """What is known of one guarded function.

    `guard` is None for a function that is only marked as a tool's body (`body_of`): outside of a call that a
    host serves, it is not guarded. `key` tells the wrappers of one function from all others.
    """

    guard: ToolErrors | None
    maps: tuple[ErrorMap, ...] = ()
    effect: Effect | None = None
    timeout: float | None = None
    idempotency_key: str | None = None
    wrapper: Callable[..., Any] | None = None
    key: object = field(default_factory=object)


def options_of(fn: object) -> Options | None:
    """The options of a guarded function, of one that `functools.wraps` it, or of the bare one underneath."""
    found = getattr(core(fn), MARK, None)
    return found if isinstance(found, Options) else None


def is_guarded(fn: object) -> bool:
    """Whether calling this calls a guard's wrapper first (and it did not only copy a wrapper's attributes)."""
    inner = core(fn)
    options = options_of(inner)
    return options is not None and options.wrapper is inner


def core(fn: Any) -> Any:
    """The function that runs when `fn` is called: inside partials, bound methods and callable objects."""
    if type(fn) is FunctionType:
        return fn
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn):
        return getattr(fn, "__func__", fn)
    return getattr(type(fn), "__call__", fn)  # noqa: B004 - the function itself is wanted


def decorate(options: Options, fn: Any) -> Any:
    """Guard what stands below the decorator, or say what is wrong with it."""
    if not callable(fn) or inspect.isclass(fn):
        if hasattr(fn, "fn") and hasattr(fn, "parameters"):
            raise TypeError(
                f"{type(fn).__name__} {getattr(fn, 'name', '')!r} is registered already: put @guard below the "
                "decorator that registers the tool, directly above the function"
            )
        raise TypeError(f"@guard needs a function, not {fn!r}: put it directly above the tool's def")
    if isinstance(fn, (staticmethod, classmethod)):  # callable since 3.10, but not with a signature of a tool
        raise TypeError(f"@guard needs a plain function: put it below @{type(fn).__name__}")
    wrapper = wrap(fn, options)
    if options.guard is not None and len(options.maps) > 1:
        options.guard.local_maps.append((wrapper.__name__, options.maps[0]))
    with suppress(AttributeError, TypeError):
        # On the bare function too: where the host has registered that one, attach finds out from here.
        setattr(fn, MARK, options)
    return wrapper


def body_of(fn: Any, guard: ToolErrors | None) -> Any:
    """What a host runs in a tool function's place. The same for the same function: hosts cache by it.

    Where `guard` stands above the host's decorator, the host has the bare function: what it says counts.
    """
    if is_guarded(fn):
        return fn
    try:
        return _body_of(fn, guard)
    except TypeError:  # a callable object that cannot be hashed
        return _body_of.__wrapped__(fn, guard)


@lru_cache(maxsize=5_000)
def _body_of(fn: Any, guard: ToolErrors | None) -> Any:
    said = options_of(fn)
    if said is None or (said.wrapper is None and said.guard is not guard):
        said = Options(None)
    elif said.wrapper is not None:
        # A wrapper round a guarded function: what is inside keeps its own time and key.
        said = replace(said, timeout=None, idempotency_key=None)
    return wrap(fn, replace(said, wrapper=None))


def wrap(fn: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """Wrap a function by its kind, so that every host sees what it saw before."""
    kind = core(fn)
    name = name_of(fn)
    run = fn
    if options.idempotency_key is not None:
        from iserror.layers.keyed import keyed

        run = keyed(fn, kind, options, name)
    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(kind):
        wrapper = _async_wrapper(run, options, name)
    elif options.timeout is not None:
        raise ValueError(f"timeout= on {name!r}: only an async function can be stopped, and this one is not async")
    elif inspect.isasyncgenfunction(kind):
        wrapper = _asyncgen_wrapper(fn, options, name)
    elif inspect.isgeneratorfunction(kind):
        wrapper = _generator_wrapper(fn, options, name)
    else:
        wrapper = _sync_wrapper(run, options, name)

    like(wrapper, fn)
    setattr(wrapper, MARK, replace(options, wrapper=wrapper))
    return wrapper


def name_of(fn: Any) -> str:
    """What hosts call a function, or what is called like one."""
    name: str | None = getattr(fn, "__name__", None) or getattr(core(fn), "__name__", None)
    return name if name and name != "__call__" else type(fn).__name__


def like(wrapper: Any, fn: Any) -> None:
    """Make a wrapper look like the function that it wraps."""
    functools.update_wrapper(wrapper, fn)
    if not hasattr(fn, "__name__"):
        _name_after(wrapper, fn, core(fn), name_of(fn))


def _name_after(wrapper: Any, fn: Any, kind: Any, name: str) -> None:
    """Give the wrapper of a partial or callable object what a function has and that one has not.

    Hosts name the tool after it, and resolve its annotations in its own module.
    """
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__ = kind.__module__
    wrapper.__doc__ = kind.__doc__ or (None if isinstance(fn, functools.partial) else type(fn).__doc__)
    signature = inspect.signature(fn)
    hints = attempt(lambda: get_type_hints(kind, include_extras=True), {})
    names = [*signature.parameters, "return"]
    wrapper.__annotations__ = {key: hint for key, hint in hints.items() if key in names}
    wrapper.__signature__ = signature.replace(
        parameters=[p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()],
        return_annotation=hints.get("return", signature.return_annotation),
    )
    # What follows this to the object itself would find its strings again.
    del wrapper.__wrapped__


# In each wrapper the failure is raised after the `except` block, so that it has no context: nobody who logs it
# logs the original. `del` breaks the cycle of frame, exception and traceback, which would keep the tool's locals.


def _async_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    limit = options.timeout

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        failed: BaseException
        call, mine = begin(options, name)
        if call is None:
            return await fn(*args, **kwargs)
        try:
            if limit is None:
                result = await fn(*args, **kwargs)
                return finished(call, result) if mine else accepted(call, result)
            with anyio.move_on_after(limit) as timer:
                result = await fn(*args, **kwargs)
                return finished(call, result) if mine else accepted(call, result)
            # Only the timer's own cancellation gets here.
            assert timer.cancelled_caught
            failed = stopped(call, mine, timeout(TimeoutError(f"stopped after {limit:g} s"), limit))
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            end(call, mine)
        try:
            raise failed
        finally:
            del failed, call

    return guarded


def _sync_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        call, mine = begin(options, name)
        if call is None:
            return fn(*args, **kwargs)
        try:
            result = fn(*args, **kwargs)
            if type(result) is CoroutineType:
                # A plain function that hands out a coroutine: its body has yet to run.
                return _async_wrapper(lambda: result, options, name)()
            if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
                return result
            return finished(call, result) if mine else accepted(call, result)
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            end(call, mine)
        try:
            raise failed
        finally:
            del failed, call

    return guarded


# Between two items of a generator its caller's own context holds, not that of the call.


def _generator_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call, mine = begin(options, name)
        if call is None:
            result = yield from fn(*args, **kwargs)
            return result
        try:
            items = fn(*args, **kwargs)
            step = functools.partial(next, items)
            while True:
                try:
                    item = step()
                except StopIteration as stop:
                    return finished(call, stop.value) if mine else accepted(call, stop.value)
                pause(call, mine)
                try:
                    step = functools.partial(items.send, (yield item))
                except GeneratorExit:
                    resume(call, mine)
                    items.close()
                    raise
                except BaseException as exc:
                    step = functools.partial(items.throw, exc)
                resume(call, mine)
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            end(call, mine)
        try:
            raise failed
        finally:
            del failed, call

    return guarded


def _asyncgen_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call, mine = begin(options, name)
        if call is None:
            async for item in fn(*args, **kwargs):
                yield item
            return
        try:
            items = fn(*args, **kwargs)
            step = items.__anext__()
            while True:
                try:
                    item = await step
                except StopAsyncIteration:
                    if mine:
                        finished(call, None)
                    else:
                        accepted(call, None)
                    return
                pause(call, mine)
                try:
                    step = items.asend((yield item))
                except GeneratorExit:
                    resume(call, mine)
                    await items.aclose()
                    raise
                except BaseException as exc:
                    step = items.athrow(exc)
                resume(call, mine)
        except BaseException as exc:
            failed = failure_for(call, mine, options, exc)
        finally:
            end(call, mine)
        try:
            raise failed
        finally:
            del failed, call

    return guarded


# --- the steps -----------------------------------------------------------------------------------------------


def begin(options: Options, name: str) -> tuple[Call | None, bool]:
    """The call that a function runs in, and whether it is the function's own; None where it is not guarded."""
    outer, guard = current.get(), options.guard
    if outer is not None:
        if outer.closed:
            outer = None
        elif outer.body is options.key:
            outer.awaiting = False
            outer.entered = True
            outer.inside += 1
            if guard is not None:
                outer.options = options
            return outer, False
    if guard is None:
        return None, False
    call = Call(guard, name, outer)
    call.options = options
    call.enter()
    return call, True


def pause(call: Call, mine: bool) -> None:
    """Step out of the call while a generator waits for its caller."""
    if mine:
        call.unbind()


def resume(call: Call, mine: bool) -> None:
    """Step back in."""
    if mine:
        call.enter()


def end(call: Call, mine: bool) -> None:
    """Leave the body, and the call with it where that is the function's own."""
    if mine:
        call.leave()
    else:
        call.inside -= 1


def accepted(call: Call, result: Any) -> Any:
    """The body ran to its end for a host; what it returned may still say that it failed."""
    call.returned = call.inside == 1
    problem = from_result(result)
    if problem is None and call.guard.returned_errors != "off":
        problem = from_value(call.guard, call, result)
    if problem is not None:
        raise call.fail(problem)
    call.incomplete = result.summary if isinstance(result, PartialResult) and not result.complete else None
    return result


def finished(call: Call, result: Any) -> Any:
    """The body ran to its end in a call of its own."""
    if call.guard.calls:
        report_finished(call)
    return result


def failure_for(call: Call, mine: bool, options: Options, exc: BaseException) -> BaseException:
    """What to raise for an exception: itself if it has to pass, else a `ToolFailure`."""
    if must_pass(exc):
        if mine and call.parent is None:
            report_given_up(call, exc)
        return exc
    if call.said(exc):  # what `accepted` raised, the layer of the idempotency key, or an inner run of the same body
        if mine:
            settle(call)
        return exc
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
    failed = call.fail(problem)
    if mine:
        settle(call)
    return failed


def settle(call: Call) -> None:
    """Report a failed call, or leave it to the call that it is nested in."""
    root = call.root
    # A task that outlives the call it was started in has nobody above it to report.
    if root is call or root.closed:
        report(call)
    else:
        root.keep(call)
