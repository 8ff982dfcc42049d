"""The host under test: its server, its error classes, and real clients on every transport.

One test environment has one host installed; which one decides `HOST`. Nothing else in the tests asks.
"""

from __future__ import annotations

import contextlib
import importlib.metadata as metadata
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def _version(package: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in re.findall(r"\d+", metadata.version(package))[:3])
    except metadata.PackageNotFoundError:
        return None


FASTMCP = _version("fastmcp")
MCP = _version("mcp") or (0,)
HOST = f"fastmcp{FASTMCP[0]}" if FASTMCP else f"mcp{MCP[0]}"
IS_FASTMCP = FASTMCP is not None
ON_SDK_1 = MCP[0] == 1
# mcp 2.x and fastmcp 4 talk to their own clients in this revision, the others in 2025-11-25.
MODERN = not ON_SDK_1

if HOST == "mcp1":
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.fastmcp.exceptions import ToolError
elif HOST == "mcp2":
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as FastMCP
    from mcp.server.mcpserver.exceptions import ToolError
else:
    from fastmcp import Context, FastMCP
    from fastmcp.exceptions import ToolError

if HOST == "mcp2":
    from mcp.server.mcpserver import exceptions as _exceptions

    WITHHOLDS = hasattr(_exceptions, "UnexpectedToolError")
else:
    WITHHOLDS = False
"""Whether the bare host hides a crash's text from the client, and logs it: mcp 2.0 doesn't yet."""

from mcp import types
from mcp.types import CallToolResult, TextContent

if ON_SDK_1:
    from mcp.shared.exceptions import McpError as ProtocolError
else:
    from mcp import MCPError as ProtocolError

__all__ = ["CallToolResult", "Context", "FastMCP", "ProtocolError", "TextContent", "ToolError", "types"]

Call = Callable[..., Awaitable[dict[str, Any]]]


def new_server(name: str = "tests", **settings: Any) -> Any:
    """A bare server of this host."""
    return FastMCP(name, **settings)


def protocol_error(code: int, message: str, data: Any = None) -> Exception:
    """The SDK's protocol error, as an author raises it."""
    if ON_SDK_1:
        return ProtocolError(types.ErrorData(code=code, message=message, data=data))
    return ProtocolError(code, message, data)


def error_result(text: str, *, meta: dict[str, Any] | None = None, structured: Any = None) -> Any:
    """The SDK's own error result, as a tool returns it."""
    content = [TextContent(type="text", text=text)]
    names = (
        {"isError": True, "structuredContent": structured}
        if ON_SDK_1
        else {"is_error": True, "structured_content": structured}
    )
    return CallToolResult(content=content, _meta=meta, **names)


def host_error_result(text: str, *, meta: dict[str, Any] | None = None, structured: Any = None) -> Any:
    """The error result that the host documents for its tools."""
    if not IS_FASTMCP:
        return error_result(text, meta=meta, structured=structured)
    from fastmcp.tools.base import ToolResult

    return ToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, meta=meta, is_error=True
    )


def annotations(**hints: bool) -> Any:
    """Tool annotations in the form that every host takes."""
    return types.ToolAnnotations(**hints)


# --- clients -------------------------------------------------------------------------------------------------


def _as_json(result: Any) -> dict[str, Any]:
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


def caller(raw: Callable[..., Awaitable[Any]]) -> Call:
    async def call(tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        try:
            return _as_json(await raw(tool, arguments or {}, **more))
        except ProtocolError as exc:
            error = {"code": exc.error.code, "message": exc.error.message, "data": exc.error.data}
            return {"error": {key: value for key, value in error.items() if value is not None}}

    return call


@contextlib.asynccontextmanager
async def in_memory(server: Any, **settings: Any) -> AsyncIterator[Call]:
    """Connect the host's own in-memory client."""
    from iserror.testing import connect  # servers import this module too

    async with connect(server, **settings) as connection:
        client = connection.client
        yield caller(client.call_tool_mcp if IS_FASTMCP else client.call_tool)


@contextlib.asynccontextmanager
async def over_stdio(script: str, *arguments: str, errlog: Any = None) -> AsyncIterator[Call]:
    """Start a server script and connect the official client over stdio."""
    async with sdk_stdio(script, *arguments, errlog=errlog) as session:
        yield caller(session.call_tool)


@contextlib.asynccontextmanager
async def sdk_stdio(
    script: str, *arguments: str, errlog: Any = None, python: str = sys.executable
) -> AsyncIterator[Any]:
    """The official client's session over stdio: `ClientSession` of mcp 1.x, `Client` of mcp 2.x."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    with open(os.devnull, "w") as nowhere:
        parameters = StdioServerParameters(command=python, args=[str(ROOT / script), *arguments], env=dict(os.environ))
        transport = stdio_client(parameters, errlog=errlog or nowhere)
        if ON_SDK_1:
            async with transport as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                yield session
        else:
            from mcp import Client

            async with Client(transport) as client:
                yield client


@contextlib.asynccontextmanager
async def over_http(server: Any, *, stateless: bool = False) -> AsyncIterator[Call]:
    """Serve a server in a thread and connect the official client over streamable HTTP."""
    with serving(server, stateless=stateless) as url:
        async with sdk_http(url) as session:
            yield caller(session.call_tool)


@contextlib.asynccontextmanager
async def sdk_http(url: str) -> AsyncIterator[Any]:
    """The official client's session over streamable HTTP."""
    if ON_SDK_1:
        from mcp import ClientSession
        from mcp.client import streamable_http

        # The older name goes with a warning in later 1.x, the newer one is missing in earlier.
        connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
        async with connect(url) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            yield session
    else:
        from mcp import Client

        async with Client(url) as client:
            yield client


@contextlib.asynccontextmanager
async def fastmcp_stdio(script: str, *arguments: str, python: str = sys.executable) -> AsyncIterator[Any]:
    """The fastmcp package's client over stdio."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    command = [str(ROOT / script), *arguments]
    transport = StdioTransport(python, command, env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        yield client


@contextlib.asynccontextmanager
async def fastmcp_http(url: str) -> AsyncIterator[Any]:
    """The fastmcp package's client over streamable HTTP."""
    from fastmcp import Client

    async with Client(url) as client:
        yield client


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(server: Any, *, stateless: bool = False, port: int = 0) -> Iterator[str]:
    """Serve a server over HTTP in a thread of this process until the block ends; gives its URL.

    A process of its own would first have to import all that this one has.
    """
    import uvicorn

    if HOST == "mcp1":
        server.settings.stateless_http = stateless
        app = server.streamable_http_app()
    elif HOST == "mcp2":
        app = server.streamable_http_app(stateless_http=stateless)
    else:
        app = server.http_app(stateless_http=stateless)
    listener = socket.create_server(("127.0.0.1", port))  # from here on a client waits until it is answered
    runner = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, name="the server under test")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        runner.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextlib.contextmanager
def serving_http(
    script: str, port: int, *arguments: str, python: str = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server script with `--http --port PORT` until the block ends."""
    command = [python, str(ROOT / script), "--http", "--port", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(2400):  # the first start of an environment compiles all that it imports
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                assert process.poll() is None, f"{script} ended with {process.returncode}"
                time.sleep(0.05)
            else:
                raise AssertionError(f"{script} does not listen on port {port}")
            yield process
        finally:
            process.kill()


class RawStdio:
    """A server script spoken to with hand-written JSON-RPC lines, in a revision of the test's choice.

    `noise` collects what came on stdout and is no JSON.
    """

    def __init__(
        self, script: str, *arguments: str, version: str = "2025-06-18", env: dict[str, str] | None = None
    ) -> None:
        # No pipe, which nobody reads until the end: a server that fills it stands still.
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, **(env or {})},
        )
        self.noise: list[str] = []
        self._id = 0
        info = {"name": "raw", "version": "1"}
        self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})
        self.send({"method": "notifications/initialized"})

    def __enter__(self) -> RawStdio:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer: the message, `result` or `error` in it."""
        self._id += 1
        self.send({"method": method, "params": params, "id": self._id})
        return self.read(self._id)

    def read(self, wanted: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                self.noise.append(line.decode(errors="replace"))
                continue
            if message.get("id") == wanted:
                return message
        raise AssertionError(f"no answer: the server ended with {self.process.wait(5)}")

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def close(self) -> str:
        """End the server; returns what it wrote to stderr."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if self._stderr.closed:
            return ""
        with self._stderr as stderr:
            stderr.seek(0)
            return stderr.read().decode(errors="replace")


# --- what is compared ----------------------------------------------------------------------------------------

_ID = re.compile(r"\b[0-9a-f]{32}\b")


def normalize(answer: dict[str, Any]) -> dict[str, Any]:
    """The wire result without what differs by nature: ids, and what the host puts in on its own."""
    answer = json.loads(_ID.sub("<id>", json.dumps({k: v for k, v in answer.items() if k in ("result", "error")})))
    result = answer.get("result")
    if isinstance(result, dict):
        result.pop("resultType", None)
        meta = result.get("_meta", {})
        for key in [key for key in meta if key.startswith("io.modelcontextprotocol/") or key == "fastmcp"]:
            del meta[key]
        if not meta:
            result.pop("_meta", None)
    return answer


def text_of(answer: dict[str, Any]) -> str:
    """The text for the model."""
    return "\n".join(block.get("text", "") for block in answer["result"]["content"])


def failure_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The envelope."""
    envelope = answer["result"]["_meta"]["iserror/failure"]
    assert isinstance(envelope, dict)
    return envelope
