"""What every failure promises, whatever made it: checked on bare functions, and on what a client gets."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

from iserror import Failure, ToolErrors, ToolFailure
from tests.servers.hostile_server import DSN, SECRET, Halt

# Zero-width and bidirectional characters.
UNSEEN = re.compile("[\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
RAISED: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: RuntimeError(DSN),
    "SystemExit": lambda: SystemExit(DSN),
    "BaseException": lambda: Halt(DSN),
}
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def check_failure(failure: Failure | None) -> Failure:
    """Every promise of the wire that one failure can break."""
    assert failure is not None
    sent = json.dumps(failure.to_wire(), ensure_ascii=False, allow_nan=False)
    assert Failure.model_validate(json.loads(sent.encode("utf-8"))) == failure
    # Who reads it redacts it again: around a quoted value that may take more, but only once.
    read = Failure.from_wire(json.loads(sent))
    assert read is not None
    assert (read.code, read.outcome, read.request_id) == (failure.code, failure.outcome, failure.request_id)
    assert Failure.from_wire(read.to_wire()) == read
    assert 0 < len(failure.text) < 2000
    for line in (failure.message, failure.hint or "", failure.name, *failure.text.splitlines()):
        assert not UNSEEN.search(line)
        assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert SECRET not in sent + failure.text
    return failure


def check_answer(answer: dict[str, Any]) -> None:
    """The same of a whole answer as the client has it."""
    result = answer["result"]
    sent = json.dumps(result, ensure_ascii=False, allow_nan=False)
    assert SECRET not in sent.encode("utf-8").decode()
    assert result["isError"] is True
    failure = check_failure(Failure.model_validate(result["_meta"]["iserror/failure"]))
    assert failure.to_wire() == result["_meta"]["iserror/failure"]
    (text,) = [block["text"] for block in result["content"]]
    if failure.code in (
        "TOOL_ERROR",
        "RETURNED_ERROR",
    ):  # the whole text is the author's
        first, _, rest = text.partition("\n")
        assert first.startswith(f"{failure.code}: {failure.message.rstrip('…')}")
        assert rest.endswith(failure.text.rpartition("\n")[2])
        assert 0 < len(text) < 2000
    else:
        assert text == failure.text


def failure_of(guard: ToolErrors, exc: BaseException) -> Failure:
    """What a bare guarded function says when it raises this."""

    @guard
    def tool() -> None:
        raise exc

    return check_failure(caught_from(tool))


def caught_from(tool: Callable[[], object]) -> Failure | None:
    """The failure that a guarded function raises. What else it raises is named only: pytest could not print it."""
    try:
        tool()
    except ToolFailure as failed:
        return failed.failure
    except BaseException as escaped:
        kind = type(escaped).__name__
    else:
        kind = "nothing"
    raise AssertionError(f"instead of ToolFailure the guard raised {kind}")
