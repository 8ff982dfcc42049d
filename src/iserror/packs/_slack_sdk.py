"""`slack_sdk`, which lets the exceptions of urllib and aiohttp pass: they have their packs."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.http import NO_CREDENTIALS, by_status

_STATUS: Final = by_status("response.status_code", lambda exc: exc.response.headers)

# Slack answers almost everything with 200 and a word for what went wrong. Each method has dozens of words.
_ERRORS: Final = {
    **dict.fromkeys(("ratelimited", "rate_limited", "message_limit_exceeded"), _STATUS.entries["429"]),
    **dict.fromkeys(
        (
            "not_authed",
            "invalid_auth",
            "account_inactive",
            "token_expired",
            "token_revoked",
            "user_removed_from_team",
            "two_factor_setup_required",
        ),
        codes.UPSTREAM_UNAUTHENTICATED,
    ),
    **dict.fromkeys(
        (
            "missing_scope",
            "no_permission",
            "not_allowed_token_type",
            "access_denied",
            "accesslimited",
            "ekm_access_denied",
            "enterprise_is_restricted",
            "restricted_action",
            "team_access_not_granted",
        ),
        codes.UPSTREAM_PERMISSION_DENIED,
    ),
    **dict.fromkeys(
        (
            "channel_not_found",
            "file_not_found",
            "message_not_found",
            "team_not_found",
            "thread_not_found",
            "user_not_found",
            "users_not_found",
            "no_such_subteam",
        ),
        codes.UPSTREAM_NOT_FOUND,
    ),
    **dict.fromkeys(("name_taken", "already_in_channel", "already_pinned", "already_reacted"), codes.ALREADY_EXISTS),
    **dict.fromkeys(("is_archived", "not_in_channel"), codes.UPSTREAM_PRECONDITION_FAILED),
    **dict.fromkeys(("unknown_method", "deprecated_endpoint", "method_deprecated"), codes.UPSTREAM_UNIMPLEMENTED),
    # Some of it may have been done, Slack says.
    **dict.fromkeys(("internal_error", "fatal_error"), codes.UPSTREAM_ERROR),
    "service_unavailable": codes.UPSTREAM_UNAVAILABLE,
}


def _error(exc: Any) -> object:
    response = exc.response
    data = getattr(response, "data", None)
    said = data.get("error") if isinstance(data, dict) else None
    if said in _ERRORS:
        return said
    # For an answer that isn't JSON, the async client has aiohttp's response, and the other client a text as the error.
    status = response.status_code if hasattr(response, "status_code") else response.status
    return "other" if status == 200 and str.isidentifier(said or "") else status


slack_sdk: Final = Pack(
    name="slack_sdk",
    sources=(
        "https://docs.slack.dev/apis/web-api/#errors",
        "https://docs.slack.dev/apis/web-api/rate-limits",
        "https://docs.slack.dev/reference/methods/chat.postMessage#errors",
        "https://docs.slack.dev/tools/python-slack-sdk/reference/errors/",
    ),
    # Not here: SlackClientError, which is raised for nothing.
    rows={
        "slack_sdk.errors.SlackApiError": By(
            "error or status",
            _error,
            {**_ERRORS, "other": codes.UPSTREAM_REJECTED, **_STATUS.entries},
            codes.UPSTREAM_INVALID_RESPONSE,
        ),
        # Before the request that needs the token.
        "slack_sdk.errors.SlackTokenRotationError": By(
            "error or status",
            lambda exc: _error(exc.api_error),
            dict.fromkeys(("ratelimited", "internal_error", "fatal_error", "5"), codes.DEPENDENCY_UNAVAILABLE),
            NO_CREDENTIALS,
        ),
        # A WebSocket broke while a message was written, or before.
        "slack_sdk.errors.SlackClientNotConnectedError": codes.CONNECTION_LOST,
        # Arguments that exclude each other, and the second of an upload's three requests: only the SDK's text tells
        # them apart.
        "slack_sdk.errors.SlackRequestError": By(
            "text", lambda exc: exc.args[0], {"Failed to upload a file": codes.UPSTREAM_ERROR}, codes.REQUEST_INVALID
        ),
        "slack_sdk.errors.SlackObjectFormationError": codes.REQUEST_INVALID,
        "slack_sdk.errors.BotUserAccessError": codes.UPSTREAM_PERMISSION_DENIED,
        "slack_sdk.errors.SlackClientConfigurationError": codes.FEATURE_UNAVAILABLE,
    },
)
