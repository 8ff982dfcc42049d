"""Known findings, that a check accepts until they are mended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from iserror.check.finding import Finding

_KEYS = ("check", "tool", "where")


def read(path: Path) -> set[tuple[str, str, str]]:
    """The keys of the findings in a file that `write`, or `--json`, made.

    Raises:
        OSError: It cannot be read.
        ValueError: It is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["findings"]
        return {(str(item["check"]), str(item.get("tool", "")), str(item.get("where", ""))) for item in found}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{str(path)!r} is no baseline: write one with --write-baseline") from None


def write(path: Path, findings: Iterable[Finding]) -> None:
    """Accept these findings from now on: one line each, sorted, so that a change of the file can be read."""
    keys = sorted(finding.key for finding in findings)
    lines = [json.dumps(dict(zip(_KEYS, key, strict=True)), ensure_ascii=True) for key in keys]
    body = ",\n    ".join(lines)
    path.write_text(f'{{\n  "schema_version": 1,\n  "findings": [\n    {body}\n  ]\n}}\n', encoding="utf-8")
