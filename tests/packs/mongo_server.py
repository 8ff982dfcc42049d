"""A loopback server that speaks the wire protocol of MongoDB, and answers a command as the test says."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import bson

from tests.packs.loopback import listening

HELLO = {
    "ok": 1,
    "ismaster": True,
    "isWritablePrimary": True,
    "helloOk": True,
    "minWireVersion": 0,
    "maxWireVersion": 25,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
}
_OP_QUERY = 2004


@dataclass
class Mongo:
    """What it answers, and what it received.

    Args:
        answer: The document that answers every command but the handshake; `close`, or `stall`.
        hello: What the handshake is answered with.
    """

    answer: dict[str, Any] | str
    hello: dict[str, Any] = field(default_factory=lambda: HELLO)
    commands: list[str] = field(default_factory=list)
    port: int = 0


@contextmanager
def mongo(answer: dict[str, Any] | str) -> Iterator[Mongo]:
    """Run one until the block ends."""
    server = Mongo(answer)

    def one(connection: socket.socket, over: threading.Event) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(head := stream.read(16)) == 16:
                length, request, _, kind = struct.unpack("<iiii", head)
                body = stream.read(length - 16)
                # Flags, a name, skip and number; or flags and the kind of the first section: then the command.
                start = body.index(b"\0", 4) + 9 if kind == _OP_QUERY else 5
                size = int.from_bytes(body[start : start + 4], "little")
                name = next(iter(bson.decode(body[start : start + size])))
                answer: Any = server.hello
                if name.lower() not in ("hello", "ismaster", "endsessions"):
                    server.commands.append(name)
                    answer = server.answer
                if answer == "close":
                    return
                if answer == "stall":
                    over.wait(20)
                    return
                encoded = bson.encode(answer)
                if kind == _OP_QUERY:
                    reply, op = struct.pack("<iqii", 8, 0, 0, 1) + encoded, 1
                else:
                    # A flag that says that a checksum follows, which pymongo does not read.
                    flags = 1 if answer == {"garbled": True} else 0
                    reply, op = struct.pack("<iB", flags, 0) + encoded, kind
                connection.sendall(struct.pack("<iiii", len(reply) + 16, 1, request, op) + reply)

    with listening(one) as server.port:
        yield server
