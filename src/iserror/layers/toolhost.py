"""What a host's adapter implements: the forms of its results, and what it knows of its tool objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from iserror.errors.errormap import ErrorMap
from iserror.layers.options import Options


class WireHost(Protocol):
    """The forms that a host sends, for the outermost layer."""

    def error_in(self, result: Any) -> tuple[object, object, object] | None:
        """Return content, structured content and `_meta` of an error result; None for any other."""

    def error_result(
        self,
        content: Sequence[Mapping[str, Any]],
        structured: Mapping[str, Any] | None,
        meta: Mapping[str, Any],
        version: str | None,
    ) -> Any:
        """Return the host's own error result.

        Args:
            content: The content blocks as they are sent, the text for the model first.
            structured: The structured content, if any.
            meta: The `_meta`.
            version: The negotiated revision; None if it can't be known.
        """

    def led(self, result: Any, line: Callable[[object, str], str | None]) -> Any:
        """Return a success as it may leave: with a line before its text, and without keys of ours that are foreign.

        Args:
            result: The success.
            line: Gives the line for its structured content and first text, if there is one.

        The result itself stays as it is: a cache of a middleware may hold it.
        """

    def protocol_error(self, code: int, message: str, data: Any) -> Any:
        """Return the exception that the host sends as this JSON-RPC error."""

    def is_unknown_tool(self, exc: BaseException) -> bool:
        """Return True if this is the host's way to say that this caller has no such tool."""


class ToolHost(Protocol):
    """What a host's tool objects do, for the tool layer."""

    run: str
    """The name of the method that the host's dispatch calls."""

    def unwrap(self, exc: BaseException) -> BaseException:
        """Return the exception inside the host's own wrapping of it."""

    def argument_error(self, exc: BaseException) -> BaseException | None:
        """Return the validation error with which the host refused the arguments, if it did."""

    def time_limit(self, exc: BaseException, tool: Any) -> float | None:
        """Return the seconds of the host's own limit, if that ended the call."""

    def check_output(self, tool: Any, result: Any) -> BaseException | None:
        """Return what the output schema has against a result that the host doesn't check itself."""

    def delegates(self, tool: Any) -> bool:
        """Return True if the tool runs one of a mounted server, so that both are the same call."""

    def pass_on(self, failed: BaseException) -> Any:
        """Raise the failure, or return it in the form that the host's dispatch passes on quietly."""


@dataclass(frozen=True, eq=False)
class Layer:
    """What is known of a tool object before it runs."""

    host: ToolHost
    tool: Any
    errors: ErrorMap | None
    """The map of the guard that is attached to the tool's own server."""
    options: Options | None
    body: object
    """The key of its function, which tells that from every other that runs below the tool object."""
    delegates: bool
