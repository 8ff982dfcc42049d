"""Modules that a user names on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType


def imported(place: str) -> ModuleType:
    """Import a module by its name, looked for in the working folder too, or by its file, with that file's folder.

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


def named(key: type | str) -> str:
    return key if isinstance(key, str) else f"{key.__module__}.{key.__qualname__}"
