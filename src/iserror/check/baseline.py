"""Known findings, which a check accepts until they are fixed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from iserror.check.finding import Finding

Key: TypeAlias = tuple[str, str, str]
"""The key of a finding."""

_KEYS = ("check", "tool", "where")


def read(path: Path) -> set[Key]:
    """Return the keys of the findings in a baseline: a file that `write` or `--json` made.

    Raises:
        OSError: If the file can't be read.
        ValueError: If the file isn't a baseline.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["findings"]
        return {(str(item["check"]), str(item.get("tool", "")), str(item.get("where", ""))) for item in found}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{str(path)!r} is not a baseline: write one with --write-baseline") from None


def read_older(path: Path) -> set[Key]:
    """Return the keys in the baseline that `write` is going to replace; none if there is no such file.

    Raises:
        OSError: If the file can't be read.
        ValueError: If the file isn't a baseline. It may be a program, so `write` must not replace it.
    """
    return read(path) if path.is_file() and path.stat().st_size else set()


def write(path: Path, findings: Iterable[Finding], kept: Iterable[Key] = ()) -> None:
    """Write a baseline: one sorted line for each finding, so that diffs are readable.

    Args:
        path: The file.
        findings: The findings to accept from now on.
        kept: Keys of an older baseline to accept still.
    """
    keys = sorted({*kept, *(finding.key for finding in findings)})
    lines = [json.dumps(dict(zip(_KEYS, key, strict=True)), ensure_ascii=True) for key in keys]
    body = ",\n    ".join(lines)
    path.write_text(f'{{\n  "schema_version": 1,\n  "findings": [\n    {body}\n  ]\n}}\n', encoding="utf-8")
