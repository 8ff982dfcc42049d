"""Errors that a tool returns instead of raising them.

Two kinds: the protocol's own error results (`isError` is true), and successes that only read like an error,
which many published servers send because they catch everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, built_in
from iserror.redact import redact
from iserror.support.jsonrpc import FAILURE_KEY, MAX_DATA, json_size
from iserror.support.sdk import is_error_flag, is_result_type

if TYPE_CHECKING:
    pass


_PLAIN: Final = (str, int, float, bool, type(None), dict, list, tuple, bytes)


def from_result(value: Any) -> Problem | None:
    """The problem that a host's error result states; None for anything else, a success included."""
    kind: type = type(value)
    if kind in _PLAIN or not is_result_type(kind) or not is_error_flag(value):
        return None
    texts = (getattr(block, "text", None) for block in getattr(value, "content", None) or ())
    return from_parts([text for text in texts if isinstance(text, str)], getattr(value, "meta", None))


def from_parts(texts: list[str], meta: object) -> Problem:
    """The problem behind an error result's texts and `_meta`; an envelope of this library is kept."""
    own_meta = {key: item for key, item in meta.items() if key != FAILURE_KEY} if isinstance(meta, Mapping) else None
    envelope = Failure.from_wire(meta[FAILURE_KEY]) if isinstance(meta, Mapping) and FAILURE_KEY in meta else None
    if envelope is not None:
        return Problem(
            code=envelope.code,
            category=envelope.category,
            message=envelope.message,
            hint=envelope.hint,
            can_help=envelope.retryable,
            retry_after=envelope.retry_after,
            outcome=envelope.outcome,
            details=envelope.details,
            envelope=envelope,
            meta=own_meta,
        )
    text = "\n".join(texts)
    return built_in(
        "RETURNED_ERROR", text or "The tool reported an error without a text.", outcome="unknown", meta=own_meta
    )


_STARTS_LIKE_AN_ERROR = re.compile(
    r"\s*(?:[\[(*#❌⚠️\s]*)(?:an?\s+)?(?:(?:unexpected|internal|unknown|fatal)\s+)?(?:error|exception|failed|failure|traceback)"
    r"(?:\b(?:\s+\w+){0,6}\s*[:!\]]|\s+(?:to\s+\w+|occurred|while\s+\w+|executing\s+\w+)|\s*\(most recent call last\))",
    re.IGNORECASE,
)


def looks_like_an_error(value: Any) -> bool:
    """Whether a returned value reads like an error although it is a success: the default predicate.

    Structure first: a truthy `error`, or a `status` or `success` that says failure beside an `error` or
    `message`. Words count only at the start of a text (`Error: ...`, `Failed to ...`), since a text may
    well be about errors.
    """
    if isinstance(value, Mapping):
        if value.get("error"):
            return True
        if "error" not in value and not value.get("message"):
            return False
        status = value.get("status")
        return value.get("success") is False or (
            isinstance(status, str) and status.lower() in ("error", "failed", "failure")
        )
    return isinstance(value, str) and _STARTS_LIKE_AN_ERROR.match(value[:200]) is not None


def text_of_value(value: Any) -> str:
    """The words of a returned error: the text itself, or the `error` or `message` of a dict."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in ("message", "error"):
            found = value.get(key)
            if isinstance(found, Mapping):
                found = found.get("message")
            if isinstance(found, str) and found.strip():
                return found
    return "The tool returned an error."


def redacted_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """The `_meta` that came with a returned error, redacted and bounded."""
    if not meta:
        return {}
    safe = redact(dict(meta))
    return safe if isinstance(safe, dict) and json_size(safe) <= MAX_DATA else {}
