"""What is logged however a user has set up logging and structlog, and whatever the values are."""

from __future__ import annotations

import json
import logging
import logging.config
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from iserror import ToolErrors, ToolFailure, configure_logging, logs
from iserror.logs import configure
from iserror.logs.fingerprint import fingerprint
from iserror.logs.logging_bridge import LogHandler
from iserror.logs.read.summary import summarize
from iserror.logs.sink import FileSink
from tests.helpers import hosts
from tests.helpers.log_children import ESCAPES, command, fail, run, sink_of
from tests.helpers.log_files import (
    assert_counted,
    ids_of,
    log_files,
    name_of,
    needs_posix,
    raw_lines,
)

pytestmark = [pytest.mark.hostless, pytest.mark.newest]

# --- configurations of the user --------------------------------------------------------------------------------


@pytest.fixture
def bare_root() -> Iterator[Callable[[], None]]:
    """Makes the root logger as it comes, without pytest's own handlers; those come after the fixtures."""
    handlers, level = logging.root.handlers, logging.root.level

    def bare() -> None:
        logging.root.handlers = []
        logging.root.setLevel(logging.WARNING)

    yield bare
    logging.root.handlers = handlers
    logging.root.setLevel(level)


class Collecting(logging.Handler):
    """A user's handler."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


merge, level_name = structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level
NATIVE: dict[str, dict[str, Any]] = {
    "list": {"processors": [merge, level_name, structlog.processors.JSONRenderer()]},
    "tuple": {"processors": (merge, level_name, structlog.processors.JSONRenderer())},
    "cached": {"processors": [merge, structlog.processors.JSONRenderer()], "cache_logger_on_first_use": True},
    "with a time and a traceback": {
        "processors": [
            merge,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ]
    },
    "for people": {"processors": [merge, level_name, structlog.dev.ConsoleRenderer(colors=False)]},
}
STANDARD: dict[str, dict[str, Any]] = {
    "wrap_for_formatter": {"processors": [merge, level_name, structlog.stdlib.ProcessorFormatter.wrap_for_formatter]},
    "render_to_log_kwargs": {"processors": [merge, structlog.stdlib.render_to_log_kwargs]},
    "JSONRenderer": {"processors": [merge, level_name, structlog.processors.JSONRenderer()]},
    "dict_tracebacks": {
        "processors": [merge, structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()],
        "cache_logger_on_first_use": True,
    },
}


class Sink:
    """What a user's native structlog prints to."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def msg(self, text: str) -> None:
        self.lines.append(text)

    debug = info = warning = error = exception = msg


def _use(log: Any) -> str:
    """A call that logs in both ways and fails; its id."""

    def tool() -> None:
        hidden = "-".join(["local", "value", "never", "shown"])
        log.info("by structlog", what=1)
        logging.getLogger("of.the.tool").warning("by logging", extra={"more": 2})
        try:
            {}[hidden.upper()]
        except KeyError:
            log.exception("with a traceback")
        raise RuntimeError("no such row")

    with pytest.raises(ToolFailure) as raised:
        ToolErrors()(tool)()
    assert raised.value.failure is not None
    return raised.value.failure.request_id


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("config", [*NATIVE, *STANDARD])
def test_composes(
    bare_root: Callable[[], None], config: str, times: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With structlog and logging as a user has them, each line is in the log once, and in the user's output once."""
    bare_root()
    printed, handler = Sink(), Collecting()
    native = config in NATIVE
    if native:
        structlog.configure(logger_factory=lambda *_: printed, **NATIVE[config])
    else:
        structlog.configure(
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            **STANDARD[config],
        )
        if config == "wrap_for_formatter":
            handler.setFormatter(structlog.stdlib.ProcessorFormatter(structlog.processors.JSONRenderer()))
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO)
    log = structlog.get_logger("of.structlog")
    log.info("before")
    for _ in range(times):
        configure_logging(tmp_path / "logs")
        configure.prepare()  # as every guard does that is attached
        configure.prepare()
    said = capsys.readouterr()
    made = log if config != "tuple" else structlog.get_logger("of.structlog")
    request_id = _use(made)
    found = logs.find(request_id, tmp_path / "logs")
    by_event = {record["event"]: record for record in found}
    assert Counter(record["event"] for record in found) == {
        "by structlog": 1,
        "by logging": 1,
        "with a traceback": 1,
        "tool_failed": 1,
    }
    assert by_event["by structlog"]["what"] == 1
    assert by_event["by structlog"]["level"] == "info"
    assert by_event["by logging"]["more"] == 2
    assert by_event["with a traceback"]["level"] == "error"
    assert "KeyError" in json.dumps(by_event["with a traceback"]["exception"])
    assert "never-shown" not in json.dumps(found)
    assert_counted(found)
    mine = printed.lines if native else handler.lines
    # A traceback for people may show the source.
    assert sum("by structlog" in line for line in mine if "with a traceback" not in line) == 1
    assert sum("before" in line for line in mine) == 1
    assert sum("by logging" in line for line in handler.lines) == 1
    assert said.err.count("iserror: logging to") == said.err.count("\n") == times
    assert "structlog stays as you configured it" in said.err
    assert "1 handler of yours" in said.err
    assert (said.out, *capsys.readouterr()) == ("", "", "")


def test_standard_loggers_that_keep_their_records(bare_root: Callable[[], None], tmp_path: Path) -> None:
    """A record of a logger that does not propagate is in the log once, and so is one of its children."""
    bare_root()
    parent, child = logging.getLogger("tests.apart"), logging.getLogger("tests.apart.child")
    handler = Collecting()
    parent.addHandler(handler)
    parent.propagate = False
    try:
        for _ in range(2):
            configure_logging(tmp_path)
        parent.warning("by the parent")
        child.warning("by the child")
        logging.getLogger("tests.other").warning("by another")
        configure_logging(stderr=True)
        assert [found for found in parent.handlers if isinstance(found, LogHandler)] == []
    finally:
        parent.removeHandler(handler)
        parent.propagate = True
    events = Counter(record["event"] for record in logs.records(tmp_path))
    assert events == {"by the parent": 1, "by the child": 1, "by another": 1}
    assert handler.lines == ["by the parent", "by the child"]


@pytest.mark.parametrize(("first", "second"), [("ERROR", "DEBUG"), ("INFO", "DEBUG"), ("DEBUG", "WARNING")])
def test_level_of_the_second_configuration(
    bare_root: Callable[[], None], first: str, second: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The level of the last configuration counts, for every kind of line, and none is said to be the user's."""
    bare_root()
    levels = ["debug", "info", "warning", "error"]
    for level in (first, second):
        configure_logging(tmp_path / level, level=level)
        for name in levels:
            getattr(structlog.get_logger(), name)(f"structlog {name}")
            getattr(logging.getLogger("a"), name)(f"logging {name}")
    for level in (first, second):
        events = sorted(record["event"] for record in logs.records(tmp_path / level))
        shown = levels[levels.index(level.lower()) :]
        assert events == sorted(f"{way} {name}" for way in ("logging", "structlog") for name in shown)
    assert "is yours" not in capsys.readouterr().err


def test_root_level_of_the_user(
    bare_root: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A level that the user gave the root logger stays, and is told."""
    bare_root()
    logging.root.setLevel(logging.ERROR)
    configure_logging(tmp_path)
    configure_logging(tmp_path)
    assert logging.root.level == logging.ERROR
    assert capsys.readouterr().err.count("the root logger's level ERROR is yours") == 2


def test_fields_of_a_standard_record(bare_root: Callable[[], None], tmp_path: Path) -> None:
    """No field of a record hides its message or its logger, nor another field."""
    bare_root()
    configure_logging(tmp_path)
    extra = {"event": "my.event", "logger": "mine", "value": 1, "exception": "of mine", "stack": "of mine"}
    logging.getLogger("a.b").warning("the message", extra=extra)
    (record,) = logs.records(tmp_path)
    assert (record["event"], record["logger"], record["value"]) == ("the message", "a.b", 1)
    assert (record["event_event"], record["event_logger"]) == ("my.event", "mine")
    assert {"exception", "stack"} <= set(record)


@pytest.mark.parametrize("key", ["level", "timestamp"])
def test_fields_of_a_structlog_line(key: str, tmp_path: Path) -> None:
    """A field of the caller's that has a name of the log's own is kept under another."""
    configure_logging(tmp_path)
    structlog.get_logger().info("said", **{key: "gold"})
    (record,) = logs.records(tmp_path)
    assert record[f"event_{key}"] == "gold"
    assert record["level"] == "info"


class Odd:
    """What is no JSON, in one way or another."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


ODD: dict[str, Any] = {
    "not a number": float("nan"),
    "endless": float("-inf"),
    "huge": 10**5000,
    "bytes": b"\xff",
    "lone surrogate": "\ud800",
    "no text": Odd(),
    "keys that are no texts": {1: 2, None: 3, (1, 2): 4},
    "a set": {1, 2},
    "a path": Path("x"),
    "an exception": ValueError("x"),
    "deep": json.loads("[" * 500 + "]" * 500),
    "a million": "x" * 1_000_000,
}
_ring: list[Any] = []
_ring.append(_ring)
ODD["a ring"] = _ring


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_json(kind: str, tmp_path: Path) -> None:
    """A line with any value in it is there, as JSON that every program reads."""
    log = sink_of(tmp_path)
    structlog.get_logger().info("said", value=ODD[kind], other=1)
    logging.getLogger("a").warning("by logging", extra={"value": ODD[kind]})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    (file,) = log_files(tmp_path)
    data = file.read_bytes().decode("utf-8", "strict")
    said, logged = [json.loads(line, parse_constant=refuse) for line in data.splitlines()]
    assert (said["event"], logged["event"], log.lost) == ("said", "by logging", 0)
    assert said.get("other") == 1 or kind == "a million"  # what is too much for the redactor stands for all fields


@needs_posix
def test_a_terminal(tmp_path: Path) -> None:
    """At a terminal a failure is text for a person, without an escape of a caller's; stdout stays empty."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        command("terminal", "-"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=dict(os.environ)
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert child.communicate()[0] == b"null\n"
    assert child.returncode == 0
    text = shown.decode()
    # The colours of the text itself, and the ends of lines of a terminal.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.replace("\r\n", "\n"))
    assert "\x1b[31mred" not in text
    assert {c for c in plain if not c.isprintable()} == {"\n"}
    assert plain.count("tool_failed") == 1
    for piece in ("RuntimeError: then", "second line", "ValueError: first", "INTERNAL_ERROR", "by logging" * 0):
        assert piece in plain
    assert plain.count("Traceback (most recent call last):") >= 4
    assert "{" + '"timestamp"' not in plain
    assert ESCAPES not in text


@needs_posix
@pytest.mark.parametrize("where", ["folder", "stderr"])
def test_environment(where: str, tmp_path: Path) -> None:
    """With `ISERROR_LOG` set, a server that calls only `attach` logs there, all kinds of lines; stdout stays empty."""
    path = tmp_path / "logs" if where == "folder" else "stderr"
    request_id, stderr = run("environment", "-", env={**os.environ, "ISERROR_LOG": str(path)}, cwd=tmp_path)
    (note,) = [line for line in stderr.splitlines() if line.startswith("iserror: logging to")]
    assert str(path) in note
    if where == "stderr":
        assert "by logging" in stderr  # by the host's own handler, where it has one
        events = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    else:
        events = list(logs.records(path))
        assert [line for line in stderr.splitlines() if line.startswith("{")] == []
    named = [record["event"] for record in events]
    assert named.count("by structlog") == named.count("tool_failed") == 1
    assert named.count("by logging") == 1 or where == "stderr"
    assert ids_of(events) == [request_id]


def test_environment_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that cannot be used, named by `ISERROR_LOG`, costs no result, and is told."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISERROR_LOG", str(tmp_path / "file" / "below") + "/")
    ToolErrors().attach(hosts.new_server())
    fail()
    assert capsys.readouterr().err.count("results are not affected") == 1


def test_case_c05(tmp_path: Path) -> None:
    """C05: no local variable gets into the log, of whatever structlog's processors make of a traceback."""
    structlog.configure(
        processors=[merge, structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()],
        logger_factory=lambda *_: Sink(),
    )
    configure_logging(tmp_path)
    request_id = _use(structlog.get_logger())
    assert "never-shown" not in json.dumps(logs.find(request_id, tmp_path))

    def tool() -> None:
        hidden = "-".join(["local", "value", "never", "shown"])
        try:
            {}[hidden.upper()]
        except KeyError:
            text = structlog.tracebacks.extract(*sys.exc_info(), show_locals=True)
            structlog.get_logger().info("by hand", trace={"frames": [{"locals": {"a": 1}}]}, count=len(text.stacks))
        raise RuntimeError("no such row")

    with pytest.raises(ToolFailure):
        ToolErrors()(tool)()
    assert "never-shown" not in "".join(line for file in log_files(tmp_path) for line in raw_lines(file))


# --- hostile values --------------------------------------------------------------------------------------------


class Awkward(dict[Any, Any]):
    """Raises whatever is asked of it."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = object.__hash__


class Key:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def linked(count: int) -> dict[str, Any]:
    """Objects that all lead to all others."""
    rows: list[dict[str, Any]] = [{"id": number} for number in range(count)]
    for row in rows:
        row["peers"] = rows
    return rows[0]


AWKWARD: dict[str, Callable[[], Any]] = {
    "a mapping that raises": Awkward,
    "a key that raises": lambda: {Key(): 1},
    "an object that raises": Key,
    "a graph": lambda: linked(40),
    "a million": lambda: list(range(1_000_000)),
    "itself": lambda: (lambda held: held.append(held) or held)([]),
    "a generator": lambda: (number for number in range(3)),
}


@pytest.mark.parametrize("by", ["structlog", "logging", "the message", "an id"])
@pytest.mark.parametrize("value", AWKWARD)
def test_an_awkward_value(value: str, by: str, tmp_path: Path, bare_root: Callable[[], None]) -> None:
    """A value that cannot be shown costs its place in the line, and neither the line, its other fields nor a second."""
    bare_root()
    configure_logging(tmp_path)
    thing = AWKWARD[value]()

    @ToolErrors()
    def tool() -> None:
        if by == "structlog":
            structlog.get_logger().warning("paid", order=7, thing=thing)
        elif by == "logging":
            logging.getLogger("shop").warning("paid", extra={"order": 7, "thing": thing})
        elif by == "an id":
            structlog.get_logger().warning("paid", order=7, request_id=thing)
        else:
            logging.getLogger("shop").warning(thing)
        raise RuntimeError

    with pytest.raises(ToolFailure) as caught:
        tool()
    assert caught.value.failure is not None
    line, failed = logs.find(caught.value.failure.request_id, tmp_path)
    assert (line["level"], failed["event"]) == ("warning", "tool_failed")
    if by != "the message":
        assert (line["event"], line["order"]) == ("paid", 7)
    assert len(json.dumps(line)) < 200_000


@pytest.mark.parametrize("room", [*range(930, 1_000, 6), *range(3_930, 4_000, 6), *range(15_930, 16_000, 6)])
def test_a_secret_at_a_cut(room: int, tmp_path: Path) -> None:
    """A long value is not cut in the middle of a secret, which would look like none."""
    word = "Sup3rS3cret" + "Passw0rd"
    text = "x" * room + f" postgres://u:{word}@h/db " + "y" * 20_000

    class Row:
        def __str__(self) -> str:
            return text

    configure_logging(tmp_path)
    logging.getLogger("a").warning(text, extra={"text": text, "row": Row()})
    structlog.get_logger().warning("x", stack=text, exception=text)
    (file,) = log_files(tmp_path)
    written = file.read_text()
    assert written.count("\n") == 2
    assert [part for part in (word, word[:12]) if part in written] == []


@pytest.mark.parametrize("number", [10, 20, 25, 30, 40, 45, 50, 60])
def test_level_of_a_record(number: int, tmp_path: Path, bare_root: Callable[[], None]) -> None:
    """The level is the record's number, whatever a formatter or a program makes of its name."""
    bare_root()

    class Colours(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            record.levelname = f"\x1b[31m{record.levelname}\x1b[0m"
            return True

    logger = logging.getLogger("coloured")
    logger.addFilter(Colours())
    try:
        configure_logging(tmp_path, level="DEBUG")
        logging.root.setLevel(logging.DEBUG)
        logger.log(number, "said")
    finally:
        logger.filters.clear()
    (line,) = logs.records(tmp_path)
    assert line["level"] == ["debug", "info", "warning", "error", "critical"][min(number, 50) // 10 - 1]


def test_a_record_is_no_line_of_ours(tmp_path: Path, bare_root: Callable[[], None]) -> None:
    """What a caller sends and a tool logs as it is cannot pass for a failure in the report."""
    bare_root()
    configure_logging(tmp_path)
    body = {"event": "tool_failed", "schema_version": 1, "tool": "pay", "code": "INTERNAL_ERROR", "mapped": False}
    logging.getLogger("webhooks").warning(json.dumps(body))
    logging.getLogger("webhooks").warning("x", extra={key: value for key, value in body.items() if key != "event"})
    structlog.get_logger().warning(**body)
    assert len(list(logs.records(tmp_path))) == 3
    assert summarize(logs.records(tmp_path)).failures == 0


def test_configured_over_the_log(tmp_path: Path, bare_root: Callable[[], None]) -> None:
    """What configures logging and structlog after the log was does not cost its lines: the next server mends it."""
    bare_root()
    configure_logging(tmp_path)
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "root": {"level": "INFO"}})
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.ReturnLoggerFactory()
    )
    ToolErrors().attach(hosts.new_server())
    logging.getLogger("a").warning("by logging")
    structlog.get_logger().warning("by structlog")
    assert [record["event"] for record in logs.records(tmp_path)] == ["by logging", "by structlog"]


def test_a_logger_that_propagates_after_all(tmp_path: Path, bare_root: Callable[[], None]) -> None:
    """A record that passes two of our handlers is written once."""
    bare_root()
    logger = logging.getLogger("apart")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    try:
        configure_logging(tmp_path)
        logger.propagate = True
        logger.warning("once")
        configure_logging(tmp_path)
        logger.warning("twice")
    finally:
        logger.handlers.clear()
    assert [record["event"] for record in logs.records(tmp_path)] == ["once", "twice"]


@needs_posix
def test_files_that_others_put_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named pipe in the place of the log or of the key is not waited for, and a link is not followed to a key."""
    for name in ("log.jsonl", ".iserror-fingerprint-key"):
        os.mkfifo(tmp_path / name)
    configure_logging(tmp_path / "log.jsonl")
    fail()
    assert capsys.readouterr().err.count("results are not affected") == 1
    assert fingerprint("tool", {}) is not None


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1"])
def test_stdout_is_no_log(path: str) -> None:
    """A log that would go to stdout, which is the protocol, is refused, from the environment too."""
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    code = f"from iserror import configure_logging, ToolErrors\nToolErrors()\nconfigure_logging({path!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "ISERROR_LOG": path},
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = [line for line in done.stderr.splitlines() if line.startswith(("iserror: ", "ValueError: "))]
    assert len(said) == 2
    assert all("is stdout, which is the protocol" in line for line in said)


def test_age_without_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an age, a day's lines stand in a file of their own, and old ones go though no file is ever full."""
    clock = [1_767_323_045 * 10**9]
    monkeypatch.setattr("iserror.logs.sink.time", SimpleNamespace(time_ns=lambda: clock[0]))
    log = FileSink(tmp_path, max_age=86_400)
    log.write('{"event": "first"}')
    clock[0] += 86_400 * 10**9
    log.write('{"event": "second"}')
    log.tidy(30)
    (old,) = (file for file in log_files(tmp_path) if "first" in "".join(raw_lines(file)))
    assert name_of(old).last is not None
    os.utime(old, (1, 1))
    clock[0] += 3_600 * 10**9
    log.write('{"event": "third"}')
    log.tidy(30)
    assert [json.loads(line)["event"] for file in log_files(tmp_path) for line in raw_lines(file)] == [
        "second",
        "third",
    ]


def test_what_is_said_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said on stderr is one line of printable text, whatever stands in a path."""
    configure_logging(tmp_path / "e\x1b[31mvil\n.jsonl")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n")
    assert err[:-1].isprintable()


@pytest.mark.parametrize("path", ["~nobody-of-that-name/logs", "~nobody-of-that-name/x.jsonl"])
def test_no_home(path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A home folder that there is not is an error that names the path, and keeps no server from starting."""
    with pytest.raises(ValueError, match="has no home folder"):
        configure_logging(path)
    monkeypatch.setenv("ISERROR_LOG", path)
    ToolErrors()
    assert "ISERROR_LOG is not used" in capsys.readouterr().err
    with pytest.raises(ValueError, match="has no home folder"):
        logs.find("0" * 32)
