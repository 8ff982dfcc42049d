"""`botocore`, on which `boto3` and `aiobotocore` stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.errors.wait import parse_retry_after
from iserror.packs import codes
from iserror.packs.http import NO_CREDENTIALS, statuses
from iserror.packs.retry import wait_of


def _wait(exc: Any) -> object:
    headers = exc.response["ResponseMetadata"]["HTTPHeaders"]
    # In milliseconds, as `botocore.retries.standard` reads it.
    said = parse_retry_after(headers.get("x-amz-retry-after"))
    return wait_of(headers) if said is None else said / 1_000


_LIMITED: Final = replace(codes.UPSTREAM_RATE_LIMITED, retry_after=_wait)
_UNAVAILABLE: Final = replace(codes.UPSTREAM_UNAVAILABLE, retry_after=_wait)
_ERROR: Final = replace(codes.UPSTREAM_ERROR, retry_after=_wait)
_STATUSES: Final = statuses(_wait)

# Without the `Exception` that some protocols append. The codes of throttling are those that botocore itself repeats
# after; the others are common to all services, or of those that most tools use (S3, DynamoDB, SQS, Lambda, EC2, IAM).
_CODES: Final = {
    "Throttling": _LIMITED,
    "Throttled": _LIMITED,
    "RequestThrottled": _LIMITED,
    "TooManyRequests": _LIMITED,
    "ProvisionedThroughputExceeded": _LIMITED,
    "RequestLimitExceeded": _LIMITED,
    "BandwidthLimitExceeded": _LIMITED,
    "LimitExceededException": _LIMITED,
    "SlowDown": _LIMITED,
    "PriorRequestNotComplete": _LIMITED,
    "EC2Throttled": _LIMITED,
    # IAM's and others' for a number of things that one account may have.
    "LimitExceeded": codes.UPSTREAM_QUOTA_EXHAUSTED,
    "ServiceQuotaExceeded": codes.UPSTREAM_QUOTA_EXHAUSTED,
    "AccessDenied": codes.UPSTREAM_PERMISSION_DENIED,
    "UnauthorizedOperation": codes.UPSTREAM_PERMISSION_DENIED,
    "AuthorizationError": codes.UPSTREAM_PERMISSION_DENIED,
    "NotAuthorized": codes.UPSTREAM_PERMISSION_DENIED,
    "OptInRequired": codes.UPSTREAM_PERMISSION_DENIED,
    "AllAccessDisabled": codes.UPSTREAM_PERMISSION_DENIED,
    "AuthFailure": codes.UPSTREAM_UNAUTHENTICATED,
    "ExpiredToken": codes.UPSTREAM_UNAUTHENTICATED,
    "IncompleteSignature": codes.UPSTREAM_UNAUTHENTICATED,
    "InvalidAccessKeyId": codes.UPSTREAM_UNAUTHENTICATED,
    "InvalidClientTokenId": codes.UPSTREAM_UNAUTHENTICATED,
    "InvalidSignature": codes.UPSTREAM_UNAUTHENTICATED,
    "InvalidToken": codes.UPSTREAM_UNAUTHENTICATED,
    "MissingAuthenticationToken": codes.UPSTREAM_UNAUTHENTICATED,
    "RequestExpired": codes.UPSTREAM_UNAUTHENTICATED,
    "RequestTimeTooSkewed": codes.UPSTREAM_UNAUTHENTICATED,
    "SignatureDoesNotMatch": codes.UPSTREAM_UNAUTHENTICATED,
    "TokenRefreshRequired": codes.UPSTREAM_UNAUTHENTICATED,
    "UnrecognizedClient": codes.UPSTREAM_UNAUTHENTICATED,
    "NoSuch": codes.UPSTREAM_NOT_FOUND,
    "NotFound": codes.UPSTREAM_NOT_FOUND,
    "QueueDoesNotExist": codes.UPSTREAM_NOT_FOUND,
    "AWS.SimpleQueueService.NonExistentQueue": codes.UPSTREAM_NOT_FOUND,
    "AlreadyExists": codes.ALREADY_EXISTS,
    "BucketAlreadyOwnedByYou": codes.ALREADY_EXISTS,
    "ConditionalCheckFailed": codes.UPSTREAM_PRECONDITION_FAILED,
    "ResourceInUse": codes.UPSTREAM_CONFLICT,
    "ResourceConflict": codes.UPSTREAM_CONFLICT,
    "Conflict": codes.UPSTREAM_CONFLICT,
    "TransactionConflict": codes.TRANSACTION_CONFLICT,
    # One with the same token is under way, and may be this one, sent before.
    "TransactionInProgress": replace(codes.UPSTREAM_CONFLICT.unproven(), retryable=True),
    # DynamoDB names a reason for each item of it.
    "TransactionCanceled": codes.UPSTREAM_REJECTED,
    "TransactionCanceled ConditionalCheckFailed": codes.UPSTREAM_PRECONDITION_FAILED,
    "TransactionCanceled DuplicateItem": codes.ALREADY_EXISTS,
    "TransactionCanceled TransactionConflict": codes.TRANSACTION_CONFLICT,
    "TransactionCanceled ThrottlingError": _LIMITED,
    "TransactionCanceled ProvisionedThroughputExceeded": _LIMITED,
    "RequestTimeout": codes.UPSTREAM_TIMEOUT,
    "InternalError": _ERROR,
    "InternalFailure": _ERROR,
    "InternalServerError": _ERROR,
    "ServiceUnavailable": _UNAVAILABLE,
    "UnknownOperation": codes.UPSTREAM_UNIMPLEMENTED,
}
_CANCELLED: Final = (
    "ConditionalCheckFailed",
    "DuplicateItem",
    "TransactionConflict",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
)
"""What does not go away by itself counts before what does."""
_ENDINGS: Final = ("NotFound", "AlreadyExists", "AccessDenied")
"""How services build names in the same way: `ResourceNotFoundException`, `InvalidInstanceID.NotFound`."""


def _known(exc: Any) -> str:
    code: str = exc.response["Error"]["Code"]
    short = code.removesuffix("Exception")
    if code not in _CODES and short == "TransactionCanceled":
        reasons = {reason["Code"] for reason in exc.response.get("CancellationReasons", ())}
        return next((f"{short} {reason}" for reason in _CANCELLED if reason in reasons), short)
    for key in (code, short):
        if key in _CODES:
            return key
    if short.startswith("NoSuch"):
        return "NoSuch"
    for ending in _ENDINGS:
        if short.endswith(ending):
            return ending
    return str(exc.response["ResponseMetadata"]["HTTPStatusCode"])


def _reason(exc: Any) -> object:
    # The only thing that tells, and a constant of `botocore.waiter`.
    return exc.kwargs["reason"]


_B: Final = "botocore.exceptions."

_CREDENTIALS: Final = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "UnknownCredentialError",
    "NoAuthTokenError",
    "TokenRetrievalError",
    "ProfileNotFound",
    "RefreshWithMFAUnsupportedError",
    "SSOError",
    "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
    "LoginError",
    "LoginRefreshRequired",
    "LoginInsufficientPermissions",
    "LoginTokenLoadError",
    "LoginAuthorizationCodeError",
)

botocore: Final = Pack(
    name="botocore",
    sources=(
        "https://docs.aws.amazon.com/boto3/latest/guide/error-handling.html",
        "https://docs.aws.amazon.com/boto3/latest/guide/retries.html",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html",
        "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html",
        "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html",
    ),
    rows={
        f"{_B}ClientError": By("code", _known, {**_STATUSES, **_CODES}, codes.UPSTREAM_INVALID_RESPONSE),
        # In the midst of an answer that had begun.
        f"{_B}EventStreamError": codes.UPSTREAM_ERROR,
        f"{_B}EndpointConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        f"{_B}ConnectTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
        f"{_B}ProxyConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        f"{_B}ConnectionError": codes.DEPENDENCY_UNAVAILABLE,
        f"{_B}SSLError": codes.TLS_FAILED,
        f"{_B}ReadTimeoutError": codes.UPSTREAM_TIMEOUT,
        f"{_B}ConnectionClosedError": codes.CONNECTION_LOST,
        f"{_B}ResponseStreamingError": codes.CONNECTION_LOST,
        f"{_B}IncompleteReadError": codes.CONNECTION_LOST,
        f"{_B}HTTPClientError": codes.CONNECTION_LOST,
        # A request was sent in part, and its body cannot be read again for a retry.
        f"{_B}UnseekableStreamError": codes.CONNECTION_LOST,
        f"{_B}ChecksumError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_B}FlexibleChecksumError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_B}PaginationError": codes.UPSTREAM_INVALID_RESPONSE,
        "botocore.parsers.ResponseParserError": codes.UPSTREAM_INVALID_RESPONSE,
        f"{_B}WaiterError": By(
            "reason",
            _reason,
            {"Max attempts exceeded": codes.UPSTREAM_TIMEOUT},
            replace(codes.UPSTREAM_ERROR, retryable=False),
        ),
        **dict.fromkeys((f"{_B}{name}" for name in _CREDENTIALS), NO_CREDENTIALS),
        f"{_B}ParamValidationError": codes.REQUEST_INVALID,
        f"{_B}NoRegionError": codes.REQUEST_INVALID,
        f"{_B}InvalidRegionError": codes.REQUEST_INVALID,
        f"{_B}UnknownEndpointError": codes.REQUEST_INVALID,
    },
)
