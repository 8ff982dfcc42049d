"""fastmcp's middleware round a guarded server: none rewords, moves, caches or repeats a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iserror import ErrorMap, ToolErrors
from iserror.testing import assert_tool_error
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, ToolError, normalize

if not IS_FASTMCP:
    pytest.skip("fastmcp is not installed here", allow_module_level=True)

from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware, RetryMiddleware
from fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
from fastmcp.tools.base import ToolResult

from tests.hosts.test_fastmcp import crashing, guarded
from tests.hosts.test_registration import lookup, not_found, result_of

pytestmark = [pytest.mark.host, pytest.mark.anyio]


class Counting:
    """A tool that raises these exceptions one after the other, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.runs = 0

    def server(self, *middleware: Any, **settings: Any) -> Any:
        def tool():  # type: ignore[no-untyped-def]
            self.runs += 1
            if self.errors:
                raise self.errors.pop(0)
            return f"run {self.runs}"

        server = guarded()
        server.tool(**settings)(tool)
        for layer in middleware:
            server.add_middleware(layer)
        return server


def retrying(*kinds: type[Exception]) -> RetryMiddleware:
    return RetryMiddleware(max_retries=2, base_delay=0.01, **({"retry_exceptions": kinds} if kinds else {}))


def texts(answer: dict[str, Any]) -> tuple[bool, str]:
    """Whether it is an error, and the first line."""
    return answer["result"]["isError"], hosts.text_of(answer).partition("\n")[0]


# --- retrying --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionError, TimeoutError])
async def test_the_default_retry_middleware(error: type[Exception], lines: Lines) -> None:
    """The default RetryMiddleware does not repeat a declared write that lost its connection."""
    counting = Counting(error(scenarios.DSN), error(scenarios.DSN))
    server = counting.server(retrying(), annotations=hosts.annotations(readOnlyHint=False))
    assert hosts.failure_of(await result_of(server, "tool"))["code"] == "INTERNAL_ERROR"
    assert (1, 1) == (counting.runs, len(lines.read()))


@pytest.mark.parametrize("error", [RuntimeError(scenarios.DSN), scenarios.PaymentLost(), ToolError("closed")])
async def test_retrying_everything_runs_a_write_once(error: Exception, lines: Lines) -> None:
    """A middleware that repeats on every exception gets the same failure again, and the write ran once."""
    counting = Counting(error, error, error)
    server = counting.server(retrying(Exception), annotations=hosts.annotations(readOnlyHint=False))
    answer = await result_of(server, "tool")
    codes = {RuntimeError: "INTERNAL_ERROR", scenarios.PaymentLost: "PAYMENT_UNKNOWN", ToolError: "TOOL_ERROR"}
    assert codes[type(error)] == answer["result"]["_meta"]["iserror/failure"]["code"]
    assert (1, 1) == (counting.runs, len(lines.read()))


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_retryable_failure_may_be_repeated(read_only: bool, lines: Lines) -> None:
    """A failure that is retryable runs again under the middleware; the client sees the success, the log both."""
    error = scenarios.PaymentLost() if read_only else scenarios.Busy()
    counting = Counting(error)
    server = counting.server(retrying(Exception), annotations=hosts.annotations(readOnlyHint=read_only))
    assert (False, "run 2") == texts(await result_of(server, "tool"))
    code = "PAYMENT_UNKNOWN" if read_only else "BILLING_BUSY"
    assert [(code, "retried")] == [(line["code"], line.get("handled")) for line in lines.read()]


async def test_a_retryable_failure_that_stays(lines: Lines) -> None:
    """Repeats that all fail end in the mapped result under one request id, each run with its line."""
    counting = Counting(*(scenarios.Busy() for _ in range(9)))
    answer = await result_of(counting.server(retrying(Exception)), "tool")
    assert (True, "BILLING_BUSY: The billing service is busy.") == texts(answer)
    assert 3 == counting.runs
    read = lines.read()
    assert ["retried", "retried", None] == [line.get("handled") for line in read]
    assert 1 == len({line["request_id"] for line in read})


# --- caching ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError(scenarios.DSN), scenarios.InvoiceNotFound("INV-42")])
async def test_a_failure_is_never_cached(error: Exception) -> None:
    """After a failure the same call runs the tool again; only the success is cached."""
    counting = Counting(error)
    async with hosts.in_memory(counting.server(ResponseCachingMiddleware())) as call:
        assert (await call("tool"))["result"]["isError"]
        assert [(False, "run 2")] * 2 == [texts(await call("tool")) for _ in range(2)]
    assert 2 == counting.runs


@pytest.mark.parametrize("kind", ["sdk", "host"])
async def test_a_returned_error_is_never_cached(kind: str) -> None:
    """An error result that a tool returns is not cached either."""
    runs: list[int] = []

    def tool():  # type: ignore[no-untyped-def]
        runs.append(1)
        return hosts.error_result("gone") if kind == "sdk" else hosts.host_error_result("gone")

    server = guarded(tool)
    server.add_middleware(ResponseCachingMiddleware())
    async with hosts.in_memory(server) as call:
        assert [(True, "RETURNED_ERROR: gone")] * 2 == [texts(await call("tool")) for _ in range(2)]
    assert 2 == len(runs)


# --- rewording -------------------------------------------------------------------------------------------------


def refusing():  # type: ignore[no-untyped-def]
    raise ToolError("order 7 is closed")


def value():  # type: ignore[no-untyped-def]
    raise ValueError(scenarios.DSN)


def missing():  # type: ignore[no-untyped-def]
    raise FileNotFoundError(scenarios.DSN)


def protocol():  # type: ignore[no-untyped-def]
    raise hosts.protocol_error(-31001, "tenant is not provisioned", {"tenant": "t1"})


def pay(amount: int):  # type: ignore[no-untyped-def]
    return "paid"


def fine():  # type: ignore[no-untyped-def]
    return "fine"


TOOLS = (lookup, crashing, refusing, value, missing, protocol, pay, fine)


class Reword(Middleware):
    """Make another error of every error."""

    def __init__(self, make: Any) -> None:
        self.make = make

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except Exception as exc:
            raise self.make() from exc


@pytest.mark.parametrize(
    "middleware",
    [
        ErrorHandlingMiddleware(),
        ErrorHandlingMiddleware(include_traceback=True, transform_errors=False),
        Reword(lambda: ToolError("please retry")),
        Reword(lambda: RuntimeError("please retry")),
        Reword(lambda: hosts.protocol_error(-32603, "please retry")),
    ],
    ids=["error-handling", "error-handling-traceback", "tool-error", "crash", "protocol"],
)
async def test_rewording_middleware(middleware: Any) -> None:
    """A middleware that turns errors into others changes neither the channel nor the text of any answer."""
    plain, changed = guarded(*TOOLS), guarded(*TOOLS)
    changed.add_middleware(middleware)
    for tool in [*(fn.__name__ for fn in TOOLS), "gone"]:
        assert await result_of(plain, tool) == await result_of(changed, tool), tool


class Fallback(Middleware):
    """Answer in the place of what failed."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except Exception:
            return ToolResult(content="a fallback")


async def test_a_fallback_success_stands(lines: Lines) -> None:
    """A middleware's success in a failure's place is what the client gets, and the log says it was recovered."""
    server = guarded(crashing)
    server.add_middleware(Fallback())
    expected = {"result": {"content": [{"type": "text", "text": "a fallback"}], "isError": False}}
    assert expected == await result_of(server, "crashing")
    assert [("INTERNAL_ERROR", "recovered")] == [(line["code"], line.get("handled")) for line in lines.read()]


class Quiet(Middleware):
    """Return an error result in the place of what failed."""

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except Exception:
            return hosts.host_error_result("please retry")


async def test_an_error_result_in_a_failures_place(lines: Lines) -> None:
    """A middleware that returns an error result for a failure does not reword it."""
    server = guarded(lookup)
    server.add_middleware(Quiet())
    assert not_found("lookup") == await result_of(server, "lookup")
    assert 1 == len(lines.read())


class Refusing(Middleware):
    """Refuse every call before the tool, in one of several ways."""

    def __init__(self, refuse: Any) -> None:
        self.refuse = refuse

    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        raise self.refuse()


async def test_a_middleware_that_fails_itself(lines: Lines) -> None:
    """What a middleware raises of its own is mapped like a tool's failure, and a crash of it tells nothing."""
    for error, expected in (
        (scenarios.InvoiceNotFound("INV-42"), not_found("fine")),
        (
            RuntimeError(scenarios.DSN),  # before the tool: nothing was applied
            scenarios.failed("fine", *scenarios.CRASH[:3], "not_applied", scenarios.STOP)[0],
        ),
    ):
        server = guarded(fine)
        server.add_middleware(Refusing(lambda error=error: error))
        assert expected == await result_of(server, "fine")
    assert ["INVOICE_NOT_FOUND", "INTERNAL_ERROR"] == [line["code"] for line in lines.read()]


async def test_rate_limiting() -> None:
    """fastmcp's rate limit leaves as its own JSON-RPC error, with the request id, and the tool does not run."""
    counting = Counting()
    server = counting.server(RateLimitingMiddleware(max_requests_per_second=0.001, burst_capacity=6))
    async with hosts.in_memory(server) as call:
        answers = [normalize(await call("tool")) for _ in range(7)]
    message = "Rate limit exceeded for client: global"
    error = {"code": -32000, "message": message, "data": {"iserror/request_id": "<id>"}}
    assert {"error": error} == answers[-1]
    assert counting.runs == len([answer for answer in answers if "result" in answer]) < 7


# --- middleware that repeats, and refusals in a body -----------------------------------------------------------


class Busy(ConnectionError):
    pass


@pytest.mark.parametrize(("effect", "ran"), [("read", 3), (None, 3), ("write", 1)])
@pytest.mark.parametrize("raised", [Busy, ConnectionRefusedError])
async def test_retry_middleware(raised: type[Exception], effect: Any, ran: int) -> None:
    """fastmcp's `RetryMiddleware` matches what a failure was raised for, and never runs a declared write again."""
    errors = ErrorMap()
    errors.add(Busy, code="BACKEND_BUSY", category="unavailable", message="The backend is busy.", retryable=True)
    guard, server, runs = ToolErrors(errors), hosts.new_server(), []
    guard.attach(server)
    server.add_middleware(RetryMiddleware(max_retries=3, base_delay=0.001))

    @server.tool()
    @guard(effect=effect)
    async def fetch() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise raised("connection refused by 10.0.0.9")
        return "done"

    async with hosts.in_memory(server) as call:
        answer = await call("fetch")
    assert len(runs) == ran
    assert answer["result"].get("isError", False) is (ran == 1)
    assert "10.0.0.9" not in json.dumps(answer)


async def test_no_cause_outside_of_the_middleware() -> None:
    """What a failure was raised for is its cause for middleware only: the host would log and trace it."""
    seen: list[BaseException] = []
    causes: list[BaseException | None] = []

    class Look(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            try:
                return await call_next(context)
            except Exception as exc:
                causes.append(exc.__cause__)
                seen.append(exc)
                raise

    guard, server = ToolErrors(), hosts.new_server()
    guard.attach(server)
    server.add_middleware(Look())

    @server.tool()
    def fetch() -> str:
        raise KeyError("secret")

    async with hosts.in_memory(server) as call:
        assert_tool_error(await call("fetch"), code="INTERNAL_ERROR")
    assert [type(cause) for cause in causes] == [KeyError]
    assert [exc.__cause__ for exc in seen] == [None]


@pytest.mark.parametrize(
    ("name", "code"),
    [("NotFoundError", "TOOL_ERROR"), ("ValidationError", "TOOL_ERROR"), ("AuthorizationError", "PERMISSION_DENIED")],
)
async def test_refusals_in_a_body(name: str, code: str) -> None:
    """What fastmcp raises for its own refusals is, in a tool's body, the author's word to the model."""
    import fastmcp.exceptions

    guard, server = ToolErrors(), hosts.new_server()
    guard.attach(server)

    @server.tool()
    def order() -> str:
        raise getattr(fastmcp.exceptions, name)("Order 42 belongs to another team; ask team blue.")

    async with hosts.in_memory(server) as call:
        answer = await call("order")
    assert_tool_error(answer, code=code)
    assert hosts.failure_of(answer)["message"] == "Order 42 belongs to another team; ask team blue."
    assert hosts.failure_of(answer)["outcome"] == "unknown"
