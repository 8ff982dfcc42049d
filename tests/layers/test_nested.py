"""Tools that call tools, start tasks, log, and talk to the client: one call, one id, one line."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import anyio
import anyio.to_thread
import pytest
import structlog

from iserror import ToolErrors, ToolFailure, current_call
from iserror.layers.report import orphans
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import HOST, Context, new_server, normalize
from tests.hosts.test_registration import make_guard, not_found

pytestmark = [
    pytest.mark.host,
    pytest.mark.anyio,
    # Of the SDK's 2.x for what its newest revision has retired.
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

GUARD = make_guard()
UNSURE = (*scenarios.NOT_FOUND[:3], "unknown", scenarios.UNSURE)
UNDECLARED = (*scenarios.NOT_FOUND[:3], "unknown", scenarios.ONLY_IF_HARMLESS)


def attached(*tools: Any, guard: ToolErrors = GUARD) -> Any:
    server = new_server()
    guard.attach(server)
    for fn in tools:
        server.tool()(fn)
    return server


@GUARD
async def inner():  # type: ignore[no-untyped-def]
    raise scenarios.InvoiceNotFound("INV-42")


@GUARD
def inner_sync():  # type: ignore[no-untyped-def]
    raise scenarios.InvoiceNotFound("INV-42")


@GUARD(effect="read")
async def inner_read():  # type: ignore[no-untyped-def]
    raise scenarios.PaymentLost


@GUARD
async def inner_declared():  # type: ignore[no-untyped-def]
    raise scenarios.Busy


@GUARD
async def inner_crash():  # type: ignore[no-untyped-def]
    raise RuntimeError(scenarios.DSN)


@GUARD
async def inner_failure():  # type: ignore[no-untyped-def]
    raise ToolFailure("CARD_DECLINED", "The card was declined.", outcome="partial")


BUSY = ("BILLING_BUSY", "The billing service is busy.", "unavailable")
LOST = ("PAYMENT_UNKNOWN", "The payment service did not answer.", "deadline_exceeded")
DECLINED = ("CARD_DECLINED", "The card was declined.", "unknown", "partial", scenarios.PARTLY)
LOST_HINT = "Look the payment up with get_payment."


@pytest.mark.parametrize(
    ("fn", "effect", "parts", "more"),
    [
        (inner, "write", UNSURE, scenarios.NOT_FOUND_MORE),
        (inner_sync, "write", UNSURE, scenarios.NOT_FOUND_MORE),
        (inner, "read", scenarios.NOT_FOUND, scenarios.NOT_FOUND_MORE),
        (inner, "idempotent", scenarios.NOT_FOUND, scenarios.NOT_FOUND_MORE),
        (inner_read, "write", (*LOST, "unknown", scenarios.UNSURE), {"hint": LOST_HINT}),
        (inner_read, "read", (*LOST, "not_applied", "may be repeated"), {"hint": LOST_HINT, "retryable": True}),
        (inner, None, UNDECLARED, scenarios.NOT_FOUND_MORE),
        (inner_declared, "write", (*BUSY, "unknown", scenarios.UNSURE), {}),
        (inner_crash, "write", (*scenarios.CRASH[:4], scenarios.UNSURE), {}),
        (inner_crash, "read", (*scenarios.CRASH[:3], "not_applied", scenarios.STOP), {}),
        (inner_crash, None, scenarios.CRASH, {}),
        (inner_failure, "write", DECLINED, {}),
    ],
)
async def test_a_tool_calls_a_function(fn: Any, effect: Any, parts: Any, more: Any, lines: Lines) -> None:
    """The inner tool says code, message and hint; outcome, repetition and name are the outer's; there is one line."""

    @GUARD(effect=effect)
    async def outer():  # type: ignore[no-untyped-def]
        result = fn()
        return await result if asyncio.iscoroutine(result) else result

    async with hosts.in_memory(attached(outer)) as call:
        raw = await call("outer")
    assert scenarios.failed("outer", *parts, **more)[0] == normalize(raw)
    (line,) = lines.read()
    assert ("outer", parts[0], parts[3]) == (line["tool"], line["code"], line["outcome"])
    assert hosts.failure_of(raw)["request_id"] == line["request_id"]


def by_the_server(server: Any, tool: str) -> Any:
    """A tool body that calls another through its server, as each host offers it."""

    async def outer(ctx: Context):  # type: ignore[no-untyped-def]
        if HOST == "mcp2":
            return await server.call_tool(tool, {}, ctx)
        return await server.call_tool(tool, {})

    return outer


@pytest.mark.parametrize("decorated", [False, True])
async def test_a_tool_calls_through_the_server(decorated: bool, lines: Lines) -> None:
    """Through the server's own call_tool a nested failure is the inner's in words and the outer's in outcome."""

    def lookup():  # type: ignore[no-untyped-def]
        raise scenarios.InvoiceNotFound("INV-42")

    server = attached(GUARD(lookup) if decorated else lookup)
    server.tool()(by_the_server(server, "lookup"))
    async with hosts.in_memory(server) as call:
        raw = await call("outer")
        assert not_found("lookup") == normalize(await call("lookup"))
    assert scenarios.failed("outer", *UNDECLARED, **scenarios.NOT_FOUND_MORE)[0] == normalize(raw)
    assert [("outer", "INVOICE_NOT_FOUND"), ("lookup", "INVOICE_NOT_FOUND")] == [
        (line["tool"], line["code"]) for line in lines.read()
    ]


async def test_a_tool_calls_an_unknown_tool(lines: Lines) -> None:
    """A tool that calls one that does not exist is a failing tool, and no unknown tool to the client."""
    server = attached()
    server.tool()(by_the_server(server, "gone"))
    async with hosts.in_memory(server) as call:
        answer = normalize(await call("outer"))
    assert answer["result"]["isError"] is True
    assert "outer" == answer["result"]["_meta"]["iserror/failure"]["tool"]
    assert ["tool_failed"] == [line["event"] for line in lines.read()]


@pytest.mark.parametrize("how", ["function", "server"])
async def test_an_inner_failure_that_is_caught(how: str, lines: Lines) -> None:
    """A tool that catches an inner failure is a success, its own later failure is its own; the log tells them apart."""
    server = attached()

    @server.tool()
    def lookup():  # type: ignore[no-untyped-def]
        raise scenarios.InvoiceNotFound("INV-42")

    through = by_the_server(server, "lookup")

    async def attempt(ctx: Any) -> str:
        try:
            await (inner() if how == "function" else through(ctx))
        except ToolFailure as failed:
            return f"caught {failed.code}"
        return "nothing to catch"

    @server.tool()
    async def catching(ctx: Context):  # type: ignore[no-untyped-def]
        return await attempt(ctx)

    @server.tool()
    async def failing(ctx: Context):  # type: ignore[no-untyped-def]
        await attempt(ctx)
        raise scenarios.Busy

    async with hosts.in_memory(server) as call:
        assert "caught INVOICE_NOT_FOUND" == hosts.text_of(await call("catching"))
        more = {"retryable": True, "retry_after": 2.0}
        expected = scenarios.failed("failing", *BUSY, "not_applied", "may be repeated after 2 s", **more)[0]
        assert expected == normalize(await call("failing"))
    recovered = ("INVOICE_NOT_FOUND", "inner" if how == "function" else "lookup", "recovered")
    told = [(line["code"], line["tool"], line.get("handled")) for line in lines.read()]
    assert [recovered, recovered, ("BILLING_BUSY", "failing", None)] == told


# --- tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gather", "group"])
async def test_tasks_of_a_tool(how: str, lines: Lines) -> None:
    """A guarded function that fails in a child task, alone or in a group, is one failure of the call."""

    async def fan_out():  # type: ignore[no-untyped-def]
        if how == "gather":
            await asyncio.gather(inner(), asyncio.sleep(0))
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(inner)
                group.start_soon(asyncio.sleep, 0)

    async with hosts.in_memory(attached(fan_out)) as call:
        raw = await call("fan_out")
    assert scenarios.failed("fan_out", *UNDECLARED, **scenarios.NOT_FOUND_MORE)[0] == normalize(raw)
    assert [hosts.failure_of(raw)["request_id"]] == [line["request_id"] for line in lines.read()]


async def test_several_failures_in_a_group(lines: Lines) -> None:
    """Of several failures in a group the least certain one that cannot be repeated is said; the log has all."""

    async def declined() -> None:
        raise ToolFailure("CARD_DECLINED", "The card was declined.", outcome="partial")

    async def lost() -> None:
        raise scenarios.PaymentLost

    async def missing() -> None:
        raise scenarios.InvoiceNotFound("INV-42")

    async def fan_out():  # type: ignore[no-untyped-def]
        async with anyio.create_task_group() as group:
            for fn in (missing, declined, lost):
                group.start_soon(fn)

    async with hosts.in_memory(attached(fan_out)) as call:
        raw = await call("fan_out")
    assert scenarios.failed("fan_out", *DECLINED)[0] == normalize(raw)
    (line,) = lines.read()
    for name in ("ToolFailure", "InvoiceNotFound", "PaymentLost"):
        assert name in str(line["exception"])


@pytest.mark.parametrize("begun", ["before", "after"])
async def test_a_task_that_outlives_the_call(begun: str, lines: Lines) -> None:
    """What a fire-and-forget task fails with leaves the answer alone and is logged once by the guard in it."""
    answered, tasks = asyncio.Event(), []

    @GUARD
    async def late() -> None:
        await answered.wait()
        raise scenarios.Busy

    async def start() -> None:
        if begun == "after":
            await answered.wait()
        await late()

    async def forget():  # type: ignore[no-untyped-def]
        tasks.append(asyncio.ensure_future(start()))
        await asyncio.sleep(0)
        return "started"

    async with hosts.in_memory(attached(forget)) as call:
        assert "started" == hosts.text_of(await call("forget"))
        assert [] == lines.read()
        answered.set()
        with pytest.raises(ToolFailure):
            await tasks[0]
        assert "started" == hosts.text_of(await call("forget"))
        with pytest.raises(ToolFailure):
            await tasks[1]
    orphans.report_all()
    assert [("BILLING_BUSY", "late")] * 2 == [(line["code"], line["tool"]) for line in lines.read()]


# --- ids and context -------------------------------------------------------------------------------------------


def here() -> tuple[Any, Any, Any]:
    """The ids as code in this place sees them."""
    call = current_call()
    bound = structlog.contextvars.get_contextvars()
    return getattr(call, "request_id", None), getattr(call, "tool", None), bound.get("request_id")


@pytest.mark.parametrize("mode", scenarios.MODES)
async def test_ids_reach_everywhere(mode: scenarios.Mode) -> None:
    """Async and sync tools, worker threads and child tasks all see the id of the failure; outside there is none."""
    seen: list[tuple[Any, Any, Any]] = []

    def note() -> None:
        seen.append(here())

    async def note_later() -> None:
        await asyncio.sleep(0)
        note()

    async def widely():  # type: ignore[no-untyped-def]
        note()
        await asyncio.to_thread(note)
        await anyio.to_thread.run_sync(note)
        await asyncio.ensure_future(note_later())
        async with anyio.create_task_group() as group:
            group.start_soon(note_later)
        raise scenarios.InvoiceNotFound("INV-42")

    def narrowly():  # type: ignore[no-untyped-def]
        note()
        raise scenarios.InvoiceNotFound("INV-42")

    guard = make_guard()
    server = new_server()
    for fn in (widely, narrowly):
        server.tool()(fn if mode == "attached" else guard(fn))
    if mode != "decorated":
        guard.attach(server)
    async with hosts.in_memory(server) as call:
        for tool, places in (("widely", 5), ("narrowly", 1)):
            seen.clear()
            text = hosts.text_of(await call(tool))
            request_id = text.rpartition("request_id: ")[2][:32]
            assert [(request_id, tool, request_id)] * places == seen
            assert (None, None, None) == here()


async def test_concurrent_calls_keep_their_ids() -> None:
    """Of calls that run at the same time each sees its own id, before and after it waits."""
    seen: list[tuple[Any, Any]] = []

    async def wait(n: int):  # type: ignore[no-untyped-def]
        first = here()
        await asyncio.sleep(0.01)
        seen.append((first, here()))
        return n

    async with hosts.in_memory(attached(wait)) as call:
        await asyncio.gather(*(call("wait", {"n": n}) for n in range(5)))
    assert all(first == second and first[0] == first[2] for first, second in seen)
    assert 5 == len({first[0] for first, _ in seen})


async def test_what_a_tool_logs_carries_the_ids(lines: Lines) -> None:
    """A line that a tool writes with structlog has the call's request id, tool and JSON-RPC id."""

    def narrate():  # type: ignore[no-untyped-def]
        structlog.get_logger().info("on my way", step=1)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert pool.submit(current_call).result() is None  # a bare thread pool copies no context
        raise scenarios.InvoiceNotFound("INV-42")

    async with hosts.in_memory(attached(narrate)) as call:
        raw = await call("narrate")
    own, failed = lines.read()
    assert ("on my way", 1, "narrate") == (own["event"], own["step"], own["tool"])
    assert hosts.failure_of(raw)["request_id"] == own["request_id"] == failed["request_id"]
    assert own["jsonrpc_id"] == failed["jsonrpc_id"]
