"""`FastMCP` of mcp 1.x."""

from __future__ import annotations

from typing import Any

from iserror.hosts._mcp import TOOL_OF_SDK_1, hook_dispatch, hook_tool_manager, is_unknown_tool
from iserror.hosts._notes import hook_notifications
from iserror.hosts._sdk1 import Sdk1Wire, wrap_handler
from iserror.layers.settings import Settings


def attach(server: Any, settings: Settings) -> None:
    """Wrap the `tools/call` handler, and hook look-up and dispatch of one server."""
    hook_tool_manager(server, TOOL_OF_SDK_1)
    hook_dispatch(server, is_unknown_tool)
    hook_notifications()
    wrap_handler(
        server._mcp_server, settings, Sdk1Wire(is_unknown_tool), lambda: hook_tool_manager(server, TOOL_OF_SDK_1)
    )
