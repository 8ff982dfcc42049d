"""`Settings`: the options of `ToolErrors`, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from iserror.errors.errormap import ErrorMap
from iserror.errors.failure import Failure
from iserror.errors.lookalike import looks_like_an_error
from iserror.layers.effects import Effects, checked_effects
from iserror.logs.configure import from_environment
from iserror.support.validate import check_choice, check_flag, check_plain_function

if TYPE_CHECKING:
    from iserror.idempotency.settings import Idempotency

Hook: TypeAlias = Callable[[BaseException, Failure], object]
"""Called once per failure, with the original exception."""

ReturnedErrors: TypeAlias = Literal["off", "log", "convert"]
"""What to do with a success that reads like an error."""

RETURNED_ERRORS: Final = frozenset({"off", "log", "convert"})
_CHOICES: Final = {
    "unknown_tool": frozenset({"protocol", "result"}),
    "invalid_arguments": frozenset({"auto", "result", "protocol"}),
    "returned_errors": RETURNED_ERRORS,
    "output_check": frozenset({"always", "host"}),
    "structured": frozenset({"auto", "always", "never"}),
    "forward": frozenset({"crashes", "all", "none"}),
}


class Settings:
    """The settings of a guard. `ToolErrors` documents each of them."""

    def __init__(
        self,
        errors: ErrorMap | None = None,
        *,
        effects: Effects | None = None,
        trust_upstream: bool = False,
        unknown_tool: Literal["protocol", "result"] = "protocol",
        invalid_arguments: Literal["auto", "result", "protocol"] = "auto",
        returned_errors: ReturnedErrors = "log",
        is_returned_error: Callable[[Any], object] | None = None,
        output_check: Literal["always", "host"] = "always",
        structured: Literal["auto", "always", "never"] = "auto",
        tool_failure_meta: bool = False,
        log_arguments: bool = False,
        calls: bool = False,
        on_error: Hook | None = None,
        forward: Literal["crashes", "all", "none"] = "crashes",
        idempotency: Idempotency | None = None,
    ) -> None:
        self.errors = checked_map(errors) if errors is not None else ErrorMap()
        self.effects = checked_effects(effects)
        check_flag("trust_upstream", trust_upstream)
        self.trust_upstream = trust_upstream
        check_choice("unknown_tool", unknown_tool, _CHOICES["unknown_tool"])
        check_choice("invalid_arguments", invalid_arguments, _CHOICES["invalid_arguments"])
        check_choice("returned_errors", returned_errors, _CHOICES["returned_errors"])
        check_choice("output_check", output_check, _CHOICES["output_check"])
        check_choice("structured", structured, _CHOICES["structured"])
        check_choice("forward", forward, _CHOICES["forward"])
        check_flag("tool_failure_meta", tool_failure_meta)
        check_flag("log_arguments", log_arguments)
        check_flag("calls", calls)
        check_plain_function("on_error", on_error)
        check_plain_function("is_returned_error", is_returned_error)
        self.unknown_tool = unknown_tool
        self.invalid_arguments = invalid_arguments
        self.returned_errors = returned_errors
        self.is_returned_error = is_returned_error or looks_like_an_error
        self.output_check = output_check
        self.structured = structured
        self.tool_failure_meta = tool_failure_meta
        self.log_arguments = log_arguments
        self.calls = calls
        self.on_error = on_error
        self.forward = forward
        self.local_maps: list[tuple[str, ErrorMap]] = []
        """Maps of single tools, each with the function's name; for the catalog of codes."""
        self.idempotency = _checked_idempotency(idempotency) if idempotency is not None else None
        from_environment()


def checked_map(errors: object) -> ErrorMap:
    """Return `errors`.

    Raises:
        TypeError: If it isn't an `ErrorMap`.
    """
    if not isinstance(errors, ErrorMap):
        raise TypeError(f"errors must be an ErrorMap, not {type(errors).__name__}")
    return errors


def _checked_idempotency(idempotency: object) -> Idempotency:
    # Late: a server without keys doesn't load them, and whoever has an `Idempotency` has imported it.
    from iserror.idempotency.settings import Idempotency

    if not isinstance(idempotency, Idempotency):
        raise TypeError(f"idempotency must be an Idempotency, not {type(idempotency).__name__}")
    return idempotency
