"""When an entry of a map holds, besides the class: for an HTTP status, for exceptions raised by the author's code."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from iserror.errors.answers import status_of
from iserror.support.causes import CAUSE, CONTEXT, module_of, raise_frame, text_of
from iserror.support.look import look


@dataclass(frozen=True)
class Place:
    """Code of the author's: a module or package by name, or a folder or file."""

    name: str
    """The module's full name; "" for a path."""
    path: str
    """The folder that holds the package or is it, with a separator at its end, or the module's file; "" if unknown."""

    def holds(self, frame: FrameType) -> bool:
        """Return True for a frame that runs code of this place."""
        module = module_of(frame)
        if self.name and (module == self.name or module.startswith(f"{self.name}.")):
            return True
        if not self.path:
            return False
        # A script, and what a host's `run` command imports, have another name than their file says.
        file = os.path.realpath(frame.f_code.co_filename)
        return file.startswith(self.path) if self.path.endswith(os.sep) else file == self.path


@dataclass(frozen=True)
class Condition:
    """What has to hold of an exception besides its class."""

    statuses: frozenset[int] = frozenset()
    """The HTTP statuses; empty for any exception."""
    places: tuple[Place, ...] = ()
    """Where it must have been raised; empty for anywhere."""

    def holds(self, exc: BaseException) -> bool:
        """Return True if it holds of an exception. A value that can't be read doesn't."""
        if self.statuses and status_of(exc) not in self.statuses:
            return False
        return not self.places or look(_raised_there, False, exc, self.places)

    def __str__(self) -> str:
        said = []
        if self.statuses:
            said.append(f"status {', '.join(map(str, sorted(self.statuses)))}")
        if self.places:
            said.append(f"raised in {', '.join(place.name or Path(place.path).name for place in self.places)}")
        return ", ".join(said)


def _raised_there(exc: BaseException, places: tuple[Place, ...]) -> bool:
    """Return True if a `raise` statement in one of the places wrote the exception.

    What a C function, a library or an `assert` raised there has a text that nobody wrote for a model, and so has an
    exception that the statement made of another with the same class and text.
    """
    frame = None if issubclass(type(exc), AssertionError) else raise_frame(exc)
    if frame is None or not any(place.holds(frame) for place in places):
        return False
    before = (CAUSE(exc), CONTEXT(exc))
    return not any(b is not None and type(b) is type(exc) and text_of(b) == text_of(exc) for b in before)


def places_of(
    code: str, raised_in: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], author: Mapping[str, object]
) -> tuple[Place, ...]:
    """Return the places that `raised_in=` of an entry names.

    Args:
        code: The entry's code, for messages.
        raised_in: Names of modules or packages, folders or files; one, or several.
        author: The globals of the module that adds the entry: a host's `run` command may have registered it nowhere.

    Raises:
        ValueError: If one is neither, or isn't there.
    """
    given = [raised_in] if isinstance(raised_in, (str, os.PathLike)) else list(raised_in)
    if not given:
        raise ValueError(f"raised_in of {code} names no module, package or folder: leave it out, or use __name__")
    return tuple(_place(code, one, author) for one in given)


def _place(code: str, one: object, author: Mapping[str, object]) -> Place:
    if isinstance(one, os.PathLike) or (isinstance(one, str) and (os.sep in one or "/" in one)):
        path = os.path.realpath(os.fspath(one))
        if os.path.isdir(path):
            return Place("", os.path.join(path, ""))
        if os.path.isfile(path):
            return Place("", path)
        raise ValueError(f"raised_in of {code}: there is no folder or file {str(one)!r}")
    if not isinstance(one, str) or not all(part.isidentifier() for part in one.split(".")):
        raise ValueError(
            f"raised_in of {code}: {one!r} is neither the name of a module or package, such as __name__, nor a folder"
        )
    if one == author.get("__name__"):
        file = author.get("__file__")
        path = _folder_or_file(os.path.realpath(file)) if isinstance(file, str) else ""
        return Place("" if one == "__main__" and path else one, path)
    found = look(_where, None, one)
    if found is None:
        raise ValueError(f"raised_in of {code}: there is no module or package named {one}")
    return Place(one, found)


def _where(module: str) -> str | None:
    """Return the folder of a package or the file of a module, "" if it has none, and None if it isn't there."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        places = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())]
    else:
        # Not its own spec: finding that would import the packages above it.
        top, *below = module.split(".")
        spec = importlib.util.find_spec(top)
        if spec is None:
            return None
        places = [spec.origin, *(spec.submodule_search_locations or ())]
        if below:
            inside = [os.path.join(place, *below) for place in places[1:]]
            places = [p for stem in inside for p in (os.path.join(stem, "__init__.py"), f"{stem}.py", stem)]
            places = [place for place in places if os.path.exists(place)]
            if not places:
                return None
    found = next((place for place in places if isinstance(place, str)), None)
    return "" if found is None else _folder_or_file(os.path.realpath(found))


def _folder_or_file(path: str) -> str:
    """Return what a module's file stands for: for a package's `__init__.py` the folder, with a separator at its end."""
    if os.path.isdir(path):
        return os.path.join(path, "")
    return os.path.join(os.path.dirname(path), "") if os.path.basename(path) == "__init__.py" else path
