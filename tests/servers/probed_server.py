"""Servers whose tools write, and look as if they validated arguments when they don't.

`python probed_server.py FACTORY` serves one over stdio, `python probed_server.py FACTORY --http --port N` over HTTP. In
memory, `probed_server.py:FACTORY` makes it. `plain` notes each tool that runs in the file that `PROBE_RUNS` names;
`openapi`, for fastmcp, sends each call to the service at `PROBE_UPSTREAM`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BeforeValidator

from iserror import ToolErrors
from tests.helpers import hosts

PAGED: list[BaseException] = []

Coerced = Annotated[int, BeforeValidator(lambda value: value if isinstance(value, int) else 7)]
"""An integer by its schema, and anything by what the tool accepts."""


def _run(tool: str) -> str:
    with open(os.environ["PROBE_RUNS"], "a") as file:
        file.write(f"{tool}\n")
    raise hosts.ToolError("422 Unprocessable Entity: amount is not an integer")


def plain() -> Any:
    """Make a server whose functions coerce their arguments, run, and refuse as a service behind them would."""
    server = hosts.new_server("plain")

    @server.tool()
    def pay(amount: Coerced = 0) -> str:
        return _run("pay")

    @server.tool(annotations=hosts.annotations(readOnlyHint=False))
    def refund(amount: Coerced = 0) -> str:
        return _run("refund")

    @server.tool(annotations=hosts.annotations(idempotentHint=True, destructiveHint=False))
    def book(amount: Coerced = 0) -> str:
        return _run("book")

    @server.tool(annotations=hosts.annotations(readOnlyHint=True))
    def read(amount: Coerced = 0) -> str:
        return _run("read")

    @server.tool()
    def strict(amount: int) -> str:
        return _run("strict")

    return server


def hooked() -> Any:
    """Make a guarded server with a hook, and a tool that the host refuses bad arguments for."""
    server = hosts.new_server("hooked")
    ToolErrors(on_error=lambda exc, failure: PAGED.append(exc)).attach(server)

    @server.tool()
    def strict(amount: int) -> str:
        return _run("strict")

    return server


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


def lowlevel() -> Any:
    """Make a server of the SDK itself."""
    import mcp.types as types
    from mcp.server.lowlevel import Server

    def tools() -> list[Any]:
        read = {"annotations": {"readOnlyHint": True}}
        made = [{"name": "read", **read}, {"name": "pay"}]
        return [types.Tool.model_validate({**tool, "inputSchema": SCHEMA}) for tool in made]

    if hosts.HOST in ("mcp1", "fastmcp3"):
        server: Any = Server("lowlevel")
        server.list_tools()(_in_a_coroutine(tools))
        server.call_tool(validate_input=False)(_in_a_coroutine(lambda name, arguments: _run(name)))
        return server

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=tools())

    async def call_tool(context: Any, params: Any) -> Any:
        if params.name not in ("read", "pay"):
            raise hosts.protocol_error(-32602, "Unknown tool")
        return _run(params.name)

    return Server("lowlevel", on_list_tools=list_tools, on_call_tool=call_tool)


def _in_a_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    async def called(*args: Any) -> Any:
        return function(*args)

    return called


def proxied() -> Any:
    """Make a server with a proxy of another beside a function of its own."""
    from fastmcp.server import create_proxy

    remote, server = hosts.new_server("remote"), hosts.new_server("proxied")

    @remote.tool(annotations=hosts.annotations(readOnlyHint=True))
    def read(amount: Coerced) -> str:
        return _run("read")

    @remote.tool
    def write(amount: Coerced) -> str:
        return _run("write")

    @server.tool
    def near(amount: int) -> str:
        return _run("near")

    server.mount(create_proxy(remote), "far")
    return server


def _operation(name: str, *parameters: str, body: bool = False) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "responses": {"200": {"description": "done"}},
        "parameters": [
            {"name": parameter, "in": "path", "required": True, "schema": {"type": "integer"}}
            for parameter in parameters
        ],
    }
    if body:
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "orders", "version": "1"},
    "paths": {
        "/orders": {"post": _operation("order", body=True)},
        "/orders/{id}": {
            "get": _operation("read_order", "id"),
            "put": _operation("change_order", "id", body=True),
            "delete": _operation("delete_order", "id"),
        },
        "/jobs": {"post": _operation("start_job", body=True)},
        "/exports/{id}": {"get": _operation("start_export", "id")},
    },
}


def openapi() -> Any:
    """Make the server from an OpenAPI document; one of its tools is annotated as read-only."""
    if hosts.ON_SDK_1:
        import httpx as library
    else:
        import httpx2 as library  # type: ignore[import-not-found, unused-ignore]

    def annotate(route: Any, component: Any) -> None:
        if component.name == "read_order":
            component.annotations = hosts.annotations(readOnlyHint=True)

    client = library.AsyncClient(base_url=os.environ["PROBE_UPSTREAM"])
    return hosts.FastMCP.from_openapi(OPENAPI, client=client, name="orders", mcp_component_fn=annotate)


def main() -> None:
    server = {"plain": plain, "openapi": openapi}[next(word for word in sys.argv[1:] if word in ("plain", "openapi"))]()
    quiet = {"show_banner": False} if hosts.IS_FASTMCP else {}
    if "--http" not in sys.argv:
        server.run(**quiet)
        return
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if hosts.HOST == "mcp1":
        server.settings.port = port
        server.run("streamable-http")
    else:
        server.run("http" if hosts.IS_FASTMCP else "streamable-http", port=port, **quiet)


if __name__ == "__main__":
    main()
