"""`anthropic`."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import NO_CREDENTIALS, by_status

_SPENT: Final = {"contract_spend_limit_reached", "enforced_spend_limit_reached"}
"""A 429 that no wait fixes."""


def _key(exc: Any) -> object:
    """Return the status, or the type of an error event in a stream whose status was 200."""
    if exc.status_code < 400:
        return f"200, in a stream {exc.body['error']['type']}"
    return "billing" if getattr(exc, "error_code", None) in _SPENT else exc.status_code


_STATUS: Final = by_status("status_code", lambda exc: exc.response.headers)
_OVERLOADED: Final = _STATUS.entries["503"]
_MORE: Final = By(
    _STATUS.what,
    _key,
    {
        **_STATUS.entries,
        "billing": codes.UPSTREAM_QUOTA_EXHAUSTED,
        "499": codes.CONNECTION_LOST,
        "529": _OVERLOADED,
        "200, in a stream": codes.UPSTREAM_ERROR,
        "200, in a stream overloaded_error": _OVERLOADED,
        "200, in a stream timeout_error": codes.UPSTREAM_TIMEOUT,
    },
    _STATUS.otherwise,
)

anthropic: Final = Pack(
    name="anthropic",
    sources=(
        "https://docs.anthropic.com/en/api/errors",
        "https://github.com/anthropics/anthropic-sdk-python#handling-errors",
    ),
    rows={
        # Without a cause that tells more, the request timed out after it was sent.
        "anthropic.APITimeoutError": by_cause(codes.UPSTREAM_TIMEOUT),
        "anthropic.APIConnectionError": by_cause(),
        "anthropic.BadRequestError": _STATUS,
        "anthropic.AuthenticationError": _STATUS,
        "anthropic.PaymentRequiredError": _STATUS,
        "anthropic.PermissionDeniedError": _STATUS,
        "anthropic.NotFoundError": _STATUS,
        "anthropic.RequestTimeoutError": _STATUS,
        "anthropic.ConflictError": _STATUS,
        "anthropic.PreconditionFailedError": _STATUS,
        "anthropic.ContentTooLargeError": _STATUS,
        "anthropic.UnprocessableEntityError": _STATUS,
        "anthropic.RateLimitError": _MORE,
        "anthropic.RequestHeaderFieldsTooLargeError": _STATUS,
        "anthropic.ClientClosedRequestError": _MORE,
        "anthropic.HTTPNotImplementedError": _STATUS,
        "anthropic.ServiceUnavailableError": _STATUS,
        "anthropic.GatewayTimeoutError": _STATUS,
        "anthropic.OverloadedError": _MORE,
        "anthropic.InternalServerError": _MORE,  # 529 too, until there was OverloadedError
        "anthropic.APIStatusError": _MORE,
        # No request is made without them.
        "anthropic.CredentialsError": NO_CREDENTIALS,
        "anthropic.IdentityTokenFileError": NO_CREDENTIALS,
        "anthropic.lib.credentials._workload.WorkloadIdentityError": By(
            "status",
            lambda exc: exc.status_code or type(exc.__cause__).__name__,
            {"5": codes.DEPENDENCY_UNAVAILABLE, "Connect": codes.DEPENDENCY_UNAVAILABLE},
            NO_CREDENTIALS,
        ),
        "anthropic.APIResponseValidationError": codes.UPSTREAM_INVALID_RESPONSE,
    },
)
