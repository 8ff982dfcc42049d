"""The log line: its keys, what it never holds, where it goes, and that no sink costs a result."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from iserror import ErrorMap, ToolErrors, ToolFailure, configure_logging, current_call
from iserror.logs.chain import State
from iserror.logs.fingerprint import FINGERPRINT_KEY
from iserror.logs.sink import FileSink
from iserror.support.causes import Group
from iserror.support.otel import parse_traceparent
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import protocol_error
from tests.servers.hostile_server import DSN, SECRET

pytestmark = pytest.mark.host

SCRIPT = "tests/servers/hostile_server.py"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class NotFound(Exception):
    pass


def build(**settings: Any) -> Any:
    """A guarded server with tools that fail and log."""
    errors = ErrorMap()
    errors.add(NotFound, code="NOT_FOUND", category="not_found", message="No such thing.")
    server = hosts.new_server()
    ToolErrors(errors, **settings).attach(server)

    @server.tool()
    def known(amount: int = 1, note: str = ""):  # type: ignore[no-untyped-def]
        raise NotFound("row 7 is gone")

    @server.tool()
    def crash():  # type: ignore[no-untyped-def]
        hidden = "-".join(["local", "value", "never", "shown"])
        try:
            {}[len(hidden)]
        except KeyError as exc:
            raise RuntimeError(f"cannot reach {DSN}") from exc

    @server.tool()
    def group():  # type: ignore[no-untyped-def]
        raise Group("both", [NotFound("one"), Group("inner", [ValueError("two"), OSError("three")])])

    @server.tool()
    def refuse():  # type: ignore[no-untyped-def]
        raise protocol_error(-31001, "no")

    @server.tool()
    def talk():  # type: ignore[no-untyped-def]
        structlog.get_logger().info("talking")
        return str(current_call() and current_call().request_id)  # type: ignore[union-attr]

    return server


# --- the line ----------------------------------------------------------------------------------------------------

ALWAYS = {
    "timestamp",
    "level",
    "event",
    "schema_version",
    "server",
    "tool",
    "request_id",
    "jsonrpc_id",
    "client",
    "protocol_version",
    "code",
    "category",
    "retryable",
    "outcome",
    "mapped",
    "duration_ms",
    "fingerprint",
    "exception",
    "lines",
}


@pytest.mark.anyio
async def test_keys(lines: Lines) -> None:
    """A failure writes one line with the contract's keys, a protocol error one with its code besides."""
    async with hosts.in_memory(build()) as call:
        for tool in ("known", "crash", "refuse"):
            await call(tool)
    known, crash, refuse = lines.read()
    assert set(known) == ALWAYS
    assert set(crash) == ALWAYS
    assert set(refuse) == ALWAYS | {"jsonrpc_error_code"}
    assert [line["lines"] for line in (known, crash, refuse)] == [1, 1, 1]
    keys = ("level", "event", "schema_version", "server", "tool", "code", "category", "retryable", "outcome", "mapped")
    assert [[line[key] for key in keys] for line in (known, crash, refuse)] == [
        ["warning", "tool_failed", 1, "tests", "known", "NOT_FOUND", "not_found", False, "not_applied", True],
        ["error", "tool_failed", 1, "tests", "crash", "INTERNAL_ERROR", "internal", False, "unknown", False],
        ["warning", "protocol_error", 1, "tests", "refuse", "-31001", "unknown", False, "unknown", False],
    ]
    assert list(known)[:3] == ["timestamp", "level", "event"]
    assert known["timestamp"][10] == "T"
    assert len(known["timestamp"]) == len("2026-01-01T00:00:00.000000Z")
    assert known["timestamp"].endswith("Z")
    assert len({line["request_id"] for line in (known, crash, refuse)}) == 3


@pytest.mark.anyio
async def test_exception(lines: Lines) -> None:
    """The line has the whole chain with frames and source lines, no secret, no local, nothing of ours."""
    async with hosts.in_memory(build()) as call:
        await call("crash")
    (line,) = lines.read()
    outer, inner = line["exception"]
    assert (outer["type"], outer["message"]) == (
        "RuntimeError",
        "cannot reach postgres://app:[redacted:userinfo]@10.0.0.9/prod",
    )
    assert (inner["type"], inner["relation"]) == ("KeyError", "cause")
    frame = outer["frames"][-1]
    assert set(frame) == {"file", "line", "function", "source"}
    assert frame["file"] == __file__
    assert frame["function"].endswith("crash")
    assert frame["source"] == 'raise RuntimeError(f"cannot reach {DSN}") from exc'
    text = json.dumps(line)
    assert SECRET not in text
    assert "local-value" not in text
    assert "iserror" + os.sep + "guard.py" not in text


@pytest.mark.anyio
async def test_group(lines: Lines) -> None:
    """The line of a group has every leaf."""
    async with hosts.in_memory(build()) as call:
        await call("group")
    (line,) = lines.read()
    (outer,) = line["exception"]
    (one,), (inner,) = outer["exceptions"]
    assert (one["type"], one["message"]) == (f"{__name__}.NotFound", "one")
    assert [(leaf["type"], leaf["message"]) for (leaf,) in inner["exceptions"]] == [
        ("ValueError", "two"),
        ("OSError", "three"),
    ]


@pytest.mark.anyio
async def test_arguments(lines: Lines) -> None:
    """Argument values stand in no line, accepted or refused, unless they are asked for, and then redacted."""
    sent = {"amount": 4711, "note": f"see {DSN}"}
    refused = {"amount": "four-seven-one-one", "note": "n0te"}
    for settings in ({}, {"log_arguments": True}):
        async with hosts.in_memory(build(invalid_arguments="result", **settings)) as call:
            await call("known", sent)
            await call("known", refused)
    *silent, told, _ = lines.read()
    text = json.dumps(silent)
    assert [value for value in ("4711", DSN, "four-seven", "n0te", SECRET) if value in text] == []
    assert [line["code"] for line in silent] == ["NOT_FOUND", "INVALID_ARGUMENTS"]
    assert silent[1]["fields"] == ["amount"]
    assert told["arguments"] == {"amount": 4711, "note": "see postgres://app:[redacted:userinfo]@10.0.0.9/prod"}


@pytest.mark.anyio
async def test_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal calls have equal fingerprints, by the key of the environment, else by one kept beside the log."""

    async def prints(folder: str) -> list[str]:
        configure_logging(tmp_path / folder)
        async with hosts.in_memory(build()) as call:
            for note in ("a", "a", "b"):
                await call("known", {"note": note})
        return [line["fingerprint"] for line in Lines(tmp_path / folder).read()[-3:]]

    first, second, other = await prints("one")
    assert first == second != other
    assert await prints("one") == [first, second, other]
    elsewhere = await prints("two")
    assert elsewhere[0] == elsewhere[1] != first
    monkeypatch.setenv(FINGERPRINT_KEY, "a key for all servers")
    assert await prints("one") == await prints("two") != [first, second, other]
    key = tmp_path / "one" / ".iserror-fingerprint-key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (PARENT, TRACE),
        (PARENT.upper(), None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (PARENT + "-more", None),
        ("ff" + PARENT[2:], None),
        ("\x1b[31m" + PARENT, None),
        ("x" * 100_000, None),
        (7, None),
    ],
)
def test_traceparent(traceparent: object, trace_id: str | None) -> None:
    """A valid traceparent gives its trace id, an invalid one gives none."""
    assert parse_traceparent(traceparent) == trace_id


@pytest.mark.newest
def test_traceparent_over_stdio(tmp_path: Path) -> None:
    """The trace id of the request is on the wire; the line is on disk with the answer; a tool's line has the ids."""
    log = tmp_path / "log.jsonl"
    with hosts.RawStdio(SCRIPT, "--log", str(log), "--signs", str(tmp_path)) as raw:
        answers = []
        for meta in ({"traceparent": PARENT}, {"traceparent": PARENT.upper()}):
            answers.append(raw.call("fail", {"kind": "1 MB"}, _meta=meta)["result"]["_meta"]["iserror/failure"])
            last = json.loads(log.read_text().splitlines()[-1])
            assert last["request_id"] == answers[-1]["request_id"]
            assert last.get("trace_id") == answers[-1].get("trace_id")
        talked = raw.call("talk")["result"]["_meta"]["iserror/failure"]
        said, failed = [json.loads(line) for line in log.read_text().splitlines()[-2:]]
        assert raw.noise == []
    assert [answer.get("trace_id") for answer in answers] == [TRACE, None]
    assert (said["event"], said["what"], said["tool"]) == ("talking", "a tool's own line", "talk")
    assert said["request_id"] == failed["request_id"] == talked["request_id"]
    assert said["jsonrpc_id"] == failed["jsonrpc_id"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize("options", [(), ("--structlog", "stdout")])
@pytest.mark.newest
def test_stdout_is_the_protocols(options: tuple[str, ...], tmp_path: Path) -> None:
    """Our line goes to stderr, whether structlog is as it comes or set up to print to stdout."""
    with hosts.RawStdio(SCRIPT, "--signs", str(tmp_path), *options) as raw:
        answer = raw.call("talk")["result"]["_meta"]["iserror/failure"]
        noise = [line for line in raw.noise if answer["request_id"] in line and "tool_failed" in line]
        own = [line for line in raw.noise if "talking" in line]
        errors = raw.close()
    assert noise == []
    if not options:
        assert own == []
        assert "a tool's own line" in errors
    assert [json.loads(line)["request_id"] for line in errors.splitlines() if '"tool_failed"' in line] == [
        answer["request_id"]
    ]


# --- structlog as the user has it --------------------------------------------------------------------------------


def guarded_crash() -> None:
    with pytest.raises(ToolFailure):
        ToolErrors()(lambda: 1 / 0)()


def test_native_structlog(capsys: pytest.CaptureFixture[str]) -> None:
    """A user's native configuration gets the line, and structlog stays as the user has it."""
    said: list[Any] = []
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, lambda _l, _m, event: said.append(dict(event)) or "text"],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    before = structlog.get_config()["processors"]
    guarded_crash()
    assert [(event["event"], event["code"]) for event in said] == [("tool_failed", "INTERNAL_ERROR")]
    assert structlog.get_config()["processors"] is before
    assert capsys.readouterr() == ("", "text\n")


def test_stdlib_structlog(caplog: pytest.LogCaptureFixture) -> None:
    """A user's configuration over the standard library gets the line as a record of its level."""
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    with caplog.at_level(logging.INFO):
        guarded_crash()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("iserror", "ERROR")
    assert json.loads(record.getMessage())["code"] == "INTERNAL_ERROR"


def test_missing_merge_contextvars(capsys: pytest.CaptureFixture[str]) -> None:
    """A configuration without merge_contextvars is told of it once."""
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    guarded_crash()
    guarded_crash()
    assert capsys.readouterr().err.count("no structlog.contextvars.merge_contextvars processor") == 1


# --- sinks that fail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["gone", "full", "a folder", "below a file"])
def test_file_that_cannot_be_written(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that takes no lines costs them and no result, and is told once."""
    path = tmp_path / "folder" / "log.jsonl"
    configure_logging(path)
    if broken == "gone":
        path.parent.write_text("in the way")
    elif broken == "full":
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full here")
        configure_logging("/dev/full")
    elif broken == "a folder":
        path.mkdir(parents=True)
    else:
        (tmp_path / "file").touch()
        configure_logging(tmp_path / "file" / "log.jsonl")
    guarded_crash()
    guarded_crash()
    assert capsys.readouterr().err.count("results are not affected") == 1


def test_folder_that_goes(tmp_path: Path) -> None:
    """A log whose folder is removed while it is in use is made anew."""
    path = tmp_path / "folder" / "log.jsonl"
    configure_logging(path)
    guarded_crash()
    path.unlink()
    path.parent.joinpath(".iserror-fingerprint-key").unlink(missing_ok=True)
    path.parent.rmdir()
    guarded_crash()
    assert len(path.read_text().splitlines()) == 1


def test_no_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stderr, or with a closed one, a failure is still answered."""
    monkeypatch.setattr(sys, "stderr", None)
    guarded_crash()
    with open(os.devnull, "w") as closed:
        pass
    monkeypatch.setattr(sys, "stderr", closed)
    guarded_crash()


def _write(folder: str, count: int) -> None:
    configure_logging(folder)
    for _ in range(count):
        guarded_crash()


@pytest.mark.parametrize("name", ["shared.jsonl", "folder"])
def test_several_processes(name: str, tmp_path: Path) -> None:
    """Processes that share a file or folder, forked ones too, leave whole lines and all of them."""
    path = tmp_path / "logs" / name
    configure_logging(path)
    guarded_crash()
    children = [multiprocessing.get_context("fork").Process(target=guarded_crash) for _ in range(2)]
    children += [multiprocessing.get_context("fork").Process(target=_write, args=(str(path), 50)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    files = [path] if path.is_file() else list(path.glob("*.jsonl"))
    ids = [json.loads(line)["request_id"] for file in files for line in file.read_text().splitlines()]
    assert len(ids) == len(set(ids)) == 103
    assert len(files) == (1 if name == "shared.jsonl" else 5)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("settings", [{"level": "LOUD"}, {"level": True}, {"stderr": False}, {"level": None}])
def test_bad_settings(settings: dict[str, Any]) -> None:
    """An unknown level, or nowhere to write to, is refused."""
    with pytest.raises(ValueError):
        configure_logging(**settings)


@pytest.mark.parametrize(
    ("path", "is_folder"),
    [("logs", True), ("logs.d", True), ("app-1.2", True), ("x.log/", True), ("a.jsonl", False), ("a.log", False)],
)
def test_what_is_a_folder(path: str, is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that ends like a log file is one, any other new one is a folder; a later chdir changes nothing."""
    monkeypatch.chdir(tmp_path)
    sink = FileSink(path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink.write('{"event": "x"}')
    written = tmp_path / path
    assert (written.is_dir(), written.is_file()) == (is_folder, not is_folder)


@pytest.mark.parametrize("settings", [{"path": ""}, {"level": 15}, {"level": "LOUD"}, {"stderr": False}])
def test_bad_logging_settings(settings: dict[str, Any]) -> None:
    """Nowhere to write, or a level that is none, is refused before anything changes."""
    before = State.file, State.stderr, State.configured
    with pytest.raises(ValueError, match=r"path is empty|is not valid|somewhere to write"):
        configure_logging(**settings)
    assert (State.file, State.stderr, State.configured) == before
