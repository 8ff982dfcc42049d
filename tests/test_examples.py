"""The billing example, as a user runs it: over stdio by its own demo, and over streamable HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iserror.testing import assert_tool_error
from tests.helpers import hosts
from tests.helpers.hosts import HOST, ROOT, normalize

pytestmark = [pytest.mark.hostless, pytest.mark.newest]

SERVER = f"examples/billing/server_{HOST}.py"


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[str]:
    """The payment API on loopback; gives its URL."""
    command = [sys.executable, str(ROOT / "examples/billing/upstream.py"), "--log", str(tmp_path / "upstream.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.timeout(120)
def test_the_demo_shows_what_it_expects() -> None:
    """The demo exits with 0 only if every call, bare and guarded, came out as its steps say."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/billing/demo.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=110,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["All of it as expected."]), (
        done.stdout + done.stderr
    )


@pytest.mark.timeout(120)
def test_the_agent_loop_ends_as_it_expects() -> None:
    """The agent's loop exits with 0 only if every wish ended as its list says."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/agent_loop.py")], capture_output=True, text=True, timeout=110
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["All of it as expected."]), (
        done.stdout + done.stderr
    )
    assert "Tools with a similar name: get_invoice" in done.stdout
    assert "pay_invoice(invoice_id='INV-1004', amount=1999) (2 times)" in done.stdout
    assert "The lost payment once more:\n    PAYMENT_OUTCOME_UNKNOWN" in done.stdout
    assert "Not sent: export_report failed 3 times with exactly these arguments" in done.stdout


@pytest.mark.anyio
async def test_the_service_over_http(tmp_path: Path, upstream: str) -> None:
    """Over HTTP a read finds its invoice, the upstream logs its request id, and a lost payment forbids a repeat."""
    settings = ["--db", str(tmp_path / "db"), "--upstream", upstream, "--log", str(tmp_path / "logs")]
    port = hosts.free_port()
    with hosts.serving_http(SERVER, port, *settings):
        async with hosts.sdk_http(f"http://127.0.0.1:{port}/mcp") as session:
            call = hosts.caller(session.call_tool)
            found = normalize(await call("get_invoice", {"invoice_id": "INV-1001"}))
            missing = await call("get_invoice", {"invoice_id": "INV-9"})
            nobody = normalize(await call("find_invoices", {"customer": "nobody"}))
            busy = await call("pay_invoice", {"invoice_id": "INV-1004", "amount": 100})
            lost = await call("pay_invoice", {"invoice_id": "INV-1005", "amount": 100})

    invoice = {"id": "INV-1001", "customer": "Blue Heron Bakery", "amount": 12_000, "paid": 0, "charged": 0}
    assert found["result"]["structuredContent"] == invoice
    assert "INV-1001, INV-1002" in str(assert_tool_error(missing, category="not_found").hint)
    assert nobody["result"]["structuredContent"] == {"total": 0, "invoices": []}
    turned_away = assert_tool_error(busy, retryable=True, outcome="not_applied")
    assert turned_away.retry_after == 2.0
    unanswered = assert_tool_error(lost, retryable=False, outcome="unknown")
    sent = [json.loads(line)["x_request_id"] for line in (tmp_path / "upstream.jsonl").read_text().splitlines()]
    assert {turned_away.request_id, unanswered.request_id} <= set(sent)
