"""The guarded service on whichever host is installed, for tests: with a file of its own, and no payment API."""

import tempfile
from pathlib import Path
from typing import Any

from error_map import billing_errors
from service import Billing
from tools import register

from iserror import ToolErrors

try:
    from fastmcp import FastMCP
except ImportError:
    try:
        from mcp.server.mcpserver import MCPServer as FastMCP
    except ImportError:
        from mcp.server.fastmcp import FastMCP

NOBODY_LISTENS = "http://127.0.0.1:9"


def server() -> Any:
    """Make the server."""
    made = FastMCP("billing")
    folder = Path(tempfile.mkdtemp(prefix="billing-"))
    register(made, Billing(folder / "billing.sqlite3", NOBODY_LISTENS), ToolErrors(billing_errors))
    return made
