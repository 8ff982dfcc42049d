"""What holds for every answer to `tools/call`: it fits the schema, and it leaks nothing."""

from __future__ import annotations

from iserror.check.checks import leaks
from iserror.check.notes import Audit
from iserror.check.session import Answer
from iserror.client.outcome import ContractBroken


def look(audit: Audit, answer: Answer, tool: str = "") -> None:
    """Note what is wrong with an answer, whichever check asked for it."""
    leaks.look(audit, answer, tool)
    look_at_form(audit, answer, tool)


def look_at_form(audit: Audit, answer: Answer, tool: str) -> None:
    """Note an answer that fits no schema."""
    if isinstance(answer.outcome, ContractBroken):
        audit.add("channels.broken_answer", answer.shown(), tool)
