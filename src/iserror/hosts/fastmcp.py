"""`FastMCP` of the fastmcp package, 3.x and 4.x.

Two methods of a server are taken over on the instance. `get_tool` is where every tool passes that is about to
run, whatever registered, mounted, transformed or proxied it. `call_tool` is called twice for a call. Outside
the middleware, what escapes it is noted. Inside the middleware, a failure that came quietly through the host's
logging and tracing becomes an exception again, as middleware expects.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from importlib.metadata import version
from typing import Any, Final

import anyio
from fastmcp.exceptions import AuthorizationError, DisabledError, NotFoundError
from fastmcp.exceptions import ValidationError as FastMCPValidationError
from fastmcp.server.providers.fastmcp_provider import FastMCPProviderTool
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.tools.tool_transform import TransformedTool
from mcp import types

from iserror.errors.toolfailure import ToolFailure
from iserror.hosts import guard_of
from iserror.hosts._mcp import HOOKED, hook_dispatch, hush, look_up
from iserror.hosts._notes import hook_notifications
from iserror.layers.call import Call, current
from iserror.layers.function import decorate
from iserror.layers.options import Options, is_guarded
from iserror.layers.settings import Settings
from iserror.layers.views import Views
from iserror.support.causes import CAUSE, raised_in
from iserror.support.loading import full_name
from iserror.support.look import look
from iserror.support.otel import mark_span
from iserror.support.schema import schema_error
from iserror.support.sdk import access_token, protocol_error_data, validated_by_host

ON_SDK_1: Final = int(version("mcp").partition(".")[0]) < 2


class FailureResult(ToolResult):  # type: ignore[misc]  # its base is not there to be checked (pyproject.toml)
    """A failure on its way through the host's dispatch, which logs and traces every exception it sees."""

    def __init__(self, failed: BaseException) -> None:
        super().__init__(content=[types.TextContent(type="text", text=str(failed))], is_error=True)
        self.__dict__["failed"] = failed


class FastMCPTool:
    """fastmcp's tool objects."""

    run = "_run"

    def unwrap(self, exc: BaseException) -> BaseException:
        cause: BaseException | None = CAUSE(exc) if full_name(type(exc)).endswith("._ToolBodyError") else None
        return exc if cause is None else cause

    def argument_error(self, exc: BaseException) -> BaseException | None:
        if raised_in(exc) == "fastmcp.tools.tool_transform":
            # A transformed tool maps its arguments itself.
            return exc if type(exc) in (TypeError, FastMCPValidationError) else None
        # 3.4.0 lets pydantic's own error out, later versions wrap it.
        inner: BaseException | None = CAUSE(exc) if issubclass(type(exc), FastMCPValidationError) else exc
        return inner if inner is not None and validated_by_host(inner) else None

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        limit = getattr(tool, "timeout", None) or getattr(getattr(tool, "parent_tool", None), "timeout", None)
        if limit is None or protocol_error_data(exc) is None:
            return None
        return float(limit) if raised_in(exc) == "fastmcp.tools.function_tool" else None

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        schema = tool.output_schema
        # Subclasses carry something else: a question to the client, a background task.
        if schema is None or not isinstance(result, ToolResult) or type(result).__name__ == "InputRequiredToolResult":
            return None
        return schema_error(schema, result.structured_content)

    def delegates(self, tool: Any) -> bool:
        return _mounted(tool) is not None

    def pass_on(self, failed: BaseException) -> Any:
        call = current.get()
        if isinstance(failed, ToolFailure) and failed.failure is not None:
            mark_span(failed.failure.code, failed.failure.request_id)
            return FailureResult(failed)
        protocol = protocol_error_data(failed)
        if protocol is not None:
            mark_span(str(protocol[0]), call.request_id if call is not None else None)
            return FailureResult(failed)
        try:
            raise failed
        finally:
            del failed, call


TOOL: Final = FastMCPTool()


def attach(server: Any, settings: Settings) -> None:
    """Put the wire layer around `tools/call`, and hook look-up and dispatch of a server and of those mounted on it."""
    _hook(server)
    hook_notifications()
    hush("fastmcp.tools.function_tool", "Tool '")
    if ON_SDK_1:
        from iserror.hosts import _sdk1

        _sdk1.wrap_handler(
            server._mcp_server, settings, _sdk1.Sdk1Wire(_is_unknown_tool, _logged), lambda: _hook(server)
        )
    else:
        from iserror.hosts import _sdk2

        lowlevel = server._mcp_server
        wire = _sdk2.Sdk2Wire(lowlevel, _is_unknown_tool, _logged)
        _sdk2.add_middleware(lowlevel, settings, wire, lambda: _hook(server))


def _logged(tool: str) -> tuple[str, str]:
    return "fastmcp.server.server", f"Error calling tool {tool!r}"


def _is_unknown_tool(exc: BaseException) -> bool:
    return issubclass(type(exc), (NotFoundError, DisabledError, AuthorizationError))


LISTING: Final = 5.0
"""Seconds that a list may take of which only the answer to a refused caller depends."""

REMEMBERED: Final = 30.0
"""Seconds for which it is remembered what a caller can list."""

MAX_CALLERS: Final = 1_000

_listed: Final[OrderedDict[tuple[object, ...], tuple[float, frozenset[str]]]] = OrderedDict()


async def _denied(server: Any, call: Call, exc: BaseException) -> bool:
    """Return True if a check refused a tool that this caller can list. What it can't list doesn't exist for it."""
    if not issubclass(type(exc), AuthorizationError):
        return False
    names: frozenset[str] = frozenset()
    try:
        with anyio.move_on_after(LISTING):
            names = await _names_listed(server, call)
    except Exception:  # middleware and providers raise what they like
        return False
    return call.tool in names


async def _names_listed(server: Any, call: Call) -> frozenset[str]:
    """Return the names of the tools that this caller gets to see, as `tools/list` has them."""
    session = look(call.request.facts, {}).get("session_id")
    token = access_token(call.request.http)
    who = (id(server), session, getattr(token, "client_id", None), getattr(token, "subject", None))
    kept = _listed.get(who) if session is not None else None
    if kept is not None and kept[0] > time.monotonic():
        return kept[1]
    names = frozenset(tool.name for tool in await server.list_tools())
    if session is not None:
        _listed[who] = time.monotonic() + REMEMBERED, names
        if len(_listed) > MAX_CALLERS:
            _listed.popitem(last=False)
    return names


def _failure_in(result: Any) -> BaseException | None:
    failed: BaseException | None = result.__dict__["failed"] if isinstance(result, FailureResult) else None
    return failed


def _hook(server: Any) -> None:
    """Take over look-up, dispatch and background tasks of a server. A mounted one keeps its own guard."""
    if HOOKED in server.__dict__:
        return
    find, find_tasks = server.get_tool, server.get_tasks

    async def get_tool(*args: Any, **kwargs: Any) -> Any:
        tool = await find(*args, **kwargs)
        mounted = _mounted(tool)
        if mounted is not None:
            _hook(mounted)
        return look_up(TOOL, server, tool)

    async def get_tasks() -> Any:
        settings = guard_of(server)
        found = await find_tasks()
        return found if settings is None else [_task(component, settings) for component in found]

    hook_dispatch(server, _is_unknown_tool, _failure_in, tracked=ON_SDK_1, denied=_denied)
    server.get_tool, server.get_tasks = get_tool, get_tasks
    server.__dict__[HOOKED] = Views()


def _mounted(tool: Any) -> Any:
    """Return the server behind a tool of a mounted one, transformed or not."""
    if isinstance(tool, TransformedTool):
        return _mounted(tool.parent_tool)
    return tool._server if isinstance(tool, FastMCPProviderTool) else None


def _task(component: Any, settings: Settings) -> Any:
    """Return what runs as a background task, which is the function alone: guarded, if no decorator does that."""
    fn = getattr(component, "fn", None)
    if not isinstance(component, Tool) or not callable(fn) or is_guarded(fn):
        return component
    guarded = decorate(Options(settings, (settings.errors,)), fn)
    return component.model_copy(update={"fn": guarded})
