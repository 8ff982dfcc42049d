"""
Take credentials out of texts and plain data, and for a model the server's internals too.

`redact_text` is for one text, `redact` for a structure, and `clean_line` makes one safe printable line. A `Redactor`
holds named rules that can be added and removed. All this is a second line of defense. It knows formats and names. It
can't know that `Tuesday` is a password.

Time is linear in the text. A rule runs only if one of its literal gates occurs. A repetition has a bound if anything
after it can fail, since the search could then read the same text again from the next position. Inputs are capped
before matching.
"""

from __future__ import annotations

from iserror.redact.names import announces_secret
from iserror.redact.redactor import DEFAULT_RULES, Redactor
from iserror.redact.rule import Profile, Rule
from iserror.redact.text import Safe, clean_line, cut_short

__all__ = [
    "DEFAULT_RULES",
    "Redactor",
    "Rule",
    "Safe",
    "announces_secret",
    "clean_line",
    "configure_redaction",
    "current_redaction",
    "cut_short",
    "redact",
    "redact_text",
]


class _Process:
    """The redactor of this process."""

    redactor = Redactor()
    pii = False


def configure_redaction(redactor: Redactor | None = None, *, pii: bool = False) -> None:
    """
    Set the redactor for every text to a client and every log line of this process.

    Args:
        redactor: For a company's own formats: `Redactor().add(Rule(...))`. The default rules if omitted.
        pii: Whether to redact e-mail addresses, phone, card and account numbers too, on the wire and in the log.

    Raises:
        TypeError: If `redactor` isn't a `Redactor`.
    """
    if not isinstance(redactor, (Redactor, type(None))):
        raise TypeError(f"configure_redaction needs a Redactor, not {redactor!r}")
    _Process.redactor, _Process.pii = redactor or Redactor(), bool(pii)


def current_redaction() -> tuple[Redactor, bool]:
    """Return what `configure_redaction` set: the redactor, and whether it redacts personal data."""
    return _Process.redactor, _Process.pii


def redact_text(text: str, *, profile: Profile = "model", pii: bool = False) -> str:
    """
    Return `text` with each finding of this process's redactor replaced by `[redacted:KIND]`.

    Newlines and tabs stay. Other control and invisible characters are removed. A text beyond 65,536 characters is
    cut. If a rule raises, the result is the constant `[redacted]`.

    Args:
        text: Any string, lone surrogates included. The result is always valid UTF-8 text.
        profile: `model` for what a client sees. `log` keeps paths, stack traces, SQL and hosts for operators.
        pii: Whether to redact e-mail addresses, phone, card and account numbers too.
    """
    return _Process.redactor.redact_text(text, profile=profile, pii=pii or _Process.pii)


def redact(value: object, *, profile: Profile = "model", pii: bool = False) -> object:
    """
    Return `value` as plain JSON data with its secrets replaced.

    `value` itself is never changed. Dicts, lists, tuples, sets, dataclasses and pydantic models are walked, by key name
    and by value, up to twelve levels and 5,000 values. A cycle ends in a marker. NaN and infinities become strings. Any
    other object becomes `[redacted:TypeName]`. If the value or a rule raises, the result is the constant `[redacted]`.

    Args:
        value: Anything.
        profile: As for `redact_text`.
        pii: As for `redact_text`.
    """
    return _Process.redactor.redact(value, profile=profile, pii=pii or _Process.pii)
