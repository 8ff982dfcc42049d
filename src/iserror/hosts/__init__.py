"""The hosts: which adapter fits a server object. No host is imported for it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from iserror.guard import ToolErrors

SUPPORTED: Final = "mcp 1.x FastMCP, mcp 2.x MCPServer, and FastMCP of the fastmcp package, 3.x and 4.x"

# Module and name of the server class -> the adapter's module.
_ADAPTERS: Final = {
    ("mcp.server.fastmcp.server", "FastMCP"): "mcp1",
    ("mcp.server.mcpserver.server", "MCPServer"): "mcp2",
    ("fastmcp.server.server", "FastMCP"): "fastmcp",
}

ATTACHED: Final = "__iserror_attached__"


def adapter_of(server: object) -> str | None:
    """The module in this package that fits a server object; None of anything else."""
    return next(
        (_ADAPTERS[key] for c in type(server).__mro__ if (key := (c.__module__, c.__name__)) in _ADAPTERS), None
    )


def attach(server: Any, guard: ToolErrors) -> None:
    """Attach a guard to a server object.

    Raises:
        TypeError: The object is no supported server.
        ValueError: Another guard is attached to it.
    """
    name = adapter_of(server)
    if name is None:
        hint = ""
        if type(server).__module__.startswith(("mcp.server.lowlevel", "fastmcp.server.low_level")):
            hint = " (this is the lowlevel server inside one: attach to the server that holds it)"
        raise TypeError(
            f"cannot attach to {type(server).__module__}.{type(server).__qualname__}{hint}: supported are {SUPPORTED}"
        )
    attached = server.__dict__.get(ATTACHED)
    if attached is guard:
        return
    if attached is not None:
        raise ValueError(
            f"another guard is attached to server {getattr(server, 'name', '')!r}: attach one guard, and give tools "
            "entries of their own with @guard(errors=...)"
        )
    import_module(f"iserror.hosts.{name}").attach(server, guard)
    server.__dict__[ATTACHED] = guard  # last: until here nothing is guarded
