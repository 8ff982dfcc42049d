"""What the tests of the log share: its files as they are on the disk, and what has to hold of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from iserror.logs.segment import Name

SCALE = float(os.environ.get("ISERROR_TEST_SCALE", "0.1"))
"""What the numbers of the tests marked `slow` are multiplied by."""

needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals, forks and mounts of POSIX")


def scaled(number: int) -> int:
    return max(2, int(number * SCALE))


def ids_of(records: Any) -> list[str]:
    """The ids of the failures among records."""
    return [record["request_id"] for record in records if record["event"] == "tool_failed"]


def raw_lines(file: Path) -> list[str]:
    """The lines of a log file, compressed or not."""
    if file.suffix == ".gz":
        import gzip

        return gzip.decompress(file.read_bytes()).decode().splitlines()
    return file.read_text().splitlines()


def log_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl", ".jsonl.gz")))


def name_of(file: Path) -> Name:
    name = Name.of(file)
    assert name is not None
    return name


def assert_in_order(folder: Path) -> None:
    """Every line of every file is JSON, and no line is older than the one before it."""
    for file in log_files(folder):
        times = [json.loads(line)["timestamp"] for line in raw_lines(file)]
        assert times == sorted(times), file.name


def assert_counted(found: list[dict[str, Any]]) -> None:
    """The line that ended a call says how many lines of it the log holds, itself included."""
    (last,) = [record for record in found if "lines" in record]
    assert last["lines"] == len(found), [record["event"] for record in found]
