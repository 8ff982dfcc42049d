"""`stripe`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.errors.template import Template
from iserror.packs import codes
from iserror.packs.cause import by_cause
from iserror.packs.http import NO_CREDENTIALS, UNSIGNED, by_status

_STATUS: Final = by_status("http_status", lambda exc: exc.headers)

# The reasons that a card's owner may hear, by Stripe's list. For all others (`fraudulent`, `lost_card`, `stolen_card`,
# and future ones) Stripe asks to say only that the card was declined.
_REASONS: Final = (
    "authentication_required",
    "card_not_supported",
    "card_velocity_exceeded",
    "currency_not_supported",
    "duplicate_transaction",
    "expired_card",
    "incorrect_address",
    "incorrect_cvc",
    "incorrect_number",
    "incorrect_zip",
    "insufficient_funds",
    "invalid_amount",
    "invalid_cvc",
    "invalid_expiry_month",
    "invalid_expiry_year",
    "invalid_number",
)
# For these, Stripe says to attempt the payment again.
_AGAIN: Final = (
    "approve_with_id",
    "issuer_not_available",
    "processing_error",
    "reenter_transaction",
    "try_again_later",
)

_DECLINED: Final = {
    reason: replace(
        codes.PAYMENT_DECLINED,
        message=Template((f"The payment was declined ({reason}).",)),
        claimless=Template((f"The payment was declined in the last attempt ({reason}).",)),
        retryable=reason in _AGAIN,
    )
    for reason in (*_REASONS, *_AGAIN)
}


def _reason(exc: Any) -> object:
    return exc.json_body["error"].get("decline_code") or exc.code


_E: Final = "stripe._error."
_O: Final = "stripe.oauth_error."

stripe: Final = Pack(
    name="stripe",
    sources=(
        "https://docs.stripe.com/error-handling",
        "https://docs.stripe.com/error-codes",
        "https://docs.stripe.com/error-low-level",
        "https://docs.stripe.com/declines/codes",
        "https://docs.stripe.com/api/errors",
    ),
    rows={
        # Not by its `should_retry`, which is about the SDK's own repeats: these are safe by their idempotency key.
        f"{_E}APIConnectionError": by_cause(),
        f"{_E}CardError": By("decline code", _reason, _DECLINED, codes.PAYMENT_DECLINED),
        # By the code first, since a missing customer that a parameter names is a 400.
        f"{_E}InvalidRequestError": By(
            "code or status",
            lambda exc: exc.code or exc.http_status or "none",
            {
                "resource_missing": codes.UPSTREAM_NOT_FOUND,
                "resource_already_exists": codes.ALREADY_EXISTS,
                "404": codes.UPSTREAM_NOT_FOUND,
                "none": codes.REQUEST_INVALID,  # the SDK itself refused it
            },
            codes.UPSTREAM_REJECTED,
        ),
        f"{_E}RateLimitError": _STATUS.entries["429"],
        f"{_E}IdempotencyError": codes.UPSTREAM_CONFLICT,
        # Without a status there was no key to send.
        f"{_E}AuthenticationError": By(
            "status", lambda exc: exc.http_status, {"401": codes.UPSTREAM_UNAUTHENTICATED}, NO_CREDENTIALS
        ),
        f"{_E}PermissionError": codes.UPSTREAM_PERMISSION_DENIED,
        # A status without its own exception, or a body that isn't JSON. 424: a service that Stripe needs failed.
        f"{_E}APIError": By(
            _STATUS.what, _STATUS.key, {**_STATUS.entries, "424": codes.UPSTREAM_ERROR}, _STATUS.otherwise
        ),
        f"{_E}SignatureVerificationError": UNSIGNED,
        f"{_O}InvalidClientError": codes.UPSTREAM_UNAUTHENTICATED,
        f"{_O}InvalidGrantError": codes.UPSTREAM_REJECTED,
        f"{_O}InvalidRequestError": codes.UPSTREAM_REJECTED,
        f"{_O}InvalidScopeError": codes.UPSTREAM_REJECTED,
        f"{_O}UnsupportedGrantTypeError": codes.UPSTREAM_REJECTED,
        f"{_O}UnsupportedResponseTypeError": codes.UPSTREAM_REJECTED,
        # Version 2 of the API.
        f"{_E}AlreadyCanceledError": codes.UPSTREAM_CONFLICT,
        f"{_E}BlockedByStripeError": codes.UPSTREAM_REJECTED,
        f"{_E}CannotProceedError": codes.UPSTREAM_REJECTED,
        f"{_E}CapabilityNotEnabledError": codes.UPSTREAM_PERMISSION_DENIED,
        f"{_E}ControlledByAlternateResourceError": codes.UPSTREAM_CONFLICT,
        f"{_E}FeatureNotEnabledError": codes.UPSTREAM_PERMISSION_DENIED,
        f"{_E}FinancialAccountNotOpenError": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_E}FxQuoteNeedsRefreshError": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_E}InsufficientFundsError": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_E}InvalidPaymentMethodError": codes.UPSTREAM_REJECTED,
        f"{_E}InvalidPayoutMethodError": codes.UPSTREAM_REJECTED,
        f"{_E}InvalidVaultedCredentialError": codes.UPSTREAM_REJECTED,
        f"{_E}NotCancelableError": codes.UPSTREAM_CONFLICT,
        f"{_E}QuotaExceededError": codes.UPSTREAM_QUOTA_EXHAUSTED,
        f"{_E}RecipientNotNotifiableError": codes.UPSTREAM_REJECTED,
        f"{_E}TemporarySessionExpiredError": codes.UPSTREAM_PRECONDITION_FAILED,
        f"{_E}VerificationAttemptFailedError": codes.UPSTREAM_REJECTED,
        f"{_E}VerificationExpiredError": codes.UPSTREAM_REJECTED,
        f"{_E}VerificationNotInitiatedError": codes.UPSTREAM_REJECTED,
    },
)
