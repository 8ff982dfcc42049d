"""pymongo raises what a server's answers make of it.

The answers come from a loopback server, as MongoDB's reference documents them: no package has a MongoDB.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import bson
import pymongo
import pymongo.errors
from pymongo import InsertOne, MongoClient, UpdateMany

import iserror
from iserror import Failure
from iserror.errors.pack import By
from tests.conftest import Lines
from tests.packs.failing import CANARY, entry_of, failure
from tests.packs.mongo_server import HELLO, mongo
from tests.packs.upstream import free_port

PACK = iserror.packs.pymongo
REFUSED = {
    "ALREADY_EXISTS": (48, 11000),
    "CONSTRAINT_VIOLATION": (121,),
    "INVALID_VALUE": (66, 10334),
    "LOCK_TIMEOUT": (24, 46),
    "NOT_FOUND": (26, 27),
    "QUERY_INVALID": (2, 9, 14, 40324),
    "STORAGE_FULL": (14031,),
    "TRANSACTION_CONFLICT": (112, 246),
    "UPSTREAM_PERMISSION_DENIED": (13,),
    "UPSTREAM_UNAUTHENTICATED": (11, 18, 391),
    "UPSTREAM_UNAVAILABLE": (133, 10107, 13435, 13436),
    "UPSTREAM_UNIMPLEMENTED": (59,),
}
UNKNOWN = {
    "QUERY_TIMEOUT": (50, 262),
    "UPSTREAM_ERROR": (1, 8, 43),
    "UPSTREAM_TIMEOUT": (89, 202),
    "UPSTREAM_UNAVAILABLE": (6, 7, 91, 189, 11600, 11602),
}


def failed(code: int) -> dict[str, Any]:
    return {"ok": 0, "code": code, "errmsg": CANARY}


def wrote(n: int, *codes: int, **more: Any) -> dict[str, Any]:
    errors = [{"index": index, "code": code, "errmsg": CANARY} for index, code in enumerate(codes, n)]
    return {"ok": 1, "n": n, "nModified": n, **({"writeErrors": errors} if codes else {}), **more}


def client(port: int, **settings: Any) -> MongoClient[dict[str, Any]]:
    return MongoClient("127.0.0.1", port, **{"directConnection": True, "serverSelectionTimeoutMS": 2_000, **settings})


def run(port: int, act: Callable[[Any], Any], **settings: Any) -> None:
    with client(port, **settings) as found:
        act(found[CANARY][CANARY])


def insert(table: Any) -> None:
    table.insert_one({CANARY: CANARY})


def told(said: Failure) -> tuple[object, ...]:
    return said.code, said.outcome, said.retryable


def test_codes(lines: Lines) -> None:
    """A command that is refused by code did nothing; one that was interrupted, or failed within, may have."""
    with mongo({}) as server:
        for table, outcome in ((REFUSED, "not_applied"), (UNKNOWN, "unknown")):
            for name, codes in table.items():
                for code in codes:
                    server.answer = failed(code)
                    entry = entry_of(PACK, lambda: run(server.port, insert))
                    assert (entry.code, entry.outcome) == (name, outcome), code
        for code, name in ((112, "TRANSACTION_CONFLICT"), (13, "UPSTREAM_PERMISSION_DENIED"), (137, "INTERNAL_ERROR")):
            server.answer = failed(code)
            assert failure(PACK, lines, lambda: run(server.port, insert)).code == name


def test_writes(lines: Lines) -> None:
    """One document is written or not; of many, some may have been; an unconfirmed copy is of a write that was done."""

    def many(table: Any) -> None:
        table.insert_many([{"_id": 1}, {"_id": 2}])

    def update(table: Any) -> None:
        table.update_many({}, {"$set": {CANARY: CANARY}})

    def bulk(table: Any) -> None:
        table.bulk_write([UpdateMany({}, {"$set": {CANARY: 1}})], ordered=False)

    concern = {"code": 64, "errmsg": CANARY, "errInfo": {"wtimeout": True}}
    for act, answer, expected in (
        (insert, wrote(0, 11000), ("ALREADY_EXISTS", "not_applied", False)),
        (insert, wrote(0, 121), ("CONSTRAINT_VIOLATION", "not_applied", False)),
        (insert, wrote(0, 50), ("QUERY_TIMEOUT", "unknown", False)),
        (update, wrote(0, 11000), ("UPSTREAM_REJECTED", "unknown", False)),
        (update, wrote(0, 121), ("UPSTREAM_REJECTED", "unknown", False)),
        (update, failed(112), ("UPSTREAM_REJECTED", "unknown", False)),
        (many, wrote(1, 11000), ("UPSTREAM_REJECTED", "partial", False)),
        (many, wrote(0, 11000), ("ALREADY_EXISTS", "not_applied", False)),
        (many, wrote(0, 121), ("CONSTRAINT_VIOLATION", "not_applied", False)),
        (many, wrote(0, 2), ("UPSTREAM_REJECTED", "unknown", False)),
        (bulk, wrote(0, 11000), ("UPSTREAM_REJECTED", "unknown", False)),
        (insert, wrote(1, writeConcernError=concern), ("UPSTREAM_TIMEOUT", "unknown", False)),
        (insert, wrote(1, writeConcernError={"code": 100, "errmsg": CANARY}), ("UPSTREAM_ERROR", "unknown", False)),
    ):
        with mongo(answer) as server:
            assert told(failure(PACK, lines, lambda: run(server.port, act))) == expected


def test_bulk_of_a_client(lines: Lines) -> None:
    """A bulk over several collections tells whether any of its writes was done."""

    def bulk(port: int) -> None:
        with client(port) as found:
            found.bulk_write([InsertOne({"_id": i}, namespace=f"{CANARY}.{CANARY}") for i in (1, 2)])

    for inserted, outcome in ((1, "partial"), (0, "unknown")):
        wrong = {"ok": 0, "idx": inserted, "code": 11000, "errmsg": CANARY, "n": 0}
        batch = [{"ok": 1, "idx": 0, "n": 1}] * inserted + [wrong]
        cursor = {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": batch}
        counts = dict.fromkeys(("nMatched", "nModified", "nUpserted", "nDeleted"), 0)
        with mongo({"ok": 1, "cursor": cursor, "nErrors": 1, "nInserted": inserted, **counts}) as server:
            said = failure(PACK, lines, lambda: bulk(server.port))
        assert told(said) == ("UPSTREAM_REJECTED", outcome, False)


def test_nothing_was_sent(lines: Lines) -> None:
    """No server, no primary and a full pool: no command was received."""

    def held(found: Any) -> None:
        with suppress(pymongo.errors.PyMongoError):
            insert(found[CANARY][CANARY])

    def full(port: int) -> None:
        with client(port, maxPoolSize=1, waitQueueTimeoutMS=50) as found:
            holder = threading.Thread(target=held, args=(found,))
            holder.start()
            while not server.commands:
                pass
            try:
                found[CANARY][CANARY].find_one()
            finally:
                found.close()
                holder.join(0)

    absent = failure(PACK, lines, lambda: run(free_port(), insert, serverSelectionTimeoutMS=100))
    assert told(absent) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    with mongo({}) as server:
        server.hello = {**HELLO, "ismaster": False, "isWritablePrimary": False, "secondary": True, "setName": CANARY}
        settings = {"directConnection": False, "replicaSet": CANARY, "serverSelectionTimeoutMS": 100}
        said = failure(PACK, lines, lambda: run(server.port, insert, **settings))
        assert (told(said), server.commands) == (("DEPENDENCY_UNAVAILABLE", "not_applied", True), [])
    with mongo("stall") as server:
        said = failure(PACK, lines, lambda: full(server.port))
        assert (told(said), server.commands) == (("DEPENDENCY_BUSY", "not_applied", True), ["insert"])


def test_it_was_sent(lines: Lines) -> None:
    """Where the server received the command and no answer came, or one that cannot be read, it may have run."""
    for answer, settings, code in (
        ("close", {}, "CONNECTION_LOST"),
        ("stall", {"socketTimeoutMS": 100}, "UPSTREAM_TIMEOUT"),
        ({"garbled": True}, {}, "UPSTREAM_INVALID_RESPONSE"),
    ):
        with mongo(answer) as server:
            said = failure(PACK, lines, lambda: run(server.port, insert, **settings))  # type: ignore[arg-type]
            assert told(said) == (code, "unknown", False)
            assert "insert" in server.commands


def test_values(lines: Lines) -> None:
    """A document that is too large was not sent, and an id that is none made no command."""
    with mongo(wrote(1)) as server:
        server.hello = {**HELLO, "maxBsonObjectSize": 1_000}
        large = failure(PACK, lines, lambda: run(server.port, lambda table: table.insert_one({"a": CANARY * 9_000})))
        assert (told(large), server.commands) == (("INVALID_VALUE", "not_applied", False), [])
    assert told(failure(PACK, lines, lambda: bson.ObjectId(CANARY))) == ("INVALID_VALUE", "not_applied", False)


def test_names() -> None:
    """Every row names a class that exists, and every code is tried above."""
    for name in PACK.rows:
        module, _, short = name.rpartition(".")
        assert getattr(pymongo.errors if module == "pymongo.errors" else bson.errors, short).__module__ == module
    row = PACK.rows["pymongo.errors.OperationFailure"]
    assert isinstance(row, By)
    tried = {str(code) for table in (REFUSED, UNKNOWN) for codes in table.values() for code in codes}
    assert set(row.entries) - tried == {"many"}
