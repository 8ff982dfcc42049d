"""`Options`: what is known of one guarded function, and how to find it from what a host holds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Final

from iserror.errors.errormap import ErrorMap
from iserror.errors.vocabulary import Effect
from iserror.layers.effects import annotated_effect, effect_said
from iserror.layers.settings import ReturnedErrors, Settings
from iserror.support.sdk import is_proxied

MARK: Final = "__iserror__"


@dataclass(frozen=True)
class Options:
    """What is known of one guarded function."""

    settings: Settings | None
    """The guard's; None for a function that is only marked as a tool's body: outside of a served call it isn't
    guarded."""
    maps: tuple[ErrorMap, ...] = ()
    """Where to look exceptions up, the nearest first."""
    effect: Effect | None = None
    timeout: float | None = None
    """Seconds."""
    idempotency_key: str | None = None
    """The name of the parameter that takes the key."""
    asks_first: bool = False
    """Whether the tool does nothing before it has asked the client."""
    returned_errors: ReturnedErrors | None = None
    """What to do with a success that reads like an error; None leaves it to the settings."""
    wrapper: Callable[..., Any] | None = None
    key: object = field(default_factory=object)
    """Tells the wrappers of one function from all others."""

    @property
    def own_map(self) -> ErrorMap | None:
        """The map that is for this tool alone, if it has one."""
        return self.maps[0] if len(self.maps) > 1 else None


def options_of(fn: object) -> Options | None:
    """Return the options of a guarded function, of one that `functools.wraps` it, or of the bare one inside it."""
    found = getattr(core(fn), MARK, None)
    return found if isinstance(found, Options) else None


def is_guarded(fn: object) -> bool:
    """Return True if calling `fn` calls a guard's wrapper first; a copy of a wrapper's attributes isn't enough."""
    inner = core(fn)
    options = options_of(inner)
    return options is not None and options.wrapper is inner


def core(fn: Any) -> Any:
    """Return the function that runs when `fn` is called: inside partials, bound methods and callable objects."""
    if type(fn) is FunctionType:
        return fn
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn):
        return getattr(fn, "__func__", fn)
    return getattr(type(fn), "__call__", fn)  # noqa: B004 - the function itself is wanted


def name_of(fn: Any) -> str:
    """Return the name that hosts give a function, or a callable object."""
    name: str | None = getattr(fn, "__name__", None) or getattr(core(fn), "__name__", None)
    return name if name and name != "__call__" else type(fn).__name__


def effect_of(
    options: Options | None, annotations: object, tool: Any, settings: Settings | None, name: str = ""
) -> Effect | None:
    """Return what a tool does; None if no author declares it.

    `@guard` goes first, then the annotations, then `ToolErrors(effects=...)`. For a tool that another server
    runs, annotations and patterns can only declare a write, unless the settings trust the upstream.

    Args:
        options: Those of its function, if that is guarded.
        annotations: The tool's.
        tool: The host's tool object; None if none ran.
        settings: Those of the guard.
        name: The name of the function, or of the call, if no tool object ran.
    """
    if options is not None and options.effect is not None:
        return options.effect
    if options is not None and options.idempotency_key is not None:
        return "write"
    distrusted = tool is not None and not (settings is not None and settings.trust_upstream) and is_proxied(tool)
    annotated = annotated_effect(annotations)
    if annotated is not None and not (distrusted and annotated != "write"):
        return annotated
    if settings is None or settings.effects is None:
        return None
    return effect_said(settings.effects, tool, name if tool is None else str(tool.name), exact=distrusted)
