"""What a server has received is never said not to have been sent, whatever a client did before its last attempt.

Every library talks to a loopback server that counts what it received. Outcome and words are compared with that count.
"""

from __future__ import annotations

import gc
import inspect
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import aiohttp
import anthropic
import anyio
import botocore.session
import githubkit
import httpx
import httpx2
import openai
import pytest
import redis
import requests
import slack_sdk
import stripe
import tenacity
import urllib3
import valkey
from azure.core import PipelineClient
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import RetryPolicy
from azure.core.rest import HttpRequest
from botocore.config import Config
from elastic_transport import NodeConfig, Transport
from elasticsearch import Elasticsearch
from google.api_core.exceptions import ServiceUnavailable
from google.api_core.retry import Retry as GoogleRetry
from opensearchpy import OpenSearch
from redis.backoff import NoBackoff
from redis.retry import Retry as RedisRetry
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

import iserror
from iserror import ErrorMap, Failure, ToolErrors, ToolFailure
from iserror.errors.attempts import MAX_FRAMES, _wrapped, earlier
from iserror.errors.records import MAX_LINKS, links_of
from tests.packs.failing import CANARY
from tests.packs.upstream import free_port

# A client that fails leaves its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

Script = Callable[["Server", socket.socket], None]
Act = Callable[[], Any]

CLAIMS = re.compile(r"nothing was|was not sent|rolled back|not made|Try again|Wait before|Ask for less|Change the call")
"""Words that only fit a request that was the only one."""


class Server:
    """Each script treats one connection. After the last one the port refuses connections."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = scripts
        self.received: list[bytes] = []
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        if scripts:
            threading.Thread(target=self.serve, daemon=True).start()
        else:
            self.listener.close()

    def serve(self) -> None:
        for left, script in zip(range(len(self.scripts) - 1, -1, -1), self.scripts, strict=True):
            with suppress(OSError):
                connection, _ = self.listener.accept()
                if not left:
                    self.listener.close()
                with connection, suppress(OSError):
                    script(self, connection)
        self.listener.close()

    def request(self, connection: socket.socket) -> None:
        """Read one request of HTTP, as a whole."""
        connection.settimeout(10)
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65_536)):
                raise ConnectionError
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        sizes = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        while len(body) < int(sizes[1] if sizes else 0):
            body += connection.recv(65_536)
        if not head.startswith((b"GET", b"HEAD")):
            self.received.append(head.split(b"\r\n")[0])


def drops(server: Server, connection: socket.socket) -> None:
    """Receive a request, and break the connection."""
    server.request(connection)


def says(status: int, headers: str = "", body: str = "{}", *, keeps: bool = False) -> Script:
    def script(server: Server, connection: socket.socket) -> None:
        server.request(connection)
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}"
        head += "\r\n" if keeps else "connection: close\r\n\r\n"
        connection.sendall((head + body).encode())
        if keeps:
            server.request(connection)

    return script


def resp(*answers: bytes | None) -> Script:
    """Answer what a client of redis says at the beginning, then the commands; None breaks the connection."""

    def script(server: Server, connection: socket.socket) -> None:
        left = iter(answers)
        connection.settimeout(10)
        while data := connection.recv(65_536):
            if b"INCR" not in data.upper():
                connection.sendall(b"+OK\r\n" * max(1, data.count(b"*")))
                continue
            server.received.append(b"INCR")
            said = next(left)
            if said is None:
                return
            connection.sendall(said)

    return script


CASES: dict[str, tuple[tuple[Script, ...], Callable[[Server], Act], str]] = {}


def case(*scripts: Script, outcome: str = "unknown") -> Callable[[Callable[[Server], Any]], Callable[[Server], Any]]:
    """Add a case: what its server does, and what has to be said. The function acts, or is the coroutine that does."""

    def add(act: Callable[[Server], Any]) -> Callable[[Server], Any]:
        name = act.__name__
        while name in CASES:
            name += "_"
        CASES[name] = scripts, act, outcome
        return act

    return add


# --- urllib3 and requests ------------------------------------------------------------------------------------


def mounted(retry: Any) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session


ANY = Retry(2, allowed_methods=None, backoff_factor=0)


@case(drops)
def urllib3_repeats_delete(server: Server) -> None:
    urllib3.PoolManager().request("DELETE", server.url, timeout=5)


@case(says(503, "retry-after: 0\r\n"))
def urllib3_repeats_after_a_status(server: Server) -> None:
    retry = Retry(2, allowed_methods=None, status_forcelist=[503])
    urllib3.PoolManager().request("POST", server.url, timeout=5, retries=retry)


@case(says(303, "location: /next\r\n"))
def urllib3_is_redirected(server: Server) -> None:
    urllib3.PoolManager().request("POST", server.url, timeout=5)


@case(outcome="not_applied")
def urllib3_is_refused_each_time(server: Server) -> None:
    urllib3.PoolManager().request("DELETE", server.url, timeout=5)


@case(says(429, "retry-after: 0\r\n"), outcome="not_applied")
def urllib3_was_limited_before(server: Server) -> None:
    retry = Retry(2, allowed_methods=None, status_forcelist=[429])
    urllib3.PoolManager().request("POST", server.url, timeout=5, retries=retry)


@case(drops)
def requests_through_a_forwarding_proxy(server: Server) -> None:
    session = mounted(0)
    session.post("http://payments.invalid/", data=CANARY, proxies={"http": server.url}, timeout=5)


@case(drops)
@case(drops, says(404))
@case(drops, says(409))
@case(drops, says(403))
@case(drops, drops)
def requests_repeats_any_method(server: Server) -> None:
    mounted(ANY).post(server.url, data=CANARY, timeout=5).raise_for_status()


@case(says(404), outcome="not_applied")
@case(says(409), outcome="not_applied")
@case(outcome="not_applied")
def requests_once(server: Server) -> None:
    mounted(ANY).post(server.url, data=CANARY, timeout=5).raise_for_status()


@case(says(200))
def requests_calls_a_hook(server: Server) -> None:
    def hook(answer: Any, **kwargs: Any) -> None:
        requests.get(f"http://127.0.0.1:{free_port()}/", timeout=5)

    mounted(0).post(server.url, data=CANARY, timeout=5, hooks={"response": [hook]})


@case(says(302, "location: /again\r\n"))
@case(says(302, "location: /again\r\n"), says(404))
def requests_is_redirected(server: Server) -> None:
    mounted(0).post(server.url, data=CANARY, timeout=5).raise_for_status()


@case(says(307, "location: /again\r\n"), outcome="not_applied")
def requests_is_sent_on(server: Server) -> None:
    mounted(0).post(server.url, data=CANARY, timeout=5)


@case(says(404))
def requests_without_a_record(server: Server) -> None:
    answer = mounted(0).post(server.url, data=CANARY, timeout=5)
    answer.raw = None
    answer.raise_for_status()


# --- httpx ---------------------------------------------------------------------------------------------------


def asks_another(answer: Any) -> None:
    httpx.get(f"http://127.0.0.1:{free_port()}/", timeout=5, trust_env=False)


@case(says(200))
@case(says(500))
def httpx_calls_a_hook(server: Server) -> None:
    with httpx.Client(timeout=5, event_hooks={"response": [asks_another]}, trust_env=False) as client:
        client.post(server.url, content=CANARY)


@case(says(200))
async def httpx_calls_a_hook_async(server: Server) -> None:
    async def hook(answer: Any) -> None:
        async with httpx2.AsyncClient(trust_env=False) as other:
            await other.get(f"http://127.0.0.1:{free_port()}/")

    async with httpx2.AsyncClient(timeout=5, event_hooks={"response": [hook]}, trust_env=False) as client:
        await client.post(server.url, content=CANARY)


@case(says(404), outcome="not_applied")
def httpx_raises_in_a_hook(server: Server) -> None:
    hooks = {"response": [lambda answer: answer.raise_for_status()]}
    with httpx.Client(timeout=5, event_hooks=hooks, trust_env=False) as client:
        client.post(server.url, content=CANARY)


@case(says(303, "location: /next\r\n"))
@case(says(303, "location: /next\r\n"), says(404))
def httpx_is_redirected(server: Server) -> None:
    httpx.post(server.url, content=CANARY, follow_redirects=True, trust_env=False).raise_for_status()


@case(drops)
def httpx_repeats_by_its_auth(server: Server) -> None:
    class Again(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
            yield request

    httpx.post(server.url, content=CANARY, auth=Again(), trust_env=False)


@case(says(502))
def httpx_repeats_after_a_status(server: Server) -> None:
    class Again(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
            yield request
            yield request

    httpx.post(server.url, content=CANARY, auth=Again(), trust_env=False)


# --- retry libraries -----------------------------------------------------------------------------------------


def post(server: Server) -> None:
    httpx.post(server.url, content=CANARY, timeout=5, trust_env=False).raise_for_status()


TWICE: dict[str, Any] = {"stop": tenacity.stop_after_attempt(2)}


@case(drops)
@case(drops, says(404))
def tenacity_raises_again(server: Server) -> None:
    tenacity.retry(**TWICE, reraise=True)(post)(server)


@case(drops)
def tenacity_raises_its_own(server: Server) -> None:
    tenacity.retry(**TWICE)(post)(server)


@case(drops)
def tenacity_iterates(server: Server) -> None:
    for attempt in tenacity.Retrying(**TWICE):
        with attempt:
            post(server)


@case(drops)
async def tenacity_iterates_async(server: Server) -> None:
    async for attempt in tenacity.AsyncRetrying(**TWICE, reraise=True):
        with attempt:
            post(server)


@case(outcome="not_applied")
@case(says(404), outcome="not_applied")
def tenacity_once(server: Server) -> None:
    tenacity.retry(stop=tenacity.stop_after_attempt(1), reraise=True)(post)(server)


@case(drops)
def by_hand_in_a_handler(server: Server) -> None:
    try:
        post(server)
    except httpx.HTTPError:
        post(server)


@case(drops)
def by_hand_from_the_first(server: Server) -> None:
    first: Any = None
    try:
        post(server)
    except httpx.HTTPError as exc:
        first = exc
    try:
        post(server)
    except httpx.HTTPError as exc:
        raise exc from first


@case(drops)
def by_hand_and_hidden(server: Server) -> None:
    try:
        post(server)
    except httpx.HTTPError:
        try:
            post(server)
        except httpx.HTTPError as exc:
            raise exc from None


@case(outcome="not_applied")
def wrapped_by_the_author(server: Server) -> None:
    try:
        post(server)
    except httpx.HTTPError as exc:
        raise LookupError(CANARY) from exc


# --- aiohttp, redis ------------------------------------------------------------------------------------------


@case(says(200, keeps=True))
async def aiohttp_repeats_on_a_kept_connection(server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(server.url) as answer:
            await answer.read()
        await session.put(server.url, data=CANARY)


@case(says(200, keeps=True), says(404))
async def aiohttp_is_answered_the_second_time(server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(server.url) as answer:
            await answer.read()
        async with session.delete(server.url) as answer:
            answer.raise_for_status()


@case(says(404), outcome="not_applied")
@case(outcome="not_applied")
async def aiohttp_once(server: Server) -> None:
    async with aiohttp.ClientSession() as session, session.post(server.url, data=CANARY) as answer:
        answer.raise_for_status()


@case(says(302, "location: /again\r\n"))
async def aiohttp_is_redirected(server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        await session.post(server.url, data=CANARY)


AGAIN = RedisRetry(NoBackoff(), 1)


@case(resp(None), resp(b"-READONLY You can't write against a read only replica.\r\n"))
@case(resp(None), resp(b"-NOPERM no permissions\r\n"))
@case(resp(None))
def redis_repeats(server: Server) -> None:
    redis.Redis(port=server.port, socket_timeout=5, protocol=2, retry=AGAIN).incr(CANARY)


@case(resp(None), resp(b"-READONLY You can't write against a read only replica.\r\n"))
async def redis_repeats_async(server: Server) -> None:
    async with redis.asyncio.Redis(port=server.port, socket_timeout=5, protocol=2) as client:
        await client.incr(CANARY)


@case(resp(b"-READONLY You can't write against a read only replica.\r\n"), outcome="not_applied")
@case(outcome="not_applied")
def redis_once(server: Server) -> None:
    redis.Redis(port=server.port, socket_timeout=5, protocol=2, retry=AGAIN).incr(CANARY)


@case(resp(b"-NOPERM no permissions\r\n"), outcome="not_applied")
def valkey_once(server: Server) -> None:
    valkey.Valkey(port=server.port, socket_timeout=5, protocol=2).incr(CANARY)


# --- SDKs ----------------------------------------------------------------------------------------------------


@case(drops)
@case(drops, says(404))
def openai_repeats(server: Server) -> None:
    http = openai.DefaultHttpx2Client(trust_env=False)
    client = openai.OpenAI(api_key=CANARY, base_url=server.url, timeout=5, max_retries=1, http_client=http)
    client.fine_tuning.jobs.create(model="m", training_file="f")


@case(says(404), outcome="not_applied")
@case(outcome="not_applied")
def openai_once(server: Server) -> None:
    http = openai.DefaultHttpx2Client(trust_env=False)
    client = openai.OpenAI(api_key=CANARY, base_url=server.url, timeout=5, max_retries=0, http_client=http)
    client.fine_tuning.jobs.create(model="m", training_file="f")


@case(drops)
@case(drops, says(409), says(409))
def anthropic_repeats(server: Server) -> None:
    client = anthropic.Anthropic(api_key=CANARY, base_url=server.url, timeout=5, max_retries=1)
    client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])


def slack(server: Server, **settings: Any) -> None:
    base_url = f"{server.url}/"
    slack_sdk.WebClient(token=CANARY, base_url=base_url, timeout=5, **settings).chat_postMessage(channel="C", text="x")


REFUSED = says(200, body='{"ok": false, "error": "channel_not_found"}')


@case(drops)
@case(drops, REFUSED)
def slack_repeats(server: Server) -> None:
    slack(server)


@case(REFUSED, outcome="not_applied")
@case(outcome="not_applied")
def slack_once(server: Server) -> None:
    slack(server, retry_handlers=[])


@case(drops)
@case(drops, says(404, body='{"error": {"type": "invalid_request_error"}}'))
def stripe_repeats(server: Server) -> None:
    client = stripe.StripeClient(f"sk_test_{CANARY}", base_addresses={"api": server.url}, max_network_retries=1)
    client.v1.customers.create({"name": "x"})


@case(says(404, body='{"error": {"type": "invalid_request_error"}}'), outcome="not_applied")
def stripe_once(server: Server) -> None:
    client = stripe.StripeClient(f"sk_test_{CANARY}", base_addresses={"api": server.url}, max_network_retries=0)
    client.v1.customers.create({"name": "x"})


def dynamodb(server: Server, attempts: int) -> None:
    session = botocore.session.Session()
    session.set_credentials(CANARY, CANARY)
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=5)
    client = session.create_client("dynamodb", "eu-west-1", endpoint_url=server.url, config=config)
    client.delete_item(TableName="t", Key={"id": {"S": "x"}})


NO_TABLE = says(400, body='{"__type": "x#ResourceNotFoundException"}')


@case(drops)
@case(drops, NO_TABLE)
@case(drops, says(400, body='{"__type": "x#ConditionalCheckFailedException"}'))
def botocore_repeats(server: Server) -> None:
    dynamodb(server, 2)


@case(NO_TABLE, outcome="not_applied")
@case(outcome="not_applied")
def botocore_once(server: Server) -> None:
    dynamodb(server, 1)


PRODUCT = "x-elastic-product: Elasticsearch\r\n"


@case(drops)
@case(drops, says(404, PRODUCT))
@case(drops, says(409, PRODUCT))
@case(drops, says(412, PRODUCT))
def elasticsearch_repeats(server: Server) -> None:
    Elasticsearch(server.url, max_retries=1, retry_on_timeout=True).delete(index="i", id="x")


@case(drops)
def elastic_transport_repeats(server: Server) -> None:
    Transport([NodeConfig("http", "127.0.0.1", server.port)], max_retries=1).perform_request("DELETE", "/x")


@case(outcome="not_applied")
def elastic_transport_is_refused_each_time(server: Server) -> None:
    Transport([NodeConfig("http", "127.0.0.1", server.port)], max_retries=1).perform_request("DELETE", "/x")


@case(drops)
@case(drops, says(404))
def opensearch_repeats(server: Server) -> None:
    OpenSearch(server.url, max_retries=1).delete(index="i", id="x")


@case(says(404), outcome="not_applied")
def opensearch_once(server: Server) -> None:
    OpenSearch(server.url, max_retries=1).delete(index="i", id="x")


def azure(server: Server, attempts: int) -> None:
    policies = [RetryPolicy(retry_total=attempts, retry_backoff_factor=0)]
    with PipelineClient(server.url, policies=policies) as client:
        pipeline_response = client._pipeline.run(HttpRequest("DELETE", server.url))
        answer: Any = pipeline_response.http_response
        if answer.status_code >= 400:
            raise HttpResponseError(response=answer)


@case(drops)
@case(drops, says(404))
def azure_repeats(server: Server) -> None:
    azure(server, 1)


@case(says(404), outcome="not_applied")
@case(outcome="not_applied")
def azure_once(server: Server) -> None:
    azure(server, 1)


@case(says(404))
def azure_without_a_record(server: Server) -> None:
    with PipelineClient(server.url, policies=[]) as client:
        raise HttpResponseError(response=client.send_request(HttpRequest("DELETE", server.url)))


@case(drops)
def google_repeats(server: Server) -> None:
    def call() -> None:
        try:
            post(server)
        except httpx.RemoteProtocolError as exc:
            raise ServiceUnavailable(CANARY) from exc

    GoogleRetry(initial=0.01)(call)()


@case(says(502), says(404))
def githubkit_repeats(server: Server) -> None:
    retry: Any = lambda exc, count: githubkit.retry.RetryOption(count < 1, timedelta(milliseconds=1))  # noqa: E731
    with githubkit.GitHub(CANARY, base_url=server.url, auto_retry=retry, http_cache=False, trust_env=False) as client:
        client.request("POST", "/x", json={})


@case(says(404), outcome="not_applied")
def githubkit_once(server: Server) -> None:
    with githubkit.GitHub(CANARY, base_url=server.url, http_cache=False, trust_env=False) as client:
        client.request("POST", "/x", json={})


# --- all of them ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """Collect what this file leaves, so that no other test is blamed for it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@contextmanager
def serving(*scripts: Script) -> Iterator[Server]:
    server = Server(*scripts)
    try:
        yield server
    finally:
        server.listener.close()


def said_of(server: Server, act: Callable[[Server], Any], effect: Any = "write") -> Failure:
    """The failure of a tool with all packs, without a host."""
    errors = ErrorMap()
    errors.include(*iserror.packs.detect())

    @ToolErrors(errors)(effect=effect)
    async def tool() -> None:
        done = act(server)
        if inspect.isawaitable(done):
            await done

    with pytest.raises(ToolFailure) as caught:
        anyio.run(tool)
    assert caught.value.failure is not None
    return caught.value.failure


@pytest.mark.parametrize("name", CASES)
def test_what_was_received(name: str) -> None:
    """What a server has received and not refused is unknown, and no word says otherwise; what is proved, stays."""
    scripts, act, outcome = CASES[name]
    with serving(*scripts) as server:
        said = said_of(server, act)
    assert said.code not in ("INTERNAL_ERROR", "TOOL_ERROR")
    assert (said.outcome, said.retryable) == (outcome, outcome == "not_applied" and said.retryable)
    if outcome == "unknown":
        assert server.received
        assert not CLAIMS.search(said.text), said.text
        assert said.advice != "may be repeated"
    if not server.received and outcome == "not_applied":
        assert "nothing was sent" in said.message


class Hostile:
    """Raises, whatever is read of it."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(CANARY)


def raised(module: str, function: str, exc: BaseException, **variables: Any) -> BaseException:
    """The exception, raised in a function of this name that seems to be a library's."""
    names = {"exc": exc, "__name__": module} | variables
    exec(f"def {function}({', '.join(variables)}):\n    raise exc", names)
    with pytest.raises(type(exc)):
        names[function](**variables)
    return exc


@pytest.mark.parametrize(
    ("module", "function", "variable"),
    [
        ("urllib3.connectionpool", "urlopen", "retries"),
        ("requests.sessions", "send", "r"),
        ("httpx._client", "_send_handling_redirects", "response"),
        ("aiohttp.client", "_request", "resp"),
        ("redis.retry", "call_with_retry", "self"),
        ("tenacity", "__call__", "retry_state"),
        ("botocore.endpoint", "_send_request", "attempts"),
        ("slack_sdk.web.base_client", "_perform_urllib_http_request", "retry_state"),
        ("azure.core.pipeline.policies._retry", "send", "retry_settings"),
        ("openai._base_client", "request", "retries_taken"),
        ("http.client", "getresponse", "self"),
    ],
)
def test_a_record_that_cannot_be_read(module: str, function: str, variable: str) -> None:
    """It proves nothing, and whatever reading it raises stays inside."""
    assert not earlier(raised(module, "other", ConnectionRefusedError()))
    assert earlier(raised(module, function, ConnectionRefusedError(), **{variable: Hostile()}))


@pytest.mark.parametrize("attribute", ["response", "request_info", "history", "errors", "args"])
def test_an_exception_that_cannot_be_read(attribute: str) -> None:
    """Attributes of exceptions may raise anything, too."""

    def raises(exc: object) -> None:
        raise SystemExit(CANARY)

    kind = type("Broken", (ConnectionRefusedError,), {attribute: property(raises), "__module__": "requests.exceptions"})
    assert earlier(kind()) in (True, False)


def test_what_is_looked_at_is_bounded() -> None:
    """A failure with more exceptions or frames than anybody reads proves nothing."""
    last: BaseException = ConnectionRefusedError()
    for _ in range(MAX_LINKS - 1):
        last, last.__context__ = ConnectionRefusedError(), last
    assert not earlier(last)
    last, last.__context__ = ConnectionRefusedError(), last
    assert earlier(last)
    for _ in range(100_000):
        last, last.__context__ = ConnectionRefusedError(), last
    assert len(list(links_of(last))) == MAX_LINKS + 1
    while last.__context__ is not None:  # a chain of that length can't be freed at once
        last = last.__context__

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ConnectionRefusedError

    for depth, doubt in ((MAX_FRAMES - 2, False), (MAX_FRAMES - 1, True)):
        with pytest.raises(ConnectionRefusedError) as caught:
            deep(depth)
        assert earlier(caught.value) is doubt


@pytest.mark.parametrize(
    ("passed", "wrapped"),
    [
        (["iserror.guard", "shop.tools", "httpx._client", "httpcore._sync.http11"], False),
        (["iserror.guard", "shop.tools", "backoff._sync", "shop.tools", "httpx._client"], True),
        (["backoff._sync", "shop.tools", "httpx._client"], True),
        (["shop.tools", "anyio", "asyncio.tasks", "opentelemetry.trace", "httpx._client"], False),
        # Another library between the tool and the client; the server's own package may be installed, too.
        (["shop.tools", "hypothesis.core", "httpx._client"], True),
        (["hypothesis.core", "hypothesis.tools", "httpx._client"], False),
        (["shop.tools", "httpx._client", "hypothesis.transport", "httpx._transports"], True),
        # A double that raises in the client's place.
        (["shop.tools", "httpx._client", "hypothesis.transport"], False),
    ],
)
def test_another_library_in_between(passed: list[str], wrapped: bool) -> None:
    """How often a library calls the client isn't known, unless it is one that passes a call on as it is."""
    assert _wrapped(passed) is wrapped


@pytest.mark.parametrize("name", ["urllib3_repeats_delete", "redis_repeats"])
def test_a_tool_that_reads(name: str) -> None:
    """It may be called again; the words still claim nothing."""
    scripts, act, _ = CASES[name]
    with serving(*scripts) as server:
        said = said_of(server, act, "read")
    assert (said.outcome, said.retryable or said.code == "READ_ONLY") == ("not_applied", True)
    assert "nothing was sent" not in said.text
