"""What a pack is made of: exception classes by dotted name, each with one entry, or several by a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iserror.attempt import attempt
from iserror.errormap import Entry

MAX_KEY: Final = 64


@dataclass(frozen=True)
class By:
    """The entries of one class, by a key that its exceptions carry: a status, an SQLSTATE, an error code.

    Args:
        what: The key in a word, for the tables: `status`.
        key: Reads the key; what it raises counts as no key. It is shown nowhere.
        entries: By key, or by the beginning of one: `"4"` is every status of 4xx that has no entry of its own.
        otherwise: For every other key, and none; None leaves the exception to its base class.
    """

    what: str
    key: Callable[[Any], object]
    entries: Mapping[str, Entry]
    otherwise: Entry | None = None

    def find(self, exc: BaseException) -> Entry | None:
        """The entry with the longest key that the exception's key begins with."""
        found = attempt(self.key, None, exc)
        key = "" if found is None else str.__str__(attempt(str, "", found))[:MAX_KEY]
        for end in range(len(key), 0, -1):
            entry = self.entries.get(key[:end])
            if entry is not None:
                return entry
        return self.otherwise


@dataclass(frozen=True)
class Pack:
    """What the exceptions of a library mean to whoever called a tool.

    Args:
        name: Its name in `iserror.packs`.
        sources: Addresses of the documentation that the entries follow.
        rows: Full name of the class (`__module__` and `__qualname__`) to its entry.
    """

    name: str
    sources: tuple[str, ...]
    rows: Mapping[str, Entry | By]

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

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<iserror pack {self.name}>"
