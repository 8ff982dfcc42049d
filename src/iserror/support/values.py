"""What a tool may return by mistake: exceptions as values, and texts that no encoding has (lone surrogates).

A value without them is recognized at the speed of C; only what isn't plain data is walked, within bounds.
"""

from __future__ import annotations

import asyncio
import copy
import marshal
import re
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Final, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

Path: TypeAlias = tuple[object, ...]
"""The indices, keys and field names that lead to a part of a value."""

MAX_CONTAINERS: Final = 1_000
"""The most containers that aren't plain data that are looked into."""

MAX_DEPTH: Final = 8
"""The most containers inside one another that are looked into."""

_LONE: Final = re.compile("[\ud800-\udfff]")
_IN_MARSHAL: Final = re.compile(b"\xed[\xa0-\xbf]")
"""A surrogate in what `marshal` writes. A number may look like one, too."""

_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)


def is_clean(value: object) -> bool:
    """Return True if a value holds no exception and no lone surrogate, as far as the bounds reach."""
    if _is_plain(value):
        return True
    waiting: list[Any] = [value]
    for part in waiting:  # which grows
        if isinstance(part, str):
            if not _encodes(part):
                return False
        elif exception_in(part) is not None:
            return False
        elif part is value or not _is_plain(part):
            parts = parts_of(part)
            kinds = set(map(type, parts)) - _NUMBERS
            if str in kinds and not _encodes("".join([text for text in parts if type(text) is str])):
                return False
            if any(issubclass(kind, BaseException) for kind in kinds):
                return False
            if kinds - {str}:
                left = MAX_CONTAINERS - len(waiting)
                others = (inner for inner in parts if type(inner) in kinds and type(inner) is not str)
                waiting += islice(filter(_is_walked, others), left)
    return True


def exchanged(value: Any, exchange: Callable[[BaseException, Path], dict[str, str]]) -> tuple[Any, bool]:
    """Return a value with other things instead of its exceptions, and U+FFFD instead of each lone surrogate.

    What holds none of them is the same object as before, and nothing is changed in place.

    Args:
        value: The value.
        exchange: Returns what stands for an exception, found on this path.

    Returns:
        The value, and whether it held a lone surrogate.
    """
    walk = _Walk(exchange)
    return walk.of(value, ()), walk.replaced


def can_be_sent(result: object) -> bool:
    """Return True if a host's result can be written as JSON."""
    try:
        to_json(result)
    except PydanticSerializationError:
        return False
    except ValueError:  # something refers to itself
        return False
    return True


def exception_in(value: object) -> BaseException | None:
    """Return an exception that is the value, or the end of a task that is; None otherwise."""
    kind = type(value)  # not isinstance(): an object may lie about its class
    if issubclass(kind, BaseException):
        return value  # type: ignore[return-value]
    if issubclass(kind, asyncio.Future) and value.done():  # type: ignore[attr-defined]
        if value.cancelled():  # type: ignore[attr-defined]
            return asyncio.CancelledError()
        found: BaseException | None = value.exception()  # type: ignore[attr-defined]
        return found
    return None


def parts_of(value: Any) -> Collection[Any]:
    """Return what a container holds: keys and values, items, the fields of a model or dataclass."""
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, _SEQUENCES):
        return value
    return fields_of(value).values()


def fields_of(value: object) -> dict[str, Any]:
    """Return the fields of a pydantic model or dataclass by name; of anything else, none."""
    kind = type(value)
    if hasattr(kind, "__pydantic_fields__"):
        return {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
    names = getattr(kind, "__dataclass_fields__", ())
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _is_plain(value: Any) -> bool:
    """Return True for plain data without a surrogate. No code of the value's own runs."""
    if type(value) is str:
        return _encodes(value)
    try:
        return _IN_MARSHAL.search(marshal.dumps(value)) is None
    except ValueError:
        return False


def _encodes(text: str) -> bool:
    return text.isascii() or _LONE.search(text) is None


def _is_walked(value: object) -> bool:
    return isinstance(value, (str, dict, *_SEQUENCES, asyncio.Future)) or bool(
        hasattr(type(value), "__pydantic_fields__") or hasattr(type(value), "__dataclass_fields__")
    )


class _Walk:
    def __init__(self, exchange: Callable[[BaseException, Path], dict[str, str]]) -> None:
        self.exchange = exchange
        self.left = MAX_CONTAINERS
        self.replaced = False

    def of(self, value: Any, path: Path) -> Any:
        if isinstance(value, str):
            if _encodes(value):
                return value
            self.replaced = True
            return _LONE.sub("\ufffd", value)
        exc = exception_in(value)
        if exc is not None:
            return self.exchange(exc, path)
        if not _is_walked(value) or _is_plain(value) or len(path) >= MAX_DEPTH or self.left <= 0:
            return value
        self.left -= 1
        if isinstance(value, dict):
            return self._of_dict(value, path)
        if isinstance(value, _SEQUENCES):
            items = [self.of(item, (*path, index)) for index, item in enumerate(value)]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return tuple(items) if isinstance(value, tuple) else items
        return self._of_object(value, path)

    def _of_dict(self, value: dict[Any, Any], path: Path) -> Any:
        changed = False
        made: dict[Any, Any] = {}
        for key, item in value.items():
            exc = exception_in(key)
            name = self.exchange(exc, path)["error"] if exc else self.of(key, path) if isinstance(key, str) else key
            new = self.of(item, (*path, name))
            changed = changed or new is not item or name is not key
            while name in made:  # two keys that differ in a surrogate alone
                name = f"{name}\ufffd"
            made[name] = new
        return made if changed else value

    def _of_object(self, value: Any, path: Path) -> Any:
        changes = {
            name: new for name, old in fields_of(value).items() if (new := self.of(old, (*path, name))) is not old
        }
        if not changes:
            return value
        if hasattr(type(value), "__pydantic_fields__") and hasattr(value, "model_copy"):
            return value.model_copy(update=changes)
        made = copy.copy(value)
        for name, new in changes.items():
            object.__setattr__(made, name, new)
        return made
