"""`iserror trace`: found by request id or trace id, printed safely, with exit codes that scripts can use."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iserror import ToolErrors, ToolFailure, configure_logging
from iserror.cli import main
from iserror.cli.terminal import write_private
from iserror.logs.read.follow import Follower

pytestmark = pytest.mark.hostless

REQUEST = "0190163d8694739bb34aa4f8a1c7bd31"
TRACE = "0af7651916cd43dd8448eb211c80319c"
RECORD: dict[str, Any] = {
    "timestamp": "2026-01-02T03:04:05.000006Z",
    "level": "error",
    "event": "tool_failed",
    "schema_version": 1,
    "server": "billing",
    "tool": "pay",
    "request_id": REQUEST,
    "trace_id": TRACE,
    "code": "INTERNAL_ERROR",
    "category": "internal",
    "retryable": False,
    "outcome": "unknown",
    "duration_ms": 1.5,
    "session_id": None,
    "fingerprint": "0123456789abcdef",
    "exception": [
        {
            "type": "RuntimeError",
            "message": "no\nroute",
            "frames": [{"file": "billing.py", "line": 7, "function": "pay", "source": "raise RuntimeError(text)"}],
        },
        {"type": "KeyError", "message": "7", "frames": [], "relation": "cause"},
    ],
}
TEXT = f"""\
2026-01-02T03:04:05.000006Z error tool_failed
  tool        pay on billing, after 1.5 ms
  failure     INTERNAL_ERROR (category=internal, retryable=False, outcome=unknown)
  request_id  {REQUEST}
  trace_id    {TRACE}
  fingerprint 0123456789abcdef
  Traceback (most recent call last):
  KeyError: 7
  (the exception above was the direct cause of the one below)
  Traceback (most recent call last):
    File "billing.py", line 7, in pay
      raise RuntimeError(text)
  RuntimeError: no
    route

"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one failure among other lines: foreign, torn, of other calls."""
    path = tmp_path / "logs" / "log.jsonl"
    path.parent.mkdir()
    other = {**RECORD, "request_id": "1" * 32, "trace_id": "2" * 32}
    lines = [
        b"not JSON at all " + REQUEST.encode(),
        json.dumps(other).encode(),
        b'{"event": "torn", "request_id": "' + REQUEST.encode(),
        b'["event", "' + REQUEST.encode() + b'"]',
        b'"event ' + REQUEST.encode() + b'"',
        b'{"event": "\xff\xfe", "request_id": "' + REQUEST.encode() + b'"}',
        b"[" * 100_000 + b'"event"',
        b"",
        json.dumps(RECORD).encode(),
        b'{"event": "the last line has no end", "request_id": "' + REQUEST.encode(),
    ]
    path.write_bytes(b"\n".join(lines))
    return path


SAID = (
    "iserror: skipped lines with this id that are not records: 6"
    "iserror: no line says how many lines the call has, so the whole log was searched (files: 1)"
)


@pytest.mark.parametrize(
    "wanted", [REQUEST, TRACE, REQUEST.upper(), f" {TRACE} ", "0190163d-8694-739b-b34a-a4f8a1c7bd31"]
)
def test_found(wanted: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request id or trace id in any spelling prints the record, by file or by folder."""
    for path in (log, log.parent, log.parent.parent):
        assert main(["trace", wanted, str(path)]) == 0
        out, err = capsys.readouterr()
        assert out == TEXT
        assert err.replace("\n", "") == ("" if TRACE in wanted else SAID)


def test_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json the records are printed as they are, one a line."""
    assert main(["trace", REQUEST, str(log), "--json"]) == 0
    out = capsys.readouterr().out
    assert [json.loads(line) for line in out.splitlines()] == [RECORD]


def test_unknown_id(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An id that no record has gives exit code 1 and a sentence on stderr."""
    assert main(["trace", "f" * 32, str(log)]) == 1
    assert capsys.readouterr() == (
        "",
        f"iserror: no record of {'f' * 32!r} in {log}: check the id, and that these are the logs of the server "
        "that answered\n",
    )


@pytest.mark.parametrize("wanted", ["", "-", "  ", "019", "0190163g", REQUEST + "0", "\x1b[31m"])
def test_no_id(wanted: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no id, nor the beginning of one, gives exit code 2 and says what is needed."""
    assert main(["trace", "--", wanted, str(log)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.isprintable() or err.rstrip("\n").isprintable()
    assert "use 4 to 32 hexadecimal digits of a request id or trace id" in err


def test_missing_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that does not exist gives exit code 2 and a sentence."""
    path = tmp_path / "nowhere"
    assert main(["trace", REQUEST, str(path)]) == 2
    assert capsys.readouterr() == ("", f"iserror: there is no file or folder {str(path)!r}\n")


@pytest.mark.parametrize("arguments", [[], ["trace"], ["find", REQUEST], ["trace", "--nope"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line gives exit code 2 and the usage."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: iserror")


def test_time_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records of one trace from several files come in time order."""
    for number, second in enumerate((3, 1, 2)):
        record = {**RECORD, "timestamp": f"2026-01-02T03:04:0{second}.000000Z", "tool": f"tool{second}"}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(record) + "\n")
    assert main(["trace", TRACE, str(tmp_path), "--json"]) == 0
    out = capsys.readouterr().out
    assert [json.loads(line)["tool"] for line in out.splitlines()] == ["tool1", "tool2", "tool3"]


HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\u200b\ud800"


def _hostile(value: object) -> object:
    if isinstance(value, dict):
        return {f"{key}": _hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_hostile(item) for item in value]
    return value if value in (REQUEST, TRACE) else f"{value}{HOSTILE}"


def test_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever stands in a record is printed with its control characters as escapes, keys too."""
    record = {**_hostile(RECORD), f"key{HOSTILE}": HOSTILE}  # type: ignore[dict-item]
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record) + "\n")
    for arguments in ([], ["--json"]):
        assert main(["trace", REQUEST, str(path), *arguments]) == 0
        out = capsys.readouterr().out
        assert [c for c in out if not c.isprintable() and c != "\n"] == []
        assert "owned" in out


ODD: list[Any] = [
    {"exception": "a text\x1b[31m"},
    {"exception": 7},
    {"exception": [7, None, []]},
    {"exception": [{}]},
    {"exception": [{"frames": None, "message": None, "notes": None, "exceptions": None}]},
    {"exception": [{"frames": [7], "exceptions": [7], "notes": [7]}]},
    {"exception": [{"frames": 7, "exceptions": {"a": 1}}]},
    {"timestamp": 7, "tool": None, "server": [], "code": {}, "duration_ms": "x"},
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_records(odd: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record of another shape than ours, from another version or program, is printed as well as it goes."""
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({**RECORD, **odd}) + "\n")
    assert main(["trace", REQUEST, str(path)]) == 0
    assert REQUEST in capsys.readouterr().out


def test_end_to_end(tmp_path: Path) -> None:
    """`python -m iserror trace` prints the traceback of a failure that this process logged."""
    configure_logging(tmp_path / "logs")
    with pytest.raises(ToolFailure) as caught:
        ToolErrors()(lambda: {}["no such key"])()
    failure = caught.value.failure
    assert failure is not None
    command = [sys.executable, "-m", "iserror", "trace", failure.request_id, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "error tool_failed\n" in done.stdout
    assert "  KeyError: 'no such key'\n" in done.stdout
    assert 'ToolErrors()(lambda: {}["no such key"])()' in done.stdout


def test_a_longer_id_beside_the_whole_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole id is found though another program's id begins with it."""
    path = tmp_path / "log.jsonl"
    path.write_text(f"{json.dumps(RECORD)}\n{json.dumps({**RECORD, 'request_id': REQUEST + '-retry-1'})}\n")
    assert main(["trace", REQUEST, str(path), "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [RECORD]


def test_html_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A report is asked for in one form."""
    (tmp_path / "log.jsonl").touch()
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "x.html"), "--json"]) == 2
    assert capsys.readouterr() == ("", "iserror: give --html or --json, not both\n")


def test_a_page_for_its_owner_only(tmp_path: Path) -> None:
    """The page that is written is readable by its owner only, as the log is, in place of a link too."""
    target, link = tmp_path / "target", tmp_path / "page.html"
    target.write_text("another's")
    link.symlink_to(target)
    write_private(link, "<html>")
    assert (link.is_symlink(), link.read_text(), stat.S_IMODE(link.stat().st_mode)) == (False, "<html>", 0o600)
    assert target.read_text() == "another's"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "target"]


def test_a_closed_stdout() -> None:
    """Without a stdout the command says so."""
    code = "import os, sys; sys.stdout = None; from iserror.cli import main; sys.exit(main(['report', '.']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "iserror: stdout is closed: there is nowhere to print to\n")


def test_last_lines_that_are_wanted(tmp_path: Path) -> None:
    """The lines that `tail` begins with are the last ones that pass its filters, however many others follow them."""
    path = tmp_path / "log.jsonl"
    others = [json.dumps({**RECORD, "level": "info", "event": "said"}) for _ in range(30)]
    path.write_text("\n".join([json.dumps(RECORD), *others]) + "\n")
    records = Follower([path], lambda record: record["level"] == "error").last(10)
    assert records == [RECORD]
