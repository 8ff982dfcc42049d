"""The sinks that hear of a failure on the bare host hear of it still: handlers of `logging`, and Sentry by default."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from functools import lru_cache
from typing import Any

import pytest

from iserror import ToolErrors
from tests.conftest import Lines
from tests.helpers.hosts import HOST, ROOT, WITHHOLDS, failure_of, in_memory, new_server

pytestmark = [pytest.mark.host, pytest.mark.anyio]

LOGGER, MESSAGE = {
    "mcp1": ("", ""),
    "mcp2": ("mcp.server.mcpserver.server", "Tool '{}' raised an unexpected exception") if WITHHOLDS else ("", ""),
    "fastmcp3": ("fastmcp.server.server", "Error calling tool '{}'"),
    "fastmcp4": ("fastmcp.server.server", "Error calling tool '{}'"),
}[HOST]
HEARD = bool(LOGGER) or HOST == "mcp1"
"""Whether Sentry hears of a crash on the bare host: on mcp 2.0 it doesn't."""


@lru_cache
def every_way() -> dict[str, Any]:
    """What each sink got in a process of its own: Sentry patches what every logger does."""
    command = [sys.executable, "-m", "tests.servers.sinks_server"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2_000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr}


def sinks(how: str) -> dict[str, Any]:
    found: dict[str, Any] = every_way()[how]
    return found


CRASHES = {"crash": "ValueError", "chained": "RuntimeError"}


def test_crashes() -> None:
    """A crash reaches Sentry once, with the original exception, and the host's handlers where they had it."""
    bare, guarded = sinks("bare"), sinks("guarded")
    for tool, kind in CRASHES.items():
        assert bool(bare[tool]["sentry"]) is HEARD, tool
        assert [event[-1] for event in guarded[tool]["sentry"]] == [kind] * HEARD
        expected = [[LOGGER, "ERROR", MESSAGE.format(tool), kind]] if LOGGER else []
        assert guarded[tool]["heard"] == expected
        assert [record[:3] for record in bare[tool]["heard"]] == [record[:3] for record in expected]
    assert guarded["chained"]["sentry"] == [["KeyError", "RuntimeError"]] * HEARD
    assert len(guarded["unfit"]["sentry"]) == HEARD
    assert "ToolFailure" not in str(guarded["unfit"]["sentry"])
    assert guarded["fine"] == {"sentry": [], "heard": [], "hook": []}
    assert guarded["five at once"] == 5 * HEARD


def test_other_failures() -> None:
    """What the author has mapped, or refused, is in no handler."""
    guarded = sinks("guarded")
    for tool in ("mapped", "refused", "failed"):
        assert guarded[tool]["heard"] == []


def test_stderr() -> None:
    """Each failure is one line there, and no traceback."""
    stderr = every_way()["stderr"]
    guarded = [line for line in stderr.splitlines() if line.startswith("{")]
    assert [json.loads(line)["event"] for line in guarded] == ["tool_failed"] * 4 * (6 + 5)
    # What the bare host writes there comes before.
    assert "Traceback" not in stderr[stderr.index(guarded[0]) :]


def test_all() -> None:
    """`forward="all"` tells the host's handlers of every failure."""
    if not LOGGER:
        pytest.skip("this host logs no failure of a tool")
    found = sinks("all")
    heard = {tool: [record[3] for record in found[tool]["heard"]] for tool in ("mapped", "refused", "failed", "crash")}
    assert heard == {"mapped": ["Mapped"], "refused": ["ToolError"], "failed": ["ToolFailure"], "crash": ["ValueError"]}


def test_none_and_the_hook() -> None:
    """`forward="none"` keeps them silent, and so does a hook, which gets the failures instead."""
    none = sinks("none")
    hook = sinks("hook")
    for tool, kind in CRASHES.items():
        assert none[tool]["heard"] == hook[tool]["heard"] == []
        assert hook[tool]["hook"] == [kind]


async def test_handlers_that_misbehave(lines: Lines) -> None:
    """A handler that raises, or that logs again, costs no answer."""

    class Bad(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logging.getLogger("tests.bad").warning("again")
            raise RuntimeError("a handler's fault")

    def tool() -> None:
        raise ValueError("boom")

    server = new_server()
    server.tool()(tool)
    ToolErrors().attach(server)
    handler, logger = Bad(), logging.getLogger(LOGGER or "tests.none")
    logger.addHandler(handler)
    try:
        async with in_memory(server) as call:
            for _ in range(2):
                assert failure_of(await call("tool"))["code"] == "INTERNAL_ERROR"
    finally:
        logger.removeHandler(handler)
    assert [line["event"] for line in lines.read()].count("tool_failed") == 2


async def test_a_chain_without_an_end(lines: Lines) -> None:
    """What some formatters would follow for ever is left out of the record."""

    def tool() -> None:
        first, second = ValueError("a"), ValueError("b")
        first.__cause__, second.__cause__ = second, first
        raise first

    heard: list[Any] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.exc_info)  # type: ignore[method-assign]
    server = new_server()
    server.tool()(tool)
    ToolErrors().attach(server)
    logger = logging.getLogger(LOGGER or "tests.none")
    logger.addHandler(handler)
    try:
        async with in_memory(server) as call:
            assert failure_of(await call("tool"))["code"] == "INTERNAL_ERROR"
    finally:
        logger.removeHandler(handler)
    assert heard == ([None] if LOGGER else [])
