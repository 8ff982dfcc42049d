"""`MCPServer` of mcp 2.x."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.mcpserver import exceptions

from iserror.hosts._mcp import hook_dispatch, hook_tool_manager, hush, is_unknown_tool
from iserror.hosts._notes import hook_notifications
from iserror.hosts._sdk2 import Sdk2Wire, add_middleware
from iserror.layers.settings import Settings


def attach(server: Any, settings: Settings) -> None:
    """Add the middleware, and hook look-up and dispatch of one server."""
    lowlevel = server._lowlevel_server
    hook_tool_manager(server)
    hook_dispatch(server, is_unknown_tool)
    hook_notifications()
    wire = Sdk2Wire(lowlevel, is_unknown_tool, _logged)
    add_middleware(lowlevel, settings, wire, lambda: hook_tool_manager(server))
    hush(_LOGGER, "Tool %r failed", "Tool %r rejected arguments", "Tool %r raised")


_LOGGER: Final = "mcp.server.mcpserver.server"


_LOGS: Final = hasattr(exceptions, "UnexpectedToolError")
"""Whether the host logs a crash: mcp 2.0 doesn't yet."""


def _logged(tool: str) -> tuple[str, str] | None:
    return (_LOGGER, f"Tool {tool!r} raised an unexpected exception") if _LOGS else None
