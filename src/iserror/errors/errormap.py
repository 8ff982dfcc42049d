"""The map from exceptions to failures: which code, which words, whether a retry can help.

Whatever can be wrong with an entry is found when it is added: the first failing call isn't the first test of the map.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from weakref import WeakKeyDictionary

from iserror.errors.entry import Entry, RetryAfter, named_paths
from iserror.errors.pack import Pack
from iserror.errors.template import Template
from iserror.errors.vocabulary import BUILT_IN, CATEGORIES, OUTCOMES, Category, Level, Outcome, check_code
from iserror.support.loading import full_name, is_library, mro_of
from iserror.support.look import look
from iserror.support.validate import check_choice

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")


class ErrorMap:
    """Say for each domain exception what the model reads: a stable code, safe words, the next step.

    An entry is found by the nearest class in the exception's MRO, never by text. Entries given by dotted name
    (`"httpx.TimeoutException"`) import nothing.
    """

    def __init__(self) -> None:
        self._entries: dict[type[BaseException] | str, Entry] = {}
        self._categories: dict[str, str] = dict(BUILT_IN)
        self._dotted = False
        # Who makes the map: a server may be an installed package itself.
        self._author = str(sys._getframe(1).f_globals.get("__name__", ""))
        # Weak: some libraries make exception classes at run time.
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
            retryable: Whether an equal call can succeed (default: False). The wire's `retryable` says in addition
                that a retry is safe.
            retry_after: Seconds, a `timedelta`, or a function of the exception that returns seconds, a `timedelta`,
                a `datetime`, a `Retry-After` header value or None. A function that raises counts as None. On the
                wire if the call may be repeated.
            outcome: Whether the side effect took place. If omitted, the category says it for your own exception
                class: `not_found` and the like mean that nothing was applied. For a class of a library it is
                `unknown`.
            details: Attributes of the exception to put into `details`, by name, or key to attribute path.
            safe: Attribute paths whose values are shown as they are, neither redacted, shortened nor quoted. Use it
                only for values that the server itself chose. A `Safe` value doesn't have to be listed.
            level: The log line's level: `"warning"` (default), or `"error"` for failures that an operator has to fix.

        Raises:
            TypeError: If `exception` is neither an exception class nor a dotted name.
            ValueError: If anything else is malformed, or if the exception already has an entry.
        """
        key = self._key(exception)
        names = {full_name(known) for known in self._entries}
        if key in self._entries or full_name(key) in names:
            raise ValueError(f"{full_name(key)} already has an entry: edit it or use a second ErrorMap")
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
            details=named_paths("details", code, details),
            safe={path for _, path in named_paths("safe", code, safe)},
            level=level,
            own=not is_library(full_name(key).rpartition(".")[0], self._author),
        )
        if unused := sorted(".".join(path) for path in entry.safe - entry.paths):
            raise ValueError(f"safe of {code}: neither message, hint nor details show {', '.join(unused)}")
        self._entries[key] = entry
        self._categories[code] = category
        self._dotted = self._dotted or isinstance(key, str)
        self._found.clear()

    @staticmethod
    def _key(exception: object) -> type[BaseException] | str:
        if isinstance(exception, str):
            if not _DOTTED.match(exception):
                raise TypeError(f"{exception!r} isn't a dotted name of an exception class, such as 'httpx.ReadTimeout'")
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
        """Add what packs say of the exceptions of libraries. Entries that you add go before them.

        Args:
            packs: For example `iserror.packs.httpx`, or all of `iserror.packs.detect()`. If two packs know a class,
                the first counts. A pack may be included twice. No library is imported for it.

        Raises:
            TypeError: If an argument isn't a pack. No pack is added.
            ValueError: If a code of a pack has another meaning in this map, or if another pack has its name. No pack
                is added.
        """
        included, categories = dict(self._packs), dict(self._categories)
        for pack in packs:
            if not isinstance(pack, Pack):
                raise TypeError(
                    f"{pack!r} isn't a pack: use iserror.packs.httpx and the like, or *iserror.packs.detect()"
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

        An added entry goes before those of packs, except a catch-all: an entry for `Exception` itself.
        """
        kind = type(exc)
        if look(hash, None, kind) is None:  # a metaclass with `__eq__` alone: no table can hold the class
            return None
        entry = self._entry_for(kind)
        if self._packs and (entry is None or entry is self._entry_for(Exception)):
            for pack, name in self._rows(kind):
                packed = pack.find(name, exc)
                if packed is not None:
                    return packed
        return entry

    def knows(self, kind: type[BaseException]) -> bool:
        """Return True if exceptions of this class have an entry, here or in a pack."""
        return self._entry_for(kind) is not None or bool(self._rows(kind))

    def _rows(self, kind: type[BaseException]) -> tuple[tuple[Pack, str], ...]:
        """Return the packs that know a class or a base of it, each with that name, nearest first."""
        try:
            return self._packed[kind]
        except KeyError:
            names = [full_name(cls) for cls in mro_of(kind)[:-1]]
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
            # After a miss, a library that is loaded later may export the class under a dotted name of an entry.
            if found is not None or not self._dotted:
                self._found[kind] = found
            return found

    def _search(self, kind: type[BaseException]) -> Entry | None:
        aliases: dict[object, Entry] | None = None
        for cls in mro_of(kind):
            entry = self._entries.get(cls) or self._entries.get(full_name(cls))
            if entry is None:
                if aliases is None:
                    aliases = self._aliases()
                entry = aliases.get(cls)
            if entry is not None:
                return entry
        return None

    def _aliases(self) -> dict[object, Entry]:
        """Return the entries by classes that a loaded library re-exports under the dotted name of an entry."""
        found: dict[object, Entry] = {}
        for key, entry in self._entries.items():
            if isinstance(key, str):
                module, _, name = key.rpartition(".")
                value = look(getattr, None, sys.modules.get(module), name, None)
                if isinstance(value, type):
                    found.setdefault(value, entry)
        return found

    @property
    def packs(self) -> Mapping[str, Pack]:
        """The included packs by name, read-only."""
        return MappingProxyType(self._packs)

    @property
    def entries(self) -> Mapping[type[BaseException] | str, Entry]:
        """The added entries in order, read-only."""
        return MappingProxyType(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<ErrorMap with {len(self._entries)} entries>"
