"""The MCP conformance suite: attaching a guard takes no scenario away from a server that passes it bare."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers import hosts
from tests.helpers.hosts import ROOT
from tests.interop.test_clients import interpreter, node

SUITE = ROOT / "tests/interop/node_modules/@modelcontextprotocol/conformance/dist/index.js"
pytestmark = pytest.mark.timeout(300)


def run_suite(host: str, folder: Path, *flags: str) -> dict[str, list[tuple[str, str]]]:
    """Each scenario's checks with their status, in order, without what only informs."""
    port = hosts.free_port()
    with hosts.serving_http("tests/interop/everything_server.py", port, *flags, python=interpreter(host)):
        url = f"http://127.0.0.1:{port}/mcp"
        command = [node(), str(SUITE), "server", "--url", url, "--suite", "all", "--output-dir", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    scenarios = {}
    for file in folder.glob("server-*/checks.json"):
        checks = json.loads(file.read_text())
        # Named `server-SCENARIO-TIME`, TIME as 2026-11-30T14-33-24-423Z.
        scenario = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        scenarios[scenario] = [(check["id"], check["status"]) for check in checks if check["status"] != "INFO"]
    assert scenarios, done.stdout + done.stderr
    return scenarios


def passed(scenarios: dict[str, list[tuple[str, str]]]) -> set[str]:
    """The scenarios without a failed check."""
    return {name for name, checks in scenarios.items() if all(status != "FAILURE" for _, status in checks)}


@pytest.mark.parametrize("host", ["mcp2", "fastmcp4"])
def test_the_same_scenarios_pass(host: str, tmp_path: Path) -> None:
    """Bare and attached, the server passes every scenario of the suite, and each check has the same status."""
    with ThreadPoolExecutor(2) as pool:
        bare = pool.submit(run_suite, host, tmp_path / "bare", "--bare")
        attached = pool.submit(run_suite, host, tmp_path / "attached").result()
    assert set(attached) == passed(attached) == passed(bare.result())
    assert len(attached) >= 32
    assert bare.result() == attached
