"""What is injected: each exception that a tool's maps know, and what no map should have to know."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final, Literal

from iserror.check.plants import Plants
from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import BUILT_IN, Outcome
from iserror.support.causes import Group
from iserror.support.loading import full_name
from iserror.support.look import attempt
from iserror.support.schema import schema_error
from iserror.support.sdk import protocol_error_data

PROTOCOL_CODE: Final = -31077


class InjectedError(Exception):
    """A crash."""


@dataclass(frozen=True)
class Fault:
    """One thing that a tool is made to do, and what must come of it.

    Args:
        name: For a person; part of a finding's identity.
        channel: Where the answer goes: a result, a JSON-RPC error, or none since the client cancelled the call.
        code: The failure's code.
        exception: What is raised; None to return `value`, or, without a channel, to wait for the cancellation.
        entry: What the map says, if it says something.
    """

    name: str
    code: str
    channel: Literal["result", "protocol", "none"] = "result"
    exception: BaseException | None = None
    value: object = None
    entry: Entry | None = None
    safe: tuple[str, ...] = field(default=())
    """Attributes with planted text that the map vouches for."""

    @property
    def category(self) -> str:
        return self.entry.category if self.entry is not None else BUILT_IN[self.code]

    @property
    def outcome(self) -> Outcome | None:
        """What is said of the side effect; None where the category says it."""
        if self.entry is not None:
            return self.entry.outcome
        return "applied" if self.code == "INVALID_OUTPUT" else "unknown"

    @property
    def can_help(self) -> bool:
        return self.entry is not None and self.entry.retryable


def faults(
    maps: Sequence[ErrorMap], plants: Plants, output: Mapping[str, Any] | None, skip: Callable[[str], None]
) -> Iterator[Fault]:
    """Everything that a tool is made to do.

    Args:
        maps: The tool's maps, in the order of the look-up.
        plants: What is planted.
        output: The tool's output schema, where breaking it is to be tried.
        skip: Called with what cannot be tried, and why.
    """
    mapped: BaseException | None = None
    for key, kind in _classes(maps, skip).items():
        exc = _instance(kind, plants.text)
        if exc is None:
            skip(f"{key}, of which no instance can be made")
        elif isinstance(exc, ToolFailure) or protocol_error_data(exc) is not None:
            skip(f"{key}, which the map is asked about only where an SDK raised it")
        else:
            mapped = mapped if mapped is not None else _instance(kind, plants.text)
            entry = _find(maps, exc)
            assert entry is not None
            _plant(exc, plants, _paths(entry))
            yield _failure(key, exc, maps, tuple(".".join(path) for path in sorted(entry.safe)))
    yield _failure("crash", InjectedError(), maps)
    full = InjectedError(plants.everything, {"secret": plants.everything})
    # What a map says of every exception may read its attributes: these hold only what the redactor knows.
    if _find(maps, full) is not None:
        full = InjectedError(plants.text)
    _plant(full, plants, ())
    yield _failure("secrets", full, maps)
    crash = InjectedError(plants.text)
    # A crash outweighs the rest, unless the map speaks for every exception.
    leaves = [exc for exc in (mapped, crash) if isinstance(exc, Exception) and (exc is crash or not _find(maps, crash))]
    yield _failure("group", Group(plants.text, leaves), maps)
    yield Fault("SystemExit", "INTERNAL_ERROR", exception=SystemExit(plants.everything))
    yield Fault("stray CancelledError", "INTERNAL_ERROR", exception=asyncio.CancelledError(plants.everything))
    yield Fault("protocol error", str(PROTOCOL_CODE), "protocol", exception=_protocol_error(plants.clean))
    yield Fault("cancelled by the client", "", "none")
    if output is not None:
        values = [value for value in (plants.clean, 77, True, None) if _breaks(output, value)]
        if values:
            yield Fault("return value that breaks the output schema", "INVALID_OUTPUT", value=values[0])
        else:
            skip("its output schema, which every value fits")


def _failure(name: str, exc: BaseException, maps: Sequence[ErrorMap], safe: tuple[str, ...] = ()) -> Fault:
    entry = _find(maps, exc)
    code = entry.code if entry is not None else "INTERNAL_ERROR"
    return Fault(name, code, exception=exc, entry=entry, safe=safe)


def _find(maps: Sequence[ErrorMap], exc: BaseException) -> Entry | None:
    return next((entry for errors in maps if (entry := errors.find(exc)) is not None), None)


def _breaks(schema: Mapping[str, Any], value: object) -> bool:
    # Hosts put what is no object under this name.
    return schema_error(schema, {"result": value}) is not None and schema_error(schema, value) is not None


# --- the exceptions of a map ---------------------------------------------------------------------------------


def _classes(maps: Sequence[ErrorMap], skip: Callable[[str], None]) -> dict[str, type[BaseException]]:
    """The exception classes of the maps by their names."""
    found: dict[str, type[BaseException]] = {}
    for key in (key for errors in maps for key in errors.entries):
        kind = key if isinstance(key, type) else _imported(key)
        if kind is None:
            skip(f"{key}, which cannot be imported")
        elif kind not in found.values():
            found[full_name(key)] = kind
    return found


def _imported(name: str) -> type[BaseException] | None:
    """The class of a dotted name, if it can be imported."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: Any = attempt(import_module, None, ".".join(parts[:cut]))
        for part in parts[cut:] if found is not None else ():
            found = attempt(getattr, None, found, part)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return None


def _instance(kind: type[BaseException], text: str) -> BaseException | None:
    """An exception of this class, made as its constructor wants it where that can be guessed, else without it."""
    makers: list[Callable[[], Any]] = [
        lambda: kind(text),
        lambda: _called(kind, text),
        lambda: kind(text, [InjectedError(text)]),
        lambda: kind(),
        lambda: kind.__new__(kind, text),
    ]
    return next((exc for make in makers if isinstance(exc := attempt(make, None), kind)), None)


def _called(kind: type[BaseException], text: str) -> BaseException:
    positional: list[object] = []
    by_name: dict[str, object] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        said = str(parameter.annotation)
        value = next((value for word, value in _BY_TYPE.items() if word in said), text)
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name[name] = value
        else:
            positional.append(value)
    return kind(*positional, **by_name)


_BY_TYPE: Final[Mapping[str, Any]] = {"list": [], "dict": {}, "bool": False, "int": 7, "float": 7.5}


def _paths(entry: Entry) -> set[tuple[str, ...]]:
    """The attributes that its templates and details read."""
    hint = entry.hint.paths if entry.hint is not None else set()
    return entry.message.paths | hint | {path for _, path in entry.details if not callable(path)}


def _plant(exc: BaseException, plants: Plants, paths: set[tuple[str, ...]] | tuple[()]) -> None:
    """Fill an exception with planted text: notes, a cause, and the attributes."""
    cause = InjectedError(plants.text)
    for name, value in (("__cause__", cause), ("__notes__", [plants.text]), ("injected", plants.text)):
        attempt(setattr, None, exc, name, value)
    for *way, last in paths:
        owner: Any = exc
        for name in way:
            inner = attempt(getattr, None, owner, name)
            if not hasattr(inner, "__dict__"):
                inner = SimpleNamespace()
                attempt(setattr, None, owner, name, inner)
            owner = inner
        is_list = isinstance(attempt(getattr, None, owner, last), (list, tuple))
        attempt(setattr, None, owner, last, [plants.text] if is_list else plants.text)


def _protocol_error(text: str) -> BaseException:
    """The SDK's protocol error, as an author raises it."""
    from mcp.shared import exceptions

    kind: Any = getattr(exceptions, "MCPError", None)
    if kind is not None:
        made = kind(PROTOCOL_CODE, text, {"detail": text})
    else:
        from mcp import types

        made = exceptions.McpError(types.ErrorData(code=PROTOCOL_CODE, message=text, data={"detail": text}))
    assert isinstance(made, BaseException)
    return made
