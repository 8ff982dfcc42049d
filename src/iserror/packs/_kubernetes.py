"""`kubernetes`: its client, the dynamic one, and `kubernetes.aio`.

A connection that fails is an exception of what is below: `urllib3`, or `aiohttp`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import cause_of
from iserror.packs.http import NO_CREDENTIALS, statuses
from iserror.packs.retry import wait_of
from iserror.packs.rpcstatus import names_of
from iserror.support.look import look


def _status(exc: Any) -> str:
    if (
        exc.status == 0 and cause_of(exc.__context__) == "TLS_FAILED"
    ):  # raised while urllib3's was handled, and without a cause
        return "TLS"
    if exc.status == 409 and look(_reason, None, exc) == "AlreadyExists":
        return "409 AlreadyExists"
    return str(int(exc.status))


def _reason(exc: Any) -> object:
    return json.loads(exc.body)["reason"]


def _wait(exc: Any) -> object:
    return wait_of(exc.headers)


def _fields(exc: Any) -> object:
    return names_of(cause["field"] for cause in json.loads(exc.body)["details"]["causes"])


_STATUSES: Final = statuses(_wait, ("status",))
_CALL: Final = By(
    "status",
    _status,
    {
        **_STATUSES,
        "409 AlreadyExists": codes.ALREADY_EXISTS,
        "422": replace(_STATUSES["4"], details=(("fields", _fields),)),
        "TLS": codes.TLS_FAILED,
    },
    codes.UPSTREAM_INVALID_RESPONSE,
)
_STATUSES_OF: Final = {
    "client.exceptions.BadRequestException": "4",
    "client.exceptions.UnauthorizedException": "401",
    "client.exceptions.ForbiddenException": "403",
    "client.exceptions.NotFoundException": "404",
    "client.exceptions.UnprocessableEntityException": "422",
    "dynamic.exceptions.BadRequestError": "4",
    "dynamic.exceptions.UnauthorizedError": "401",
    "dynamic.exceptions.ForbiddenError": "403",
    "dynamic.exceptions.NotFoundError": "404",
    "dynamic.exceptions.MethodNotAllowedError": "405",
    "dynamic.exceptions.GoneError": "410",
    "dynamic.exceptions.UnprocessibleEntityError": "422",
    "dynamic.exceptions.TooManyRequestsError": "429",
    "dynamic.exceptions.InternalServerError": "5",
    "dynamic.exceptions.ServiceUnavailableError": "503",
    "dynamic.exceptions.ServerTimeoutError": "504",
}
_CONFLICT: Final = By("reason", _reason, {"AlreadyExists": codes.ALREADY_EXISTS}, codes.UPSTREAM_CONFLICT)
_ROWS: Final[dict[str, Entry | By]] = {
    "client.exceptions.ApiException": _CALL,
    "client.exceptions.ServiceException": _CALL,
    "dynamic.exceptions.DynamicApiError": _CALL,
    "client.exceptions.ConflictException": _CONFLICT,
    "dynamic.exceptions.ConflictError": _CONFLICT,
    **{name: _CALL.entries[status] for name, status in _STATUSES_OF.items()},
    # The API has no such kind of thing.
    "dynamic.exceptions.ResourceNotFoundError": codes.UPSTREAM_NOT_FOUND,
    # One of several objects in a file, which are created one after the other.
    "utils.create_from_yaml.FailToCreateError": replace(codes.UPSTREAM_ERROR, retryable=False),
    "client.exceptions.ApiTypeError": codes.REQUEST_INVALID,
    "client.exceptions.ApiValueError": codes.REQUEST_INVALID,
    "config.config_exception.ConfigException": NO_CREDENTIALS,
}

kubernetes: Final = Pack(
    name="kubernetes",
    sources=(
        "https://kubernetes.io/docs/reference/using-api/api-concepts/",
        "https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md"
        "#http-status-codes",
        "https://github.com/kubernetes-client/python/blob/master/kubernetes/client/exceptions.py",
    ),
    rows={f"kubernetes.{part}{name}": row for part in ("", "aio.") for name, row in _ROWS.items()},
)
