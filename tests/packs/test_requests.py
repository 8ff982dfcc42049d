"""requests and urllib3 fail at each phase of a request and with each status, and their packs say what that means."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.http_client import HEAD, Decoding, Statuses, missing, tls, trust
from tests.packs.upstream import Upstream, free_port, response, serving, stalled_connect

ONCE = Retry(total=None, connect=0, read=0, other=0, redirect=3)


class Trusting(HTTPAdapter):
    def __init__(self, context: ssl.SSLContext, **settings: Any) -> None:
        self.context = context
        super().__init__(**settings)

    def init_poolmanager(self, *args: Any, **settings: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self.context, **settings)


def session(*, verify: bool = True, **settings: Any) -> requests.Session:
    made = requests.Session()
    made.trust_env = False
    made.max_redirects = 3
    made.verify = verify
    made.mount("https://", Trusting(trust(verify), **settings))
    return made


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # what `verify=False` is for
class TestRequests(Decoding, Statuses):
    pack = iserror.packs.requests

    def post(
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> None:
        with session(verify=verify) as client:
            proxies = {"https": proxy} if proxy else None
            client.post(url, data=self.body, timeout=(connect, read), proxies=proxies).raise_for_status()

    @pytest.mark.parametrize(
        ("answer", "ends", "code"),
        [
            (HEAD, "stall", "UPSTREAM_TIMEOUT"),
            (HEAD, "reset", "CONNECTION_LOST"),
            (response(200, "transfer-encoding: chunked\r\n"), "close", "CONNECTION_LOST"),
        ],
    )
    def test_stream(self, lines: Lines, answer: bytes, ends: str, code: str) -> None:
        """The body of an answer may fail long after its head."""

        def reading(url: str) -> None:
            with session() as client:
                for _ in client.post(url, data=CANARY, stream=True, timeout=(5, 0.1)).iter_content(1):
                    pass

        with serving(Upstream(answer, ends)) as upstream:
            said = failure(self.pack, lines, lambda: reading(upstream.url))
        assert (said.code, said.outcome) == (code, "unknown")

    def test_no_json(self, lines: Lines) -> None:
        """An answer that is no JSON is one that the tool cannot use."""
        with serving(Upstream(response(200))) as upstream:
            said = failure(self.pack, lines, lambda: session().post(upstream.url, data=CANARY).json())
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    def test_repeats(self, lines: Lines) -> None:
        """Repeats of the library's own that did not help mean what the last one said."""

        def repeating(url: str, retries: Retry) -> None:
            client = session()
            client.mount("http://", HTTPAdapter(max_retries=retries))
            client.post(url, data=CANARY, timeout=(5, 0.1))

        once = {"total": 1, "allowed_methods": None}
        with serving(Upstream(response(503))) as upstream:
            said = failure(self.pack, lines, lambda: repeating(upstream.url, Retry(status_forcelist=[503], **once)))
        assert len(upstream.requests) == 2
        assert (said.code, said.outcome) == ("UPSTREAM_ERROR", "unknown")
        for ends, code in (("close", "CONNECTION_LOST"), ("stall", "UPSTREAM_TIMEOUT")):
            with serving(Upstream(ends=ends)) as upstream:
                said = failure(self.pack, lines, lambda: repeating(upstream.url, Retry(**once)))
            assert len(upstream.requests) == 2
            assert (said.code, said.outcome) == (code, "unknown")

    def test_redirected_to_nowhere(self, lines: Lines) -> None:
        """A redirect that cannot be followed is the upstream's mistake, after it had the request."""
        with serving(Upstream(response(302, f"location: gopher://{CANARY}/\r\n"))) as upstream:
            said = self.said(lines, upstream.url)
        assert len(upstream.requests) == 1
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    def test_two_lengths(self, lines: Lines) -> None:
        """A header of the answer that is wrong is no mistake of the tool's."""
        with serving(Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n1")) as upstream:
            said = self.said(lines, upstream.url)
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda client: client.post("http://"),
            lambda client: client.post(CANARY),
            lambda client: client.post("http://127.0.0.1/", headers={"a": f"{CANARY}\n"}),
            lambda client: client.post("http://127.0.0.1/", json=float("nan")),
            lambda client: client.get("http://127.0.0.1/", proxies={"http": "http:///"}),
            lambda client: client.send(requests.Request("GET").prepare()),
        ],
        ids=["url", "schema", "header", "json", "proxy", "none"],
    )
    def test_wrong_in_other_ways(self, lines: Lines, wrong: Any) -> None:
        """What cannot be sent is the tool's own mistake, whatever it is."""
        said = failure(self.pack, lines, lambda: wrong(session()))
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")

    def test_every_class(self) -> None:
        """Every row names a class of the library, and every class but the tool's mistakes has one."""
        assert missing(self.pack) == set()
        known = {name for name, value in vars(requests.exceptions).items() if _is(value, requests.RequestException)}
        named = {name.rpartition(".")[2] for name in self.pack.rows}
        assert known - named == {"RequestException", "StreamConsumedError", "UnrewindableBodyError"}


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # what `verify=False` is for
class TestUrllib3(Decoding):
    pack = iserror.packs.urllib3

    def post(
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> None:
        pool: Any = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager(ssl_context=trust(verify))
        with pool:
            pool.request("POST", url, body=self.body, timeout=urllib3.Timeout(connect=connect, read=read), retries=ONCE)

    def test_without_repeats(self, lines: Lines) -> None:
        """What is not wrapped, since nothing was to be repeated, means the same."""

        def once(url: str, connect: float = 5, proxy: str | None = None) -> None:
            pool: Any = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager(ssl_context=trust(True))
            with pool:
                pool.request("POST", url, timeout=urllib3.Timeout(connect=connect, read=0.1), retries=False)

        listener, port = stalled_connect()
        unsent: list[Any] = [
            lambda: once(f"http://127.0.0.1:{free_port()}/{CANARY}"),
            lambda: once(f"http://{CANARY}.invalid/"),
            lambda: once(f"http://127.0.0.1:{port}/", connect=0.1),
            lambda: once(f"https://{CANARY}.invalid/", proxy=f"http://127.0.0.1:{free_port()}"),
        ]
        for action in unsent:
            said = failure(self.pack, lines, action)
            assert (said.code, said.outcome) == ("DEPENDENCY_UNAVAILABLE", "not_applied")
        listener.close()
        with serving(Upstream(tls=tls())) as upstream:
            said = failure(self.pack, lines, lambda: once(upstream.url))
        assert (said.code, said.outcome) == ("TLS_FAILED", "not_applied")
        with serving(Upstream(ends="stall")) as upstream:
            said = failure(self.pack, lines, lambda: once(upstream.url))
        assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")
        with serving(Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n1")) as upstream:
            said = failure(self.pack, lines, lambda: once(upstream.url))
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

    @pytest.mark.parametrize(
        ("answer", "ends", "code"),
        [
            (None, "stall", "UPSTREAM_TIMEOUT"),
            (None, "close", "CONNECTION_LOST"),
            (None, "reset", "CONNECTION_LOST"),
            (b"no HTTP at all\r\n\r\n", "close", "UPSTREAM_INVALID_RESPONSE"),
            (b"HTTP/1.1 200 OK\r\na: " + b"1" * 70_000, "close", "UPSTREAM_INVALID_RESPONSE"),
            (response(503), "close", "UPSTREAM_ERROR"),
        ],
    )
    def test_repeats(self, lines: Lines, answer: bytes | None, ends: str, code: str) -> None:
        """Repeats of the library's own that did not help mean what the last one said."""

        def repeating() -> None:
            with urllib3.PoolManager() as pool:
                times = urllib3.Timeout(connect=5, read=0.1)
                pool.request("PUT", upstream.url, timeout=times, retries=Retry(1, status_forcelist=[503]))

        with serving(Upstream(answer, ends)) as upstream:
            said = failure(self.pack, lines, repeating)
        assert len(upstream.requests) == 2
        assert (said.code, said.outcome) == (code, "unknown")

    def test_full_pool(self, lines: Lines) -> None:
        """A request that waited for a connection in vain was not sent."""

        def full_pool() -> None:
            with urllib3.HTTPConnectionPool("127.0.0.1", upstream.port, maxsize=1, block=True) as pool:
                pool.request("GET", "/", preload_content=False)
                pool.request("POST", "/", body=CANARY, pool_timeout=0.05)

        with serving(Upstream(HEAD, "stall")) as upstream:
            said = failure(self.pack, lines, full_pool)
        assert [request[:3] for request in upstream.requests] == [b"GET"]
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_BUSY", "not_applied", True)

    def test_wrong_chunk(self, lines: Lines) -> None:
        """A chunk of no length is an answer that broke off."""
        head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        with serving(Upstream(f"{head}{CANARY}\r\n".encode())) as upstream:
            said = self.said(lines, upstream.url)
        assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda: urllib3.PoolManager().request("GET", "http://"),
            lambda: urllib3.PoolManager().request("GET", f"http://[{CANARY}/"),
            lambda: urllib3.ProxyManager(f"gopher://{CANARY}"),
        ],
        ids=["none", "url", "proxy"],
    )
    def test_wrong_in_other_ways(self, lines: Lines, wrong: Any) -> None:
        """What cannot be sent is the tool's own mistake, whatever it is."""
        said = failure(self.pack, lines, wrong)
        assert (said.code, said.outcome) == ("REQUEST_INVALID", "not_applied")

    def test_every_class(self) -> None:
        """Every row names a class of the library, and every class but bases and the tool's mistakes has one."""
        assert missing(self.pack) == set()
        known = {name for name, value in vars(urllib3.exceptions).items() if _is(value, urllib3.exceptions.HTTPError)}
        named = {name.rpartition(".")[2] for name in self.pack.rows}
        assert known - named == {
            *("HTTPError", "PoolError", "RequestError", "ConnectionError"),
            *("HostChangedError", "TimeoutStateError", "FullPoolError", "ClosedPoolError"),
            *("ResponseNotChunked", "BodyNotHttplibCompatible", "UnrewindableBodyError"),
            *("IncompleteRead", "InvalidChunkLength", "HeaderParsingError"),
        }


def _is(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base)
