"""What the store keeps of a call, as JSON: its arguments' hash, its request id, and how it ended. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json

from iserror.errors.blocks import stored_blocks
from iserror.errors.failure import Failure
from iserror.errors.problem import Problem
from iserror.errors.returned import redacted_meta, safe_structured
from iserror.idempotency.scope import plain
from iserror.redact import Safe
from iserror.support.jsonrpc import json_size
from iserror.support.look import look
from iserror.support.sdk import content_block, dumped_result, is_of_a_host, loaded_result

MAX_RESULT: Final = 1 << 20
"""Bytes of a result's JSON; more is not kept."""

LOST: Final[Mapping[str, Any]] = {"kind": "lost", "failure": None}
"""What stands for the result of a call that took effect, if it wasn't kept."""


def begun(arguments: str, request_id: str) -> dict[str, Any]:
    """Return what is kept of a call that begins."""
    return {"arguments": arguments, "request_id": request_id}


def packed(record: Mapping[str, Any]) -> bytes:
    """Return a record in the form that the store keeps."""
    return json.dumps(record, separators=(",", ":")).encode()


def read(stored: bytes) -> dict[str, Any]:
    """Return a stored record. For anything else, return an empty one, which fits no call."""
    found = look(json.loads, None, stored)
    return found if isinstance(found, dict) else {}


# --- failures ------------------------------------------------------------------------------------------------


def of_failure(failure: Failure, problem: Problem) -> dict[str, Any]:
    """Return what is kept of a failure that may have had an effect."""
    upstream = problem.upstream.to_wire() if problem.upstream is not None else None
    meta = look(lambda: json.loads(json.dumps(redacted_meta(problem.meta))), None)
    kept = {
        "failure": failure.to_wire(),
        "mapped": problem.mapped,
        "words": failure.words,
        "meta": meta,
        "upstream": upstream,
        "structured": look(safe_structured, None, problem.structured),
    }
    room = MAX_RESULT - json_size(kept)
    return {**kept, "blocks": look(stored_blocks, [], problem.blocks, room)} if problem.blocks else kept


def problem_in(record: Mapping[str, Any]) -> Problem | None:
    """Return the problem that the first call ended with, for a retry; None if it returned a result.

    Another retry never helps. The texts are ready to be shown.
    """
    first = str(record.get("request_id", ""))
    envelope = look(Failure.model_validate, None, record.get("failure"))
    if envelope is not None:
        return Problem(
            code=envelope.code,
            category=envelope.category,
            message=Safe(look(str, envelope.message, record.get("words", envelope.message))),
            hint=Safe(envelope.hint) if envelope.hint else None,
            outcome=envelope.outcome,
            basis="stated",
            lines="words" in record,
            details={k: Safe(v) if isinstance(v, str) else v for k, v in (envelope.details or {}).items()},
            mapped=record.get("mapped") is True,
            meta=record.get("meta"),
            blocks=tuple(block for block in look(list, [], record.get("blocks", ())) if isinstance(block, dict)),
            structured=structured if isinstance(structured := record.get("structured"), dict) else None,
            upstream=Failure.from_wire(record.get("upstream")),
            first_request_id=first,
        )
    if record.get("kind") == "lost":
        return Problem(
            "RESULT_NOT_KEPT",
            Safe("An earlier call with this idempotency key took effect. Its result was not kept."),
            outcome="applied",
            first_request_id=first,
        )
    return None if "value" in record else unknown(first)


def unknown(first_request_id: str) -> Problem:
    """Return the problem of a retry if it isn't known how far the first call got."""
    return Problem(
        "OUTCOME_UNKNOWN",
        Safe("An earlier call with this idempotency key was interrupted, and it is not known whether it took effect."),
        outcome="unknown",
        first_request_id=first_request_id,
    )


# --- results -------------------------------------------------------------------------------------------------


def of_result(fn: Any, value: Any) -> Mapping[str, Any]:
    """Return what is kept of a result: JSON that gives the same again, or `LOST`."""
    if look(_holds, True, value, lambda part: isinstance(part, (set, frozenset)) and len(part) > 1):
        return LOST  # its order on the wire is another one in each process
    hosts = look(_holds, True, value, is_of_a_host)
    for kind in ("host", "named", "declared", "blocks") if hosts else ("named", "declared", "plain"):
        text = look(_written, None, kind, fn, value)
        if text is not None and len(text) <= MAX_RESULT:
            return {"kind": kind, "value": text}
    return LOST


def result_in(fn: Any, record: Mapping[str, Any]) -> Any:
    """Return the result that a record holds.

    Raises:
        Exception: If it doesn't fit the function any more.
    """
    return _FORMS[str(record["kind"])](fn, str(record["value"]))


def _written(kind: str, fn: Any, value: Any) -> str | None:
    """Return the JSON of a value in one form; None if it doesn't give the same again."""
    if kind == "host":
        dumped = dumped_result(value)
        if dumped is None:
            return None
        text = json.dumps(dumped)
    elif kind in ("named", "declared"):
        adapter = _adapter(fn)
        if adapter is None:
            return None
        text = adapter.dump_json(value, by_alias=kind == "named", round_trip=True, warnings=False).decode()
    elif kind == "blocks":
        text = _blocks().dump_json(value, by_alias=True, warnings=False).decode()
    else:
        text = json.dumps(value, allow_nan=False)
    again = _FORMS[kind](fn, text)
    # The types too, since hosts use them: a text in a list is shown bare, a date in quotes.
    alike = plain(again) == plain(value)
    if kind == "declared" and type(value) is dict and not _holds(value, is_of_a_host):
        alike = True  # instead of a model; hosts build a model from it, too
    return text if alike and (kind == "plain" or to_json(again) == to_json(value)) else None


def _declared(fn: Any, text: str) -> Any:
    adapter = _adapter(fn)
    if adapter is None:
        raise TypeError("the function declares no return type any more")
    return adapter.validate_json(text)


def _host(_fn: Any, text: str) -> Any:
    return loaded_result(json.loads(text), _blocks().validate_python)


def _from_blocks(_fn: Any, text: str) -> Any:
    return _blocks().validate_json(text)


_FORMS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "host": _host,
    "named": _declared,
    "declared": _declared,
    "blocks": _from_blocks,
    "plain": lambda _fn, text: json.loads(text),
}


def _holds(value: Any, wanted: Callable[[Any], bool]) -> bool:
    """Return True if a value or a part of it passes the test."""
    if wanted(value):
        return True
    if isinstance(value, BaseModel) or is_dataclass(value):
        parts: Iterable[Any] = vars(value).values()
    elif isinstance(value, Mapping):
        parts = value.values()
    else:
        parts = value if isinstance(value, (list, tuple, set, frozenset)) else ()
    return any(_holds(part, wanted) for part in parts)


@lru_cache(maxsize=1)
def _blocks() -> TypeAdapter[Any]:
    block: Any = content_block()
    either: Any = list[block] | block
    return TypeAdapter(either)


@lru_cache(maxsize=1_000)
def _adapter(fn: Any) -> TypeAdapter[Any] | None:
    """Return the type that a function declares for its result; None if the declaration is missing or too wide."""
    hint = look(lambda: get_type_hints(fn, include_extras=True).get("return", Any), Any)
    return None if hint is Any or hint is object else look(lambda: TypeAdapter(hint), None)
