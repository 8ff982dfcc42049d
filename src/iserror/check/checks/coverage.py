"""What a guard doesn't cover on a server object in this process: tools, exceptions, entries, return types.

No tool runs. These checks read the tool objects, and the source of the modules.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from iserror.check.notes import Audit
from iserror.check.session import Session
from iserror.check.source import NOT_THE_USERS, Source, attributes_of, exception_class, lacks
from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.template import BODY
from iserror.hosts import guard_of
from iserror.hosts.inside import function_of, listed_tools, lowlevel_of, output_schema_of
from iserror.layers.options import Options, is_guarded, options_of
from iserror.layers.settings import Settings
from iserror.support.loading import full_name
from iserror.support.look import look
from iserror.support.sdk import package_of


@dataclass(frozen=True)
class _Tool:
    name: str
    tool: Any
    """The host's tool object."""
    function: Any
    """The tool's function; None if it has none in this process."""

    @property
    def options(self) -> Options | None:
        """The options of the function's `@guard`; None if it has no guard."""
        found = options_of(self.function)
        return found if found is not None and found.settings is not None else None

    @property
    def module(self) -> str:
        """The module of the function; empty if there is no function."""
        return str(getattr(inspect.unwrap(self.function), "__module__", "")) if self.function is not None else ""


async def check(audit: Audit, server: Any, session: Session) -> None:
    """Check every tool of a server object, and the map of its guard."""
    if lowlevel_of(server) is server:
        audit.skip("coverage, since no guard can be attached to this kind of server", type(server).__name__)
        return
    try:
        listed = await listed_tools(server)
    except Exception as exc:
        audit.skip(f"coverage, since its tools cannot be listed ({type(exc).__name__})", type(server).__name__)
        return
    tools = [_Tool(tool.name, tool, function_of(tool)) for tool in listed]
    attached = guard_of(server)
    for tool in tools:
        if attached is None and not is_guarded(tool.function):
            _unguarded(audit, tool)
        _output(audit, tool)
    _map(audit, tools, attached)


def _unguarded(audit: Audit, tool: _Tool) -> None:
    if tool.options is not None:
        audit.add("coverage.decorator_order", "the host registered the function without its @guard", tool.name)
    else:
        audit.add("coverage.unguarded", "no guard is attached to the server, and the function has none", tool.name)


# --- return types --------------------------------------------------------------------------------------------


def _output(audit: Audit, tool: _Tool) -> None:
    fn = inspect.unwrap(tool.function) if tool.function is not None else None
    # A host that derives a schema from the type can serialize it.
    if fn is None or output_schema_of(tool.tool) is not None or inspect.isgeneratorfunction(fn):
        return
    if inspect.isasyncgenfunction(fn):
        return
    declared = look(lambda: get_type_hints(fn, include_extras=True).get("return"), None)
    for kind in dict.fromkeys(_unserializable(declared)):
        name = full_name(kind) if isinstance(kind, type) and not get_args(kind) else str(kind)
        audit.add("coverage.output_type", f"it returns {name}, which cannot be made JSON", tool.name, name)


def _unserializable(kind: Any) -> Iterator[Any]:
    """Yield the types in a return type that can't be serialized as JSON."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _unserializable(inside[0])
    elif origin in (Union, UnionType) or (isinstance(origin, type) and issubclass(origin, Collection)):
        for part in inside:
            yield from _unserializable(part)
    # A host serializes its types, such as images and results, in its own way.
    elif package_of(str(getattr(kind, "__module__", ""))) not in NOT_THE_USERS:
        try:
            TypeAdapter(kind).json_schema(mode="serialization")
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
            yield kind
        except Exception:  # A forward reference, or a user's type that fails: nothing is known about it.
            return


# --- the map -------------------------------------------------------------------------------------------------


def _map(audit: Audit, tools: Iterable[_Tool], attached: Settings | None) -> None:
    """Note exceptions without an entry, and entries without an exception."""
    by_module: dict[str, list[_Tool]] = {}
    maps: dict[int, tuple[str, ErrorMap]] = {} if attached is None else {id(attached.errors): ("", attached.errors)}
    for tool in tools:
        if tool.module and (attached is not None or tool.options is not None):
            by_module.setdefault(tool.module, []).append(tool)
        for errors in _maps_of(tool, attached):
            shared = tool.options is None or errors is not tool.options.maps[0] or len(tool.options.maps) == 1
            maps.setdefault(id(errors), ("" if shared else tool.name, errors))
    source = Source(by_module)
    for module, of_it in by_module.items():
        known = [errors for tool in of_it for errors in _maps_of(tool, attached)]
        for kind in source.exceptions_of(module):
            if not any(errors.knows(kind) for errors in known):
                which = ", ".join(tool.name for tool in of_it)
                audit.add(
                    "coverage.unmapped_exception",
                    f"{full_name(kind)} has no entry: raised by a tool ({which}) it is INTERNAL_ERROR",
                    where=full_name(kind),
                )
    for name, errors in maps.values():
        codes = {code for pack in errors.packs.values() for code in pack.meanings()}
        for what, entry in errors.general:
            if entry.instead_of is not None and entry.instead_of not in codes:
                audit.add(
                    "coverage.unraised_entry", f"{what} ({entry.code}): no included pack has that code", name, what
                )
        for key, entry in errors.entries:
            if why := source.cannot_be_raised(key):
                audit.add("coverage.unraised_entry", f"{full_name(key)} ({entry.code}): {why}", name, full_name(key))
            _templates(audit, name, key, entry, by_module)


def _templates(audit: Audit, tool: str, key: type[BaseException] | str, entry: Entry, modules: Collection[str]) -> None:
    """Note the attributes that an entry reads, and that its exceptions can't have."""
    kind = key if isinstance(key, type) else exception_class(key)
    for path in sorted(path for path in entry.paths if path[0] != BODY) if kind is not None else ():
        if kind is not None and any(lacks(kind, path[0], module) for module in modules):
            shown, near = ".".join(path), get_close_matches(path[0], attributes_of(kind), 1)
            meant = f", only {near[0]!r}" if near else ""
            seen = f"{entry.code} reads {{exc.{shown}}}: {full_name(key)} has no attribute {path[0]!r}{meant}"
            audit.add("coverage.template_attribute", seen, tool, f"{full_name(key)}.{shown}")


def _maps_of(tool: _Tool, attached: Settings | None) -> list[ErrorMap]:
    own = [] if tool.options is None else list(tool.options.maps)
    return own + ([attached.errors] if attached is not None else [])
