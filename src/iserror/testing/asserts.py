"""Assertions on the outcome of a tool call, for the results of every client library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast, get_args

from iserror.client.classify import classify
from iserror.client.outcome import CallOutcome, ProtocolFailed, Succeeded, ToolFailed
from iserror.errors.failure import Failure
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.verdict import CHANGE, NOT_UNCHANGED, ONLY_IF_HARMLESS, PARTLY, REPEAT, TOOK_EFFECT, UNSURE
from iserror.errors.vocabulary import CODE_PATTERN, Category, Outcome
from iserror.redact.speech import safe_line
from iserror.support.sdk_client import TOOL_ERROR_PREFIX

# A failure's text (docs/reference/wire-format.md). `mcp` puts a prefix before it if only the decorator guards the tool.
_TEXT: Final = re.compile(
    rf"{TOOL_ERROR_PREFIX}(?P<code>{CODE_PATTERN[1:-1]}): (?P<message>.+)\n(?:(?P<hint>.+)\n|(?:.*\n){{2,}}?)?"
    r"\[(?P<tool>.*) failed; (?:(?P<advice>may be repeated(?: after (?P<wait>[0-9.]+) s)?|.+); )?"
    r"request_id: (?P<request_id>[0-9a-f]{32})\]\Z"
)


_OUTCOMES: Final[Mapping[str, Outcome]] = {
    TOOK_EFFECT: "applied",
    PARTLY: "partial",
    UNSURE: "unknown",
    ONLY_IF_HARMLESS: "unknown",
    CHANGE: "not_applied",
    NOT_UNCHANGED: "not_applied",
}
"""The outcomes that advice in a text shows; the other phrases show none."""


def assert_tool_error(
    result: object,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    category: Category | None = None,
    outcome: Outcome | None = None,
) -> Failure:
    """Assert that a tool failed with a guard's answer, and return the failure. Omitted fields may have any value.

    fastmcp's `ToolError` and a tool that is only decorated give nothing but a text. It doesn't show the category, which
    is `unknown` then, and not always the outcome.

    Args:
        result: The outcome of the call, in any form: a `CallOutcome`, a result object of mcp 1.x, mcp 2.x or fastmcp,
            or the exception that a client raised. It may also be JSON (a JSON-RPC response as a dict or bytes, or its
            result), or the `ToolFailure` that a guarded function raised.
        code: The stable code.
        retryable: Whether a retry of exactly this call can succeed and is safe.
        category: One of gRPC's canonical codes in lower case.
        outcome: Whether the side effect took place.

    Raises:
        AssertionError: If the result is anything else. The message shows it, redacted, in one line.
        TypeError: If `result` isn't the result of a call.
    """
    __tracebackhide__ = True
    missing: set[str] = set()
    if isinstance(result, ToolFailure):
        failure = result.failure
        shown = f"a ToolFailure that was not raised by a guard: {safe_line(str(result))}"
    else:
        ended = as_outcome(result)
        failure = ended.failure if isinstance(ended, ToolFailed) else None
        shown = describe(ended)
        if isinstance(ended, ToolFailed) and failure is None:
            failure, missing = _read_text(ended.text)
    if failure is None:
        raise AssertionError(f"expected a guarded tool's error, found {shown}")
    wrong = []
    for name, wanted in (("code", code), ("retryable", retryable), ("category", category), ("outcome", outcome)):
        has = getattr(failure, name)
        if wanted is not None and name in missing:
            wrong.append(f"expected {name} {wanted!r}, which the text alone does not show")
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
        AssertionError: If the result is anything else. The message shows it, redacted, in one line.
        TypeError: If `result` isn't the result of a call.
    """
    __tracebackhide__ = True
    ended = as_outcome(result)
    if not isinstance(ended, ProtocolFailed):
        raise AssertionError(f"expected a JSON-RPC error, found {describe(ended)}")
    if code is not None and ended.code != code:
        raise AssertionError(f"expected code {code}, found {describe(ended)}")
    return ended


def as_outcome(result: object) -> CallOutcome:
    """Read the outcome of a call from any form.

    Raises:
        TypeError: If `result` isn't the result of a call.
    """
    if isinstance(result, get_args(CallOutcome)):
        return cast(CallOutcome, result)
    if isinstance(result, Mapping) and "jsonrpc" not in result:
        answer = result if result.keys() & {"result", "error"} else {"result": result}
        result = {"jsonrpc": "2.0", "id": 0, **answer}
    return classify(result)


def describe(outcome: CallOutcome) -> str:
    """Describe an outcome for people: one line, without secrets."""
    if isinstance(outcome, Succeeded):
        return f"a success: {safe_line(outcome.text, empty='no text')}"
    if isinstance(outcome, ToolFailed):
        kind = "a tool error" if outcome.failure is not None else "a tool error without an envelope"
        return f"{kind}: {safe_line(outcome.text, empty='no text')}"
    if isinstance(outcome, ProtocolFailed):
        return f"JSON-RPC error {outcome.code}: {outcome.message}"
    return f"{type(outcome).__name__}: {safe_line(outcome.report)}"


def _read_text(text: str) -> tuple[Failure | None, set[str]]:
    """Read a guard's text: return the failure, and the names of the fields that the text doesn't show."""
    said = _TEXT.match(text)
    if said is None:
        return None, set()
    advice = said["advice"]
    outcome = _OUTCOMES.get(advice or "")
    envelope = {
        **{name: said[name] for name in ("code", "message", "hint", "tool", "request_id")},
        "advice": advice,
        "retryable": (advice or "").startswith(REPEAT),
        "retry_after": said["wait"] and float(said["wait"]),
        "category": "unknown",
        "outcome": outcome or "unknown",
    }
    return Failure.from_wire(envelope), {"category"} if outcome else {"category", "outcome"}
