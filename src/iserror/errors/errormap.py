"""The map from exceptions to failures: which code, which words, whether a repeat can help.

Everything that can be wrong with an entry is found when it is added, so that the first failing call is
not the first test of the map.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from weakref import WeakKeyDictionary

from iserror.errors.entry import Entry, RetryAfter, _details
from iserror.errors.pack import Pack
from iserror.errors.template import Template
from iserror.errors.vocabulary import BUILT_IN, CATEGORIES, OUTCOMES, Category, Level, Outcome, check_code
from iserror.support.loading import named
from iserror.support.look import attempt
from iserror.support.validate import check_choice

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")


class ErrorMap:
    """Say for each domain exception what the model is told: a stable code, safe words, the next step.

    Nothing is looked up by text. An entry is found by the nearest class in the exception's MRO; entries
    given by dotted name (`"httpx.TimeoutException"`) import nothing.
    """

    def __init__(self) -> None:
        self._entries: dict[type[BaseException] | str, Entry] = {}
        self._categories: dict[str, str] = dict(BUILT_IN)
        self._dotted = False
        # Weak: some libraries make exception classes as they go.
        self._found: WeakKeyDictionary[type[BaseException], Entry | None] = WeakKeyDictionary()
        self._packs: dict[str, Pack] = {}
        self._packed: WeakKeyDictionary[type[BaseException], tuple[tuple[Pack, str], ...]] = WeakKeyDictionary()

    def add(
        self,
        exception: type[Exception] | str,
        *,
        code: str,
        category: Category,
        message: str,
        hint: str | None = None,
        retryable: bool = False,
        retry_after: RetryAfter | None = None,
        outcome: Outcome | None = None,
        details: Iterable[str] | Mapping[str, str] = (),
        safe: Iterable[str] = (),
        level: Level = "warning",
    ) -> None:
        """Add the entry for one exception type.

        Args:
            exception: The class, or its dotted name.
            code: Stable code, `^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, 3 to 64 characters. On the wire and in the log.
            category: One of gRPC's canonical codes in lower case. On the wire and in the log.
            message: Template of what was observed; `{exc.attribute}` reads the exception. On the wire.
            hint: Template of the valid next step. On the wire.
            retryable: Whether repeating exactly the same call can help. The wire's `retryable` says in
                addition that a repeat is safe.
            retry_after: Seconds, a `timedelta`, or a function of the exception that returns seconds, a
                `timedelta`, a `datetime`, a `Retry-After` header value or None. A function that raises
                counts as None. On the wire when the call may be repeated.
            outcome: Whether the side effect took place; unsaid, it follows from the category.
            details: Attributes of the exception to put into `details`, by name, or key to attribute path.
            safe: Attribute paths whose values are shown as they are, neither redacted, shortened nor quoted: only
                for what the server itself chose. A value that is a `Safe` needs no mention here.
            level: The log line's level: `"warning"`, or `"error"` for what an operator has to mend.

        Raises:
            TypeError: `exception` is no exception class and no dotted name.
            ValueError: Anything else that is malformed, or an entry that is there already.
        """
        key = self._key(exception)
        names = {named(known) for known in self._entries}
        if key in self._entries or named(key) in names:
            raise ValueError(f"there is an entry for {named(key)} already: change that one, or use a map of its own")
        check_code(code)
        check_choice("category", category, CATEGORIES)
        if outcome is not None:
            check_choice("outcome", outcome, OUTCOMES)
        check_choice("level", level, frozenset({"warning", "error"}))
        self._check_meaning(code, category, self._categories)
        if not isinstance(retryable, bool):
            raise ValueError(f"retryable must be True or False, not {retryable!r}")
        if retry_after is not None and not retryable:
            raise ValueError(f"retry_after for {code} needs retryable=True: without it the wait says nothing")
        if not (retry_after is None or callable(retry_after) or isinstance(retry_after, timedelta)) and (
            isinstance(retry_after, bool) or not isinstance(retry_after, (int, float)) or not retry_after >= 0
        ):
            raise ValueError(f"retry_after {retry_after!r} is neither seconds (0 or more), a timedelta nor a function")
        entry = Entry(
            code=code,
            category=category,
            message=Template.parse(f"message of {code}", message),
            hint=None if hint is None else Template.parse(f"hint of {code}", hint),
            retryable=retryable,
            retry_after=retry_after,
            outcome=outcome,
            details=_details("details", code, details),
            safe={path for _, path in _details("safe", code, safe)},
            level=level,
        )
        shown = entry.message.paths | (entry.hint.paths if entry.hint else set())
        shown |= {path for _, path in entry.details if not callable(path)}
        if unused := sorted(".".join(path) for path in entry.safe - shown):
            raise ValueError(f"safe of {code}: neither message, hint nor details show {', '.join(unused)}")
        self._entries[key] = entry
        self._categories[code] = category
        self._dotted = self._dotted or isinstance(key, str)
        self._found.clear()

    @staticmethod
    def _key(exception: object) -> type[BaseException] | str:
        if isinstance(exception, str):
            if not _DOTTED.match(exception):
                raise TypeError(f"{exception!r} is no dotted name of an exception class, such as 'httpx.ReadTimeout'")
            return exception
        if isinstance(exception, type) and issubclass(exception, Exception):
            return exception
        what = "an instance; give its class" if isinstance(exception, BaseException) else "no exception class"
        if isinstance(exception, type) and issubclass(exception, BaseException):
            what = "not a subclass of Exception, and is never turned into a failure"
        raise TypeError(f"{exception!r} is {what}: an entry needs a subclass of Exception or its dotted name")

    @staticmethod
    def _check_meaning(code: str, category: Category, categories: Mapping[str, str]) -> None:
        known = categories.get(code)
        if known is not None and known != category:
            raise ValueError(
                f"code {code} means category {known!r} already and cannot mean {category!r} too: use another code"
            )

    def include(self, *packs: Pack) -> None:
        """Include what packs say of the exceptions of libraries; entries that were added go before it.

        Args:
            packs: Such as `iserror.packs.httpx`, or all of `iserror.packs.detect()`. Where two know a class, the first
                counts. The same one again is harmless. Nothing is imported for it.

        Raises:
            TypeError: It is no pack. None of them is included then.
            ValueError: A code of the packs' vocabulary, or of a pack of your own, has another meaning in this map, or
                another pack has its name; nor then.
        """
        included, categories = dict(self._packs), dict(self._categories)
        for pack in packs:
            if not isinstance(pack, Pack):
                raise TypeError(
                    f"{pack!r} is no pack: use iserror.packs.httpx and the like, or *iserror.packs.detect()"
                )
            if included.setdefault(pack.name, pack) != pack:
                raise ValueError(f"another pack is named {pack.name} already: give one of them another name")
            for code, category in pack.meanings().items():
                self._check_meaning(code, category, categories)
                categories[code] = category
        self._packs, self._categories = included, categories
        self._packed.clear()

    def find(self, exc: BaseException) -> Entry | None:
        """Return the entry of the nearest class in the exception's MRO, or None.

        One that was added goes before those of packs, but for a catch-all: an entry for `Exception` itself.
        """
        entry = self._entry_for(type(exc))
        if self._packs and (entry is None or entry is self._entry_for(Exception)):
            for pack, name in self._rows(type(exc)):
                packed = pack.find(name, exc)
                if packed is not None:
                    return packed
        return entry

    def knows(self, kind: type[BaseException]) -> bool:
        """Whether there is an entry for exceptions of this class, or a pack has one."""
        return self._entry_for(kind) is not None or bool(self._rows(kind))

    def _rows(self, kind: type[BaseException]) -> tuple[tuple[Pack, str], ...]:
        """What the packs say of a class and its bases, nearest first."""
        try:
            return self._packed[kind]
        except KeyError:
            names = [named(cls) for cls in kind.__mro__[:-1]]
            packs = list(self._packs.values())
            found = self._packed[kind] = tuple(
                (p, name) for name in names for p in packs if p.may_know(name) and name in p.rows
            )
            return found

    def _entry_for(self, kind: type[BaseException]) -> Entry | None:
        try:
            return self._found[kind]
        except KeyError:
            found = self._search(kind)
            # A miss may be of a name under which a library yet to be loaded exports the class.
            if found is not None or not self._dotted:
                self._found[kind] = found
            return found

    def _search(self, kind: type[BaseException]) -> Entry | None:
        aliases: dict[object, Entry] | None = None
        for cls in kind.__mro__:
            entry = self._entries.get(cls) or self._entries.get(named(cls))
            if entry is None:
                if aliases is None:
                    aliases = self._aliases()
                entry = aliases.get(cls)
            if entry is not None:
                return entry
        return None

    def _aliases(self) -> dict[object, Entry]:
        """Dotted names under which a library re-exports a class, as far as its modules are loaded."""
        found: dict[object, Entry] = {}
        for key, entry in self._entries.items():
            if isinstance(key, str):
                module, _, name = key.rpartition(".")
                value = attempt(getattr, None, sys.modules.get(module), name, None)
                if isinstance(value, type):
                    found.setdefault(value, entry)
        return found

    @property
    def packs(self) -> Mapping[str, Pack]:
        """What was included, by name; for reading."""
        return MappingProxyType(self._packs)

    @property
    def entries(self) -> Mapping[type[BaseException] | str, Entry]:
        """What was added, in that order; for reading."""
        return MappingProxyType(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<ErrorMap with {len(self._entries)} entries>"
