"""The protocol's own error results (`isError` is true) that a tool returns instead of raising an error.

Successes that only read like an error are in `iserror.errors.lookalike`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iserror.errors.blocks import others
from iserror.errors.failure import Failure
from iserror.errors.foreign import MAX_WORDS
from iserror.errors.problem import Problem
from iserror.redact import redact
from iserror.redact.speech import quoted
from iserror.support.jsonrpc import FAILURE_KEY, MAX_DATA, OWN_KEYS, json_size
from iserror.support.look import look
from iserror.support.sdk import either, is_error, is_result_type, texts_in

_PLAIN: Final = (str, int, float, bool, type(None), dict, list, tuple, bytes)


def stated_problem(value: Any) -> Problem | None:
    """Return the problem that a host's error result states; None for anything else, a success included."""
    kind: type = type(value)
    if kind in _PLAIN or not look(is_result_type, False, kind) or not look(is_error, False, value):
        return None
    return problem_of_result(
        look(getattr, (), value, "content", ()),
        look(either, None, value, "structured_content", "structuredContent"),
        look(getattr, None, value, "meta", None),
    )


def problem_of_result(content: object, structured: object, meta: object) -> Problem:
    """Return the problem behind an error result, read from an envelope of this library in its `_meta` if there is one.

    Args:
        content: Its blocks, as objects or as they are sent.
        structured: Its structured content.
        meta: Its `_meta`.
    """
    texts = look(texts_in, [], content)
    blocks = look(others, (), content)
    items = meta.items() if isinstance(meta, Mapping) else ()
    own_meta = {key: item for key, item in items if not str(key).startswith(OWN_KEYS)}
    sent = Failure.from_wire(meta[FAILURE_KEY]) if isinstance(meta, Mapping) and FAILURE_KEY in meta else None
    if sent is not None:
        # Another server wrote this text: it is quoted. This server decides whether a retry is safe, and what to do.
        return Problem(
            sent.code,
            quoted(sent.message, MAX_WORDS) or "The call failed.",
            sent.category,
            hint=(quoted(sent.hint, MAX_WORDS) or None) if sent.hint else None,
            can_help=sent.retryable,
            retry_after=sent.retry_after,
            outcome=sent.outcome,
            basis="upstream",
            details=sent.details,
            upstream=sent,
            meta=own_meta,
            blocks=blocks,
            structured=own_structured(structured, sent),
        )
    text = "\n".join(texts) or "The tool reported an error without a text."
    return Problem(
        "RETURNED_ERROR", text, meta=own_meta, blocks=blocks, structured=own_structured(structured), lines=True
    )


def own_structured(structured: object, sent: Failure | None = None) -> dict[str, Any] | None:
    """Return the structured content of an error result that is the author's; None if it is only an envelope.

    Args:
        structured: The structured content.
        sent: What the envelope in `_meta` says, if there is one.
    """
    if not isinstance(structured, Mapping):
        return None
    own = {key: item for key, item in structured.items() if not str(key).startswith(OWN_KEYS)}
    is_envelope = sent is not None and own.get("request_id") == sent.request_id
    return None if is_envelope or not own else own


def safe_structured(structured: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an author's structured content of an error as it may be sent: redacted; None if it is too large."""
    if not structured:
        return None
    safe = redact(dict(structured))
    return safe if isinstance(safe, dict) and json_size(safe) <= MAX_STRUCTURED else None


MAX_STRUCTURED: Final = 64_000
"""Bytes of JSON that the structured content of an error may have."""


def redacted_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the `_meta` that came with a returned error, redacted; empty if it is larger than `MAX_DATA`."""
    if not meta:
        return {}
    safe = redact(dict(meta))
    return safe if isinstance(safe, dict) and json_size(safe) <= MAX_DATA else {}
