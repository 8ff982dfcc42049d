"""The vocabulary of all packs: what a failure of something that a tool needs means to the tool's caller.

`upstream` is whatever the tool talks to: a web API, a database, a broker, a cloud. A pack uses these entries unchanged,
or with `replace` if the library knows a wait, or as `Entry.unproven` has them if the outcome is unknown. The outcome is
about the one request that failed. Categories are gRPC's. docs/reference/packs.md has the table.

An entry of `not_applied` has two forms. If something shows that another request went out before, the outcome is
unknown, and the message claims nothing that this request alone proves.
"""

from __future__ import annotations

from typing import Final

from iserror.errors.entry import Entry
from iserror.errors.template import Template
from iserror.errors.vocabulary import Category, Level, Outcome

_TELL: Final = "Stop and tell the user: only the operator of this server can fix it."
_LATER: Final = "Try again later; if it stays so, tell the user."
_CHANGE: Final = "Change the call, or tell the user."
_LOOK: Final = "Look at the present state before any further call."
_ALWAYS: Final = (_TELL, _LOOK)
"""Hints that are right whatever the outcome is."""


def entry(
    code: str,
    category: Category,
    message: str,
    hint: str | None,
    *,
    outcome: Outcome = "not_applied",
    retryable: bool = False,
    level: Level = "warning",
    claimless: str | None = None,
    unsure_hint: str | None = None,
) -> Entry:
    """Build an entry of constant text. The message may show safe values with `{exc.attribute}`.

    Args:
        code: The code.
        category: gRPC's code for it.
        message: What was observed.
        hint: What to do next.
        outcome: The outcome of the request.
        retryable: Whether a repeat can help.
        level: The log level.
        claimless: The message where the outcome is unknown, if the other one says that nothing was done.
        unsure_hint: The hint where the outcome is unknown; the other one if that is right in any case.
    """
    next_step = unsure_hint or (hint if hint in _ALWAYS else None)
    return Entry(
        code=code,
        category=category,
        message=Template.parse(f"message of {code}", message),
        hint=None if hint is None else Template((hint,)),
        retryable=retryable,
        outcome=outcome,
        level=level,
        packed=True,
        claimless=None if claimless is None else Template((claimless,)),
        next_step=None if next_step is None else Template((next_step,)),
    )


# --- the upstream was not reached: nothing was sent ----------------------------------------------------------

DEPENDENCY_UNAVAILABLE: Final = entry(
    "DEPENDENCY_UNAVAILABLE",
    "unavailable",
    "A service that this tool needs could not be reached; nothing was sent to it.",
    _LATER,
    retryable=True,
    claimless="A service that this tool needs could not be reached.",
)
DEPENDENCY_BUSY: Final = entry(
    "DEPENDENCY_BUSY",
    "resource_exhausted",
    "All connections to a service that this tool needs are in use; nothing was sent to it.",
    _LATER,
    retryable=True,
    claimless="All connections to a service that this tool needs are in use.",
)
TLS_FAILED: Final = entry(
    "TLS_FAILED",
    "unavailable",
    "No secure connection to a service that this tool needs; nothing was sent to it.",
    _TELL,
    level="error",
    claimless="No secure connection to a service that this tool needs.",
)
REQUEST_INVALID: Final = entry(
    "REQUEST_INVALID",
    "internal",
    "The tool made a request that cannot be sent.",
    _TELL,
    level="error",
    claimless="The tool made a request that is not valid.",
)

# An entry whose request may have taken effect has no hint: the last line of the text advises, and a hint would be wrong
# in a tool that only reads.

# --- it was reached, and no answer came ----------------------------------------------------------------------

UPSTREAM_TIMEOUT: Final = entry(
    "UPSTREAM_TIMEOUT",
    "deadline_exceeded",
    "A service that this tool needs did not answer in time.",
    None,
    outcome="unknown",
    retryable=True,
)
CONNECTION_LOST: Final = entry(
    "CONNECTION_LOST",
    "unavailable",
    "The connection to a service that this tool needs broke before its answer came.",
    None,
    outcome="unknown",
    retryable=True,
)
UPSTREAM_INVALID_RESPONSE: Final = entry(
    "UPSTREAM_INVALID_RESPONSE",
    "unknown",
    "A service that this tool needs answered with something that cannot be read.",
    None,
    outcome="unknown",
)

# --- it answered that it failed ------------------------------------------------------------------------------

UPSTREAM_ERROR: Final = entry(
    "UPSTREAM_ERROR",
    "unknown",
    "A service that this tool needs failed on the request.",
    None,
    outcome="unknown",
    retryable=True,
)
UPSTREAM_UNAVAILABLE: Final = entry(
    "UPSTREAM_UNAVAILABLE",
    "unavailable",
    "A service that this tool needs says that it is unavailable.",
    None,
    outcome="unknown",
    retryable=True,
)

# --- it refused: nothing was done ----------------------------------------------------------------------------

UPSTREAM_RATE_LIMITED: Final = entry(
    "UPSTREAM_RATE_LIMITED",
    "resource_exhausted",
    "A service that this tool needs limits how often it may be asked.",
    "Wait before the next call.",
    retryable=True,
)
UPSTREAM_QUOTA_EXHAUSTED: Final = entry(
    "UPSTREAM_QUOTA_EXHAUSTED",
    "resource_exhausted",
    "This server has used up what a service that it needs allows it.",
    _TELL,
    level="error",
)
UPSTREAM_UNAUTHENTICATED: Final = entry(
    "UPSTREAM_UNAUTHENTICATED",
    "unauthenticated",
    "A service that this tool needs refused the credentials of this server.",
    _TELL,
    level="error",
)
UPSTREAM_PERMISSION_DENIED: Final = entry(
    "UPSTREAM_PERMISSION_DENIED",
    "permission_denied",
    "A service that this tool needs does not allow this server to do that.",
    _TELL,
    level="error",
)
UPSTREAM_NOT_FOUND: Final = entry(
    "UPSTREAM_NOT_FOUND",
    "not_found",
    "A service that this tool needs has nothing there.",
    _CHANGE,
)
UPSTREAM_CONFLICT: Final = entry(
    "UPSTREAM_CONFLICT",
    "aborted",
    "A service that this tool needs refused the request: it conflicts with the present state.",
    _LOOK,
)
UPSTREAM_PRECONDITION_FAILED: Final = entry(
    "UPSTREAM_PRECONDITION_FAILED",
    "failed_precondition",
    "A service that this tool needs refused the request: a condition of it does not hold.",
    _LOOK,
)
UPSTREAM_REJECTED: Final = entry(
    "UPSTREAM_REJECTED",
    "failed_precondition",
    "A service that this tool needs refused the request.",
    _CHANGE,
)
PAYMENT_DECLINED: Final = entry(
    "PAYMENT_DECLINED",
    "failed_precondition",
    "The payment was declined.",
    "Tell the user, and ask for another way to pay.",
    claimless="The payment was declined in the last attempt.",
)
UPSTREAM_UNIMPLEMENTED: Final = entry(
    "UPSTREAM_UNIMPLEMENTED",
    "unimplemented",
    "A service that this tool needs cannot do that.",
    _TELL,
)

# --- data: the statement was rolled back, or never ran -------------------------------------------------------

ALREADY_EXISTS: Final = entry(
    "ALREADY_EXISTS",
    "already_exists",
    "It exists already.",
    "Use the one that exists, or another name.",
    unsure_hint=_LOOK,
)
NOT_FOUND: Final = entry("NOT_FOUND", "not_found", "It does not exist.", _CHANGE)
REFERENCE_VIOLATION: Final = entry(
    "REFERENCE_VIOLATION",
    "failed_precondition",
    "What it refers to does not exist, or something still refers to it.",
    _CHANGE,
)
CONSTRAINT_VIOLATION: Final = entry(
    "CONSTRAINT_VIOLATION", "failed_precondition", "A rule of the database forbids it.", _CHANGE
)
INVALID_VALUE: Final = entry(
    "INVALID_VALUE", "invalid_argument", "A value does not fit where it is to be stored.", _CHANGE
)
TRANSACTION_CONFLICT: Final = entry(
    "TRANSACTION_CONFLICT",
    "aborted",
    "The change was rolled back: another one was made at the same time.",
    None,
    retryable=True,
    claimless="The last attempt was rolled back: another change was made at the same time.",
)
LOCK_TIMEOUT: Final = entry(
    "LOCK_TIMEOUT",
    "aborted",
    "The change was not made: something else holds a lock.",
    _LATER,
    retryable=True,
    claimless="Something else holds a lock that the change needs.",
)
QUERY_TIMEOUT: Final = entry(
    "QUERY_TIMEOUT",
    "deadline_exceeded",
    "The database stopped the statement, and rolled it back: it took too long.",
    "Ask for less, or try again later.",
    retryable=True,
    claimless="The database stopped the statement: it took too long.",
)
QUERY_INVALID: Final = entry(
    "QUERY_INVALID",
    "internal",
    "The database does not understand the statement that this tool made.",
    _TELL,
    level="error",
)
READ_ONLY: Final = entry("READ_ONLY", "failed_precondition", "It cannot be changed at present: it is read-only.", _TELL)
STORAGE_FULL: Final = entry(
    "STORAGE_FULL", "resource_exhausted", "There is no room left to store it.", _TELL, level="error"
)

# --- this machine --------------------------------------------------------------------------------------------

SYSTEM_PERMISSION_DENIED: Final = entry(
    "SYSTEM_PERMISSION_DENIED",
    "permission_denied",
    "The system does not allow this server to do that.",
    _TELL,
    level="error",
)
RESOURCES_EXHAUSTED: Final = entry(
    "RESOURCES_EXHAUSTED",
    "resource_exhausted",
    "This server has run out of memory, files or processes.",
    _LATER,
    retryable=True,
    level="error",
)
COMMAND_FAILED: Final = entry(
    "COMMAND_FAILED", "unknown", "A program that this tool runs failed.", None, outcome="unknown"
)
COMMAND_TIMEOUT: Final = entry(
    "COMMAND_TIMEOUT",
    "deadline_exceeded",
    "A program that this tool runs was stopped: it took too long.",
    None,
    outcome="unknown",
    retryable=True,
)
FEATURE_UNAVAILABLE: Final = entry(
    "FEATURE_UNAVAILABLE", "unimplemented", "This server lacks something that the tool needs.", _TELL, level="error"
)

VOCABULARY: Final = {found.code: found for found in list(vars().values()) if isinstance(found, Entry)}
