"""`azure-core`, on which Azure's clients stand."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import NO_CREDENTIALS, by_status


def _exists(exc: Any) -> object:
    code: str = exc.response.headers["x-ms-error-code"]
    return "AlreadyExists" if code.endswith("AlreadyExists") else code


def _why(exc: Any) -> Any:
    return exc.inner_exception


_HTTP: Final = by_status("status_code", lambda exc: exc.response.headers)

_A: Final = "azure.core.exceptions."

azure_core: Final = Pack(
    name="azure_core",
    sources=(
        "https://learn.microsoft.com/python/api/azure-core/azure.core.exceptions",
        "https://learn.microsoft.com/azure/developer/python/sdk/fundamentals/errors",
        "https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes",
    ),
    rows={
        f"{_A}HttpResponseError": _HTTP,
        f"{_A}ODataV4Error": _HTTP,
        f"{_A}ResourceNotFoundError": _HTTP,
        # Clients map every 409 to it, a lease or a state that is in the way too.
        f"{_A}ResourceExistsError": By("code", _exists, {"AlreadyExists": codes.ALREADY_EXISTS}),
        f"{_A}ResourceModifiedError": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_A}ResourceNotModifiedError": codes.UPSTREAM_PRECONDITION_FAILED,
        # azure-identity raises it without a response, before there is a request.
        f"{_A}ClientAuthenticationError": By(
            "status", _HTTP.key, {key: _HTTP.entries[key] for key in ("401", "403")}, NO_CREDENTIALS
        ),
        f"{_A}TooManyRedirectsError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_A}DecodeError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_A}DeserializationError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_A}IncompleteReadError": codes.CONNECTION_LOST,
        # "No request was sent", but over aiohttp it is also a connection that broke before the answer, and over
        # requests a body that stopped.
        f"{_A}ServiceRequestError": by_cause(codes.CONNECTION_LOST, _why),
        f"{_A}ServiceRequestTimeoutError": by_cause(codes.UPSTREAM_TIMEOUT, _why),
        f"{_A}ServiceResponseError": codes.CONNECTION_LOST,
        f"{_A}ServiceResponseTimeoutError": codes.UPSTREAM_TIMEOUT,
        f"{_A}SerializationError": codes.REQUEST_INVALID,
    },
)
