"""`ToolErrors`: the decorator `@guard`, and `guard.attach(server)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from iserror import hosts
from iserror.errors.errormap import ErrorMap
from iserror.errors.vocabulary import EFFECTS, Effect
from iserror.layers.function import decorate
from iserror.layers.options import Options
from iserror.layers.settings import RETURNED_ERRORS, ReturnedErrors, Settings, checked_map
from iserror.logs.configure import prepare
from iserror.support.validate import check_choice, check_flag, is_number

P = ParamSpec("P")
R = TypeVar("R")


class ToolErrors(Settings):
    """Guard tools: every failure becomes a safe, stable answer for the model and one line in the log.

    Args:
        errors: What domain exceptions mean. Without a map, every exception except `ToolFailure` is a crash.
        effects: What tools do that declare nothing themselves: a mapping of names or patterns (`{"get_*": "read"}`) to
            `"read"`, `"idempotent"` or `"write"`, or a function of the host's tool object that returns one of them or
            None. The most careful of all patterns that match the registered name counts. `@guard(effect=...)` and
            annotations go first. A tool without a declared effect counts as a write when a retry has to be
            safe, and its texts claim nothing.
        trust_upstream: Whether a pattern, or another server's annotations, can call a proxied tool `"read"` or
            `"idempotent"` (default: False). Its own name in `effects` always can.
        unknown_tool: Channel for a tool that is unknown or hidden: `"protocol"` (JSON-RPC -32602, the default) or
            `"result"` (`UNKNOWN_TOOL`, as SEP-2145 proposes).
        invalid_arguments: Channel for arguments that don't fit: `"auto"` (default) follows the negotiated revision
            (SEP-1303: a result from 2025-11-25 on), else `"result"` or `"protocol"`.
        returned_errors: What to do with a return value that reads like an error although it is a success: `"log"` it
            (default), `"convert"` it to `RETURNED_ERROR`, or nothing (`"off"`).
        is_returned_error: The predicate behind `returned_errors`, a function of the value. It returns whether the value
            is an error, or a `ToolFailure` that says what it means: code, message, hint, category and outcome.
        output_check: Whether results are checked against the output schema on every host (`"always"`, the default), or
            only where the bare host does it (`"host"`): fastmcp doesn't.
        structured: When `structuredContent` holds the envelope: `"auto"` (default: only if the tool has no output
            schema, since clients validate it), `"always"`, `"never"`.
        tool_failure_meta: Whether to write the draft `io.modelcontextprotocol/toolFailure` too (pull requests 3312 and
            3313 of the specification).
        log_arguments: Whether to put the redacted arguments into the log line. Off by default: they are user data.
        calls: Whether to log `tool_started` and `tool_finished` too, at debug level.
        on_error: `hook(exception, failure)`, called once per failure with the original exception; for trackers.
        forward: Which failures the host's own logger hears of, with the original exception, as it did before the
            guard was attached: `"crashes"` (default: `INTERNAL_ERROR` and `INVALID_OUTPUT`), `"all"`, or `"none"`.
            Where `on_error` is set it gets them instead, unless this is `"all"`.
        idempotency: Where the keys of `@guard(idempotency_key=...)` are kept, and for whom (default: in this process).

    Raises:
        TypeError: If a map, a hook or `idempotency` is of the wrong type.
        ValueError: If a setting isn't one of its choices.
    """

    # --- the decorator ---------------------------------------------------------------------------------------

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
        asks_first: bool = False,
        returned_errors: ReturnedErrors | None = None,
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
        asks_first: bool = False,
        returned_errors: ReturnedErrors | None = None,
    ) -> Any:
        """Guard one function: use it as `@guard` or `@guard(effect="read")`, below the host's decorator.

        The function keeps its name, signature, annotations, docstring and kind. It returns what it returned before, or
        raises `ToolFailure`.

        Args:
            fn: The tool's function: sync, async, a generator, an async generator, or a callable object.
            effect: What the tool does: `"read"`, `"idempotent"` or `"write"`. If omitted, the tool's annotations
                decide, then `effects` of the guard. With `idempotency_key` it is a write.
            errors: Entries for this tool only. They go before the guard's own.
            timeout: Seconds after which an async tool is stopped and answers `TIMEOUT` (default: no limit).
            idempotency_key: Name of the tool's parameter that takes an idempotency key. A second call with the same
                key and arguments gets the first result, and the body does not run again.
            asks_first: Whether the tool does nothing before it has asked the client (elicitation, sampling, roots).
                Then a client that can't be asked means `not_applied`.
            returned_errors: What to do with a success of this tool that reads like an error: `"log"`, `"convert"` or
                `"off"` (default: as the guard does).

        Raises:
            TypeError: If `fn` isn't a function (a registered tool object, a class, a coroutine).
            ValueError: If the effect is unknown; if the timeout isn't positive, or the function not async; if the key
                is for a tool that reads or is a generator, or its parameter is missing.
        """
        if effect is not None:
            check_choice("effect", effect, EFFECTS)
        maps = (self.errors,) if errors is None else (checked_map(errors), self.errors)
        if timeout is not None and not (is_number(timeout) and timeout > 0):
            raise ValueError(f"timeout {timeout!r} is not valid: use a number of seconds above 0")
        if idempotency_key is not None and effect == "read":
            raise ValueError("idempotency_key= goes with a write: a tool that reads is safe to repeat as it is")
        check_flag("asks_first", asks_first)
        if returned_errors is not None:
            check_choice("returned_errors", returned_errors, RETURNED_ERRORS)
        options = Options(self, maps, effect, timeout, idempotency_key, asks_first, returned_errors)
        if fn is None:
            return functools.partial(decorate, options)
        return decorate(options, fn)

    # --- a server --------------------------------------------------------------------------------------------

    def attach(self, server: Any) -> None:
        """Guard a whole server: every tool, now or later, and what fails before and after the tools run.

        Args:
            server: An `mcp` 1.x `FastMCP`, an `mcp` 2.x `MCPServer`, or a `fastmcp` 3.x or 4.x `FastMCP`.

        Raises:
            TypeError: If `server` is none of these.
            ValueError: If another guard is attached to it. The same one again is harmless.
        """
        hosts.attach(server, self)
        prepare()
