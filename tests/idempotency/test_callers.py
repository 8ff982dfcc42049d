"""Who shares a key: by token, by transport, by tool, on every host."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from iserror import ToolErrors, ToolFailure
from iserror.idempotency import Idempotency, IdempotencyStore
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import HOST, in_memory, new_server, text_of
from tests.servers.idempotent_server import Effects, add_tools, auth_settings, error_map

SCRIPT = "tests/servers/idempotent_server.py"
pytestmark = [pytest.mark.host, pytest.mark.anyio]


def mine(store: IdempotencyStore | None = None, **settings: Any) -> Idempotency:
    """Settings for calls in process, where no host tells who is calling."""
    return Idempotency(store, subject=lambda: "me", **settings)


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two answers are equal but for their ids."""
    return hosts.normalize(first) == hosts.normalize(second)


def post(url: str, tool: str, arguments: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    """Call a tool over streamable HTTP with hand-written JSON-RPC, without a session."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    if not text.startswith("{"):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and '"id"' in line)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture(params=["attached", "decorated"])
def payments(request: pytest.FixtureRequest, effects: Effects) -> Callable[..., Any]:
    """Makes the server with the tools, guarded as a whole or by the decorators alone."""

    def made(*, auth: bool = False, **settings: Any) -> Any:
        guard = ToolErrors(error_map(), idempotency=Idempotency(**settings))
        server = new_server("payments", **(auth_settings() if auth else {}))
        add_tools(server, guard, effects)
        if request.param == "attached":
            guard.attach(server)
        return server

    return made


def test_callers_do_not_share_a_key(payments: Callable[..., Any], effects: Effects) -> None:
    """Over HTTP, two subjects with the same key and arguments run each their own; one subject runs once."""
    runs: dict[str, set[int]] = {}
    with hosts.serving(payments(auth=True), stateless=True) as url:
        for tool in ("pay", "pay_sync"):
            for who in ("alice", "bob", "client-only") * 2:
                answer = post(url, tool, {"amount": 5, "key": "k"}, f"{who}-may-pass")
                runs.setdefault(f"{who} {tool}", set()).add(json.loads(text_of(answer))["run"])
        with pytest.raises(urllib.error.HTTPError):
            post(url, "pay", {"amount": 5, "key": "k"}, "forged")
        assert list(runs.values()) == [{1}, {2}, {3}, {4}, {5}, {6}]
        assert len(effects.all()) == 6
        # A task of its own has the token, a bare thread has nothing that says who calls.
        callers = ("alice-may-pass", "bob-may-pass") * 2
        assert [text_of(post(url, "pay_in_task", {"key": "k"}, who)) for who in callers] == ["run 7", "run 8"] * 2
        for who in callers:
            assert "IDEMPOTENCY_UNAUTHENTICATED" in text_of(post(url, "pay_in_thread", {"key": "k"}, who))


def test_unauthenticated_http_has_to_opt_in(payments: Callable[..., Any], effects: Effects, lines: Lines) -> None:
    """Over HTTP without a token a key is refused and nothing runs, in a thread or task of its own neither.

    The log says how to allow it."""
    with hosts.serving(payments(), stateless=True) as url:
        for tool in ("pay", "pay_sync"):
            answer = post(url, tool, {"amount": 5, "key": "k"})
            assert "IDEMPOTENCY_UNAUTHENTICATED: " in text_of(answer)
            assert "stop and tell the user" in text_of(answer)
        for tool in ("pay_in_thread", "pay_in_task"):
            assert "IDEMPOTENCY_UNAUTHENTICATED" in text_of(post(url, tool, {"key": "k"}))
        assert effects.all() == []
        assert "run" in text_of(post(url, "pay", {"amount": 5}))
    assert "Idempotency(allow_unauthenticated=True)" in json.dumps(lines.read())


def test_unauthenticated_http_shares_a_scope_if_allowed(payments: Callable[..., Any], effects: Effects) -> None:
    """Where it is allowed, anonymous callers over HTTP share their keys."""
    with hosts.serving(payments(allow_unauthenticated=True), stateless=True) as url:
        for tool in ("pay", "pay_sync"):
            assert same(*[post(url, tool, {"amount": 5, "key": "k"}) for _ in range(2)])
    assert effects.all() == ["pay 5", "pay_sync 5"]


async def test_unauthenticated_sessions(payments: Callable[..., Any], effects: Effects) -> None:
    """In a session over HTTP without a token a key is refused just so."""
    async with hosts.over_http(payments()) as call:
        for tool in ("pay", "pay_sync"):
            assert "IDEMPOTENCY_UNAUTHENTICATED: " in text_of(await call(tool, {"amount": 5, "key": "k"}))
    assert effects.all() == []


async def test_a_bare_thread_in_process(tmp_path: Path) -> None:
    """A sync call in a bare thread is refused in process too, unless `subject=` says who calls."""
    guard = ToolErrors()

    @guard(idempotency_key="key")
    def pay(key: str) -> str:
        return "paid"

    with pytest.raises(ToolFailure, match="IDEMPOTENCY_UNAUTHENTICATED"):
        await asyncio.get_running_loop().run_in_executor(None, pay, "k")
    with pytest.raises(ToolFailure, match="IDEMPOTENCY_UNAUTHENTICATED"):
        await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(anyio.to_thread.run_sync(pay, "k")))


def test_in_process_without_a_loop() -> None:
    """A sync call in the main thread, outside of any event loop, is the one local caller's on every host."""
    guard = ToolErrors()

    @guard(idempotency_key="key")
    def pay(key: str) -> object:
        return guard

    assert pay("k") is guard
    with pytest.raises(ToolFailure, match="RESULT_NOT_KEPT"):
        pay("k")


async def test_over_stdio(tmp_path: Path) -> None:
    """Over stdio a repeat gets the first result, of an async and of a sync tool."""
    effects = Effects(tmp_path / "effects")
    async with hosts.over_stdio(SCRIPT, "--effects", str(effects.file)) as call:
        for tool in ("pay", "pay_sync"):
            assert same(*[await call(tool, {"amount": 5, "key": "k"}) for _ in range(2)])
    assert effects.all() == ["pay 5", "pay_sync 5"]


def test_decorated_only_over_stdio(tmp_path: Path) -> None:
    """Without an attached guard a tool over stdio takes a key if the host says how the call came; mcp 2.x doesn't."""
    effects = Effects(tmp_path / "effects")
    with hosts.RawStdio(SCRIPT, "--decorated", "--effects", str(effects.file)) as raw:
        for tool in ("pay", "pay_sync"):
            first, again = [raw.call(tool, {"amount": 5, "key": "k"}) for _ in range(2)]
            if HOST == "mcp2":
                assert "IDEMPOTENCY_UNAUTHENTICATED" in text_of(first)
            else:
                assert same(first, again)
    assert effects.all() == ([] if HOST == "mcp2" else ["pay 5", "pay_sync 5"])


async def test_functions_of_one_name(lines: Lines) -> None:
    """What a factory makes shares no key: served with the guard each has its tool's, elsewhere all are refused."""
    guard, server = ToolErrors(idempotency=mine()), new_server()

    def made(bank: str) -> Callable[..., Any]:
        @guard(idempotency_key="key")
        async def pay(key: str) -> str:
            return bank

        return pay

    tools = [made("one"), made("two")]
    for name, tool in zip(("pay_one", "pay_two"), tools, strict=True):
        server.tool(name=name)(tool)
        with pytest.raises(ToolFailure) as refused:
            await tool("k")
        assert (refused.value.code, refused.value.outcome) == ("INTERNAL_ERROR", "not_applied")
    assert "cannot be told apart" in lines.read()[0]["exception"][0]["message"]
    guard.attach(server)
    async with in_memory(server) as call:
        assert [text_of(await call(name, {"key": "k"})) for name in ("pay_one", "pay_two") * 2] == ["one", "two"] * 2
