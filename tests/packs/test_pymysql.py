"""pymysql raises what a server's error packets make of it.

The packets come from a loopback server: no package has MySQL. Numbers and what they left in the tables were read off a
MariaDB 10.11 where it has them, else they are MySQL's reference.
"""

from __future__ import annotations

import pymysql

import iserror
from iserror.errors.pack import By
from tests.conftest import Lines
from tests.packs.failing import CANARY, entry_of, failure
from tests.packs.mysql_server import mysql
from tests.packs.upstream import free_port

PACK = iserror.packs.pymysql
REFUSED = {
    "ALREADY_EXISTS": (1007, 1022, 1050, 1062, 1169, 1586),
    "CONSTRAINT_VIOLATION": (1048, 1364, 3819, 4025),
    "INVALID_VALUE": (1153, 1264, 1265, 1292, 1301, 1366, 1406, 1690, 3140),
    "QUERY_INVALID": (1054, 1064, 1136, 1146, 1305),
    "READ_ONLY": (1290, 1792, 1836),
    "REFERENCE_VIOLATION": (1216, 1217, 1451, 1452),
    "STORAGE_FULL": (1021, 1114),
    "UPSTREAM_PERMISSION_DENIED": (1044, 1142, 1143, 1227, 1370),
    "UPSTREAM_REJECTED": (1644,),
    "UPSTREAM_UNIMPLEMENTED": (1235,),
}
PASSING = {
    "LOCK_TIMEOUT": (1205, 3572),
    "QUERY_TIMEOUT": (1317, 1969, 3024),
    "TRANSACTION_CONFLICT": (1020, 1213, 3101),
    "UPSTREAM_RATE_LIMITED": (1226,),
    "UPSTREAM_UNAVAILABLE": (1037, 1041, 1047, 1206),
}
UNKNOWN = {"CONNECTION_LOST": (1053, 1927), "UPSTREAM_ERROR": (1180,)}
GREETED = {
    "DEPENDENCY_BUSY": (1040, 1203),
    "DEPENDENCY_UNAVAILABLE": (1129,),
    "UPSTREAM_UNAUTHENTICATED": (1045, 1130, 1698, 1820, 1862, 3118, 4151),
}


def connect(port: int, **settings: object) -> pymysql.Connection:
    # Without `ssl_disabled` it reads the machine's authorities for every connection.
    settings = {"ssl_disabled": True, **settings}
    return pymysql.connect(host="127.0.0.1", port=port, user=CANARY, password=CANARY, **settings)  # type: ignore[call-overload,no-any-return]


def run(port: int, statement: str, **settings: object) -> None:
    connection = connect(port, **settings)
    try:
        connection.cursor().execute(statement)
    finally:
        if connection.open:
            connection.close()


def numbers(table: dict[str, tuple[int, ...]]) -> list[tuple[int, str]]:
    return [(number, code) for code, found in table.items() for number in found]


def test_statements(lines: Lines) -> None:
    """A statement that the server refused, rolled back or gave up on has the outcome of that number."""
    tables = ((REFUSED, "not_applied", False), (PASSING, "not_applied", True), (UNKNOWN, "unknown", True))
    with mysql() as server:
        cursor = connect(server.port).cursor()
        for table, outcome, retryable in tables:
            for number, code in numbers(table):
                entry = entry_of(PACK, lambda: cursor.execute(f"fail {number} {CANARY}"))
                assert (entry.code, entry.outcome, entry.retryable) == (code, outcome, retryable), number
        for number, code in ((1062, "ALREADY_EXISTS"), (1213, "TRANSACTION_CONFLICT"), (1999, "INTERNAL_ERROR")):
            assert failure(PACK, lines, lambda: run(server.port, f"fail {number} {CANARY}")).code == code
        cursor.connection.close()


def test_it_was_not_sent(lines: Lines) -> None:
    """A server that is not there, refuses the session or was left: no statement was received."""

    def closed(port: int) -> None:
        connection = connect(port)
        connection.close()
        connection.cursor().execute(CANARY)

    def gone(port: int) -> None:
        connection = connect(port)
        connection._sock.shutdown(1)
        connection.cursor().execute(CANARY)

    for number, code in numbers(GREETED):
        with mysql(number) as server:
            entry = entry_of(PACK, lambda: run(server.port, CANARY))
        assert (entry.code, entry.outcome, entry.retryable) == (code, "not_applied", code.startswith("DEPENDENCY"))
        assert server.statements == []
    with mysql() as server:
        for action in (
            lambda: connect(free_port()),
            lambda: pymysql.connect(host=f"{CANARY}.invalid"),
            lambda: closed(server.port),
            lambda: gone(server.port),
        ):
            said = failure(PACK, lines, action)
            assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
        assert CANARY not in server.statements


def test_it_was_sent(lines: Lines) -> None:
    """Where the server received the statement and no answer came, what it did is unknown."""
    with mysql() as server:
        for statement, settings in (("close", {}), ("stall", {"read_timeout": 0.1})):
            said = failure(PACK, lines, lambda: run(server.port, statement, **settings))  # type: ignore[arg-type]
            assert (said.code, said.outcome, said.retryable) == ("CONNECTION_LOST", "unknown", False)
            assert server.statements[-1] == statement


def test_the_handshake(lines: Lines) -> None:
    """TLS that the server does not offer or breaks, and a way to log in that the client lacks, are for the operator."""
    for tls in (False, True):
        with mysql(tls=tls) as server:
            said = failure(PACK, lines, lambda: connect(server.port, ssl_disabled=False, ssl={"check_hostname": False}))
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
    with mysql(login=b"\xfe" + CANARY.encode() + b"\0" + bytes(20)) as server:
        said = failure(PACK, lines, lambda: connect(server.port))
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_UNAUTHENTICATED", "not_applied", False)


def test_names() -> None:
    """Every row names a class that exists, and every number is tried above."""
    for name in PACK.rows:
        assert getattr(pymysql.err, name.rpartition(".")[2]).__module__ == "pymysql.err"
    row = PACK.rows["pymysql.err.Error"]
    assert isinstance(row, By)
    tried = {number for table in (REFUSED, PASSING, UNKNOWN, GREETED) for number, _ in numbers(table)}
    assert {int(number) for number in row.entries} - tried == {0, 2003, 2006, 2013, 2026, 2059}
