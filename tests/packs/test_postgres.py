"""PostgreSQL fails under psycopg and asyncpg, and the packs say what that means; the tables are read back."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import pytest

import iserror
from iserror import Failure
from iserror.errors.pack import By
from iserror.packs import sql
from tests.conftest import Lines
from tests.packs.conftest import Postgres
from tests.packs.failing import CANARY, entry_of, failure
from tests.packs.upstream import Upstream, free_port, serving, stalled_connect

NEW = f"insert into {CANARY} values (2, 'new', 1, null, '[2,3)'), "
STATEMENTS = [
    (f"{NEW} (1, 'other', 1, null, null)", "ALREADY_EXISTS"),
    (f"{NEW} (3, 'other', 1, 9, null)", "REFERENCE_VIOLATION"),
    (f"{NEW} (3, null, 1, null, null)", "CONSTRAINT_VIOLATION"),
    (f"{NEW} (3, 'other', -1, null, null)", "CONSTRAINT_VIOLATION"),
    (f"{NEW} (3, 'other', 1, null, '[1,2)')", "CONSTRAINT_VIOLATION"),
    (f"{NEW} (3, '{CANARY}', 1, null, null)", "INVALID_VALUE"),
    (f"{NEW} (3000000000, 'other', 1, null, null)", "INVALID_VALUE"),
    (f"{NEW} (3, 'other', 1, null, '{CANARY}')", "INVALID_VALUE"),
    (f"select '{CANARY}'::date", "INVALID_VALUE"),
    (f"select '2024-99-99 {CANARY}'::date", "INVALID_VALUE"),
    (f"delete from {CANARY}_none", "QUERY_INVALID"),
    (f"select {CANARY}_none from {CANARY}", "QUERY_INVALID"),
    (f"select {CANARY}(1)", "QUERY_INVALID"),
    (CANARY, "QUERY_INVALID"),
    (f"create table {CANARY} (a int)", "ALREADY_EXISTS"),
    (f"create schema {CANARY}_s; create schema {CANARY}_s", "ALREADY_EXISTS"),
    (f"create database {CANARY}", "ALREADY_EXISTS"),
    (f"create role {CANARY}", "ALREADY_EXISTS"),
    (f"begin; set transaction read only; delete from {CANARY}", "READ_ONLY"),
    (f"set role {CANARY}_guest; delete from {CANARY}", "UPSTREAM_PERMISSION_DENIED"),
    (f"select {CANARY}()", "UPSTREAM_REJECTED"),
    ("do $$ begin raise disk_full; end $$", "STORAGE_FULL"),
    ("do $$ begin raise out_of_memory; end $$", "UPSTREAM_UNAVAILABLE"),
    ("do $$ begin raise transaction_integrity_constraint_violation; end $$", "CONSTRAINT_VIOLATION"),
    (f"alter table {CANARY} add constraint {CANARY} check (id > 0) deferrable", "UPSTREAM_UNIMPLEMENTED"),
]
PASSING = [
    (f"set lock_timeout = 20; delete from {CANARY}", "LOCK_TIMEOUT"),
    (f"select * from {CANARY} for update nowait", "LOCK_TIMEOUT"),
    (f"set statement_timeout = 20; insert into {CANARY} select 2, 'new' from pg_sleep(9)", "QUERY_TIMEOUT"),
    ("do $$ begin raise too_many_connections; end $$", "DEPENDENCY_BUSY"),
]
LOST = [
    "do $$ begin raise connection_failure; end $$",
    "do $$ begin raise admin_shutdown; end $$",
    "do $$ begin raise crash_shutdown; end $$",
    "do $$ begin raise connection_does_not_exist; end $$",
]
BROKEN = ["do $$ begin raise statement_completion_unknown; end $$", "do $$ begin raise io_error; end $$"]

Driver = tuple[iserror.errors.pack.Pack, Callable[..., Awaitable[None]]]


async def by_psycopg(server: Postgres, statement: str, **settings: Any) -> None:
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True, **settings) as connection:
        await connection.execute(statement)  # type: ignore[arg-type]


async def by_asyncpg(server: Postgres, statement: str, **settings: Any) -> None:
    connection = await asyncpg.connect(
        host=server.folder, user=server.user, database=server.database, **{"timeout": 5, **settings}
    )
    try:
        await connection.execute(statement)
    finally:
        connection.terminate()


@pytest.fixture(params=["psycopg", "asyncpg"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return getattr(iserror.packs, request.param), {"psycopg": by_psycopg, "asyncpg": by_asyncpg}[request.param]


def told(said: Failure) -> tuple[object, ...]:
    return said.code, said.outcome, said.retryable


def test_it_was_undone(lines: Lines, postgres: Postgres, driver: Driver, one_row: Any) -> None:
    """A statement that is refused has applied nothing, not even the rows before the one at fault."""
    pack, run = driver
    for statement, code in STATEMENTS:
        said = failure(pack, lines, lambda: run(postgres, statement))
        retryable = code == "UPSTREAM_UNAVAILABLE"
        assert told(said) == (code, "not_applied", retryable), statement
        assert one_row() == [(1, "one", 1)]


def test_it_passes(lines: Lines, postgres: Postgres, driver: Driver, one_row: Any) -> None:
    """What a lock or a time limit stopped has applied nothing, and the same call can succeed later."""
    pack, run = driver
    with psycopg.connect(postgres.dsn) as holder:
        holder.execute(f"select * from {CANARY} for update")
        for statement, code in PASSING:
            said = failure(pack, lines, lambda: run(postgres, statement))
            assert told(said) == (code, "not_applied", True), statement
    assert one_row() == [(1, "one", 1)]


class Gate:
    """A lock of the server's at which a statement waits until the test opens it."""

    function = "pg_advisory_xact_lock(7)"
    passes = f"select {function}"

    def __init__(self, postgres: Postgres) -> None:
        self.by = psycopg.connect(postgres.dsn, autocommit=True)
        self.by.execute("select pg_advisory_lock(7)")

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.by.close()

    def open(self) -> None:
        self.by.execute("select pg_advisory_unlock(7)")

    @staticmethod
    def held() -> str:
        """What has a row once a statement waits at the gate."""
        return "from pg_locks where locktype = 'advisory' and not granted"

    async def until(self, rows: str, count: int = 1) -> None:
        """Wait until there are so many rows."""
        for _ in range(2_000):
            if self.by.execute(f"select count(*) {rows}").fetchone() == (count,):  # type: ignore[call-overload]
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"never {count} {rows}")


def test_conflicts(lines: Lines, postgres: Postgres, driver: Driver, one_row: Any) -> None:
    """A serialisation failure and a deadlock roll the change back, and a repeat is safe."""
    pack, run = driver

    async def stale() -> None:
        with Gate(postgres) as gate:
            task = asyncio.ensure_future(
                run(
                    postgres,
                    f"begin isolation level repeatable read; select 1; {gate.passes}; "
                    f"update {CANARY} set size = 2; commit",
                )
            )
            await gate.until(gate.held())
            gate.by.execute(f"update {CANARY} set size = 3")
            gate.open()
            await task

    async def deadlock() -> None:
        with Gate(postgres) as gate, psycopg.connect(postgres.dsn) as other:
            other.execute(f"select * from {CANARY} where id = 1 for update")
            other.execute("set deadlock_timeout = '60s'")
            task = asyncio.ensure_future(
                run(
                    postgres,
                    f"set deadlock_timeout = '10ms'; begin; insert into {CANARY} values (2, 'new'); {gate.passes}; "
                    f"update {CANARY} set size = 2 where id = 1; commit",
                )
            )
            await gate.until(gate.held())
            insert = asyncio.to_thread(other.execute, f"insert into {CANARY} values (2, 'other')")
            waiting = asyncio.ensure_future(insert)
            await gate.until(f"from pg_locks where pid = {other.info.backend_pid} and not granted")
            gate.open()  # what waits last closes the circle, and finds that it has
            with suppress(psycopg.Error):
                await waiting
            other.rollback()
            await task

    assert told(failure(pack, lines, stale)) == ("TRANSACTION_CONFLICT", "not_applied", True)
    assert one_row() == [(1, "one", 3)]
    assert told(failure(pack, lines, deadlock)) == ("TRANSACTION_CONFLICT", "not_applied", True)
    assert one_row() == [(1, "one", 3)]


def test_it_is_unknown(lines: Lines, postgres: Postgres, driver: Driver) -> None:
    """Where the connection ends, or the database says so itself, nobody knows whether it was done."""
    pack, run = driver
    kill = "select pg_terminate_backend(pg_backend_pid())"
    for statement in [kill, *LOST]:
        said = failure(pack, lines, lambda: run(postgres, statement))
        assert told(said) == ("CONNECTION_LOST", "unknown", False), statement
    for statement in BROKEN:
        said = failure(pack, lines, lambda: run(postgres, statement))
        assert told(said) == ("UPSTREAM_ERROR", "unknown", False), statement
    assert failure(pack, lines, lambda: run(postgres, kill), effect="read").retryable


def test_every_state(postgres: Postgres, driver: Driver) -> None:
    """Each state that the server reports, and of a class that has an entry one that nobody named, gives that entry."""
    pack, run = driver
    for state, entry in sql.STATES.items():
        full = state.ljust(5, "Z") if len(state) == 2 else state.ljust(5, "4")
        found = entry_of(pack, lambda: run(postgres, f"do $$ begin raise exception using errcode = '{full}'; end $$"))
        assert found is entry, state


def test_the_connection_broke(lines: Lines, postgres: Postgres, one_row: Any) -> None:
    """Of a connection that broke while the statement ran nothing is known: here it was carried out."""

    async def broken() -> None:
        connection = await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True)
        insert = f"insert into {CANARY} select 2, 'new' from {gate.function}"
        sent = asyncio.ensure_future(connection.execute(insert))  # type: ignore[call-overload]
        await gate.until(gate.held())
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
        try:
            await sent
        finally:
            await connection.close()

    with Gate(postgres) as gate:
        said = failure(iserror.packs.psycopg, lines, broken)
        assert told(said) == ("CONNECTION_LOST", "unknown", False)
        gate.open()
        asyncio.run(gate.until(f"from {CANARY} where id = 2"))
    assert one_row() == [(1, "one", 1), (2, "new", None)]


def test_sessions_that_ended(lines: Lines, postgres: Postgres, one_row: Any) -> None:
    """A session that the server closed for its idleness has applied nothing."""

    async def idle(limit: str, statement: str) -> None:
        async with await psycopg.AsyncConnection.connect(postgres.dsn, autocommit=True) as connection:
            await connection.execute(f"set {limit} = 20; {statement}")  # type: ignore[arg-type]
            with Gate(postgres) as gate:
                await gate.until(f"from pg_stat_activity where pid = {connection.info.backend_pid}", 0)
            await connection.execute(f"delete from {CANARY}")  # type: ignore[arg-type]

    # The server's last words may get lost with the connection.
    lost = ("CONNECTION_LOST", "unknown", False)
    begin = f"begin; delete from {CANARY}"
    for limit, statement, code in (
        ("idle_in_transaction_session_timeout", begin, "QUERY_TIMEOUT"),
        ("transaction_timeout", begin, "QUERY_TIMEOUT"),
        ("idle_session_timeout", "select 1", "DEPENDENCY_UNAVAILABLE"),
    ):
        said = failure(iserror.packs.psycopg, lines, lambda: idle(limit, statement))
        assert told(said) in ((code, "not_applied", True), lost)
    assert one_row() == [(1, "one", 1)]


def test_psycopg_is_not_connected(lines: Lines, postgres: Postgres) -> None:
    """No server, no address, no answer in time, a closed pool and a full pool: no statement was sent."""
    pack = iserror.packs.psycopg
    listener, stalled = stalled_connect()

    def pooled() -> None:
        with psycopg_pool.ConnectionPool(postgres.dsn, min_size=1, max_size=1, open=True) as pool:
            with pool.connection(), pool.connection(timeout=0.05):
                pass

    def crowded() -> None:
        with psycopg_pool.ConnectionPool(postgres.dsn, min_size=1, max_size=1, max_waiting=1, open=True) as pool:
            with pool.connection():
                waiting = threading.Thread(target=lambda: suppressed(pool.getconn, 0.2))
                waiting.start()
                while not pool.get_stats().get("requests_waiting"):
                    time.sleep(0.01)
                try:
                    pool.getconn()
                finally:
                    waiting.join()

    def suppressed(action: Callable[..., Any], timeout: float) -> None:
        with suppress(psycopg_pool.PoolTimeout):
            action(timeout)

    def shut() -> None:
        with psycopg_pool.ConnectionPool(postgres.dsn, min_size=1, open=True) as pool:
            pass
        pool.getconn()

    for action in (
        lambda: psycopg.connect(f"host=127.0.0.1 port={free_port()} dbname={CANARY}"),
        lambda: psycopg.AsyncConnection.connect(f"host=127.0.0.1 port={free_port()} dbname={CANARY}"),
        lambda: psycopg.connect(f"host={CANARY}.invalid"),
        lambda: psycopg.AsyncConnection.connect(f"host={CANARY}.invalid"),
        lambda: psycopg.connect(f"host=127.0.0.1 port={stalled} connect_timeout=2"),
        lambda: psycopg.connect(f"host={postgres.folder} user={CANARY}_none dbname={CANARY}"),
        shut,
    ):
        assert told(failure(pack, lines, action)) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    listener.close()
    for action in (pooled, crowded):
        assert told(failure(pack, lines, action)) == ("DEPENDENCY_BUSY", "not_applied", True)


# AuthenticationCleartextPassword, then an error with SQLSTATE 28P01.
ASKS = b"R\0\0\0\x08\0\0\0\x03"
REFUSES = b"SFATAL\0C28P01\0M" + CANARY.encode() + b"\0\0"


def test_credentials(lines: Lines) -> None:
    """A server that wants a password which is not there, or refuses it, is for the operator; a loopback server does."""

    def serve_no_password() -> None:
        with serving(Upstream(ASKS, "stall", reads=False)) as upstream:
            psycopg.connect(f"host=127.0.0.1 port={upstream.port} user={CANARY} sslmode=disable gssencmode=disable")

    async def refused() -> None:
        error = b"E" + (len(REFUSES) + 4).to_bytes(4, "big") + REFUSES
        with serving(Upstream(error, "stall", reads=False)) as upstream:
            await asyncpg.connect(host="127.0.0.1", port=upstream.port, user=CANARY, ssl=False)

    for pack, action in ((iserror.packs.psycopg, serve_no_password), (iserror.packs.asyncpg, refused)):
        assert told(failure(pack, lines, action)) == ("UPSTREAM_UNAUTHENTICATED", "not_applied", False)


def test_values_that_cannot_be_sent(lines: Lines, postgres: Postgres) -> None:
    """A value that the driver itself refuses was not sent."""

    async def by_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(postgres.dsn) as connection:
            await connection.execute("select %s", (f"{CANARY}\0",))

    async def by_asyncpg() -> None:
        connection = await asyncpg.connect(host=postgres.folder, user=postgres.user, database=postgres.database)
        try:
            await connection.execute("select $1::int", CANARY)
        finally:
            connection.terminate()

    for pack, action in ((iserror.packs.psycopg, by_psycopg), (iserror.packs.asyncpg, by_asyncpg)):
        assert told(failure(pack, lines, action)) == ("INVALID_VALUE", "not_applied", False)


def test_asyncpg_of_its_own(lines: Lines, postgres: Postgres) -> None:
    """A plan that a change of the schema made stale, and no server of the wanted kind."""

    async def stale() -> None:
        connection = await asyncpg.connect(host=postgres.folder, user=postgres.user, database=postgres.database)
        try:
            await connection.execute("create temp table t (a int)")
            plan = await connection.prepare("select * from t")
            await connection.execute("alter table t add b int")
            async with connection.transaction():
                await plan.fetch()
        finally:
            connection.terminate()

    pack = iserror.packs.asyncpg
    assert told(failure(pack, lines, stale)) == ("TRANSACTION_CONFLICT", "not_applied", True)
    standby = failure(pack, lines, lambda: by_asyncpg(postgres, "select 1", target_session_attrs="standby"))
    assert told(standby) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


def test_names() -> None:
    """Every row names a class that exists, the state of a named one is its own, and each state has the entry."""
    from asyncpg import exceptions

    packs = (iserror.packs.psycopg, iserror.packs.asyncpg)
    for name in (name for pack in packs for name in pack.rows):
        module, _, short = name.rpartition(".")
        kind = getattr(import_module(module), short)
        assert f"{kind.__module__}.{kind.__qualname__}" == name
    for name, state in sql.NAMED.items():
        assert getattr(psycopg.errors, name).sqlstate == getattr(exceptions, f"{name}Error").sqlstate == state
        assert By("SQLSTATE", str, sql.STATES).find(state) is sql.meaning(state)  # type: ignore[arg-type]
