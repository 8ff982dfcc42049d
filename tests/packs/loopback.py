"""A loopback port, each of whose connections is served in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def listening(one: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """Run `one` for each connection until the block ends, when the event is set; gives the port."""
    over = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection, over), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            over.set()
