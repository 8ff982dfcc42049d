"""`MCPServer` of mcp 2.x."""

from __future__ import annotations

from typing import Any

from iserror.hosts._mcp import hook_dispatch, hook_tool_manager, hush, is_unknown_tool
from iserror.hosts._sdk2 import Sdk2Wire, add_middleware
from iserror.layers.settings import Settings


def attach(server: Any, settings: Settings) -> None:
    """Add the middleware, and hook look-up and dispatch of one server."""
    lowlevel = server._lowlevel_server
    hook_tool_manager(server)
    hook_dispatch(server, is_unknown_tool)
    add_middleware(lowlevel, settings, Sdk2Wire(lowlevel, is_unknown_tool), lambda: hook_tool_manager(server))
    hush("mcp.server.mcpserver.server", "Tool %r failed", "Tool %r rejected arguments", "Tool %r raised")
