"""Records as the log has them, and files of them, for the tests that read it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

from iserror.logs import segment
from iserror.logs.read import source
from iserror.logs.record import stamp
from iserror.logs.segment import Name

SECOND = 1_000_000_000
BASE = 1_767_323_045 * SECOND  # 2026-01-02T03:04:05Z


def uuid7(seconds: int, tail: str) -> str:
    return f"{(BASE // SECOND + seconds) * 1000:012x}7abc8{tail:0>15}"


CALLS = [uuid7(0, "1"), uuid7(30, "2"), uuid7(60, "3")]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
LIKE_A_CALL = uuid7(0, "")[:8] + "ffff7abc8000000000000000"  # a trace id that happens to be a UUIDv7 of another time
IDS = [*CALLS, TRACE, LIKE_A_CALL]


def line_of(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()


def failure(id: str, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": stamp(BASE + int(seconds * SECOND)),
        "level": "error",
        "event": "tool_failed",
        "schema_version": 1,
        "tool": "pay",
        "request_id": id,
        "code": "INTERNAL_ERROR",
        **more,
    }


def packed(data: bytes) -> bytes:
    target = BytesIO()
    segment.compress(BytesIO(data), target)
    return target.getvalue()


@contextlib.contextmanager
def small(**more: int) -> Iterator[None]:
    """Blocks, members and steps so small that a few lines have all their boundaries."""
    sizes = {"BLOCK": 300, "MEMBER": 400, "_PROBE": 64, "_NEAR": 200, "MAX_LINE": 4_000, **more}
    with (
        mock.patch.multiple(source, **sizes),
        mock.patch.multiple(segment, MEMBER=sizes["MEMBER"]),
        mock.patch.multiple("iserror.logs.read.search", _STEP=256),
    ):
        yield


def numbers(records: list[dict[str, Any]]) -> list[int]:
    return sorted(record["n"] for record in records)


def rotate(path: Path) -> Path:
    name = Name.of(path)
    assert name is not None
    return path.rename(path.with_name(str(name._replace(last=stamp(BASE + 50 * SECOND)))))


def compress(path: Path) -> Path:
    name = Name.of(path)
    assert name is not None
    target = path.with_name(str(name._replace(compressed=True)))
    target.write_bytes(packed(path.read_bytes()))
    path.unlink()
    return target


def close_and_compress(path: Path) -> Path:
    return compress(rotate(path))
