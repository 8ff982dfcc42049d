"""`ToolFailure`: the exception that carries a failure to the host."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast

from iserror.errors.blocks import checked_content
from iserror.errors.failure import Failure
from iserror.errors.problem import Problem
from iserror.errors.template import TemplateString, is_template_string, with_values
from iserror.errors.vocabulary import CATEGORIES, OUTCOMES, Category, Outcome, check_code
from iserror.errors.wait import parse_retry_after
from iserror.redact.speech import Filled, Scalar
from iserror.redact.text import Safe
from iserror.support.causes import CAUSE, origin
from iserror.support.look import look
from iserror.support.sdk import host_tool_errors
from iserror.support.validate import check_choice


class ToolFailure(Exception):  # noqa: N818 - it is MCP's own word for it, and the contract's
    """Fail a tool call on purpose, with its own code, where no exception type fits.

    Args:
        code: Stable code, `^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, 3 to 64 characters.
        message: What was observed. It is redacted (unless it is a `Safe`), made one line, cut
            at 500 characters and shown on the wire. Text of the exception being handled is put in quotes. A t-string
            of Python 3.14 has its values quoted as `values` are.
        hint: The valid next step for the model. Treated like `message`.
        category: One of gRPC's canonical codes in lower case (default: `unknown`).
        retryable: Whether an equal call can succeed. The wire's `retryable` says in addition that a retry is safe.
        retry_after: Seconds before which a retry is pointless: a number, `timedelta`, `datetime` or `Retry-After`
            header value.
        outcome: Whether the side effect took place. If omitted, a category says it: `not_found` and the like mean that
            nothing was applied. A subclass may set it for all of its instances.
        details: A flat JSON object for programs. Values are redacted.
        values: Values for names in braces in `message` and `hint`, which are templates then (`{{` and `}}` stand for
            braces). Each is shortened to 300 characters, redacted, and put in quotes unless it looks like an identifier
            or number. An exception means its text, or its class if it has none. Use it for what comes from outside:
            `ToolFailure("SEARCH_FAILED", "search failed: {why}", values={"why": exc})`.
        content: Content blocks beside the text: images, audio, links and embedded resources, as the SDK's objects, a
            host's helpers or JSON. Up to 8 blocks and 1 MiB are sent. Links and texts in them are redacted for
            credentials, and `file:` links of the server's are left out. Without `attach` only the text shows.

    Raises:
        TypeError: If `content` isn't a list of content blocks.
        ValueError: If the code is malformed, the category or outcome unknown, the message empty, a name isn't in
            `values`, or a value isn't used.

    An instance is also a `ToolError` of every host that the process has loaded. So each of them answers with its text,
    even where it masks other errors.
    """

    failure: Failure | None = None
    """What the guard said that raised it; None for one that an author raised."""
    _problem: Problem | None = None
    _described: list[dict[str, Any]] | None = None
    """What it was raised for in another process, as the log describes an exception."""
    outcome: Outcome | None = None
    log_level = logging.WARNING
    """The level at which fastmcp logs its `FastMCPError` classes, which this becomes one of."""

    def __new__(cls, *args: object, **kwargs: object) -> ToolFailure:
        return super().__new__(bound_class(cls))

    def __init__(
        self,
        code: str,
        message: str | TemplateString,
        *,
        hint: str | TemplateString | None = None,
        category: Category = "unknown",
        retryable: bool = False,
        retry_after: float | timedelta | datetime | str | None = None,
        outcome: Outcome | None = None,
        details: Mapping[str, Scalar] | None = None,
        values: Mapping[str, object] | None = None,
        content: Iterable[object] = (),
    ) -> None:
        check_choice("category", category, CATEGORIES)
        if outcome is not None:
            check_choice("outcome", outcome, OUTCOMES)
        self.code = check_code(code)
        self.message, self.hint = _texts(code, message, hint, values)
        if not isinstance(self.message, str) or not self.message.strip():
            raise ValueError("message must be a text that says what was observed")
        self.category: Category = category
        self.retryable = bool(retryable)
        self.retry_after = parse_retry_after(retry_after)
        if outcome is not None:
            self.outcome = outcome
        self.details = dict(details) if details else None
        self.content = checked_content(content)
        Exception.__init__(self, f"{code}: {self.message}")

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
        state = dict(self.__dict__)
        problem = state.pop("_problem", None)
        if isinstance(problem, Problem) and self.failure is not None:
            # Another process gets what the failure means, and the original exception as the log describes it.
            if problem.exception is not None:
                state["_described"] = look(describe.by, None, problem.exception)
            state["_problem"] = replace(problem, exception=None, meta=None, details=self.failure.details)
        # The class as its author wrote it: another process binds it to the hosts that it has loaded.
        written = next(cls for cls in type(self).__mro__ if "_bound_to" not in vars(cls))
        filled = tuple(key for key, value in state.items() if isinstance(value, Filled))
        return _rebuild, (written, self.args, state, filled)


class _Describe:
    by: Callable[[BaseException], list[dict[str, Any]]] = staticmethod(lambda _: [])


describe: Final = _Describe()
"""Describes an exception for a pickle. The log sets it."""


# Logs and pickles name the class by its public address, wherever the module is.
ToolFailure.__module__ = "iserror"


def _rebuild(
    cls: type[ToolFailure], args: tuple[object, ...], state: dict[str, object], filled: tuple[str, ...] = ()
) -> ToolFailure:
    made = cls.__new__(cls)
    made.args = args
    made.__dict__.update(state)
    for key in filled:  # its values have been quoted and redacted
        made.__dict__[key] = Safe(made.__dict__[key])
    return made


_NO_VALUE: Final = {"message": "The tool failed.", "hint": None}


def _texts(
    code: str, message: str | TemplateString, hint: str | TemplateString | None, values: Mapping[str, object] | None
) -> tuple[str, str | None]:
    """Return message and hint, with the values in quotes if they are templates."""
    if values is not None and not (isinstance(values, Mapping) and all(isinstance(name, str) for name in values)):
        raise TypeError(f"values of {code} must be a mapping of names to values, not {type(values).__name__}")
    unused = set(values or ())
    texts: list[Any] = []
    for what, text in (("message", message), ("hint", hint)):
        if is_template_string(text) or (isinstance(text, str) and values is not None):
            # A text of nothing but a value, which may be empty, is still a failure of this code.
            given = "{" in text if isinstance(text, str) else text.interpolations
            text = with_values(f"{what} of {code}", text, values or {}, unused) or (_NO_VALUE[what] if given else "")
        texts.append(text)
    if unused:
        raise ValueError(f"values of {code}: neither message nor hint has {', '.join(sorted(unused))}")
    return texts[0], texts[1]


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
    """Return what an exception came from, like `origin`, and for a guard's `ToolFailure` what it was raised for."""
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


def id_elsewhere(exc: BaseException) -> str | None:
    """Return the request id under which a guard raised a `ToolFailure`; None for any other exception."""
    failure = look(getattr, None, exc, "failure", None) if issubclass(type(exc), ToolFailure) else None
    return failure.request_id if isinstance(failure, Failure) else None


def described_elsewhere(exc: BaseException) -> object:
    """Return what a `ToolFailure` was raised for in the process that it comes from, as the log describes that."""
    return look(getattr, None, exc, "_described", None) if issubclass(type(exc), ToolFailure) else None
