"""`MCPServer` of mcp 2.x."""

from __future__ import annotations

from typing import Any

from iserror.guard import ToolErrors
from iserror.hosts._mcp import hook_tool_manager, hush, is_unknown_tool, served
from iserror.hosts._sdk2 import Wire, add_middleware


def attach(server: Any, guard: ToolErrors) -> None:
    """Add the middleware, and hook look-up and dispatch of one server."""
    lowlevel = server._lowlevel_server
    hook_tool_manager(server, guard)
    _hook_dispatch(server)
    wire = Wire(lambda: getattr(lowlevel, "server_info_stamp", None), is_unknown_tool)
    add_middleware(lowlevel, guard, wire, lambda: hook_tool_manager(server, guard))
    hush("mcp.server.mcpserver.server", "Tool %r failed", "Tool %r rejected arguments", "Tool %r raised")


def _hook_dispatch(server: Any) -> None:
    """Note what escapes `call_tool`, which a subclass may have overridden: the handler above makes text of it."""
    dispatch = server.call_tool

    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        call = served()
        try:
            return await dispatch(*args, **kwargs)
        except BaseException as exc:
            if call is not None:
                call.escaped = exc
            raise

    server.call_tool = call_tool
