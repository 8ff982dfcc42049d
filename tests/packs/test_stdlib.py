"""Files, sockets, TLS, programs, decoding and urllib fail, and the pack says what that means."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.client
import json
import mmap
import multiprocessing
import os
import resource
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.http_client import HEAD, Statuses, missing, tls, trust
from tests.packs.upstream import Upstream, free_port, response, serving, stalled_connect

PACK = iserror.packs.stdlib


def opener(*, proxy: str | None = None, verify: bool = True) -> urllib.request.OpenerDirector:
    proxies = urllib.request.ProxyHandler({"https": proxy} if proxy else {})
    return urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=trust(verify)))


class TestUrllib(Statuses):
    pack = PACK

    def post(
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> None:
        opener(proxy=proxy, verify=verify).open(url, self.body, timeout=min(connect, read)).read()

    def test_not_sent_as_a_whole(self, lines: Lines) -> None:
        """A body that nobody takes is a request of which a part was sent."""
        with serving(Upstream(ends="stall", reads=False)) as upstream:
            said = failure(PACK, lines, lambda: opener().open(upstream.url, b"1" * 30_000_000, timeout=0.2))
        assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")

    def test_file_breaks_off(self, lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A file that came in part is a connection that was lost."""
        monkeypatch.setattr(urllib.request, "_opener", opener())
        with serving(Upstream(HEAD + b"1")) as upstream:
            said = failure(PACK, lines, lambda: urllib.request.urlretrieve(upstream.url, tmp_path / CANARY))
        assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")

    @pytest.mark.parametrize(
        "answer", [b"HTTP/7 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\na: " + b"1" * 70_000 + b"\r\n\r\n"]
    )
    def test_odd_answers(self, lines: Lines, answer: bytes) -> None:
        """An answer in another protocol, or with a line that is too long, is one that the tool cannot use."""
        with serving(Upstream(answer)) as upstream:
            said = self.said(lines, upstream.url)
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def many_files() -> None:
    """Open files until the system lets no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        while True:
            opened.append(os.dup(0))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in opened:
            os.close(number)


def fill(path: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(CANARY.encode())


@pytest.mark.parametrize(
    ("action", "code", "outcome"),
    [
        (lambda folder: open(folder / f"no-{CANARY}"), "NOT_FOUND", "not_applied"),
        (lambda folder: open(folder / CANARY / CANARY), "NOT_FOUND", "not_applied"),
        (lambda folder: (folder / CANARY).mkdir(), "ALREADY_EXISTS", "not_applied"),
        (
            lambda folder: os.execv(folder / CANARY, [CANARY]),
            "SYSTEM_PERMISSION_DENIED",
            "not_applied",
        ),  # EACCES, of root too
        (lambda folder: open(folder / (CANARY * 40), "w"), "INVALID_VALUE", "not_applied"),
        (lambda folder: fill("/dev/full"), "STORAGE_FULL", "unknown"),
        (lambda folder: many_files(), "RESOURCES_EXHAUSTED", "not_applied"),
        (lambda folder: mmap.mmap(-1, 1 << 60), "RESOURCES_EXHAUSTED", "not_applied"),
        (lambda folder: bytearray(1 << 60), "RESOURCES_EXHAUSTED", "unknown"),
    ],
    ids=["missing", "no folder", "there", "EACCES", "long", "full", "files", "ENOMEM", "memory"],
)
def test_files(lines: Lines, tmp_path: Path, action: Callable[[Path], Any], code: str, outcome: str) -> None:
    """What the system says of a file is said, without the file's name."""
    (tmp_path / CANARY).write_text(CANARY)
    said = failure(PACK, lines, lambda: action(tmp_path))
    assert (said.code, said.outcome) == (code, outcome)


@pytest.mark.parametrize(
    ("number", "code", "outcome"),
    [
        (errno.EPERM, "SYSTEM_PERMISSION_DENIED", "not_applied"),
        (errno.EDQUOT, "STORAGE_FULL", "unknown"),
        (errno.ENFILE, "RESOURCES_EXHAUSTED", "not_applied"),
        (errno.EROFS, "READ_ONLY", "not_applied"),
        (errno.ECONNABORTED, "CONNECTION_LOST", "unknown"),
        (errno.EHOSTDOWN, "CONNECTION_LOST", "unknown"),
        (errno.EHOSTUNREACH, "CONNECTION_LOST", "unknown"),
        (errno.ENETDOWN, "CONNECTION_LOST", "unknown"),
        (errno.ENETRESET, "CONNECTION_LOST", "unknown"),
        (errno.ENETUNREACH, "CONNECTION_LOST", "unknown"),
        (errno.ETIMEDOUT, "UPSTREAM_TIMEOUT", "unknown"),
        (errno.EBADF, "INTERNAL_ERROR", "unknown"),
    ],
)
def test_other_numbers(lines: Lines, number: int, code: str, outcome: str) -> None:
    """What no test can make the kernel say is made by hand, as the kernel's: `OSError(errno, text)`."""

    def action() -> None:
        raise OSError(number, os.strerror(number), CANARY)

    said = failure(PACK, lines, action)
    assert (said.code, said.outcome) == (code, outcome)


class Own(OSError):
    """A library's own."""


@pytest.mark.parametrize(
    "raised",
    [
        Own(errno.EMFILE, CANARY),
        PermissionError(CANARY),
        OSError(CANARY),
        ValueError(CANARY),
        EOFError(CANARY),
        ImportError(CANARY),
        http.client.CannotSendRequest(CANARY),
    ],
    ids=repr,
)
def test_too_general(lines: Lines, raised: Exception) -> None:
    """A class that others use for their own ends, or that mistakes raise, says nothing: it stays a crash."""

    def action() -> None:
        raise raised

    assert failure(PACK, lines, action).code == "INTERNAL_ERROR"


def receive(upstream: Upstream, *, raw: bool = False) -> None:
    """Send and receive over a socket, with TLS if the upstream speaks it, or `raw`, which hides no end of it."""
    with socket.create_connection(("127.0.0.1", upstream.port), 5) as connection:
        if upstream.tls is not None or raw:
            connection = trust(False).wrap_socket(connection, suppress_ragged_eofs=not raw)
        with connection:
            connection.sendall(b"a / b\r\n\r\n")
            connection.settimeout(0.1 if upstream.ends == "stall" else 5)
            while connection.recv(100):
                pass


def test_sockets(lines: Lines) -> None:
    """Of a connection that was not made nothing was sent; of one that broke or stalls nobody knows."""

    def bare() -> None:
        with socket.socket() as connection:
            connection.connect(("127.0.0.1", free_port()))

    def no_address() -> None:  # made by hand: gethostbyaddr() asks whatever resolver there is
        raise socket.herror(1, CANARY)

    listener, port = stalled_connect()
    unsent = {
        "refused": lambda: socket.create_connection(("127.0.0.1", free_port())),
        "bare": bare,
        "stalled": lambda: socket.create_connection(("127.0.0.1", port), 0.1),
        "no name": lambda: socket.create_connection((f"{CANARY}.invalid", 80)),
        "no address": no_address,
        "asyncio": lambda: asyncio.open_connection("127.0.0.1", free_port()),
        "several": lambda: asyncio.open_connection("localhost", free_port()),
        "unix": lambda: asyncio.open_unix_connection(f"/{CANARY}/{CANARY}"),
    }
    for what, action in unsent.items():
        said = failure(PACK, lines, action)
        assert (what, said.code, said.outcome) == (what, "DEPENDENCY_UNAVAILABLE", "not_applied")
    listener.close()
    for ends, code in (("stall", "UPSTREAM_TIMEOUT"), ("reset", "CONNECTION_LOST")):
        with serving(Upstream(ends=ends)) as upstream:
            said = failure(PACK, lines, lambda: receive(upstream))
        assert (said.code, said.outcome) == (code, "unknown")

    def broken_pipe() -> None:
        near, far = socket.socketpair()
        far.close()
        with near:
            near.send(CANARY.encode())

    said = failure(PACK, lines, broken_pipe)
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def test_tls(lines: Lines, tmp_path: Path) -> None:
    """A handshake that fails sent nothing; a connection with TLS that fails later may have sent all."""

    async def streams(port: int, context: ssl.SSLContext) -> None:
        await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=CANARY)

    with serving(Upstream(response(200), tls=tls())) as upstream:
        said = failure(PACK, lines, lambda: streams(upstream.port, trust(True)))
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: streams(upstream.port, trust(False)))
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        said = failure(PACK, lines, lambda: receive(upstream, raw=True))
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
    with serving(Upstream(tls=tls())) as upstream:
        said = failure(PACK, lines, lambda: receive(upstream, raw=True))
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")

    listener = socket.create_server(("127.0.0.1", 0))

    def garble() -> None:
        connection = tls().wrap_socket(listener.accept()[0], server_side=True)
        connection.recv(100)
        os.write(connection.fileno(), CANARY.encode() * 10)  # past the TLS layer
        connection.close()

    server = threading.Thread(target=garble)
    server.start()
    port = listener.getsockname()[1]
    said = failure(PACK, lines, lambda: receive(Upstream(port=port, tls=tls())))
    server.join()
    listener.close()
    assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "unknown", False)
    (tmp_path / "key").write_text(CANARY)
    said = failure(PACK, lines, lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(tmp_path / "key"))
    assert (said.code, said.outcome) == ("TLS_FAILED", "unknown")


def test_timeouts(lines: Lines) -> None:
    """A wait that ended in vain says nothing of what was waited for."""

    def future() -> None:
        concurrent.futures.Future[None]().result(0.01)

    for action in (lambda: asyncio.wait_for(asyncio.sleep(5), 0.01), future):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_TIMEOUT", "unknown", False)
        assert "service" not in said.message


def test_programs(lines: Lines, tmp_path: Path) -> None:
    """A program that is not there was not started; of one that failed nobody knows what it did."""
    (tmp_path / CANARY).write_text(CANARY)
    absent: list[Callable[[], Any]] = [
        lambda: subprocess.run([f"no-{CANARY}"]),
        lambda: subprocess.run([tmp_path / CANARY]),
        lambda: asyncio.create_subprocess_exec(f"no-{CANARY}"),
    ]
    for action in absent:
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome) == ("FEATURE_UNAVAILABLE", "not_applied")
    said = failure(PACK, lines, lambda: subprocess.run(["sh", "-c", "exit 3", CANARY], check=True))
    assert (said.code, said.outcome) == ("COMMAND_FAILED", "unknown")
    assert said.message == "A program that this tool runs failed (exit status 3)."
    said = failure(PACK, lines, lambda: subprocess.run(["sleep", "5"], timeout=0.05))
    assert (said.code, said.outcome, said.retryable) == ("COMMAND_TIMEOUT", "unknown", False)


def test_workers(lines: Lines) -> None:
    """A worker that ended too early failed; what it did nobody knows."""

    def no_thread() -> None:
        with concurrent.futures.ThreadPoolExecutor(1, initializer=exec, initargs=("raise ValueError",)) as pool:
            pool.submit(print).result()

    def no_process() -> None:
        spawn = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pool.submit(os._exit, 1).result()

    for action in (no_thread, no_process):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome, said.retryable) == ("COMMAND_FAILED", "unknown", False)


def test_reading(lines: Lines) -> None:
    """What cannot be read is said without a word of it, and without saying who wrote it."""

    async def stream(data: bytes, until: bytes | None) -> None:
        reader = asyncio.StreamReader(limit=4)
        reader.feed_data(data)
        if until is None:
            reader.feed_eof()
        await (reader.readexactly(99) if until is None else reader.readuntil(until))

    client: dict[str, Any] = {"__name__": "http.client", "json": json}  # a client's own code reads an answer
    exec("def read(data): return json.loads(data)\ndef decoded(data): return data.decode()", client)
    said = failure(PACK, lines, lambda: client["read"](CANARY))
    assert (said.code, said.message) == (
        "UPSTREAM_INVALID_RESPONSE",
        "Something that this tool had to read is not valid JSON.",
    )
    said = failure(PACK, lines, lambda: client["decoded"](CANARY.encode() + b"\xff"))
    assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")
    # In the tool's own code it may be an argument that is read.
    assert failure(PACK, lines, lambda: json.loads(CANARY)).code == "INTERNAL_ERROR"
    assert failure(PACK, lines, lambda: (CANARY.encode() + b"\xff").decode()).code == "INTERNAL_ERROR"
    said = failure(PACK, lines, lambda: stream(CANARY.encode(), b"\n"))
    assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")
    said = failure(PACK, lines, lambda: stream(CANARY.encode(), None))
    assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")


def test_wrong_address(lines: Lines) -> None:
    """A port that is no number is the tool's own mistake."""
    said = failure(PACK, lines, lambda: http.client.HTTPConnection(f"host:{CANARY}"))
    assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")


def test_missing_module(lines: Lines) -> None:
    """The name of a module that is not installed helps whoever reads the message."""
    said = failure(PACK, lines, lambda: __import__("no_such_module"))
    assert (said.code, said.outcome) == ("FEATURE_UNAVAILABLE", "not_applied")
    assert said.message == "This server lacks the Python module no_such_module, which the tool needs."


def test_every_class() -> None:
    """Every row names a class that exists; two of them on Python 3.10 only."""
    older = {"asyncio.exceptions.TimeoutError", "concurrent.futures._base.TimeoutError"}
    assert missing(PACK) == (older if sys.version_info >= (3, 11) else set())
