"""Stand-ins for tool bodies: each function that a server's tools run is replaced by one that does as it is told.

The guard's own wrapper is put round the stand-in again, with the options that it had; all that lies above it (the
tool object, the guard that is attached, middleware, dependencies) stays as it is. The body itself cannot run: a call
is made only after the server's own look-up has led to a stand-in.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Final

import anyio

from iserror.errors.errormap import ErrorMap
from iserror.errors.vocabulary import Effect
from iserror.hosts import guard_of
from iserror.layers.call import Call, current
from iserror.layers.function import dress, wrap
from iserror.layers.options import Options, core, effect_of, options_of
from iserror.layers.settings import Settings
from iserror.support.look import attempt
from iserror.support.sdk import is_the_hosts

PLACE: Final = "(injected)"
"""The file that a traceback names for what a stand-in raises; frames of the library's own are left out of the log."""


def _throw(exc: BaseException) -> None:
    raise exc


# Of no package: where an exception was raised says whose it is.
_raise: Final = FunctionType(_throw.__code__.replace(co_filename=PLACE), {"__name__": "injected"})


class Stage:
    """What the stand-ins do at the moment, and what they see."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """How long a thread is held at most."""
        self.set(None)

    def set(self, fault: BaseException | None, value: object = None, *, waits: bool = False) -> None:
        """Say what the next call does: raise the fault, else return the value, else wait until it is cancelled."""
        self.fault, self.value, self.waits = fault, value, waits
        self.call: Call | None = None
        """The guarded call that the stand-in ran in."""
        self.entered = False
        self.on_loop = False
        """Whether a plain function ran on the event loop, where it cannot be cancelled."""
        self.released = threading.Event()

    def play(self) -> Any:
        """Do it, in place of a plain function."""
        if self.waits:
            self.on_loop = attempt(lambda: bool(asyncio.get_running_loop()), False)
        self.call, self.entered = current.get(), True
        if self.waits and not self.on_loop:
            self.released.wait(self.seconds)
        elif self.fault is not None:
            _raise(self.fault)
        return self.value

    async def play_async(self) -> Any:
        """Do it, in place of an async one."""
        if not self.waits:
            return self.play()
        self.call, self.entered = current.get(), True
        return await anyio.sleep_forever()

    def stand_in(self, fn: Any) -> Callable[..., Any]:
        """A function of the same kind, signature and name as a tool's, with a guard's wrapper where that has one."""
        kind = core(fn)
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

        dress(body, fn)
        options = options_of(fn)
        if options is None or options.wrapper is None:
            return body
        # Without the key: a store of idempotency keys may be the one in production.
        return wrap(body, replace(options, wrapper=None, idempotency_key=None))


@dataclass(frozen=True)
class Place:
    """Where a call of a tool ends, and what guards it there."""

    options: Options | None
    """Of its decorator."""
    guards: tuple[Settings, ...]
    """Those attached to the servers that the call passes, the innermost first."""
    attached: bool
    """Whether one is attached to the server that the client talks to."""
    annotations: object
    function: Any
    """What the tool ran before, or its object ran for it."""
    is_run: bool
    """Whether a method of the tool object's own class was replaced, and not its function."""

    @property
    def is_guarded(self) -> bool:
        return bool(self.guards) or (not self.is_run and self.options is not None and self.options.settings is not None)

    @property
    def is_async(self) -> bool:
        kind = core(self.function)
        return self.is_run or inspect.iscoroutinefunction(kind) or inspect.isasyncgenfunction(kind)

    @property
    def returns(self) -> bool:
        """Whether what the stand-in returns is what the function would."""
        kind = core(self.function)
        return not (self.is_run or inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind))

    @property
    def maps(self) -> tuple[ErrorMap, ...]:
        """In the order of the look-up."""
        own = self.options.maps if self.options is not None and not self.is_run else ()
        return (*own, *(guard.errors for guard in self.guards))

    @property
    def effect(self) -> Effect:
        """As a call of it has it."""
        return effect_of(self.options, self.annotations)


class Bodies:
    """The bodies of a server's tools, replaced until `restore`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._made: dict[int, tuple[Callable[..., Any], Any]] = {}
        """Stand-ins by their id, each with what it stands for."""
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        self._hooks: dict[Settings, Any] = {}

    def replace_all(self, server: Any) -> None:
        """Replace the bodies of every tool that the server holds now, and of servers mounted on it."""
        for held, tools in _servers(server):
            self._quiet(guard_of(held))
            for tool in tools:
                attempt(self._replace, None, tool)

    def restore(self) -> None:
        """Put everything back."""
        for fields, key, value in reversed(self._before):
            if value is _NONE:
                fields.pop(key, None)
            else:
                fields[key] = value
        for guard, hook in self._hooks.items():
            guard.on_error = hook

    def _quiet(self, guard: Settings | None) -> None:
        """Take a guard's hook away: whoever it pages must not be paged."""
        if guard is not None and guard not in self._hooks:
            self._hooks[guard], guard.on_error = guard.on_error, None

    def _replace(self, tool: Any) -> None:
        tool = self._behind(tool)
        fields, kind = vars(tool), type(tool)
        key = "fn" if "fn" in fields and is_the_hosts(kind.run) else "run"
        if id(fields.get(key)) in self._made:
            return
        if key == "run":  # a class with a method of its own, which is the body then
            if hasattr(kind, "_run") and not is_the_hosts(kind._run):
                return  # what the host calls on fastmcp: what that does instead nobody knows

            async def made(*args: Any, **kwargs: Any) -> Any:
                return await self.stage.play_async()

            self._put(fields, key, made, fields.get("fn"))
            return
        said = options_of(fields["fn"])
        self._quiet(said.settings if said is not None else None)
        self._put(fields, key, self.stage.stand_in(fields["fn"]), fields["fn"])

    def _put(self, fields: dict[str, Any], key: str, made: Callable[..., Any], original: Any) -> None:
        self._before.append((fields, key, fields.get(key, _NONE)))
        self._made[id(made)] = made, original
        fields[key] = made

    def _behind(self, tool: Any) -> Any:
        """The tool object whose body runs: the one behind a transformed tool that only forwards."""
        while "parent_tool" in vars(tool) and is_the_hosts(tool.fn) and id(tool.fn) not in self._made:
            tool = tool.parent_tool
        return tool

    async def find(self, server: Any, name: str) -> Place | None:
        """Where a call of a tool ends, as the server looks it up now; None if that is no stand-in."""
        guards: list[Settings] = []
        attached = guard_of(server) is not None
        for _ in range(100):
            guard = guard_of(server)
            guards = [guard, *guards] if guard is not None else guards
            tool = await _look_up(server, name)
            if tool is None:
                return None
            end = self._behind(tool)
            for key in ("run", "fn"):
                fn = vars(end).get(key)
                if id(fn) in self._made and (key == "run" or is_the_hosts(type(end).run)):
                    original = self._made[id(fn)][1]
                    annotations = getattr(tool, "annotations", None)
                    options = options_of(original)
                    return Place(options, tuple(guards), attached, annotations, original, key == "run")
            server, inner = getattr(end, "_server", None), getattr(end, "_original_name", None)
            if server is None or not isinstance(inner, str):
                return None
            name = inner
        return None


_NONE: Final = object()


async def _look_up(server: Any, name: str) -> Any:
    """The tool object that the server runs under a name; None where there is none to be found."""
    manager = getattr(server, "_tool_manager", None)
    if manager is not None:
        return attempt(manager.get_tool, None, name)
    for middleware in getattr(server, "middleware", ()):
        tools = getattr(middleware, "_tools_to_inject_by_name", None)
        if isinstance(tools, Mapping) and name in tools:
            return tools[name]
    try:
        return await server.get_tool(name)
    except Exception:  # hidden without a session, unknown, a provider that fails
        return None


def _servers(server: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A server and those mounted on it, each with the tool objects that it holds."""
    waiting, seen = [server], set()
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        manager = getattr(here, "_tool_manager", None)
        if manager is not None:
            yield here, list(attempt(manager.list_tools, []))
            continue
        tools: list[Any] = []
        for middleware in getattr(here, "middleware", ()):
            tools += getattr(middleware, "_tools_to_inject_by_name", {}).values()
        providers = list(getattr(here, "providers", ()))
        while providers:
            provider = providers.pop()
            providers += getattr(provider, "providers", ())
            providers += [inner] if (inner := getattr(provider, "_inner", None)) is not None else []
            waiting += [mounted] if (mounted := getattr(provider, "server", None)) is not None else []
            held = getattr(provider, "_components", {})
            tools += [item for item in held.values() if hasattr(item, "parameters") and hasattr(item, "run")]
        yield here, tools
