"""What the adapters share: the SDK's tool manager, its wrapping of exceptions, the facts of a request."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from iserror.errors.problem import Problem, ProtocolProblem
from iserror.errors.toolfailure import raised_of, without_cause
from iserror.hosts import guard_of
from iserror.layers.call import Call, Request, current, current_call
from iserror.layers.cancel import must_pass
from iserror.layers.lifecycle import Scope
from iserror.layers.protocol import protocol_exception
from iserror.layers.report import log_cancelled, log_finished, report
from iserror.layers.settings import Settings
from iserror.layers.toolhost import ToolHost
from iserror.layers.views import Views
from iserror.logs.forward import FORWARDED
from iserror.redact.speech import log_name
from iserror.support.causes import CAUSE, raised_in
from iserror.support.jsonrpc import OWN_KEYS
from iserror.support.look import shield
from iserror.support.otel import trace_id
from iserror.support.sdk import (
    either,
    host_tool_errors,
    protocol_error_data,
    raised_by_sdk,
    validated_by_host,
)

HOOKED: Final = "__iserror_hooked__"


class McpTool:
    """The tool objects of mcp 1.x and 2.x, whose `run` wraps every exception in a `ToolError`."""

    run = "run"

    def unwrap(self, exc: BaseException) -> BaseException:
        cause: BaseException | None = CAUSE(exc)
        # Not isinstance(): an object may lie about its class.
        return cause if cause is not None and issubclass(type(exc), host_tool_errors()) and raised_by_sdk(exc) else exc

    def argument_error(self, exc: BaseException) -> BaseException | None:
        return exc if validated_by_host(exc) else None

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        return None

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        return None

    def delegates(self, tool: Any) -> bool:
        return False

    def pass_on(self, failed: BaseException) -> Any:
        try:
            raise failed
        finally:
            del failed


class Mcp1Tool(McpTool):
    """Those of mcp 1.x, whose handler a tracker may have wrapped: to it a crash leaves as what it was."""

    def pass_on(self, failed: BaseException) -> Any:
        call = current.get()
        crashed = None
        if call is not None and call.parent is None and not call.progress.running:
            crashed = shield(crash_behind, None, call, failed)
        if crashed is None or call is None:
            return super().pass_on(failed)
        call.progress.shows(crashed)
        try:
            raise crashed
        finally:
            del failed, crashed, call


TOOL: Final = McpTool()
TOOL_OF_SDK_1: Final = Mcp1Tool()


def look_up(host: ToolHost, server: Any, tool: Any) -> Any:
    """Return what a server's look-up gives: the tool's view to the host that runs a guarded call, else the tool."""
    call = current.get()
    if tool is None or call is None:
        return tool
    progress = call.progress
    if progress.closed or not (progress.awaiting or progress.dispatching):
        return tool
    views: Views = server.__dict__[HOOKED]
    return views.of(host, tool, guard_of(server))


def hook_tool_manager(server: Any, tool: McpTool = TOOL) -> None:
    """Take over the look-up of the tool manager that the server has now; some servers replace it."""
    manager = server._tool_manager
    if HOOKED in manager.__dict__:
        return
    find = manager.get_tool
    manager.get_tool = lambda name: look_up(tool, server, find(name))
    manager.__dict__[HOOKED] = True
    server.__dict__.setdefault(HOOKED, Views())


@contextmanager
def in_process(server: Any, settings: Settings, name: object, arguments: object) -> Iterator[None]:
    """Open a call for a dispatch that no client asked for."""
    request = Request(
        arguments=as_mapping(arguments), trace_id=trace_id(None), facts=lambda: {"server": name_of(server)}
    )
    call = open_call(settings, name, request)
    call.progress.served()
    scope = Scope(call)
    try:
        yield
        log_finished(call)
    except Exception as exc:
        problem = call.progress.problem
        if call.failed_with(exc):
            report(call)
        elif isinstance(problem, ProtocolProblem) and problem.exception is exc:
            raise shield(protocol_exception, exc, call, problem) from None
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        if must_pass(exc):
            log_cancelled(call)
        raise
    finally:
        scope.leave()


def hook_dispatch(
    server: Any,
    unknown: Callable[[BaseException], bool],
    quiet: Callable[[Any], BaseException | None] = lambda _: None,
    *,
    tracked: bool = False,
    denied: Callable[[Any, Call, BaseException], Awaitable[bool]] | None = None,
) -> None:
    """Take over `call_tool` of a server: note what escapes it, which the handler above makes a text of.

    Args:
        server: The server.
        unknown: Returns True if an exception says that there is no such tool; no middleware can hide that.
        quiet: Returns the failure in a result that came quietly through the host's own logging and tracing.
        tracked: Whether a tracker may have wrapped the handler above, so that a crash leaves as what it was. The wire
            layer answers for it in any case.
        denied: Returns whether a check refused a tool that this caller knows, so that it isn't an unknown one.
    """
    dispatch = server.call_tool

    async def call_tool(name: str, arguments: Any = None, *args: Any, **kwargs: Any) -> Any:
        outer = current.get()
        if outer is None or outer.progress.closed:
            settings = guard_of(server)
            if settings is not None:
                with in_process(server, settings, name, arguments):
                    return await call_tool(name, arguments, *args, **kwargs)
        call = served()
        body = outer if outer is not None and not outer.progress.awaiting else None
        if body is not None:
            body.progress.dispatch_begins()
        crashed = None
        try:
            result = await dispatch(name, arguments, *args, **kwargs)
            failed = quiet(result)
        except BaseException as exc:
            without_cause(exc)
            if call is not None:
                call.progress.escapes(exc)
                if denied is not None and name == call.tool and await denied(server, call, exc):
                    call.progress.denies(exc)
                elif unknown(exc) and name == call.tool:
                    call.progress.misses(exc)
            # fastmcp dispatches twice: what its middleware sees is a refusal, as on the bare host.
            if tracked and call is not None and kwargs.get("run_middleware", True):
                crashed = shield(crash_behind, None, call, exc)
            if crashed is None:
                raise
            result = failed = None
        finally:
            if body is not None:
                body.progress.dispatch_ends()
        if crashed is not None:
            assert call is not None
            call.progress.shows(crashed)
            try:
                raise crashed
            finally:
                del crashed
        if call is not None:
            call.progress.escapes(failed)
        if failed is None:
            return result
        cause = raised_of(failed)
        if cause is not None:
            # Middleware that asks what a failure is of (to repeat it) looks at its cause, as on the bare host.
            failed.__cause__ = cause
        try:
            raise failed
        finally:
            del failed, result, cause

    server.call_tool = call_tool


def crash_behind(call: Call, exc: BaseException) -> BaseException | None:
    """Return the author's exception behind a crash of a call that is about to leave the host's dispatch, or None."""
    problem = call.progress.problem
    cause = raised_of(exc)
    if call.progress.served_by is None:  # dispatched by the author's own code, which gets what a guard raises
        return None
    if not isinstance(problem, Problem) or not problem.is_crash or cause is not problem.exception:
        return None
    # An exit would end the session, and the SDK sends its own protocol errors.
    if not isinstance(cause, Exception) or protocol_error_data(cause) is not None:
        return None
    return cause


def is_unknown_tool(exc: BaseException) -> bool:
    """Return True for the `ToolError` that the SDK's tool manager raises if it has no such tool."""
    return issubclass(type(exc), host_tool_errors()) and raised_in(exc).endswith(".tools.tool_manager")


def served() -> Call | None:
    """Return the call that the host is serving right now, outside of any tool."""
    call = current.get()
    if call is None or call.parent is not None or not call.progress.awaiting or call.progress.running:
        return None
    return call


def name_of(server: Any) -> Any:
    """Return the name of a server; None if it has none."""
    return getattr(server, "name", None)


def foreign(value: object) -> str | None:
    """Return a name or id that a client gave itself, as it may be in the log."""
    return None if value is None else log_name(str(value)[:1_000]) or None


def facts(server: str, context: Any) -> dict[str, Any]:
    """Return what the SDK's request context tells, for the log: the name that the client gives itself, its session."""
    headers = getattr(getattr(context, "request", None), "headers", None)
    client = either(getattr(getattr(context, "session", None), "client_params", None), "client_info", "clientInfo")
    who = None if client is None else f"{getattr(client, 'name', '')}/{getattr(client, 'version', '')}"
    return {
        "server": server,
        "session_id": None if headers is None else foreign(headers.get("mcp-session-id")),
        "client": foreign(who),
    }


def without_own_keys(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the `_meta` of a success without keys that only this library writes; None if it has none of them.

    A server behind this one sent them: its ids and claims aren't this server's.
    """
    if not any(isinstance(key, str) and key.startswith(OWN_KEYS) for key in meta):
        return None
    return {key: value for key, value in meta.items() if not (isinstance(key, str) and key.startswith(OWN_KEYS))}


class _Hush(logging.Filter):
    """Drops what the host logs about a failure that iserror answers and logs itself."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        super().__init__()
        self.starts = starts

    def filter(self, record: logging.LogRecord) -> bool:
        if not isinstance(record.msg, str) or not record.msg.startswith(self.starts) or hasattr(record, FORWARDED):
            return True
        return current_call() is None


def hush(logger: str, *starts: str) -> None:
    """Install the filter on a host's logger, once."""
    target = logging.getLogger(logger)
    if not any(isinstance(f, _Hush) for f in target.filters):
        target.addFilter(_Hush(starts))


def as_mapping(arguments: object) -> Mapping[str, Any] | None:
    """Return arguments that are an object; None for anything else."""
    return arguments if isinstance(arguments, Mapping) else None


def safe_jsonrpc_id(jsonrpc_id: object) -> str | int | None:
    """Return the id of a JSON-RPC request as it may be in the log."""
    return jsonrpc_id if isinstance(jsonrpc_id, int) else foreign(jsonrpc_id)


def open_call(settings: Settings, name: object, request: Request) -> Call:
    """Return the call of a request, not yet entered."""
    call = Call(settings, name if isinstance(name, str) else "", request=request)
    call.progress.looks_in((settings.errors,))
    return call
