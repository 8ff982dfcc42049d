"""What every HTTP client's pack has to say of each phase of a request and of each status: one table for all."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Awaitable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iserror import Failure
from iserror.errors.pack import Pack
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure
from tests.packs.upstream import Upstream, free_port, response, serving, stalled_connect

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
LOOP = response(302, "location: /again\r\nconnection: close\r\n")


class Phases:
    """The tests of one client's phases; a subclass says how it posts."""

    pack: Pack
    body = CANARY.encode()

    def post(
        self, url: str, *, connect: float = 5, read: float = 5, proxy: str | None = None, verify: bool = True
    ) -> Awaitable[None] | None:
        """Post `body`, follow redirects, three at most, and repeat nothing; raise for a status."""
        raise NotImplementedError

    def said(self, lines: Lines, url: str, *, effect: str = "write", **settings: Any) -> Failure:
        return failure(self.pack, lines, lambda: self.post(url, **settings), effect=effect)

    def test_not_connected(self, lines: Lines) -> None:
        """Refused, no such name, a connect timeout, also of the TLS handshake: no server got a request."""
        listener, port = stalled_connect()
        refused = self.said(lines, f"http://127.0.0.1:{free_port()}/{CANARY}")
        unknown = self.said(lines, f"http://{CANARY}.invalid/")
        stalled = self.said(lines, f"http://127.0.0.1:{port}/{CANARY}", connect=0.1)
        listener.close()
        with serving(Upstream(ends="stall", reads=False)) as upstream:
            handshake = self.said(lines, upstream.url.replace("http:", "https:"), connect=0.1)
        for said in (refused, unknown, stalled, handshake):
            assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)

    def test_no_secure_connection(self, lines: Lines) -> None:
        """A handshake that fails, and a certificate that nobody vouches for, are told from a connection that fails."""
        with serving(Upstream(b"no TLS", reads=False)) as upstream:
            said = self.said(lines, upstream.url.replace("http:", "https:"))
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
        with serving(Upstream(response(200), tls=tls())) as upstream:
            said = self.said(lines, upstream.url)
        assert upstream.requests == []
        assert (said.code, said.outcome, said.retryable) == ("TLS_FAILED", "not_applied", False)
        assert said.advice == "do not repeat it unchanged"

    def test_no_tunnel(self, lines: Lines) -> None:
        """A proxy that opens no tunnel has not passed the request on."""
        with serving(Upstream(response(502))) as proxy:
            said = self.said(lines, f"https://{CANARY}.invalid/", proxy=f"http://127.0.0.1:{proxy.port}")
        assert [request.split()[0] for request in proxy.requests] == [b"CONNECT"]
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)

    @pytest.mark.parametrize(
        ("answer", "ends", "read", "code"),
        [
            (None, "stall", 0.1, "UPSTREAM_TIMEOUT"),
            (HEAD, "stall", 0.1, "UPSTREAM_TIMEOUT"),
            (None, "close", 5, "CONNECTION_LOST"),
            (None, "reset", 5, "CONNECTION_LOST"),
            (HEAD, "close", 5, "CONNECTION_LOST"),
            (HEAD, "reset", 5, "CONNECTION_LOST"),
        ],
    )
    @pytest.mark.parametrize("secure", [False, True])
    def test_no_answer(
        self, lines: Lines, answer: bytes | None, ends: str, read: float, code: str, secure: bool
    ) -> None:
        """Where the server received the request and no whole answer came, what it did is unknown; no repeat is safe."""
        with serving(Upstream(answer, ends, tls=tls() if secure else None)) as upstream:
            said = self.said(lines, upstream.url, read=read, verify=False)
        assert len(upstream.requests) == 1
        assert upstream.requests[0].endswith(self.body)
        assert (said.code, said.outcome, said.retryable) == (code, "unknown", False)

    @pytest.mark.parametrize(
        ("answer", "codes"),
        [
            # Some clients tell an answer that is no HTTP from none, or a loop from another answer that is no use.
            (b"no HTTP at all\r\n\r\n", {"CONNECTION_LOST", "UPSTREAM_INVALID_RESPONSE"}),
            (LOOP, {"UPSTREAM_ERROR", "UPSTREAM_INVALID_RESPONSE"}),
        ],
    )
    def test_no_good_answer(self, lines: Lines, answer: bytes, codes: set[str]) -> None:
        """Where an answer came that is none, what the server did is unknown."""
        with serving(Upstream(answer)) as upstream:
            said = self.said(lines, upstream.url)
        assert upstream.requests[0].endswith(self.body)
        assert said.code in codes
        assert (said.outcome, said.retryable) == ("unknown", False)

    def redirected(self, lines: Lines, status: int) -> Failure:
        """What is said where the request was answered with a redirect to a port that nobody listens on."""
        location = f"location: http://127.0.0.1:{free_port()}/{CANARY}\r\nconnection: close\r\n"
        with serving(Upstream(response(status, location))) as upstream:
            said = self.said(lines, upstream.url)
        assert upstream.requests[0].endswith(self.body)
        return said

    @pytest.mark.parametrize("status", [302, 303])
    def test_after_a_redirect(self, lines: Lines, status: int) -> None:
        """What was answered with a redirect may be done, whatever becomes of the next request."""
        said = self.redirected(lines, status)
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "unknown", False)

    def test_the_request_is_wrong(self, lines: Lines) -> None:
        """What cannot be sent is the tool's own mistake."""
        said = self.said(lines, f"gopher://{CANARY}/")
        assert (said.code, said.outcome, said.retryable) == ("REQUEST_INVALID", "not_applied", False)


class Decoding(Phases):
    """And of a client that decodes what it reads, and sends a body on to another place: urllib does neither."""

    def test_sent_on(self, lines: Lines) -> None:
        """What was answered with 307 is not done."""
        said = self.redirected(lines, 307)
        assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)

    def test_wrong_encoding(self, lines: Lines) -> None:
        """An answer that cannot be decoded is one that the tool cannot use; what the server did is unknown."""
        with serving(Upstream(response(200, "content-encoding: gzip\r\n"))) as upstream:
            said = self.said(lines, upstream.url)
        assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_INVALID_RESPONSE", "unknown", False)


class Statuses(Phases):
    """And of what it makes of each status."""

    @pytest.mark.parametrize(
        ("status", "headers", "code", "retryable", "wait"),
        [
            (400, "", "UPSTREAM_REJECTED", False, None),
            (401, "", "UPSTREAM_UNAUTHENTICATED", False, None),
            (403, "", "UPSTREAM_PERMISSION_DENIED", False, None),
            (403, "x-ratelimit-remaining: 5\r\nx-ratelimit-reset: 9\r\n", "UPSTREAM_PERMISSION_DENIED", False, None),
            (403, "X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 9\r\n", "UPSTREAM_RATE_LIMITED", True, 9),
            (404, "", "UPSTREAM_NOT_FOUND", False, None),
            (405, "", "UPSTREAM_UNIMPLEMENTED", False, None),
            (409, "", "UPSTREAM_CONFLICT", False, None),
            (412, "", "UPSTREAM_PRECONDITION_FAILED", False, None),
            (422, "", "UPSTREAM_REJECTED", False, None),
            (429, "Retry-After: 7\r\n", "UPSTREAM_RATE_LIMITED", True, 7),
            (429, "retry-after-ms: 250\r\n", "UPSTREAM_RATE_LIMITED", True, 0.25),
            (429, "", "UPSTREAM_RATE_LIMITED", True, None),
            (500, "", "UPSTREAM_ERROR", False, None),
            (503, "retry-after: 7\r\n", "UPSTREAM_UNAVAILABLE", False, None),
            (504, "", "UPSTREAM_TIMEOUT", False, None),
        ],
    )
    def test_statuses(
        self, lines: Lines, status: int, headers: str, code: str, retryable: bool, wait: float | None
    ) -> None:
        """A status means what RFC 9110 says; the wait is the server's own; what it does after 5xx nobody knows."""
        with serving(Upstream(response(status, headers))) as upstream:
            said = self.said(lines, upstream.url)
        assert upstream.requests[0].endswith(self.body)
        assert (said.code, said.retryable, said.retry_after) == (code, retryable, wait)
        assert said.outcome == ("unknown" if status >= 500 else "not_applied")
        assert (str(status) in said.message) == (code in ("UPSTREAM_REJECTED", "UPSTREAM_ERROR"))

    def test_a_status_after_a_redirect(self, lines: Lines) -> None:
        """A page that is not there says nothing of the request that led to it."""
        with serving(Upstream(response(404))) as page:
            location = f"location: {page.url}\r\nconnection: close\r\n"
            with serving(Upstream(response(303, location))) as upstream:
                said = self.said(lines, upstream.url)
        assert [request.split()[0] for request in page.requests] == [b"GET"]
        assert (said.code, said.outcome) == ("UPSTREAM_NOT_FOUND", "unknown")

    def test_reading_is_repeated(self, lines: Lines) -> None:
        """A tool that only reads may be called again after an answer that never came, when a date says so."""
        date = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=2), usegmt=True)
        with serving(Upstream(response(503, f"retry-after: {date}\r\n"))) as upstream:
            said = self.said(lines, upstream.url, effect="read")
        assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_UNAVAILABLE", "not_applied", True)
        assert said.retry_after is not None
        assert 110 <= said.retry_after <= 120


@cache
def tls() -> ssl.SSLContext:
    """A server's side of TLS with a certificate that nobody vouches for."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, CANARY)])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "server.pem"
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(private + certificate.public_bytes(pem))
        context.load_cert_chain(file)
    return context


@cache
def trust(verify: bool) -> ssl.SSLContext:
    """A client's side of TLS that trusts nobody, or everybody; one for all, since they are slow to make."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def missing(pack: Pack) -> set[str]:
    """The rows of a pack that name no exception class of the library as it is installed."""
    from importlib import import_module

    def there(name: str) -> bool:
        module, _, qualname = name.rpartition(".")
        found = getattr(import_module(module), qualname, None)
        return isinstance(found, type) and f"{found.__module__}.{found.__qualname__}" == name

    return {name for name in pack.rows if not there(name)}
