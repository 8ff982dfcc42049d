"""A successful and a crashing `tools/call` over the host's in-memory client, on a bare and an attached server.

Send stderr to a file, not to a terminal: bare hosts log a crash there, and fastmcp paints it first.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import timing

import iserror
from iserror import ToolErrors


def find_host() -> tuple[str, str]:
    """Name and version of the host that is installed here."""
    try:
        return "fastmcp", version("fastmcp")
    except PackageNotFoundError:
        return "mcp", version("mcp")


HOST, VERSION = find_host()
ON_SDK_1 = HOST == "mcp" and VERSION.startswith("1.")

if HOST == "fastmcp":
    from fastmcp import FastMCP
elif ON_SDK_1:
    from mcp.server.fastmcp import FastMCP
else:
    from mcp.server.mcpserver import MCPServer as FastMCP


def new_server(name: str) -> Any:
    """A server with the host's settings as they are, and three tools."""
    server = FastMCP(name)
    unstructured = {"output_schema": None} if HOST == "fastmcp" else {"structured_output": False}

    @server.tool()
    async def total(prices: list[int]) -> dict[str, int]:
        return {"total": sum(prices)}

    @server.tool(**unstructured)
    async def total_unstructured(prices: list[int]) -> dict[str, int]:
        return {"total": sum(prices)}

    @server.tool()
    async def crash(prices: list[int]) -> dict[str, int]:
        return {"total": _load(prices)}

    return server


def _load(prices: list[int]) -> int:
    return _query(prices)


def _query(prices: list[int]) -> int:
    # Another text each time, so that no cache makes it look cheap.
    raise RuntimeError(f"connection {next(number)} to postgresql://app:hunter2@db.internal:5432/prices was refused")


number = itertools.count()


Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


@contextlib.asynccontextmanager
async def connect(server: Any) -> AsyncIterator[Call]:
    """The host's own client, in memory."""
    if HOST == "fastmcp":
        from fastmcp import Client as FastMCPClient

        async with FastMCPClient(server) as client:
            yield client.call_tool_mcp
    elif ON_SDK_1:
        from mcp.shared.memory import create_connected_server_and_client_session

        async with create_connected_server_and_client_session(server._mcp_server) as session:
            yield session.call_tool
    else:
        from mcp import Client

        async with Client(server) as client:
            yield client.call_tool


def batch(call: Call, tool: str) -> timing.Batch:
    async def once() -> None:
        # fastmcp 4 with its ErrorHandlingMiddleware answers a crash with a JSON-RPC error.
        with contextlib.suppress(Exception):
            await call(tool, {"prices": [1, 2, 3]})

    return timing.awaits(once)


async def run(quick: bool) -> timing.Row:
    servers = {"bare": new_server("bare"), "attached": new_server("attached")}
    ToolErrors().attach(servers["attached"])
    if HOST == "fastmcp":
        from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware

        servers["middleware"] = new_server("middleware")
        servers["middleware"].add_middleware(ErrorHandlingMiddleware())

    async with contextlib.AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(connect(server)) for name, server in servers.items()}
        pair = ("bare", "attached")
        rounds = 3 if quick else 200
        ok = await timing.compare({name: batch(clients[name], "total") for name in pair}, rounds=rounds, sizes=10)
        plain = await timing.compare(
            {name: batch(clients[name], "total_unstructured") for name in pair}, rounds=rounds, sizes=10
        )
        crashes = {name: batch(client, "crash") for name, client in clients.items()}
        crashes["success"] = batch(clients["attached"], "total")
        failed = await timing.compare(crashes, rounds=3 if quick else 80, sizes=3)

    row = {
        "host": f"{HOST} {VERSION}",
        "success: attached / bare": ok.ratio("attached", "bare"),
        "the same without output schema": plain.ratio("attached", "bare"),
        "attached: crash / success": failed.ratio("attached", "success"),
        "crash: attached / bare": failed.ratio("attached", "bare"),
        "bare success, ms": ok.seconds("bare") * 1e3,
        "attach adds to a success, µs": ok.difference("attached", "bare") * 1e6,
        "without output schema, µs": plain.difference("attached", "bare") * 1e6,
        "bare crash, ms": failed.seconds("bare") * 1e3,
        "attached crash, ms": failed.seconds("attached") * 1e3,
    }
    if "middleware" in servers:
        row["bare crash with ErrorHandlingMiddleware, ms"] = failed.seconds("middleware") * 1e3
    return row


def measure(quick: bool) -> list[timing.Row]:
    with tempfile.TemporaryDirectory() as folder:
        iserror.configure_logging(Path(folder, "calls.jsonl"))
        return [asyncio.run(run(quick))]


if __name__ == "__main__":
    timing.main(measure, __doc__)
