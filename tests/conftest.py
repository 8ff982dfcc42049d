"""Fixtures of the whole suite: a structlog without configuration, and the failures that a test logged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from iserror import configure_redaction, logs


@pytest.fixture(autouse=True)
def _fresh_logging() -> Iterator[None]:
    """Every test starts with nothing configured, and nothing told."""
    state = dict(vars(logs._State))
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logs._told.clear()
    yield
    for name in ("sinks", "configured", "key"):
        setattr(logs._State, name, state[name])
    structlog.reset_defaults()
    configure_redaction()


class Lines(list[dict[str, Any]]):
    """The JSON lines written to a log folder so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def read(self) -> list[dict[str, Any]]:
        """All lines, oldest first."""
        return [
            json.loads(line) for file in sorted(self.folder.glob("*.jsonl")) for line in file.read_text().splitlines()
        ]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Log to a folder of this test; `lines.read()` gives what was written."""
    folder = tmp_path / "logs"
    logs.configure_logging(folder)
    return Lines(folder)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
