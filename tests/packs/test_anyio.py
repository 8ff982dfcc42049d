"""anyio's streams and workers fail, and the pack says what that means."""

from __future__ import annotations

import os

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.upstream import Upstream, free_port, serving

PACK = iserror.packs.anyio


def test_not_connected(lines: Lines) -> None:
    """Of a connection that was not made nothing was sent; the function of old raises an OSError of Python's."""
    said = failure(PACK, lines, lambda: anyio.TCPConnectable("127.0.0.1", free_port()).connect())
    assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
    for host, port in (("127.0.0.1", free_port()), (f"{CANARY}.invalid", 80)):
        said = failure(iserror.packs.stdlib, lines, lambda: anyio.connect_tcp(host, port))
        assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")


@pytest.mark.parametrize(
    ("ends", "how", "code"),
    [
        ("close", "receive", "CONNECTION_LOST"),
        ("reset", "receive", "CONNECTION_LOST"),
        ("close", "exactly", "CONNECTION_LOST"),
        ("stall", "closed", "CONNECTION_LOST"),
        ("stall", "until", "UPSTREAM_INVALID_RESPONSE"),
    ],
)
def test_streams(lines: Lines, ends: str, how: str, code: str) -> None:
    """What a server did with what it received before the stream broke nobody knows."""

    async def action() -> None:
        async with await anyio.connect_tcp("127.0.0.1", upstream.port) as stream:
            await stream.send(b"a / b\r\n\r\n")
            buffered = BufferedByteReceiveStream(stream)
            if how == "closed":
                await stream.aclose()
            if how == "exactly":
                await buffered.receive_exactly(99)
            if how == "until":
                await buffered.receive_until(b"\n", 3)
            while True:
                await stream.receive()

    with serving(Upstream(CANARY.encode(), ends)) as upstream:
        said = failure(PACK, lines, action)
    assert (said.code, said.outcome, said.retryable) == (code, "unknown", False)


def test_worker(lines: Lines) -> None:
    """A worker that ended too early failed; what it did nobody knows."""
    said = failure(PACK, lines, lambda: anyio.to_process.run_sync(os._exit, 1))
    assert (said.code, said.outcome) == ("COMMAND_FAILED", "unknown")


def test_every_class() -> None:
    """Every row names a class of the library, by either of its modules."""
    names = {name.rpartition(".")[2] for name in PACK.rows}
    assert all(issubclass(getattr(anyio, name), Exception) for name in names)
    assert {name.rpartition(".")[0] for name in PACK.rows} == {"anyio", "anyio._core._exceptions"}
