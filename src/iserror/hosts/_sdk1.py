"""The wire layer on the 1.x SDK, for its own `FastMCP` and for fastmcp 3.

Its `tools/call` handler catches everything but one exception, so the layer wraps that handler as a whole: a
protocol error is raised outside of it, where the session sends it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp import types
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.exceptions import McpError
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from iserror.errors.arguments import reasons_of_json
from iserror.errors.problem import invalid_arguments
from iserror.hosts._mcp import as_mapping, facts, open_call, safe_jsonrpc_id, served, without_own_keys
from iserror.layers.call import Call, Request
from iserror.layers.returned import unfit
from iserror.layers.settings import Settings
from iserror.layers.wire import serve
from iserror.support.look import shield
from iserror.support.otel import trace_id
from iserror.support.schema import OutputSchemaError, describe_error
from iserror.support.sdk import UNKNOWN_REQUEST

# Without an MCP-Protocol-Version header (specification 2025-06-18, transports, protocol version header).
DEFAULT_HTTP_VERSION = "2025-03-26"


class Sdk1Wire:
    """The forms of the 1.x SDK."""

    def __init__(
        self,
        is_unknown_tool: Callable[[BaseException], bool],
        logged: Callable[[str], tuple[str, str] | None] = lambda _: None,
    ) -> None:
        self.is_unknown_tool = is_unknown_tool
        self.logged = logged
        """Returns the logger and the message of a failure of the tool of this name; None if the host logs none."""

    def error_in(self, result: Any) -> tuple[object, object, object] | None:
        root = getattr(result, "root", None)
        if not isinstance(root, types.CallToolResult) or root.isError is not True:
            return None
        return root.content, root.structuredContent, root.meta

    def error_result(
        self,
        content: Sequence[Mapping[str, Any]],
        structured: Mapping[str, Any] | None,
        meta: Mapping[str, Any],
        version: str | None,
    ) -> Any:
        made = {"content": list(content), "structuredContent": structured, "isError": True, "_meta": dict(meta)}
        return types.ServerResult(types.CallToolResult.model_validate(made))

    def led(self, result: Any, line: Callable[[object, str], str | None]) -> Any:
        root = getattr(result, "root", None)
        if not isinstance(root, types.CallToolResult):
            return result
        kept = without_own_keys(root.meta) if root.meta else None
        if kept is not None:
            root = root.model_copy(update={"meta": kept or None})
            result = types.ServerResult(root)
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


def wrap_handler(lowlevel: Any, settings: Settings, wire: Sdk1Wire, before: Callable[[], None]) -> None:
    """Put the wire layer around the server's `tools/call` handler, and see the exceptions that it makes texts of.

    Args:
        lowlevel: The SDK's lowlevel server.
        settings: Those of the guard.
        wire: The SDK's forms.
        before: Called as each request comes in, to restore inner hooks that are gone.
    """
    inner = lowlevel.request_handlers[types.CallToolRequest]

    async def handler(request: types.CallToolRequest) -> Any:
        shield(before, None)
        opened = shield(_request_of, Request(), lowlevel, wire, request.params)
        return await serve(wire, open_call(settings, request.params.name, opened), lambda: inner(request))

    lowlevel.request_handlers[types.CallToolRequest] = handler
    make = lowlevel._make_error_result

    def make_error_result(message: str) -> Any:
        call = served()
        if call is not None and call.progress.problem is None:
            # The SDK calls this where it catches, so that the exception is still at hand.
            exc = sys.exc_info()[1]
            if exc is None or type(exc).__module__.startswith("jsonschema"):
                shield(_note_schema_problem, None, lowlevel, call, message, exc)
            else:
                call.progress.escapes(exc)
        return make(message)

    lowlevel._make_error_result = make_error_result


def _note_schema_problem(lowlevel: Any, call: Call, message: str, error: Any) -> None:
    """Note a failure of the SDK's own checks: of arguments, if fastmcp is strict about them, and of the result."""
    if not message.startswith("Input validation error"):
        bad = OutputSchemaError(describe_error(error) if error is not None else "no structured content")
        bad.broken = error
        call.progress.refused_by_host(unfit(call, bad))
        return
    tool = lowlevel._tool_cache[call.tool]
    reasons = reasons_of_json(tool.inputSchema, dict(call.request.arguments or {}))
    call.progress.refused_by_host(invalid_arguments(reasons, None), tool.annotations, tool.outputSchema)


def _request_of(lowlevel: Any, wire: Sdk1Wire, params: types.CallToolRequestParams) -> Request:
    context = request_ctx.get(None)
    meta = getattr(context, "meta", None)
    return Request(
        arguments=as_mapping(params.arguments or {}),
        logged=lambda: wire.logged(params.name),
        trace_id=trace_id(getattr(meta, "model_extra", None)),
        jsonrpc_id=safe_jsonrpc_id(getattr(context, "request_id", None)),
        protocol_version=protocol_version(context) if context is not None else None,
        http=context.request if context is not None else UNKNOWN_REQUEST,
        facts=lambda: facts(lowlevel.name, context),
    )


def protocol_version(context: Any) -> str | None:
    """Return the negotiated revision: the requested one if supported, else the SDK's latest; None if unknowable."""
    params = getattr(context.session, "client_params", None)
    if params is not None:
        requested = str(params.protocolVersion)
        return requested if requested in SUPPORTED_PROTOCOL_VERSIONS else types.LATEST_PROTOCOL_VERSION
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return None
    return headers.get("mcp-protocol-version") or DEFAULT_HTTP_VERSION
