"""A tool that fails in a library, called by a real client: what came over the wire, and what the log says."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import anyio

from iserror import ErrorMap, Failure, ToolErrors
from iserror.errors.entry import Entry
from iserror.errors.pack import Pack
from tests.conftest import Lines
from tests.helpers.hosts import failure_of, in_memory, new_server

CANARY = "canary7f3a"
"""Part of every URL, host, table, key, value and body of these tests; it must not come out."""


def failure(pack: Pack, lines: Lines, action: Callable[[], Any], *, effect: str = "write") -> Failure:
    """What a client gets when `action`, sync or async, raises in a tool whose map has only this pack.

    The wire holds nothing of the canary and no address, and the log has one line for it at the level that the failure
    asks for.
    """
    return failures(pack, lines, [action], effect=effect)[0]


def failures(pack: Pack, lines: Lines, actions: list[Callable[[], Any]], *, effect: str = "write") -> list[Failure]:
    """The same for each of several actions, one after the other, with one server."""
    found = []
    answers = anyio.run(_call, pack, actions, effect)
    logged = lines.read()
    for answer in answers:
        said = Failure.from_wire(failure_of(answer))
        assert said is not None
        wire = json.dumps(answer)
        assert CANARY not in wire
        assert "127.0.0.1" not in wire
        assert "localhost" not in wire
        of_it = [line for line in logged if line.get("request_id") == said.request_id]
        assert [line["event"] for line in of_it] == ["tool_failed"]
        assert of_it[0]["code"] == said.code
        operators = said.code in ERRORS or said.code == "INTERNAL_ERROR"
        assert of_it[0]["level"] == ("error" if operators else "warning")
        found.append(said)
    return found


def entry_of(pack: Pack, action: Callable[[], Any]) -> Entry:
    """What the pack says of what `action` raises: as `failure`, without the call of a tool, for long tables."""
    errors = ErrorMap()
    errors.include(pack)

    async def acted() -> None:
        done = action()
        if inspect.isawaitable(done):
            await done

    try:
        anyio.run(acted)
    except Exception as exc:
        raised = exc
    found = errors.find(raised)
    assert found is not None
    assert CANARY not in found.message.render(raised)
    return found


ERRORS = {
    "FEATURE_UNAVAILABLE",
    "SYSTEM_PERMISSION_DENIED",
    "QUERY_INVALID",
    "REQUEST_INVALID",
    "RESOURCES_EXHAUSTED",
    "STORAGE_FULL",
    "TLS_FAILED",
    "UPSTREAM_PERMISSION_DENIED",
    "UPSTREAM_QUOTA_EXHAUSTED",
    "UPSTREAM_UNAUTHENTICATED",
}
"""The codes of failures that only an operator can mend."""


async def _call(pack: Pack, actions: list[Callable[[], Any]], effect: Any) -> list[dict[str, Any]]:
    errors = ErrorMap()
    errors.include(pack)
    guard = ToolErrors(errors)
    server = new_server("packs")
    guard.attach(server)
    left = iter(actions)

    @server.tool()
    @guard(effect=effect)
    async def tool() -> str:
        done = next(left)()
        if inspect.isawaitable(done):
            await done
        return "it did not fail"

    async with in_memory(server) as call:
        answers = [await call("tool") for _ in actions]
    assert not any("error" in answer for answer in answers)
    return answers
