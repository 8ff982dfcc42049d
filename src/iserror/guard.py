"""`ToolErrors`: the decorator `@guard`, `guard.attach(server)`, and the settings."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from iserror import hosts
from iserror.errors import returned
from iserror.errors.errormap import ErrorMap
from iserror.errors.vocabulary import EFFECTS, Effect
from iserror.layers.function import Options, decorate
from iserror.layers.report import Hook
from iserror.logs.configure import from_environment, prepare
from iserror.support.validate import check_choice

if TYPE_CHECKING:
    from iserror.idempotency.settings import Idempotency

P = ParamSpec("P")
R = TypeVar("R")


class ToolErrors:
    """Guard tools: every failure becomes a safe, stable answer for the model and one line in the log.

    Args:
        errors: What domain exceptions mean; none makes every exception that is not raised through
            `ToolFailure` a crash.
        unknown_tool: Channel for a tool that is unknown or hidden: `"protocol"` (JSON-RPC -32602) or
            `"result"` (`UNKNOWN_TOOL`, as SEP-2145 proposes).
        invalid_arguments: Channel for arguments that do not fit: `"auto"` follows the protocol revision in
            force (SEP-1303: a result from 2025-11-25 on), else `"result"` or `"protocol"`.
        returned_errors: What to do with a return value that reads like an error though it is a success:
            `"off"`, `"log"` it, or `"convert"` it into `RETURNED_ERROR`.
        is_returned_error: The predicate behind `returned_errors`: `(value) -> bool`.
        structured: When `structuredContent` holds the envelope: `"auto"` (only where the tool has no
            output schema, since clients validate it), `"always"`, `"never"`.
        tool_failure_meta: Also write the draft `io.modelcontextprotocol/toolFailure` (pull requests 3312
            and 3313 of the specification).
        log_arguments: Put the arguments, redacted, into the log line. Off: they are the users' data.
        calls: Log `tool_started` and `tool_finished` too, at debug level.
        on_error: `hook(exception, failure)`, called once a failure with the original exception, for trackers.
        idempotency: Where the keys of `@guard(idempotency_key=...)` are kept, and for whom; left out, in this
            process.

    Raises:
        TypeError, ValueError: A setting that is not one of these.
    """

    def __init__(
        self,
        errors: ErrorMap | None = None,
        *,
        unknown_tool: Literal["protocol", "result"] = "protocol",
        invalid_arguments: Literal["auto", "result", "protocol"] = "auto",
        returned_errors: Literal["off", "log", "convert"] = "off",
        is_returned_error: Callable[[Any], bool] | None = None,
        structured: Literal["auto", "always", "never"] = "auto",
        tool_failure_meta: bool = False,
        log_arguments: bool = False,
        calls: bool = False,
        on_error: Hook | None = None,
        idempotency: Idempotency | None = None,
    ) -> None:
        self.errors = _checked_map(errors) if errors is not None else ErrorMap()
        check_choice("unknown_tool", unknown_tool, frozenset({"protocol", "result"}))
        check_choice("invalid_arguments", invalid_arguments, frozenset({"auto", "result", "protocol"}))
        check_choice("returned_errors", returned_errors, frozenset({"off", "log", "convert"}))
        check_choice("structured", structured, frozenset({"auto", "always", "never"}))
        for what, value in (
            ("tool_failure_meta", tool_failure_meta),
            ("log_arguments", log_arguments),
            ("calls", calls),
        ):
            if not isinstance(value, bool):
                raise ValueError(f"{what} {value!r} is not valid: use True or False")
        for what, hook in (("on_error", on_error), ("is_returned_error", is_returned_error)):
            if hook is not None and not callable(hook):
                raise TypeError(f"{what} must be a function, not {hook!r}")
            if inspect.iscoroutinefunction(hook):
                raise TypeError(f"{what} must be a plain function, not an async one: nothing would await it")
        self.unknown_tool = unknown_tool
        self.invalid_arguments = invalid_arguments
        self.returned_errors = returned_errors
        self.is_returned_error = is_returned_error or returned.looks_like_an_error
        self.structured = structured
        self.tool_failure_meta = tool_failure_meta
        self.log_arguments = log_arguments
        self.calls = calls
        self.on_error = on_error
        self.local_maps: list[tuple[str, ErrorMap]] = []
        """Maps of single tools, with the name of the function; for the catalogue."""
        self.idempotency = _checked_idempotency(idempotency) if idempotency is not None else None
        from_environment()

    # --- the decorator -------------------------------------------------------------------------------------

    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self,
        fn: None = None,
        /,
        *,
        effect: Effect | None = None,
        errors: ErrorMap | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def __call__(
        self,
        fn: Callable[..., Any] | None = None,
        /,
        *,
        effect: Effect | None = None,
        errors: ErrorMap | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Guard one function: use it as `@guard` or `@guard(effect="read")`, below the host's decorator.

        The function keeps its name, signature, annotations, docstring and kind. It returns what it
        returned, or raises `ToolFailure`.

        Args:
            fn: The tool's function; sync, async, generator or async generator, or a callable object.
            effect: What the tool does: `"read"`, `"idempotent"` or `"write"`. Unsaid, the tool's annotations
                decide, else it is a write.
            errors: Entries for this tool only; they go before the guard's own.
            timeout: Seconds after which an async tool is stopped and answers `TIMEOUT`.
            idempotency_key: Name of the tool's parameter that takes an idempotency key: a repeat of a write with the
                same key and arguments gets the first result, and the body does not run again.

        Raises:
            TypeError: `fn` is no function (a registered tool object, a class, a coroutine).
            ValueError: An unknown effect, a timeout that is not positive, or one on a sync function; a key for a
                tool that reads or is a generator, or whose parameter is missing.
        """
        if effect is not None:
            check_choice("effect", effect, EFFECTS)
        maps = (self.errors,) if errors is None else (_checked_map(errors), self.errors)
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf
        ):
            raise ValueError(f"timeout {timeout!r} is not valid: use a number of seconds above 0")
        if idempotency_key is not None and effect == "read":
            raise ValueError("idempotency_key= goes with a write: a tool that reads is safe to repeat as it is")
        options = Options(self, maps, effect, timeout, idempotency_key)
        if fn is None:
            return functools.partial(decorate, options)
        return decorate(options, fn)

    # --- a server ------------------------------------------------------------------------------------------

    def attach(self, server: Any) -> None:
        """Guard a whole server: every tool, now or later, and what fails before and after the tools run.

        Args:
            server: An `mcp` 1.x `FastMCP`, an `mcp` 2.x `MCPServer`, or a `fastmcp` 3.x or 4.x `FastMCP`.

        Raises:
            TypeError: `server` is none of these.
            ValueError: Another guard is attached to it already. The same one again is harmless.
        """
        hosts.attach(server, self)
        prepare()


def _checked_map(errors: object) -> ErrorMap:
    if not isinstance(errors, ErrorMap):
        raise TypeError(f"errors must be an ErrorMap, not {type(errors).__name__}")
    return errors


def _checked_idempotency(idempotency: object) -> Idempotency:
    from iserror.idempotency.settings import Idempotency  # whoever has one has imported it

    if not isinstance(idempotency, Idempotency):
        raise TypeError(f"idempotency must be an Idempotency, not {type(idempotency).__name__}")
    return idempotency
