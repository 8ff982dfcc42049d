"""An entry as an author declares it: whatever can be wrong with it is found here, before a call fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from os import PathLike
from typing import Any, TypeAlias, cast

from iserror.errors.conditions import Condition, places_of
from iserror.errors.entry import Entry, From, RetryAfter, named_paths
from iserror.errors.ownwords import OwnWords
from iserror.errors.template import Template
from iserror.errors.vocabulary import CATEGORIES, OUTCOMES, Category, check_code
from iserror.support.validate import check_choice

Places: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]
"""Names of modules or packages, or folders."""


def declared(
    *,
    code: str | From,
    category: Category | From,
    message: str | OwnWords,
    hint: str | From | None,
    retryable: bool,
    retry_after: RetryAfter | None,
    details: Iterable[str] | Mapping[str, str],
    safe: Iterable[str],
    codes: Iterable[str] | Mapping[str, str],
    status: int | Iterable[int] | None,
    raised_in: Places | None,
    keep_text: bool | None,
    author: Mapping[str, object],
    **more: Any,
) -> Entry:
    """Return the entry of these arguments of `ErrorMap.add`.

    Args:
        author: The globals of the module that adds it.
        more: Further fields of the entry.

    Raises:
        ValueError: If something is malformed. The message names it.
    """
    code_from, code = (code, code.default) if isinstance(code, From) else (None, code)
    category_from, category = (
        (category, cast("Category", category.default)) if isinstance(category, From) else (None, category)
    )
    hint_from, hint = (hint, hint.default or None) if isinstance(hint, From) else (None, hint)
    check_code(code)
    check_choice("category", category, CATEGORIES)
    if more["outcome"] is not None:
        check_choice("outcome", more["outcome"], OUTCOMES)
    check_choice("level", more["level"], frozenset({"warning", "error"}))
    if not isinstance(retryable, bool):
        raise ValueError(f"retryable must be True or False, not {retryable!r}")
    if keep_text not in (None, True, False):
        raise ValueError(f"keep_text of {code} must be True, False or None, not {keep_text!r}")
    _check_wait(code, retryable, retry_after)
    if isinstance(message, OwnWords):
        words: Template | OwnWords = message
        if not (more["own"] or raised_in is not None or more["instead_of"]):
            raise ValueError(
                f"message of {code}: OwnWords() on a class that isn't your own needs raised_in=__name__ (or the name "
                "of your package): libraries raise it, too, and did not write its text for a model"
            )
    else:
        words = Template.parse(f"message of {code}", message)
    conditions = Condition(_statuses(code, status), () if raised_in is None else places_of(code, raised_in, author))
    entry = Entry(
        code=code,
        category=category,
        message=words,
        hint=None if hint is None else Template.parse(f"hint of {code}", hint),
        retryable=retryable,
        retry_after=retry_after,
        details=named_paths("details", code, details),
        safe={path for _, path in named_paths("safe", code, safe)},
        when=conditions if conditions != Condition() else None,
        keep_text=keep_text,
        code_from=code_from,
        codes=_codes(code, code_from, codes),
        category_from=category_from,
        hint_from=hint_from,
        **more,
    )
    if unused := sorted(".".join(path) for path in entry.safe - entry.paths):
        raise ValueError(f"safe of {code}: neither message, hint nor details show {', '.join(unused)}")
    return entry


def _check_wait(code: str, retryable: bool, retry_after: RetryAfter | None) -> None:
    if retry_after is not None and not retryable:
        raise ValueError(f"retry_after for {code} needs retryable=True: without it the wait says nothing")
    if not (retry_after is None or callable(retry_after) or isinstance(retry_after, timedelta)) and (
        isinstance(retry_after, bool) or not isinstance(retry_after, (int, float)) or not retry_after >= 0
    ):
        raise ValueError(f"retry_after {retry_after!r} is neither seconds (0 or more), a timedelta nor a function")


def _statuses(code: str, status: int | Iterable[int] | None) -> frozenset[int]:
    if status is None:
        return frozenset()
    given = [status] if isinstance(status, int) else status if isinstance(status, Iterable) else [None]
    found = frozenset(given)
    if not found or any(type(one) is bool or not isinstance(one, int) or not 100 <= one <= 599 for one in found):
        raise ValueError(f"status of {code}: {status!r} is neither an HTTP status, 100 to 599, nor several of them")
    return frozenset(map(int, found))


def _codes(code: str, code_from: From | None, codes: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(codes, str):
        raise ValueError(f"codes of {code} must be a set of codes or a mapping to codes, not the text {codes!r}")
    found = dict(codes) if isinstance(codes, Mapping) else {one: one for one in codes}
    if code_from is None and found:
        raise ValueError(f"codes of {code} says what the exception may say: use code=From(attribute, {code!r}) with it")
    if code_from is not None and not found:
        raise ValueError(f"code {code!r} is read from the exception: codes= must say which ones it may give")
    for value, one in found.items():
        if not isinstance(value, str):
            raise ValueError(f"codes of {code}: {value!r} isn't a text that the exception can have")
        check_code(one)
    return found
