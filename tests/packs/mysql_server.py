"""A loopback server that speaks the protocol of MySQL, and answers a statement with the error that it names."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.packs.failing import CANARY
from tests.packs.loopback import listening


def _failed(number: int) -> bytes:
    return b"\xff" + struct.pack("<H", number) + b"#HY000" + CANARY.encode()


_DONE = b"\0\0\0\x02\0\0\0"
_TLS = 0x0800


def _greeting(capabilities: int) -> bytes:
    start = b"\x0a8.4.0\0" + struct.pack("<I", 1) + b"12345678\0"
    return (
        start
        + struct.pack("<HBHHB", capabilities, 45, 2, 0x81FF, 21)
        + bytes(10)
        + b"123456789012\0mysql_native_password\0"
    )


@dataclass
class MySQL:
    """What it does on connections, and what it received.

    Args:
        greets: The number of the error that it greets with; 0 for none.
        tls: Whether it offers TLS, and then speaks none.
        login: What answers the login.
    """

    greets: int = 0
    tls: bool = False
    login: bytes = _DONE
    statements: list[str] = field(default_factory=list)
    """Each statement that was received as a whole."""
    port: int = 0


@contextmanager
def mysql(greets: int = 0, *, tls: bool = False, login: bytes = _DONE) -> Iterator[MySQL]:
    """Run one: `fail 1062` is answered with that error, `close` with the end, `stall` not at all, else with success."""
    server = MySQL(greets, tls, login)

    def send(connection: socket.socket, number: int, payload: bytes) -> None:
        connection.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    def one(connection: socket.socket, over: threading.Event) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            send(connection, 0, _failed(server.greets) if server.greets else _greeting(0xF7DF | _TLS * server.tls))
            if server.tls:
                stream.read(36)
                connection.sendall(b"no TLS at all")
                return
            while len(head := stream.read(4)) == 4:
                payload = stream.read(int.from_bytes(head[:3], "little"))
                said = payload[1:].decode() if payload[:1] == b"\x03" and head[3] == 0 else ""
                if said:
                    server.statements.append(said)
                if said == "close":
                    return
                if said == "stall":
                    over.wait(20)
                failed = re.match(r"fail (\d+)", said)
                done = _DONE if head[3] == 0 else server.login
                send(connection, head[3] + 1, _failed(int(failed[1])) if failed else done)

    with listening(one) as server.port:
        yield server
