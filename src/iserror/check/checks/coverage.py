"""What a guard doesn't cover on a server object in this process: tools, exceptions, entries, return types.

No tool runs. These checks read the tool objects, and the source of the modules.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from iserror.check.notes import Audit
from iserror.check.session import Session
from iserror.errors.errormap import ErrorMap
from iserror.errors.toolfailure import ToolFailure
from iserror.hosts import guard_of
from iserror.hosts.inside import PACKAGES, function_of, listed_tools, lowlevel_of, output_schema_of
from iserror.layers.options import Options, is_guarded, options_of
from iserror.layers.settings import Settings
from iserror.support.loading import full_name
from iserror.support.look import look
from iserror.support.sdk import host_tool_errors, is_protocol_error, package_of

_NOT_THE_USERS: Final = frozenset({*PACKAGES, "iserror", "builtins"})


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
    elif package_of(str(getattr(kind, "__module__", ""))) not in _NOT_THE_USERS:
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
    source = _Source(by_module)
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
        for key, entry in errors.entries.items():
            if why := source.cannot_be_raised(key):
                audit.add("coverage.unraised_entry", f"{full_name(key)} ({entry.code}): {why}", name, full_name(key))


def _maps_of(tool: _Tool, attached: Settings | None) -> list[ErrorMap]:
    own = [] if tool.options is None else list(tool.options.maps)
    return own + ([attached.errors] if attached is not None else [])


class _Source:
    """The user's own modules: what they define and what they raise, by name.

    A name counts as raised if it appears anywhere except in a class's bases, an `except`, an annotation or the first
    argument of `.add`. So the check may miss an exception, but doesn't report one that can be raised.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self.tops = {name.partition(".")[0] for name in modules} - _NOT_THE_USERS
        self.used: set[str] = set()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in self.tops and isinstance(module, ModuleType):
                tree = look(_parsed, None, module)
                if tree is not None:
                    uses = _Uses()
                    uses.visit(tree)
                    self.used |= uses.names

    def exceptions_of(self, module: str) -> Iterator[type[Exception]]:
        """Yield the exception classes that a module defines, except bases that are never raised themselves."""
        for name, kind in sorted(vars(sys.modules.get(module, object)).items()):
            if (
                isinstance(kind, type)
                and issubclass(kind, Exception)
                and (kind.__module__, kind.__qualname__) == (module, name)
                and not name.startswith("_")
                and not issubclass(kind, (ToolFailure, *host_tool_errors()))
                and not is_protocol_error(kind)
                and (name in self.used or not kind.__subclasses__())
            ):
                yield kind

    def cannot_be_raised(self, key: type[BaseException] | str) -> str:
        """Return why nothing can raise the exception that an entry names; empty if something may."""
        kind: Any = key
        if isinstance(key, str):
            module, _, name = key.rpartition(".")
            if module not in sys.modules and look(find_spec, None, module.partition(".")[0]) is None:
                return "its library is not installed"
            kind = look(lambda: getattr(import_module(module), name), None)
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                return "there is no exception class of this name"
        if kind.__module__.partition(".")[0] not in self.tops or self._is_used(kind):
            return ""
        return "no module of the server raises it, or a subclass"

    def _is_used(self, kind: type) -> bool:
        return kind.__name__ in self.used or any(map(self._is_used, kind.__subclasses__()))


def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


class _Uses(ast.NodeVisitor):
    """Collects the names that a module uses for anything except to catch, derive, annotate or map."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.names.add(node.attr)
        self.visit(node.value)

    def visit_alias(self, node: ast.alias) -> None:
        if node.asname is not None:  # The module may raise it under that name.
            self.names.add(node.name.rpartition(".")[2])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._visit_all(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.body])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all([*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), *node.body])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        maps = isinstance(node.func, ast.Attribute) and node.func.attr == "add"
        asks = isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")
        self.visit(node.func)
        self._visit_all([*node.args[1 if maps else 2 if asks else 0 :], *node.keywords])

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)
