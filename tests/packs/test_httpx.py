"""httpx and httpx2 fail at each phase of a request and with each status, and their packs say what that means."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.http_client import HEAD, Decoding, Statuses, missing, trust
from tests.packs.upstream import Upstream, response, serving


class Async(Decoding, Statuses):
    library: ModuleType

    async def post(  # type: ignore[override]
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> None:
        options: Any = {
            "trust_env": False,
            "timeout": self.library.Timeout(5, connect=connect, read=read),
            "proxy": proxy,
            "verify": trust(verify),
        }
        async with self.library.AsyncClient(follow_redirects=True, max_redirects=3, **options) as client:
            (await client.post(url, content=self.body)).raise_for_status()

    def test_full_pool(self, lines: Lines) -> None:
        """A request that waited for a connection in vain was not sent."""
        timeout, limits = self.library.Timeout(5, pool=0.05), self.library.Limits(max_connections=1)

        async def full_pool(url: str) -> None:
            async with self.library.AsyncClient(
                trust_env=False, verify=trust(True), timeout=timeout, limits=limits
            ) as client:
                async with client.stream("GET", url):
                    await client.post(url, content=CANARY)

        with serving(Upstream(HEAD, "stall")) as upstream:
            said = failure(self.pack, lines, lambda: full_pool(upstream.url))
        assert [request[:3] for request in upstream.requests] == [b"GET"]
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_BUSY", "not_applied", True)

    @pytest.mark.parametrize("status", [301, 304])
    def test_no_error(self, lines: Lines, status: int) -> None:
        """A status that is no error, and for which the client raises, is an answer that the tool cannot use."""
        with serving(Upstream(response(status, body=""))) as upstream:
            said = self.said(lines, upstream.url)
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    def test_a_wrong_header(self, lines: Lines) -> None:
        """What the protocol does not allow is the tool's own mistake, and is not sent."""

        async def wrong(url: str) -> None:
            async with self.library.AsyncClient(trust_env=False, verify=trust(True)) as client:
                await client.post(url, content=CANARY, headers={f"{CANARY} {CANARY}": CANARY})

        with serving(Upstream()) as upstream:
            said = failure(self.pack, lines, lambda: wrong(upstream.url))
        assert upstream.requests == []
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")

    def test_every_class(self) -> None:
        """Every row names a class of the library, and every class of a failed request has a row of its own."""
        assert missing(self.pack) == set()
        named = {name.rpartition(".")[2] for name in self.pack.rows}
        request = {name for name, value in vars(self.library).items() if _is(value, self.library.HTTPError)}
        assert request - named == {"HTTPError", "RequestError", "ProtocolError"}


class Sync(Decoding):
    library: ModuleType

    def post(
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> None:
        options: Any = {
            "trust_env": False,
            "timeout": self.library.Timeout(5, connect=connect, read=read),
            "proxy": proxy,
            "verify": trust(verify),
        }
        with self.library.Client(follow_redirects=True, max_redirects=3, **options) as client:
            client.post(url, content=self.body).raise_for_status()


class TestHttpx(Async):
    pack, library = iserror.packs.httpx, httpx


class TestHttpxSync(Sync):
    pack, library = iserror.packs.httpx, httpx


class TestHttpx2(Async):
    pack, library = iserror.packs.httpx2, httpx2

    def test_no_events(self, lines: Lines) -> None:
        """An answer that is no stream of events is one that the tool cannot use."""

        async def events(url: str) -> None:
            async with (
                httpx2.AsyncClient(trust_env=False, verify=trust(True)) as client,
                client.stream("GET", url) as answer,
            ):
                async for _ in httpx2.EventSource(answer):
                    pass

        with serving(Upstream(response(200))) as upstream:
            said = failure(self.pack, lines, lambda: events(upstream.url))
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


class TestHttpx2Sync(Sync):
    pack, library = iserror.packs.httpx2, httpx2


def _is(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)
