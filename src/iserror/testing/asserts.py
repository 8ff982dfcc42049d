"""Assertions on what came of a tool call, whichever client library handed it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast, get_args

from iserror.client.classify import classify
from iserror.client.outcome import CallOutcome, ProtocolFailed, Succeeded, ToolFailed
from iserror.errors.failure import Failure
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import CODE_PATTERN, Category, Outcome
from iserror.redact.speech import safe_line
from iserror.support.sdk import TOOL_ERROR_PREFIX

# A failure's text (docs/wire-format.md). `mcp` puts a prefix before it if only the decorator guards the tool.
_TEXT: Final = re.compile(
    rf"{TOOL_ERROR_PREFIX}(?P<code>{CODE_PATTERN[1:-1]}): (?P<message>.+)\n(?:(?P<hint>.+)\n)?"
    r"\[(?P<tool>.*) failed; (?:(?P<again>may be repeated)(?: after (?P<wait>[0-9.e+]+) s)?|(?P<advice>.+)); "
    r"request_id: (?P<request_id>[0-9a-f]{32})\]\Z"
)


def assert_tool_error(
    result: object,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    category: Category | None = None,
    outcome: Outcome | None = None,
) -> Failure:
    """Assert that a tool failed, with a guard's answer, and return what it says; what is left out may be anything.

    Args:
        result: What came of the call: a `CallOutcome`, a result object of mcp 1.x, mcp 2.x or fastmcp, the exception
            that a client raised, JSON (a JSON-RPC response as a dict or bytes, or its result), or the `ToolFailure`
            that a guarded function raised. Of fastmcp's `ToolError`, and of a tool that is only decorated, there is
            but the text, which does not say the category: it is `unknown`; nor always the outcome.
        code: The stable code.
        retryable: Whether repeating exactly this call can succeed and is safe.
        category: One of gRPC's canonical codes in lower case.
        outcome: Whether the side effect took place.

    Raises:
        AssertionError: It is anything else; says what was found, redacted, in one line.
        TypeError: `result` is nothing that comes of a call.
    """
    __tracebackhide__ = True
    unsaid: set[str] = set()
    if isinstance(result, ToolFailure):
        failure = result.failure
        shown = f"a ToolFailure that comes from no guard: {safe_line(str(result))}"
    else:
        came = came_of(result)
        failure = came.failure if isinstance(came, ToolFailed) else None
        shown = found(came)
        if isinstance(came, ToolFailed) and failure is None:
            failure, unsaid = _of_text(came.text)
    if failure is None:
        raise AssertionError(f"expected a guarded tool's error, found {shown}")
    wrong = []
    for name, wanted in (("code", code), ("retryable", retryable), ("category", category), ("outcome", outcome)):
        has = getattr(failure, name)
        if wanted is not None and name in unsaid:
            wrong.append(f"expected {name} {wanted!r}, which a text alone does not say")
        elif wanted is not None and has != wanted:
            wrong.append(f"expected {name} {wanted!r}, found {has!r}")
    if wrong:
        raise AssertionError(f"{'; '.join(wrong)} in {safe_line(failure.text)}")
    return failure


def assert_protocol_error(result: object, *, code: int | None = None) -> ProtocolFailed:
    """Assert that a call ended with a JSON-RPC error, and return it.

    Args:
        result: As for `assert_tool_error`.
        code: The JSON-RPC code.

    Raises:
        AssertionError: It is anything else; says what was found, redacted, in one line.
        TypeError: `result` is nothing that comes of a call.
    """
    __tracebackhide__ = True
    came = came_of(result)
    if not isinstance(came, ProtocolFailed):
        raise AssertionError(f"expected a JSON-RPC error, found {found(came)}")
    if code is not None and came.code != code:
        raise AssertionError(f"expected code {code}, found {found(came)}")
    return came


def came_of(result: object) -> CallOutcome:
    """What came of a call, read from any form.

    Raises:
        TypeError: It is none.
    """
    if isinstance(result, get_args(CallOutcome)):
        return cast(CallOutcome, result)
    if isinstance(result, Mapping) and "jsonrpc" not in result:
        answer = result if result.keys() & {"result", "error"} else {"result": result}
        result = {"jsonrpc": "2.0", "id": 0, **answer}
    return classify(result)


def found(came: CallOutcome) -> str:
    """What came, for a person: one line, without secrets."""
    if isinstance(came, Succeeded):
        return f"a success: {safe_line(came.text, empty='no text')}"
    if isinstance(came, ToolFailed):
        kind = "a tool error" if came.failure is not None else "a tool error without an envelope"
        return f"{kind}: {safe_line(came.text, empty='no text')}"
    if isinstance(came, ProtocolFailed):
        return f"JSON-RPC error {came.code}: {came.message}"
    return f"{type(came).__name__}: {safe_line(came.report)}"


def _of_text(text: str) -> tuple[Failure | None, set[str]]:
    """What a guard's text says, and the names of the fields that it does not say."""
    said = _TEXT.match(text)
    if said is None:
        return None, set()
    advice, again = said["advice"] or "", said["again"] is not None
    outcome = "applied" if advice.startswith("it took effect") else "not_applied"
    if again or advice.startswith("it may have taken effect"):
        outcome = "unknown"
    envelope = {
        **{name: said[name] for name in ("code", "message", "hint", "tool", "request_id")},
        "retryable": again,
        "retry_after": said["wait"] and float(said["wait"]),
        "category": "unknown",
        "outcome": outcome,
    }
    return Failure.from_wire(envelope), {"category", "outcome"} if outcome == "unknown" else {"category"}
