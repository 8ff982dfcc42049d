"""The wrappers of guarded functions: one for each kind, so that every host sees the kind that it saw before.

In each of them the failure is raised after the `except` block, so that it has no context: a logger that shows it does
not show the original. `del` breaks the cycle of frame, exception and traceback, which would keep the tool's locals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from types import CoroutineType
from typing import Any

import anyio

from iserror.errors.problem import timeout
from iserror.layers.options import Options
from iserror.layers.run import Run


def async_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    """Return the wrapper of an async function."""
    limit = options.timeout

    async def guarded(*args: Any, **kwargs: Any) -> Any:
        failed: BaseException
        run = Run.begin(options, name)
        if run is None:
            return await fn(*args, **kwargs)
        try:
            if limit is None:
                return run.returned(await fn(*args, **kwargs))
            with anyio.move_on_after(limit) as timer:
                return run.returned(await fn(*args, **kwargs))
            # Only the timer's own cancellation gets here.
            assert timer.cancelled_caught
            failed = run.stopped(timeout(TimeoutError(f"stopped after {limit:g} s"), limit))
        except BaseException as exc:
            failed = run.failed(exc)
        finally:
            run.end()
        try:
            raise failed
        finally:
            del failed, run

    return guarded


def sync_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    """Return the wrapper of a plain function."""

    def guarded(*args: Any, **kwargs: Any) -> Any:
        run = Run.begin(options, name)
        if run is None:
            return fn(*args, **kwargs)
        try:
            result = fn(*args, **kwargs)
            if type(result) is CoroutineType:
                # A plain function that returns a coroutine: its body has not run yet.
                return async_wrapper(lambda: result, options, name)()
            if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
                return result
            return run.returned(result)
        except BaseException as exc:
            failed = run.failed(exc)
        finally:
            run.end()
        try:
            raise failed
        finally:
            del failed, run

    return guarded


# Between two items of a generator, its caller's context holds and not that of the call.


def generator_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    """Return the wrapper of a generator function."""

    def guarded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = Run.begin(options, name)
        if run is None:
            result = yield from fn(*args, **kwargs)
            return result
        try:
            items = fn(*args, **kwargs)
            step = functools.partial(next, items)
            while True:
                try:
                    item = step()
                except StopIteration as stop:
                    return run.returned(stop.value)
                run.pause()
                try:
                    step = functools.partial(items.send, (yield item))
                except GeneratorExit:
                    run.resume()
                    items.close()
                    raise
                except BaseException as exc:
                    step = functools.partial(items.throw, exc)
                run.resume()
        except BaseException as exc:
            failed = run.failed(exc)
        finally:
            run.end()
        try:
            raise failed
        finally:
            del failed, run

    return guarded


def asyncgen_wrapper(fn: Callable[..., Any], options: Options, name: str) -> Callable[..., Any]:
    """Return the wrapper of an async generator function."""

    async def guarded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = Run.begin(options, name)
        if run is None:
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
                    run.returned(None)
                    return
                run.pause()
                try:
                    step = items.asend((yield item))
                except GeneratorExit:
                    run.resume()
                    await items.aclose()
                    raise
                except BaseException as exc:
                    step = items.athrow(exc)
                run.resume()
        except BaseException as exc:
            failed = run.failed(exc)
        finally:
            run.end()
        try:
            raise failed
        finally:
            del failed, run

    return guarded
