"""`Entry`: what a map declares for one exception type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias

from iserror.errors.template import PATH, Path, Template, detail_of, read
from iserror.errors.verdict import Basis, declared_by
from iserror.errors.vocabulary import Category, Level, Outcome
from iserror.errors.wait import parse_retry_after
from iserror.support.look import look

RetryAfter: TypeAlias = Callable[[Any], object] | float | timedelta


@dataclass(frozen=True)
class Entry:
    """What the map declares for one exception type."""

    code: str
    category: Category
    message: Template
    hint: Template | None = None
    retryable: bool = False
    retry_after: RetryAfter | None = None
    outcome: Outcome | None = None
    details: tuple[tuple[str, Path | Callable[[Any], object]], ...] = ()
    """Keys with attribute paths; those of a pack also with functions of the exception."""
    safe: AbstractSet[Path] = frozenset()
    level: Level = "warning"
    packed: bool = False
    """Whether it comes from a pack, which knows the exception and not the tool."""
    claimless: Template | None = None
    """The message where the outcome is unknown, if the other one says that nothing was done."""
    next_step: Template | None = None
    """The hint where the outcome is unknown."""
    own: bool = False
    """Whether its exception is the author's own, so that the category says what the tool had done."""

    def unproven(self) -> Entry:
        """Return a pack's entry for a failure of unknown outcome: outcome and words together."""
        return replace(self, outcome="unknown", message=self.claimless or self.message, hint=self.next_step)

    @property
    def basis(self) -> Basis:
        """Who says the outcome."""
        if self.packed:
            return "pack"
        if self.outcome is not None:
            return "entry"
        return "category" if self.own else "none"

    @property
    def claim(self) -> Outcome:
        """The outcome that the entry gives a failure of a tool of which nothing else is known."""
        if self.outcome is not None:
            return self.outcome
        return declared_by(self.category) if self.packed or self.own else "unknown"

    @property
    def paths(self) -> set[Path]:
        """The attributes that its templates and details read."""
        hint = self.hint.paths if self.hint is not None else set()
        return self.message.paths | hint | {path for _, path in self.details if not callable(path)}

    def details_of(self, exc: BaseException) -> dict[str, Any]:
        """Return the named values that the exception has; lists are joined as in a template."""
        found = {}
        for key, source in self.details:
            if callable(source):
                value, safe = look(source, None, exc), False
            else:
                value, safe = look(read, None, exc, source), source in self.safe
            found[key] = detail_of(value, safe)
        return {key: value for key, value in found.items() if value is not None and value != ""}

    def wait_of(self, exc: BaseException) -> float | None:
        """Return the seconds to wait before a retry; None if the entry or the exception doesn't tell."""
        wait = self.retry_after
        return look(parse_retry_after, None, look(wait, None, exc) if callable(wait) else wait)


def named_paths(what: str, code: str, names: Iterable[str] | Mapping[str, str]) -> tuple[tuple[str, Path], ...]:
    """Return the pairs of key and attribute path that `details=` or `safe=` of an entry names.

    Args:
        what: The argument's name, for messages.
        code: The entry's code, for messages.
        names: Attribute names, or keys with attribute paths.

    Raises:
        ValueError: If one of them isn't an attribute path.
    """
    if isinstance(names, str):
        raise ValueError(f"{what} of {code} must be a list of attribute names, not the text {names!r}")
    pairs = names.items() if isinstance(names, Mapping) else [(name, name) for name in names]
    checked = []
    for key, path in pairs:
        match = PATH.match(f"exc.{path}")
        if not isinstance(key, str) or not match or "__" in path:
            raise ValueError(
                f"{what} of {code}: {path!r} isn't an attribute path of the exception, such as 'invoice_id'"
            )
        checked.append((key, tuple(path.split("."))))
    return tuple(checked)
