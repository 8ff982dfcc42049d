"""
The corpora in `redaction/`, and how a redactor's answer is judged; for tests and benchmarks.

`dev.jsonl` is the team's, the others were written for this project by people who had not seen the rules. Texts are
stored in pieces, so that no file holds a whole token; all values are made up.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "texts"
INFRA = {"path_posix", "path_windows", "path_unc", "sql", "sql_params", "internal_host", "internal_port", "private_ip"}
CONTROL = {"ansi_escape", "zero_width", "bidi", "control_char", "unicode_tag"}
PII = {"email", "phone", "credit_card", "iban"}


class Sample(NamedTuple):
    id: str
    text: str
    spans: list[tuple[str, str]]
    """What must be gone, each with its group."""
    keep: list[str]


def group(kind: str) -> str:
    if kind in INFRA or kind.startswith("trace_"):
        return "infra"
    return "control" if kind in CONTROL else "pii" if kind in PII else "secret"


def samples(name: str) -> Iterator[Sample]:
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").split("\n"):
        if line:
            record: dict[str, Any] = json.loads(line)
            text = "".join(record["parts"])
            spans = [(text[start:end], group(kind)) for start, end, kind in record["secret_spans"]]
            yield Sample(record["id"], text, spans, record["keep"])


def visible(text: str) -> str:
    return "".join(c for c in text if c in "\n\t\r" or unicodedata.category(c) not in ("Cc", "Cf"))


def leaks(secret: str, kind: str, out: str) -> bool:
    """Whether eight characters of a secret in a row, or all of a shorter one, are still there."""
    if kind == "control":
        return any(c in out for c in secret)
    for hidden, shown in ((secret, out), (visible(secret), visible(out))):
        if len(hidden) <= 8:
            if hidden and hidden in shown:
                return True
            continue
        pieces = (hidden[i : i + 8] for i in range(len(hidden) - 7))
        if any(sum(c.isalnum() for c in piece) >= 4 and piece in shown for piece in pieces):
            return True
    return False
