"""The map from exceptions to failures: which code, which words, whether a retry can help.

Whatever can be wrong with an entry is found when it is added: the first failing call isn't the first test of the map.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import cast
from weakref import WeakKeyDictionary

from iserror.errors.answers import carries_status
from iserror.errors.declared import Places, declared
from iserror.errors.entry import Entry, From, RetryAfter
from iserror.errors.ownwords import OwnWords
from iserror.errors.pack import Pack
from iserror.errors.vocabulary import BUILT_IN, Category, Level, Outcome, check_code
from iserror.support.loading import full_name, is_library, mro_of
from iserror.support.look import look

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")


class ErrorMap:
    """Say for each domain exception what the model reads: a stable code, safe words, the next step.

    An entry is found by the nearest class in the exception's MRO, never by text. Entries given by dotted name
    (`"httpx.TimeoutException"`) import nothing.
    """

    def __init__(self) -> None:
        self._entries: dict[type[BaseException] | str, list[Entry]] = {}
        self._by_status: list[Entry] = []
        self._instead: dict[str, Entry] = {}
        self._categories: dict[str, str] = dict(BUILT_IN)
        self._dotted = False
        # Who makes the map: a server may be an installed package itself.
        self._author = str(sys._getframe(1).f_globals.get("__name__", ""))
        # Weak: some libraries make exception classes at run time.
        self._found: WeakKeyDictionary[type[BaseException], tuple[Entry, ...]] = WeakKeyDictionary()
        self._packs: dict[str, Pack] = {}
        self._packed: WeakKeyDictionary[type[BaseException], tuple[tuple[Pack, str], ...]] = WeakKeyDictionary()

    def add(
        self,
        exception: type[Exception] | str | None = None,
        *,
        code: str | From,
        category: Category | From,
        message: str | OwnWords,
        hint: str | From | None = None,
        retryable: bool = False,
        retry_after: RetryAfter | None = None,
        outcome: Outcome | None = None,
        details: Iterable[str] | Mapping[str, str] = (),
        safe: Iterable[str] = (),
        level: Level = "warning",
        status: int | Iterable[int] | None = None,
        raised_in: Places | None = None,
        instead_of: str | None = None,
        codes: Iterable[str] | Mapping[str, str] = (),
        keep_text: bool | None = None,
    ) -> None:
        """Add the entry for one exception type, for HTTP statuses, or for one code of the packs.

        A class may have several entries, each with a condition (`status`, `raised_in`) of its own. An entry whose
        condition fails is skipped, and the look-up goes on.

        Args:
            exception: The class, or its dotted name. Without it, `status` or `instead_of` says what the entry is for.
            code: Stable code, `^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, 3 to 64 characters. On the wire and in the log. With
                `From("error_type", "API_ERROR")` the exception says it, out of `codes`; else the default counts.
            category: One of gRPC's canonical codes in lower case. On the wire and in the log. With
                `From("category", "internal")` the exception says it; any other word gives the default.
            message: Template of what was observed. `{exc.attribute}` reads the exception, `{exc.args.0}` an item,
                `{body.detail}` the JSON body of an upstream's 4xx. Each value stands in quotes. Or `OwnWords()`: the
                exception's own text. On the wire.
            hint: Template of the valid next step. On the wire. With `From("hint", "")` the exception says it.
            retryable: Whether an equal call can succeed (default: False). The wire's `retryable` says in addition
                that a retry is safe.
            retry_after: Seconds, a `timedelta`, or a function of the exception that returns seconds, a `timedelta`,
                a `datetime`, a `Retry-After` header value or None. A function that raises counts as None. On the
                wire if the call may be repeated.
            outcome: Whether the side effect took place. If omitted, the category says it for your own exception
                class: `not_found` and the like mean that nothing was applied. For a class of a library the map's
                packs say it, as far as they know; otherwise it is `unknown`.
            details: Attributes of the exception to put into `details`, by name, or key to attribute path.
            safe: Attribute paths whose values are shown as they are, neither redacted, shortened nor quoted. Use it
                only for values that the server itself chose. A `Safe` value doesn't have to be listed.
            level: The log line's level: `"warning"` (default), or `"error"` for failures that an operator has to fix.
            status: One HTTP status or several, 100 to 599, that the exception has to carry as `status_code`,
                `response.status_code`, `status` or `code`. Without a class it is for the exceptions of HTTP clients
                and web frameworks (`docs/how-to/map-exceptions.md` lists them).
            raised_in: Names of modules or packages (`__name__`), or folders. A `raise` statement there must have
                written the exception. So what Python or a library raises of the same class stays a crash.
            instead_of: The code of the packs in whose place this entry stands, such as `"QUERY_INVALID"`.
            codes: The codes that `code=From(...)` can give, or a mapping of the exception's values to codes.
            keep_text: Whether the text of a host's `ToolError` around the exception is the message. By default it
                is if it says three words or more besides the exception's own.

        Raises:
            TypeError: If `exception` is neither an exception class nor a dotted name.
            ValueError: If anything else is malformed, or if the exception already has such an entry.
        """
        key = None if exception is None else self._key(exception)
        if key is None and status is None and instead_of is None:
            raise TypeError("an entry needs a subclass of Exception or its dotted name, or else status= or instead_of=")
        if instead_of is not None:
            self._check_instead(instead_of, key, status, raised_in)
        entry = declared(
            code=code,
            category=category,
            message=message,
            hint=hint,
            retryable=retryable,
            retry_after=retry_after,
            outcome=outcome,
            details=details,
            safe=safe,
            level=level,
            status=status,
            raised_in=raised_in,
            instead_of=instead_of,
            codes=codes,
            keep_text=keep_text,
            own=key is not None and not is_library(full_name(key).rpartition(".")[0], self._author),
            catch_all=key is not None and full_name(key) == "builtins.Exception",
            author=sys._getframe(1).f_globals,
        )
        for each in entry.all_codes:
            self._check_meaning(each, entry.category, self._categories)
        self._store(key, entry)
        self._categories.update(dict.fromkeys(entry.all_codes, entry.category))
        self._dotted = self._dotted or isinstance(key, str)
        self._found.clear()

    def _store(self, key: type[BaseException] | str | None, entry: Entry) -> None:
        if entry.instead_of is not None:
            if entry.instead_of in self._instead:
                raise ValueError(f"{entry.instead_of} already has an entry in its place: edit that one")
            self._instead[entry.instead_of] = entry
            return
        if key is None:
            beside, what = self._by_status, f"an exception with {entry.when}"
        else:
            same = [known for known in self._entries if full_name(known) == full_name(key)]
            beside, what = self._entries.setdefault(same[0] if same else key, []), full_name(key)
        if any(known.when == entry.when for known in beside):
            raise ValueError(f"{what} already has an entry: edit it or use a second ErrorMap")
        # Conditions first: what holds for every exception of the class ends the look-up.
        beside.insert(sum(known.when is not None for known in beside) if entry.when is not None else len(beside), entry)

    @staticmethod
    def _check_instead(code: object, key: object, status: object, raised_in: object) -> None:
        if key is not None or status is not None or raised_in is not None:
            raise ValueError("instead_of= stands alone: the packs say which exceptions have that code")
        check_code(cast("str", code))

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
        """Return the entry of an exception, or None.

        That is the one of the nearest class in its MRO whose condition holds, then one for its status alone, then that
        of a pack, and last a catch-all: an entry for `Exception` itself.
        """
        kind = type(exc)
        if look(hash, None, kind) is None:  # a metaclass with `__eq__` alone: no table can hold the class
            return None
        nearest = next((entry for entry in self._entries_for(kind) if entry.holds(exc)), None)
        if nearest is not None and not nearest.catch_all:
            return nearest
        if self._by_status and carries_status(kind):
            for entry in self._by_status:
                if entry.holds(exc):
                    return entry
        packed = self.packed(exc)
        return nearest if packed is None else self._instead.get(packed.code, packed)

    def packed(self, exc: BaseException) -> Entry | None:
        """Return what a pack of the map says of an exception, or None."""
        for pack, name in self._rows(type(exc)) if self._packs else ():
            packed = pack.find(name, exc)
            if packed is not None:
                return packed
        return None

    def knows(self, kind: type[BaseException]) -> bool:
        """Return True if exceptions of this class have an entry, here or in a pack, whatever its condition."""
        return bool(self._entries_for(kind) or self._rows(kind) or (self._by_status and carries_status(kind)))

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

    def _entries_for(self, kind: type[BaseException]) -> tuple[Entry, ...]:
        """Return the entries for a class and its bases, nearest first."""
        try:
            return self._found[kind]
        except KeyError:
            found = tuple(self._search(kind))
            # After a miss, a library that is loaded later may export the class under a dotted name of an entry.
            if found or not self._dotted:
                self._found[kind] = found
            return found

    def _search(self, kind: type[BaseException]) -> Iterator[Entry]:
        if not self._entries:
            return
        aliases = self._aliases() if self._dotted else {}
        for cls in mro_of(kind):
            yield from self._entries.get(cls) or self._entries.get(full_name(cls)) or aliases.get(cls) or ()

    def _aliases(self) -> dict[object, list[Entry]]:
        """Return the entries by classes that a loaded library re-exports under the dotted name of an entry."""
        found: dict[object, list[Entry]] = {}
        for key, entries in self._entries.items():
            if isinstance(key, str):
                module, _, name = key.rpartition(".")
                value = look(getattr, None, sys.modules.get(module), name, None)
                if isinstance(value, type):
                    found.setdefault(value, entries)
        return found

    @property
    def packs(self) -> Mapping[str, Pack]:
        """The included packs by name, read-only."""
        return MappingProxyType(self._packs)

    @property
    def entries(self) -> tuple[tuple[type[BaseException] | str, Entry], ...]:
        """The added entries that are for a class, each with that class or its name."""
        return tuple((key, entry) for key, entries in self._entries.items() for entry in entries)

    @property
    def general(self) -> tuple[tuple[str, Entry], ...]:
        """The added entries that are for no class, each with what it is for, in words."""
        by_status = [("an HTTP exception", entry) for entry in self._by_status]
        return (*by_status, *((f"what packs call {code}", entry) for code, entry in self._instead.items()))

    def __len__(self) -> int:
        return len(self.entries) + len(self.general)

    def __repr__(self) -> str:
        return f"<ErrorMap with {len(self)} entries>"
