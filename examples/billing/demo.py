"""What `make demo` runs: the same calls to the bare server and to the guarded one, side by side.

Starts the payment API and both servers (over stdio, on whatever host is installed), calls them through
the official client, prints what the model and the host see, and follows two request ids: a crash's to its
traceback in the log, and a failed lookup's to the payment API's own log. Exits 1 if anything is not as
it should be.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).resolve().parent
MCP_MAJOR = int(importlib.metadata.version("mcp").split(".")[0])
WIDTH = 100
DEADLINE_SECONDS = 60.0

if MCP_MAJOR >= 2:
    from mcp import Client, MCPError
else:
    from mcp import ClientSession
    from mcp import McpError as MCPError


@dataclass(frozen=True)
class Step:
    """One call, and what the guarded server has to answer: OK, a failure's code, or a protocol error's."""

    shows: str
    tool: str
    arguments: dict[str, Any]
    expected: str | int
    advice: str = ""


OK = "OK"
INVALID_PARAMS = -32602
STEPS = [
    Step("a success", "get_invoice", {"invoice_id": "INV-1001"}, OK),
    Step(
        "not found: the model can mend it",
        "get_invoice",
        {"invoice_id": "1001"},
        "INVOICE_NOT_FOUND",
        "change the call first",
    ),
    Step(
        "the payment API answers 503 to a read",
        "get_invoice",
        {"invoice_id": "INV-1004"},
        "PAYMENT_SERVICE_UNAVAILABLE",
        "may be repeated after 2 s",
    ),
    Step("an empty answer is a success", "find_invoices", {"customer": "Nobody & Sons"}, OK),
    Step("a payment goes through", "pay_invoice", {"invoice_id": "INV-1001", "amount": 12000}, OK),
    Step(
        "the payment is declined",
        "pay_invoice",
        {"invoice_id": "INV-1003", "amount": 23900},
        "PAYMENT_DECLINED",
        "change the call first",
    ),
    Step(
        "503 to a write: nothing was charged, so it is safe to repeat",
        "pay_invoice",
        {"invoice_id": "INV-1004", "amount": 1999},
        "PAYMENT_SERVICE_UNAVAILABLE",
        "may be repeated after 2 s",
    ),
    Step(
        "the payment went out and no answer came: it must not be repeated",
        "pay_invoice",
        {"invoice_id": "INV-1005", "amount": 88000},
        "PAYMENT_OUTCOME_UNKNOWN",
        "it may have taken effect, check before any further call",
    ),
    Step("and indeed it was charged", "get_invoice", {"invoice_id": "INV-1005"}, OK),
    Step(
        "arguments that do not fit",
        "pay_invoice",
        {"invoice_id": "INV-1001", "amount": -4111},
        "INVALID_ARGUMENTS",
        "change the call first",
    ),
    Step("an unknown tool: the host's business, not the model's", "refund_invoice", {}, INVALID_PARAMS),
    Step(
        "a crash, with a password, a path and a token in its text",
        "export_report",
        {"month": "2026-06"},
        "INTERNAL_ERROR",
        "it may have taken effect, check before any further call",
    ),
]
# What the crash holds and no client may ever see; the log's reader shows the path, never the others.
CRASH_PATH = "/srv/billing/exports"
CRASH_SECRETS = ["correct-horse", "0aB1cD2eF3"]


@dataclass(frozen=True)
class Answer:
    """One answer, the way model and host get to see it."""

    code: str | int
    """`OK`, the failure's code, `isError` for an error result without one, or the JSON-RPC code."""
    text: str
    host_sees: str
    request_id: str | None
    whole: str
    """Everything that came over the wire, to look for leaks in."""


@dataclass
class Side:
    """One server, bare or guarded, with a payment API of its own."""

    name: str
    folder: Path
    client: Any = None
    answers: list[Answer] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """Folder of the failure log."""
        return self.folder / "log"

    @property
    def upstream_log(self) -> Path:
        """The payment API's log."""
        return self.folder / "upstream.jsonl"

    async def call(self, step: Step) -> Answer:
        """Make one call."""
        try:
            result = await self.client.call_tool(step.tool, step.arguments)
        except MCPError as exc:
            answer = _protocol_error(exc.error.model_dump(mode="json", exclude_none=True))
        else:
            answer = _tool_result(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.answers.append(answer)
        return answer


def _protocol_error(error: dict[str, Any]) -> Answer:
    data = error.get("data")
    request_id = data.get("iserror/request_id") if isinstance(data, dict) else None
    host_sees = f"JSON-RPC error {error['code']}: {error['message']}"
    text = "(nothing: the error goes to the host)"
    return Answer(error["code"], text, host_sees, request_id, json.dumps(error))


def _tool_result(result: dict[str, Any]) -> Answer:
    text = "\n".join(part.get("text", "") for part in result["content"])
    failure = result.get("_meta", {}).get("iserror/failure", {})
    if not result.get("isError"):
        code, host_sees = OK, "result, isError: false"
    elif failure:
        code = failure["code"]
        host_sees = (
            f"result, isError: true, code {code}\n"
            f"category {failure['category']}, retryable {json.dumps(failure['retryable'])},"
            f" outcome {failure['outcome']}"
        )
    else:
        code, host_sees = "isError", "result, isError: true"
    return Answer(code, text, host_sees, failure.get("request_id"), json.dumps(result))


def server_module() -> str:
    """The server for the host that is installed here; fastmcp goes first, since it brings mcp along."""
    try:
        return f"server_fastmcp{importlib.metadata.version('fastmcp').split('.')[0]}.py"
    except importlib.metadata.PackageNotFoundError:
        return f"server_mcp{MCP_MAJOR}.py"


@contextmanager
def payment_api(log: Path) -> Iterator[str]:
    """Run upstream.py; gives its URL."""
    command = [sys.executable, str(HERE / "upstream.py"), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()  # printed once it listens; empty when it died
            if not url:
                raise RuntimeError("the payment API did not start")
            yield url
        finally:
            process.kill()


@asynccontextmanager
async def running_server(side: Side) -> AsyncIterator[Any]:
    """Run the side's payment API and server; gives the streams to talk to the server, over stdio."""
    side.log.mkdir(parents=True)
    with (
        payment_api(side.upstream_log) as url,
        # The server's stderr: hosts are talkative there, and it would run into our lines.
        (side.folder / "stderr.txt").open("w", encoding="utf-8") as errlog,
    ):
        database = side.folder / "billing.sqlite3"
        arguments = [str(HERE / server_module()), "--db", str(database), "--upstream", url]
        arguments += ["--bare"] if side.name == "bare" else ["--log", str(side.log)]
        # The client passes on next to nothing of the environment; PYTHONPATH for one would be missing.
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with stdio_client(parameters, errlog=errlog) as streams:
            yield streams


@asynccontextmanager
async def connected_client(streams: Any) -> AsyncIterator[Any]:
    """Connect the client of the installed SDK."""
    if MCP_MAJOR >= 2:
        async with Client(nullcontext(streams)) as client:
            yield client
    else:
        async with ClientSession(*streams) as session:
            await session.initialize()
            yield session


def show(label: str, text: str) -> None:
    """Print a labelled text, its lines wrapped under one another."""
    for paragraph in text.splitlines() or ["(empty)"]:
        for line in textwrap.wrap(paragraph, WIDTH - 24, drop_whitespace=True) or [""]:
            print(f"  {label:<20}  {line}".rstrip())
            label = ""


def headline(text: str) -> None:
    """Print a rule and a title."""
    print("\n" + "─" * WIDTH + f"\n{text}")


def faults_of(step: Step, answer: Answer) -> Iterator[str]:
    """What is wrong with a guarded answer."""
    if answer.code != step.expected:
        yield f"expected {step.expected}, got {answer.code}: {answer.whole}"
    if step.advice not in answer.text:
        yield f"the text does not say {step.advice!r}: {answer.text!r}"
    if step.expected != OK and not answer.request_id:
        yield "a failure without a request id"
    for secret in [*CRASH_SECRETS, CRASH_PATH, "-4111", "Error executing tool", "Error calling tool"]:
        if secret in answer.whole:
            yield f"{secret!r} reached the client"


async def make_calls(bare: Side, guarded: Side) -> list[str]:
    """Make every call on both sides, print what comes of it, and return what is wrong."""
    faults = []
    for number, step in enumerate(STEPS, 1):
        before, after = await asyncio.gather(bare.call(step), guarded.call(step))
        arguments = ", ".join(f"{name}={value!r}" for name, value in step.arguments.items())
        headline(f"{number:>2}  {step.shows}\n    {step.tool}({arguments})")
        for side, answer in ((bare, before), (guarded, after)):
            print()
            show(f"{side.name:<7}  host sees", answer.host_sees)
            show("         model sees", answer.text)
        show("         request id", after.request_id or "(none: a success carries no id)")
        faults += [f"call {number}, {step.tool}: {fault}" for fault in faults_of(step, after)]
    return faults


def follow_crash(guarded: Side) -> list[str]:
    """Look the crash up in the log by its request id, as an operator would."""
    request_id = guarded.answers[-1].request_id or "none"
    headline("The crash's request id is all that an operator needs:\n")
    print(f"$ iserror trace {request_id} LOG\n")
    trace, faults = run_command("trace", request_id, str(guarded.log))
    wanted = ["RuntimeError", "FileNotFoundError", "service.py", "export_report"]
    faults += [f"iserror trace does not show {word!r}" for word in wanted if word not in trace]
    faults += [f"iserror trace shows {secret!r}" for secret in CRASH_SECRETS if secret in trace]
    return faults


def report(guarded: Side) -> list[str]:
    """Ask what the failures say about the tools: the crash has no entry in the map, and here is one."""
    headline("What the map of errors lacks, and which failures come again:\n")
    print("$ iserror report LOG\n")
    text, faults = run_command("report", str(guarded.log))
    wanted = ["export_report", "INTERNAL_ERROR", "Crashes without an entry in the map: 1"]
    return faults + [f"iserror report does not show {word!r}" for word in wanted if word not in text]


def run_command(*arguments: str) -> tuple[str, list[str]]:
    """Run and print a command of ours; what it says, and what is wrong."""
    command = [sys.executable, "-m", "iserror", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=DEADLINE_SECONDS)
    print(textwrap.indent((done.stdout + done.stderr).rstrip(), "  "))
    return done.stdout, [f"iserror {arguments[0]} exited with {done.returncode}"] if done.returncode else []


def follow_lookup(guarded: Side) -> list[str]:
    """Find the failed lookup (call 3) in the payment API's log."""
    request_id = guarded.answers[2].request_id
    headline("The payment API's own log has the request id of call 3, sent along as X-Request-Id:\n")
    lines = guarded.upstream_log.read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if request_id and json.loads(line)["x_request_id"] == request_id]
    print(textwrap.indent("\n".join(found), "  "))
    return [] if found else [f"no {request_id} in the payment API's log"]


async def demo(folder: Path) -> list[str]:
    """Run it all; returns what was not as expected."""
    host = server_module().removeprefix("server_").removesuffix(".py")
    print(f"The billing example on {host} (mcp {importlib.metadata.version('mcp')}), bare and guarded.")
    bare, guarded = Side("bare", folder / "bare"), Side("guarded", folder / "guarded")
    async with AsyncExitStack() as stack:
        # Both processes first, then both connections: they take their seconds of imports side by side.
        streams = [await stack.enter_async_context(running_server(side)) for side in (bare, guarded)]
        for side, stream in zip((bare, guarded), streams, strict=True):
            side.client = await stack.enter_async_context(connected_client(stream))
        faults = await make_calls(bare, guarded)
        faults += follow_crash(guarded)
        faults += follow_lookup(guarded)
        faults += report(guarded)
    return faults


def main() -> int:
    """Run the demonstration."""
    # Ended like by Ctrl-C, so that a `kill` or a CI's time limit leaves no process or folder behind either.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="iserror-demo-") as folder:
        faults = asyncio.run(asyncio.wait_for(demo(Path(folder)), DEADLINE_SECONDS))
    headline("Not as expected:" if faults else "All of it as expected.")
    for fault in faults:
        print(f"  - {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
