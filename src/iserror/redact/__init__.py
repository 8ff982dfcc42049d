"""
Take credentials out of texts and plain data, and for a model the server's insides too.

`redact_text` is for one text, `redact` for a structure, `clean_line` makes one safe printable line, and a
`Redactor` holds named rules that can be added and removed. All this is a second line of defence: it knows
formats and names, it cannot know that `Tuesday` is somebody's password.

Time is linear in the text: a rule runs only when one of its literal gates occurs, repetitions are bounded
wherever a failed match could start again one character further, and inputs are capped before matching.
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
    """What texts of this process go through."""

    redactor = Redactor()
    pii = False


def configure_redaction(redactor: Redactor | None = None, *, pii: bool = False) -> None:
    """
    Say what every text for a client and every log line of this process goes through.

    Args:
        redactor: For a company's own formats: `Redactor().add(Rule(...))`. The default rules when left out.
        pii: Whether e-mail addresses, phone, card and account numbers go too, on the wire and in the log.

    Raises:
        TypeError: `redactor` is none.
    """
    if not isinstance(redactor, (Redactor, type(None))):
        raise TypeError(f"configure_redaction needs a Redactor, not {redactor!r}")
    _Process.redactor, _Process.pii = redactor or Redactor(), bool(pii)


def current_redaction() -> tuple[Redactor, bool]:
    """Return what `configure_redaction` set: the redactor, and whether personal data goes."""
    return _Process.redactor, _Process.pii


def redact_text(text: str, *, profile: Profile = "model", pii: bool = False) -> str:
    """
    Return `text` with each finding of this process's redactor replaced by `[redacted:KIND]`.

    Newlines and tabs stay, other control and invisible characters go. What lies beyond 65,536 characters is
    dropped. Should anything raise, the result is the constant `[redacted]`.

    Args:
        text: Any string, lone surrogates included; the result is always valid UTF-8 text.
        profile: `model` for what a client sees; `log` keeps paths, stack traces, SQL and hosts for operators.
        pii: Whether e-mail addresses, phone, card and account numbers go too.
    """
    return _Process.redactor.redact_text(text, profile=profile, pii=pii or _Process.pii)


def redact(value: object, *, profile: Profile = "model", pii: bool = False) -> object:
    """
    Return `value` as plain JSON data with its secrets replaced; `value` itself is never changed.

    Dicts, lists, tuples, sets, dataclasses and pydantic models are walked, by key name and by value, twelve
    levels and 5,000 values at most; a cycle ends in a marker. NaN and infinities become strings, any other
    object becomes `[redacted:TypeName]`. Should anything raise, the result is the constant `[redacted]`.

    Args:
        value: Anything.
        profile: As for `redact_text`.
        pii: As for `redact_text`.
    """
    return _Process.redactor.redact(value, profile=profile, pii=pii or _Process.pii)
