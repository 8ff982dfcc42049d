"""What is inside a server object and its tools, read by attribute names. No SDK is imported until it is needed.

An adapter changes a server that a guard is attached to. `iserror check` looks into any server: it serves the object in
this process, finds every tool in it, and replaces what a tool runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any, Final

from iserror.support.look import look
from iserror.support.sdk import HOSTS, TOOL_FUNCTION, is_the_hosts, parent_of

TOOL_RUN: Final = "run"
"""The method of a tool object that a host calls."""

PACKAGES: Final = frozenset({*HOSTS, "mcp_types"})
"""The packages of the SDKs and hosts."""


# --- servers -------------------------------------------------------------------------------------------------


def lowlevel_of(server: Any) -> Any:
    """Return the SDK's lowlevel server inside a host's server, or the object itself if it is one; otherwise None."""
    if isinstance(server, type):
        return None
    if hasattr(server, "create_initialization_options"):
        return server
    return getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", None)


def lifespan_of(server: Any) -> AbstractAsyncContextManager[Any]:
    """Return a context that runs the lifespan of a fastmcp server. The other hosts' lowlevel servers run theirs."""
    lifespan: AbstractAsyncContextManager[Any] = getattr(server, "_lifespan_manager", nullcontext)()
    return lifespan


async def serve(server: Any, incoming: Any, outgoing: Any) -> None:
    """Serve one client until the stream of its messages ends.

    Args:
        server: A server object of any host.
        incoming: Receives what `parsed_message` returns.
        outgoing: Takes session messages; `dumped_message` reads them.
    """
    lowlevel = lowlevel_of(server)
    await lowlevel.run(incoming, outgoing, lowlevel.create_initialization_options())


async def listed_tools(server: Any) -> list[Any]:
    """Return the tool objects that a server lists.

    Raises:
        Exception: If the server can't list them; providers and middleware raise what they like.
    """
    manager = getattr(server, "_tool_manager", None)
    return list(manager.list_tools() if manager is not None else await server.list_tools())


async def look_up(server: Any, name: str) -> Any:
    """Return the tool object that a server runs for a name; None if the server finds none."""
    manager = getattr(server, "_tool_manager", None)
    if manager is not None:
        return look(manager.get_tool, None, name)
    for tools in _middleware_tools(server):
        if name in tools:
            return tools[name]
    try:
        return await server.get_tool(name)
    except Exception:  # The tool is unknown or hidden without a session, or a provider fails.
        return None


def tools_held_by(server: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield a server, then each server mounted on it, with the tool objects that it holds."""
    waiting, seen = [server], set()
    while waiting:
        here = waiting.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        manager = getattr(here, "_tool_manager", None)
        if manager is not None:
            yield here, list(look(manager.list_tools, []))
            continue
        tools = [tool for held in _middleware_tools(here) for tool in held.values()]
        providers = list(getattr(here, "providers", ()))
        while providers:
            provider = providers.pop()
            providers += getattr(provider, "providers", ())
            providers += [inner] if (inner := getattr(provider, "_inner", None)) is not None else []
            waiting += [mounted] if (mounted := getattr(provider, "server", None)) is not None else []
            for name in ("_components", "_tools"):  # the second of an OpenAPI document's provider
                held = getattr(provider, name, {})
                found = held.values() if isinstance(held, Mapping) else ()
                tools += [item for item in found if hasattr(item, "parameters") and hasattr(item, TOOL_RUN)]
        yield here, tools


def _middleware_tools(server: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the tools that fastmcp's middleware adds to a server, by name."""
    for middleware in getattr(server, "middleware", ()):
        tools = getattr(middleware, "_tools_to_inject_by_name", None)
        if isinstance(tools, Mapping):
            yield tools


# --- tools ---------------------------------------------------------------------------------------------------


def function_of(tool: Any) -> Any:
    """Return the function of a tool object, or of the tool that it forwards to; None if there is none here."""
    fn = getattr(tool, TOOL_FUNCTION, None)
    if fn is not None and not is_the_hosts(fn):
        return fn
    parent = parent_of(tool)
    return None if parent is None else function_of(parent)


def forwards_to(tool: Any) -> Any:
    """Return the tool behind a transformed tool that has no function of the user's; otherwise None."""
    parent = parent_of(tool)
    return parent if parent is not None and is_the_hosts(getattr(tool, TOOL_FUNCTION)) else None


def mounted_behind(tool: Any) -> tuple[Any, str] | None:
    """Return the mounted server that a tool object calls, and the tool's name there; None if it calls none."""
    server, name = getattr(tool, "_server", None), getattr(tool, "_original_name", None)
    return None if server is None or not isinstance(name, str) else (server, name)


def body_field(tool: Any) -> str | None:
    """Return the instance field that replaces what a tool runs: its function, or `run` if its class has its own.

    Returns:
        The field's name. None if the class overrides fastmcp's hook around `run`, which may do anything instead.
    """
    kind = type(tool)
    if TOOL_FUNCTION in vars(tool) and is_the_hosts(kind.run):
        return TOOL_FUNCTION
    hook = getattr(kind, "_run", None)
    return TOOL_RUN if hook is None or is_the_hosts(hook) else None


def bodies_of(tool: Any) -> dict[str, Any]:
    """Return what a call of a tool object runs, as far as instance fields hold it: the first field runs first."""
    run_uses_function = is_the_hosts(type(tool).run)
    names = (TOOL_RUN, TOOL_FUNCTION) if run_uses_function else (TOOL_RUN,)
    fields = vars(tool)
    return {name: fields[name] for name in names if name in fields}


def annotations_of(tool: Any) -> Any:
    """Return the annotations of a tool object; None if it has none."""
    return getattr(tool, "annotations", None)


def output_schema_of(tool: Any) -> Any:
    """Return the output schema of a tool object; None if it has none."""
    return getattr(tool, "output_schema", None)


# --- what the installed SDK knows ----------------------------------------------------------------------------


def protocol_revisions() -> list[str]:
    """Return the protocol revisions that the installed SDK can negotiate, newest first."""
    try:
        known = import_module("mcp_types.version").KNOWN_PROTOCOL_VERSIONS
    except ImportError:
        known = import_module("mcp.shared.version").SUPPORTED_PROTOCOL_VERSIONS
    return sorted(known, reverse=True)


def parsed_message(data: bytes) -> Any:
    """Return what the SDK's transports give a server for these bytes: a session message, or the parser's exception."""
    types, message = import_module("mcp.types"), import_module("mcp.shared.message").SessionMessage
    adapter = getattr(types, "jsonrpc_message_adapter", None)
    try:
        if adapter is not None:
            return message(adapter.validate_json(data))
        return message(types.JSONRPCMessage.model_validate_json(data))
    except ValueError as exc:
        return exc


def dumped_message(message: Any) -> bytes:
    """Return the bytes that the SDK's transports send for a session message.

    Raises:
        Exception: If the message can't be encoded.
    """
    data: bytes = message.message.model_dump_json(by_alias=True, exclude_none=True).encode()
    return data


def protocol_error(code: int, message: str, data: object) -> BaseException:
    """Return the SDK's protocol error, as an author raises it."""
    exceptions = import_module("mcp.shared.exceptions")
    kind = getattr(exceptions, "MCPError", None)
    if kind is not None:
        made: BaseException = kind(code, message, data)
    else:
        error = import_module("mcp.types").ErrorData(code=code, message=message, data=data)
        made = exceptions.McpError(error)
    return made
