"""SQLAlchemy over each driver: the pack says what the driver's pack says, and a flush that failed applied nothing."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

import iserror
from iserror import ErrorMap, OwnWords, ToolErrors, ToolFailure
from iserror.packs import codes, sql
from tests.conftest import Lines
from tests.packs.conftest import Postgres
from tests.packs.failing import CANARY, entry_of, failure
from tests.packs.mysql_server import mysql
from tests.packs.test_postgres import BROKEN, LOST, NEW, STATEMENTS, by_asyncpg, by_psycopg
from tests.packs.upstream import free_port

PACK = iserror.packs.sqlalchemy


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = f"{CANARY}_rows"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    version: Mapped[int] = mapped_column()
    __mapper_args__: ClassVar = {"version_id_col": version}


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    engine = sa.create_engine(f"sqlite:///{tmp_path / CANARY}", poolclass=NullPool)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Row(id=1, name="one"))
        session.commit()
    yield engine
    engine.dispose()


def names(engine: sa.Engine) -> list[str]:
    with Session(engine) as session:
        return list(session.scalars(sa.select(Row.name)))


async def by_psycopg_dialect(server: Postgres, statement: str) -> None:
    await _run(f"postgresql+psycopg://{server.user}@/{server.database}?host={server.folder}", statement)


async def by_asyncpg_dialect(server: Postgres, statement: str) -> None:
    await _run(f"postgresql+asyncpg://{server.user}@/{server.database}?host={server.folder}", statement)


async def _run(url: str, statement: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("run", "bare", "pack"),
    [
        (by_psycopg_dialect, by_psycopg, iserror.packs.psycopg),
        (by_asyncpg_dialect, by_asyncpg, iserror.packs.asyncpg),
    ],
)
@pytest.mark.usefixtures("one_row")
def test_postgres(lines: Lines, postgres: Postgres, run: Callable[..., Any], bare: Any, pack: Any) -> None:
    """Each statement means under SQLAlchemy what it means under the bare driver."""
    statements = [statement for statement, _ in STATEMENTS if ";" not in statement.rstrip("; $")]
    assert len(statements) > 15
    for statement in (*statements, *LOST, *BROKEN, "select pg_terminate_backend(pg_backend_pid())"):
        wrapped = entry_of(PACK, lambda: run(postgres, statement))
        assert wrapped is entry_of(pack, lambda: bare(postgres, statement)), statement
    said = failure(PACK, lines, lambda: run(postgres, f"{NEW} (3, null, 1, null, null)"))
    assert (said.code, said.outcome) == ("CONSTRAINT_VIOLATION", "not_applied")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 has no error names before Python 3.11")
def test_sqlite(lines: Lines, engine: sa.Engine) -> None:
    """A constraint, a lock, a statement that makes no sense: as under the bare driver, and nothing was written."""

    def add(*rows: Row) -> None:
        with Session(engine) as session:
            session.add_all(rows)
            session.commit()

    def locked() -> None:
        other = sqlite3.connect(str(engine.url.database), isolation_level=None)
        other.execute("begin immediate")
        quick = sa.create_engine(engine.url, poolclass=NullPool, connect_args={"timeout": 0})
        try:
            with Session(quick) as session:
                session.add(Row(id=2, name="new"))
                session.commit()
        finally:
            other.close()

    def told(action: Callable[[], Any]) -> tuple[object, ...]:
        said = failure(PACK, lines, action)
        return said.code, said.outcome, said.retryable

    def executed(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text(statement))

    exists = told(lambda: add(Row(id=2, name="new"), Row(id=3, name="one")))
    assert exists == ("ALREADY_EXISTS", "not_applied", False)
    assert told(lambda: add(Row(id=2, name=None))) == ("CONSTRAINT_VIOLATION", "not_applied", False)
    assert told(locked) == ("LOCK_TIMEOUT", "not_applied", True)
    assert told(lambda: executed(f"select * from {CANARY}_none")) == ("QUERY_INVALID", "not_applied", False)
    assert names(engine) == ["one"]


def test_its_own(lines: Lines, engine: sa.Engine) -> None:
    """A full pool, a row that is not there, and one that another transaction changed."""

    def full() -> None:
        pooled = sa.create_engine(engine.url, pool_size=1, max_overflow=0, pool_timeout=0.05)
        try:
            with pooled.connect(), pooled.connect():
                pass
        finally:
            pooled.dispose()

    def missing() -> None:
        with Session(engine) as session:
            session.scalars(sa.select(Row).where(Row.name == CANARY)).one()

    def many() -> None:
        with Session(engine) as session:
            session.execute(sa.text("select 1 union select 2")).one()

    def stale() -> None:
        with Session(engine) as session:
            row = session.get_one(Row, 1)
            with engine.begin() as other:
                other.execute(sa.update(Row).values(version=7, name="another"))
            row.name = CANARY
            session.commit()

    def deleted() -> None:
        with Session(engine) as session:
            row = session.get_one(Row, 1)
            session.rollback()
            with engine.begin() as other:
                other.execute(sa.delete(Row))
            assert row.name

    for action, code, retryable in (
        (full, "DEPENDENCY_BUSY", True),
        (missing, "NOT_FOUND", False),
        (stale, "TRANSACTION_CONFLICT", True),
    ):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome, said.retryable) == (code, "not_applied", retryable)
    assert names(engine) == ["another"]
    assert failure(PACK, lines, deleted).code == "NOT_FOUND"
    assert failure(PACK, lines, many).code == "INTERNAL_ERROR"


def test_mysql(lines: Lines) -> None:
    """The numbers of a MySQL server mean what they mean to pymysql, and a refused connection sent nothing."""

    def run(port: int, statement: str) -> None:
        settings = {"ssl_disabled": True, "read_timeout": 5}
        engine = sa.create_engine(f"mysql+pymysql://{CANARY}@127.0.0.1:{port}/", connect_args=settings)
        engine.dialect.initialize = lambda connection: None  # type: ignore[method-assign]
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(statement)
        finally:
            engine.dispose()

    with mysql() as server:
        for statement, entry in (
            ("fail 1062", codes.ALREADY_EXISTS),
            ("fail 1213", codes.TRANSACTION_CONFLICT),
            ("fail 3819", sql.CHECK),
            ("close", codes.CONNECTION_LOST),
        ):
            assert entry_of(PACK, lambda: run(server.port, statement)) is entry
    said = failure(PACK, lines, lambda: run(free_port(), "select 1"))
    assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


def test_other_drivers(lines: Lines, engine: sa.Engine) -> None:
    """Under a driver that no pack knows the class of SQLAlchemy tells, and whether it gave the connection up."""

    class Error(sqlite3.Error):
        pass

    def failing(kind: str, lost: bool) -> None:
        # An SQLite that raises the exceptions of another driver; the rest is SQLAlchemy's.
        error = type(kind, (Error,), {"__module__": "other"})
        unknown = sa.create_engine("sqlite://")
        unknown.dialect.is_disconnect = lambda *_: lost  # type: ignore[method-assign]
        unknown.dialect.do_execute = lambda *_: (_ for _ in ()).throw(error(CANARY))  # type: ignore[method-assign]
        unknown.dialect.initialize = lambda connection: None  # type: ignore[method-assign]
        try:
            with unknown.connect() as connection:
                connection.exec_driver_sql("select 1")
        finally:
            with suppress(Exception):
                unknown.dispose()

    for kind, lost, code, outcome in (
        ("IntegrityError", False, "CONSTRAINT_VIOLATION", "not_applied"),
        ("DataError", False, "INVALID_VALUE", "not_applied"),
        ("ProgrammingError", False, "QUERY_INVALID", "not_applied"),
        ("OperationalError", False, "UPSTREAM_ERROR", "unknown"),
        ("OperationalError", True, "CONNECTION_LOST", "unknown"),
        ("InterfaceError", True, "CONNECTION_LOST", "unknown"),
        ("InterfaceError", False, "INTERNAL_ERROR", "unknown"),
    ):
        said = failure(PACK, lines, lambda: failing(kind, lost))
        assert (said.code, said.outcome) == (code, outcome)


def test_names() -> None:
    """Every row names a class that exists."""
    for name in PACK.rows:
        module, _, short = name.rpartition(".")
        kind = getattr(sa.exc if module == "sqlalchemy.exc" else sa.orm.exc, short)
        assert f"{kind.__module__}.{kind.__qualname__}" == name


@pytest.mark.parametrize("run", [by_psycopg_dialect, by_asyncpg_dialect, by_psycopg, by_asyncpg])
def test_a_statement_of_the_model(postgres: Postgres, run: Callable[..., Any]) -> None:
    """Where the model writes the statement, the database's own words come through, without SQLAlchemy's around them."""
    errors = ErrorMap()
    errors.include(PACK, iserror.packs.psycopg, iserror.packs.asyncpg)
    errors.add(instead_of="QUERY_INVALID", code="STATEMENT_INVALID", category="invalid_argument", message=OwnWords())

    @ToolErrors(errors)
    async def query(statement: str) -> None:
        await run(postgres, statement)

    with pytest.raises(ToolFailure) as caught:
        anyio.run(query, "selec 1")
    said = caught.value.failure
    assert said is not None
    assert (said.code, said.category, said.outcome) == ("STATEMENT_INVALID", "invalid_argument", "not_applied")
    assert said.advice == "change the call first"
    assert said.message.startswith('"')
    assert 'syntax error at or near \\"selec\\"' in said.message
    assert "sqlalche.me" not in said.message
