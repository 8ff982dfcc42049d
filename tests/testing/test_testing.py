"""`iserror.testing`: a client in memory, and assertions that hold what they say, on every host."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import logging
import subprocess
import sys
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import structlog

from iserror import ToolErrors, ToolFailure, configure_logging
from iserror.client import OutcomeUnknown, ProtocolFailed, Succeeded, ToolFailed
from iserror.testing import Connection, assert_no_leak, assert_protocol_error, assert_tool_error, connect
from iserror.testing.asserts import _read_text
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.servers import checked_server

pytestmark = pytest.mark.host

HINT = "Use one of: INV-1, INV-2."
SECRET = scenarios.SECRET
# One that no rule knows, with what every encoding changes.
PLANTED = '>>>???quokka "é<&>\\ lives/here?'


@pytest.fixture(scope="module")
def attached() -> Any:
    return scenarios.build("attached")


@pytest.fixture(scope="module")
def decorated() -> Any:
    return scenarios.build("decorated")


@pytest.fixture(scope="module")
def bare() -> Any:
    return checked_server.build(False)


# --- the client ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_connect(attached: Any) -> None:
    """A call gives a success, a tool's failure or a protocol error as an outcome, and the client is the host's own."""
    async with connect(attached) as connection:
        assert isinstance(await connection.call("succeed"), Succeeded)
        assert isinstance(await connection.call("busy", {}), ToolFailed)
        assert isinstance(await connection.call("no_such_tool"), ProtocolFailed)
        assert isinstance(connection, Connection)
        assert type(connection.client).__name__ == ("ClientSession" if hosts.HOST == "mcp1" else "Client")
        assert await connection.client.list_tools()


@pytest.mark.anyio
async def test_connect_meta(lines: Lines, attached: Any) -> None:
    """What is given as `meta` reaches the server: a trace id stands in the log."""
    async with connect(attached) as connection:
        await connection.call("busy", meta={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    assert [line["trace_id"] for line in lines.read()] == ["a" * 32]


@pytest.mark.anyio
@pytest.mark.parametrize("thing", [None, 7, hosts.FastMCP], ids=repr)
async def test_connect_to_no_server(thing: Any) -> None:
    """What is no server is refused, with the names of those that are supported."""
    with pytest.raises(TypeError, match="supported are "):
        async with connect(thing):
            raise AssertionError


@pytest.mark.anyio
async def test_connect_passes_what_the_test_raises(attached: Any) -> None:
    """An assertion, or a skip, inside the block leaves it as it is, not in a group of the client's."""
    for raised in (AssertionError("mine"), pytest.skip.Exception("mine")):
        with pytest.raises(type(raised)) as caught:
            async with connect(attached):
                raise raised
        assert caught.value is raised


@pytest.mark.anyio
async def test_connect_is_cancelled(attached: Any) -> None:
    """A block that is cancelled ends, and the code after it runs on."""
    with anyio.CancelScope() as scope:
        async with connect(attached):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_a_connection_that_is_closed(attached: Any) -> None:
    """A call that cannot be made is an outcome too."""
    async with connect(attached) as connection:
        pass
    outcome = await connection.call("succeed")
    assert not isinstance(outcome, Succeeded)


def test_call_tool(call_tool: Any) -> None:
    """In a plain test all calls run on one event loop, which is left to nobody and closed without a warning."""
    loops = []
    server = hosts.new_server()

    @server.tool()
    async def loop() -> str:
        loops.append(asyncio.get_running_loop())
        task = asyncio.create_task(asyncio.sleep(60))
        loops.append(task)
        return "x"

    assert [call_tool(server, "loop").text, call_tool(server, "loop", {}, meta={}).text] == ["x", "x"]
    assert loops[0] is loops[2]
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


@pytest.mark.anyio
async def test_call_tool_in_an_async_test(call_tool: Any, attached: Any) -> None:
    """Where a loop is running it says what to use instead."""
    with pytest.raises(RuntimeError, match=r"use `async with connect\(server\)`"):
        call_tool(attached, "succeed")


# --- assert_tool_error ---------------------------------------------------------------------------------------


async def _forms(server: Any, tool: str) -> list[Any]:
    """An error in every form in which a client of this host hands it out."""
    async with connect(server) as connection:
        client = connection.client
        outcome = await connection.call(tool)
        if hosts.IS_FASTMCP:
            from fastmcp.exceptions import ToolError

            raw = await client.call_tool_mcp(tool, {})
            more: list[Any] = [await client.call_tool(tool, {}, raise_on_error=False)]
            try:
                await client.call_tool(tool, {})
            except ToolError as exc:
                more.append(exc)
            assert len(more) == 2
        else:
            raw, more = await client.call_tool(tool, {}), []
    wire = raw.model_dump(mode="json", by_alias=True, exclude_none=True)
    answer = {"jsonrpc": "2.0", "id": 7, "result": wire}
    return [outcome, raw, wire, {"result": wire}, answer, json.dumps(answer).encode(), *more]


@pytest.mark.anyio
async def test_a_tool_error_in_every_form(attached: Any) -> None:
    """Whatever a client hands out, the assertion holds and the failure has the envelope's words."""
    for form in await _forms(attached, "not_found_sync_typed"):
        failure = assert_tool_error(form, code="INVOICE_NOT_FOUND", retryable=False, outcome="not_applied")
        assert (failure.hint, failure.tool) == (HINT, "not_found_sync_typed"), type(form)
        if not isinstance(form, Exception):
            assert_tool_error(form, category="not_found")
            assert failure.details == {"invoice_id": "INV-42"}


@pytest.mark.anyio
async def test_a_tool_error_of_a_tool_that_is_only_decorated(decorated: Any) -> None:
    """Without `attach` there is no envelope; the text says the code, behind whatever the host puts before it."""
    for form in await _forms(decorated, "not_found_sync"):
        assert assert_tool_error(form, code="INVOICE_NOT_FOUND", retryable=False).hint == HINT


def test_a_tool_failure_in_process() -> None:
    """What a guarded function raises is taken as it is; what an author makes and no guard has seen is not."""
    refusal = ToolFailure("CARD_DECLINED", "The card was declined.", category="aborted", outcome="partial")

    @ToolErrors()
    def tool() -> None:
        raise refusal

    with pytest.raises(ToolFailure) as caught:
        tool()
    failure = assert_tool_error(caught.value, code="CARD_DECLINED", category="aborted", outcome="partial")
    assert failure is caught.value.failure
    with pytest.raises(AssertionError, match=r"was not raised by a guard: CARD_DECLINED: The card was declined\.$"):
        assert_tool_error(refusal)


@pytest.mark.anyio
async def test_a_tool_error_that_is_another(attached: Any) -> None:
    """Each expectation that does not hold is named with what was found; one that holds is not."""
    async with connect(attached) as connection:
        outcome = await connection.call("busy")
    assert_tool_error(outcome, code="BILLING_BUSY", retryable=True, category="unavailable", outcome="not_applied")
    for wanted, said in {
        ("code", "BILLING_DOWN"): "expected code 'BILLING_DOWN', found 'BILLING_BUSY'",
        ("retryable", False): "expected retryable False, found True",
        ("category", "internal"): "expected category 'internal', found 'unavailable'",
        ("outcome", "applied"): "expected outcome 'applied', found 'not_applied'",
    }.items():
        with pytest.raises(AssertionError) as caught:
            assert_tool_error(outcome, **dict([wanted]))  # type: ignore[arg-type]
        assert str(caught.value).startswith(f"{said} in BILLING_BUSY: The billing service is busy.")
        assert str(caught.value).count("expected") == 1
        assert "\n" not in str(caught.value)
    with pytest.raises(AssertionError, match=r"expected code .*; expected outcome "):
        assert_tool_error(outcome, code="BILLING_DOWN", outcome="applied")


@pytest.mark.anyio
async def test_no_tool_error(attached: Any, bare: Any) -> None:
    """A success, a JSON-RPC error, a bare host's error and a lost call are told apart, without the secret in them."""
    async with connect(attached) as connection:
        success, unknown = await connection.call("succeed"), await connection.call("no_such_tool")
    async with connect(bare) as connection:
        crash = await connection.call("crash")
    for outcome, said in [
        (success, "a success: done"),
        (unknown, "JSON-RPC error -32602: Unknown tool: no_such_tool"),
        (crash, "a tool error without an envelope: "),
        (OutcomeUnknown("timeout", "nothing within 5 s."), "OutcomeUnknown: No answer came: nothing within 5 s."),
    ]:
        with pytest.raises(AssertionError) as caught:
            assert_tool_error(outcome)
        assert str(caught.value).startswith(f"expected a guarded tool's error, found {said}")
        assert checked_server.PASSWORD not in str(caught.value)
    with pytest.raises(TypeError, match="cannot classify"):
        assert_tool_error(None)


TELLING = {
    "change the call first",
    "do not repeat it unchanged",
    "repeat it only if it changes nothing",
    "it may have taken effect, check before any further call",
    "part of it took effect, check before any further call",
    "it took effect, check before any further call",
}
"""The advice that tells the outcome."""


def test_what_a_text_says() -> None:
    """Every text of a guard is read as its envelope has it, but for what it does not say, which is named."""
    texts = 0
    for scenario in scenarios.SCENARIOS:
        envelope = scenario.attached.get("result", {}).get("_meta", {}).get("iserror/failure")
        if envelope is None:
            continue
        texts += 1
        text = scenario.attached["result"]["content"][0]["text"].replace("<id>", "0" * 32)
        failure, missing = _read_text(text)
        assert failure is not None
        for name in {"code", "message", "hint", "retryable", "retry_after", "tool", "outcome"} - missing:
            assert getattr(failure, name) == envelope.get(name), (scenario.tool, name)
        assert missing - {"outcome"} == {"category"}
        assert ("outcome" in missing) == (envelope.get("advice") not in TELLING)
    assert texts > 20
    outcome = ToolFailed(None, ({"type": "text", "text": text},))
    with pytest.raises(AssertionError, match="expected category 'not_found', which the text alone does not show"):
        assert_tool_error(outcome, category="not_found")


# --- assert_protocol_error -----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_protocol_error_in_every_form(attached: Any) -> None:
    """An outcome, an exception and JSON are all the same JSON-RPC error."""
    async with connect(attached) as connection:
        outcome = await connection.call("protocol")
        with pytest.raises(hosts.ProtocolError) as caught:
            await (connection.client.call_tool_mcp if hosts.IS_FASTMCP else connection.client.call_tool)("protocol", {})
    raw = {"code": -31001, "message": "tenant is not provisioned"}
    for form in (outcome, caught.value, {"error": raw}, {"jsonrpc": "2.0", "id": 1, "error": raw}):
        assert assert_protocol_error(form, code=-31001).message == "tenant is not provisioned"
    with pytest.raises(AssertionError, match=r"^expected code -32602, found JSON-RPC error -31001: tenant is not prov"):
        assert_protocol_error(outcome, code=-32602)
    async with connect(attached) as connection:
        with pytest.raises(AssertionError, match=r"^expected a JSON-RPC error, found a tool error: BILLING_BUSY: "):
            assert_protocol_error(await connection.call("busy"))


# --- assert_no_leak ------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_no_leak_of_a_guarded_server(captured_failures: list[dict[str, Any]]) -> None:
    """Nothing of a guarded server's answers leaks, in any form, nor do the records of its failures."""
    server = checked_server.build(True)
    forms = await _forms(server, "crash")
    assert_no_leak(*forms, captured_failures, *captured_failures, planted=checked_server.PASSWORD)
    assert len(captured_failures) >= 2


@pytest.mark.anyio
async def test_a_leak_of_a_bare_server() -> None:
    """What a bare server's tool lets out is found in every form, by kind and place, and not repeated."""
    server = hosts.new_server()

    @server.tool()
    def tool() -> str:
        raise hosts.ToolError(f"cannot connect to {scenarios.DSN}")

    for form in await _forms(server, "tool"):
        with pytest.raises(AssertionError) as caught:
            assert_no_leak(form, planted=[SECRET])
        place = "the error's message" if isinstance(form, Exception) else "content[0]"
        assert str(caught.value) == f"leaked: userinfo in {place}, ip in {place}, planted[0] in {place}"


@pytest.mark.anyio
async def test_a_leak_in_a_protocol_error() -> None:
    """A JSON-RPC error's message and data are looked at as they came, not as the outcome shows them."""
    server = hosts.new_server()
    in_message, in_data = f"no token={SECRET}", {"password": SECRET}

    @server.tool()
    def tool(where: str) -> str:
        return where

    for message, data, place in ((in_message, None, "message"), ("no", in_data, "data")):
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": message, "data": data}}
        raised = hosts.protocol_error(-1, message, data)
        async with connect(server) as connection:
            connection._send = _raise(raised)  # bare hosts make results of them, or hide them
            outcome = await connection.call("tool")
        assert isinstance(outcome, ProtocolFailed)
        assert SECRET not in repr(outcome)
        for form in (error, raised, outcome):
            with pytest.raises(AssertionError, match=f"in the error's {place}") as caught:
                assert_no_leak(form)
            with pytest.raises(AssertionError, match=rf"planted\[0\] in the error's {place}"):
                assert_no_leak(form, planted=SECRET)
            assert SECRET not in str(caught.value)


def _raise(exc: Exception) -> Any:
    async def send(*args: Any) -> Any:
        raise exc

    return send


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("", f"a {PLANTED} b"),
        ("", PLANTED.upper()),
        (" (escaped)", json.dumps({"a": PLANTED})),
        (" (escaped)", json.dumps({"a": PLANTED}, ensure_ascii=False)),
        (" (escaped)", repr([PLANTED])),
        (" (HTML)", f"<p>{html.escape(PLANTED)}</p>"),
        (" (URL)", f"https://example.test/{quote(PLANTED)}"),
        (" (URL)", f"https://example.test/?q={quote(PLANTED, safe='').replace('%20', '+')}"),
        *((" (base64)", base64.b64encode(f"{'x' * n}{PLANTED}y".encode()).decode()) for n in range(3)),
        (" (base64)", base64.urlsafe_b64encode(f"{PLANTED}???".encode()).decode()),
        (" (hex)", f"0x{PLANTED.encode().hex()}"),
    ],
)
@pytest.mark.parametrize("wrap", [str, str.encode, lambda text: {"note": [text]}, lambda text: [{text: 1}]])
def test_planted_texts(how: str, text: str, wrap: Any) -> None:
    """A planted text is found as it is, escaped and encoded, in texts, bytes, values and keys; others are not."""
    with pytest.raises(AssertionError) as caught:
        assert_no_leak(wrap(text), planted=("not there", PLANTED))
    assert str(caught.value).startswith(f"leaked: planted[1]{how} in ")
    assert "quokka" not in str(caught.value).lower()
    assert_no_leak(wrap(text), planted="not there")


def test_where_a_leak_is() -> None:
    """A key tells what its value is, the place and the argument are named, and insides count in errors only."""
    with pytest.raises(AssertionError, match=r"^leaked: secret in 'password' of argument 2$"):
        assert_no_leak({"event": "x"}, {"event": "y", "password": SECRET})
    with pytest.raises(AssertionError, match=r"^leaked: secret in \[1\]$"):
        assert_no_leak([{}, {"password": SECRET}])
    inside = 'File "/srv/billing/app.py", line 7, in pay'
    success = {"content": [{"type": "text", "text": inside}]}
    assert_no_leak(inside, success, [{"event": inside}], Succeeded(tuple(success["content"])))
    for error in ({**success, "isError": True}, ToolFailed(None, tuple(success["content"])), ValueError(inside)):
        with pytest.raises(AssertionError, match=r"^leaked: "):
            assert_no_leak(error)


def test_planted_texts_that_are_too_short() -> None:
    """A planted text that would be found by chance is refused."""
    for planted in ("abc", ["long enough", ""]):
        with pytest.raises(ValueError, match="is too short: use 4 characters or more"):
            assert_no_leak("abc", planted=planted)


# --- captured_failures ---------------------------------------------------------------------------------------


def test_captured_failures(
    lines: Lines, captured_failures: list[dict[str, Any]], call_tool: Any, attached: Any
) -> None:
    """The captured records are those in the log, but for what only a file knows; a success leaves none."""
    for tool in ("busy", "crash_sync", "protocol", "succeed"):
        call_tool(attached, tool)
    assert [record["code"] for record in captured_failures] == ["BILLING_BUSY", "INTERNAL_ERROR", "-31001"]
    written = lines.read()
    for record in (*written, *captured_failures):
        assert record.pop("timestamp").endswith("Z")
        record.pop("lines", None)
    assert captured_failures == written


def test_captured_failures_leave_logging_alone(
    captured_failures: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's structlog, at a level that drops the line, is as before, and the record is captured all the same."""
    seen: list[Any] = []
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, lambda *args: seen.append(args) or "x"],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    before = structlog.get_config()["processors"][:]

    @ToolErrors()
    def refuse() -> None:
        raise ToolFailure("NOT_NOW", "Not now.")

    with pytest.raises(ToolFailure):
        refuse()
    assert [record["code"] for record in captured_failures] == ["NOT_NOW"]
    assert (seen, structlog.get_config()["processors"]) == ([], before)

    configure_logging(stderr=True, level="CRITICAL")
    with pytest.raises(ToolFailure):
        refuse()
    assert (len(captured_failures), "NOT_NOW" in capsys.readouterr().err) == (2, False)


def test_failures_are_captured_for_one_test(request: pytest.FixtureRequest) -> None:
    """Without the fixture nothing is collected."""
    from iserror.logs.chain import State

    assert State.captured is None
    request.getfixturevalue("captured_failures")
    assert State.captured == []


def test_testing_needs_no_pytest() -> None:
    """Nothing that a suite imports from it loads pytest or a host."""
    code = """
import sys, iserror.testing
before = {'iserror.client', 'pydantic'} & set(sys.modules)
from iserror.testing import *
print(before, {'pytest', 'mcp', 'fastmcp'} & set(sys.modules), connect.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set() set() connect\n"
