"""Stand-ins for tool bodies: each function that a server's tools run is replaced by one that follows a script.

A stand-in gets the guard's wrapper again, with the same options. Everything above the wrapper stays: the tool object,
an attached guard, middleware, dependencies. No body can run: a call is sent only if the server's own look-up leads to a
stand-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final

import anyio

from iserror.check.connection import Connection
from iserror.check.memory import Memory
from iserror.errors.errormap import ErrorMap
from iserror.errors.vocabulary import Effect
from iserror.hosts import guard_of
from iserror.hosts.inside import (
    TOOL_RUN,
    annotations_of,
    bodies_of,
    body_field,
    forwards_to,
    look_up,
    mounted_behind,
    tools_held_by,
)
from iserror.layers.call import Call, current
from iserror.layers.function import dress, wrap
from iserror.layers.options import Options, core, effect_of, options_of
from iserror.layers.settings import Settings
from iserror.logs.chain import State
from iserror.support.look import look, shield
from iserror.support.sdk import TOOL_FUNCTION

PLACE: Final = "(injected)"
"""The file that a traceback names for an exception of a stand-in. The log leaves out frames of this library."""


def _throw(exc: BaseException) -> None:
    raise exc


# The function belongs to no package, since the guard judges an exception by the package that raised it.
_raise: Final = FunctionType(_throw.__code__.replace(co_filename=PLACE), {"__name__": "injected"})


class Stage:
    """The script of the stand-ins, and what they saw."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """How long a thread is held, in seconds."""
        self.set(None)

    def set(self, fault: BaseException | None, value: object = None, *, waits: bool = False) -> None:
        """Write the script of the next call.

        Args:
            fault: The exception to raise, if any.
            value: The value to return otherwise.
            waits: Whether to wait until the call is cancelled instead.
        """
        self.fault, self.value, self.waits = fault, value, waits
        self.call: Call | None = None
        """The guarded call that the stand-in ran in."""
        self.entered = False
        """Whether a stand-in has run."""
        self.on_loop = False
        """Whether a plain function ran on the event loop, where no client can cancel it."""
        self.released = threading.Event()

    def play(self) -> Any:
        """Follow the script in a plain function."""
        if self.waits:
            self.on_loop = _on_loop()
        self.call, self.entered = current.get(), True
        if self.waits and not self.on_loop:
            self.released.wait(self.seconds)
        elif self.fault is not None:
            _raise(self.fault)
        return self.value

    async def play_async(self) -> Any:
        """Follow the script in an async function."""
        if not self.waits:
            return self.play()
        self.call, self.entered = current.get(), True
        return await anyio.sleep_forever()

    def stand_in(self, function: Any) -> Callable[..., Any]:
        """Return a stand-in with the kind, signature, name and guard of a tool's function."""
        kind = core(function)
        body: Callable[..., Any]
        if inspect.iscoroutinefunction(kind):

            async def body(*args: Any, **kwargs: Any) -> Any:
                return await self.play_async()

        elif inspect.isasyncgenfunction(kind):

            async def body(*args: Any, **kwargs: Any) -> Any:
                yield await self.play_async()

        elif inspect.isgeneratorfunction(kind):

            def body(*args: Any, **kwargs: Any) -> Any:
                yield self.play()

        else:

            def body(*args: Any, **kwargs: Any) -> Any:
                return self.play()

        dress(body, function)
        options = options_of(function)
        if options is None or options.wrapper is None:
            return body
        # The key is left out, since the store of idempotency keys may be the one in production.
        return wrap(body, replace(options, wrapper=None, idempotency_key=None))


def _on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class Place:
    """The stand-in that a call of a tool leads to, and the guards on the way."""

    options: Options | None
    """The options of the function's decorator."""
    guards: tuple[Settings, ...]
    """The guards attached to the servers on the way, the innermost first."""
    attached: bool
    """Whether a guard is attached to the server that the client talks to."""
    tool: Any
    """The tool object."""
    annotations: object
    function: Any
    """The function that the stand-in replaces."""
    is_run: bool
    """Whether the stand-in replaces the tool object's `run` instead of a function."""

    @property
    def is_guarded(self) -> bool:
        """Whether any guard sees what the tool raises."""
        return bool(self.guards) or (not self.is_run and self.options is not None and self.options.settings is not None)

    @property
    def module(self) -> str:
        """The module of the function; empty if there is none."""
        return str(getattr(look(inspect.unwrap, None, self.function), "__module__", "") or "")

    @property
    def is_async(self) -> bool:
        """Whether the host awaits the body."""
        kind = core(self.function)
        return self.is_run or inspect.iscoroutinefunction(kind) or inspect.isasyncgenfunction(kind)

    @property
    def returns(self) -> bool:
        """Whether the stand-in's value reaches the host as the function's would."""
        kind = core(self.function)
        return not (self.is_run or inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind))

    @property
    def maps(self) -> tuple[ErrorMap, ...]:
        """The error maps, in the order of the look-up."""
        own = self.options.maps if self.options is not None and not self.is_run else ()
        return (*own, *(guard.errors for guard in self.guards))

    @property
    def effect(self) -> Effect | None:
        """What the guard takes the tool to do; None if no author declares it."""
        return effect_of(self.options, self.annotations, self.tool, self.guards[0] if self.guards else None)


class Bodies:
    """The bodies of a server's tools, replaced until `restore`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        """The script of all stand-ins."""
        self._made: dict[int, tuple[Callable[..., Any], Any]] = {}
        """The stand-ins by `id`, each with what it replaces."""
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        """What to put back: a tool object's fields, the name of one, and its value."""
        self._hooks: dict[Settings, Any] = {}
        """The `on_error` hook of each guard."""

    def replace_all(self, server: Any) -> None:
        """Replace the body of every tool that the server, or a server mounted on it, holds now."""
        for held, tools in tools_held_by(server):
            self._quiet(guard_of(held))
            for tool in tools:
                shield(self._replace, None, tool)

    def restore(self) -> None:
        """Put everything back."""
        for fields, key, value in reversed(self._before):
            if value is _NONE:
                fields.pop(key, None)
            else:
                fields[key] = value
        for guard, hook in self._hooks.items():
            guard.on_error = hook
        self._before.clear()
        self._hooks.clear()
        self._made.clear()

    async def lead(self, connection: Connection, name: str, seconds: float) -> Place | None:
        """Replace the bodies that exist now, clear the stage, and return the stand-in that a call of a tool leads to.

        Args:
            connection: The connection to the server in memory.
            name: The tool.
            seconds: How long the server's event loop may take.

        Raises:
            GoneError: If it takes longer, or has ended.
        """
        assert isinstance(connection, Memory)

        async def replace_and_find() -> Place | None:
            place = await self.find(connection.server, name)
            if place is None:
                self.replace_all(connection.server)
                place = await self.find(connection.server, name)
            return place

        self.stage.set(None)
        return await connection.inside(replace_and_find, seconds)

    def _quiet(self, guard: Settings | None) -> None:
        """Take away a guard's hook, so that it pages no operator."""
        if guard is not None and guard not in self._hooks:
            self._hooks[guard], guard.on_error = guard.on_error, None

    def _replace(self, tool: Any) -> None:
        tool = look(_behind, tool, tool)
        fields: dict[str, Any] = look(vars, {}, tool)
        field = look(body_field, None, tool)
        if field is None or id(fields.get(field)) in self._made:
            return
        function = fields.get(TOOL_FUNCTION)
        if field == TOOL_RUN:

            async def made(*args: Any, **kwargs: Any) -> Any:
                return await self.stage.play_async()

            self._put(fields, field, made, function)
            return
        options = options_of(function)
        self._quiet(options.settings if options is not None else None)
        self._put(fields, field, self.stage.stand_in(function), function)

    def _put(self, fields: dict[str, Any], key: str, made: Callable[..., Any], original: Any) -> None:
        self._before.append((fields, key, fields.get(key, _NONE)))
        self._made[id(made)] = made, original
        fields[key] = made

    async def find(self, server: Any, name: str) -> Place | None:
        """Return the stand-in that a call of a tool leads to now; None if it leads anywhere else."""
        guards: list[Settings] = []
        attached = guard_of(server) is not None
        for _ in range(100):
            guard = guard_of(server)
            guards = [guard, *guards] if guard is not None else guards
            tool = await look_up(server, name)
            if tool is None:
                return None
            end = _behind(tool)
            for field, body in bodies_of(end).items():
                if id(body) in self._made:
                    original = self._made[id(body)][1]
                    options, annotations = options_of(original), annotations_of(tool)
                    return Place(options, tuple(guards), attached, tool, annotations, original, field == TOOL_RUN)
            mounted = mounted_behind(end)
            if mounted is None:
                return None
            server, name = mounted
        return None


_NONE: Final = object()


@contextlib.contextmanager
def kept_log() -> Iterator[None]:
    """Restore the user's log afterwards."""
    before = State.file, State.stderr, State.level, State.configured
    try:
        yield
    finally:
        State.file, State.stderr, State.level, State.configured = before


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """Keep what the check provokes out of the user's log."""
    with kept_log():
        State.file, State.stderr, State.configured = None, None, True
        yield


def _behind(tool: Any) -> Any:
    """Return the tool object whose body runs: the one behind transformed tools that only forward."""
    while (parent := forwards_to(tool)) is not None:
        tool = parent
    return tool
