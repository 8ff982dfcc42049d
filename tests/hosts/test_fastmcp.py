"""What only fastmcp has: mounted, proxied and transformed tools, visibility, its own limits, tasks and logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from iserror import ErrorMap, ToolErrors, ToolFailure
from iserror.testing import assert_no_leak
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, ON_SDK_1, ToolError, new_server, normalize

if not IS_FASTMCP:
    pytest.skip("fastmcp is not installed here", allow_module_level=True)

from fastmcp import Client
from fastmcp.server import create_proxy
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform, forward

from tests.hosts.test_registration import lookup, make_guard, not_found, result_of

pytestmark = [pytest.mark.host, pytest.mark.anyio]


def crashing():  # type: ignore[no-untyped-def]
    raise RuntimeError(scenarios.DSN)


def crash(tool: str) -> dict[str, Any]:
    """The whole result of a crash in a write."""
    return scenarios.failed(tool, *scenarios.CRASH)[0]


def unknown(tool: str) -> dict[str, Any]:
    """The whole answer to a call of a tool that is not there."""
    return {"error": {"code": -32602, "message": f"Unknown tool: {tool}", "data": {"iserror/request_id": "<id>"}}}


def guarded(*tools: Any, **settings: Any) -> Any:
    """A server with an attached guard and these functions as tools."""
    server = new_server(**settings)
    make_guard().attach(server)
    for fn in tools:
        server.tool()(fn)
    return server


# --- mounted ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
async def test_mounted_tools(when: str, lines: Lines) -> None:
    """Tools of a mounted server fail under their namespaced name, and an unknown one of it is unknown."""
    parent, child = new_server("parent"), new_server("child")
    for fn in (lookup, crashing):
        child.tool()(fn)
    if when == "before":
        parent.mount(child, namespace="billing")
    make_guard().attach(parent)
    if when == "after":
        parent.mount(child, namespace="billing")
    async with hosts.in_memory(parent) as call:
        assert not_found("billing_lookup") == normalize(await call("billing_lookup"))
        assert crash("billing_crashing") == normalize(await call("billing_crashing"))
        assert unknown("billing_gone") == normalize(await call("billing_gone"))
        assert unknown("lookup") == normalize(await call("lookup"))
    assert ["billing_lookup", "billing_crashing", "billing_gone", "lookup"] == [line["tool"] for line in lines.read()]


async def test_a_tool_added_to_a_mounted_server_later() -> None:
    """A tool that a server mounted on a mounted one gets last is guarded too."""
    parent, child, grandchild = guarded(), new_server("child"), new_server("grandchild")
    parent.mount(child, namespace="a")
    child.mount(grandchild, namespace="b")
    async with hosts.in_memory(parent) as call:
        assert unknown("a_b_lookup") == normalize(await call("a_b_lookup"))
        grandchild.tool()(lookup)
        assert not_found("a_b_lookup") == normalize(await call("a_b_lookup"))


async def test_a_mounted_server_with_a_guard_of_its_own(lines: Lines) -> None:
    """A mounted server's own guard maps its tools, the outer one what it does not know; each call has one line."""
    inner = ErrorMap()
    inner.add(KeyError, code="NO_SUCH_KEY", category="not_found", message="There is no such key.")
    parent, child = guarded(), new_server("child")
    ToolErrors(inner).attach(child)

    @child.tool()
    def key():  # type: ignore[no-untyped-def]
        raise KeyError(scenarios.SECRET)

    child.tool()(lookup)
    parent.mount(child, namespace="c")
    # `KeyError` isn't the author's own class: its category says nothing of the outcome.
    parts = ("NO_SUCH_KEY", "There is no such key.", "not_found", "unknown", scenarios.ONLY_IF_HARMLESS)
    async with hosts.in_memory(parent) as call:
        assert scenarios.failed("c_key", *parts)[0] == normalize(await call("c_key"))
        assert not_found("c_lookup") == normalize(await call("c_lookup"))
    assert ["NO_SUCH_KEY", "INVOICE_NOT_FOUND"] == [line["code"] for line in lines.read()]
    assert scenarios.failed("key", *parts)[0] == await result_of(child, "key")


# --- proxied ---------------------------------------------------------------------------------------------------


async def test_proxy_of_a_guarded_server(lines: Lines) -> None:
    """Of a guarded upstream's envelope code and category are kept; ids are this server's, and the words are quoted."""
    upstream = guarded(lookup)
    proxy = create_proxy(upstream)
    make_guard().attach(proxy)
    async with hosts.in_memory(proxy) as call:
        raw = await call("lookup")
    envelope = hosts.failure_of(raw)
    first, second = lines.read()
    assert ("INVOICE_NOT_FOUND", "not_found", "lookup") == (envelope["code"], envelope["category"], envelope["tool"])
    assert envelope["message"].startswith('"')
    assert {"request_id": first["request_id"]} == raw["result"]["_meta"]["iserror/upstream"]
    assert first["request_id"] == second["upstream_request_id"]
    assert second["request_id"] == envelope["request_id"] != first["request_id"]
    assert 1 == str(raw["result"]["content"]).count("request_id: ")


@pytest.mark.parametrize(
    ("settings", "outcome", "retryable"),
    [
        ({}, "unknown", False),
        ({"effects": {"*": "read"}}, "unknown", False),
        ({"effects": {"look": "read"}}, "not_applied", True),
        ({"trust_upstream": True}, "not_applied", True),
    ],
)
async def test_effect_of_a_proxied_tool(settings: Any, outcome: str, retryable: bool) -> None:
    """Neither a pattern nor the upstream's annotations make its tool read: its exact name does, or trust in it."""
    upstream = new_server("upstream")
    failure = {"code": "BANK_DOWN", "message": "Down.", "retryable": True, "outcome": "unknown", "tool": "theirs"}
    failure |= {"category": "unavailable", "request_id": "0" * 32}

    @upstream.tool(annotations=hosts.annotations(readOnlyHint=True))
    def look() -> Any:
        return hosts.host_error_result("BANK_DOWN: Down.", meta={"iserror/failure": failure})

    proxy = create_proxy(upstream)
    ToolErrors(**settings).attach(proxy)
    async with hosts.in_memory(proxy) as call:
        envelope = hosts.failure_of(await call("look"))
    assert (outcome, retryable) == (envelope["outcome"], envelope["retryable"])
    assert "look" == envelope["tool"]


async def test_proxy_of_a_bare_server(lines: Lines) -> None:
    """What a bare upstream answers is RETURNED_ERROR, redacted, and what it succeeds with passes."""
    upstream = new_server("upstream")
    upstream.tool()(crashing)

    @upstream.tool()
    def fine() -> str:
        return "fine"

    proxy = create_proxy(upstream)
    make_guard().attach(proxy)
    async with hosts.in_memory(proxy) as call:
        raw = await call("crashing")
        assert "fine" == hosts.text_of(await call("fine"))
    envelope = hosts.failure_of(raw)
    assert ("RETURNED_ERROR", "unknown", "unknown") == (envelope["code"], envelope["category"], envelope["outcome"])
    assert hosts.text_of(raw).startswith("RETURNED_ERROR: Error calling tool 'crashing': postgres://")
    assert_no_leak(raw, planted=scenarios.SECRET)
    assert ["RETURNED_ERROR"] == [line["code"] for line in lines.read()]


async def test_proxy_whose_upstream_is_gone(lines: Lines) -> None:
    """A proxied tool whose upstream does not answer is a crash of this server, without the address."""
    from fastmcp.server.providers.proxy import ProxyTool

    url = f"http://127.0.0.1:{hosts.free_port()}/mcp"
    bare = new_server()
    bare.tool()(lookup)
    async with Client(bare) as client:
        (definition,) = await client.list_tools()
    proxied = ProxyTool.from_mcp_tool(lambda: Client(url), definition)
    server = guarded()
    server.add_tool(proxied)
    async with hosts.in_memory(server) as call:
        raw = await call("lookup")
    assert crash("lookup") == normalize(raw)
    assert "127.0.0.1" not in str(raw)
    assert ["INTERNAL_ERROR"] == [line["code"] for line in lines.read()]


# --- transformed -----------------------------------------------------------------------------------------------


RENAMED = {"invoice_id": ArgTransform(name="id")}


def find(invoice_id: str):  # type: ignore[no-untyped-def]
    raise scenarios.InvoiceNotFound(invoice_id)


async def test_renamed_arguments(lines: Lines) -> None:
    """A transformed tool fails under its own name."""
    server = guarded()
    server.add_tool(Tool.from_tool(Tool.from_function(find), name="get", transform_args=RENAMED))
    async with hosts.in_memory(server) as call:
        assert not_found("get") == normalize(await call("get", {"id": "INV-42"}))
    assert [("INVOICE_NOT_FOUND", "get")] == [(line["code"], line["tool"]) for line in lines.read()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": {"a": scenarios.SECRET}}, "id: must be a string"),
        ({}, "id: is required"),
        ({"id": "INV-1", "made_up": 1}, "an argument that this tool does not have"),
    ],
)
async def test_renamed_arguments_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    """Bad arguments of a transformed tool are told by its own names, as an argument error and not as a crash."""
    server = guarded()
    server.add_tool(Tool.from_tool(Tool.from_function(find), name="get", transform_args=RENAMED))
    parts = ("INVALID_ARGUMENTS", message, "invalid_argument", "not_applied", scenarios.CHANGE)
    assert scenarios.failed("get", *parts)[0] == await result_of(server, "get", given)


async def test_a_renamed_tool_whose_result_cannot_be_serialised() -> None:
    """What the host cannot make a result of is the tool's output, through a renamed tool too, and took effect."""

    def make() -> str:
        return object()  # type: ignore[return-value]

    server = guarded()
    server.add_tool(Tool.from_tool(Tool.from_function(make), name="get"))
    assert "INVALID_OUTPUT" == hosts.failure_of(await result_of(server, "get", {}))["code"]


@pytest.mark.parametrize("where", ["before", "inside", "after", "inside-guarded"])
async def test_a_transform_function(where: str, lines: Lines) -> None:
    """What a transform function raises, and what comes through its `forward`, is mapped and logged once."""

    def inner(invoice_id: str):  # type: ignore[no-untyped-def]
        if where.startswith("inside"):
            raise scenarios.InvoiceNotFound(invoice_id)
        return "found"

    async def transform(invoice_id: str) -> Any:
        if where == "before":
            raise scenarios.InvoiceNotFound(invoice_id)
        result = await forward(invoice_id=invoice_id)
        if where == "after":
            raise scenarios.InvoiceNotFound(invoice_id)
        return result

    server = guarded()
    source = Tool.from_function(make_guard()(inner) if where == "inside-guarded" else inner)
    server.add_tool(Tool.from_tool(source, name="get", transform_fn=transform, output_schema=None))
    expected = not_found("get")
    if where == "inside-guarded":
        # Nested: what an inner tool did not apply, the outer one may have.
        parts = (*scenarios.NOT_FOUND[:3], "unknown", scenarios.ONLY_IF_HARMLESS)
        expected = scenarios.failed("get", *parts, **scenarios.NOT_FOUND_MORE)[0]
    assert expected == await result_of(server, "get", {"invoice_id": "INV-42"})
    assert [("INVOICE_NOT_FOUND", "get")] == [(line["code"], line["tool"]) for line in lines.read()]


async def test_a_transform_function_that_recovers(lines: Lines) -> None:
    """A transform function that catches a guarded tool's failure makes a success, and the log says recovered."""

    async def transform(invoice_id: str) -> str:
        try:
            await forward(invoice_id=invoice_id)
        except ToolFailure as failed:
            return f"recovered from {failed.code}"
        return "found"

    server = guarded()
    source = Tool.from_function(make_guard()(find))
    server.add_tool(Tool.from_tool(source, name="get", transform_fn=transform, output_schema=None))
    answer = await result_of(server, "get", {"invoice_id": "INV-42"})
    assert [{"type": "text", "text": "recovered from INVOICE_NOT_FOUND"}] == answer["result"]["content"]
    assert [("find", "recovered")] == [(line["tool"], line.get("handled")) for line in lines.read()]


# --- the host's own refusals -----------------------------------------------------------------------------------


async def test_a_disabled_tool_looks_like_an_unknown_one() -> None:
    """The answers for a disabled tool and for none differ in nothing but the name."""
    server = guarded(lookup)
    server.disable(names={"lookup"})
    assert unknown("lookup") == await result_of(server, "lookup")
    assert unknown("lookin") == await result_of(server, "lookin")
    server.enable(names={"lookup"})
    assert not_found("lookup") == await result_of(server, "lookup")


@pytest.mark.parametrize("masked", [False, True])
async def test_the_hosts_time_limit(masked: bool, lines: Lines) -> None:
    """fastmcp's own limit on a tool gives TIMEOUT, masked or not, with one line."""
    server = guarded(mask_error_details=masked)

    @server.tool(timeout=0.05)
    async def slow():  # type: ignore[no-untyped-def]
        await asyncio.sleep(30)

    message = "The tool did not finish within 0.05 s."
    parts = ("TIMEOUT", message, "deadline_exceeded", "unknown", scenarios.ONLY_IF_HARMLESS)
    expected = scenarios.failed("slow", *parts)[0]
    assert expected == await result_of(server, "slow")
    assert ["TIMEOUT"] == [line["code"] for line in lines.read()]


@pytest.mark.parametrize("given", [{"amount": "5"}, {"amount": 5, "made_up": 1}, {}])
async def test_strict_input_validation(given: dict[str, Any], lines: Lines) -> None:
    """With strict validation, on whose layer ever, refused arguments are told in the guard's words."""

    def pay(amount: int):  # type: ignore[no-untyped-def]
        return "paid"

    server = guarded(pay, strict_input_validation=True)
    message = {1: "amount: must be an integer", 2: "an argument that this tool does not have", 0: "amount: is required"}
    expected = scenarios.failed(
        "pay",
        "INVALID_ARGUMENTS",
        message[len(given)],
        "invalid_argument",
        "not_applied",
        scenarios.CHANGE,
    )[0]
    assert expected == await result_of(server, "pay", given)
    assert 1 == len(lines.read())


@pytest.mark.parametrize("mode", scenarios.MODES)
@pytest.mark.parametrize("masked", [False, True])
async def test_masking_changes_nothing(mode: str, masked: bool) -> None:
    """Masked or not, a guarded tool's text is the whole text."""
    guard, server = make_guard(), new_server(mask_error_details=masked)
    for fn in (lookup, crashing):
        server.tool()(fn if mode == "attached" else guard(fn))
    if mode != "decorated":
        guard.attach(server)
    for expected in (not_found("lookup"), crash("crashing")):
        name = expected["result"]["_meta"]["iserror/failure"]["tool"]
        answer = await result_of(server, name)
        assert hosts.text_of(expected) == hosts.text_of(answer)
        assert mode == "decorated" or expected == answer


@pytest.mark.parametrize("fault", ["mapped", "crash"])
async def test_a_dependency_that_fails(fault: str, lines: Lines) -> None:
    """A dependency that fails outside the body is mapped like the body, and nothing of it leaks."""
    from fastmcp.dependencies import Depends

    def session() -> str:
        raise scenarios.InvoiceNotFound("INV-42") if fault == "mapped" else RuntimeError(scenarios.DSN)

    server = guarded()

    @server.tool()
    def get(session: str = Depends(session)):  # type: ignore[no-untyped-def]
        return session

    async with hosts.in_memory(server) as call:
        raw = await call("get")
    assert (not_found("get") if fault == "mapped" else crash("get")) == normalize(raw)
    assert_no_leak(raw, planted=scenarios.SECRET)
    assert 1 == len(lines.read())


# --- background tasks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["decorated", "attached"])
async def test_background_tasks(mode: str, lines: Lines) -> None:
    """A tool that fails as a background task says the guard's whole text, with a request id of its own."""
    engine = "docket" if ON_SDK_1 else "fastmcp_tasks"
    tasks = pytest.importorskip(engine, reason="fastmcp's tasks extra is not installed here")
    guard, server = make_guard(), new_server()
    if not ON_SDK_1:
        server.add_extension(tasks.TasksExtension())

    async def slow_lookup():  # type: ignore[no-untyped-def]
        raise scenarios.InvoiceNotFound("INV-42")

    if mode == "attached":
        guard.attach(server)
    server.tool(task=True)(slow_lookup if mode == "attached" else guard(slow_lookup))
    async with Client(server) as client:
        if ON_SDK_1:
            task = await client.call_tool("slow_lookup", {}, task=True, raise_on_error=False)
            result = await task.result()
            said = [block.text for block in result.content]
        else:
            task = await tasks.call_tool_task(client, "slow_lookup", {})
            with pytest.raises(ToolError) as failed:
                await task.result()
            said = [str(failed.value)]
    (line,) = lines.read()
    text = hosts.text_of(not_found("slow_lookup")).replace("<id>", line["request_id"])
    assert [text] == said
    assert ("slow_lookup", "INVOICE_NOT_FOUND") == (line["tool"], line["code"])


# --- what the host says besides --------------------------------------------------------------------------------


class Records(logging.Handler):
    """Everything that reaches the host's loggers."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = "" if not record.exc_info else logging.Formatter().formatException(record.exc_info)
        self.texts.append(f"{record.levelname} {record.getMessage()}{trace}")


@pytest.fixture
def records() -> Iterator[Records]:
    handler = Records()
    logger = logging.getLogger("fastmcp")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def test_what_the_host_logs(records: Records, lines: Lines) -> None:
    """Of what the guard answers, only a crash is in a record of the host's, once."""

    def refusing():  # type: ignore[no-untyped-def]
        raise ToolError("order 7 is closed")

    def pay(amount: int):  # type: ignore[no-untyped-def]
        return "paid"

    server = guarded(lookup, crashing, refusing, pay)
    async with hosts.in_memory(server) as call:
        for tool in ("lookup", "crashing", "refusing"):
            await call(tool)
        await call("pay", {"amount": scenarios.SECRET})
    codes = ["INVOICE_NOT_FOUND", "INTERNAL_ERROR", "TOOL_ERROR", "INVALID_ARGUMENTS"]
    assert codes == [line["code"] for line in lines.read()]
    (text,) = (text for text in records.texts if not text.startswith("DEBUG"))
    assert text.startswith("ERROR Error calling tool 'crashing'Traceback")
