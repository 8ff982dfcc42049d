"""`MCPServer` of mcp 2.x."""

from __future__ import annotations

from typing import Any

from iserror.guard import ToolErrors
from iserror.hosts._mcp import hook_tool_manager, hush
from iserror.hosts._sdk2 import Wire, add_middleware


def attach(server: Any, guard: ToolErrors) -> None:
    """Add the middleware, and hook the tool look-up of one server."""
    lowlevel = server._lowlevel_server
    hook_tool_manager(server, guard)
    wire = Wire(lambda: getattr(lowlevel, "server_info_stamp", None), lambda _: False)
    add_middleware(lowlevel, guard, wire, lambda: hook_tool_manager(server, guard))
    hush("mcp.server.mcpserver.server", "Tool %r failed", "Tool %r rejected arguments", "Tool %r raised")
