"""The wire layer on the 2.x SDK, for its own `MCPServer` and for fastmcp 4: a middleware of its chain.

It stands inside the middleware that opens the request's span, so that the span can be marked, and outside of
every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, RootModel

from iserror.hosts._mcp import as_mapping, facts, open_call, safe_jsonrpc_id, without_own_keys
from iserror.layers.call import Request
from iserror.layers.settings import Settings
from iserror.layers.wire import serve
from iserror.support.jsonrpc import STATELESS_REVISION
from iserror.support.look import look, shield
from iserror.support.otel import trace_id
from iserror.support.sdk import is_error

_SPAN_MIDDLEWARE: Final = ("OpenTelemetryMiddleware", "FastMCPServerMiddleware")
"""The middleware that opens the span, by name: the SDK's, or fastmcp's own."""


class ErrorResult(RootModel[dict[str, Any]]):
    """Our error result as it is sent. In a plain dict, the SDK's span middleware would replace the code in
    `error.type` with its own."""


class Sdk2Wire:
    """The forms of the 2.x SDK, where results are dicts as they are sent."""

    def __init__(
        self,
        lowlevel: Any,
        is_unknown_tool: Callable[[BaseException], bool],
        logged: Callable[[str], tuple[str, str] | None],
    ) -> None:
        self.lowlevel = lowlevel
        self.is_unknown_tool = is_unknown_tool
        self.logged = logged
        """Returns the logger and the message of a failure of the tool of this name; None if the host logs none."""

    def error_in(self, result: Any) -> tuple[object, object, object] | None:
        if isinstance(result, BaseModel) and is_error(result):
            # A middleware's own result, not yet in its wire form.
            result = look(_dumped, {"isError": True}, result)
        if not isinstance(result, dict) or result.get("isError") is not True:
            return None
        meta = result.get("_meta")
        items = meta.items() if isinstance(meta, dict) else ()
        own = {k: v for k, v in items if not str(k).startswith("io.modelcontextprotocol/server")}
        return result.get("content"), result.get("structuredContent"), own

    def error_result(
        self,
        content: Sequence[Mapping[str, Any]],
        structured: Mapping[str, Any] | None,
        meta: Mapping[str, Any],
        version: str | None,
    ) -> ErrorResult:
        result: dict[str, Any] = {"content": list(content), "isError": True, "_meta": dict(meta)}
        if structured is not None:
            result["structuredContent"] = dict(structured)
        if (version or "") >= STATELESS_REVISION:
            # What the SDK fills in for its handlers only; the first is required from this revision on.
            result["resultType"] = "complete"
            info = getattr(self.lowlevel, "server_info_stamp", None)
            if info is not None:
                result["_meta"]["io.modelcontextprotocol/serverInfo"] = info
        return ErrorResult(result)

    def led(self, result: Any, line: Callable[[object, str], str | None]) -> Any:
        content = result.get("content") if isinstance(result, dict) else None
        if not isinstance(content, list):
            return result
        meta = result.get("_meta")
        kept = without_own_keys(meta) if meta and isinstance(meta, dict) else None
        if kept is not None:
            result = {**result, "_meta": kept}
        first, rest = {"type": "text", "text": ""}, content
        if rest and isinstance(rest[0], dict) and isinstance(rest[0].get("text"), str):
            first, rest = rest[0], rest[1:]
        said = line(result.get("structuredContent"), first["text"])
        if said is None:
            return result
        return {**result, "content": [{**first, "text": f"{said}\n{first['text']}"}, *rest]}

    def protocol_error(self, code: int, message: str, data: Any) -> Any:
        return MCPError(code, message, data)


def _dumped(result: BaseModel) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


class CallMiddleware:
    """The 2.x SDK's middleware that serves `tools/call`; every other message passes."""

    def __init__(self, settings: Settings, lowlevel: Any, wire: Sdk2Wire, before: Callable[[], None]) -> None:
        self.settings = settings
        self.lowlevel = lowlevel
        self.wire = wire
        self.before = before

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method != "tools/call" or ctx.request_id is None:
            return await call_next(ctx)
        shield(self.before, None)
        # The form of the answer depends on the revision: it is known whatever else isn't.
        otherwise = Request(protocol_version=ctx.protocol_version)
        request = shield(_request_of, otherwise, self.wire, ctx)
        call = open_call(self.settings, (ctx.params or {}).get("name"), request)
        result: HandlerResult = await serve(self.wire, call, lambda: call_next(ctx))
        return result


def _request_of(wire: Sdk2Wire, ctx: ServerRequestContext[Any, Any]) -> Request:
    return Request(
        logged=lambda: wire.logged(str((ctx.params or {}).get("name"))),
        arguments=as_mapping((ctx.params or {}).get("arguments") or {}),
        trace_id=trace_id(ctx.meta),
        jsonrpc_id=safe_jsonrpc_id(ctx.request_id),
        protocol_version=ctx.protocol_version,
        http=ctx.request,
        facts=lambda: facts(wire.lowlevel.name, ctx),
    )


def add_middleware(lowlevel: Any, settings: Settings, wire: Sdk2Wire, before: Callable[[], None]) -> None:
    """Put the wire layer into the server's chain, right inside the span."""
    chain = lowlevel.middleware
    span = [i for i, middleware in enumerate(chain) if type(middleware).__name__ in _SPAN_MIDDLEWARE]
    chain.insert(span[0] + 1 if span else 0, CallMiddleware(settings, lowlevel, wire, before))
