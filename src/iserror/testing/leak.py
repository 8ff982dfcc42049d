"""`assert_no_leak`: no secret and no internals of a server got out."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args
from urllib.parse import quote, quote_plus

from iserror.check.checks.leaks import leaked, parts
from iserror.client.outcome import CallOutcome, ProtocolFailed, Succeeded, ToolFailed
from iserror.errors.failure import Failure
from iserror.errors.toolfailure import ToolFailure
from iserror.redact.speech import safe_name
from iserror.support.causes import text_of
from iserror.support.jsonrpc import FAILURE_KEY
from iserror.support.look import look
from iserror.support.sdk import protocol_error_data
from iserror.support.sdk_client import wire_form

MIN_PLANTED: Final = 4
"""Characters of a planted text. Shorter texts are found by chance."""

MAX_SHOWN: Final = 10


class _Part(NamedTuple):
    where: str
    value: object
    by_key: bool
    """Whether the keys name what the values are."""
    is_error: bool
    """Whether a model reads it as an error, which must not show internals."""


def assert_no_leak(*anything: object, planted: str | Iterable[str] = ()) -> None:
    """Assert that none of the arguments holds a secret or a planted text.

    In errors, paths, SQL, internal hosts and stack traces count as leaks too. In a success, a log record or a plain
    text they may be on purpose.

    Args:
        anything: Everything that `assert_tool_error` takes, a `Failure`, log records, texts, bytes, JSON-safe values.
        planted: Texts of 4 characters or more that must not get out. The search includes them escaped (JSON, HTML,
            URL) and encoded (base64, hex), in upper and lower case.

    Raises:
        AssertionError: If something leaked. The message names its kind and place, never its value.
        ValueError: If a planted text is too short.
    """
    __tracebackhide__ = True
    forms = _forms([planted] if isinstance(planted, str) else list(planted))
    seen: dict[str, None] = {}
    for number, thing in enumerate(anything, 1):
        which = f" of argument {number}" if len(anything) > 1 else ""
        for part in _parts(thing):
            kinds = [kind for _, kind in leaked(part.value, by_key=part.by_key, is_error=part.is_error)]
            kinds += _planted_in(part.value, forms)
            seen.update(dict.fromkeys(f"{kind} in {part.where}{which}" for kind in kinds))
    if seen:
        more = f" and {len(seen) - MAX_SHOWN} more" if len(seen) > MAX_SHOWN else ""
        raise AssertionError(f"leaked: {', '.join([*seen][:MAX_SHOWN])}{more}")


# --- where to look -------------------------------------------------------------------------------------------


def _parts(thing: object) -> Iterator[_Part]:
    received = _received(thing)
    if received is not None:
        plain = _plain(received)
        is_error = "error" in plain or plain["result"].get("isError") is True
        for where, value, by_key in parts(plain):
            yield _Part(where, value, by_key, is_error)
        return
    value = _plain(thing.decode(errors="backslashreplace") if isinstance(thing, (bytes, bytearray)) else thing)
    if isinstance(value, dict):
        for key, item in value.items():  # each with its key, which may name a secret
            yield _Part(repr(safe_name(key)), {key: item}, True, False)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield _Part(f"[{number}]", item, True, False)
    else:
        yield _Part("the text", value, False, False)


def _plain(value: object) -> Any:
    return json.loads(json.dumps(value, default=str))


def _received(thing: object) -> dict[str, Any] | None:
    """Return the JSON-RPC answer that a thing represents, or None if it represents none."""
    if isinstance(thing, ToolFailure) and thing.failure is not None:
        thing = thing.failure
    if isinstance(thing, Failure):
        return _result(True, [{"type": "text", "text": thing.text}], _meta={FAILURE_KEY: thing.to_wire()})
    if isinstance(thing, (Succeeded, ToolFailed)):
        is_error = isinstance(thing, ToolFailed)
        return _result(is_error, thing.content, structuredContent=thing.structured_content, _meta=thing.meta)
    if isinstance(thing, ProtocolFailed):
        return {"error": thing.received or {"message": thing.message}}
    if isinstance(thing, get_args(CallOutcome)):
        return {"error": {"message": thing.report}}
    if isinstance(thing, BaseException):
        _, message, data = protocol_error_data(thing) or (0, text_of(thing), None)
        return {"error": {"message": message, "data": data}}
    if isinstance(thing, (bytes, bytearray)):
        thing = look(json.loads, None, thing)
    if isinstance(thing, Mapping):
        if isinstance(thing.get("content"), list):
            return {"result": thing}
        inner = thing.get("error", thing.get("result"))
        return dict(thing) if isinstance(inner, Mapping) and thing.keys() <= _ANSWER else None
    wire = wire_form(thing)
    return None if wire is None else {"result": wire}


_ANSWER: Final = frozenset({"jsonrpc", "id", "result", "error"})


def _result(is_error: bool, content: Iterable[object], **more: object) -> dict[str, Any]:
    return {"result": {"isError": is_error, "content": list(content), **more}}


# --- what was planted ----------------------------------------------------------------------------------------


def _forms(planted: list[str]) -> list[tuple[str, str]]:
    """Return the texts to look for in JSON, in lower case, each with its name. The unchanged text comes first."""
    found: list[tuple[str, str]] = []
    for number, text in enumerate(planted):
        if len(text) < MIN_PLANTED:
            raise ValueError(f"planted[{number}] is too short: use {MIN_PLANTED} characters or more")
        data = text.encode(errors="surrogatepass")
        called = f"planted[{number}]"
        found += [
            (called, text),
            (f"{called} (escaped)", json.dumps(text)[1:-1]),
            (f"{called} (escaped)", json.dumps(text, ensure_ascii=False)[1:-1]),
            (f"{called} (escaped)", repr(text)[1:-1]),
            (f"{called} (HTML)", html.escape(text)),
            (f"{called} (URL)", quote(data, safe="")),
            (f"{called} (URL)", quote(data)),
            (f"{called} (URL)", quote_plus(data)),
            (f"{called} (hex)", data.hex()),
        ]
        for before in range(3):  # where it begins within a group of three bytes
            encoded = base64.b64encode(b"\0" * before + data).decode()
            whole = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
            found += [(f"{called} (base64)", whole), (f"{called} (base64)", whole.translate(_URL_SAFE))]
    return [(called, json.dumps(form, ensure_ascii=False)[1:-1].lower()) for called, form in found]


_URL_SAFE: Final = str.maketrans("+/", "-_")


def _planted_in(value: object, forms: list[tuple[str, str]]) -> list[str]:
    text = json.dumps(value, ensure_ascii=False).lower()
    seen: dict[str, str] = {}
    for called, form in forms:
        if form in text:
            seen.setdefault(called.partition(" ")[0], called)
    return list(seen.values())
