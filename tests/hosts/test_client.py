"""A guarded tool talks to its client as on the bare host: sampling, elicitation, progress, logging, questions."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import HOST, IS_FASTMCP, ON_SDK_1, Context, new_server, normalize, types
from tests.hosts.test_registration import make_guard

pytestmark = [
    pytest.mark.host,
    pytest.mark.anyio,
    # Of the SDK's 2.x for what its newest revision has retired.
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]


class Answer(BaseModel):
    name: str


async def talk(ctx: Context):  # type: ignore[no-untyped-def]
    await ctx.report_progress(1, 2)
    await ctx.info("hello")
    if HOST == "fastmcp3":
        sampled = (await ctx.sample("hi")).text
    else:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hi"))
        sampled = (await ctx.session.create_message(messages=[message], max_tokens=5)).content.text
    asked = await ctx.elicit("Your name?", Answer)
    return f"{sampled}, {asked.action} {asked.data.name}"


def client(events: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Callbacks of a client that answers everything: for the connection, and for the call."""

    async def sample(*args: Any) -> Any:
        events.append("sampled")
        text = types.TextContent(type="text", text="hi yourself")
        return (
            "hi yourself"
            if HOST == "fastmcp3"
            else types.CreateMessageResult(role="assistant", content=text, model="m")
        )

    async def elicit(*args: Any) -> Any:
        events.append("asked")
        return {"name": "Ann"} if IS_FASTMCP else types.ElicitResult(action="accept", content={"name": "Ann"})

    async def log(message: Any, *args: Any) -> None:
        events.append(("log", message.level))

    async def progress(done: float, total: Any, message: Any = None) -> None:
        events.append(("progress", done, total))

    ending = "handler" if IS_FASTMCP else "callback"
    callbacks: dict[str, Any] = {f"sampling_{ending}": sample, f"elicitation_{ending}": elicit}
    callbacks["log_handler" if IS_FASTMCP else "logging_callback"] = log
    if not ON_SDK_1:
        callbacks["mode"] = "legacy"  # the newest revision has no requests from the server
    return callbacks, {f"progress_{ending}": progress}


@pytest.mark.parametrize("mode", ["bare", *scenarios.MODES])
async def test_sampling_elicitation_progress_and_logging(mode: str, lines: Lines) -> None:
    """A guarded tool samples, elicits, reports and logs like one on the bare host, and its success is no line."""
    guard, server, events = make_guard(), new_server(), []
    server.tool()(talk if mode in ("bare", "attached") else guard(talk))
    if mode in ("attached", "both"):
        guard.attach(server)
    connection, each = client(events)
    async with hosts.in_memory(server, **connection) as call:
        assert "hi yourself, accept Ann" == hosts.text_of(await call("talk", {}, **each))
        await anyio.wait_all_tasks_blocked()
    assert [("log", "info"), ("progress", 1.0, 2.0), "asked", "sampled"] == sorted(events, key=str)
    assert [] == lines.read()


def url_required() -> Exception:
    from mcp.shared.exceptions import UrlElicitationRequiredError

    names = {"mode": "url", "elicitationId": "e1"} if ON_SDK_1 else {"elicitation_id": "e1"}
    return UrlElicitationRequiredError(
        [types.ElicitRequestURLParams(message="log in", url="https://id.example.test/x", **names)]
    )


@pytest.mark.parametrize("mode", ["attached", "both"])
async def test_url_elicitation_required(mode: str, lines: Lines) -> None:
    """URL elicitation leaves as the SDK's own -32042, data and all, and is no failure in the log."""

    async def files():  # type: ignore[no-untyped-def]
        raise url_required()

    guard, server = make_guard(), new_server()
    guard.attach(server)
    server.tool()(guard(files) if mode == "both" else files)
    async with hosts.in_memory(server, **({} if ON_SDK_1 else {"mode": "legacy"})) as call:
        answer = normalize(await call("files"))
    elicitation = {"mode": "url", "message": "log in", "url": "https://id.example.test/x", "elicitationId": "e1"}
    expected = {"code": -32042, "message": "URL elicitation required", "data": {"elicitations": [elicitation]}}
    assert {"error": expected} == answer
    assert [] == lines.read()


@pytest.mark.skipif(ON_SDK_1, reason="of the newest revision, which the SDK's 1.x does not speak")
async def test_url_elicitation_in_the_newest_revision(lines: Lines) -> None:
    """Where -32042 is retired it leaves as -32603, and the log has an error."""

    async def files():  # type: ignore[no-untyped-def]
        raise url_required()

    server = new_server()
    make_guard().attach(server)
    server.tool()(files)
    async with hosts.in_memory(server) as call:
        answer = await call("files")
    assert -32603 == answer["error"]["code"]
    assert [("error", "protocol_error", -32042)] == [
        (line["level"], line["event"], line["jsonrpc_error_code"]) for line in lines.read()
    ]


@pytest.mark.skipif(ON_SDK_1, reason="the SDK's 1.x has no input-required results")
@pytest.mark.parametrize("mode", ["bare", *scenarios.MODES])
async def test_an_input_required_result(mode: str, lines: Lines) -> None:
    """A question to the client passes as it is, typed or not; the repeated call gets the answer; there is no line."""
    runs: list[Any] = []

    async def greet(ctx: Context) -> str | types.InputRequiredResult:
        runs.append(ctx.input_responses)
        if ctx.input_responses:
            return f"hello {ctx.input_responses['q'].content['name']}"
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        form = types.ElicitRequestFormParams(message="Your name?", requested_schema=schema)
        return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=form)}, request_state="s")

    greet.__annotations__ = {"ctx": Context, "return": str | types.InputRequiredResult}
    guard, server, events = make_guard(), new_server(), []
    server.tool()(greet if mode in ("bare", "attached") else guard(greet))
    if mode in ("attached", "both"):
        guard.attach(server)
    connection, _ = client(events)
    del connection["mode"]
    async with hosts.in_memory(server, **connection) as call:
        assert "hello Ann" == hosts.text_of(await call("greet"))
    assert (2, ["asked"], []) == (len(runs), events, lines.read())
