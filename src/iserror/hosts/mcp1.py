"""`FastMCP` of mcp 1.x."""

from __future__ import annotations

from typing import Any

from iserror.guard import ToolErrors
from iserror.hosts._mcp import hook_dispatch, hook_tool_manager, is_unknown_tool
from iserror.hosts._sdk1 import Wire, wrap_handler


def attach(server: Any, guard: ToolErrors) -> None:
    """Wrap the `tools/call` handler, and hook look-up and dispatch of one server."""
    hook_tool_manager(server)
    hook_dispatch(server, is_unknown_tool)
    wrap_handler(server._mcp_server, guard, Wire(is_unknown_tool), lambda: hook_tool_manager(server))
