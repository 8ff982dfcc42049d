"""`Failure`: what a failed call says, as the envelope on the wire and as a text for the model.

It is the one value that passes from the mapping to every outlet. The exception goes no further than the log: whatever
reaches a client has to be a field of `Failure` first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, StringConstraints, field_validator, model_validator
from typing_extensions import Self

from iserror.errors.verdict import ADVICE_PATTERN, repeat_after
from iserror.errors.vocabulary import CODE_PATTERN, Category, Outcome
from iserror.errors.wait import MAX_RETRY_AFTER
from iserror.redact.echo import Echo
from iserror.redact.speech import MAX_MESSAGE, MAX_TOOL_NAME, safe_details, safe_line, safe_name
from iserror.redact.text import cut_short
from iserror.support.look import look

MAX_TEXT: Final = 2_000
"""Characters of the whole text for the model."""

_ADVICE: Final = re.compile(ADVICE_PATTERN)

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
    advice: str | None = None
    """What to do next, in one of a few fixed phrases (`docs/reference/wire-format.md`). Some frameworks show the model
    the envelope alone, without the text."""
    retryable: bool
    retry_after: Annotated[float, Field(ge=0, le=MAX_RETRY_AFTER, allow_inf_nan=False)] | None = None
    outcome: Outcome
    category: Category
    tool: Annotated[str, StringConstraints(max_length=MAX_TOOL_NAME)] | None = None
    method: Annotated[str, StringConstraints(max_length=MAX_TOOL_NAME)] | None = None
    """The JSON-RPC method of a request that calls no tool. Either this or `tool` is set."""
    request_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    trace_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    details: dict[str, str | int | float | bool | None] | None = None
    _words: str = PrivateAttr(default="")

    @field_validator("advice")
    @classmethod
    def _is_a_phrase(cls, advice: str | None) -> str | None:
        if advice is not None and not _ADVICE.match(advice):
            raise ValueError("advice isn't one of the phrases")
        return advice

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.tool is None) == (self.method is None):
            raise ValueError("either tool or method is set")
        return self

    @property
    def name(self) -> str:
        """The tool's name, or the method's."""
        return self.tool if self.tool is not None else self.method or ""

    def to_wire(self) -> dict[str, Any]:
        """Return the envelope: JSON data with the unset fields left out."""
        wire: dict[str, Any] = {}
        for name in Failure.model_fields:
            value = getattr(self, name)
            if value is not None:
                wire[name] = value
        return wire

    @classmethod
    def from_wire(cls, envelope: object, echo: Echo | None = None) -> Failure | None:
        """Read an envelope that came from outside.

        Its texts are redacted and cleaned again: another process sent them. Fields that a later version of iserror
        may add are left out, and so is advice that isn't one of the phrases.

        Args:
            envelope: The envelope.
            echo: What the reader sent in the call: paths, SQL and hosts that stay.

        Returns:
            The failure, or None if the envelope isn't valid.
        """
        return look(cls._read, None, envelope, echo) if isinstance(envelope, Mapping) else None

    @classmethod
    def _read(cls, envelope: Mapping[str, Any], echo: Echo | None) -> Failure:
        fields = {name: value for name, value in envelope.items() if name in cls.model_fields}
        advice = fields.get("advice")
        if not isinstance(advice, str) or not _ADVICE.match(advice):
            fields["advice"] = None
        sent = cls.model_validate(fields)
        texts = {
            "message": safe_line(sent.message, echo=echo),
            "hint": safe_line(sent.hint, echo=echo) if sent.hint else None,
            "tool": None if sent.tool is None else safe_name(sent.tool),
            "method": None if sent.method is None else safe_name(sent.method),
            "details": safe_details(sent.details) if sent.details else None,
        }
        return cls.model_validate({**sent.to_wire(), **texts})

    def __eq__(self, other: object) -> bool:
        # The whole text isn't sent with the envelope: a failure read from it equals the one that was sent.
        return isinstance(other, Failure) and self.__dict__ == other.__dict__

    def worded(self, words: str) -> Failure:
        """Return the failure with the author's whole text, of which `message` is the first line.

        Args:
            words: Redacted lines. The text for the model has them, the envelope does not.
        """
        self._words = words
        return self

    @property
    def words(self) -> str:
        """The author's whole text, or the message if that is all of it."""
        return self._words or self.message

    @property
    def text(self) -> str:
        """The text for the model (`content[0].text`): never empty, under 2,000 characters."""
        return self.noting("")

    def noting(self, note: str) -> str:
        """Return the text with a line of the library's own before the last one.

        Args:
            note: The line; "" for none.
        """
        ending = [line for line in (self.hint, note) if line]
        # An older server's envelope has no advice.
        advice = self.advice or (repeat_after(self.retry_after) if self.retryable else "")
        ending.append(f"[{self.name} failed; {f'{advice}; ' if advice else ''}request_id: {self.request_id}]")
        tail = "\n" + "\n".join(ending)
        words = self.words
        room = MAX_TEXT - 1 - len(self.code) - 2 - len(tail)
        return f"{self.code}: {words if len(words) <= room else cut_short(words, room)}{tail}"
