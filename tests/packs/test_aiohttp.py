"""aiohttp fails at each phase of a request and with each status, and the pack says what that means."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.http_client import HEAD, Decoding, Statuses, missing, trust
from tests.packs.upstream import Upstream, free_port, response, serving

PACK = iserror.packs.aiohttp


# https://docs.aiohttp.org/en/stable/client_advanced.html#graceful-shutdown: of TLS it closes sockets after its session.
@pytest.mark.filterwarnings("ignore:.*_SelectorTransport.__del__:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
# Before 3.11 asyncio leaves the transport of a TLS connection open that broke.
@pytest.mark.filterwarnings(
    *(["ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"] if sys.version_info < (3, 11) else [])
)
class TestAiohttp(Decoding, Statuses):
    pack = PACK

    async def post(  # type: ignore[override]
        self,
        url: str,
        *,
        connect: float = 5,
        read: float = 5,
        proxy: str | None = None,
        verify: bool = True,
        **settings: Any,
    ) -> None:
        times = settings.pop("times", None) or aiohttp.ClientTimeout(sock_connect=connect, sock_read=read)
        async with aiohttp.ClientSession(timeout=times) as client:
            options: Any = {"ssl": trust(verify), "proxy": proxy, "max_redirects": 3, **settings}
            async with client.post(url, data=self.body, **options) as answer:
                answer.raise_for_status()
                await answer.read()

    def test_whole_time(self, lines: Lines) -> None:
        """The time of the whole request may run out at any phase, and is a plain TimeoutError; others stay alone."""
        times = aiohttp.ClientTimeout(total=0.1)
        with serving(Upstream(ends="stall")) as upstream:
            said = failure(PACK, lines, lambda: self.post(upstream.url, times=times))
        assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")
        said = failure(PACK, lines, lambda: asyncio.wait_for(asyncio.sleep(5), 0.01))
        assert said.code == "INTERNAL_ERROR"

    def test_full_pool(self, lines: Lines) -> None:
        """A request that waited for a connection in vain was not sent; the class is that of a connect timeout."""

        async def full_pool() -> None:
            times, one = aiohttp.ClientTimeout(connect=0.05), aiohttp.TCPConnector(limit=1)
            async with aiohttp.ClientSession(timeout=times, connector=one) as client:
                async with client.get(upstream.url):
                    await client.post(upstream.url, data=CANARY)

        with serving(Upstream(HEAD, "stall")) as upstream:
            said = failure(PACK, lines, full_pool)
        assert [request[:3] for request in upstream.requests] == [b"GET"]
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)

    def test_proxies(self, lines: Lines) -> None:
        """A proxy that asks for credentials wants those of the server; one that is not there is not reached."""
        with serving(Upstream(response(407))) as proxy:
            said = self.said(lines, f"https://{CANARY}.invalid/", proxy=f"http://127.0.0.1:{proxy.port}")
        assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")
        for address in (f"{CANARY}.invalid", f"127.0.0.1:{free_port()}"):
            said = self.said(lines, f"https://{CANARY}.invalid/", proxy=f"http://{address}")
            assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")
        said = self.said(lines, f"https://{CANARY}.invalid/", proxy=f"http://[{CANARY}")
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")

    def test_unix(self, lines: Lines, tmp_path: Path) -> None:
        """A socket that is not there is a service that cannot be reached."""

        async def post() -> None:
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / CANARY))) as client:
                await client.post("http://localhost/", data=CANARY)

        said = failure(PACK, lines, post)
        assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")

    def test_websocket(self, lines: Lines) -> None:
        """A WebSocket that is refused is refused with a status."""

        async def open_websocket() -> None:
            async with aiohttp.ClientSession() as client:
                await client.ws_connect(upstream.url)

        with serving(Upstream(response(401))) as upstream:
            said = failure(PACK, lines, open_websocket)
        assert (said.code, said.outcome) == ("UPSTREAM_UNAUTHENTICATED", "not_applied")

    def test_fingerprint(self, lines: Lines) -> None:
        """A certificate other than the one that was pinned is no secure connection."""
        from tests.packs.http_client import tls

        with serving(Upstream(response(200), tls=tls())) as upstream:
            said = failure(PACK, lines, lambda: self.post(upstream.url, ssl=aiohttp.Fingerprint(b"1" * 32)))
        assert upstream.requests == []
        assert (said.code, said.outcome) == ("TLS_FAILED", "not_applied")

    @pytest.mark.parametrize(("status", "code"), [(200, "UPSTREAM_INVALID_RESPONSE"), (503, "UPSTREAM_UNAVAILABLE")])
    def test_no_json(self, lines: Lines, status: int, code: str) -> None:
        """An answer of another type than JSON means what its status says, if that is one of an error."""

        async def reading() -> None:
            async with aiohttp.ClientSession() as client, client.post(upstream.url, data=CANARY) as answer:
                await answer.json()

        with serving(Upstream(response(status))) as upstream:
            said = failure(PACK, lines, reading)
        assert (said.code, said.outcome) == (code, "unknown")

    @pytest.mark.parametrize("location", [f"gopher://{CANARY}/", f"http://[{CANARY}"])
    def test_redirected_to_nowhere(self, lines: Lines, location: str) -> None:
        """A redirect that cannot be followed is the upstream's mistake, after it had the request."""
        with serving(Upstream(response(302, f"location: {location}\r\n"))) as upstream:
            said = self.said(lines, upstream.url)
        assert len(upstream.requests) == 1
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    def test_body_breaks_off(self, lines: Lines) -> None:
        """A server that goes away in the middle of the body may have acted on what it had."""

        async def body() -> Any:
            for _ in range(400):
                yield CANARY.encode() * 10_000
                await asyncio.sleep(0)

        async def sending() -> None:
            async with aiohttp.ClientSession() as client:
                await client.post(upstream.url, data=body())

        with serving(Upstream(ends="reset")) as upstream:
            said = failure(PACK, lines, sending)
        assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")

    @pytest.mark.parametrize("url", [CANARY, f"http://[{CANARY}", "http://"])
    def test_wrong_in_other_ways(self, lines: Lines, url: str) -> None:
        """What cannot be sent is the tool's own mistake, whatever it is."""
        said = self.said(lines, url)
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")

    def test_every_class(self) -> None:
        """Every row names a class, and every class of the client but the widest has one."""
        assert missing(PACK) == ({"asyncio.exceptions.TimeoutError"} if sys.version_info >= (3, 11) else set())
        errors = aiohttp.client_exceptions
        known = {
            name
            for name, value in vars(errors).items()
            if isinstance(value, type) and issubclass(value, errors.ClientError)
        }
        named = {name.rpartition(".")[2] for name in PACK.rows}
        assert known - named == {"ClientError"}
