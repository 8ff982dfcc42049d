"""The hosts: which adapter fits a server object, and which guard is attached to it. No host is imported for that."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any, Final

from iserror.layers.effects import weakened
from iserror.layers.settings import Settings
from iserror.support.look import look

SUPPORTED: Final = "mcp 1.x FastMCP, mcp 2.x MCPServer, and FastMCP of the fastmcp package, 3.x and 4.x"

_ADAPTERS: Final = {
    ("mcp.server.fastmcp.server", "FastMCP"): "mcp1",
    ("mcp.server.mcpserver.server", "MCPServer"): "mcp2",
    ("fastmcp.server.server", "FastMCP"): "fastmcp",
}
"""The modules of adapters, by module and name of the server class."""

ATTACHED: Final = "__iserror_attached__"


def adapter_of(server: object) -> str | None:
    """Return the module in this package that fits a server object; None for anything else."""
    return next(
        (_ADAPTERS[key] for c in type(server).__mro__ if (key := (c.__module__, c.__name__)) in _ADAPTERS), None
    )


def guard_of(server: Any) -> Settings | None:
    """Return the guard that is attached to a server, if there is one."""
    found: Settings | None = getattr(server, "__dict__", {}).get(ATTACHED)
    return found


def attach(server: Any, settings: Settings) -> None:
    """Attach a guard to a server object.

    Raises:
        TypeError: If the object isn't a supported server.
        ValueError: If another guard is attached to it.
    """
    name = adapter_of(server)
    if name is None:
        hint = ""
        if type(server).__module__.startswith(("mcp.server.lowlevel", "fastmcp.server.low_level")):
            hint = " (this is the lowlevel server inside one: attach to the server that holds it)"
        raise TypeError(
            f"cannot attach to {type(server).__module__}.{type(server).__qualname__}{hint}: supported are {SUPPORTED}"
        )
    attached = guard_of(server)
    if attached is settings:
        return
    if attached is not None:
        raise ValueError(
            f"another guard is attached to server {getattr(server, 'name', '')!r}: attach one guard, and give tools "
            "entries of their own with @guard(errors=...)"
        )
    import_module(f"iserror.hosts.{name}").attach(server, settings)
    server.__dict__[ATTACHED] = settings  # last: until here nothing is guarded
    if settings.effects is not None:
        for _, tools in look(lambda: list(import_module("iserror.hosts.inside").tools_held_by(server)), []):
            for tool in tools:
                if said := look(weakened, None, settings.effects, tool, getattr(tool, "annotations", None)):
                    warnings.warn(said, stacklevel=3)
