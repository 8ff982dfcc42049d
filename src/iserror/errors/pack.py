"""What a pack is made of: exception classes by dotted name, each with one entry, or several by a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from iserror.errors.entry import Entry
from iserror.errors.vocabulary import Category
from iserror.support.look import look

MAX_KEY: Final = 64


# No dataclasses: to make two of them takes as long as to load ten packs.


class By:
    """The entries of one class, by a key that its exceptions carry: a status, an SQLSTATE, an error code.

    Args:
        what: The key in a word, for the tables: `status`.
        key: Reads the key. If it raises, the exception has none. The key is never shown.
        entries: By key, or by the beginning of one: `"4"` is every status of 4xx that has no entry of its own.
        otherwise: For every other key, and none; None leaves the exception to its base class.
    """

    def __init__(
        self,
        what: str,
        key: Callable[[Any], object],
        entries: Mapping[str, Entry],
        otherwise: Entry | None = None,
    ) -> None:
        self.what = what
        self.key = key
        self.entries = entries
        self.otherwise = otherwise

    def find(self, exc: BaseException) -> Entry | None:
        """Return the entry with the longest key that the exception's key begins with."""
        found = look(self.key, None, exc)
        key = "" if found is None else str.__str__(look(str, "", found))[:MAX_KEY]
        for end in range(len(key), 0, -1):
            entry = self.entries.get(key[:end])
            if entry is not None:
                return entry
        return self.otherwise


_Data: TypeAlias = tuple[tuple[str, ...], Mapping[str, Entry | By]]


class Pack:
    """What the exceptions of a library mean to whoever called a tool.

    An entry of `not_applied` speaks of one request. Whether there was another before it is read from the failure as a
    whole (`iserror.errors.attempts`), and decides whether the entry counts as it is or as `Entry.unproven` has it.

    Args:
        name: Its name in `iserror.packs`.
        sources: Addresses of the documentation that the entries follow.
        rows: Full name of the class (`__module__` and `__qualname__`) to its entry.
    """

    def __init__(
        self,
        name: str,
        sources: tuple[str, ...],
        rows: Mapping[str, Entry | By],
    ) -> None:
        self.name = name
        self._data = sources, rows

    def _loaded(self) -> _Data:
        return self._data

    @property
    def sources(self) -> tuple[str, ...]:
        return self._loaded()[0]

    @property
    def rows(self) -> Mapping[str, Entry | By]:
        return self._loaded()[1]

    def may_know(self, name: str) -> bool:
        """Return True if there may be a row for the class of this name. The rows aren't loaded for that."""
        return True

    def meanings(self) -> Mapping[str, Category]:
        """Return its codes with the category of each."""
        return {entry.code: entry.category for _, _, entry in self.entries()}

    def find(self, name: str, exc: BaseException) -> Entry | None:
        """Return the entry of an exception, by the row of one of its classes."""
        row = self.rows[name]
        return row if isinstance(row, Entry) else row.find(exc)

    def entries(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield each entry with its exception and, of several, when it holds: `status 429`, `any other`."""
        for exception, row in self.rows.items():
            if isinstance(row, Entry):
                yield exception, "", row
                continue
            for key, entry in row.entries.items():
                yield exception, f"{row.what} {key}", entry
            if row.otherwise is not None:
                yield exception, "any other", row.otherwise

    def __repr__(self) -> str:
        return f"<iserror pack {self.name}>"
