"""`Entry`: what a map declares for one exception type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Any, TypeAlias, cast

from iserror.errors.conditions import Condition
from iserror.errors.foreign import in_quotes
from iserror.errors.ownwords import OwnWords
from iserror.errors.template import Path, Template, detail_of, path_of, read
from iserror.errors.verdict import Basis, declared_by
from iserror.errors.vocabulary import CATEGORIES, Category, Level, Outcome
from iserror.errors.wait import parse_retry_after
from iserror.support.look import look

RetryAfter: TypeAlias = Callable[[Any], object] | float | timedelta


@dataclass(frozen=True)
class From:
    """Read a code, category or hint from the exception: `errors.add(..., category=From("kind", "internal"))`.

    Args:
        source: An attribute path of the exception, such as `"error.type"`, or a function of the exception. If reading
            it raises, the default counts.
        default: The value where the exception has none, or none that is allowed.

    Raises:
        ValueError: If the source is neither.
    """

    source: str | Callable[[Any], object]
    default: str

    def __post_init__(self) -> None:
        if not callable(self.source) and not (isinstance(self.source, str) and path_of(f"exc.{self.source}")):
            raise ValueError(f"{self.source!r} is neither an attribute path of the exception nor a function of it")
        if not isinstance(self.default, str):
            raise ValueError(f"the default of From({self.source!r}) must be a text, not {self.default!r}")

    def of(self, exc: BaseException) -> str:
        """Return what the exception says, as a text; "" if nothing."""
        if callable(self.source):
            found = look(self.source, None, exc)
        else:
            found = look(read, None, exc, tuple(self.source.split(".")))
        found = found.value if isinstance(found, Enum) else found
        return str.__str__(found).strip() if isinstance(found, str) else ""


@dataclass(frozen=True)
class Entry:
    """What the map declares for one exception type."""

    code: str
    category: Category
    message: Template | OwnWords
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
    when: Condition | None = None
    """What has to hold besides the class."""
    catch_all: bool = False
    """Whether it is for `Exception` itself, too far away to speak for what packs or an author's words say."""
    keep_text: bool | None = None
    """Whether the text of a host's `ToolError` around the exception stays; None if it says something itself."""
    instead_of: str | None = None
    """The code of the packs in whose place it stands."""
    code_from: From | None = None
    codes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The codes that may be read, by the values that mean them."""
    category_from: From | None = None
    hint_from: From | None = None

    def unproven(self) -> Entry:
        """Return a pack's entry for a failure of unknown outcome: outcome and words together."""
        return replace(self, outcome="unknown", message=self.claimless or self.message, hint=self.next_step)

    def holds(self, exc: BaseException) -> bool:
        """Return True if the entry's conditions hold of an exception of its class."""
        return self.when is None or self.when.holds(exc)

    @property
    def all_codes(self) -> tuple[str, ...]:
        """Every code that it can give, its default first."""
        return tuple(dict.fromkeys((self.code, *self.codes.values())))

    def code_of(self, exc: BaseException) -> str:
        """Return the code for an exception."""
        return self.code if self.code_from is None else self.codes.get(self.code_from.of(exc), self.code)

    def category_of(self, exc: BaseException) -> Category:
        """Return the category for an exception."""
        found = "" if self.category_from is None else self.category_from.of(exc).lower()
        return cast("Category", found) if found in CATEGORIES else self.category

    def message_of(self, exc: BaseException, missing: list[Path], own: Collection[int] = ()) -> str:
        """Return the message for an exception, values and foreign words in quotes.

        Args:
            exc: The exception.
            missing: Gets the attribute paths without a value.
            own: Ids of exceptions behind it for which this entry holds, too.
        """
        if isinstance(self.message, OwnWords):
            return self.message.render(exc, own) if self.instead_of is None else self.message.foreign(exc)
        return self.message.render(exc, self.safe, missing)

    def hint_of(self, exc: BaseException, missing: list[Path]) -> str | None:
        """Return the hint for an exception; None if there is none."""
        found = "" if self.hint_from is None else self.hint_from.of(exc)
        if found:
            return in_quotes(found, exc)
        return None if self.hint is None else self.hint.render(exc, self.safe, missing)

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
        return {*self.message.paths, *hint, *(path for _, path in self.details if not callable(path))}

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
        found = path_of(f"exc.{path}")
        if not isinstance(key, str) or found is None:
            raise ValueError(
                f"{what} of {code}: {path!r} isn't an attribute path of the exception, such as 'invoice_id'"
            )
        checked.append((key, found))
    return tuple(checked)
