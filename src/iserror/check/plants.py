"""Secrets made up for one run, to be found again wherever they come out."""

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
"""So many characters in a row of a planted word are no chance."""

_HOSTILE: Final = "\x1b[31m \u202e\u200b \ud800"
"""What drives terminals, hides text, and is no UTF-8."""


def _word(length: int, letters: str = _LETTERS) -> str:
    return "".join(secrets.choice(letters) for _ in range(length))


@dataclass(frozen=True)
class Plant:
    """One planted thing: what it is called, its text, the random word in it, and whether the log may have it."""

    kind: str
    text: str
    word: str
    in_log: bool = False

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """The word as it may stand in a text: as it is, in base64 at each alignment, in hexadecimal, backwards."""
        data = self.word.encode()
        # The first and the last group of each depend on what stands beside it.
        encoded = (base64.b64encode(b" " * shift + data).decode()[4:-4] for shift in range(3))
        return (self.word, *encoded, data.hex(), self.word[::-1])

    def is_in(self, text: str) -> bool:
        """Whether a piece of it stands in a text, in any case of letters."""
        low = text.lower()
        return any(form[i : i + _WINDOW].lower() in low for form in self.forms for i in range(len(form) - _WINDOW + 1))


class Plants:
    """What is planted in the exceptions of a run."""

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
        """What the redactor knows, wherever it stands."""
        self.unknown = (
            plant("e-mail address", "WORD@example.com", in_log=True),
            plant("word", "a word: WORD", in_log=True),
        )
        """What nothing tells from other words: the text of a crash must not come out at all."""

    @property
    def clean(self) -> str:
        """What the redactor knows, in one text."""
        return "; ".join(plant.text for plant in self.found)

    @property
    def text(self) -> str:
        """The same with characters that no text for a client may have."""
        return f"{_HOSTILE} {self.clean} {_HOSTILE}"

    @property
    def everything(self) -> str:
        """All that is planted."""
        return f"{'; '.join(plant.text for plant in self.unknown)}; {self.text}"

    def sent(self, received: object) -> list[str]:
        """Which kinds of it stand in what a client received."""
        text = json.dumps(received, ensure_ascii=False)
        return [plant.kind for plant in (*self.found, *self.unknown) if plant.is_in(text)]

    def logged(self, records: object) -> list[str]:
        """Which kinds of it stand in log records, of those that must not."""
        text = json.dumps(records, ensure_ascii=False)
        return [plant.kind for plant in (*self.found, *self.unknown) if not plant.in_log and plant.is_in(text)]
