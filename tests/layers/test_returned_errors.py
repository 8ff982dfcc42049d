"""Errors that a tool returns as a success, on every host: logged by default, converted where the author says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from iserror import ToolErrors, ToolFailure
from tests.conftest import Lines
from tests.helpers.hosts import HOST, failure_of, in_memory, new_server

pytestmark = [pytest.mark.host, pytest.mark.anyio]


class Rows(BaseModel):
    rows: list[int]


def as_dict() -> dict[str, Any]:
    return {"success": False, "error": "no such key 'a'", "errorType": "KeyMissing"}


def as_json() -> str:
    return json.dumps({"status": "error", "message": "the index is not ready"})


def as_text() -> str:
    return "Error getting all fields from hash 'a': Connection refused by redis-1.internal"


def as_lines() -> str:
    return "Failed to open the workbook.\nClose it first."


def in_part() -> dict[str, Any]:
    return {"success": False, "error": "2 of 4 pages are missing", "pages": ["a", "b"]}


def harmless() -> dict[str, Any]:
    return {"errors": 0, "rows": [1]}


def as_count() -> int:
    return "Error getting database size: Connection refused"  # type: ignore[return-value]


def as_model() -> Rows:
    return {"error": "no such table: customers"}  # type: ignore[return-value]


def in_plain_words() -> Rows:
    return "Helm is not available on this system"  # type: ignore[return-value]


def of_another_shape() -> Rows:
    return {"rows": ["one"]}  # type: ignore[return-value]


async def called(body: Callable[..., Any], **settings: Any) -> dict[str, Any]:
    server = new_server()
    server.tool(name="tool")(body)
    ToolErrors(**settings).attach(server)
    async with in_memory(server) as call:
        result: dict[str, Any] = (await call("tool"))["result"]
    return result


def text_of(result: dict[str, Any]) -> str:
    return re.sub(r"request_id: [0-9a-f]{32}", "id", result["content"][0]["text"])


async def bare(body: Callable[..., Any]) -> dict[str, Any]:
    server = new_server()
    server.tool(name="tool")(body)
    async with in_memory(server) as call:
        result: dict[str, Any] = (await call("tool"))["result"]
    return result


SAID: list[tuple[Callable[..., Any], str]] = [
    (as_dict, "no such key 'a'"),
    (as_json, "the index is not ready"),
    (as_text, "Error getting all fields from hash 'a': Connection refused by [redacted:host]"),
    (as_lines, "Failed to open the workbook.\nClose it first."),
]


@pytest.mark.parametrize(("body", "said"), SAID)
async def test_logged_by_default(body: Callable[..., Any], said: str, lines: Lines) -> None:
    """The success stays as it is, byte for byte, and the log has what it says, with the setting."""
    assert await called(body) == await bare(body)
    (line,) = lines.read()
    assert (line["event"], line["level"], line["returned_errors"], line["partial"]) == (
        "error_returned",
        "warning",
        "log",
        False,
    )
    assert line["code"] == "RETURNED_ERROR"
    assert line["message"].startswith(said.partition(":")[0].partition("\n")[0])


@pytest.mark.parametrize(("body", "said"), SAID)
async def test_converted(body: Callable[..., Any], said: str, lines: Lines) -> None:
    """The message is the text inside the value."""
    result = await called(body, returned_errors="convert")
    assert result["isError"] is True
    assert text_of(result) == f"RETURNED_ERROR: {said}\n[tool failed; id]"
    assert failure_of({"result": result})["message"] == said.partition("\n")[0]
    assert [line["event"] for line in lines.read()] == ["tool_failed"]


@pytest.mark.parametrize("setting", ["log", "convert", "off"])
async def test_harmless(setting: Literal["log", "convert", "off"], lines: Lines) -> None:
    """A harmless answer is neither logged nor changed."""
    assert await called(harmless, returned_errors=setting) == await bare(harmless)
    assert lines.read() == []


async def test_partial(lines: Lines) -> None:
    """An answer beside the error is never taken away."""
    assert await called(in_part, returned_errors="convert") == await bare(in_part)
    (line,) = lines.read()
    assert (line["event"], line["partial"], line["message"]) == ("error_returned", True, "2 of 4 pages are missing")


async def test_off(lines: Lines) -> None:
    """Whoever wants none of it says so."""
    assert await called(as_dict, returned_errors="off") == await bare(as_dict)
    assert lines.read() == []


async def test_of_one_tool(lines: Lines) -> None:
    """A tool may have a setting of its own."""
    server = new_server()
    guard = ToolErrors(returned_errors="off")

    @server.tool()
    @guard(returned_errors="convert")
    def converts() -> dict[str, Any]:
        return as_dict()

    @server.tool()
    @guard
    def stays() -> dict[str, Any]:
        return as_dict()

    guard.attach(server)
    async with in_memory(server) as call:
        assert (await call("converts"))["result"]["isError"] is True
        assert (await call("stays"))["result"]["isError"] is False
    with pytest.raises(ValueError, match="returned_errors 'yes' is not valid"):
        guard(returned_errors="yes")  # type: ignore[call-overload]


def typed(value: Any) -> object:
    """A predicate that makes codes of the servers own error types."""
    if isinstance(value, dict) and value.get("errorType") == "KeyMissing":
        return ToolFailure(
            "KEY_MISSING", value["error"], hint="Call list_keys.", category="not_found", outcome="not_applied"
        )
    return False


async def test_a_predicate_that_says_what_it_means(lines: Lines) -> None:
    """A `ToolFailure` of the author's predicate gives code, message, hint, category and outcome."""
    result = await called(as_dict, returned_errors="convert", is_returned_error=typed)
    assert text_of(result) == "KEY_MISSING: no such key 'a'\nCall list_keys.\n[tool failed; change the call first; id]"
    failure = failure_of({"result": result})
    assert (failure["code"], failure["category"], failure["outcome"]) == ("KEY_MISSING", "not_found", "not_applied")
    lines.read()
    assert await called(as_dict, is_returned_error=typed) == await bare(as_dict)
    assert lines.read()[-1]["code"] == "KEY_MISSING"


def without_outcome(value: Any) -> object:
    return ToolFailure("KEY_MISSING", "there is no such key", category="not_found")


async def test_a_category_alone_claims_nothing() -> None:
    """What the body did after it had failed is not known: only a stated outcome counts."""
    result = await called(as_dict, returned_errors="convert", is_returned_error=without_outcome)
    assert failure_of({"result": result})["outcome"] == "unknown"


@pytest.mark.parametrize("setting", ["log", "off"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (as_count, "Error getting database size: Connection refused"),
        (as_model, "no such table: customers"),
        (in_plain_words, "Helm is not available on this system"),
    ],
)
async def test_what_breaks_the_schema(
    body: Callable[..., Any], said: str, setting: Literal["log", "off"], lines: Lines
) -> None:
    """An error in the place of a typed value keeps its text, whatever the setting is."""
    result = await called(body, returned_errors=setting)
    assert text_of(result) == f"RETURNED_ERROR: {said}\n[tool failed; id]"
    line = lines.read()[-1]
    assert (line["event"], line["code"]) == ("tool_failed", "RETURNED_ERROR")


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_another_shape(lines: Lines) -> None:
    """Any other value that breaks the schema is the operator's: the log names field and rule, and no value."""
    result = await called(of_another_shape)
    assert failure_of({"result": result})["code"] == "INVALID_OUTPUT"
    assert "rows" not in text_of(result)
    (line,) = lines.read()
    assert line["code"] == "INVALID_OUTPUT"
    assert line["fields"] == ["rows[0]"]
    assert line["rules"] == ["rows[0]: must be an integer"]


def a_word_too_long() -> Literal["up", "down"]:
    return "half way up"  # type: ignore[return-value]


async def test_a_value_is_no_error_text(lines: Lines) -> None:
    """Where the schema takes a text, one that doesn't fit is a value, and no client sees it."""
    result = await called(a_word_too_long)
    assert failure_of({"result": result})["code"] == "INVALID_OUTPUT"
    assert "half way" not in text_of(result)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.skipif(HOST not in ("fastmcp4",), reason="the other hosts, or their clients, check results themselves")
async def test_the_hosts_own_check() -> None:
    """With `output_check="host"` a result that the host lets through stays a success."""
    server = new_server()
    server.tool(name="tool")(of_another_shape)
    ToolErrors(output_check="host").attach(server)
    async with in_memory(server) as call:
        try:
            answer = await call("tool")
        except Exception as exc:
            assert "schema" in str(exc).casefold() or "structured" in str(exc).casefold()  # noqa: PT017 - the client's
        else:
            assert answer["result"]["isError"] is False
    with pytest.raises(ValueError, match="output_check 'never' is not valid"):
        ToolErrors(output_check="never")  # type: ignore[arg-type]
