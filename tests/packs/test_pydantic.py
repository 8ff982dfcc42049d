"""pydantic refuses what an upstream answered, and what a host validates stays what it is without the pack."""

from __future__ import annotations

from typing import Any

import anyio
import pydantic
import pydantic.v1
import pytest

import iserror
from iserror import ErrorMap, ToolErrors
from tests.conftest import Lines
from tests.helpers.hosts import failure_of, in_memory, new_server
from tests.packs.failing import CANARY, failure

PACK = iserror.packs.pydantic


class Weather(pydantic.BaseModel):
    celsius: float


class OldWeather(pydantic.v1.BaseModel):
    celsius: float


@pytest.mark.parametrize("model", [Weather, OldWeather])
def test_an_answer_that_does_not_fit(lines: Lines, model: Any) -> None:
    """The upstream is to blame, nothing of its answer is said, and nobody knows what it did."""
    said = failure(PACK, lines, lambda: model(celsius=CANARY))
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_INVALID_RESPONSE", "unknown", False)


def test_detect_leaves_it_out() -> None:
    """It is included by name only, since a `ValidationError` may as well be the tool's own mistake."""
    assert PACK not in iserror.packs.detect()


async def answers(errors: ErrorMap) -> dict[str, dict[str, Any]]:
    """What arguments, results and bodies that do not fit come to, directly and through another tool."""
    guard = ToolErrors(errors, invalid_arguments="result")
    server = new_server("validating")
    guard.attach(server)

    @server.tool()
    def arguments(celsius: float) -> str:
        return str(celsius)

    @server.tool()
    def model_argument(weather: Weather) -> str:
        return str(weather)

    @server.tool()
    def result() -> Weather:
        return Weather.model_construct(celsius=CANARY)  # type: ignore[arg-type]

    @server.tool()
    def body(celsius: str) -> str:
        return str(Weather(celsius=celsius))  # type: ignore[arg-type]

    @server.tool()
    async def nested(name: str, given: dict[str, Any]) -> str:
        return str(await server.call_tool(name, given))

    said = {}
    async with in_memory(server) as call:
        for name, given in (
            ("arguments", {"celsius": CANARY}),
            ("model_argument", {"weather": {"celsius": CANARY}}),
            ("result", {}),
            ("body", {"celsius": CANARY}),
        ):
            for key, answer in (
                (name, await call(name, given)),
                (f"nested {name}", await call("nested", {"name": name, "given": given})),
            ):
                assert CANARY not in str(answer)
                envelope = failure_of(answer)
                said[key] = {k: v for k, v in envelope.items() if k != "request_id"}
    return said


def test_what_a_host_validates(lines: Lines) -> None:
    """`INVALID_ARGUMENTS` and `INVALID_OUTPUT` are the same with the pack, and only the body's own error changes."""
    with_pack = ErrorMap()
    with_pack.include(PACK)
    before, after = anyio.run(answers, ErrorMap()), anyio.run(answers, with_pack)
    assert {key: said["code"] for key, said in before.items()} == {
        "arguments": "INVALID_ARGUMENTS",
        "nested arguments": "INVALID_ARGUMENTS",
        "model_argument": "INVALID_ARGUMENTS",
        "nested model_argument": "INVALID_ARGUMENTS",
        "result": "INVALID_OUTPUT",
        "nested result": "INVALID_OUTPUT",
        "body": "INTERNAL_ERROR",
        "nested body": "INTERNAL_ERROR",
    }
    for key in ("body", "nested body"):
        assert after.pop(key)["code"] == "UPSTREAM_INVALID_RESPONSE"
        del before[key]
    assert after == before
