"""Invented secrets for one run, which are recognized anywhere in the output."""

from __future__ import annotations

import base64
import json
import secrets
import string
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_LETTERS: Final = string.ascii_lowercase + string.digits
_WINDOW: Final = 8
"""How many consecutive characters of a planted word can't be a coincidence."""

_HOSTILE: Final = "\x1b[31m \u202e\u200b \ud800"
"""Characters that control terminals, hide text, or aren't valid in UTF-8."""


def _word(length: int, letters: str = _LETTERS) -> str:
    return "".join(secrets.choice(letters) for _ in range(length))


@dataclass(frozen=True)
class Plant:
    """One planted secret."""

    kind: str
    """The name to show."""
    text: str
    word: str
    """The random word in the text."""
    in_log: bool = False
    """Whether the log may contain it."""

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The forms of the word in a text: plain, in base64 at each alignment, in hexadecimal, reversed."""
        data = self.word.encode()
        # The first and the last group of each depend on the neighboring bytes.
        encoded = (base64.b64encode(b" " * shift + data).decode()[4:-4] for shift in range(3))
        return (self.word, *encoded, data.hex(), self.word[::-1])

    def is_in(self, text: str) -> bool:
        """Return True if a text contains a piece of the word, in any letter case."""
        low = text.lower()
        return any(form[i : i + _WINDOW].lower() in low for form in self.forms for i in range(len(form) - _WINDOW + 1))


class Plants:
    """The secrets to plant in the exceptions of one run."""

    def __init__(self) -> None:
        def plant(kind: str, text: str, length: int = 20, letters: str = _LETTERS, in_log: bool = False) -> Plant:
            word = _word(length, letters)
            return Plant(kind, text.replace("WORD", word), word, in_log)

        self.found = (
            plant("password of a DSN", "postgresql" + "://app:WORD@db.example/prod"),
            plant("bearer token", "Authorization: Bear" + "er WORD", 40),
            plant("password", "pass" + "word=WORD"),
            plant("access key", "AK" + "IAWORD", 16, string.ascii_uppercase + "234567"),
            plant("private key", "-----BEGIN PRIVATE" + " KEY-----\nWORD\n-----END PRIVATE" + " KEY-----", 64),
            plant("path", "/srv/WORD/app.py", in_log=True),
            plant("SQL", "SELECT iban FROM t_WORD WHERE id = 7", in_log=True),
            plant("host", "db-WORD.internal:5432", in_log=True),
        )
        """Secrets that the redactor recognizes anywhere."""
        self.unknown = (
            plant("e-mail address", "WORD@example.com", in_log=True),
            plant("word", "a word: WORD", in_log=True),
        )
        """Words that no rule recognizes. They must not leak, since the text of a crash must not leak at all."""

    @property
    def clean(self) -> str:
        """The secrets that the redactor recognizes, in one text."""
        return "; ".join(plant.text for plant in self.found)

    @property
    def text(self) -> str:
        """The same text, with characters that must not reach a client."""
        return f"{_HOSTILE} {self.clean} {_HOSTILE}"

    @property
    def everything(self) -> str:
        """All secrets in one text."""
        return f"{'; '.join(plant.text for plant in self.unknown)}; {self.text}"

    def sent(self, received: object) -> list[str]:
        """Return the kinds of secrets in a message that a client received."""
        text = json.dumps(received, ensure_ascii=False)
        return [plant.kind for plant in (*self.found, *self.unknown) if plant.is_in(text)]

    def logged(self, records: object) -> list[str]:
        """Return the kinds of secrets in log records, except those that the log may contain."""
        text = json.dumps(records, ensure_ascii=False)
        return [plant.kind for plant in (*self.found, *self.unknown) if not plant.in_log and plant.is_in(text)]
