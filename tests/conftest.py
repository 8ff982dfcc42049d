"""Fixtures of the whole suite: a structlog without configuration, and the failures that a test logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest
import structlog

from iserror import configure_logging, configure_redaction
from iserror.logs import configure, sink
from iserror.logs.chain import State
from iserror.logs.fingerprint import keep_key_in
from iserror.logs.redaction import LogText
from iserror.support.look import faults
from tests.helpers.clock import clock

__all__ = ["clock"]

# Where the library was installed before it had a plugin, pytest does not find that by itself.
pytest_plugins = [] if "iserror" in entry_points(group="pytest11").names else ["iserror.testing.plugin"]


def pytest_configure(config: pytest.Config) -> None:
    """Forgive the lowest mcp what later ones close: streams of each HTTP request, found in any later test."""
    if version("mcp").startswith("1.23."):
        config.addinivalue_line("filterwarnings", "ignore:Unclosed <MemoryObject:ResourceWarning")


@pytest.fixture(autouse=True)
def _fresh_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts with nothing configured, and nothing told."""
    monkeypatch.delenv("ISERROR_LOG", raising=False)
    level = logging.root.level
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    sink._told.clear()
    yield
    configure._undo()
    logging.root.setLevel(level)
    State.file, State.stderr, State.level, State.configured = None, sink.StderrSink(), logging.INFO, False
    LogText.profile = "log"
    keep_key_in(None)
    structlog.reset_defaults()
    configure_redaction()


@pytest.fixture(autouse=True)
def _bugs_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a step of the library's fails the test that meets it."""
    monkeypatch.setattr(faults, "raises", True)
    faults._told.clear()


@pytest.fixture
def bugs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a step of the library's is reported, as outside of this suite."""
    monkeypatch.setattr(faults, "raises", False)


class Lines(list[dict[str, Any]]):
    """The JSON lines written to a log folder so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def read(self) -> list[dict[str, Any]]:
        """All lines, oldest first, but what the hosts and others log through `logging`."""
        lines = [line for file in sorted(self.folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
        return [record for record in map(json.loads, lines) if "logger" not in record]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Log to a folder of this test; `lines.read()` gives what was written."""
    folder = tmp_path / "logs"
    configure_logging(folder)
    return Lines(folder)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
