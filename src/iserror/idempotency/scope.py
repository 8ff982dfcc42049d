"""Whose key it is, and what the call with it was: hashes that are equal in every process that shares a store."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from iserror.idempotency.settings import Idempotency
from iserror.layers.call import UNTOLD, Call
from iserror.support.look import attempt

MAX_KEY: Final = 255
KEY_RULE: Final = f"must be a text of 1 to {MAX_KEY} printable characters"

# What is in these packages and no data: contexts, sessions, dependencies.
_INJECTING: Final = frozenset({"mcp", "fastmcp", "docket", "uncalled_for"})
# What fastmcp calls a server that nobody named is another in each process.
_UNNAMED: Final = re.compile(r"(FastMCP)-[0-9a-f]{4}\Z")


class NotAuthenticated(Exception):  # noqa: N818 - it stands in the log, for the operator
    """A caller over HTTP without an access token, or one that cannot be told, sent an idempotency key."""


def key_text(value: object) -> str:
    """The key as text.

    Raises:
        ValueError: It is none, or not a valid one.
    """
    text = str(value) if isinstance(value, (str, int, UUID)) and not isinstance(value, bool) else ""
    if not 0 < len(text) <= MAX_KEY or not text.isprintable():
        raise ValueError(KEY_RULE)
    return text


def digest(*parts: object) -> str:
    """A hash of plain JSON data."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def scoped(settings: Idempotency, call: Call, tool: tuple[str, ...], key: str) -> str:
    """The key as the store has it: a hash of server, tool, caller and key.

    Raises:
        NotAuthenticated: Nobody knows who is calling, and that is not allowed.
    """
    who = [settings.subject()] if settings.subject is not None else subject(call)
    if who == [None]:
        if not settings.allow_unauthenticated:
            raise NotAuthenticated(
                "nobody knows who sent this idempotency key: use an access token, attach the guard to the server, or "
                "say Idempotency(subject=...), or Idempotency(allow_unauthenticated=True) where all such callers may "
                "share their results"
            )
    elif not all(isinstance(part, str) for part in who):
        raise TypeError("the subject= of Idempotency must return a text or None")
    server = attempt(lambda: str(call.root.facts().get("server") or ""), "")
    return digest("iserror/1", _UNNAMED.sub(r"\1", server), tool, who, key)


def subject(call: Call) -> list[str | None]:
    """Who is calling: of an access token the subject and its issuer, else the client; `[None]` is nobody.

    Over stdio, in memory and in process there is one caller, whoever that is. Where neither guard nor host tells how a
    call came, only the main thread counts as in process.
    """
    request = call.root.request
    if request is UNTOLD:
        request = _request()
    token = getattr(attempt(lambda: request.scope.get("user"), None), "access_token", None)  # type: ignore[attr-defined]
    if token is None:
        fastmcp = sys.modules.get("fastmcp.server.dependencies")
        if fastmcp is not None:  # it knows about its background tasks
            token = attempt(fastmcp.get_access_token, None)
        elif not hasattr(request, "scope"):
            auth = sys.modules.get("mcp.server.auth.middleware.auth_context")
            token = attempt(auth.get_access_token, None) if auth is not None else None
    if token is not None:
        claims = getattr(token, "claims", None) or {}
        issuer, said = str(claims.get("iss") or ""), getattr(token, "subject", None) or claims.get("sub")
        if said:
            return ["subject", issuer, str(said)]
        if token.client_id:
            return ["client", issuer, str(token.client_id)]
    return ["local"] if request is None else [None]


def _request() -> object:
    """The HTTP request behind a call, where no guard is attached to say so: what the running host's variables hold."""
    lowlevel = sys.modules.get("mcp.server.lowlevel.server")
    variable = getattr(lowlevel, "request_ctx", None)  # mcp 1.x, and fastmcp 3 on it
    context = variable.get(None) if variable is not None else None
    if context is not None:
        return context.request
    fastmcp = sys.modules.get("fastmcp.server.dependencies")
    if fastmcp is not None:
        variable = getattr(fastmcp, "fastmcp_request_ctx", None)
        context = variable.get(None) if variable is not None else None
        request = context.request if context is not None else attempt(fastmcp.get_http_request, None)
        if context is not None or request is not None:
            return request
    alone = threading.current_thread() is threading.main_thread()  # a bare thread may have been started by anybody
    if "mcp.server.mcpserver.server" in sys.modules:
        context = _context_of_mcp2()
        if context is not None:
            return context.request
        alone = alone and asyncio._get_running_loop() is None  # and so may a task
    return None if alone else UNTOLD


def _context_of_mcp2() -> Any:
    """`MCPServer` hands a tool nothing of its request, which is in its own frames: above an async tool, that is."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("mcp.server."):
            for value in frame.f_locals.values():
                if type(value).__name__ == "ServerRequestContext":
                    return value
        frame = frame.f_back
    return None


# --- arguments -----------------------------------------------------------------------------------------------


def injected(fn: Callable[..., Any]) -> frozenset[str]:
    """Names of the parameters that a host fills in itself, by their default or annotation (`Depends`, `Resolve`)."""
    hints = attempt(lambda: inspect.get_annotations(fn, eval_str=True), {})
    found = set()
    for name, parameter in inspect.signature(fn).parameters.items():
        marks = (parameter.default, *getattr(hints.get(name, parameter.annotation), "__metadata__", ()))
        if any(_package(mark) in _INJECTING for mark in marks):
            found.add(name)
    return frozenset(found)


def arguments_digest(arguments: Mapping[str, Any], without: frozenset[str]) -> str:
    """A hash of bound arguments; what a host put in does not count.

    Raises:
        Exception: One of them cannot be compared: it is no data.
    """
    return digest({k: plain(v) for k, v in arguments.items() if k not in without and not _is_context(v)})


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _is_context(value: object) -> bool:
    names = {cls.__name__ for cls in type(value).__mro__ if cls.__module__.partition(".")[0] in _INJECTING}
    return "Context" in names or (bool(names) and not isinstance(value, BaseModel))


def plain(value: Any) -> Any:
    """Plain JSON data that is equal for equal values, and for no others: all fields, secrets too, sets in order.

    What JSON has no name for, and each container, comes with the name of its type.
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
