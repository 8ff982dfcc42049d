"""The user's own modules: which exceptions they define and raise, and which attributes those have. Only source is read.

A module counts as the user's own if its file is below the folder that holds the tools' top-level package or module, and
isn't installed.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from iserror.errors.toolfailure import ToolFailure
from iserror.hosts.inside import PACKAGES
from iserror.support.look import look
from iserror.support.sdk import host_tool_errors, is_protocol_error

NOT_THE_USERS: Final = frozenset({*PACKAGES, "iserror", "builtins"})
"""Top-level names of modules that the user didn't write."""

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def exception_class(name: str) -> type[BaseException] | None:
    """Import the exception class of a dotted name; return None if there is none."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: Any = look(import_module, None, ".".join(parts[:cut]))
        for part in parts[cut:] if found is not None else ():
            found = look(getattr, None, found, part)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return None


class Source:
    """The modules of the tools, and what they use.

    A name counts as raised if it appears anywhere except in a class's bases, an `except`, an annotation or the first
    argument of `.add`. So the check may miss an exception, but doesn't report one that can be raised.

    Args:
        modules: The names of the modules that define the tools.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self.tops = {name.partition(".")[0] for name in modules} - NOT_THE_USERS
        self.used: set[str] = set()
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in self.tops and isinstance(module, ModuleType):
                tree = look(_tree_of, None, name)
                if tree is not None:
                    uses = _Uses()
                    uses.visit(tree)
                    self.used |= uses.names

    def exceptions_of(self, module: str) -> Iterator[type[Exception]]:
        """Yield the exception classes that a module defines, or imports from the user's other modules and raises.

        Bases that are never raised themselves are left out.
        """
        found: dict[type[Exception], None] = {}
        for name, kind in sorted(vars(sys.modules.get(module, object)).items()):
            if (
                isinstance(kind, type)
                and issubclass(kind, Exception)
                and (kind.__module__, kind.__qualname__) == (module, name)
                and (name in self.used or not kind.__subclasses__())
            ):
                found[kind] = None
        for kind in _raised_in(module):
            if kind.__module__ != module and is_own(kind.__module__, module):
                found[kind] = None
        for kind in found:
            if not (
                kind.__name__.startswith("_")
                or issubclass(kind, (ToolFailure, *host_tool_errors()))
                or is_protocol_error(kind)
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


# --- whose a module is ---------------------------------------------------------------------------------------


def is_own(name: str, beside: str) -> bool:
    """Return True if a module is the user's own.

    Args:
        name: The module.
        beside: A module that is the user's own.
    """
    top = name.partition(".")[0]
    if top in NOT_THE_USERS:
        return False
    if top == beside.partition(".")[0]:
        return True
    file, root = _file_of(name), _root_of(beside)
    return file is not None and root is not None and root in file.parents and not _INSTALLED & {*file.parts}


def _file_of(name: str) -> Path | None:
    file = look(lambda: sys.modules[name].__file__, None)
    return Path(file).resolve() if isinstance(file, str) else None


def _root_of(name: str) -> Path | None:
    """Return the folder that holds the top-level package or module."""
    file = _file_of(name.partition(".")[0]) or _file_of(name)
    if file is None or _INSTALLED & {*file.parts} or is_stdlib(name):
        return None
    return file.parent.parent if file.stem == "__init__" else file.parent


def is_stdlib(name: str) -> bool:
    """Return True for a module of Python itself."""
    return name.partition(".")[0] in sys.stdlib_module_names


# --- what a module raises ------------------------------------------------------------------------------------


def _raised_in(module: str) -> Iterator[type[Exception]]:
    """Yield the exception classes that a module's code raises, or makes an instance of."""
    here, tree = sys.modules.get(module), look(_tree_of, None, module)
    if here is None or tree is None:
        return
    imported = dict(_imported_in(tree, here))
    for node in ast.walk(tree):
        named = node.func if isinstance(node, ast.Call) else node.exc if isinstance(node, ast.Raise) else None
        parts = (named.body, named.orelse) if isinstance(named, ast.IfExp) else (named,)
        # `raise NotFound.of(id)` calls a class method.
        for part in (*parts, *(part.value for part in parts if isinstance(part, ast.Attribute))):
            kind = _resolved(part, here, imported)
            if isinstance(kind, type) and issubclass(kind, Exception):
                yield kind


def _imported_in(tree: ast.Module, here: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield what functions of a module import, by name, as far as it is loaded."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or name, sys.modules.get(name)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            name = look(resolve_name, "", relative, here.__package__) if node.level else relative
            for alias in node.names:
                found = getattr(sys.modules.get(name), alias.name, None)
                yield alias.asname or alias.name, found or sys.modules.get(f"{name}.{alias.name}")


def _resolved(node: ast.expr | None, here: ModuleType, imported: dict[str, object]) -> object:
    """Return what a name, or a path of attributes from one, means in a module; None if unknown."""
    if isinstance(node, ast.Name):
        found = vars(here).get(node.id)
        return found if found is not None else imported.get(node.id)
    if isinstance(node, ast.Attribute):
        holder = _resolved(node.value, here, imported)
        # Attributes of anything else may be properties, which run code.
        return vars(holder).get(node.attr) if isinstance(holder, (ModuleType, type)) else None
    return None


# --- which attributes an exception has -----------------------------------------------------------------------


def lacks(kind: type[BaseException], name: str, beside: str) -> bool:
    """Return True if it is certain that no exception of a class, or of a subclass, has an attribute.

    The class has to be the user's own. Anything that could set the attribute unseen makes it uncertain: a base without
    source, `setattr`, `__getattr__`, a metaclass, a decorator.

    Args:
        kind: The class.
        name: The attribute.
        beside: A module that is the user's own.
    """
    key: Any = kind  # A class is hashable, unless its metaclass says otherwise.
    return look(lambda: _lacks(key, name, beside), False)


@lru_cache(maxsize=1024)  # A map has the same entries for each tool.
def _lacks(kind: Any, name: str, beside: str) -> bool:
    if not is_own(kind.__module__, beside) or any(look(_may_have, True, each, name) for each in _with_subclasses(kind)):
        return False
    return not any(name in _stored_in(module) for module in list(sys.modules) if is_own(module, beside))


def attributes_of(kind: type[BaseException]) -> set[str]:
    """Return the names of the attributes that a class is seen to have."""
    names = {name for name in dir(kind) if not name.startswith("_")}
    for base in kind.__mro__:
        names |= set(look(inspect.get_annotations, {}, base))
        node = look(_class_node, None, base)
        names |= _stores(node) if node is not None else set()
    return names


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    derived: list[type] = kind.__subclasses__()
    for each in derived:
        yield from _with_subclasses(each)


def _may_have(kind: type, name: str) -> bool:
    if type(kind) is not type or name in dir(kind):
        return True
    for base in kind.__mro__:
        if base.__module__ == "builtins":
            continue
        own: Mapping[str, object] = vars(base)
        if name in look(inspect.get_annotations, {name: None}, base) or own.keys() & _UNSEEN_STORES:
            return True
        node = _class_node(base)
        if node is None or name in _stored_in(base.__module__) or _stores_unseen(node, name):
            return True
    return False


_UNSEEN_STORES: Final = {"__getattr__", "__getattribute__", "__init_subclass__", "__set_name__"}


def _class_node(kind: type) -> ast.ClassDef | None:
    """Return the definition of a class in its module's source; None if it isn't there once."""
    tree = _tree_of(kind.__module__)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    return found[0] if len(found) == 1 else None


def _stores_unseen(node: ast.ClassDef, name: str) -> bool:
    """Return True if a class may set an attribute without naming it as one."""
    for decorator in node.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) not in ("dataclass", "final"):
            return True
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id in ("setattr", "vars", "exec", "locals"):
            return True
        if isinstance(inner, ast.Attribute) and inner.attr in ("__dict__", "__setattr__", "__setstate__"):
            return True
        if isinstance(inner, ast.Constant) and inner.value == name:
            return True
    return False


def _stored_in(module: str) -> set[str]:
    """Return the names of the attributes that a module's code sets, on any object; empty without source."""
    tree = look(_tree_of, None, module)
    return _stores(tree) if tree is not None else set()


def _stores(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            named = (value.value for value in node.args[1:2] if isinstance(value, ast.Constant))
            names |= {name for name in named if isinstance(name, str)}
    return names


_trees: WeakKeyDictionary[ModuleType, ast.Module] = WeakKeyDictionary()


def _tree_of(module: str) -> ast.Module:
    """Return the parsed source of a loaded module."""
    loaded = sys.modules[module]
    if loaded not in _trees:
        _trees[loaded] = ast.parse(inspect.getsource(loaded))
    return _trees[loaded]


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
