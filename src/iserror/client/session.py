"""The client libraries behind `ToolCaller`: how each is asked for a call and for the list of tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

from iserror.support.sdk import either

SUPPORTED: Final = "ClientSession of mcp 1.x, Client and ClientSession of mcp 2.x, and Client of fastmcp"

MAX_PAGES: Final = 100
"""Pages of `tools/list` that are asked for: a server may hand out cursors for ever."""


def sender(session: Any) -> Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[Any]]:
    """How to send a call through this session: `send(tool, arguments, meta)` gives the SDK's result, or raises.

    Raises:
        TypeError: The session is of no supported client library.
    """
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(session).__mro__}
    if ("fastmcp", "Client") in kinds:
        # Not `call_tool`, which makes an exception of an error result and keeps only its text.
        return lambda tool, arguments, meta: session.call_tool_mcp(tool, arguments, meta=meta)
    if kinds & {("mcp", "Client"), ("mcp", "ClientSession")}:
        more: dict[str, Any] = {}
        if "allow_input_required" in inspect.signature(session.call_tool).parameters:
            more["allow_input_required"] = True
        return lambda tool, arguments, meta: session.call_tool(tool, arguments, meta=meta, **more)
    raise TypeError(f"cannot call through {type(session).__module__}.{type(session).__qualname__}: use {SUPPORTED}")


def by_name(tools: Any) -> dict[str, Any]:
    """Listed tools by their names.

    Raises:
        TypeError: It is no result of `tools/list`, and no list of tools.
    """
    try:
        return {tool.name: tool for tool in getattr(tools, "tools", tools)}
    except (TypeError, AttributeError):
        raise TypeError(f"tools must be what tools/list gave, not {type(tools).__name__}") from None


async def list_tools(session: Any) -> list[Any]:
    """Every tool that the server lists."""
    tools: list[Any] = []
    page = await session.list_tools()
    for _ in range(MAX_PAGES):
        if isinstance(page, list):  # fastmcp's client asks for all pages itself
            return page
        tools += page.tools
        cursor = either(page, "next_cursor", "nextCursor")
        if not cursor:
            break
        page = await session.list_tools(**_next(session, cursor))
    return tools


def _next(session: Any, cursor: str) -> dict[str, Any]:
    if "params" not in inspect.signature(session.list_tools).parameters:
        return {"cursor": cursor}
    from mcp.types import PaginatedRequestParams

    return {"params": PaginatedRequestParams(cursor=cursor)}
