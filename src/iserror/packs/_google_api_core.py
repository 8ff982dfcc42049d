"""`google-api-core`, on which Google's clients stand, over gRPC and over HTTP; and the `google-auth` below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes, retry, rpcstatus
from iserror.packs.http import NO_CREDENTIALS, by_status
from iserror.packs.rpcstatus import STATUSES, waiting


def _told(exc: Any, kind: str) -> Any:
    """Yield the `google.rpc` details of one type in an error that came as JSON."""
    return (said for said in exc.details if said.get("@type") == f"type.googleapis.com/google.rpc.{kind}")


def _wait(exc: Any) -> object:
    if hasattr(exc.response, "trailing_metadata"):
        return rpcstatus.wait_of(exc.response)
    for said in _told(exc, "RetryInfo"):
        return float(said["retryDelay"].rstrip("s"))
    return retry.wait_of(exc.response.headers)


def _fields(exc: Any) -> object:
    if hasattr(exc.response, "trailing_metadata"):
        return rpcstatus.invalid_fields(exc.response)
    return rpcstatus.names_of(
        broken["field"] for said in _told(exc, "BadRequest") for broken in said["fieldViolations"]
    )


def _status(exc: Any) -> str:
    return rpcstatus.status(exc.response)


def _reason(exc: Any) -> object:
    return exc.errors[0]["reason"]


_RPC: Final = {name: waiting(entry, _wait) for name, entry in STATUSES.items()}
_INVALID: Final = replace(codes.UPSTREAM_REJECTED, details=(("fields", _fields),))
_UNAVAILABLE: Final = waiting(codes.UPSTREAM_UNAVAILABLE, _wait)
_LIMITED: Final = waiting(codes.UPSTREAM_RATE_LIMITED, _wait)
_HTTP: Final = by_status("code", lambda exc: exc.response.headers)


def _either(name: str) -> By:
    """Return the entries of a status that has another meaning with a `RetryInfo`."""
    return By("status", _status, {key: _RPC[key] for key in (name, f"{name} with RetryInfo")}, _RPC[name])


_E: Final = "google.api_core.exceptions."
_A: Final = "google.auth.exceptions."

google_api_core: Final = Pack(
    name="google_api_core",
    sources=(
        "https://googleapis.dev/python/google-api-core/latest/exceptions.html",
        "https://google.aip.dev/193",
        "https://google.aip.dev/194",
        "https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
        "https://googleapis.dev/python/google-auth/latest/reference/google.auth.exceptions.html",
    ),
    rows={
        # gRPC only, or both.
        f"{_E}InvalidArgument": _INVALID,
        f"{_E}FailedPrecondition": _RPC["FAILED_PRECONDITION"],
        f"{_E}OutOfRange": _RPC["OUT_OF_RANGE"],
        f"{_E}Unauthenticated": _RPC["UNAUTHENTICATED"],
        f"{_E}PermissionDenied": _RPC["PERMISSION_DENIED"],
        f"{_E}NotFound": _RPC["NOT_FOUND"],
        f"{_E}AlreadyExists": _RPC["ALREADY_EXISTS"],
        f"{_E}Aborted": _either("ABORTED"),
        f"{_E}ResourceExhausted": _either("RESOURCE_EXHAUSTED"),
        f"{_E}Cancelled": _RPC["CANCELLED"],
        f"{_E}InternalServerError": _RPC["INTERNAL"],
        f"{_E}Unknown": _RPC["UNKNOWN"],
        f"{_E}DataLoss": _RPC["DATA_LOSS"],
        f"{_E}MethodNotImplemented": _RPC["UNIMPLEMENTED"],
        f"{_E}ServiceUnavailable": _RPC["UNAVAILABLE"],
        f"{_E}DeadlineExceeded": _RPC["DEADLINE_EXCEEDED"],
        # HTTP only.
        f"{_E}BadRequest": _INVALID,
        f"{_E}Unauthorized": codes.UPSTREAM_UNAUTHENTICATED,
        # The older JSON APIs (BigQuery, Storage) have a 403 for what is a 429 elsewhere.
        f"{_E}Forbidden": By(
            "reason",
            _reason,
            {"rateLimitExceeded": _LIMITED, "quotaExceeded": codes.UPSTREAM_QUOTA_EXHAUSTED},
            codes.UPSTREAM_PERMISSION_DENIED,
        ),
        f"{_E}MethodNotAllowed": codes.UPSTREAM_UNIMPLEMENTED,
        f"{_E}Conflict": codes.UPSTREAM_CONFLICT,
        f"{_E}LengthRequired": codes.UPSTREAM_REJECTED,
        f"{_E}PreconditionFailed": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_E}RequestRangeNotSatisfiable": codes.UPSTREAM_REJECTED,
        f"{_E}TooManyRequests": _LIMITED,
        f"{_E}BadGateway": _UNAVAILABLE,
        f"{_E}GatewayTimeout": waiting(codes.UPSTREAM_TIMEOUT, _wait),
        f"{_E}MovedPermanently": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_E}NotModified": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_E}TemporaryRedirect": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_E}ResumeIncomplete": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_E}GoogleAPICallError": _HTTP,
        # The library itself raises these. It made several requests before, and any of them may have worked.
        f"{_E}RetryError": codes.UPSTREAM_TIMEOUT,
        f"{_E}TransferStalledError": codes.UPSTREAM_TIMEOUT,
        f"{_E}UnseekableStreamError": codes.CONNECTION_LOST,
        f"{_E}UploadCancelledError": codes.UPSTREAM_ERROR,
        f"{_E}MissingStatusHeaderError": codes.UPSTREAM_INVALID_RESPONSE,
        # Before a request, whose token is fetched first; after a 401 as well, which refused it.
        f"{_A}DefaultCredentialsError": NO_CREDENTIALS,
        f"{_A}RefreshError": By(
            "retryable", lambda exc: exc.retryable, {"True": codes.DEPENDENCY_UNAVAILABLE}, NO_CREDENTIALS
        ),
        f"{_A}ReauthFailError": NO_CREDENTIALS,
        f"{_A}UserAccessTokenError": NO_CREDENTIALS,
        f"{_A}OAuthError": NO_CREDENTIALS,
        f"{_A}MutualTLSChannelError": codes.TLS_FAILED,
        f"{_A}ClientCertError": codes.TLS_FAILED,
        # `google.auth.aio` sends the request itself, not only that for a token, through what raises these.
        f"{_A}TransportError": codes.CONNECTION_LOST,
        f"{_A}TimeoutError": codes.UPSTREAM_TIMEOUT,
        f"{_A}ResponseError": codes.CONNECTION_LOST,
    },
)
