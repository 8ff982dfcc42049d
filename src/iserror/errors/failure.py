"""`Failure`: what a failed call says, as the envelope on the wire and as a text for the model.

It is the one value that passes from the mapping to every outlet. The exception goes no further than the log: whatever
reaches a client has to be a field of `Failure` first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from iserror.errors.vocabulary import CHANGEABLE, CODE_PATTERN, Category, Outcome
from iserror.errors.wait import MAX_RETRY_AFTER
from iserror.redact.speech import MAX_MESSAGE, MAX_TOOL_NAME, safe_details, safe_line, safe_name
from iserror.support.look import look

Line = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE, pattern=r"^[^\r\n]+$")]


class Failure(BaseModel):
    """Say what a failed call means: the envelope in `_meta["iserror/failure"]`.

    Every field shows on the wire; unset ones are left out. Codes are stable: never renamed, never reused.
    `docs/reference/wire-format.md` has the table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Annotated[str, StringConstraints(min_length=3, max_length=64, pattern=CODE_PATTERN)]
    message: Line
    hint: Line | None = None
    retryable: bool
    retry_after: Annotated[float, Field(ge=0, le=MAX_RETRY_AFTER, allow_inf_nan=False)] | None = None
    outcome: Outcome
    category: Category
    tool: Annotated[str, StringConstraints(max_length=MAX_TOOL_NAME)]
    request_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    trace_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    details: dict[str, str | int | float | bool | None] | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the envelope: JSON data with the unset fields left out."""
        wire: dict[str, Any] = {}
        for name in Failure.model_fields:
            value = getattr(self, name)
            if value is not None:
                wire[name] = value
        return wire

    @classmethod
    def from_wire(cls, envelope: object) -> Failure | None:
        """Read an envelope that came from outside.

        Its texts are redacted and cleaned again: another process sent them. Fields that a later version of iserror
        may add are left out.

        Returns:
            The failure, or None if the envelope isn't valid.
        """
        return look(cls._read, None, envelope) if isinstance(envelope, Mapping) else None

    @classmethod
    def _read(cls, envelope: Mapping[str, Any]) -> Failure:
        sent = cls.model_validate({name: value for name, value in envelope.items() if name in cls.model_fields})
        texts = {
            "message": safe_line(sent.message),
            "hint": safe_line(sent.hint) if sent.hint else None,
            "tool": safe_name(sent.tool),
            "details": safe_details(sent.details) if sent.details else None,
        }
        return cls.model_validate({**sent.to_wire(), **texts})

    @property
    def advice(self) -> str:
        """One of the fixed phrases that tell the model what to do next."""
        if self.retryable:
            if self.retry_after:
                return f"may be repeated after {math.ceil(self.retry_after * 10) / 10:g} s"
            return "may be repeated"
        if self.outcome == "applied":
            return "it took effect, check before any further call"
        if self.outcome != "not_applied":
            return "it may have taken effect, check before any further call"
        if self.category in CHANGEABLE:
            return "change the call first"
        return "stop and tell the user"

    @property
    def text(self) -> str:
        """The text for the model (`content[0].text`): never empty, under 2,000 characters."""
        lines = [f"{self.code}: {self.message}"]
        if self.hint:
            lines.append(self.hint)
        lines.append(f"[{self.tool} failed; {self.advice}; request_id: {self.request_id}]")
        return "\n".join(lines)
