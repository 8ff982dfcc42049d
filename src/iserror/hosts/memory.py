"""Each host's own client, connected to a server object of this process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from iserror.hosts import SUPPORTED, adapter_of


def in_memory_client(server: Any, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[Any]:
    """Return the client that fits a server object, over the SDK's in-memory transport.

    Args:
        server: A server object of a supported host.
        settings: Keyword arguments for the host's client, such as callbacks.

    Raises:
        TypeError: If no host fits the object.
    """
    opened: AbstractAsyncContextManager[Any]
    match adapter_of(server):
        case "mcp1":
            from mcp.shared.memory import create_connected_server_and_client_session

            opened = create_connected_server_and_client_session(server._mcp_server, **settings)
        case "mcp2":
            from mcp import Client

            opened = Client(server, **settings)
        case "fastmcp":
            from fastmcp import Client as FastMCPClient

            opened = FastMCPClient(server, **settings)
        case _:
            raise TypeError(
                f"cannot connect to {type(server).__module__}.{type(server).__qualname__}: supported are {SUPPORTED}"
            )
    return opened
