"""SQLite fails in every way that its pack knows, and a statement that failed has applied nothing."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure

PACK = iserror.packs.sqlite3
TABLE = f"""
create table {CANARY} (id integer primary key, name text not null unique, size int check (size > 0),
    parent int references {CANARY}) strict;
create table plain (a);
create trigger no before delete on {CANARY} begin select raise(abort, '{CANARY}'); end;
insert into {CANARY} values (1, '{CANARY}', 1, null);
"""

needs_names = pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 has no error names before Python 3.11")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / CANARY
    connection = sqlite3.connect(path)
    connection.executescript(TABLE)
    connection.close()
    return path


def run(path: object, *statements: str, **settings: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None, **settings)  # type: ignore[call-overload]
    try:
        connection.execute("pragma foreign_keys = on")
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def rows(path: Path) -> list[object]:
    connection = sqlite3.connect(path)
    found = connection.execute(f"select * from {CANARY} union all select a, a, a, a from plain").fetchall()
    connection.close()
    return found


@needs_names
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (f"insert into {CANARY} values (2, 'new', 1, 1), (3, '{CANARY}', 1, 1)", "ALREADY_EXISTS"),
        (f"insert into {CANARY} values (2, 'new', 1, 1), (1, 'other', 1, 1)", "ALREADY_EXISTS"),
        ("insert into plain (rowid) values (1), (1)", "ALREADY_EXISTS"),
        (f"insert into {CANARY} values (2, 'new', 1, 1), (3, 'other', 1, 9)", "REFERENCE_VIOLATION"),
        (f"insert into {CANARY} values (2, 'new', 1, 1), (3, null, 1, 1)", "CONSTRAINT_VIOLATION"),
        (f"insert into {CANARY} values (2, 'new', 1, 1), (3, 'other', -1, 1)", "CONSTRAINT_VIOLATION"),
        (f"insert into {CANARY} values (2, 'new', 1, 1), (3, 'other', '{CANARY}', 1)", "INVALID_VALUE"),
        (f"insert into {CANARY} values ('{CANARY}', 'new', 1, 1)", "INVALID_VALUE"),
        (f"delete from {CANARY}", "CONSTRAINT_VIOLATION"),
        (f"insert into {CANARY} values (2, zeroblob(2000000000), 1, 1)", "INVALID_VALUE"),
        (f"insert into {CANARY}_none values (1)", "QUERY_INVALID"),
        (f"{CANARY}", "QUERY_INVALID"),
    ],
)
def test_it_was_undone(lines: Lines, db: Path, statement: str, code: str) -> None:
    """A statement that is refused has applied nothing, not even the rows before the one at fault."""
    before = rows(db)
    said = failure(PACK, lines, lambda: run(db, statement))
    assert (said.code, said.outcome, said.retryable) == (code, "not_applied", False)
    assert rows(db) == before


@needs_names
def test_locks(lines: Lines, db: Path) -> None:
    """A lock of another connection, and a snapshot that it made stale, pass; nothing was written."""
    insert = f"insert into {CANARY} values (2, 'new', 1, 1)"
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("begin immediate")
    busy = failure(PACK, lines, lambda: run(db, insert, timeout=0))
    other.execute("rollback")
    other.execute("pragma journal_mode = wal")

    def stale() -> None:
        reader = sqlite3.connect(db, isolation_level=None, timeout=0)
        try:
            reader.execute("begin")
            reader.execute(f"select count(*) from {CANARY}").fetchall()
            other.execute(f"update {CANARY} set size = 7")
            reader.execute(insert)
        finally:
            reader.close()

    snapshot = failure(PACK, lines, stale)
    other.close()
    shared = f"file:{CANARY}?mode=memory&cache=shared"
    holder = sqlite3.connect(shared, uri=True, isolation_level=None)
    holder.execute("create table t (a)")
    holder.execute("begin")
    holder.execute("insert into t values (1)")
    locked = failure(PACK, lines, lambda: run(shared, "select * from t", uri=True))
    holder.close()
    assert [said.code for said in (busy, locked, snapshot)] == ["LOCK_TIMEOUT", "LOCK_TIMEOUT", "TRANSACTION_CONFLICT"]
    assert {(said.outcome, said.retryable) for said in (busy, locked, snapshot)} == {("not_applied", True)}
    assert len(rows(db)) == 1


@needs_names
def test_the_database(lines: Lines, db: Path, tmp_path: Path) -> None:
    """No room, no right to write, no file and an authorizer are told apart."""

    def denied() -> None:
        connection = sqlite3.connect(db)
        connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)
        try:
            connection.execute(f"select * from {CANARY}")
        finally:
            connection.close()

    grow = f"insert into {CANARY} values (2, zeroblob(100000) || 'x', 1, 1)"
    found = [
        failure(PACK, lines, action)
        for action in (
            lambda: run(db, "pragma max_page_count = 1", grow),
            lambda: run(f"file:{db}?mode=ro", f"delete from {CANARY}", uri=True),
            lambda: run(tmp_path / CANARY / CANARY),
            denied,
        )
    ]
    assert [said.code for said in found] == [
        "STORAGE_FULL",
        "READ_ONLY",
        "DEPENDENCY_UNAVAILABLE",
        "SYSTEM_PERMISSION_DENIED",
    ]
    assert {said.outcome for said in found} == {"not_applied"}
    assert len(rows(db)) == 1


@needs_names
def test_interrupted(lines: Lines, db: Path) -> None:
    """A statement that a progress handler stops for its time has applied nothing."""

    def slow() -> None:
        connection = sqlite3.connect(db, isolation_level=None)
        connection.set_progress_handler(lambda: 1, 1_000)
        try:
            connection.execute(
                f"with recursive n(i) as (select 2 union all select i + 1 from n where i < 1000000) "
                f"insert into {CANARY} select i, 'n' || i, 1, null from n"
            )
        finally:
            connection.close()

    said = failure(PACK, lines, slow)
    assert (said.code, said.outcome, said.retryable) == ("QUERY_TIMEOUT", "not_applied", True)
    assert len(rows(db)) == 1


def test_without_names(lines: Lines, db: Path) -> None:
    """Where there is no error name (Python 3.10, or a failure of the module's own) the class still tells."""

    def nameless(kind: type[sqlite3.Error], statement: str) -> None:
        try:
            run(db, statement)
        except kind as exc:
            vars(exc).clear()  # what Python 3.10 gives
            raise

    broken = failure(
        PACK, lines, lambda: nameless(sqlite3.IntegrityError, f"insert into {CANARY} values (1, 'a', 1, 1)")
    )
    failed = failure(PACK, lines, lambda: nameless(sqlite3.OperationalError, CANARY))
    assert (broken.code, broken.outcome) == ("CONSTRAINT_VIOLATION", "not_applied")
    assert (failed.code, failed.outcome) == ("UPSTREAM_ERROR", "unknown")


def test_a_bug_stays_one(lines: Lines, db: Path) -> None:
    """A file that is no database, and a closed connection, are for the operator to see."""
    db.write_bytes(CANARY.encode() * 200)
    assert failure(PACK, lines, lambda: run(db, "select 1 from sqlite_master")).code == "INTERNAL_ERROR"

    def closed() -> None:
        connection = sqlite3.connect(":memory:")
        connection.close()
        connection.execute("select 1")

    assert failure(PACK, lines, closed).code == "INTERNAL_ERROR"


def test_names() -> None:
    """Every row names a class that exists."""
    assert all(getattr(sqlite3, name.rpartition(".")[2]).__module__ == "sqlite3" for name in PACK.rows)
