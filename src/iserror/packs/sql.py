"""The entries that the packs of databases share: kinds of constraints, and PostgreSQL's SQLSTATEs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By
from iserror.errors.template import Template
from iserror.packs import codes


def _rule(kind: str) -> Entry:
    return replace(codes.CONSTRAINT_VIOLATION, message=Template((f"A rule of the database forbids it: {kind}.",)))


NOT_NULL: Final = _rule("a value that must be there is missing")
CHECK: Final = _rule("a value is outside what it allows")
EXCLUSION: Final = _rule("it overlaps with something that is there")

# The database answered that it did nothing.
OVERLOADED: Final = replace(codes.UPSTREAM_UNAVAILABLE, outcome="not_applied", hint=codes.DEPENDENCY_UNAVAILABLE.hint)

# By SQLSTATE, or its class: PostgreSQL's appendix A. A failed statement is rolled back as a whole. But if a connection
# ends, the last answer may be lost. So 08 and 57P01 are unknown. 57P01 can follow a commit that was not acknowledged,
# and asyncpg raises 08003 for a connection that was closed in the middle of a statement.
# Bugs of the tool aren't listed: 25P02 (it continued after a failure), 3D000, 34, 3F, 55, F0.
STATES: Final = {
    "08": codes.CONNECTION_LOST,
    "08001": codes.DEPENDENCY_UNAVAILABLE,
    "08004": codes.DEPENDENCY_UNAVAILABLE,
    "0A": codes.UPSTREAM_UNIMPLEMENTED,
    "22": codes.INVALID_VALUE,
    "23": codes.CONSTRAINT_VIOLATION,
    "23001": codes.REFERENCE_VIOLATION,
    "23502": NOT_NULL,
    "23503": codes.REFERENCE_VIOLATION,
    "23505": codes.ALREADY_EXISTS,
    "23514": CHECK,
    "23P01": EXCLUSION,
    "25006": codes.READ_ONLY,
    "25P03": codes.QUERY_TIMEOUT,
    "25P04": codes.QUERY_TIMEOUT,
    "28": codes.UPSTREAM_UNAUTHENTICATED,
    "40": codes.TRANSACTION_CONFLICT,
    "40002": codes.CONSTRAINT_VIOLATION,
    "40003": codes.UPSTREAM_ERROR,
    "42": codes.QUERY_INVALID,
    "42501": codes.UPSTREAM_PERMISSION_DENIED,
    "42710": codes.ALREADY_EXISTS,
    "42P04": codes.ALREADY_EXISTS,
    "42P06": codes.ALREADY_EXISTS,
    "42P07": codes.ALREADY_EXISTS,
    "53": OVERLOADED,
    "53100": codes.STORAGE_FULL,
    "53300": codes.DEPENDENCY_BUSY,
    "55P03": codes.LOCK_TIMEOUT,
    "57014": codes.QUERY_TIMEOUT,
    "57P": codes.CONNECTION_LOST,
    "57P03": codes.DEPENDENCY_UNAVAILABLE,
    # The server closed the connection while it waited for a statement, and read nothing after that.
    "57P05": codes.DEPENDENCY_UNAVAILABLE,
    "58": codes.UPSTREAM_ERROR,
    # RAISE in a function of the database.
    "P0": codes.UPSTREAM_REJECTED,
    "XX": codes.UPSTREAM_ERROR,
}

# The classes of psycopg and asyncpg for the most frequent states. `iserror report` knows them by name.
NAMED: Final = {
    "StringDataRightTruncation": "22001",
    "NumericValueOutOfRange": "22003",
    "InvalidDatetimeFormat": "22007",
    "DatetimeFieldOverflow": "22008",
    "InvalidTextRepresentation": "22P02",
    "NotNullViolation": "23502",
    "ForeignKeyViolation": "23503",
    "UniqueViolation": "23505",
    "CheckViolation": "23514",
    "ExclusionViolation": "23P01",
    "IdleInTransactionSessionTimeout": "25P03",
    "InvalidAuthorizationSpecification": "28000",
    "InvalidPassword": "28P01",
    "DeadlockDetected": "40P01",
    "InsufficientPrivilege": "42501",
    "UndefinedColumn": "42703",
    "UndefinedFunction": "42883",
    "UndefinedTable": "42P01",
    "DuplicateTable": "42P07",
    "DiskFull": "53100",
    "OutOfMemory": "53200",
    "TooManyConnections": "53300",
    "LockNotAvailable": "55P03",
    "QueryCanceled": "57014",
    "AdminShutdown": "57P01",
    "CannotConnectNow": "57P03",
}


def meaning(state: str) -> Entry:
    """Return the entry of an SQLSTATE, else of its class."""
    return STATES.get(state) or STATES.get(state[:3]) or STATES[state[:2]]


NAMED_ONLY: Final = By("", lambda exc: None, {})
"""A row for the name only: the base class has the entries."""
