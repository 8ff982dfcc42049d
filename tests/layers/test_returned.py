"""What a tool returns by mistake: exceptions as values, and texts that can't be sent."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from iserror import ErrorMap, ToolErrors, ToolFailure
from iserror.support import values
from iserror.testing import assert_tool_error
from tests.conftest import Lines
from tests.helpers import hosts
from tests.servers.hostile_server import DSN, LONE, SECRET

pytestmark = [pytest.mark.host, pytest.mark.python, pytest.mark.anyio]

NAME = "report-\ufffd.pdf"


class NotFound(Exception):
    pass


class Row(BaseModel):
    name: str = "a"
    what: Any = None


@dataclasses.dataclass(frozen=True)
class Part:
    name: str = "a"
    what: Any = None


def crash() -> BaseException:
    try:
        raise RuntimeError(DSN)
    except RuntimeError as exc:
        return exc


UNTYPED = object()
"""Stands for no return type."""


def serving(make: Callable[[], Any], hint: Any = Any, **settings: Any) -> Any:
    """A server whose tool returns what is made."""
    errors = ErrorMap()
    errors.add(NotFound, code="NOT_FOUND", category="not_found", message="No such thing.")
    server = hosts.new_server()
    guard = ToolErrors(errors)
    guard.attach(server)

    async def tool():  # type: ignore[no-untyped-def]
        made = make()
        return await made if asyncio.iscoroutine(made) else made

    if hint is not UNTYPED:
        tool.__annotations__["return"] = hint
    server.tool()(guard(**settings)(tool) if settings else tool)
    return server


def data_of(answer: dict[str, Any]) -> Any:
    """The data in the texts of a success: hosts make one block of a list, or one of each item."""
    assert answer["result"].get("isError", False) is False, answer
    assert SECRET not in json.dumps(answer)
    texts = [block["text"] for block in answer["result"]["content"]]
    read = [json.loads(text) if text[:1] in '[{"' or text.isdigit() else text for text in texts]
    return read if len(read) > 1 or not isinstance(read[0], (list, dict)) else read[0]


FAILED: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a crash": (crash, "INTERNAL_ERROR", "unknown"),
    "a mapped exception": (lambda: NotFound(DSN), "NOT_FOUND", "unknown"),
    "a failure": (lambda: ToolFailure("GONE", "It is gone.", category="not_found"), "GONE", "unknown"),
    "a failure with an outcome": (
        lambda: ToolFailure("GONE", "It is gone.", outcome="not_applied"),
        "GONE",
        "not_applied",
    ),
    "a protocol error": (lambda: hosts.protocol_error(-32001, DSN), "INTERNAL_ERROR", "unknown"),
    "nothing but exceptions": (lambda: [NotFound(), crash()], "INTERNAL_ERROR", "unknown"),
    "nothing but exceptions, in a dict": (lambda: {"a": NotFound()}, "NOT_FOUND", "unknown"),
}


@pytest.mark.parametrize("kind", FAILED)
async def test_returned_alone(kind: str, lines: Lines) -> None:
    """An exception that is returned fails the call as if it were raised, without a claim about its effect."""
    make, code, outcome = FAILED[kind]
    async with hosts.in_memory(serving(make)) as call:
        answer = await call("tool")
    assert_tool_error(answer, code=code)
    assert hosts.failure_of(answer)["outcome"] == outcome
    assert SECRET not in json.dumps(answer)
    assert [(line["event"], line["code"]) for line in lines.read()] == [("tool_failed", code)]


async def test_returned_by_a_tool_that_reads() -> None:
    """A tool that reads has applied nothing, whatever it returns."""
    async with hosts.in_memory(serving(crash, effect="read")) as call:
        assert hosts.failure_of(await call("tool"))["outcome"] == "not_applied"


async def gathered() -> list[Any]:
    async def fails() -> None:
        raise RuntimeError(DSN)

    return await asyncio.gather(fails(), asyncio.sleep(0, "fine"), return_exceptions=True)


async def finished_tasks() -> list[Any]:
    async def fails() -> None:
        raise RuntimeError(DSN)

    task = asyncio.ensure_future(fails())
    await asyncio.wait([task])
    return [task, "fine"]


CRASH = {"error": "INTERNAL_ERROR"}
MISSING = {"error": "NOT_FOUND: No such thing."}
INSIDE: dict[str, tuple[Callable[[], Any], Any, list[str]]] = {
    "gather": (gathered, [CRASH, "fine"], ["0"]),
    "tasks": (finished_tasks, [CRASH, "fine"], ["0"]),
    "a tuple": (lambda: (1, NotFound(DSN)), [1, MISSING], ["1"]),
    "a set": (lambda: {crash()} | {1}, None, []),
    "a dict": (
        lambda: {"a": NotFound(DSN), "b": [1, {"c": crash()}]},
        {"a": MISSING, "b": [1, {"c": CRASH}]},
        ["a", "b.1.c"],
    ),
    "a key": (lambda: {crash(): 1, "b": 2}, {"INTERNAL_ERROR": 1, "b": 2}, [""]),
    "a model": (lambda: Row(what=crash()), {"name": "a", "what": CRASH}, ["what"]),
    "a dataclass": (lambda: Part(what=[crash(), 1]), {"name": "a", "what": [CRASH, 1]}, ["what.0"]),
    "a cancellation": (lambda: ["fine", asyncio.CancelledError()], ["fine", CRASH], ["1"]),
}


@pytest.mark.parametrize("kind", INSIDE)
async def test_returned_inside(kind: str, lines: Lines) -> None:
    """The result stays, each exception in it becomes its code, and has one line in the log."""
    make, expected, paths = INSIDE[kind]
    async with hosts.in_memory(serving(make)) as call:
        found = data_of(await call("tool"))
    if expected is None:
        assert CRASH in found
        return
    assert found == expected
    assert [(line["event"], line["item"]) for line in lines.read()] == [("item_failed", path) for path in paths]


async def test_nested_failures_are_logged_once(lines: Lines) -> None:
    """Guarded functions that fail in a `gather` have one line each, not a second as nested calls."""

    @ToolErrors()
    async def inner() -> None:
        raise RuntimeError(DSN)

    async def make() -> list[Any]:
        return await asyncio.gather(inner(), asyncio.sleep(0, "fine"), return_exceptions=True)

    async with hosts.in_memory(serving(make)) as call:
        assert data_of(await call("tool")) == [CRASH, "fine"]
    assert [line["event"] for line in lines.read()] == ["item_failed"]


async def test_typed(lines: Lines) -> None:
    """What stands for an exception may not fit the output schema: then the call fails."""
    async with hosts.in_memory(serving(lambda: ["fine", crash()], list[str])) as call:
        assert_tool_error(await call("tool"), code="INVALID_OUTPUT")
    assert [line["event"] for line in lines.read()] == ["item_failed", "tool_failed"]


def call_result() -> Any:
    name = "structuredContent" if hosts.ON_SDK_1 else "structured_content"
    content = [hosts.TextContent(type="text", text=LONE)]
    return hosts.CallToolResult(content=content, _meta={"x": LONE}, **{name: {"a": LONE}})


TEXTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a text": (lambda: LONE, Any),
    "a typed text": (lambda: LONE, str),
    "a list": (lambda: [LONE, "a"], list[str]),
    "keys and values": (lambda: {LONE: {"a": [LONE]}}, dict[str, Any]),
    "a model": (lambda: Row(name=LONE), Row),
    "a dataclass": (lambda: Part(name=LONE), Any),
    "a block": (lambda: hosts.TextContent(type="text", text=LONE), Any),
    "a result": (call_result, UNTYPED),  # the lowest 1.x SDK refuses one from a tool with a type
}


@pytest.mark.parametrize("kind", TEXTS)
async def test_lone_surrogates(kind: str, lines: Lines) -> None:
    """A success with a lone surrogate stays one, with U+FFFD in its place, and is logged once."""
    make, hint = TEXTS[kind]
    async with hosts.in_memory(serving(make, hint)) as call:
        answer = await call("tool")
    assert answer["result"].get("isError", False) is False
    sent = json.dumps(answer, ensure_ascii=False)
    assert sent.encode()
    assert NAME in sent
    assert [line["event"] for line in lines.read()] == ["surrogates_replaced"]


async def test_surrogates_of_a_middleware(lines: Lines) -> None:
    """What a middleware puts into a success is looked at, too. fastmcp 4.2 can't carry it, and the call fails."""
    if not hosts.IS_FASTMCP:
        pytest.skip("only fastmcp has middleware around its tools")
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult

    class Answer(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            return ToolResult(content="fine", structured_content={"a": LONE})

    server = serving(lambda: "fine")
    server.add_middleware(Answer())
    async with hosts.in_memory(server) as call:
        answer = (await call("tool"))["result"]
    if hosts.FASTMCP >= (4, 1) and answer["isError"]:
        assert answer["structuredContent"]["code"] == "INTERNAL_ERROR"
        return
    assert answer["structuredContent"] == {"a": NAME}
    assert [line["event"] for line in lines.read()] == ["surrogates_replaced"]


SAME: list[Any] = [
    "naïve 한국어 \ud7ff\ue000 😀",
    [1, 2.5, None, True],
    {"a": ["é" * 1_000]},
    Row(),
    Part(),
    {1, 2},
    b"\xed\xa0\x80",
]


@pytest.mark.parametrize("value", SAME, ids=lambda value: type(value).__name__)
async def test_other_values_stay(value: object) -> None:
    """Any other value is the same object as before, and nothing of it is copied."""
    assert values.is_clean(value)
    assert values.exchanged(value, lambda *_: {"error": ""})[0] is value


@pytest.mark.parametrize("make", [lambda n: [{"id": 7, "name": "é"} for _ in range(n)], lambda n: [Row()] * n])
async def test_work_is_bounded(make: Callable[[int], Any]) -> None:
    """Plain data costs no Python call for each row, and other data no more than the bound."""

    def calls(value: object) -> int:
        count = 0

        def profile(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            values.is_clean(value)
        finally:
            sys.setprofile(before)
        return count

    few, many, most = (calls(make(n)) for n in (1, 10_000, 100_000))
    assert many == most or many - few < 10 * values.MAX_CONTAINERS
    assert most - many <= 10
    if type(make(1)[0]) is dict:
        assert few == most
