"""Who sees what: the table of docs/explanation/redaction.md, each cell of it, over a host's own client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iserror import ErrorMap, Failure, ToolErrors, ToolFailure
from tests.conftest import Lines
from tests.helpers import hosts

pytestmark = [pytest.mark.host, pytest.mark.anyio]

WORD = "quokka"  # no rule knows it, so that where it shows is decided by construction


class Known(Exception):
    about = WORD


def entry_message() -> None:
    raise Known


def entry_details() -> None:
    raise Known


def tool_failure() -> None:
    raise ToolFailure("NO_ANIMAL", f"There is no {WORD}.")


def tool_error() -> None:
    raise hosts.ToolError(f"There is no {WORD}.")


def crash() -> None:
    raise RuntimeError(WORD)


def protocol_message() -> None:
    raise hosts.protocol_error(-31_001, f"There is no {WORD}.", None)


def protocol_data() -> None:
    raise hosts.protocol_error(-31_001, "There is none.", {"animal": WORD})


def local_variable() -> None:
    animal = WORD
    if animal:
        raise RuntimeError


def source_line() -> None:
    raise RuntimeError({"quokka": 1}.pop("quokka") and "")


# Tool: where the word shows. Of the hook's exception only the text is looked at.
SHOWN = {
    entry_message: "text meta hook",
    entry_details: "meta hook",
    tool_failure: "text meta log hook",
    tool_error: "text meta log hook",
    crash: "log hook",
    protocol_message: "rpc log",
    protocol_data: "rpc",
    local_variable: "",
    source_line: "log",
}


async def outlets(tool: Any, lines: Lines, arguments: dict[str, Any] | None = None, **settings: Any) -> str:
    """Call the tool on a guarded server and say where the word shows."""
    told: list[str] = []

    def hook(exc: BaseException, failure: Failure) -> None:
        told.append(f"{exc} {failure.to_wire()}")

    errors = ErrorMap()
    message = "No {exc.about}." if tool is entry_message else "None."
    details = ["about"] if tool is entry_details else []
    errors.add(Known, code="NO_ANIMAL", category="not_found", message=message, details=details)
    server = hosts.new_server()
    ToolErrors(errors, on_error=hook, **settings).attach(server)
    server.tool(name="find")(tool)
    async with hosts.in_memory(server) as call:
        answer = await call("find", arguments)
    result = answer.get("result", {})
    said = {
        "text": json.dumps(result.get("content", "")),
        "meta": json.dumps(result.get("_meta", "")),
        "rpc": json.dumps(answer.get("error", "")),
        "log": json.dumps(lines.read()),
        "hook": json.dumps(told),
    }
    return " ".join(name for name, text in said.items() if WORD in text)


@pytest.mark.parametrize("tool", SHOWN, ids=lambda tool: tool.__name__)
async def test_who_sees_it(tool: Any, lines: Lines) -> None:
    """A value shows in the outlets that the table names, and in no other."""
    assert SHOWN[tool] == await outlets(tool, lines)


@pytest.mark.parametrize(("settings", "shown"), [({}, ""), ({"log_arguments": True}, "log")])
async def test_argument_values(settings: dict[str, Any], shown: str, lines: Lines) -> None:
    """Argument values show nowhere, and in the log when asked for; those that do not fit do not even there."""

    def find(animal: str) -> None:
        raise RuntimeError("no")

    assert shown == await outlets(find, lines, {"animal": WORD}, **settings)


async def test_argument_values_that_do_not_fit(lines: Lines) -> None:
    """A refused value is in no outlet; the hook's exception, which is the validator's own, may quote it."""

    def find(count: int) -> None:
        raise AssertionError

    assert (await outlets(find, lines, {"count": WORD})).replace("hook", "").strip() == ""
