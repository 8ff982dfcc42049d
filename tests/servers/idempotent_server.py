"""A server whose writes have idempotency keys; each effect is a line in a file. Run as a script it is served."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import time

import anyio
import anyio.to_thread
from pydantic import BaseModel

from iserror import ErrorMap, ToolErrors, ToolFailure, configure_logging
from iserror.idempotency import Idempotency, MemoryStore, RedisStore
from tests.helpers.hosts import (
    HOST,
    IS_FASTMCP,
    TextContent,
    error_result,
    host_error_result,
    new_server,
    protocol_error,
)

# Who has which access token.
TOKENS = {f"{who}-may-pass": who for who in ("alice", "bob", "client-only")}


class Receipt(BaseModel):
    amount: int
    run: int


class PaymentLost(Exception):
    pass


class Declined(Exception):
    pass


class HalfDone(Exception):
    pass


def error_map() -> ErrorMap:
    errors = ErrorMap()
    errors.add(
        PaymentLost,
        code="PAYMENT_UNKNOWN",
        category="deadline_exceeded",
        message="The bank did not answer.",
        hint="Look the payment up.",
        retryable=True,
    )
    errors.add(
        Declined,
        code="DECLINED",
        category="unavailable",
        message="Declined.",
        outcome="not_applied",
        retryable=True,
    )
    errors.add(
        HalfDone, code="HALF_DONE", category="internal", message="Half is done.", outcome="partial", retryable=True
    )
    return errors


def as_success(result: Any) -> Any:
    """The result with its error flag down."""
    return result.model_copy(
        update={name: False for name in ("isError", "is_error") if name in type(result).model_fields}
    )


class Effects:
    """The effects of all processes that share a file: one line each.

    Args:
        file: The file.
        meanwhile: What a body that holds does instead of sleeping.
    """

    def __init__(self, file: Path, meanwhile: Callable[[], object] | None = None) -> None:
        self.file = file
        self.meanwhile = meanwhile
        self._lock = threading.Lock()

    def add(self, what: object) -> int:
        with self._lock, open(self.file, "a") as out:
            out.write(f"{what}\n")
        return len(self.all())

    def all(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []


def add_tools(server: Any, guard: ToolErrors, effects: Effects) -> None:
    @server.tool()
    @guard(effect="write", idempotency_key="key")
    async def pay(amount: int, key: str | None = None, hold: float = 0) -> Receipt:
        run = effects.add(f"pay {amount}")
        if hold and effects.meanwhile is not None:
            await anyio.to_thread.run_sync(effects.meanwhile)
        else:
            await anyio.sleep(hold)
        return Receipt(amount=amount, run=run)

    @server.tool()
    @guard(effect="write", idempotency_key="key")
    def pay_sync(amount: int, key: str | None = None, hold: float = 0) -> Receipt:
        run = effects.add(f"pay_sync {amount}")
        time.sleep(hold)
        return Receipt(amount=amount, run=run)

    @guard(idempotency_key="key")
    def pay_blocking(key: str) -> str:
        return f"run {effects.add('pay_blocking')}"

    @server.tool()
    async def pay_in_thread(key: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, pay_blocking, key)

    @guard(idempotency_key="key")
    async def pay_in_task(key: str) -> str:
        return f"run {effects.add('pay_in_task')}"

    @functools.wraps(pay_in_task)
    async def within_5_s(key: str) -> str:
        return await asyncio.wait_for(asyncio.create_task(pay_in_task(key)), 5)

    server.tool()(within_5_s)

    @server.tool()
    @guard(effect="write", idempotency_key="key")
    async def die(key: str) -> str:
        effects.add("die")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @server.tool()
    @guard(effect="idempotent", idempotency_key="key")
    async def fail(kind: str, key: str | None = None) -> str:
        effects.add(f"fail {kind}")
        if kind == "unknown":
            raise PaymentLost
        if kind == "not_applied":
            raise Declined
        if kind == "partial":
            raise HalfDone
        if kind == "applied":
            raise ToolFailure("SENT_ONCE", "It was sent to /srv/secret/file.", outcome="applied", details={"id": 7})
        if kind == "crash":
            raise RuntimeError("hidden")
        if kind == "protocol":
            raise protocol_error(-32001, "on purpose")
        if kind == "refused":
            raise protocol_error(-32602, "on purpose")
        if kind == "elicitation":
            raise protocol_error(-32042, "go there", {"elicitations": []})
        raise AssertionError(kind)

    @server.tool()
    @guard(effect="write", idempotency_key="key")
    async def give(kind: str, key: str):  # type: ignore[no-untyped-def]
        run = effects.add(f"give {kind}")
        if kind == "none":
            return None
        if kind == "text":
            return f"run {run} \u00e9\u2028"
        if kind == "dict":
            return {"run": run, "parts": [1, 2.5, None, True]}
        if kind == "blocks":
            return [TextContent(type="text", text=f"run {run}"), TextContent(type="text", text="two")]
        if kind == "mixed":
            return ["one", TextContent(type="text", text="two")]
        if kind == "upstream":
            envelope = {
                "code": "TOO_EARLY",
                "message": "Not yet.",
                "retryable": False,
                "outcome": "not_applied",
                "category": "aborted",
                "tool": "theirs",
                "request_id": "0" * 32,
            }
            return error_result("TOO_EARLY: Not yet.", meta={"iserror/failure": envelope})
        if kind == "error":
            return error_result(f"run {run} failed")
        if kind == "host_error":
            return host_error_result(f"run {run} failed")
        if kind == "result":
            result = error_result(f"run {run}", meta={"mine": run}, structured={"run": run})
            return as_success(result)
        if kind == "huge":
            return "x" * (2 << 20)
        if kind == "host_result":
            result = host_error_result(f"run {run}", meta={"mine": run}, structured={"run": run})
            return as_success(result)
        raise AssertionError(kind)


def settings_of(options: argparse.Namespace) -> Idempotency:
    store = RedisStore(options.redis, timeout=1.0) if options.redis else MemoryStore()
    return Idempotency(store, wait=options.wait, lease=options.lease, allow_unauthenticated=options.open)


def auth_settings(port: int = 0) -> dict[str, Any]:
    """What makes the host ask for one of `TOKENS`."""
    if IS_FASTMCP:
        from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

        claims = {
            token: {"client_id": "one client", "scopes": [], **({"sub": who} if who != "client-only" else {})}
            for token, who in TOKENS.items()
        }
        return {"auth": StaticTokenVerifier(claims)}
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            who = TOKENS.get(token)
            if who is None:
                return None
            if "subject" not in AccessToken.model_fields:  # mcp 1.23
                return AccessToken(token=token, client_id=who, scopes=[])
            subject = None if who == "client-only" else who
            return AccessToken(token=token, client_id="one client", scopes=[], subject=subject)

    url = f"http://127.0.0.1:{port}"
    # The newest 2.x wants to hear who judges whom a token is for.
    judged = {"validate_token_resource": False} if "validate_token_resource" in AuthSettings.model_fields else {}
    settings = AuthSettings(issuer_url=url, resource_server_url=url, **judged)
    return {"auth": settings, "token_verifier": Verifier()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--log")
    parser.add_argument("--redis")
    parser.add_argument("--wait", type=float, default=20)
    parser.add_argument("--lease", type=float, default=10)
    for flag in ("--decorated", "--open", "--auth", "--http", "--sessions"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.log:
        configure_logging(options.log)
    guard = ToolErrors(error_map(), idempotency=settings_of(options))
    server = new_server("payments", **(auth_settings(options.port) if options.auth else {}))
    add_tools(server, guard, Effects(options.effects))
    if not options.decorated:
        guard.attach(server)
    if not options.http:
        server.run(**({"show_banner": False} if IS_FASTMCP else {}))
    elif HOST == "mcp1":
        server.settings.port, server.settings.stateless_http = options.port, not options.sessions
        server.run("streamable-http")
    elif HOST == "mcp2":
        server.run("streamable-http", port=options.port, stateless_http=not options.sessions)
    else:
        server.run("http", port=options.port, show_banner=False, stateless_http=not options.sessions)


if __name__ == "__main__":
    main()
