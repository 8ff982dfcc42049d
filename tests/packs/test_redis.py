"""redis-py and valkey-py against a real server that refuses, hangs, dies and comes back; the keys are read back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import iserror
from iserror import Failure
from tests.conftest import Lines
from tests.packs.failing import CANARY, entry_of, failure
from tests.packs.upstream import free_port, stalled_connect
from tests.servers.redis_server import RedisServer

Pack = iserror.errors.pack.Pack


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(params=["redis", "valkey"])
def library(request: pytest.FixtureRequest) -> tuple[Pack, ModuleType, Any]:
    module = import_module(request.param)
    retry = import_module(f"{request.param}.retry").Retry(import_module(f"{request.param}.backoff").NoBackoff(), 1)
    client = getattr(module, request.param.capitalize())
    # One repeat, so that a failure of the last try is met; the waits between are redis-py's default.
    return getattr(iserror.packs, request.param), module, partial(client, retry=retry)


def told(said: Failure) -> tuple[object, ...]:
    return said.code, said.outcome, said.retryable


def test_refusals(lines: Lines, server: RedisServer, library: Any) -> None:
    """What the server refuses before it runs a command has changed nothing."""
    pack, _, Client = library
    admin = Client(port=server.port)
    admin.flushall()
    admin.acl_setuser("guest", enabled=True, nopass=True, commands=["+@connection"])

    def configured(**settings: object) -> None:
        for name, value in settings.items():
            admin.config_set(name.replace("_", "-"), value)
        try:
            admin.set(CANARY, CANARY)
        finally:
            admin.config_set("maxmemory", 0)
            admin.config_set("min-replicas-to-write", 0)

    def replica(stale: str) -> None:
        admin.config_set("replica-serve-stale-data", stale)
        admin.replicaof("127.0.0.1", free_port())
        try:
            admin.get(CANARY) if stale == "no" else admin.set(CANARY, CANARY)
        finally:
            admin.replicaof("no", "one")
            admin.config_set("replica-serve-stale-data", "yes")

    def watched() -> None:
        with admin.pipeline() as pipe:
            pipe.watch(CANARY)
            admin.set(CANARY, "theirs")
            pipe.multi()
            pipe.set(CANARY, "ours")
            pipe.execute()

    def aborted() -> None:
        with admin.pipeline(transaction=False) as pipe:
            pipe.execute_command("multi").execute_command("set", CANARY).execute_command("exec").execute()

    guest = {"username": "guest", "password": CANARY}
    for action, code, retryable in (
        (lambda: configured(maxmemory=1), "STORAGE_FULL", False),
        (lambda: configured(min_replicas_to_write=1), "UPSTREAM_UNAVAILABLE", True),
        (lambda: replica("yes"), "READ_ONLY", False),
        (lambda: replica("no"), "UPSTREAM_UNAVAILABLE", True),
        (lambda: Client(port=server.port, **guest).set(CANARY, 1), "UPSTREAM_PERMISSION_DENIED", False),
        (lambda: Client(port=server.port, username=CANARY, password=CANARY).ping(), "UPSTREAM_UNAUTHENTICATED", False),
        (lambda: admin.evalsha(CANARY, 0), "QUERY_INVALID", False),
    ):
        assert told(failure(pack, lines, action)) == (code, "not_applied", retryable)
    assert admin.get(CANARY) is None
    assert told(failure(pack, lines, watched)) == ("TRANSACTION_CONFLICT", "not_applied", True)
    assert admin.get(CANARY) == b"theirs"


def test_answers(server: RedisServer, library: Any) -> None:
    """What a node says of itself: a script lets the real server answer what else would take a cluster."""
    pack, _, Client = library
    admin = Client(port=server.port)
    for answer, code, outcome in (
        ("BUSY", "UPSTREAM_UNAVAILABLE", "not_applied"),
        ("CLUSTERDOWN", "UPSTREAM_UNAVAILABLE", "not_applied"),
        ("CROSSSLOT", "QUERY_INVALID", "not_applied"),
        ("EXECABORT", "QUERY_INVALID", "not_applied"),
        ("LOADING", "UPSTREAM_UNAVAILABLE", "unknown"),
        ("MASTERDOWN", "UPSTREAM_UNAVAILABLE", "not_applied"),
        ("MISCONF", "READ_ONLY", "not_applied"),
        ("NOAUTH", "UPSTREAM_UNAUTHENTICATED", "not_applied"),
        ("NOREPLICAS", "UPSTREAM_UNAVAILABLE", "not_applied"),
        ("TRYAGAIN", "UPSTREAM_UNAVAILABLE", "not_applied"),
        ("ERR", "UPSTREAM_REJECTED", "unknown"),
    ):
        entry = entry_of(pack, lambda: admin.eval(f"return server.error_reply('{answer} {CANARY}')", 0))
        assert (entry.code, entry.outcome) == (code, outcome), answer


def test_nothing_is_rolled_back(lines: Lines, server: RedisServer, library: Any) -> None:
    """A pipeline, a transaction and a script that fail keep what they did: nobody may say that nothing was done."""
    pack, _, Client = library
    admin = Client(port=server.port)

    def pipeline(transaction: bool) -> None:
        with admin.pipeline(transaction=transaction) as pipe:
            pipe.set("list", "no list").set("done", "yes").lpush("list", CANARY).execute()

    for action in (
        lambda: pipeline(True),
        lambda: pipeline(False),
        lambda: admin.eval(f"server.call('set', 'done', 'yes'); server.call('lpush', 'done', '{CANARY}')", 0),
        lambda: admin.eval(f"server.call('set', 'done', 'yes'); error('{CANARY}')", 0),
    ):
        admin.flushall()
        said = failure(pack, lines, action)
        assert (said.code in ("UPSTREAM_REJECTED", "QUERY_INVALID"), said.outcome) == (True, "unknown")
        assert admin.get("done") == b"yes"
    with_guest = Client(port=server.port, username="guest", password=CANARY).pipeline(transaction=False)
    admin.acl_setuser("guest", enabled=True, nopass=True, commands=["+set", "+@connection"], keys=["done"])
    admin.flushall()
    said = failure(pack, lines, lambda: with_guest.set("done", "yes").set(CANARY, 1).execute())
    assert told(said) == ("UPSTREAM_REJECTED", "unknown", False)
    assert admin.get("done") == b"yes"


def test_nothing_was_sent(lines: Lines, library: Any) -> None:
    """A refused connection, a name that does not exist, a connect timeout, a full pool: no command was sent."""
    pack, module, Client = library
    Async = getattr(import_module(f"{module.__name__}.asyncio"), module.__name__.capitalize())
    none = import_module(f"{module.__name__}.asyncio.retry").Retry(Client.keywords["retry"]._backoff, 0)
    listener, stalled = stalled_connect()

    async def asynchronous(**settings: Any) -> None:
        client = Async(retry=none, **settings)
        try:
            await client.set(CANARY, CANARY)
        finally:
            await client.aclose()

    for action in (
        lambda: Client(port=free_port()).set(CANARY, CANARY),
        lambda: asynchronous(port=free_port()),
        lambda: Client(port=free_port()).pipeline().set(CANARY, CANARY).execute(),
        lambda: Client(host=f"{CANARY}.invalid").set(CANARY, CANARY),
        lambda: Client(port=stalled, socket_connect_timeout=0.05).set(CANARY, CANARY),
        lambda: asynchronous(port=stalled, socket_connect_timeout=0.05),
    ):
        assert told(failure(pack, lines, action)) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    listener.close()


def test_full_pool(lines: Lines, server: RedisServer, library: Any) -> None:
    """A pool without a free connection sent nothing."""
    pack, module, Client = library
    pool = module.ConnectionPool(port=server.port, max_connections=1)
    taken = pool.get_connection(*(["PING"] if module.__name__ == "valkey" else []))
    said = failure(pack, lines, lambda: Client(connection_pool=pool).set(CANARY, CANARY))
    pool.release(taken)
    pool.disconnect()
    # valkey-py has a class for it and does not raise it.
    assert said.code == ("DEPENDENCY_BUSY" if module.__name__ == "redis" else "DEPENDENCY_UNAVAILABLE")
    assert (said.outcome, said.retryable) == ("not_applied", True)


@pytest.fixture(scope="module")
def node() -> Iterator[RedisServer]:
    """The one node of a cluster, which has not been given its slots."""
    # Else its second port is 10,000 above the first, where there may be none.
    server = RedisServer("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    yield server
    server.close()


@pytest.mark.parametrize("library", ["redis"], indirect=True)
def test_clusters(lines: Lines, server: RedisServer, node: RedisServer, library: Any) -> None:
    """A node without slots refuses; a client that lost its cluster in the middle knows nothing of what it had sent."""
    pack, module, Client = library
    kind = getattr(module.cluster, f"{module.__name__.capitalize()}Cluster")
    admin = Client(port=node.port)
    none = failure(pack, lines, lambda: kind(host="127.0.0.1", port=server.port))
    assert told(none) == ("UPSTREAM_UNAVAILABLE", "unknown", False)
    admin.execute_command("cluster flushslots")
    down = failure(pack, lines, lambda: admin.set(CANARY, CANARY))
    assert told(down) == ("UPSTREAM_UNAVAILABLE", "not_applied", True)
    admin.execute_command("cluster addslotsrange", 0, 16383)
    for _ in range(500):
        with suppress(module.exceptions.ResponseError):
            admin.set(CANARY, CANARY)
            break
        time.sleep(0.02)
    apart = failure(pack, lines, lambda: admin.mset({CANARY: 1, "other": 2}))
    assert told(apart) == ("QUERY_INVALID", "not_applied", False)
    cluster = kind(host="127.0.0.1", port=node.port, retry=Client.keywords["retry"], socket_timeout=0.2)
    cluster.ping()
    node.pause()
    lost = failure(pack, lines, lambda: cluster.set(CANARY, "done"))
    node.resume()
    cluster.close()
    assert told(lost) == ("UPSTREAM_UNAVAILABLE", "unknown", False)
    assert admin.get(CANARY) == b"done"


def test_it_was_sent(lines: Lines, server: RedisServer, library: Any) -> None:
    """Where the command was sent and no answer came, it may have run; a repeat that was refused does not hide it."""
    pack, _, Client = library
    client = Client(port=server.port, socket_timeout=0.2)
    client.ping()
    server.pause()
    slow = failure(pack, lines, lambda: client.set(CANARY, "done"))
    server.resume()
    assert told(slow) == ("UPSTREAM_TIMEOUT", "unknown", False)
    assert Client(port=server.port).get(CANARY) == b"done"

    own = RedisServer()
    doomed = Client(port=own.port)
    doomed.ping()
    threading.Timer(0.2, own.stop).start()
    lost = failure(pack, lines, lambda: doomed.blpop(CANARY, 5))
    own.close()
    assert told(lost) == ("CONNECTION_LOST", "unknown", False)
    with garbled() as port:
        garbage = failure(pack, lines, lambda: Client(port=port, protocol=2).set(CANARY, 1))
    assert told(garbage) == ("UPSTREAM_INVALID_RESPONSE", "unknown", False)


@contextmanager
def garbled() -> Iterator[int]:
    """A server whose answer to `SET` is no RESP."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while asked := connection.recv(65_536):
                    connection.sendall(b"no RESP\r\n" if b"SET\r\n$" in asked else b"+OK\r\n" * asked.count(b"*"))

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_locks(lines: Lines, server: RedisServer, library: Any) -> None:
    """A lock that another holds can come free; one that ran out while it was held left the work in doubt."""
    pack, _, Client = library
    client = Client(port=server.port)
    client.flushall()

    def waits() -> None:
        with client.lock(CANARY), client.lock(CANARY, blocking_timeout=0.02):
            pass

    def ran_out() -> None:
        lock = client.lock(CANARY, timeout=5)
        lock.acquire()
        client.delete(CANARY)
        lock.release()

    assert told(failure(pack, lines, waits)) == ("LOCK_TIMEOUT", "not_applied", True)
    assert told(failure(pack, lines, ran_out)) == ("UPSTREAM_CONFLICT", "unknown", False)
    assert failure(pack, lines, client.lock(CANARY).release).code == "INTERNAL_ERROR"


def test_names(library: Any) -> None:
    """Every row names a class that exists, but for those that valkey does not have."""
    pack, module, _ = library
    exceptions = module.exceptions
    missing = [name for name in pack.rows if not hasattr(exceptions, name.rpartition(".")[2])]
    absent = {"ExternalAuthProviderError"} if module.__name__ == "valkey" else set()
    assert {name.rpartition(".")[2] for name in missing} == absent
