"""What an exception of an HTTP client or a web framework tells of an answer: its status, and the body of a refusal.

Nothing is read from a connection: a body counts only if the client has it already.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Final

from iserror.support.loading import full_name, mro_of
from iserror.support.look import look

MAX_BODY: Final = 100_000
"""The most bytes of a body that is parsed."""

# `status` after the others: aiohttp's `code` warns that it is deprecated, so that `status` goes before it.
_STATUS: Final = (("status_code",), ("response", "status_code"), ("status",), ("code",))

STATUS_CLASSES: Final = frozenset(
    {
        "aiohttp.client_exceptions.ClientResponseError",
        "aiohttp.web_exceptions.HTTPException",
        "bottle.HTTPError",
        "falcon.http_error.HTTPError",
        "httpx.HTTPStatusError",
        "httpx2.HTTPStatusError",
        "litestar.exceptions.http_exceptions.HTTPException",
        "requests.exceptions.HTTPError",
        "rest_framework.exceptions.APIException",
        "sanic.exceptions.SanicException",
        "starlette.exceptions.HTTPException",
        "tornado.httpclient.HTTPClientError",
        "tornado.web.HTTPError",
        "urllib.error.HTTPError",
        "werkzeug.exceptions.HTTPException",
    }
)
"""The exceptions of HTTP clients and web frameworks that carry a status. FastAPI's, Quart's and Flask's derive from
them."""


def carries_status(kind: type) -> bool:
    """Return True for a class of `STATUS_CLASSES`, or one that derives from it."""
    return any(full_name(cls) in STATUS_CLASSES for cls in mro_of(kind))


def status_of(exc: BaseException) -> int | None:
    """Return the HTTP status that an exception carries: an integer from 100 to 599."""
    for path in _STATUS:
        found: Any = look(_at, None, exc, path)
        # An enum of the standard library is one; a class of the user's may lie.
        if issubclass(type(found), int) and type(found) is not bool and 100 <= int.__int__(found) <= 599:
            return int.__int__(found)
    return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = getattr(value, name)
    return value


def refusal_of(exc: BaseException) -> object:
    """Return the JSON body of the 4xx that an exception stands for; None for any other, and for one not read yet.

    The body of a 5xx tells what is inside of the upstream, which no model needs.
    """
    status = status_of(exc)
    return look(_body, None, exc) if status is not None and 400 <= status < 500 else None


def in_words(value: object) -> object:
    """Return a part of a refusal's body as a template shows it: of fields with reasons, each with its reason."""
    if isinstance(value, dict):
        return [f"{key}: {item}" if _is_plain(item) else str(key) for key, item in islice(value.items(), MAX_FIELDS)]
    if isinstance(value, list):
        return [_reason(item) if isinstance(item, dict) else item for item in value[:MAX_FIELDS]]
    return value


MAX_FIELDS: Final = 10
"""The most fields of a body that a template shows."""

_FIELDS: Final = ("field", "name", "pointer", "path", "loc")
_REASONS: Final = ("msg", "message", "reason", "detail", "title")


def _reason(item: dict[str, object]) -> str:
    """Return what a list of faults says of one: the field, as frameworks name it, and what is wrong with it."""
    field = next((item[key] for key in _FIELDS if key in item), None)
    field = field[-1] if isinstance(field, list) and field else field
    reason = next((item[key] for key in _REASONS if isinstance(item.get(key), str)), None)
    said = [str(part) for part in (field, reason) if part is not None and _is_plain(part)]
    return ": ".join(said) or ", ".join(map(str, item))


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) or value is None


def _body(exc: Any) -> object:
    # httpx and requests keep it there once it is read; their properties may read from the connection.
    held = look(lambda: vars(exc.response).get("_content"), None) or getattr(exc, "body", None)
    if isinstance(held, (str, bytes)):
        return json.loads(held) if len(held) <= MAX_BODY else None
    if held is None:  # a web framework's own, which answers with this
        return {"detail": exc.detail}
    return held if isinstance(held, (dict, list)) else None
