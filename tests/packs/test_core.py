"""Look-ups in packs, with objects that are hostile or were made for something else; each library is the real one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import httpx
import openai
import pytest

import iserror
from iserror import ErrorMap, Failure, ToolErrors, ToolFailure
from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.support.causes import Group
from tests.packs.failing import CANARY
from tests.packs.upstream import Upstream, free_port, response, serving


def failed(action: Any, errors: ErrorMap, local: ErrorMap | None = None) -> Failure:
    """The failure of a tool that writes, without a server."""
    guard = ToolErrors(errors)

    @guard(effect="write", errors=local)
    async def tool() -> None:
        await action()

    with pytest.raises(ToolFailure) as caught:
        anyio.run(tool)
    assert caught.value.failure is not None
    return caught.value.failure


def including(*packs: Pack) -> ErrorMap:
    errors = ErrorMap()
    errors.include(*packs)
    return errors


def status_error(status: object) -> httpx.HTTPStatusError:
    """One whose response is not httpx's."""
    answer: Any = type("Answer", (), {"status_code": status, "headers": {}})()
    return httpx.HTTPStatusError("", request=None, response=answer)  # type: ignore[arg-type]


# --- was it sent? --------------------------------------------------------------------------------------------


async def get(url: str, timeout: float = 5) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=timeout) as client:
        (await client.post(url)).raise_for_status()


def test_another_server_in_between() -> None:
    """What failed before, while something else was being handled, says nothing of the outcome of what fails now."""
    http = including(iserror.packs.httpx)
    refused = f"http://127.0.0.1:{free_port()}/"

    async def fails_over(url: str, timeout: float) -> None:
        try:
            await get(refused)
        except httpx.ConnectError:
            http_client = openai.DefaultAsyncHttpx2Client(trust_env=False)
            async with openai.AsyncOpenAI(
                api_key=CANARY, base_url=url, timeout=timeout, max_retries=0, http_client=http_client
            ) as sdk:
                await sdk.models.list()

    with serving(Upstream(ends="stall")) as upstream:
        said = failed(lambda: fails_over(upstream.url, 0.2), including(iserror.packs.openai, iserror.packs.httpx))
    assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")

    async def no_tls_then_refused() -> None:
        with serving(Upstream(b"no TLS", reads=False)) as upstream:
            try:
                httpx.post(upstream.url.replace("http:", "https:"), trust_env=False)
            except httpx.ConnectError:
                httpx.post(refused, trust_env=False)

    assert failed(no_tls_then_refused, http).code == "DEPENDENCY_UNAVAILABLE"

    async def implicit() -> None:
        try:
            await get(refused)
        except httpx.ConnectError:
            with serving(Upstream(response(200))) as upstream:
                await get(upstream.url)
            {}["nothing"]

    async def explicit() -> None:
        try:
            await get(refused)
        except httpx.ConnectError as exc:
            raise LookupError from exc

    assert failed(implicit, http).code == "INTERNAL_ERROR"
    said = failed(explicit, http)
    assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)


@pytest.mark.parametrize("order", [1, -1])
def test_a_group_of_one_class(order: int) -> None:
    """Exceptions of one class that mean different things: the least certain one counts."""

    async def several() -> None:
        found = [status_error(429), status_error(500)][::order]
        raise Group("", found)

    said = failed(several, including(iserror.packs.httpx))
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_ERROR", "unknown", False)


# --- hostile objects -----------------------------------------------------------------------------------------


class Answerless(httpx.HTTPStatusError):
    def __init__(self) -> None:
        Exception.__init__(self)

    @property
    def response(self) -> Any:
        raise SystemExit(CANARY)

    @response.setter
    def response(self, value: object) -> None: ...


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (Answerless(), "UPSTREAM_INVALID_RESPONSE"),
        (status_error(None), "UPSTREAM_INVALID_RESPONSE"),
        (status_error([CANARY]), "UPSTREAM_INVALID_RESPONSE"),
        (status_error("429"), "UPSTREAM_RATE_LIMITED"),
        # Not the beginning of a status.
        (status_error(4), "UPSTREAM_INVALID_RESPONSE"),
        (status_error(40), "UPSTREAM_INVALID_RESPONSE"),
        (status_error(10**5_000), "UPSTREAM_INVALID_RESPONSE"),
        (status_error(-404), "UPSTREAM_INVALID_RESPONSE"),
        (status_error(float("nan")), "UPSTREAM_INVALID_RESPONSE"),
    ],
)
def test_a_status_that_is_none(exc: Exception, code: str) -> None:
    """What cannot be read, or is no status, is no status; nothing is claimed of it."""
    entry = including(iserror.packs.httpx).find(exc)
    assert entry is not None
    assert entry.code == code


class Text(str):
    def __str__(self) -> str:
        return Text(CANARY)

    def __getitem__(self, key: object) -> str:
        raise RuntimeError(CANARY)


class Raises:
    def __str__(self) -> str:
        raise SystemExit(CANARY)


@pytest.mark.parametrize(
    ("key", "code"),
    [("40001", "LOCK_TIMEOUT"), (Text("x"), "READ_ONLY"), (Raises(), "QUERY_INVALID"), ("9" * 10_000, "QUERY_INVALID")],
)
def test_a_key_that_is_none(key: object, code: str) -> None:
    """A key may be any object: its text counts, if it has one."""
    entries = {"40": codes.LOCK_TIMEOUT, CANARY: codes.READ_ONLY}
    found = By("key", lambda _: key, entries, codes.QUERY_INVALID).find(ValueError())
    assert found is not None
    assert found.code == code


def test_a_class_that_cannot_be_looked_at() -> None:
    """The call of an exception whose class is hostile fails as a crash does; the guard does not."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            if name in ("__mro__", "__module__", "__qualname__"):
                raise RuntimeError(CANARY)
            return super().__getattribute__(name)

    class Hostile(Exception, metaclass=Meta):
        pass

    async def raises() -> None:
        raise Hostile

    assert failed(raises, including(iserror.packs.httpx)).code == "INTERNAL_ERROR"


# --- whose entry counts --------------------------------------------------------------------------------------


def own(name: Any, code: str = "MINE") -> ErrorMap:
    errors = including(iserror.packs.httpx)
    errors.add(name, code=code, category="internal", message="Mine.")
    return errors


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (httpx.ConnectError, "MINE"),
        ("httpx.ConnectError", "MINE"),
        (httpx.HTTPError, "MINE"),
        ("httpx.HTTPError", "MINE"),
        (Exception, "DEPENDENCY_UNAVAILABLE"),
        ("builtins.Exception", "DEPENDENCY_UNAVAILABLE"),
    ],
)
def test_own_entries_go_first(name: Any, code: str) -> None:
    """An entry of one's own for a base class goes before a pack's for the class; a catch-all comes after the packs."""
    errors = own(name)
    entry, other = errors.find(httpx.ConnectError("")), errors.find(KeyError())
    assert entry is not None
    assert entry.code == code
    assert (other is not None) == ("Exception" in str(name))


def test_a_tool_has_a_map_of_its_own() -> None:
    """It goes before the server's, packs included."""

    async def refused() -> None:
        await get(f"http://127.0.0.1:{free_port()}/")

    http = including(iserror.packs.httpx)
    assert failed(refused, http, own(httpx.ConnectError)).code == "MINE"
    assert failed(refused, own(httpx.ConnectError), http).code == "DEPENDENCY_UNAVAILABLE"


def test_included_as_a_whole() -> None:
    """What is refused leaves the map as it was; the same pack again, in a set or not, is harmless."""
    http = iserror.packs.httpx
    clash = replace(codes.UPSTREAM_TIMEOUT, category="internal")
    wrong = Pack("wrong", ("https://example.com",), {"builtins.KeyError": codes.NOT_FOUND, "a.b": clash})
    other = Pack("httpx", ("https://example.com",), {"builtins.KeyError": codes.NOT_FOUND})
    errors = ErrorMap()
    assert errors.find(httpx.ConnectError("")) is None
    for packs, error in (((http, wrong), ValueError), ((http, "httpx"), TypeError), ((http, other), ValueError)):
        with pytest.raises(error):
            errors.include(*packs)  # type: ignore[arg-type]
        assert (len(errors.packs), errors.find(httpx.ConnectError(""))) == (0, None)
    errors.include(*{http, http})
    errors.include(http)
    assert errors.find(httpx.ConnectError("")) is not None
    errors.add(KeyError, code="UPSTREAM_TIMEOUT", category="deadline_exceeded", message="Mine.")
