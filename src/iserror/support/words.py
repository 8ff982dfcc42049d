"""The texts that the exceptions behind an exception hold, read within bounds and without running more than needed."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from iserror.support.causes import ARGS, CAUSE, CONTEXT, MAX_CHAIN, Group, members, text_of
from iserror.support.look import look

MAX_VALUES: Final = 2_000
"""The most values that are looked at, in all."""

MAX_ITEMS: Final = 200
"""The most items of one container: half of them at its end."""

MAX_READ: Final = 300_000
"""The most characters that are read, in all."""

MAX_TEXT: Final = 100_000
"""The most characters of one text: half of them at its end."""

MAX_DEPTH: Final = 10
"""How deep values may be inside others."""

MAX_OBJECTS: Final = 3
"""How deep objects that aren't containers may be inside others: an error has a response, which has a body."""

MAX_PROPERTIES: Final = 20
"""The most properties of one exception that are called."""

MAX_CALLS: Final = 100
"""The most properties, and exceptions inside of values, whose code is run, in all."""

_LEAST: Final = 4
"""A text of fewer characters says nothing."""

_SHORT: Final = 40
"""Items of a container with fewer characters are read together, too."""

_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
_NO_VALUES: Final = frozenset(
    {"__cause__", "__context__", "__traceback__", "__suppress_context__", "__dict__", "__weakref__", "args"}
)
_NOT_LOOKED_INTO: Final = (
    type,
    int,
    float,
    complex,
    type(None),
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.CodeType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
)


def texts_behind(exc: BaseException, own: Collection[int] = ()) -> list[str]:
    """Return the texts in the exceptions behind this one: causes, contexts (suppressed ones too), leaves of groups.

    Their words, arguments, notes, attributes, slots and properties count, and what containers and objects inside these
    hold. What is nearer to an exception comes first. Iterators aren't read: they may have no end. No code of foreign
    objects runs, except the properties of an exception.

    Args:
        exc: The exception; its own values don't count.
        own: Ids of exceptions behind it whose values don't count either.
    """
    return _Walk().texts(exc, own)


class _Walk:
    """One walk through values, breadth first, with what is left of its bounds."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Any, int, int]] = deque()
        self.found: dict[str, None] = {}
        self.seen: set[int] = set()
        self.kept: list[Any] = []  # while an id is remembered, no other object may get it
        self.left = MAX_READ
        self.calls = MAX_CALLS

    def texts(self, exc: BaseException, own: Collection[int]) -> list[str]:
        links, self.seen = deque((CAUSE(exc), CONTEXT(exc))), {id(exc)}
        count = 0
        while links and count < MAX_CHAIN:
            link = links.popleft()
            if link is None or id(link) in self.seen:
                continue
            count += 1
            links += (CAUSE(link), CONTEXT(link), *(members(link)[:MAX_CHAIN] if isinstance(link, Group) else ()))
            if id(link) in own:
                self.seen.add(id(link))
            else:
                self._exception(link, 0, 0)
        for _ in range(MAX_VALUES):
            if not self.waiting or self.left <= 0:
                break
            value, depth, objects = self.waiting.popleft()
            look(self._value, None, value, depth, objects)
        return list(self.found)

    def _exception(self, link: BaseException, depth: int, objects: int) -> None:
        self.seen.add(id(link))
        self.kept.append(link)
        self._text(text_of(link))
        self._later((ARGS(link), *_stored(link), *self._properties(link)), depth, objects)

    def _value(self, value: Any, depth: int, objects: int) -> None:
        kind = type(value)  # an object may lie about its class
        if issubclass(kind, str):
            self._text(str.__str__(value))
        elif issubclass(kind, (bytes, bytearray)):
            self._text(_ends(bytes(value) if len(value) <= MAX_TEXT else value).decode(errors="replace"))
        elif issubclass(kind, _NOT_LOOKED_INTO) or depth >= MAX_DEPTH or id(value) in self.seen:
            return
        elif issubclass(kind, BaseException):
            if objects < MAX_OBJECTS and self.calls > 0:
                self.calls -= 1
                self._exception(value, depth + 1, objects + 1)
        else:
            self.seen.add(id(value))
            self.kept.append(value)
            items = _items(value, kind)
            if items is not None:
                self._later(items, depth + 1, objects)
                # An author may join what says nothing alone.
                self._text(" ".join(str.__str__(i) for i in items if issubclass(type(i), str) and len(i) < _SHORT))
            if objects < MAX_OBJECTS:
                self._later(_stored(value), depth + 1, objects + 1)

    def _later(self, values: Iterable[Any], depth: int, objects: int) -> None:
        room = MAX_VALUES - len(self.waiting)
        self.waiting += [(value, depth, objects) for value in islice(values, max(room, 0))]

    def _text(self, text: str) -> None:
        if len(text) < _LEAST or self.left <= 0:
            return
        text = _ends(text)
        if text not in self.found:
            self.found[text] = None
            self.left -= len(text)

    def _properties(self, exc: BaseException) -> Iterator[Any]:
        """Yield the values of an exception's properties."""
        names: set[str] = set()
        for cls in type.mro(type(exc)):
            for name, value in list(vars(cls).items()):
                if type(value) is not property or name in names:
                    continue
                names.add(name)
                if self.calls <= 0 or len(names) > MAX_PROPERTIES:
                    return
                self.calls -= 1
                yield look(property.__get__, None, value, exc, type(exc))


def _ends(text: Any) -> Any:
    """Return a text, or the two ends of a long one."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + text[-MAX_TEXT // 2 :]


def _stored(value: Any) -> Iterator[Any]:
    """Yield what an object holds, in its `__dict__` and slots, without running code of its class."""
    for cls in type.mro(type(value)):
        for name, member in list(vars(cls).items()):
            if type(member) not in _SLOTS:
                continue
            if name == "__dict__":
                yield from look(_both_ends, [], member.__get__(value))
            elif name not in _NO_VALUES and not name.startswith("__"):
                yield look(member.__get__, None, value)


def _items(value: Any, kind: type) -> list[Any] | None:
    """Return the items of a container, keys of a dict included; None for anything else."""
    if issubclass(kind, (dict, types.MappingProxyType)):
        return _both_ends(value)
    if issubclass(kind, (list, tuple)):
        base = list if issubclass(kind, list) else tuple
        half = MAX_ITEMS // 2
        if base.__len__(value) <= MAX_ITEMS:
            return list(base.__iter__(value))
        return [*base.__getitem__(value, slice(None, half)), *base.__getitem__(value, slice(-half, None))]
    if kind in _VIEWS:
        return list(islice(value, MAX_ITEMS))
    iterate: Any = next((base.__iter__ for base in _UNORDERED if issubclass(kind, base)), None)
    return None if iterate is None else list(islice(iterate(value), MAX_ITEMS))


_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_UNORDERED: Final[tuple[Any, ...]] = (set, frozenset, deque)


def _both_ends(held: Any) -> list[Any]:
    """Return the keys and values of a dict, those at its ends if it is large."""
    if isinstance(held, dict):
        items, count = dict.items(held), dict.__len__(held)
    else:
        items, count = held.items(), len(held)
    half = MAX_ITEMS // 2
    pairs = list(items) if count <= MAX_ITEMS else [*islice(items, half), *islice(reversed(items), half)]
    return [part for key, value in pairs for part in (key, value)]
