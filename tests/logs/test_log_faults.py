"""A bug in the log's own steps: the call is answered, its line is written, and the bug is heard, without user text."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from iserror import ToolErrors, ToolFailure, configure_logging, logs
from iserror.logs import (
    appender,
    chain,
    emit,
    excinfo,
    fingerprint,
    logging_bridge,
    redaction,
    sink,
    structlog_bridge,
    terminal,
)
from iserror.logs.chain import State
from iserror.logs.housekeeping import Housekeeper
from iserror.support.look import faults
from tests.conftest import Lines

pytestmark = pytest.mark.hostless

SECRET = "order 4711 of Ann"
STDERR = "iserror: guard_error: "


def bug(*_: object, **__: object) -> Any:
    raise RuntimeError(SECRET)


def failing() -> None:
    raise LookupError("no such row")


def fail(tool: Callable[[], None] = failing) -> str:
    """A call that fails; returns its request id."""
    with pytest.raises(ToolFailure) as caught:
        ToolErrors()(tool)()
    assert caught.value.failure is not None
    assert caught.value.failure.code == "INTERNAL_ERROR"
    return caught.value.failure.request_id


def heard(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "guard_error"]


# --- each step of a failure's line ---------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]

STEPS: dict[str, Break] = {
    "the frames": lambda patch: patch.setattr(excinfo, "_frames", bug),
    "the types": lambda patch: patch.setattr(excinfo, "_type_name", bug),
    "the chain as JSON": lambda patch: patch.setattr(excinfo, "to_json", bug),
    "the encoder": lambda patch: patch.setattr(chain, "_ENCODE", bug),
    "the emitter": lambda patch: patch.setattr(emit, "_emit", bug),
    "the texts": lambda patch: patch.setattr(redaction, "redact_text", bug),
}


@pytest.mark.usefixtures("bugs_are_reported")
@pytest.mark.parametrize("step", STEPS)
def test_a_bug_is_heard(
    step: str, lines: Lines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure has its line, under its id; so has the bug, with the place in our code and nothing of the text."""
    capsys.readouterr()
    STEPS[step](monkeypatch)
    first, second = fail(), fail()
    found = lines.read()
    for request_id in (first, second):
        *bugs, failed = [line for line in found if line.get("request_id") == request_id]
        assert (failed["event"], failed["level"], failed["code"]) == ("tool_failed", "error", "INTERNAL_ERROR")
        assert failed["lines"] == len(bugs) + 1
        assert [line["event"] for line in bugs] == ["guard_error"] * max(1, len(bugs))
        for line in bugs:
            assert (line["level"], line["error"], line["schema_version"]) == ("error", "RuntimeError", 1)
            assert line["tool"] == "failing"
            assert line["places"]
            assert all(place.startswith(("logs/", "support/look.py:")) for place in line["places"])
    assert SECRET not in json.dumps(found)
    stderr = capsys.readouterr().err
    assert SECRET not in stderr
    assert stderr.count(STDERR) == len(set(stderr.splitlines())) >= 1
    # The emitter is called by `shield` itself, so that nothing else of ours is on the way to a stand-in for it.
    assert f"RuntimeError at {'support/look.py' if step == 'the emitter' else 'logs/'}" in stderr


@pytest.mark.usefixtures("bugs_are_reported")
def test_one_line_for_one_bug(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug gives one line each time, and one line on stderr in all."""
    capsys.readouterr()
    monkeypatch.setattr(excinfo, "_frames", bug)
    ids = [fail() for _ in range(3)]
    assert [line["request_id"] for line in heard(lines.read())] == ids
    assert capsys.readouterr().err.count(STDERR) == 1
    (failed,) = [line for line in lines.read() if line["event"] == "tool_failed" and line["request_id"] == ids[0]]
    assert failed["exception"] == [{"type": "LookupError", "message": "", "frames": []}]
    assert len(logs.find(ids[0], lines.folder)) == 2


@pytest.mark.parametrize("step", STEPS)
def test_a_bug_fails_a_test(step: str, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this suite nothing of it is swallowed."""
    STEPS[step](monkeypatch)
    with pytest.raises(RuntimeError, match=SECRET):
        chain.write_line({"event": "x", "exception": excinfo.described(LookupError())}, None)
        emit.emit("error", "x", {})
    assert faults.raises


@pytest.mark.usefixtures("bugs_are_reported")
def test_nothing_works(lines: Lines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug in the reporting of a bug ends there: the call is answered, stderr has the bug, and no step runs again."""
    capsys.readouterr()
    runs: list[int] = []
    monkeypatch.setattr(chain, "to_json", lambda event: (runs.append(1), bug()))
    for module in (emit, structlog_bridge, logging_bridge):
        monkeypatch.setattr(module, "write_line", bug)
    monkeypatch.setattr(emit, "call_ids", bug)
    fail()
    assert lines.read() == []
    assert len(runs) < 10
    stderr = capsys.readouterr().err
    assert STDERR in stderr
    assert SECRET not in stderr


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_in_the_fingerprint(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without its fingerprint is still a line."""
    monkeypatch.setattr(fingerprint, "_key", bug)
    assert fingerprint.fingerprint("pay", {"order": 4711}) is None
    (line,) = lines.read()
    assert (line["event"], line["places"][-1].partition(":")[0]) == ("guard_error", "logs/fingerprint.py")


# --- lines of other loggers ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("bugs_are_reported")
@pytest.mark.parametrize("by", ["structlog", "logging", "a user's structlog"])
def test_lines_of_others(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that a bug keeps from being made is there as a line that says so, under the call's ids."""
    if by == "a user's structlog":
        structlog.configure(
            processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
    configure_logging(tmp_path)
    for module in (structlog_bridge, logging_bridge):
        monkeypatch.setattr(module, "prepared", bug)

    def tool() -> None:
        if by == "logging":
            logging.getLogger("shop").warning("paid")
        else:
            structlog.get_logger().warning("paid")
        raise LookupError

    request_id = fail(tool)
    found = logs.find(request_id, tmp_path)
    made = [] if by == "a user's structlog" else ["(a line that could not be made)"]
    assert [line["event"] for line in found] == ["guard_error", *made, "tool_failed"]


@pytest.mark.usefixtures("bugs_are_reported")
def test_through_a_users_structlog(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody called `configure_logging`, the bug's line goes where the library's other lines go."""
    out = io.StringIO()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(out),
    )
    monkeypatch.setattr(excinfo, "_frames", bug)
    request_id = fail()
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["event"], line["request_id"]) for line in found] == [
        ("guard_error", request_id),
        ("tool_failed", request_id),
    ]
    assert SECRET not in out.getvalue() + capsys.readouterr().err


# --- the sinks -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_in_the_sink(lines: Lines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug that costs every line is heard once, on stderr; the lost lines are counted, and the log then says so."""
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(appender.Appender, "append", bug)
        for _ in range(3):
            fail()
        assert State.file is not None
        assert State.file.lost == 4  # with the line about the bug
    stderr = capsys.readouterr().err
    assert stderr.count(STDERR) == 1
    assert "a bug in iserror" in stderr
    assert SECRET not in stderr
    request_id = fail()
    assert [(line["event"], line.get("lost")) for line in lines.read()] == [("tool_failed", None), ("log_resumed", 4)]
    assert lines.read()[0]["request_id"] == request_id


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_after_the_line(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in what follows a line costs no line, and its own line comes right after that one."""
    monkeypatch.setattr(Housekeeper, "wake", bug)
    fail()
    assert [line["event"] for line in lines.read()] == ["tool_failed", "guard_error"]


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_in_the_note(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug that comes with every line, the line about it included, is reported once and does not go round."""
    assert State.file is not None
    State.file.lost = 1
    monkeypatch.setattr(sink.FileSink, "_resume", bug)
    fail()
    fail()
    assert Counter(line["event"] for line in lines.read()) == {"tool_failed": 2, "guard_error": 1}


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_in_the_terminals_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be shown as text for people is shown as the line."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    configure_logging(tmp_path, stderr=True)
    monkeypatch.setattr(terminal, "printable", bug)
    request_id = fail()
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert f'"request_id": "{request_id}"' in shown
    assert shown.count(STDERR) == 1
    assert SECRET not in shown
    assert [line["event"] for line in logs.find(request_id, tmp_path)] == ["tool_failed", "guard_error"]


@pytest.mark.usefixtures("bugs_are_reported")
def test_a_bug_in_housekeeping(tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the thread is heard; a folder that cannot be read is not one."""
    assert State.file is not None
    keeper = Housekeeper(tmp_path / "gone", None, None)
    keeper.wake()
    keeper.wait(30)
    assert heard(lines.read()) == []
    monkeypatch.setattr(Housekeeper, "_sweep", bug)
    done = threading.Event()
    monkeypatch.setattr(faults, "listener", lambda fault: (emit.write_fault(fault), done.set()))
    keeper.wake()
    assert done.wait(30)
    keeper.wait(30)
    State.file.tidy(30)  # the log's own folder has the same bug, which its first line wakes
    for line in heard(lines.read()):
        assert "request_id" not in line
        assert line["places"][-1].startswith("logs/housekeeping.py:")


# --- foreign objects are not bugs -----------------------------------------------------------------------------


class Hostile:
    """Raises whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_what_a_user_made_is_no_bug(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, keys, notes, messages and arguments that raise are the user's: the log keeps silent about them."""
    ours = [handler for handler in logging.root.handlers if isinstance(handler, logging_bridge.LogHandler)]
    monkeypatch.setattr(logging.root, "handlers", ours)  # pytest's raise what a record's text raises

    class HostileError(Exception):
        __notes__ = property(lambda self: bug())  # type: ignore[assignment]

        def __str__(self) -> str:
            return bug()

    def tool(value: object) -> None:
        structlog.get_logger().warning("paid", value=value, exc_info=value)
        logging.getLogger("shop").warning("paid %s", value)
        logging.getLogger("shop").warning(value)
        raise HostileError

    with pytest.raises(ToolFailure):
        ToolErrors()(tool)(Hostile())
    written = [json.loads(line) for file in lines.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert [line["event"] for line in written] == [
        "paid",
        "(a line that could not be made)",
        "(a line that could not be made)",
        "tool_failed",
    ]
    assert fingerprint.fingerprint("a", {"b": Hostile()}) is None
