"""PostgreSQL: `psycopg` 3 and its pool, and `asyncpg`."""

from __future__ import annotations

from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes, sql
from iserror.support.causes import frames

_APPENDIX: Final = "https://www.postgresql.org/docs/current/errcodes-appendix.html"


def _state(exc: Any) -> object:
    return exc.sqlstate


def _phase(exc: Any) -> str | None:
    """Return when a connection failed without an SQLSTATE, or None if there is one, so that it counts."""
    if exc.sqlstate is not None:
        return None
    if exc.pgconn is not None:  # only of an attempt to connect, and libpq keeps the server's SQLSTATE of it to itself
        return "no password" if exc.pgconn.needs_password else "connecting"
    # A host without address has nothing but a text, and the place where it was raised.
    *_, last = frames(exc)
    if last.f_globals["__name__"].startswith(("psycopg._conninfo", "psycopg._dns")):
        return "connecting"
    return "connected"


psycopg: Final = Pack(
    name="psycopg",
    sources=(
        "https://www.psycopg.org/psycopg3/docs/api/errors.html",
        "https://www.psycopg.org/psycopg3/docs/api/pool.html",
        _APPENDIX,
    ),
    rows={
        "psycopg_pool.PoolTimeout": codes.DEPENDENCY_BUSY,
        "psycopg_pool.TooManyRequests": codes.DEPENDENCY_BUSY,
        "psycopg_pool.PoolClosed": codes.DEPENDENCY_UNAVAILABLE,
        "psycopg.errors.ConnectionTimeout": codes.DEPENDENCY_UNAVAILABLE,
        "psycopg.errors.SerializationFailure": codes.TRANSACTION_CONFLICT,
        "psycopg.errors.SyntaxError": codes.QUERY_INVALID,
        **{f"psycopg.errors.{name}": sql.meaning(state) for name, state in sql.NAMED.items()},
        # Every subclass has a state of class 22, except for a value that psycopg itself cannot send.
        "psycopg.DataError": codes.INVALID_VALUE,
        "psycopg.OperationalError": By(
            "phase",
            _phase,
            {
                "no password": codes.UPSTREAM_UNAUTHENTICATED,
                "connecting": codes.DEPENDENCY_UNAVAILABLE,
                "connected": codes.CONNECTION_LOST,
            },
        ),
        "psycopg.IntegrityError": sql.NAMED_ONLY,
        "psycopg.ProgrammingError": sql.NAMED_ONLY,
        "psycopg.InternalError": sql.NAMED_ONLY,
        "psycopg.Error": By("SQLSTATE", _state, sql.STATES),
    },
)

asyncpg: Final = Pack(
    name="asyncpg",
    sources=("https://magicstack.github.io/asyncpg/current/api/index.html", _APPENDIX),
    rows={
        "asyncpg.exceptions.ConnectionDoesNotExistError": codes.CONNECTION_LOST,
        # Also of a value that asyncpg itself cannot send.
        "asyncpg.exceptions.DataError": codes.INVALID_VALUE,
        "asyncpg.exceptions.SerializationError": codes.TRANSACTION_CONFLICT,
        "asyncpg.exceptions.PostgresSyntaxError": codes.QUERY_INVALID,
        # The schema changed under a prepared statement. It will be prepared again.
        "asyncpg.exceptions.InvalidCachedStatementError": codes.TRANSACTION_CONFLICT,
        **{f"asyncpg.exceptions.{name}Error": sql.meaning(state) for name, state in sql.NAMED.items()},
        "asyncpg.exceptions._base.PostgresError": By("SQLSTATE", _state, sql.STATES),
        "asyncpg.exceptions._base.TargetServerAttributeNotMatched": codes.DEPENDENCY_UNAVAILABLE,
        # Not its base classes, which are mistakes of asyncpg itself; nor InterfaceError, which is misuse by the tool.
        "asyncpg.exceptions._base.ProtocolError": codes.UPSTREAM_INVALID_RESPONSE,
    },
)
