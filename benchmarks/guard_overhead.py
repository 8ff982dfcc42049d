"""A successful call through `@guard`, against a wrapper that does nothing but set and reset a context variable."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import timing

from iserror import ToolErrors

variable: ContextVar[object] = ContextVar("variable", default=None)


def empty(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The least that a wrapper with a scope can do."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = variable.set(fn)
        try:
            return fn(*args, **kwargs)
        finally:
            variable.reset(token)

    return wrapper


def empty_async(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The same for async functions."""

    @functools.wraps(fn)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = variable.set(fn)
        try:
            return await fn(*args, **kwargs)
        finally:
            variable.reset(token)

    return wrapper


def double(number: int) -> int:
    return number * 2


async def double_async(number: int) -> int:
    return number * 2


def measure(quick: bool) -> list[timing.Row]:
    guard = ToolErrors()
    rounds, size = (10, 200) if quick else (400, 2_000)
    batches = {
        "sync": {
            "bare": timing.calls(double, 21),
            "empty": timing.calls(empty(double), 21),
            "guard": timing.calls(guard(double), 21),
        },
        "async": {
            "bare": timing.awaits(double_async, 21),
            "empty": timing.awaits(empty_async(double_async), 21),
            "guard": timing.awaits(guard(double_async), 21),
        },
    }
    rows = []
    for function, contenders in batches.items():
        times = asyncio.run(timing.compare(contenders, rounds=rounds, sizes=size))
        microseconds = {f"{name}, µs": times.seconds(name) * 1e6 for name in contenders}
        rows.append({"function": function, "guard / empty": times.ratio("guard", "empty"), **microseconds})
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__)
