"""Guarding a function: it keeps its kind, name and signature, and raises `ToolFailure`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_type_hints

from iserror.layers.options import MARK, Options, core, is_guarded, name_of, options_of
from iserror.layers.settings import Settings
from iserror.layers.wrappers import async_wrapper, asyncgen_wrapper, generator_wrapper, sync_wrapper
from iserror.support.look import look


def decorate(options: Options, fn: Any) -> Any:
    """Guard what `@guard` is put above.

    Raises:
        TypeError: If it isn't a plain function. The message says what to do.
        ValueError: If the function is of a kind that the options don't fit.
    """
    if not callable(fn) or inspect.isclass(fn):
        if hasattr(fn, "fn") and hasattr(fn, "parameters"):
            raise TypeError(
                f"{type(fn).__name__} {getattr(fn, 'name', '')!r} is registered already: put @guard below the "
                "decorator that registers the tool, directly above the function"
            )
        raise TypeError(f"@guard needs a function, not {fn!r}: put it directly above the tool's def")
    if isinstance(fn, (staticmethod, classmethod)):  # callable since 3.10, but not with the signature of a tool
        raise TypeError(f"@guard needs a plain function: put it below @{type(fn).__name__}")
    wrapper = wrap(fn, options)
    if options.settings is not None and len(options.maps) > 1:
        options.settings.local_maps.append((wrapper.__name__, options.maps[0]))
    with suppress(AttributeError, TypeError):
        # On the bare function too: if the host has registered that one, `attach` finds out from the mark.
        setattr(fn, MARK, options)
    return wrapper


def body_of(fn: Any, settings: Settings | None) -> Any:
    """Return what a host runs instead of a tool's function: the same for the same function, since hosts cache by it.

    Args:
        fn: The function that the host has. If `@guard` is above the host's decorator, that is the bare one: then the
            options of the decorator hold.
        settings: Those of the guard that is attached to the server.
    """
    if is_guarded(fn):
        return fn
    try:
        return _body_of(fn, settings)
    except TypeError:  # a callable object that can't be hashed
        return _body_of.__wrapped__(fn, settings)


@lru_cache(maxsize=5_000)
def _body_of(fn: Any, settings: Settings | None) -> Any:
    known = options_of(fn)
    if known is None or (known.wrapper is None and known.settings is not settings):
        known = Options(None)
    elif known.wrapper is not None:
        # A wrapper around a guarded function: the inner guard keeps its own timeout and key.
        known = replace(known, timeout=None, idempotency_key=None)
    return wrap(fn, replace(known, wrapper=None))


def wrap(fn: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """Wrap a function by its kind, so that every host sees what it saw before."""
    kind = core(fn)
    name = name_of(fn)
    run = fn
    if options.idempotency_key is not None:
        from iserror.layers.keyed import keyed  # late: a server without keys doesn't load their layer

        run = keyed(fn, kind, options, name)
    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(kind):
        wrapper = async_wrapper(run, options, name)
    elif options.timeout is not None:
        raise ValueError(f"timeout= on {name!r}: only an async function can be stopped, and this one is not async")
    elif inspect.isasyncgenfunction(kind):
        wrapper = asyncgen_wrapper(fn, options, name)
    elif inspect.isgeneratorfunction(kind):
        wrapper = generator_wrapper(fn, options, name)
    else:
        wrapper = sync_wrapper(run, options, name)

    dress(wrapper, fn)
    setattr(wrapper, MARK, replace(options, wrapper=wrapper))
    return wrapper


def dress(wrapper: Any, fn: Any) -> None:
    """Make a wrapper look like the function that it wraps."""
    functools.update_wrapper(wrapper, fn)
    if not hasattr(fn, "__name__"):
        _name_after(wrapper, fn, core(fn), name_of(fn))


def _name_after(wrapper: Any, fn: Any, kind: Any, name: str) -> None:
    """Give the wrapper of a partial or callable object what a function has and such an object doesn't.

    Hosts name the tool after it, and resolve its annotations in its own module.
    """
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__ = kind.__module__
    wrapper.__doc__ = kind.__doc__ or (None if isinstance(fn, functools.partial) else type(fn).__doc__)
    signature = inspect.signature(fn)
    hints = look(lambda: get_type_hints(kind, include_extras=True), {})
    names = [*signature.parameters, "return"]
    wrapper.__annotations__ = {key: hint for key, hint in hints.items() if key in names}
    wrapper.__signature__ = signature.replace(
        parameters=[p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()],
        return_annotation=hints.get("return", signature.return_annotation),
    )
    # A host that follows this to the object itself would find unresolved annotations again.
    del wrapper.__wrapped__
