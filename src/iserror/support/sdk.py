"""All that is known of the SDKs and hosts without importing one: names, attributes, traceback frames.

`iserror.hosts` knows the rest, and imports them.
"""

from __future__ import annotations

import os.path
import re
import sys
import threading
from collections.abc import Hashable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from iserror.support.causes import frames, module_of, raised_in
from iserror.support.loading import full_name, mro_of
from iserror.support.look import look

HOSTS: Final = ("mcp", "fastmcp")
_PACKAGES: Final = (*HOSTS, "mcp_types")

_MISSING: Final = object()


def package_of(module: str) -> str:
    """Return the top package of a module's name."""
    return module.partition(".")[0]


def either(thing: object, name: str, older: str) -> Any:
    """Return an attribute of an SDK's object by its 2.x name, else by its 1.x name, else None."""
    found = getattr(thing, name, _MISSING)
    # The older name second: fastmcp 4 warns when it is read from a class that has the newer.
    return getattr(thing, older, None) if found is _MISSING else found


# --- exceptions ----------------------------------------------------------------------------------------------

_TOOL_ERROR_MODULES: Final = (
    "mcp.server.fastmcp.exceptions",
    "mcp.server.mcpserver.exceptions",
    "fastmcp.exceptions",
)
TOOL_ERROR_NAMES: Final = frozenset(f"{module}.ToolError" for module in _TOOL_ERROR_MODULES)
"""The full names of the hosts' `ToolError` classes."""
_VALIDATORS: Final = ("mcp.server.", "mcp_types.", "fastmcp.tools.", "fastmcp.utilities.async_utils")
_ON_PURPOSE: Final = ("fastmcp.server.middleware", "fastmcp.server.tasks")


def host_tool_errors() -> tuple[type[Exception], ...]:
    """Return the `ToolError` classes of the hosts that this process has loaded."""
    found: list[type[Exception]] = []
    for name in _TOOL_ERROR_MODULES:
        error = getattr(sys.modules.get(name), "ToolError", None)
        if isinstance(error, type) and issubclass(error, Exception) and error not in found:
            found.append(error)
    return tuple(found)


def host_refusals(*names: str) -> tuple[type[Exception], ...]:
    """Return the classes with which fastmcp refuses a call, if it is loaded: an author raises them in a body, too.

    Args:
        names: Those to return (default: all).
    """
    module = sys.modules.get("fastmcp.exceptions")
    found = (getattr(module, name, None) for name in names or _REFUSALS)
    return tuple(error for error in found if isinstance(error, type) and issubclass(error, Exception))


_REFUSALS: Final = ("NotFoundError", "ValidationError", "AuthorizationError")


def is_protocol_error(kind: type) -> bool:
    """Return True for an SDK's protocol error class (`McpError`, `MCPError`)."""
    return look(_is_protocol_error, False, kind)


def _is_protocol_error(kind: type) -> bool:
    for cls in mro_of(kind):
        name = full_name(cls)
        if name.startswith("mcp.") and name.endswith((".McpError", ".MCPError")):
            return True
    return False


def protocol_error_data(exc: BaseException) -> tuple[int, str, Any] | None:
    """Return code, message and data of an SDK's protocol error; None for any other exception."""
    return look(_contents, None, exc) if is_protocol_error(type(exc)) else None


def _contents(exc: BaseException) -> tuple[int, str, Any]:
    error = getattr(exc, "error", None)
    code = getattr(error, "code", None)
    if isinstance(code, bool) or not isinstance(code, int):
        return -32603, "", None
    return code, str(getattr(error, "message", "")), getattr(error, "data", None)


def protocol_error_like(exc: BaseException, code: int, message: str, data: Any) -> BaseException:
    """Return an SDK's protocol error of the same generation as `exc`, with other contents."""
    for cls in type(exc).__mro__:
        if cls.__name__ == "MCPError":
            return cls(code, message, data)  # type: ignore[no-any-return]
        if cls.__name__ == "McpError":
            error: Any = getattr(exc, "error", None)
            return cls(type(error)(code=code, message=message, data=data))  # type: ignore[no-any-return]
    return exc


def raised_by_sdk(exc: BaseException) -> bool:
    """Return True if the SDK raised it: the innermost frame is inside the `mcp` or `fastmcp` package.

    A session raises the same class for a refused sampling request or a failed upstream call that an author raises
    on purpose. Only the place tells them apart. What fastmcp's middleware raises (rate limiting, for example)
    counts as the author's, who chose the middleware; what its task routing raises is about the request.
    """
    module = raised_in(exc)
    return package_of(module) in HOSTS and not module.startswith(_ON_PURPOSE)


def raised_by_client(exc: BaseException) -> bool:
    """Return True if an SDK's client raised it, about what another server answered."""
    return ".client" in raised_in(exc)


def raised_below(exc: BaseException, function: str) -> bool:
    """Return True if the traceback passes a function of a host with this name."""
    return any(f.f_code.co_name == function and package_of(module_of(f)) in HOSTS for f in frames(exc))


def validated_by_host(exc: BaseException) -> bool:
    """Return True if this is pydantic's error for a validation that the host asked for, not the tool's own code."""
    # Never imported for this: without pydantic loaded, nothing has validated anything.
    error = getattr(sys.modules.get("pydantic_core"), "ValidationError", None)
    if error is None or not issubclass(type(exc), error):  # not isinstance(): an object may lie about its class
        return False
    caller = ""
    for module in map(module_of, frames(exc)):
        # anyio: where the host validates in a worker thread.
        caller = caller if package_of(module) in ("pydantic", "anyio") else module
    return caller.startswith(_VALIDATORS)


# --- tools ---------------------------------------------------------------------------------------------------


TOOL_FUNCTION: Final = "fn"
"""The field of a tool object that holds its function."""

TOOL_PARENT: Final = "parent_tool"
"""The field of fastmcp's transformed tools that holds the tool behind."""


def is_the_hosts(thing: object) -> bool:
    """Return True for a class or function that a host defines."""
    return str(getattr(thing, "__module__", "")).startswith(("mcp.server.", "fastmcp."))


def parent_of(tool: Any) -> Any:
    """Return the tool that a transformed tool of fastmcp forwards to; None for any other tool object."""
    fields: dict[str, Any] = look(vars, {}, tool)
    return fields.get(TOOL_PARENT)


def parameters_of(tool: Any) -> Any:
    """Return the input schema of a tool object; None if it has none."""
    return getattr(tool, "parameters", None)


def read_only_hint(annotations: object) -> bool | None:
    """Return whether a tool's annotations declare that it changes nothing; None if they don't say."""
    found: bool | None = either(annotations, "read_only_hint", "readOnlyHint")
    return found


def destructive_hint(annotations: object) -> bool | None:
    """Return whether a tool's annotations declare that it may destroy something; None if they don't say."""
    found: bool | None = either(annotations, "destructive_hint", "destructiveHint")
    return found


def is_read_only(annotations: object) -> bool:
    """Return True if a tool's annotations declare that it changes nothing."""
    return read_only_hint(annotations) is True


def is_idempotent(annotations: object) -> bool:
    """Return True if a tool's annotations declare that a second call changes nothing more."""
    return either(annotations, "idempotent_hint", "idempotentHint") is True


def is_proxied(tool: Any) -> bool:
    """Return True for a tool of fastmcp that another server runs."""
    for cls in mro_of(type(tool)):
        if cls.__name__ == "ProxyTool" and package_of(cls.__module__) == "fastmcp":
            return True
    parent = parent_of(tool)
    return parent is not None and is_proxied(parent)


# --- results -------------------------------------------------------------------------------------------------

_RESULTS: Final = {"CallToolResult": ("mcp", "mcp_types"), "ToolResult": ("fastmcp",)}


@lru_cache(maxsize=256)
def is_result_type(kind: Hashable) -> bool:
    """Return True for a host's own class of tool results."""
    return any(package_of(c.__module__) in _RESULTS.get(c.__name__, ()) for c in getattr(kind, "__mro__", ()))


def is_error(result: Any) -> bool:
    """Return True if a host's result object is marked as an error."""
    return either(result, "is_error", "isError") is True


def texts_in(content: Any) -> list[str]:
    """Return the texts among the content blocks of a result, objects or as they are sent."""
    texts = (block.get("text") if isinstance(block, dict) else getattr(block, "text", None) for block in content or ())
    return [text for text in texts if isinstance(text, str)]


def asks_the_client(result: object) -> bool:
    """Return True if a tool's return value is a question to the client, so that the call isn't over."""
    return type(result).__name__ in ("InputRequiredResult", "InputRequiredToolResult")


def is_of_a_host(value: object) -> bool:
    """Return True if a host treats the value in its own way, for example an image."""
    return package_of(type(value).__module__) in _PACKAGES


def content_block() -> Any:
    """Return the union of MCP's content blocks. This imports the SDK that is installed."""
    return import_module("mcp.types").ContentBlock


def dumped_result(result: Any) -> dict[str, Any] | None:
    """Return a host's result object as JSON data with the name of its class; None for anything else."""
    name = type(result).__name__
    if not is_of_a_host(result) or name not in _RESULTS:
        return None
    return {"class": name, **result.model_dump(mode="json", by_alias=True, warnings=False)}


def loaded_result(dumped: dict[str, Any], blocks: Any) -> Any:
    """Build a host's result object from what `dumped_result` returned.

    Args:
        dumped: The JSON data.
        blocks: Builds content blocks from JSON data.
    """
    parts = dict(dumped)
    if parts.pop("class") == "CallToolResult":
        return import_module("mcp.types").CallToolResult.model_validate(parts)
    parts["content"] = blocks(parts["content"])
    return import_module("fastmcp.tools.base").ToolResult(**parts)


# --- a server ------------------------------------------------------------------------------------------------

_UNNAMED: Final = re.compile(r"(FastMCP)-[0-9a-f]{4}\Z")
_LOGGING: Final = (*HOSTS, "uvicorn")


def stable_name(server: str) -> str:
    """Return a server's name; of one without a name, what is equal in each process (fastmcp makes up digits)."""
    return _UNNAMED.sub(r"\1", server)


def logged_by_host(logger: str, file: str) -> bool:
    """Return True for a record of a host or its HTTP server, which note every request.

    Args:
        logger: The name of the logger.
        file: The path of the file that logged.
    """
    top = package_of(logger).lower()
    folders = getattr(sys.modules.get(top), "__path__", ()) if top in _LOGGING else ()
    return any(file.startswith(os.path.join(folder, "")) for folder in folders)


# --- what a host injects, and who calls ----------------------------------------------------------------------

# Packages whose objects are contexts, sessions and dependencies, and no data.
_INJECTING: Final = frozenset({"mcp", "fastmcp", "docket", "uncalled_for"})


def is_injection(mark: object) -> bool:
    """Return True if a parameter's default or annotation tells a host to fill it in (`Depends`, `Resolve`)."""
    return package_of(type(mark).__module__) in _INJECTING


def injected_names(value: object) -> set[str]:
    """Return the names of a value's classes that come from packages which inject objects."""
    return {cls.__name__ for cls in type(value).__mro__ if package_of(cls.__module__) in _INJECTING}


UNKNOWN_REQUEST: Final = object()
"""Stands for the HTTP request of a call of which nothing tells how it came."""


def request_here() -> object:
    """Return the HTTP request of a call that no attached guard knows: what the running host's variables hold.

    Returns:
        The request, None for a call that came without HTTP, or `UNKNOWN_REQUEST`. Nothing is read from the frames of
        a host: who is calling is a security decision, and takes what a host hands over.
    """
    for context in _contexts():
        return context.request
    http = look(lambda: sys.modules["fastmcp.server.dependencies"].get_http_request(), None)
    if http is not None:
        return http
    # A bare thread may have been started for any call.
    alone = threading.current_thread() is threading.main_thread()
    if "mcp.server.mcpserver.server" in sys.modules:
        # MCPServer hands a tool nothing of its request, so that a call on an event loop may be any caller's, too.
        alone = alone and not _loop_runs()
    return None if alone else UNKNOWN_REQUEST


def _contexts() -> Iterator[Any]:
    """Yield the request contexts of the hosts: of mcp 1.x and fastmcp 3 on it, and of fastmcp 4."""
    for module, name in (
        ("mcp.server.lowlevel.server", "request_ctx"),
        ("fastmcp.server.dependencies", "fastmcp_request_ctx"),
    ):
        variable = getattr(sys.modules.get(module), name, None)
        context = variable.get(None) if variable is not None else None
        if context is not None:
            yield context


def _loop_runs() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def access_token(request: object) -> Any:
    """Return the validated access token behind a call; None for a caller who isn't signed in.

    Args:
        request: The HTTP request, as an adapter or `request_here` gave it.
    """
    token = getattr(look(lambda: request.scope.get("user"), None), "access_token", None)  # type: ignore[attr-defined]
    if token is not None:
        return token
    fastmcp = sys.modules.get("fastmcp.server.dependencies")
    if fastmcp is not None:  # it knows about its background tasks
        return look(fastmcp.get_access_token, None)
    if not hasattr(request, "scope"):
        auth = sys.modules.get("mcp.server.auth.middleware.auth_context")
        return look(auth.get_access_token, None) if auth is not None else None
    return None
