"""The faults to inject into a tool: each exception that its maps know, and those that no map has to know."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, Literal

from iserror.check.plants import Plants
from iserror.check.source import exception_class, lacks
from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.template import Path, read, texts_of
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.verdict import Basis
from iserror.errors.vocabulary import BUILT_IN, Outcome
from iserror.hosts.inside import protocol_error
from iserror.support.causes import Group
from iserror.support.loading import full_name
from iserror.support.look import look
from iserror.support.schema import schema_error
from iserror.support.sdk import protocol_error_data

PROTOCOL_CODE: Final = -31077
"""The code of the injected protocol error."""


class InjectedError(Exception):
    """An exception that no map knows by name."""


@dataclass(frozen=True)
class InjectedFault:
    """One way in which a tool is made to fail, and the failure that must result."""

    name: str
    """A name to show; part of a finding's key."""
    code: str
    """The failure's code."""
    channel: Literal["result", "protocol", "none"] = "result"
    """How the call is answered: a result, a JSON-RPC error, or no answer, since the client cancelled the call."""
    exception: BaseException | None = None
    """The exception to raise. If None, the tool returns `value`, or without a channel waits for the cancellation."""
    value: object = None
    entry: Entry | None = None
    """The map's entry for the exception, if it has one."""
    safe: tuple[str, ...] = field(default=())
    """Attributes with planted text that the map marks as safe."""
    lost: tuple[str, ...] = field(default=())
    """Attributes that the entry reads, and that the exception can't have."""

    @property
    def category(self) -> str:
        """The failure's category."""
        return self.entry.category if self.entry is not None else BUILT_IN[self.code]

    @property
    def outcome(self) -> Outcome:
        """The outcome that the failure states."""
        return self.entry.claim if self.entry is not None else "unknown"

    @property
    def basis(self) -> Basis:
        """Who says it."""
        return self.entry.basis if self.entry is not None else "code"

    @property
    def can_help(self) -> bool:
        """Whether the entry declares that a retry can help."""
        return self.entry is not None and self.entry.retryable


def faults_of(
    maps: Sequence[ErrorMap],
    plants: Plants,
    output: Mapping[str, Any] | None,
    skip: Callable[[str], None],
    module: str = "",
) -> Iterator[InjectedFault]:
    """Yield the faults to inject into a tool.

    Args:
        maps: The tool's maps, in the order of the look-up.
        plants: The secrets to plant in exceptions.
        output: The tool's output schema, if the check should try to break it.
        skip: Called with a text that names a fault that can't be injected, and the reason.
        module: The module of the tool's function; empty if there is none.
    """
    mapped: BaseException | None = None
    for key, kind in _classes(maps, skip).items():
        exc = _instance(kind, plants.text)
        if exc is None:
            skip(f"{key}, since it can't be constructed")
        elif isinstance(exc, ToolFailure) or protocol_error_data(exc) is not None:
            skip(f"{key}, since its entry applies only if an SDK raised it")
        else:
            mapped = mapped if mapped is not None else _instance(kind, plants.text)
            entry = _find(maps, exc)
            assert entry is not None
            lost = {path for path in entry.paths if lacks(type(exc), path[0], module)}
            _plant(exc, plants, entry.paths - lost)
            for path in sorted(entry.paths - lost):
                if not look(_has_text, False, exc, path):
                    skip(f"the value {{exc.{'.'.join(path)}}} of {entry.code}, since an exception made up has none")
            yield replace(_failure(key, exc, maps), safe=_dotted(entry.safe), lost=_dotted(lost))
    yield _failure("crash", InjectedError(), maps)
    full = InjectedError(plants.everything, {"secret": plants.everything})
    # An entry that covers every exception may read its attributes: plant only what the redactor knows.
    if _find(maps, full) is not None:
        full = InjectedError(plants.text)
    _plant(full, plants, ())
    yield _failure("secrets", full, maps)
    crash = InjectedError(plants.text)
    # A crash outweighs the other leaves, unless the map has an entry for every exception.
    leaves = [exc for exc in (mapped, crash) if isinstance(exc, Exception) and (exc is crash or not _find(maps, crash))]
    yield _failure("group", Group(plants.text, leaves), maps)
    yield InjectedFault("SystemExit", "INTERNAL_ERROR", exception=SystemExit(plants.everything))
    yield InjectedFault("stray CancelledError", "INTERNAL_ERROR", exception=asyncio.CancelledError(plants.everything))
    made = protocol_error(PROTOCOL_CODE, plants.clean, {"detail": plants.clean})
    yield InjectedFault("protocol error", str(PROTOCOL_CODE), "protocol", exception=made)
    yield InjectedFault("cancelled by the client", "", "none")
    if output is not None:
        # No text: one in the place of a typed value is taken for the words of an error.
        values = [value for value in (77, True, None, [77], {"seventy": 7}) if _breaks(output, value)]
        if values:
            yield InjectedFault("return value that breaks the output schema", "INVALID_OUTPUT", value=values[0])
        else:
            skip("its output schema, since every value fits it")


def _failure(name: str, exc: BaseException, maps: Sequence[ErrorMap]) -> InjectedFault:
    entry = _find(maps, exc)
    code = entry.code if entry is not None else "INTERNAL_ERROR"
    return InjectedFault(name, code, exception=exc, entry=entry)


def _has_text(exc: BaseException, path: Path) -> bool:
    return any(texts_of(read(exc, path)))


def _dotted(paths: AbstractSet[Path]) -> tuple[str, ...]:
    return tuple(".".join(path) for path in sorted(paths))


def _find(maps: Sequence[ErrorMap], exc: BaseException) -> Entry | None:
    return next((entry for errors in maps if (entry := errors.find(exc)) is not None), None)


def _breaks(schema: Mapping[str, Any], value: object) -> bool:
    # Hosts wrap a value that isn't an object in this key.
    return schema_error(schema, {"result": value}) is not None and schema_error(schema, value) is not None


# --- the exceptions of a map ---------------------------------------------------------------------------------


def _classes(maps: Sequence[ErrorMap], skip: Callable[[str], None]) -> dict[str, type[BaseException]]:
    """Return the exception classes that the maps name, by name."""
    found: dict[str, type[BaseException]] = {}
    for key in (key for errors in maps for key, _ in errors.entries):
        kind = key if isinstance(key, type) else exception_class(key)
        if kind is None:
            skip(f"{key}, since it can't be imported")
        elif kind not in found.values():
            found[full_name(key)] = kind
    return found


def _instance(kind: type[BaseException], text: str) -> BaseException | None:
    """Return an exception of this class, made with guessed arguments or without its constructor; None if both fail."""
    makers: list[Callable[[], Any]] = [
        lambda: kind(text),
        lambda: _called(kind, text),
        lambda: kind(text, [InjectedError(text)]),
        lambda: kind(),
        lambda: kind.__new__(kind, text),
    ]
    return next((exc for make in makers if isinstance(exc := look(make, None), kind)), None)


def _called(kind: type[BaseException], text: str) -> BaseException:
    """Call the constructor with arguments guessed from its annotations."""
    positional: list[object] = []
    by_name: dict[str, object] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        annotation = str(parameter.annotation)
        value = next((value for word, value in _BY_TYPE.items() if word in annotation), text)
        if parameter.kind is parameter.KEYWORD_ONLY:
            by_name[name] = value
        else:
            positional.append(value)
    return kind(*positional, **by_name)


_BY_TYPE: Final[Mapping[str, Any]] = {"list": [], "dict": {}, "bool": False, "int": 7, "float": 7.5}


def _plant(exc: BaseException, plants: Plants, paths: AbstractSet[Path] | tuple[()]) -> None:
    """Plant text in an exception: in its notes, its cause and these attributes."""
    cause = InjectedError(plants.text)
    for name, value in (("__cause__", cause), ("__notes__", [plants.text]), ("injected", plants.text)):
        look(setattr, None, exc, name, value)
    for *way, last in paths:
        owner: Any = exc
        for name in way:
            inner = look(getattr, None, owner, name)
            if not hasattr(inner, "__dict__"):
                inner = SimpleNamespace()
                look(setattr, None, owner, name, inner)
            owner = inner
        is_list = isinstance(look(getattr, None, owner, last), (list, tuple))
        look(setattr, None, owner, last, [plants.text] if is_list else plants.text)
