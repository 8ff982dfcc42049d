"""
Recall and precision on whole texts: what a redactor is for.

`redaction/dev.jsonl` is the team's corpus, the others were written for this project by people who had not seen
the rules. Texts are stored in pieces, so that no file holds a whole token; all values are made up.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from iserror.redact import redact_text

FOLDER = Path(__file__).parent / "redaction"
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


# Corpus: group, least recall.
RECALL = {
    "dev": {"secret": 0.99, "infra": 0.98, "control": 1.0, "pii": 1.0},
    "formats": {"secret": 0.99},
    "places": {"secret": 0.97},
    "insides": {"infra": 0.96, "control": 1.0, "pii": 0.98},
}
PRECISION = {"dev": 0.01, "places": 0.1, "harmless": 0.01}
"""Corpus: share of harmless texts that may change. Of the thirty in `places`, each a trap, three."""


@pytest.mark.parametrize("name", RECALL)
def test_recall(name: str) -> None:
    """What must be gone is gone, group by group; every text is stable and keeps what is harmless in it."""
    found: dict[str, list[str]] = {}
    missed: dict[str, list[str]] = {}
    lost, kept = [], 0
    for sample in samples(name):
        out = redact_text(sample.text, pii=True)
        assert out == redact_text(out, pii=True), sample.id
        for secret, kind in sample.spans:
            (missed if leaks(secret, kind, out) else found).setdefault(kind, []).append(sample.id)
        kept += len(sample.keep)
        lost += [f"{sample.id}: {words}" for words in sample.keep if words not in out]
    for kind, least in RECALL[name].items():
        gone, left = len(found.get(kind, ())), missed.get(kind, [])
        assert gone >= least * (gone + len(left)), (kind, left)
    assert len(lost) <= 0.005 * kept, lost


@pytest.mark.parametrize("name", PRECISION)
def test_harmless_texts(name: str) -> None:
    """Harmless texts come through as they are. A joiner between emoji goes: the wire has no invisible characters."""
    harmless = [sample for sample in samples(name) if not sample.spans and "\u200d" not in sample.text]
    altered = [sample.id for sample in harmless if redact_text(sample.text) != sample.text]
    assert harmless
    assert len(altered) <= PRECISION[name] * len(harmless), altered


def test_log_profile() -> None:
    """In a log no credential is left either, and what operators need is."""
    missed, total = [], 0
    for sample in samples("dev"):
        out = redact_text(sample.text, profile="log")
        for secret, kind in sample.spans:
            if kind == "secret":
                total += 1
                missed += [sample.id] if leaks(secret, kind, out) else []
        if {kind for _, kind in sample.spans} == {"infra"}:
            assert out == sample.text, sample.id
    assert len(missed) <= 0.01 * total, missed
