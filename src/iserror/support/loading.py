"""Modules and classes by name: what a user names on the command line, and what a map names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from iserror.support.look import look


def imported(place: str) -> ModuleType:
    """Import a module by its name or by its file. The working folder, or the file's own, goes first on the path.

    Args:
        place: `billing.server`, or `server.py`.

    Raises:
        BaseException: Whatever importing it raises.
    """
    if not place.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    path = Path(place).resolve()
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known  # a suite's own: a second one would be another server
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where dataclasses and pydantic look for a class's module
    spec.loader.exec_module(module)
    return module


_MODULE: Final[Callable[[type], object]] = vars(type)["__module__"].__get__
_QUALNAME: Final[Callable[[type], str]] = vars(type)["__qualname__"].__get__


mro_of: Final[Callable[[type], tuple[type, ...]]] = vars(type)["__mro__"].__get__
"""Returns a class and its bases, by the slot of `type` itself: a metaclass may hide them, or raise."""


def full_name(key: type | str) -> str:
    """Return a class's dotted name (`__module__` and `__qualname__`); a name that is one already stays as it is.

    The slots of `type` itself are read: a metaclass may define properties of these names that raise.
    """
    return key if isinstance(key, str) else f"{_MODULE(key)}.{_QUALNAME(key)}"


_INSTALLED: Final = re.compile(r"[\\/](?:site-packages|dist-packages)[\\/]", re.IGNORECASE)


def is_library(module: str, author: str = "") -> bool:
    """Return True for a module of the standard library or of an installed package.

    Args:
        module: Its full name.
        author: The name of a module of the server's author, whose own package may be installed, too.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if not top or top == author.partition(".")[0]:
        return False
    loaded = sys.modules.get(module) or sys.modules.get(top)
    if loaded is None:
        spec = look(importlib.util.find_spec, None, top)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    else:
        places = look(lambda: [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())], [])
    return any(isinstance(place, str) and _INSTALLED.search(place + os.sep) for place in places)
