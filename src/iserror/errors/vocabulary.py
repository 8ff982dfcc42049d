"""The vocabulary of failures: categories, outcomes, effects, codes. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

Category: TypeAlias = Literal[
    "invalid_argument",
    "not_found",
    "already_exists",
    "permission_denied",
    "unauthenticated",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "unavailable",
    "deadline_exceeded",
    "unimplemented",
    "data_loss",
    "internal",
    "unknown",
    "cancelled",
    "out_of_range",
]
"""gRPC's canonical codes in lower case (google/rpc/code.proto)."""

Outcome: TypeAlias = Literal["not_applied", "unknown", "partial", "applied"]
"""Whether the tool's side effect took place."""

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a tool does to the world. A tool without a declared effect counts as a write for `retryable`, and for nothing
else."""

Level: TypeAlias = Literal["warning", "error"]
"""The log level of a known failure."""

CATEGORIES: Final = frozenset(get_args(Category))
OUTCOMES: Final = frozenset(get_args(Outcome))
EFFECTS: Final = frozenset(get_args(Effect))

CODE_PATTERN: Final = r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$"
_CODE = re.compile(CODE_PATTERN + r"\Z")


def check_code(code: object) -> str:
    """Return `code`.

    Raises:
        ValueError: If it isn't well-formed. The message says what is.
    """
    if not isinstance(code, str) or not 3 <= len(code) <= 64 or not _CODE.match(code):
        raise ValueError(
            f"code {code!r} is not valid: use 3 to 64 characters of A-Z, 0-9 and single underscores, "
            "starting with a letter, such as 'INVOICE_NOT_FOUND'"
        )
    return code


BUILT_IN: Final[Mapping[str, Category]] = {
    "INTERNAL_ERROR": "internal",
    "INVALID_OUTPUT": "internal",
    "TIMEOUT": "deadline_exceeded",
    "INVALID_ARGUMENTS": "invalid_argument",
    "UNKNOWN_TOOL": "not_found",
    "TOOL_ERROR": "unknown",
    "RETURNED_ERROR": "unknown",
    "PERMISSION_DENIED": "permission_denied",
    "CLIENT_CANNOT_ASK": "failed_precondition",
    "UPSTREAM_TIMEOUT": "deadline_exceeded",
    "UPSTREAM_SESSION_LOST": "unavailable",
    "NOTHING_SUCCEEDED": "failed_precondition",
    "IDEMPOTENCY_KEY_IN_USE": "aborted",
    "IDEMPOTENCY_KEY_REUSED": "failed_precondition",
    "IDEMPOTENCY_STORE_UNAVAILABLE": "unavailable",
    "IDEMPOTENCY_UNAUTHENTICATED": "unauthenticated",
    "OUTCOME_UNKNOWN": "unknown",
    "RESULT_NOT_KEPT": "already_exists",
}
"""The codes that iserror issues itself, with their categories. An entry may share one only in the same meaning."""
