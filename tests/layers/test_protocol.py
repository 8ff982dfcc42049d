"""The protocol channel: who raised the error, which code may leave, what stands in `message` and `data`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from iserror import ErrorMap, ToolErrors
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import Context, ProtocolError, normalize, protocol_error
from tests.servers import hostile_server
from tests.servers.hostile_server import DSN, SECRET

SCRIPT = "tests/servers/hostile_server.py"
CRASH = "The tool failed because of an error on the server."
STOP = "stop and tell the user"
ONLY_IF_HARMLESS = "repeat it only if it changes nothing"
IDS = {"iserror/request_id": "<id>"}

pytestmark = [
    pytest.mark.host,
    pytest.mark.anyio,
    # The 2.x SDK warns that sampling is going to be replaced.
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning" if hosts.MODERN else "ignore:nothing"),
]


async def ask_upstream(*, inside: bool = False) -> None:
    """A failed request to another MCP server, through a real session; raised inside of its block, or after it."""
    upstream = hosts.new_server("upstream")
    if hosts.HOST == "mcp1":
        from mcp.shared.memory import create_connected_server_and_client_session

        connected: Any = create_connected_server_and_client_session(upstream._mcp_server)
    elif hosts.HOST == "mcp2":
        from mcp import Client

        connected = Client(upstream)
    else:
        from fastmcp import Client

        connected = Client(upstream)
    async with connected as session:
        try:
            await session.get_prompt("nope")
        except ProtocolError as exc:
            failed = exc
            if inside:
                raise  # which some of the SDK's clients put into an exception group
    raise failed


def build(errors: ErrorMap | None = None, raised: Exception | None = None, **settings: Any) -> Any:
    """A guarded server whose tools raise protocol errors of several origins."""
    server = hosts.new_server()
    ToolErrors(errors, **settings).attach(server)

    @server.tool()
    def author():  # type: ignore[no-untyped-def]
        raise raised or protocol_error(-31001, "tenant is not provisioned", {"tenant": "t1"})

    @server.tool()
    async def sample(ctx: Context):  # type: ignore[no-untyped-def]
        content = hosts.TextContent(type="text", text="hi")
        message = hosts.types.SamplingMessage(role="user", content=content)
        await ctx.session.create_message([message], max_tokens=5)

    @server.tool()
    async def upstream():  # type: ignore[no-untyped-def]
        await ask_upstream(inside=True)

    @server.tool()
    async def raised_again():  # type: ignore[no-untyped-def]
        try:
            await ask_upstream()
        except BaseException:
            raise

    @server.tool()
    async def raised_from():  # type: ignore[no-untyped-def]
        try:
            await ask_upstream()
        except ProtocolError as exc:
            raise ValueError(DSN) from exc

    @server.tool()
    async def said_anew():  # type: ignore[no-untyped-def]
        try:
            await ask_upstream()
        except ProtocolError as exc:
            raise protocol_error(-31002, "the upstream knows no such prompt") from exc

    @server.tool()
    def take(amount: int):  # type: ignore[no-untyped-def]
        return f"took {amount}"

    @server.tool()
    def fails():  # type: ignore[no-untyped-def]
        raise RuntimeError(DSN)

    return server


def result(tool: str, code: str, message: str, category: str, outcome: str, advice: str) -> dict[str, Any]:
    """A whole failed result."""
    envelope = {
        "code": code,
        "message": message,
        "advice": advice,
        "retryable": False,
        "outcome": outcome,
        "category": category,
        "tool": tool,
        "request_id": "<id>",
    }
    text = f"{code}: {message}\n[{tool} failed; {advice}; request_id: <id>]"
    return {
        "result": {
            "content": [{"type": "text", "text": text}],
            "isError": True,
            "_meta": {"iserror/failure": envelope},
            "structuredContent": envelope,
        }
    }


async def answer_of(tool: str, arguments: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    async with hosts.in_memory(build(**settings)) as call:
        answer = await call(tool, arguments)
    assert SECRET not in json.dumps(answer)
    return normalize(answer)


# --- who raised it -----------------------------------------------------------------------------------------------

UPSTREAM = ["upstream", "raised_again", "raised_from"]


async def test_raised_by_the_author(lines: Lines) -> None:
    """What the author raises leaves as a JSON-RPC error with its code, also when an SDK error caused it."""
    assert await answer_of("author") == {
        "error": {"code": -31001, "message": "tenant is not provisioned", "data": {"tenant": "t1", **IDS}}
    }
    assert await answer_of("said_anew") == {
        "error": {"code": -31002, "message": "the upstream knows no such prompt", "data": IDS}
    }
    assert [(line["event"], line["level"], line["jsonrpc_error_code"]) for line in lines.read()] == [
        ("protocol_error", "warning", -31001),
        ("protocol_error", "warning", -31002),
    ]


@pytest.mark.parametrize("tool", UPSTREAM)
async def test_raised_by_an_sdk_session(tool: str, lines: Lines) -> None:
    """What a session with another server raises is a crash, raised again or not, and never a JSON-RPC error."""
    assert await answer_of(tool) == result(tool, "INTERNAL_ERROR", CRASH, "internal", "unknown", STOP)
    assert [(line["event"], line["level"], line["code"]) for line in lines.read()] == [
        ("tool_failed", "error", "INTERNAL_ERROR")
    ]


@pytest.mark.parametrize("tool", UPSTREAM)
async def test_raised_by_an_sdk_session_and_mapped(tool: str) -> None:
    """The map's entry for the SDK's class speaks for what a session raised."""
    errors = ErrorMap()
    errors.add(ProtocolError, code="UPSTREAM_REFUSED", category="unavailable", message="The upstream refused.")
    expected = result(tool, "UPSTREAM_REFUSED", "The upstream refused.", "unavailable", "unknown", ONLY_IF_HARMLESS)
    assert await answer_of(tool, errors=errors) == expected


async def test_raised_by_the_author_and_mapped() -> None:
    """The map's entry for the SDK's class has no say in what the author raises."""
    errors = ErrorMap()
    errors.add(ProtocolError, code="UPSTREAM_REFUSED", category="unavailable", message="The upstream refused.")
    assert (await answer_of("author", errors=errors))["error"]["code"] == -31001


# --- what may leave ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-32019, -32000, -32600, -32602, -32603, -31999, 1, -1, -32100])
async def test_code_that_may_leave(code: int) -> None:
    """A code outside of the reserved range leaves as it is."""
    raised = protocol_error(code, "no")
    assert await answer_of("author", raised=raised) == {"error": {"code": code, "message": "no", "data": IDS}}


@pytest.mark.parametrize("code", [-32023, -32041, -32043, -32055, -32099])
async def test_code_that_is_reserved(code: int, lines: Lines) -> None:
    """An undefined code of the reserved range leaves as -32603, and the log has the original as an error."""
    raised = protocol_error(code, "no")
    assert await answer_of("author", raised=raised) == {"error": {"code": -32603, "message": "no", "data": IDS}}
    assert [(line["level"], line["jsonrpc_error_code"]) for line in lines.read()] == [("error", code)]


URL = {"mode": "url", "elicitationId": "1", "url": "https://example.test/x?token=" + "Ab1" * 8, "message": "Log in."}


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32021, {"requiredCapabilities": {"sampling": {}}}),
        (-32042, {"elicitations": [URL]}),
        (-32022, {"supported": ["2025-11-25"], "requested": "1999-01-01"}),
    ],
)
async def test_control_flow(code: int, data: dict[str, Any], lines: Lines) -> None:
    """What the specification defines leaves untouched where the revision allows it, and is no failure."""
    answer = await answer_of("author", raised=protocol_error(code, "as defined", data))
    if code == -32042 and hosts.MODERN:
        assert answer["error"]["code"] == -32603
        assert [line["level"] for line in lines.read()] == ["error"]
    else:
        assert answer == {"error": {"code": code, "message": "as defined", "data": data}}
        assert [line["event"] for line in lines.read()] == ([] if code != -32022 else ["protocol_error"])


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32021, {"requiredCapabilities": {"sampling": {}}, "dsn": DSN}),
        (-32021, {"requiredCapabilities": DSN}),
        (-32022, {"supported": DSN, "requested": DSN}),
        (-32042, {"elicitations": DSN}),
        (-32020, {"why": DSN}),
    ],
)
async def test_control_flow_of_a_wrong_shape(code: int, data: dict[str, Any]) -> None:
    """Data of another shape than the specification's is cleaned, and carries the request id."""
    error = (await answer_of("author", raised=protocol_error(code, f"see {DSN}", data)))["error"]
    assert error["code"] == (-32603 if code == -32042 and hosts.MODERN else code)
    assert error["message"] == "see postgres://app:[redacted:userinfo]@[redacted:ip]/prod"
    assert error["data"]["iserror/request_id"] == "<id>"
    assert set(error["data"]) == {*data, "iserror/request_id"}


def _cyclic() -> dict[str, Any]:
    data: dict[str, Any] = {"a": 1}
    data["self"] = data
    return data


DATA: list[tuple[Any, Any]] = [
    (None, IDS),
    ({}, IDS),
    ({"dsn": DSN, "n": 1}, {"dsn": "postgres://app:[redacted:userinfo]@[redacted:ip]/prod", "n": 1, **IDS}),
    ({"password": SECRET}, {"password": "[redacted:secret]", **IDS}),
    ({"iserror/request_id": "mine"}, IDS),
    ({"page": "x " * 500_000}, IDS),
    ({"many": list(range(100_000))}, IDS),
    (_cyclic(), {"a": 1, "self": "[redacted:cycle]", **IDS}),
    ({"object": object()}, {"object": "[redacted:object]", **IDS}),
    ({"bytes": b"\xff"}, {"bytes": "[redacted:bytes]", **IDS}),
    ({"nan": float("nan"), "inf": float("inf")}, {"nan": "nan", "inf": "inf", **IDS}),
    ({"text": "\ud800\x1b[31mred\u202e"}, {"text": "\ufffdred", **IDS}),
    ({7: "seven", "set": {1}}, {"7": "seven", "set": [1], **IDS}),
    ([1, DSN], [1, "postgres://app:[redacted:userinfo]@[redacted:ip]/prod"]),
    ("a text", "a text"),
    (7, 7),
]


@pytest.mark.parametrize(("data", "expected"), DATA, ids=range(len(DATA)))
async def test_data(data: Any, expected: Any) -> None:
    """Data leaves redacted, bounded and as JSON, with the request id where it is an object or absent."""
    answer = await answer_of("author", raised=protocol_error(-31001, "no", data))
    assert answer == {"error": {"code": -31001, "message": "no", "data": expected}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", "The request failed."),
        (" \u200b\u202e\n", "The request failed."),
        ("one\ntwo\x1b[2J\x00\ud800 three", "one two\ufffd three"),
        (f"cannot reach {DSN}", "cannot reach postgres://app:[redacted:userinfo]@[redacted:ip]/prod"),
        ("x" * 10_000, "x" * 499 + "…"),
    ],
)
async def test_message(message: str, expected: str) -> None:
    """The message leaves as one redacted line of at most 500 characters, never empty."""
    raised = protocol_error(-31001, message)
    assert await answer_of("author", raised=raised) == {"error": {"code": -31001, "message": expected, "data": IDS}}


# --- unknown tools, invalid arguments, settings ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nope", "nope"),
        ("", ""),
        ("n" * 10_000, "n" * 127 + "…"),
        ("a\x1b[31m\x00b\nc", "ab c"),
        ("\u202egnp.exe\u200b", "gnp.exe"),
        ("über/工具", "über/工具"),
    ],
)
async def test_unknown_tool(name: str, shown: str, lines: Lines) -> None:
    """An unknown name is a JSON-RPC error that shows it cleaned and bounded, and one line has it."""
    message = f"Unknown tool: {shown}".strip()
    assert await answer_of(name) == {"error": {"code": -32602, "message": message, "data": IDS}}
    assert [(line["event"], line["code"], line["tool"]) for line in lines.read()] == [
        ("protocol_error", "UNKNOWN_TOOL", shown)
    ]


async def test_unknown_tool_as_a_result() -> None:
    """With unknown_tool="result" it is a result."""
    expected = result("nope", "UNKNOWN_TOOL", "Unknown tool: nope", "not_found", "not_applied", "change the call first")
    assert await answer_of("nope", unknown_tool="result") == expected


MESSAGE = "amount: must be an integer"
REFUSED = result("take", "INVALID_ARGUMENTS", MESSAGE, "invalid_argument", "not_applied", "change the call first")


def refused(envelope: dict[str, Any]) -> dict[str, Any]:
    """The JSON-RPC error for the same arguments."""
    message = f"Invalid arguments for tool {envelope['tool']}: {envelope['message']}"
    return {"error": {"code": -32602, "message": message, "data": {**IDS, "iserror/failure": envelope}}}


@pytest.mark.parametrize(("setting", "is_result"), [("auto", True), ("result", True), ("protocol", False)])
async def test_invalid_arguments_setting(setting: str, is_result: bool) -> None:
    """The setting decides the channel; in memory, every host's client speaks a revision that wants a result."""
    is_result = is_result and (RESULTS or setting != "auto")
    expected = REFUSED if is_result else refused(REFUSED["result"]["structuredContent"])
    assert await answer_of("take", {"amount": SECRET}, invalid_arguments=setting) == expected


KIND = result(
    "fail", "INVALID_ARGUMENTS", "kind: is required", "invalid_argument", "not_applied", "change the call first"
)
# mcp before 1.24 knows no revision that wants a result.
RESULTS = not hosts.ON_SDK_1 or hosts.types.LATEST_PROTOCOL_VERSION >= "2025-11-25"
BY_REVISION = [("2025-03-26", False), ("2025-06-18", False), ("2025-11-25", RESULTS)]


@pytest.mark.parametrize(("version", "is_result"), BY_REVISION[1:])
def test_invalid_arguments_by_revision(version: str, is_result: bool) -> None:
    """Up to 2025-06-18 a JSON-RPC error with the envelope, from 2025-11-25 on a result."""
    with hosts.RawStdio(SCRIPT, version=version) as raw:
        answer = normalize(raw.call("fail"))
    assert answer == (KIND if is_result else refused(KIND["result"]["structuredContent"]))


@pytest.mark.parametrize("params", [{"name": 7}, {"name": None}, {}, {"name": "fail", "arguments": "kind"}])
def test_malformed_call(params: dict[str, Any], latest: hosts.RawStdio) -> None:
    """A malformed request gets the SDK's own answer, without anything of ours, and the session goes on."""
    answer = latest.ask("tools/call", params)
    assert answer["error"]["code"] == -32602
    assert "iserror" not in json.dumps(answer)
    assert "result" in latest.call("succeed")


def test_invalid_arguments_of_an_unsupported_revision(latest: hosts.RawStdio) -> None:
    """A client that asks for an unsupported revision gets what the SDK's latest wants."""
    assert normalize(latest.call("fail")) == (KIND if RESULTS else refused(KIND["result"]["structuredContent"]))


@pytest.fixture(scope="module")
def latest() -> Iterator[hosts.RawStdio]:
    with hosts.RawStdio(SCRIPT, version="2031-01-01") as raw:
        yield raw


@pytest.fixture(scope="module")
def stateless() -> Iterator[str]:
    with hosts.serving(hostile_server.make(), stateless=True) as url:
        yield url


@pytest.mark.parametrize(("version", "is_result"), [(None, False), *BY_REVISION[: 3 if RESULTS else 2]])
def test_invalid_arguments_by_header(version: str | None, is_result: bool, stateless: str) -> None:
    """A stateless server goes by the header; without one, by 2025-03-26."""
    httpx = pytest.importorskip("httpx")
    headers = {"accept": "application/json, text/event-stream"}
    if version:
        headers["mcp-protocol-version"] = version
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fail", "arguments": {}}}
    text = httpx.post(stateless, json=body, headers=headers, timeout=20).text
    sent = next((line[6:] for line in text.splitlines() if line.startswith("data: {")), text)
    assert normalize(json.loads(sent)) == (KIND if is_result else refused(KIND["result"]["structuredContent"]))


async def test_tool_failure_meta() -> None:
    """The draft's form stands beside the envelope when it is asked for."""
    async with hosts.in_memory(build(tool_failure_meta=True)) as call:
        meta = (await call("fails"))["result"]["_meta"]
    assert meta["io.modelcontextprotocol/toolFailure"] == {
        "class": "capability",
        "code": "INTERNAL_ERROR",
        "retryable": False,
        "correlationId": meta["iserror/failure"]["request_id"],
        "agentGuidance": STOP,
    }
