"""`sqlalchemy`: what the driver below says, and what it says itself."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes, sql
from iserror.packs._postgres import asyncpg, psycopg
from iserror.packs._pymysql import pymysql
from iserror.packs._sqlite3 import sqlite3
from iserror.support.loading import full_name
from iserror.support.look import look

_DRIVERS: Final = {**sqlite3.rows, **psycopg.rows, **asyncpg.rows, **pymysql.rows}


@lru_cache(maxsize=256)
def _rows(kind: type) -> tuple[Entry | By, ...]:
    names = map(full_name, kind.__mro__)
    return tuple(_DRIVERS[name] for name in names if name in _DRIVERS)


def _of_driver(exc: Any) -> Entry | None:
    # The adapter of asyncpg raises its own classes from asyncpg's.
    driver: Any = look(lambda: exc.orig, None)
    links: tuple[Any, Any] = (driver, look(lambda: driver.__cause__, None))
    for link in links:
        kind: Any = type(link)
        for row in _rows(kind):
            found = row.find(link) if isinstance(row, By) else row
            if found is not None:
                return found
    return None


class _Wrapped(By):
    """The entry of the driver's exception; of one that no pack knows, by what SQLAlchemy made of it."""

    def find(self, exc: BaseException) -> Entry | None:
        return _of_driver(exc) or super().find(exc)


def _wrapped(otherwise: Entry) -> By:
    return _Wrapped("", lambda exc: None, {}, otherwise)


def _connection(otherwise: Entry | None) -> By:
    lost = {"lost": codes.CONNECTION_LOST}
    return _Wrapped("connection", lambda exc: "lost" if exc.connection_invalidated else None, lost, otherwise)


sqlalchemy: Final = Pack(
    name="sqlalchemy",
    sources=(
        "https://docs.sqlalchemy.org/en/20/core/exceptions.html",
        "https://docs.sqlalchemy.org/en/20/orm/exceptions.html",
        "https://docs.sqlalchemy.org/en/20/errors.html",
    ),
    rows={
        "sqlalchemy.exc.IntegrityError": _wrapped(codes.CONSTRAINT_VIOLATION),
        "sqlalchemy.exc.DataError": _wrapped(codes.INVALID_VALUE),
        "sqlalchemy.exc.ProgrammingError": _wrapped(codes.QUERY_INVALID),
        "sqlalchemy.exc.OperationalError": _connection(codes.UPSTREAM_ERROR),
        "sqlalchemy.exc.InterfaceError": sql.NAMED_ONLY,
        "sqlalchemy.exc.InternalError": sql.NAMED_ONLY,
        "sqlalchemy.exc.NotSupportedError": sql.NAMED_ONLY,
        "sqlalchemy.exc.DatabaseError": sql.NAMED_ONLY,
        "sqlalchemy.exc.DBAPIError": _connection(None),
        "sqlalchemy.exc.TimeoutError": codes.DEPENDENCY_BUSY,
        # `one` and `get_one` raise it. More than one result is a mistake of the tool, and isn't listed.
        "sqlalchemy.exc.NoResultFound": codes.NOT_FOUND,
        "sqlalchemy.orm.exc.ObjectDeletedError": codes.NOT_FOUND,
        # Another transaction changed or deleted the row since it was read; the flush is rolled back.
        "sqlalchemy.orm.exc.StaleDataError": codes.TRANSACTION_CONFLICT,
    },
)
