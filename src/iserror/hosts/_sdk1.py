"""The wire layer on the 1.x SDK, for its own `FastMCP` and for fastmcp 3.

Its `tools/call` handler catches everything but one exception, so the layer wraps that handler as a whole: a
protocol error is raised outside of it, where the session sends it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.exceptions import McpError
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from iserror.errors.arguments import reasons_of_json
from iserror.errors.problem import Problem, invalid_arguments, invalid_output
from iserror.guard import ToolErrors
from iserror.hosts._mcp import facts, new_call, served
from iserror.layers.call import Call
from iserror.layers.wire import serve
from iserror.support.schema import OutputSchemaError, describe_error

# Without an MCP-Protocol-Version header (specification 2025-06-18, transports, protocol version header).
DEFAULT_HTTP_VERSION = "2025-03-26"


class Wire:
    """What the wire layer needs to know of the 1.x SDK."""

    def __init__(self, is_unknown_tool: Callable[[BaseException], bool]) -> None:
        self.is_unknown_tool = is_unknown_tool

    def error_parts(self, result: Any) -> tuple[list[str], object] | None:
        root = getattr(result, "root", None)
        if not isinstance(root, types.CallToolResult) or root.isError is not True:
            return None
        return [block.text for block in root.content if isinstance(block, types.TextContent)], root.meta

    def error_result(self, call: Call, text: str, structured: Mapping[str, Any] | None, meta: Mapping[str, Any]) -> Any:
        return types.ServerResult(
            types.CallToolResult(
                content=[types.TextContent(type="text", text=text)],
                structuredContent=dict(structured) if structured is not None else None,
                isError=True,
                _meta=dict(meta),
            )
        )

    def led(self, result: Any, line: Callable[[object, str], str | None]) -> Any:
        root = getattr(result, "root", None)
        if not isinstance(root, types.CallToolResult):
            return result
        first, rest = types.TextContent(type="text", text=""), root.content
        if rest and isinstance(rest[0], types.TextContent):
            first, rest = rest[0], rest[1:]
        said = line(root.structuredContent, first.text)
        if said is None:
            return result
        led = first.model_copy(update={"text": f"{said}\n{first.text}"})
        return types.ServerResult(root.model_copy(update={"content": [led, *rest]}))

    def protocol_error(self, code: int, message: str, data: Any) -> Any:
        return McpError(types.ErrorData(code=code, message=message, data=data))


def wrap_handler(lowlevel: Any, guard: ToolErrors, wire: Wire, before: Callable[[], None]) -> None:
    """Put the wire layer round the server's `tools/call` handler, and see what that handler makes texts of.

    Args:
        lowlevel: The SDK's lowlevel server.
        guard: The guard.
        wire: The SDK's forms.
        before: Called as each request comes in, to see that the inner hooks are still there.
    """
    inner = lowlevel.request_handlers[types.CallToolRequest]

    async def handler(request: types.CallToolRequest) -> Any:
        before()
        return await serve(wire, _open(lowlevel, guard, request), lambda: inner(request))

    lowlevel.request_handlers[types.CallToolRequest] = handler
    make = lowlevel._make_error_result

    def make_error_result(message: str) -> Any:
        call = served()
        if call is not None and call.problem is None:
            # The SDK calls this where it catches, so that the exception is still at hand.
            exc = sys.exc_info()[1]
            if exc is None or type(exc).__module__.startswith("jsonschema"):
                call.problem = _schema_problem(lowlevel, call, message, exc)
            else:
                call.escaped = exc
        return make(message)

    lowlevel._make_error_result = make_error_result


def _schema_problem(lowlevel: Any, call: Call, message: str, error: Any) -> Problem:
    """The SDK's own checks: of arguments, where fastmcp is strict about them, and of the result."""
    if not message.startswith("Input validation error"):
        return invalid_output(
            OutputSchemaError(describe_error(error) if error is not None else "no structured content")
        )
    tool = lowlevel._tool_cache[call.tool]
    call.output_schema, call.annotations = tool.outputSchema, tool.annotations
    return invalid_arguments(reasons_of_json(tool.inputSchema, dict(call.arguments or {})), None)


def _open(lowlevel: Any, guard: ToolErrors, request: types.CallToolRequest) -> Call:
    context = request_ctx.get(None)
    meta = getattr(context, "meta", None)
    sent = getattr(meta, "model_extra", None)
    jsonrpc_id = getattr(context, "request_id", None)
    call = new_call(guard, request.params.name, request.params.arguments or {}, sent, jsonrpc_id)
    if context is not None:
        call.protocol_version = protocol_version(context)
        call.request = context.request
    call.facts = lambda: facts(lowlevel.name, context)
    return call


def protocol_version(context: Any) -> str | None:
    """The revision in force: what the client asked for if supported, else the SDK's latest; None if unknowable."""
    params = getattr(context.session, "client_params", None)
    if params is not None:
        requested = str(params.protocolVersion)
        return requested if requested in SUPPORTED_PROTOCOL_VERSIONS else types.LATEST_PROTOCOL_VERSION
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return None
    return headers.get("mcp-protocol-version") or DEFAULT_HTTP_VERSION
