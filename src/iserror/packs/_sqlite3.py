"""`sqlite3`, and what is built on it, such as aiosqlite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes, sql

_DATATYPE: Final = 3091
"""SQLITE_CONSTRAINT_DATATYPE, of strict tables; Python calls it `unknown`."""


def _name(exc: Any) -> object:
    return "SQLITE_CONSTRAINT_DATATYPE" if exc.sqlite_errorcode == _DATATYPE else exc.sqlite_errorname


def _by_name(entries: Mapping[str, Entry], otherwise: Entry | None) -> By:
    # Since Python 3.11; on 3.10 only the class tells, so there every failure of a class is `otherwise`.
    return By("name", _name, entries, otherwise)


# A failed statement is undone, except for the rows before the failing one under OR FAIL, which a statement has to ask
# for.
sqlite3: Final = Pack(
    name="sqlite3",
    sources=(
        "https://docs.python.org/3/library/sqlite3.html#exceptions",
        "https://www.sqlite.org/rescode.html",
        "https://www.sqlite.org/lang_conflict.html",
    ),
    rows={
        "sqlite3.IntegrityError": _by_name(
            {
                "SQLITE_CONSTRAINT_UNIQUE": codes.ALREADY_EXISTS,
                "SQLITE_CONSTRAINT_PRIMARYKEY": codes.ALREADY_EXISTS,
                "SQLITE_CONSTRAINT_ROWID": codes.ALREADY_EXISTS,
                "SQLITE_CONSTRAINT_FOREIGNKEY": codes.REFERENCE_VIOLATION,
                "SQLITE_CONSTRAINT_NOTNULL": sql.NOT_NULL,
                "SQLITE_CONSTRAINT_CHECK": sql.CHECK,
                "SQLITE_CONSTRAINT_DATATYPE": codes.INVALID_VALUE,
                "SQLITE_MISMATCH": codes.INVALID_VALUE,
            },
            codes.CONSTRAINT_VIOLATION,
        ),
        "sqlite3.DataError": codes.INVALID_VALUE,
        "sqlite3.OperationalError": _by_name(
            {
                "SQLITE_BUSY": codes.LOCK_TIMEOUT,
                "SQLITE_BUSY_SNAPSHOT": codes.TRANSACTION_CONFLICT,
                "SQLITE_LOCKED": codes.LOCK_TIMEOUT,
                "SQLITE_INTERRUPT": codes.QUERY_TIMEOUT,
                "SQLITE_READONLY": codes.READ_ONLY,
                "SQLITE_FULL": codes.STORAGE_FULL,
                "SQLITE_CANTOPEN": codes.DEPENDENCY_UNAVAILABLE,
                "SQLITE_ERROR": codes.QUERY_INVALID,
            },
            codes.UPSTREAM_ERROR,
        ),
        # The tool's authorizer denied it. A damaged file, or one that isn't a database, has no entry.
        "sqlite3.DatabaseError": _by_name({"SQLITE_AUTH": codes.SYSTEM_PERMISSION_DENIED}, None),
    },
)
