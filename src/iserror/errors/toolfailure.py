"""`ToolFailure`: the exception that carries a failure to the host."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem
from iserror.errors.vocabulary import CATEGORIES, OUTCOMES, Category, Outcome, check_code
from iserror.errors.wait import parse_retry_after
from iserror.redact.speech import Scalar
from iserror.support.causes import CAUSE, origin
from iserror.support.look import look
from iserror.support.sdk import host_tool_errors
from iserror.support.validate import check_choice


class ToolFailure(Exception):  # noqa: N818 - it is MCP's own word for it, and the contract's
    """Fail a tool call on purpose, with its own code, where no exception type fits.

    Args:
        code: Stable code, `^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, 3 to 64 characters.
        message: What was observed. It is redacted (unless it is a `Safe`), made one line, cut
            at 500 characters and shown on the wire. Text of the exception being handled is put in quotes.
        hint: The valid next step for the model. Treated like `message`.
        category: One of gRPC's canonical codes in lower case (default: `unknown`).
        retryable: Whether an equal call can succeed. The wire's `retryable` says in addition that a retry is safe.
        retry_after: Seconds before which a retry is pointless: a number, `timedelta`, `datetime` or `Retry-After`
            header value.
        outcome: Whether the side effect took place. If omitted, a category says it: `not_found` and the like mean that
            nothing was applied. A subclass may set it for all of its instances.
        details: A flat JSON object for programs. Values are redacted.

    Raises:
        ValueError: If the code is malformed, the category or outcome unknown, or the message empty.

    An instance is also a `ToolError` of every host that the process has loaded. So each of them answers with its text,
    even where it masks other errors.
    """

    failure: Failure | None = None
    """What the guard said that raised it; None for one that an author raised."""
    _problem: Problem | None = None
    outcome: Outcome | None = None
    log_level = logging.WARNING
    """The level at which fastmcp logs its `FastMCPError` classes, which this becomes one of."""

    def __new__(cls, *args: object, **kwargs: object) -> ToolFailure:
        return super().__new__(bound_class(cls))

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        category: Category = "unknown",
        retryable: bool = False,
        retry_after: float | timedelta | datetime | str | None = None,
        outcome: Outcome | None = None,
        details: Mapping[str, Scalar] | None = None,
    ) -> None:
        check_choice("category", category, CATEGORIES)
        if outcome is not None:
            check_choice("outcome", outcome, OUTCOMES)
        if not isinstance(message, str) or not message.strip():
            raise ValueError("message must be a text that says what was observed")
        self.code = check_code(code)
        self.message = message
        self.hint = hint
        self.category: Category = category
        self.retryable = bool(retryable)
        self.retry_after = parse_retry_after(retry_after)
        if outcome is not None:
            self.outcome = outcome
        self.details = dict(details) if details else None
        Exception.__init__(self, f"{code}: {message}")

    @classmethod
    def raised_for(cls, failure: Failure, problem: Problem | None = None) -> ToolFailure:
        """Return the exception with which a guard answers. Its text is the full text for the model.

        Args:
            failure: What it says.
            problem: What went wrong, for the layers above.
        """
        made = cls(
            failure.code,
            failure.message,
            hint=failure.hint,
            category=failure.category,
            retryable=failure.retryable,
            retry_after=failure.retry_after,
            outcome=failure.outcome,
            details=failure.details,
        )
        made.failure = failure
        made._problem = problem
        made.args = (failure.text,)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in self.__dict__.items() if key != "_problem"}
        # The class as its author wrote it: another process binds it to the hosts that it has loaded.
        written = next(cls for cls in type(self).__mro__ if "_bound_to" not in vars(cls))
        return _rebuild, (written, self.args, state)


# Logs and pickles name the class by its public address, wherever the module is.
ToolFailure.__module__ = "iserror"


def _rebuild(cls: type[ToolFailure], args: tuple[object, ...], state: dict[str, object]) -> ToolFailure:
    made = cls.__new__(cls)
    made.args = args
    made.__dict__.update(state)
    return made


def bound_class(cls: type[ToolFailure] = ToolFailure) -> type[ToolFailure]:
    """Return the class as a subclass of the running hosts' `ToolError` classes."""
    hosts = host_tool_errors()
    missing = tuple(host for host in hosts if not issubclass(cls, host))
    # A metaclass or `__init_subclass__` of the author's may refuse: then the class stays as it is.
    return look(_bound_class, cls, cast(Any, cls), missing) if missing else cls


@lru_cache(maxsize=256)
def _bound_class(cls: Any, hosts: tuple[Any, ...]) -> type[ToolFailure]:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls, *hosts), {**names, "_bound_to": hosts})


def came_from(exc: BaseException) -> tuple[BaseException | None, str]:
    """Return what an exception came from, as `origin` does, and for a guard's `ToolFailure` what it was raised for."""
    cause = raised_of(exc)
    return (cause, "cause") if cause is not None else origin(exc)


def raised_of(exc: BaseException) -> BaseException | None:
    """Return what a guard's `ToolFailure` was raised for; None for any other exception."""
    problem = look(getattr, None, exc, "_problem", None) if issubclass(type(exc), ToolFailure) else None
    return problem.exception if isinstance(problem, Problem) else None


def without_cause(exc: BaseException) -> None:
    """Take the cause from a guard's `ToolFailure` that has what it was raised for as that: a host would log it."""
    cause = raised_of(exc)
    if cause is not None and CAUSE(exc) is cause:
        exc.__cause__ = None
