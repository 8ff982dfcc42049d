"""What came of a call is read from the protocol's fields alone, whatever form the answer has when it gets here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iserror.client import (
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolFailed,
    UrlElicitationRequired,
    classify,
)
from iserror.client import outcome as outcome_module
from iserror.support.causes import Group
from tests.helpers.hosts import IS_FASTMCP, ON_SDK_1, CallToolResult, TextContent, protocol_error, types

pytestmark = pytest.mark.host

ID = "0197f0a0c0de7000800000000000beef"
ENVELOPE = {
    "code": "BUSY",
    "message": "The service is busy.",
    "retryable": True,
    "retry_after": 2.0,
    "outcome": "not_applied",
    "category": "unavailable",
    "tool": "pay",
    "request_id": ID,
}
TEXT = {"type": "text", "text": "hello"}


def response(result: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result, **more}


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    body = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": 1, "error": body if data is None else {**body, "data": data}}


# --- the three messages of a raw conversation ----------------------------------------------------------------


def test_an_unknown_tool() -> None:
    """An unknown tool is a failed request, and the names that are like it come along, the best first."""
    message = error(-32602, "Unknown tool: getInvoices", {"iserror/request_id": ID})

    outcome = classify(message, catalogue=["pay_invoice", "get_invoice", "list_rows"])

    assert outcome == ProtocolFailed(
        -32602, "Unknown tool: getInvoices", {"iserror/request_id": ID}, ("get_invoice", "pay_invoice")
    )
    assert outcome.request_id == ID
    assert "get_invoice" in outcome.report


def test_an_error_result() -> None:
    """An `isError` result is a failed tool: its envelope and its words are kept."""
    outcome = classify(response({"content": [TEXT], "isError": True, "_meta": {"iserror/failure": ENVELOPE}}))

    assert isinstance(outcome, ToolFailed)
    assert (outcome.code, outcome.retryable, outcome.request_id) == ("BUSY", True, ID)
    assert outcome.failure is not None
    assert outcome.failure.to_wire() == ENVELOPE
    assert outcome.text == "hello"


@pytest.mark.parametrize("kind", ["result", "error", "exception"])
def test_what_was_sent_is_not_redacted(kind: str) -> None:
    """The server's text keeps the path that the call sent; another path, a credential and the details are redacted."""
    path, key = "/home/ann/report.txt", "sk_" + "live_" + "a1B2c3D4e5F6g7H8" * 2
    text = f"No {path}, nor /srv/app/x.py, for {key}."
    envelope = {**ENVELOPE, "message": text, "hint": f"Look for {path}.", "details": {"path": path}}
    answer: Any = {
        "result": response({"content": [], "isError": True, "_meta": {"iserror/failure": envelope}}),
        "error": error(-32001, text, {"iserror/failure": envelope}),
        "exception": protocol_error(-32001, text, {"iserror/failure": envelope}),
    }[kind]
    told = classify(answer, arguments={"path": path, "key": key})
    assert isinstance(told, (ToolFailed, ProtocolFailed))
    assert told.failure is not None
    said = f"No {path}, nor [redacted:path], for [redacted:stripe_key]."
    assert (told.failure.message, told.failure.hint) == (said, f"Look for {path}.")
    assert told.failure.details == {"path": "[redacted:path]"}
    assert isinstance(told, ToolFailed) or told.message == said
    untold = classify(answer)
    assert isinstance(untold, (ToolFailed, ProtocolFailed))
    assert untold.failure is not None
    assert path not in untold.failure.text


def test_a_result() -> None:
    """Anything else is a success, with everything that was sent."""
    sent = {"content": [TEXT], "structuredContent": {"id": 7}, "_meta": {"a": 1}}
    assert classify(json.dumps(response(sent)).encode()) == Succeeded((TEXT,), {"id": 7}, None, {"a": 1})


def test_a_partial_result() -> None:
    """A result that says that something is missing is a success with what is missing; a complete one has nothing."""
    failed = {"id": 2, "code": "BUSY", "message": "Busy.", "retryable": True, "outcome": "not_applied"}
    sent = {"complete": False, "succeeded": [1], "failed": [failed], "next_cursor": None}

    outcome = classify(response({"content": [TEXT], "structuredContent": sent}))

    assert isinstance(outcome, Succeeded)
    assert outcome.partial is not None
    assert [item.code for item in outcome.partial.failed] == ["BUSY"]
    assert "1 of 2 items failed" in outcome.partial.summary
    for other in ({**sent, "failed": []}, {"complete": False}, {**sent, "failed": ["x"]}, [sent], None):
        complete = classify(response({"content": [TEXT], "structuredContent": other}))
        assert isinstance(complete, Succeeded)
        assert complete.partial is None


# --- statuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["error: failed", '{"error": "x", "isError": true}', "Traceback (most recent", ""])
def test_words_change_nothing(text: str) -> None:
    """A success that speaks of errors is a success, and an error result that says all is well is a failure."""
    block = {"type": "text", "text": text}
    assert isinstance(classify(response({"content": [block]})), Succeeded)
    assert isinstance(classify(response({"content": [block], "structuredContent": {"error": text}})), Succeeded)
    assert isinstance(classify(response({"content": [block], "isError": True})), ToolFailed)


def test_an_error_without_content() -> None:
    """An error result without content is a failure still; its report says something."""
    outcome = classify(response({"content": [], "isError": True}))
    assert outcome == ToolFailed(None, ())
    assert (outcome.code, outcome.retryable) == (None, None)
    assert outcome.report == "The tool failed and did not say why."


def test_no_flag_is_a_success() -> None:
    """Without `isError` a result is a success (schema, `CallToolResult`)."""
    assert classify(response({"content": []})) == Succeeded(())


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "ok",
        {},
        {"content": None},
        {"content": "text"},
        {"content": {"type": "text", "text": "x"}},
        {"content": [None]},
        {"content": ["x"]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 7}]},
        {"content": [{"type": "image", "data": "aGk="}]},
        {"content": [{"type": "audio", "mimeType": "audio/wav"}]},
        {"content": [{"type": "resource_link", "uri": "file:///x"}]},
        {"content": [{"type": "resource", "resource": {"uri": "file:///x"}}]},
        {"content": [{"type": "hologram", "data": "x"}]},
        {"content": [{"type": ["text"], "text": "x"}]},
        {"content": [TEXT], "isError": "true"},
        {"content": [TEXT], "isError": "false"},
        {"content": [TEXT], "isError": 1},
        {"content": [TEXT], "isError": 0},
        {"content": [TEXT], "isError": None},
        {"content": [TEXT], "_meta": []},
        {"content": [TEXT], "resultType": "task"},
        {"task": {"taskId": "1", "status": "working"}},
        {"resultType": "input_required"},
        {"resultType": "input_required", "inputRequests": []},
    ],
    ids=repr,
)
def test_a_result_of_no_schema(result: Any) -> None:
    """What fits no schema is never taken for a result, good or bad."""
    outcome = classify(response(result))
    assert isinstance(outcome, ContractBroken)
    assert "may have taken effect" in outcome.report


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"null",
        b"7",
        {},
        {"result": {"content": []}},
        {"jsonrpc": "1.0", "id": 1, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "result": {"content": []}},
        {"jsonrpc": "2.0", "id": None, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": True, "result": {"content": []}},
        {"jsonrpc": "2.0", "id": [1], "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": []}, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "result": {"content": []}, "error": None},
        {"jsonrpc": "2.0", "id": 1, "error": None},
        {"jsonrpc": "2.0", "id": 1, "error": "boom"},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": "x"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -1}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32042, "message": "x", "data": {"elicitations": "y"}}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}},
    ],
    ids=repr,
)
def test_a_message_that_is_no_response(message: Any) -> None:
    """What is no JSON-RPC response is a broken contract."""
    assert isinstance(classify(message), ContractBroken)


@pytest.mark.parametrize(("asked", "answered"), [(1, 2), (1, "1"), ("1", 1), ("a", "b"), (1, 1.0)])
def test_an_id_that_does_not_match(asked: Any, answered: Any) -> None:
    """An answer to another request is none to this one."""
    assert isinstance(classify(response({"content": []}, id=answered), jsonrpc_id=asked), ContractBroken)


def test_ids_that_match() -> None:
    """The request's own id, and the null of a request whose id could not be read, are accepted."""
    assert isinstance(classify(response({"content": []}), jsonrpc_id=1), Succeeded)
    assert isinstance(classify(response({"content": []}, id="a"), jsonrpc_id="a"), Succeeded)
    assert isinstance(classify({**error(-32700, "Parse error"), "id": None}, jsonrpc_id=1), ProtocolFailed)


# --- neither success nor failure -----------------------------------------------------------------------------


def test_input_required() -> None:
    """A request for input is neither success nor failure, and keeps what has to be sent back."""
    asked = {"q": {"method": "elicitation/create", "params": {}}}
    sent = {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"}
    assert classify(response(sent)) == InputRequired(asked, "s1")
    assert classify(response({"resultType": "input_required", "requestState": "s1"})) == InputRequired({}, "s1")


def test_url_elicitation() -> None:
    """A link that the user has to follow is no failure; the link itself stays out of the report."""
    link = {"mode": "url", "url": "https://pay.example/authorize?state=1", "elicitationId": "1", "message": "Sign in"}
    outcome = classify(error(-32042, "Sign in first", {"elicitations": [link]}))
    assert outcome == UrlElicitationRequired((link,), "Sign in first")
    assert "https" not in outcome.report


# --- what is kept --------------------------------------------------------------------------------------------


def test_every_kind_of_content_is_kept_and_named() -> None:
    """No block is dropped: each is in `content` whole, and in `text` at least by name."""
    blocks = [
        TEXT,
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///report.pdf", "name": "report"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "line 1"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "aGVsbG8=", "mimeType": "application/zip"}},
    ]
    outcome = classify(response({"content": blocks}))
    assert isinstance(outcome, Succeeded)
    assert list(outcome.content) == blocks
    assert outcome.text.splitlines() == [
        "hello",
        "[image, image/png, 6 bytes]",
        "[audio, audio/wav, 6 bytes]",
        "[resource link report: file:///report.pdf]",
        "[resource file:///a.txt]",
        "line 1",
        "[resource file:///a.bin, application/zip, 6 bytes]",
    ]


@pytest.mark.parametrize(
    "envelope",
    [
        None,
        {},
        "x",
        {**ENVELOPE, "code": "no code"},
        {**ENVELOPE, "request_id": "7"},
        {**ENVELOPE, "retryable": "yes!"},
    ],
    ids=repr,
)
def test_an_envelope_that_is_none(envelope: Any) -> None:
    """A malformed envelope is no envelope: the words are kept, nothing is claimed."""
    outcome = classify(response({"content": [TEXT], "isError": True, "_meta": {"iserror/failure": envelope}}))
    assert isinstance(outcome, ToolFailed)
    assert (outcome.failure, outcome.code, outcome.retryable, outcome.text) == (None, None, None, "hello")


def test_an_envelope_of_a_later_version() -> None:
    """A field that this version does not know costs no envelope."""
    outcome = classify(
        response({"content": [TEXT], "isError": True, "_meta": {"iserror/failure": {**ENVELOPE, "severity": 3}}})
    )
    assert isinstance(outcome, ToolFailed)
    assert outcome.code == "BUSY"


def test_the_request_id_of_a_text() -> None:
    """Where a server has no `_meta` to speak in, the closing line of its text still names the log's key, no more."""
    text = f"BUSY: The service is busy.\n[pay failed; may be repeated; request_id: {ID}]"
    outcome = classify(response({"content": [{"type": "text", "text": text}], "isError": True}))
    assert isinstance(outcome, ToolFailed)
    assert (outcome.request_id, outcome.retryable, outcome.code) == (ID, None, None)


def test_a_protocol_failure_is_safe_to_show() -> None:
    """Message and data of a JSON-RPC error are redacted: they may hold what a server leaked."""
    leak = "postgres://app:" + "hunter2" + "@10.0.0.9/prod"
    outcome = classify(error(-32603, f"cannot reach {leak}\x1b[2J", {"dsn": leak}))
    assert isinstance(outcome, ProtocolFailed)
    assert "hunter2" not in repr(outcome) + outcome.report
    assert "\x1b" not in outcome.message


def test_arguments_that_do_not_fit() -> None:
    """The envelope of a refused request is read from its data."""
    refused = {**ENVELOPE, "code": "INVALID_ARGUMENTS", "category": "invalid_argument", "retryable": False}
    del refused["retry_after"]
    outcome = classify(error(-32602, "Invalid arguments", {"iserror/failure": refused, "iserror/request_id": ID}))
    assert isinstance(outcome, ProtocolFailed)
    assert outcome.failure is not None
    assert outcome.failure.code == "INVALID_ARGUMENTS"
    assert outcome.closest == ()


@pytest.mark.parametrize(
    ("called", "expected"),
    [("getInvoice", ("get_invoice",)), ("GET-INVOICE", ("get_invoice",)), ("zzz", ()), ("get_invoice", ())],
)
def test_the_closest_names(called: str, expected: tuple[str, ...]) -> None:
    """Names are compared without case and punctuation; a name that exists has no likeness."""
    outcome = classify(error(-32602, "no"), tool=called, catalogue=iter(["get_invoice", "zebra_crossing_report"]))
    assert isinstance(outcome, ProtocolFailed)
    assert outcome.closest == expected
    other = classify(error(-32603, "no"), tool=called, catalogue=["get_invoice"])
    assert isinstance(other, ProtocolFailed)
    assert other.closest == ()


def test_a_report_is_short() -> None:
    """Whatever a server sends, the report stays below 2,000 characters and drives no terminal."""
    blocks = [{"type": "text", "text": "\x1b]0;x\x07\u202e" + "word " * 100_000}]
    for outcome in (
        classify(response({"content": blocks, "isError": True})),
        classify(response({"content": blocks})),
        classify(error(-32603, blocks[0]["text"], {"x": blocks[0]["text"]})),
    ):
        tried = replace(outcome, attempts=3)
        assert 0 < len(outcome.report) <= len(tried.report) <= 2_000
        assert tried.report.endswith("\n[tried 3 times]")
        assert not set(outcome.report) & {"\x1b", "\x07", "\u202e"}


# --- results of the SDKs -------------------------------------------------------------------------------------


def test_the_sdks_own_result() -> None:
    """An SDK's result means what its wire form means."""
    sent = {
        "content": [TEXT],
        "isError": True,
        "structuredContent": {"a": None},
        "_meta": {"iserror/failure": ENVELOPE},
    }
    outcome = classify(CallToolResult.model_validate(sent))
    assert outcome == classify(response(sent))
    assert classify(CallToolResult(content=[TextContent(type="text", text="hello")])) == Succeeded((TEXT,))


@pytest.mark.skipif(not IS_FASTMCP, reason="fastmcp is not installed here")
def test_fastmcps_own_result() -> None:
    """fastmcp's parsed result means what its wire form means."""
    from fastmcp.client.client import CallToolResult as Parsed

    failed = Parsed([TextContent(type="text", text="hello")], None, {"iserror/failure": ENVELOPE}, is_error=True)
    assert classify(failed) == ToolFailed(
        classify(response({"content": [], "isError": True, "_meta": {"iserror/failure": ENVELOPE}})).failure,  # type: ignore[union-attr]
        (TEXT,),
        None,
        {"iserror/failure": ENVELOPE},
    )
    assert classify(Parsed([], {"id": 7}, None, data=object())) == Succeeded((), {"id": 7})


@pytest.mark.skipif(ON_SDK_1, reason="mcp 1.x knows no input-required result")
def test_the_sdks_own_input_required_result() -> None:
    """The 2.x SDK's input-required result is one."""
    assert classify(types.InputRequiredResult(request_state="s1")) == InputRequired({}, "s1")


# --- exceptions ----------------------------------------------------------------------------------------------


def http_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://mcp.internal/mcp")
    return httpx.HTTPStatusError(f"{status} for http://mcp.internal", request=request, response=httpx.Response(status))


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (protocol_error(-32602, "Unknown tool: x"), ProtocolFailed),
        (protocol_error(-32000, "the session has no workspace"), ProtocolFailed),
        (protocol_error(-32042, "x", {"elicitations": []}), UrlElicitationRequired),
        (protocol_error(-32000, "Connection closed"), OutcomeUnknown),
        (protocol_error(-32000, "SSE stream ended without a response"), OutcomeUnknown),
        (protocol_error(-32603, "Server returned an error response"), OutcomeUnknown),
        (
            protocol_error(408, "Timed out while waiting for response to ClientRequest. Waited 5 seconds."),
            OutcomeUnknown,
        ),
        (protocol_error(-32001, "Request 'tools/call' timed out"), OutcomeUnknown),
        (protocol_error(-32001, "Timed out after 0.5s waiting for 'tools/call'"), OutcomeUnknown),
        (protocol_error(-32001, "the job timed out on our side"), ProtocolFailed),
        (protocol_error(-32000, "Connection closed by the upstream bank"), ProtocolFailed),
        (protocol_error(-32602, "Failed to parse date '2026-13-01'"), ProtocolFailed),
        (protocol_error(-32603, "Server returned an error page"), ProtocolFailed),
        (RuntimeError("Server session was closed unexpectedly"), OutcomeUnknown),
        (protocol_error(-32001, "Session not found"), NotSent),
        (protocol_error(32600, "Session terminated"), NotSent),
        (protocol_error(-32600, "Session terminated"), NotSent),
        (protocol_error(-32600, "Session not found"), NotSent),
        (protocol_error(-32600, "Session not found", {"iserror/request_id": ID}), ProtocolFailed),
        (protocol_error(-32600, "Session not found."), ProtocolFailed),
        (protocol_error(-32603, "Session terminated before the request completed"), ProtocolFailed),
        (protocol_error(-32700, "Failed to parse JSON response: 1 validation error"), ContractBroken),
        (RuntimeError("Tool x has an output schema but did not return structured content"), ContractBroken),
        (RuntimeError("Invalid structured content returned by tool x: 7"), ContractBroken),
        (RuntimeError("Client is not connected."), NotSent),
        (RuntimeError("anything else"), OutcomeUnknown),
        (TimeoutError(), OutcomeUnknown),
        (asyncio.TimeoutError(), OutcomeUnknown),
        (ConnectionRefusedError(), NotSent),
        (ConnectionResetError(), OutcomeUnknown),
        (BrokenPipeError(), OutcomeUnknown),
        (EOFError(), OutcomeUnknown),
        (anyio.EndOfStream(), OutcomeUnknown),
        (anyio.ClosedResourceError(), OutcomeUnknown),
        (httpx.ConnectError("x"), NotSent),
        (httpx.ConnectTimeout("x"), NotSent),
        (httpx.PoolTimeout("x"), NotSent),
        (httpx.ReadTimeout("x"), OutcomeUnknown),
        (httpx.RemoteProtocolError("x"), OutcomeUnknown),
        (httpx.ReadError("x"), OutcomeUnknown),
        (http_error(401), ProtocolFailed),
        (http_error(404), ProtocolFailed),
        (http_error(408), OutcomeUnknown),
        (http_error(429), ProtocolFailed),
        (http_error(500), OutcomeUnknown),
        (http_error(502), OutcomeUnknown),
        (Group("tasks", [httpx.RemoteProtocolError("x")]), OutcomeUnknown),
        (Group("tasks", [httpx.ConnectError("x")]), OutcomeUnknown),
        (Group("tasks", [http_error(401), httpx.ReadError("x")]), OutcomeUnknown),
        (Group("tasks", [protocol_error(-32602, "Unknown tool: x")]), ProtocolFailed),
    ],
    ids=lambda value: f"{value!r:.70}" if isinstance(value, BaseException) else value.__name__,
)
def test_exceptions_of_clients(exc: BaseException, expected: type) -> None:
    """Each exception of a client is what it says about the request: refused, unanswered, or never sent."""
    outcome = classify(exc)
    assert type(outcome) is expected
    assert "internal" not in outcome.report


def test_a_validation_error_of_a_client() -> None:
    """An answer that the SDK's own schema refuses is a broken contract."""
    with pytest.raises(ValueError) as caught:
        CallToolResult.model_validate({"content": "x"})
    assert isinstance(classify(caught.value), ContractBroken)


@pytest.mark.skipif(not IS_FASTMCP, reason="fastmcp is not installed here")
def test_the_tool_error_of_fastmcps_client() -> None:
    """Of what fastmcp's client raises for an error result, the words and the request id are left."""
    from fastmcp.exceptions import ToolError

    outcome = classify(ToolError(f"BUSY: busy.\n[pay failed; may be repeated; request_id: {ID}]"))
    assert isinstance(outcome, ToolFailed)
    assert outcome.text.startswith("BUSY: busy.")
    assert outcome.request_id == ID


def test_a_stream_that_was_closed_before() -> None:
    """A request that could not even be written was not sent."""
    send, receive = anyio.create_memory_object_stream[int](1)
    send.close()
    receive.close()
    with pytest.raises(anyio.ClosedResourceError) as caught:
        send.send_nowait(1)
    assert isinstance(classify(caught.value), NotSent)


@pytest.mark.parametrize(
    "x",
    [
        *(None, "text", 7, object(), [], asyncio.CancelledError(), KeyboardInterrupt(), SystemExit()),
        Group("tasks", [asyncio.CancelledError(), ValueError()]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_is_no_answer(x: object) -> None:
    """What is no answer of a server is refused with a word on what is; a cancellation has to pass."""
    with pytest.raises(TypeError, match=r"cannot classify|let it propagate"):
        classify(x)


def test_for_match() -> None:
    """The outcomes are made for `match`, by position and by name."""
    match classify(error(-32602, "no")):
        case ProtocolFailed(-32602, message):
            assert message == "no"
        case _:
            pytest.fail("not matched")
    match classify(response({"content": [TEXT], "isError": True, "_meta": {"iserror/failure": ENVELOPE}})):
        case ToolFailed(retryable=True, code=code):
            assert code == "BUSY"
        case _:
            pytest.fail("not matched")


# --- anything ------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
RESULTS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(st.just(TEXT) | JSON, max_size=3) | JSON,
        "isError": st.booleans() | JSON,
        "structuredContent": JSON,
        "_meta": st.dictionaries(st.just("iserror/failure"), st.just(ENVELOPE) | JSON) | JSON,
        "resultType": st.sampled_from(["complete", "input_required"]) | JSON,
        "inputRequests": JSON,
        "requestState": JSON,
    },
)


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": st.just(1) | JSON},
        optional={"result": RESULTS | JSON, "error": JSON},
    )
    | JSON
)
def test_any_message(message: Any) -> None:
    """Whatever JSON arrives, there is an outcome with a report, and a failure only where `isError` is true."""
    outcome = classify(json.dumps(message).encode())
    assert 0 < len(outcome.report) <= 2_000
    result = message.get("result") if isinstance(message, dict) else None
    flag = result.get("isError", False) if isinstance(result, dict) else None
    assert isinstance(outcome, ToolFailed) <= (flag is True)
    assert isinstance(outcome, Succeeded) <= (flag is False)


# --- bounds, and hostile objects -----------------------------------------------------------------------------


class Hostile(Mapping[str, Any]):
    """Whatever is asked of it raises."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("get")

    def __iter__(self) -> Any:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        raise RuntimeError("len")


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": [value]}
    return value


CYCLE: dict[str, Any] = {}
CYCLE["a"] = CYCLE
HOSTILE: dict[str, Any] = {
    "deep": nested(200),
    "deeper": nested(20_000),
    "cycle": CYCLE,
    "hostile": Hostile(),
    "keys": {1: 2, None: 3, (1,): 4},
    "big number": 10**5_000,
    "object": object(),
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_makes_it_raise(case: str) -> None:
    """Wherever a deep, endless, odd or hostile value stands, there is an outcome with a report."""
    value = HOSTILE[case]
    block = {"type": "text", "text": "x"}
    results = [
        value,
        {"content": value},
        {"content": [value]},
        {"content": [{**block, "text": value}], "isError": True},
        {"content": [{"type": value, "text": "x"}]},
        {"content": [], "isError": value},
        {"content": [], "isError": True, "_meta": value},
        {"content": [], "_meta": value, "structuredContent": value},
        {"content": [], "isError": True, "_meta": {"iserror/failure": value}},
        *({"content": [], "isError": True, "_meta": {"iserror/failure": {**ENVELOPE, k: value}}} for k in ENVELOPE),
        {"content": [], "structuredContent": {"succeeded": value, "failed": [value], "complete": False}},
        {"resultType": "input_required", "inputRequests": value},
    ]
    errors = [value, *({"code": code, "message": "m", "data": value} for code in (-1, -32602, value))]
    errors += [{"code": 1, "message": value}, {"code": -32042, "message": "m", "data": {"elicitations": [value]}}]
    messages = [response(result) for result in results] + [{"jsonrpc": "2.0", "id": 1, "error": e} for e in errors]
    messages += [{"jsonrpc": "2.0", "id": value, "result": {"content": []}}, ValueError(value)]
    for message in messages:
        outcome = classify(message, tool="x", catalogue=["xy"])
        assert 0 < len(outcome.report) <= 2_000
        assert outcome.request_id in (None, ID)


@pytest.mark.parametrize("depth", [200, 1_000])
def test_a_deep_result_of_an_sdk(depth: int) -> None:
    """A result object whose `_meta` is nested deeper than pydantic goes is read all the same."""
    result = CallToolResult.model_validate({"content": [TEXT], "isError": True, "_meta": {"iserror/failure": ENVELOPE}})
    assert result.meta is not None
    result.meta["deep"] = nested(depth)
    outcome = classify(result)
    assert isinstance(outcome, ToolFailed)
    assert (outcome.code, outcome.text) == ("BUSY", "hello")


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of much text a report reads as much as it can show, and of much data nothing is looked at but the request id."""
    read: list[int] = []
    bounded = outcome_module.bounded

    def counted(text: str) -> str:
        read.append(len(text))
        return bounded(text)

    monkeypatch.setattr(outcome_module, "bounded", counted)
    for text, blocks in (("a b\u200b" * 100_000, 1), ("a b\u200b" * 100, 1_000), ("", 1_000)):
        content = [{"type": "text", "text": text}] * blocks
        for flag in (True, False):
            outcome = classify(response({"content": content, "isError": flag}))
            assert 0 < len(outcome.report) <= 2_000
            assert isinstance(outcome, (ToolFailed, Succeeded))
            assert outcome.text == "\n".join([text] * blocks)
    assert max(read) < 5 * outcome_module.MAX_REPORT

    many: Any = {"iserror/request_id": ID, "items": ["token=abc"] * 10_000}
    outcome = classify(error(-1, "m", many))
    assert isinstance(outcome, ProtocolFailed)
    assert (outcome.data, outcome.request_id) == ({"iserror/request_id": ID}, ID)
