"""`OwnWords`: the exception's own text as the message of an entry."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any

from iserror.errors.foreign import MAX_WORDS, in_quotes
from iserror.errors.template import Path
from iserror.redact.speech import quoted
from iserror.support.causes import ARGS, text_of
from iserror.support.loading import full_name
from iserror.support.look import look


class OwnWords:
    """Let the exception's own text be the message: `errors.add(..., message=OwnWords())`.

    The text is redacted, bounded (1,500 characters, line breaks kept) and shown on the wire. Words of other exceptions
    in it stand in quotes, and so does the whole text where the entry stands `instead_of` a pack's: a library wrote it.

    On a class that isn't your own, such as `ValueError`, the entry needs `raised_in`: a library raises it, too, and
    its text was written for nobody's model.
    """

    paths: AbstractSet[Path] = frozenset()
    """The attributes that it reads, as of a template: none."""

    def render(self, exc: BaseException, own: Collection[int] = ()) -> str:
        """Return the exception's text, with foreign stretches in quotes.

        Args:
            exc: The exception.
            own: Ids of exceptions behind it for which the same entry holds: their words aren't foreign.
        """
        return in_quotes(_text(exc), exc, own) or "The tool refused the call."

    def foreign(self, exc: BaseException) -> str:
        """Return the exception's text as a library's: quoted as a whole."""
        return quoted(_text(exc), MAX_WORDS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnWords)

    def __hash__(self) -> int:
        return hash(OwnWords)

    def __repr__(self) -> str:
        return "OwnWords()"

    def __str__(self) -> str:
        return "(the exception's own words)"


def _text(exc: Any) -> str:
    if issubclass(type(exc), KeyError):  # its `str()` is a repr
        args = ARGS(exc)
        if len(args) == 1 and isinstance(args[0], str):
            return str.__str__(args[0])
    if full_name(type(exc)).startswith("sqlalchemy."):  # it adds the statement and an address to the driver's words
        driver = look(lambda: exc.orig, None)
        if isinstance(driver, BaseException):
            return text_of(driver)
    return text_of(exc)
