"""`Entry`: what a map says of one exception type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from iserror.errors.template import _PATH, Template, _read, shown_parts
from iserror.errors.vocabulary import Category, Level, Outcome
from iserror.redact.speech import joined
from iserror.redact.text import Safe
from iserror.support.look import attempt

RetryAfter: TypeAlias = Callable[[Any], object] | float | timedelta


@dataclass(frozen=True)
class Entry:
    """What the map says of one exception type."""

    code: str
    category: Category
    message: Template
    hint: Template | None = None
    retryable: bool = False
    retry_after: RetryAfter | None = None
    outcome: Outcome | None = None
    details: tuple[tuple[str, tuple[str, ...] | Callable[[Any], object]], ...] = ()
    """Attribute paths; of a pack also functions of the exception."""
    safe: AbstractSet[tuple[str, ...]] = frozenset()
    level: Level = "warning"
    packed: bool = False
    """Whether a pack says it, which knows the exception and not the tool."""

    def details_of(self, exc: BaseException) -> dict[str, Any]:
        """The named attributes that the exception has; lists are joined as in a template."""
        found = {key: attempt(_detail, None, exc, path, path in self.safe) for key, path in self.details}
        return {key: value for key, value in found.items() if value not in (None, "")}


def _detail(exc: BaseException, path: tuple[str, ...] | Callable[[Any], object], safe: bool) -> object:
    value = path(exc) if callable(path) else _read(exc, path)
    if isinstance(value, str) and safe:
        return Safe(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    whole = joined(shown_parts(value, safe))
    return Safe(whole) if safe else whole


def _details(
    what: str, code: str, details: Iterable[str] | Mapping[str, str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if isinstance(details, str):
        raise ValueError(f"{what} of {code} must be a list of attribute names, not the text {details!r}")
    pairs = details.items() if isinstance(details, Mapping) else [(name, name) for name in details]
    checked = []
    for key, path in pairs:
        match = _PATH.match(f"exc.{path}")
        if not isinstance(key, str) or not match or "__" in path:
            raise ValueError(f"{what} of {code}: {path!r} is no attribute path of the exception, such as 'invoice_id'")
        checked.append((key, tuple(path.split("."))))
    return tuple(checked)
