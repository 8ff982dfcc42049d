"""What the store keeps of a call, as JSON: its arguments' hash, its request id, and how it ended. Never a pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from iserror.attempt import attempt
from iserror.failure import Failure
from iserror.idempotency.scope import plain
from iserror.problem import Problem, built_in
from iserror.redact import Safe

MAX_RESULT: Final = 1 << 20
"""Bytes of a result's JSON; more is not kept."""

LOST: Final[Mapping[str, Any]] = {"kind": "lost", "failure": None}
"""Of a call that took effect: its result was not kept."""

_HOSTS: Final = ("mcp", "mcp_types", "fastmcp")
_PLAIN: Final = (str, int, float, bool, type(None), dict, list, tuple)


def begun(arguments: str, request_id: str) -> dict[str, Any]:
    """What is kept of a call that begins."""
    return {"arguments": arguments, "request_id": request_id}


def packed(record: Mapping[str, Any]) -> bytes:
    """A record as the store has it."""
    return json.dumps(record, separators=(",", ":")).encode()


def read(stored: bytes) -> dict[str, Any]:
    """A record; of what is none, an empty one, which fits no call."""
    found = attempt(json.loads, None, stored)
    return found if isinstance(found, dict) else {}


# --- failures ------------------------------------------------------------------------------------------------


def of_failure(failure: Failure, problem: Problem) -> dict[str, Any]:
    """What is kept of a failure that may have had an effect."""
    return {"failure": failure.to_wire(), "mapped": problem.mapped}


def problem_in(record: Mapping[str, Any]) -> Problem | None:
    """The problem that the first call ended with, to be said of a repeat; None where it returned a result.

    A repeat never helps. The texts are ready to be shown.
    """
    first = str(record.get("request_id", ""))
    envelope = attempt(Failure.model_validate, None, record.get("failure"))
    if envelope is not None:
        return Problem(
            code=envelope.code,
            category=envelope.category,
            message=Safe(envelope.message),
            hint=Safe(envelope.hint) if envelope.hint else None,
            outcome=envelope.outcome,
            details={k: Safe(v) if isinstance(v, str) else v for k, v in (envelope.details or {}).items()},
            mapped=record.get("mapped") is True,
            first_request_id=first,
        )
    if record.get("kind") == "lost":
        return built_in(
            "RESULT_NOT_KEPT",
            "An earlier call with this idempotency key took effect. Its result was not kept.",
            outcome="applied",
            constant=True,
            first_request_id=first,
        )
    return None if "value" in record else unknown(first)


def unknown(first_request_id: str) -> Problem:
    """Nobody knows how far the first call got."""
    return built_in(
        "OUTCOME_UNKNOWN",
        "An earlier call with this idempotency key was interrupted, and it is not known whether it took effect.",
        outcome="unknown",
        constant=True,
        first_request_id=first_request_id,
    )


# --- results -------------------------------------------------------------------------------------------------


def of_result(fn: Any, value: Any) -> Mapping[str, Any]:
    """What is kept of a result: JSON that gives the same again, or that it was not kept."""
    hosts = attempt(_holds_hosts_object, True, value)
    for kind in ("host", "named", "declared", "blocks") if hosts else ("named", "declared", "plain"):
        text = attempt(_written, None, kind, fn, value)
        if text is not None and len(text) <= MAX_RESULT:
            return {"kind": kind, "value": text}
    return LOST


def result_in(fn: Any, record: Mapping[str, Any]) -> Any:
    """The result that a record holds.

    Raises:
        Exception: It does not fit the function any more.
    """
    return _FORMS[str(record["kind"])](fn, str(record["value"]))


def _written(kind: str, fn: Any, value: Any) -> str | None:
    """The JSON of a value in one form; None if it does not give the same again."""
    if kind == "host":
        name = type(value).__name__
        if _package(value) not in _HOSTS or name not in ("CallToolResult", "ToolResult"):
            return None
        text = json.dumps({"class": name, **value.model_dump(mode="json", by_alias=True)})
    elif kind in ("named", "declared"):
        adapter = _adapter(fn)
        if adapter is None:
            return None
        text = adapter.dump_json(value, by_alias=kind == "named", round_trip=True).decode()
    elif kind == "blocks":
        text = _blocks().dump_json(value, by_alias=True).decode()
    else:
        if _adapter(fn) is not None and type(value) not in _PLAIN:
            return None
        text = json.dumps(to_jsonable_python(value), allow_nan=False)
    again = _FORMS[kind](fn, text)
    if type(again) is type(value) and bool(again == value):
        return text
    if _holds_hosts_object(value):
        return None
    return text if plain(again) == plain(value) else None


def _declared(fn: Any, text: str) -> Any:
    adapter = _adapter(fn)
    if adapter is None:
        raise TypeError("the function declares no return type any more")
    return adapter.validate_json(text)


def _host(_fn: Any, text: str) -> Any:
    parts = json.loads(text)
    if parts.pop("class") == "CallToolResult":
        return import_module("mcp.types").CallToolResult.model_validate(parts)
    parts["content"] = _blocks().validate_python(parts["content"])
    return import_module("fastmcp.tools.base").ToolResult(**parts)


def _from_blocks(_fn: Any, text: str) -> Any:
    return _blocks().validate_json(text)


_FORMS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "host": _host,
    "named": _declared,
    "declared": _declared,
    "blocks": _from_blocks,
    "plain": lambda _fn, text: json.loads(text),
}


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _holds_hosts_object(value: Any) -> bool:
    """Whether a host would treat a part of it in a way of its own, such as an image."""
    if isinstance(value, Mapping):
        return any(map(_holds_hosts_object, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_holds_hosts_object, value))
    return _package(value) in _HOSTS


@lru_cache(maxsize=1)
def _blocks() -> TypeAdapter[Any]:
    block: Any = import_module("mcp.types").ContentBlock
    either: Any = list[block] | block
    return TypeAdapter(either)


@lru_cache(maxsize=1_000)
def _adapter(fn: Any) -> TypeAdapter[Any] | None:
    """The type that a function declares for its result; None if it declares none that says anything."""
    hint = attempt(lambda: get_type_hints(fn, include_extras=True).get("return", Any), Any)
    return None if hint is Any or hint is object else attempt(lambda: TypeAdapter(hint), None)
