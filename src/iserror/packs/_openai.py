"""`openai`."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import NO_CREDENTIALS, UNSIGNED, by_status

# A 429 that no wait fixes. Their `type` is `insufficient_quota`; the code has become one of several.
_BILLING: Final = {
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
    "billing_hard_limit_reached",  # a 400, of images
}


def _billing(exc: Any) -> object:
    return "billing" if exc.type == "insufficient_quota" or exc.code in _BILLING else exc.status_code


_STATUS: Final = by_status("status_code", lambda exc: exc.response.headers)
_OR_BILLING: Final = By(
    _STATUS.what, _billing, {**_STATUS.entries, "billing": codes.UPSTREAM_QUOTA_EXHAUSTED}, _STATUS.otherwise
)

openai: Final = Pack(
    name="openai",
    sources=(
        "https://platform.openai.com/docs/guides/error-codes",
        "https://github.com/openai/openai-python#handling-errors",
    ),
    rows={
        # Without a cause that tells more, the request timed out after it was sent.
        "openai.APITimeoutError": by_cause(codes.UPSTREAM_TIMEOUT),
        "openai.APIConnectionError": by_cause(),
        "openai.RateLimitError": _OR_BILLING,
        "openai.BadRequestError": _OR_BILLING,
        "openai.AuthenticationError": _STATUS,
        "openai.PermissionDeniedError": _STATUS,
        "openai.NotFoundError": _STATUS,
        "openai.ConflictError": _STATUS,
        "openai.UnprocessableEntityError": _STATUS,
        "openai.InternalServerError": _STATUS,
        "openai.APIStatusError": _STATUS,
        # The server issued no token, with any status, so no request was made.
        "openai.OAuthError": NO_CREDENTIALS,
        "openai._exceptions.SubjectTokenProviderError": NO_CREDENTIALS,
        "openai.APIResponseValidationError": codes.UPSTREAM_INVALID_RESPONSE,
        "openai.InvalidWebhookSignatureError": UNSIGNED,
        "openai.LengthFinishReasonError": codes.UPSTREAM_INVALID_RESPONSE,
        "openai.ContentFilterFinishReasonError": codes.UPSTREAM_REJECTED,
        # An event of a stream whose status was 200.
        "openai.APIError": codes.UPSTREAM_ERROR,
        # Some of the messages may have been sent.
        "openai.WebSocketConnectionClosedError": codes.CONNECTION_LOST,
        "openai.WebSocketQueueFullError": codes.DEPENDENCY_BUSY,
    },
)
