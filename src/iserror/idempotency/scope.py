"""Whose key it is, and what the call with it was: hashes that are equal in every process that shares a store."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from iserror.idempotency.settings import Idempotency
from iserror.idempotency.store import CALLER_DIGITS
from iserror.support.look import look
from iserror.support.sdk import UNKNOWN_REQUEST, access_token, injected_names, is_injection, request_here, stable_name

MAX_KEY: Final = 255
KEY_RULE: Final = f"must be a text of 1 to {MAX_KEY} printable characters"


class NotAuthenticated(Exception):  # noqa: N818 - it stands in the log, for the operator
    """A caller over HTTP without an access token, or one that cannot be told, sent an idempotency key."""


def key_text(value: object) -> str:
    """Return the key as text.

    Raises:
        ValueError: If the key is missing or malformed.
    """
    text = str(value) if isinstance(value, (str, int, UUID)) and not isinstance(value, bool) else ""
    if not 0 < len(text) <= MAX_KEY or not text.isprintable():
        raise ValueError(KEY_RULE)
    return text


def digest(*parts: object) -> str:
    """Return a hash of plain JSON data."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def scoped(settings: Idempotency, server: str, request: object, tool: tuple[str, ...], key: str) -> str:
    """Return the key under which the store keeps it: a hash of the caller, and one of server, tool, caller and key.

    Args:
        settings: Where keys are kept, and who says whose they are.
        server: The server's name, or "".
        request: The HTTP request behind the call, None for a call that came another way, or `UNKNOWN_REQUEST`.
        tool: What the tool is called.
        key: The key, as the caller sent it.

    Raises:
        NotAuthenticated: If nothing tells who is calling, and that isn't allowed.
    """
    who = [settings.subject()] if settings.subject is not None else caller(request)
    if who == [None]:
        if not settings.allow_unauthenticated:
            raise NotAuthenticated(
                "nothing tells who sent this idempotency key: use an access token, attach the guard to the server, or "
                "set Idempotency(subject=...), or Idempotency(allow_unauthenticated=True) if all such callers may "
                "share their results"
            )
    elif not all(isinstance(part, str) for part in who):
        raise TypeError("the subject= of Idempotency must return a text or None")
    # A store may limit what one caller keeps, whichever tools it calls.
    whose = digest("iserror/1/caller", who)[:CALLER_DIGITS]
    return whose + digest("iserror/1", stable_name(server), tool, who, key)[CALLER_DIGITS:]


def caller(request: object) -> list[str | None]:
    """Return who is calling: subject and issuer of an access token, else its client; `[None]` if nothing tells.

    Over stdio, in memory and in process there is one caller.

    Args:
        request: As for `scoped`.
    """
    if request is UNKNOWN_REQUEST:
        request = request_here()
    token = access_token(request)
    if token is not None:
        claims = getattr(token, "claims", None) or {}
        issuer, subject = str(claims.get("iss") or ""), getattr(token, "subject", None) or claims.get("sub")
        if subject:
            return ["subject", issuer, str(subject)]
        if token.client_id:
            return ["client", issuer, str(token.client_id)]
    return ["local"] if request is None else [None]


# --- arguments -----------------------------------------------------------------------------------------------


def injected(fn: Callable[..., Any]) -> frozenset[str]:
    """Return the parameters that a host fills in itself, by their default or annotation (`Depends`, `Resolve`)."""
    hints = look(lambda: inspect.get_annotations(fn, eval_str=True), {})
    found = set()
    for name, parameter in inspect.signature(fn).parameters.items():
        marks = (parameter.default, *getattr(hints.get(name, parameter.annotation), "__metadata__", ()))
        if any(map(is_injection, marks)):
            found.add(name)
    return frozenset(found)


def arguments_digest(arguments: Mapping[str, Any], without: frozenset[str]) -> str:
    """Return a hash of bound arguments, without those that a host fills in.

    Raises:
        Exception: If one of them isn't data, so that it can't be compared.
    """
    return digest({k: plain(v) for k, v in arguments.items() if k not in without and not _is_context(v)})


def _is_context(value: object) -> bool:
    names = injected_names(value)
    return "Context" in names or (bool(names) and not isinstance(value, BaseModel))


def plain(value: Any) -> Any:
    """Return plain JSON data that is equal for equal values, and for no others: all fields, secrets too, sets in order.

    A value that JSON has no type for, and each container, comes with the name of its type.
    """
    kind = type(value)
    if value is None or kind in (str, int, bool) or (kind is float and math.isfinite(value)):
        return value
    name = (getattr(kind, "__pydantic_generic_metadata__", {}).get("origin") or kind).__name__
    if hasattr(value, "get_secret_value"):
        return [name, plain(value.get_secret_value())]
    if isinstance(value, BaseModel):
        said = {field: getattr(value, field) for field in kind.model_fields}
        return [name, plain({**said, **(value.__pydantic_extra__ or {})})]
    if is_dataclass(value) and not isinstance(value, type):
        return [name, plain({field.name: getattr(value, field.name) for field in fields(value)})]
    if isinstance(value, Mapping):
        return [name, *_in_order([plain(key), plain(item)] for key, item in value.items())]
    if isinstance(value, (list, tuple)):
        return [name, *map(plain, value)]
    if isinstance(value, (set, frozenset)):
        return [name, *_in_order(map(plain, value))]
    if isinstance(value, Iterator):
        raise TypeError(f"an argument of type {name} cannot be compared with that of an earlier call")
    return [name, to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings")]


def _in_order(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=json.dumps)
