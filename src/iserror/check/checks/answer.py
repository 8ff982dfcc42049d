"""Rules for every answer to `tools/call`: it fits the schema, and it leaks nothing."""

from __future__ import annotations

from iserror.check.checks import leaks
from iserror.check.notes import Audit
from iserror.check.session import Answer
from iserror.client.outcome import ContractBroken


def note_answer(audit: Audit, answer: Answer, tool: str = "") -> None:
    """Note what is wrong with an answer, whichever check asked for it."""
    # A proxied server's guard answers for tools only.
    audit.guarded = audit.guarded or (not tool and answer.is_of_a_guard)
    leaks.note_leaks(audit, answer, tool)
    note_form(audit, answer, tool)


def note_form(audit: Audit, answer: Answer, tool: str) -> None:
    """Note an answer that breaks the protocol's schema."""
    if isinstance(answer.outcome, ContractBroken):
        audit.add("channels.broken_answer", answer.shown(), tool)
