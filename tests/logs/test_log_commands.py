"""`iserror trace` and `iserror tail`: what they take, what they show, and what they follow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iserror import logs
from iserror.cli import run as cli
from iserror.logs.read import follow, source
from iserror.logs.read.follow import Follower
from iserror.logs.record import stamp
from iserror.logs.segment import Name
from tests.helpers.log_records import (
    BASE,
    CALLS,
    SECOND,
    TRACE,
    close_and_compress,
    compress,
    failure,
    line_of,
    numbers,
    rotate,
)

pytestmark = [pytest.mark.hostless, pytest.mark.newest]

# --- the command line ---------------------------------------------------------------------------------------------


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "iserror", *map(str, arguments)], capture_output=True, timeout=60, **options
    )


@pytest.mark.parametrize("where", ["one file", "another file", "before it"])
def test_an_id_that_an_upstream_reused(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A call that got the id of another call from its upstream is shown too: after that one, and told from it."""
    own = line_of(failure(CALLS[0], lines=1, n=0, tool="pay"))
    other = line_of(failure(CALLS[1], n=1, tool="ask", upstream_request_id=CALLS[0]))
    if where == "another file":
        (tmp_path / "a.jsonl").write_bytes(own)
        (tmp_path / "b.jsonl").write_bytes(other)
    else:
        (tmp_path / "a.jsonl").write_bytes(b"\n".join([own, other] if where == "one file" else [other, own]))
    assert cli.main(["trace", CALLS[0], str(tmp_path)]) == 0
    first, _, second = capsys.readouterr().out.partition("Other calls, which got this id from the server behind them")
    assert ("pay" in first, "ask" in first) == (True, False)
    assert ("pay" in second, "ask" in second, CALLS[1] in second) == (False, True, True)
    assert cli.main(["trace", CALLS[0], str(tmp_path), "--json"]) == 0
    assert [json.loads(line)["tool"] for line in capsys.readouterr().out.splitlines()] == ["pay", "ask"]
    (tmp_path / "a.jsonl").write_bytes(other)
    assert cli.main(["trace", CALLS[0], str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Other calls")


def test_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first digits of an id are enough where they are of one; else those that begin so are listed."""
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line_of(failure(id, trace_id=TRACE, n=0)) for id in CALLS))
    assert cli.main(["trace", TRACE[:4], str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("tool_failed") == 3
    common = CALLS[0][:7]
    assert cli.main(["trace", CALLS[1][:12], str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("tool_failed") == 1
    assert cli.main(["trace", common, str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == CALLS
    assert err == f"iserror: 3 calls begin with {common!r}: give more digits\n"
    assert cli.main(["trace", TRACE[:3], str(tmp_path)]) == 2
    assert cli.main(["trace", "0" * 8, str(tmp_path)]) == 1


def test_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a path it is what ISERROR_LOG names, else ./logs."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["trace", CALLS[0]]) == 2
    assert capsys.readouterr().err == "iserror: there is no file or folder 'logs'\n"
    for folder, id in (("logs", CALLS[0]), ("named", CALLS[1])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_bytes(line_of(failure(id)))
    for named, id in (("", CALLS[0]), ("stderr", CALLS[0]), ("named", CALLS[1]), ("named/a.jsonl", CALLS[1])):
        monkeypatch.setenv("ISERROR_LOG", named)
        assert cli.main(["trace", id]) == 0
        assert len(logs.find(id)) == len(list(logs.records())) == 1


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-01-02", None, [0, 1, 2, 3]),
        ("2026-01-02T03:04:06", None, [1, 2, 3]),
        ("2026-01-02T03:04:06Z", "2026-01-02T03:04:06.500000+00:00", [1]),
        ("2026-01-02T05:04:06+02:00", "2026-01-03", [1, 2]),
        (None, "2026-01-02 03:04:05", [0]),
        ("2w", "90s", [3]),
        ("24h", None, [3]),
        (None, "15m", [0, 1, 2, 3]),
        ("7d", "1h", [3]),
        ("0s", None, []),
        ("2026-01-02T03:04:06", "2026-01-02T03:04:05", []),
    ],
)
def test_times(
    since: str | None, until: str | None, expected: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--since and --until take points in time and ages."""
    records = [failure(CALLS[0], second, n=second) for second in range(3)]
    recent = datetime.now(timezone.utc) - timedelta(hours=2)
    records.append({**failure(CALLS[0], n=3), "timestamp": recent.strftime("%Y-%m-%dT%H:%M:%S.%fZ")})
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(map(line_of, records)))
    options = [f"--since={since}"] * (since is not None) + [f"--until={until}"] * (until is not None)
    assert cli.main(["trace", CALLS[0], str(tmp_path), "--json", *options]) == (0 if expected else 1)
    assert [json.loads(line)["n"] for line in capsys.readouterr().out.splitlines()] == expected


@pytest.mark.parametrize("text", ["", "soon", "7", "7y", "-1d", "2026-13-01", "1e3s", "9999999999d", "\x1b[2J"])
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_no_time(option: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What isn't a time is refused, with an example of each form."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["trace", CALLS[0], f"{option}={text}"])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert "use 2026-11-30, 2026-11-30T09:00 (UTC) or an age such as 24h" in err
    assert "invalid time" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("text", ["999999999w", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_time_beyond_time(text: str) -> None:
    """A time that no clock shows is refused as one that is none."""
    with pytest.raises(SystemExit):
        cli.main(["trace", CALLS[0], f"--since={text}"])


@pytest.mark.parametrize("count", ["-1", "x", "9" * 30, ""])
def test_no_count(count: str) -> None:
    """A number of lines that is none is refused."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["tail", f"-n={count}"])
    assert caught.value.code == 2


@pytest.mark.parametrize("count", [1, 20_000])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_broken_pipe(count: int, options: list[str], tmp_path: Path) -> None:
    """A reader that has seen enough is no error, whether little or much is left."""
    (tmp_path / "a.jsonl").write_bytes((line_of(failure(CALLS[0], text="x" * 100)) + b"\n") * count)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "iserror", "trace", CALLS[0], tmp_path, *options],
            stdout=writing,
            stderr=subprocess.PIPE,
            env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
        )
    finally:
        os.close(writing)
    assert (done.returncode, [line for line in done.stderr.splitlines() if not line.startswith(b"iserror: ")]) == (
        0,
        [],
    )


FULL = f"""\
2026-01-02T03:04:05.000000Z error tool_failed
  tool        pay on billing, after 12.5 ms
  failure     INTERNAL_ERROR (category=internal, retryable=False, outcome=unknown)
  request_id  {CALLS[0]}
  trace_id    {TRACE}
  client      agent 1.0
  Traceback (most recent call last):
    File "db.py", line 3, in connect
      sock.connect(address)
  OSError: refused
  (the exception above was the direct cause of the one below)
  Traceback (most recent call last):
    File "pay.py", line 7, in pay
      raise Unavailable("db") from exc
  Unavailable: db
    a note

Around it:
  2026-01-02T03:04:04.000000Z info connecting to=db
  2026-01-02T03:04:06.000000Z info gave up

"""


def test_order_of_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was called, by whom, how long it took, the failure, its traceback with causes; then the lines around it."""
    common = {"request_id": CALLS[0], "tool": "pay", "trace_id": TRACE, "level": "info"}
    frame = {"file": "pay.py", "line": 7, "function": "pay", "source": 'raise Unavailable("db") from exc'}
    cause = {"file": "db.py", "line": 3, "function": "connect", "source": "sock.connect(address)"}
    record = failure(
        CALLS[0],
        server="billing",
        duration_ms=12.5,
        category="internal",
        retryable=False,
        outcome="unknown",
        trace_id=TRACE,
        client="agent 1.0",
        lines=3,
        exception=[
            {"type": "Unavailable", "message": "db", "frames": [frame], "notes": ["a note"]},
            {"type": "OSError", "message": "refused", "frames": [cause], "relation": "cause"},
        ],
    )
    records = [
        {"timestamp": stamp(BASE - SECOND), "event": "connecting", **common, "to": "db"},
        record,
        {"timestamp": stamp(BASE + SECOND), "event": "gave up", **common},
    ]
    (tmp_path / str(Name(stamp(BASE - SECOND), None, "h", 1))).write_bytes(b"\n".join(map(line_of, records)))
    assert cli.main(["trace", CALLS[0], str(tmp_path)]) == 0
    assert capsys.readouterr() == (FULL, "")


EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202e\u200b\ud800\x00\x7f\u2028"


def _evil_records() -> list[dict[str, Any]]:
    def evil(value: Any) -> Any:
        if isinstance(value, dict):
            return {f"{key}": evil(item) for key, item in value.items()} | {EVIL: EVIL}
        if isinstance(value, list):
            return [evil(item) for item in value]
        return f"{value}{EVIL}"

    item = {"type": "E", "message": "m", "frames": [{"file": "f", "line": 1, "function": "g", "source": "s"}]}
    item |= {"notes": ["n"], "relation": "cause", "exceptions": [[{"type": "I", "message": "i"}]]}
    keys = ("server", "category", "retryable", "outcome", "duration_ms", "handled", "client", "session_id", "lines")
    base = {**failure(CALLS[0]), **dict.fromkeys(keys, "v"), "exception": [item, item], "stack": "st"}
    whole = {**evil(base), "request_id": CALLS[0] + EVIL, "level": "error"}
    text = {**whole, "exception": f"text{EVIL}"}
    other = {key: value for key, value in whole.items() if key != "code"}
    return [whole, text, other, {**whole, "code": {EVIL: [EVIL]}, "tool": [EVIL], "exception": EVIL, "stack": [EVIL]}]


def test_nothing_drives_the_terminal(tmp_path: Path) -> None:
    """Whatever stands in keys and values, ids and paths is shown with escapes: traced, listed, followed, reported."""
    folder = tmp_path / "a\x1b[2Jb"
    folder.mkdir()
    path = folder / "a.jsonl"
    path.write_bytes(b"".join(line_of(record) + b"\n" for record in _evil_records()))
    with path.open("ab") as file:
        file.write(line_of(failure(CALLS[0][:20] + "f" * 12, tool=EVIL, code=EVIL)) + b"\n")
    for environment in ({"PYTHONIOENCODING": "utf-8"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}):
        env = {**os.environ, **environment}
        encoding = environment["PYTHONIOENCODING"]
        for arguments, code in (
            (["trace", CALLS[0], folder], 0),
            (["trace", CALLS[0], folder, "--json"], 0),
            (["trace", CALLS[0][:8], folder], 3),
            (["trace", "f" * 32, folder], 1),
            (["trace", CALLS[0], folder / EVIL.replace("\x00", "").replace("\ud800", "")], 2),
            (["trace", "\x1b[2J", folder], 2),
            (["report", folder], 0),
        ):
            done = run(*arguments, env=env)
            assert done.returncode == code, done.stderr
            text = done.stdout.decode(encoding) + done.stderr.decode(encoding)
            assert [c for c in text if not c.isprintable() and c != "\n"] == []
            assert text
        if encoding != "ascii":
            break
        with subprocess.Popen(
            [sys.executable, "-m", "iserror", "tail", folder], stdout=subprocess.PIPE, env=env
        ) as process:
            assert process.stdout is not None
            text = "".join(process.stdout.readline().decode(encoding) for _ in range(5))
            process.terminate()
        assert [c for c in text if not c.isprintable() and c != "\n"] == []
        assert "owned" in text


def test_starts_fast() -> None:
    """`iserror trace` loads nothing of the server's side, nor what only other commands need."""
    script = (
        "import sys; from iserror.cli import main; main(['trace', '0' * 32, sys.argv[1]])\n"
        "print(*(n for n in ('pydantic', 'structlog', 'anyio', 'mcp', 'asyncio', 'logging', "
        "'iserror.logs.read.summary', 'iserror.layers.call') if n in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, __file__], capture_output=True, text=True)
    assert done.stdout == "\n", done.stderr


# --- tail ---------------------------------------------------------------------------------------------------------

WRITER = """
import json, os, sys, time
from iserror.logs.sink import FileSink
from tests.helpers.log_files import scaled
folder, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
sink = FileSink(folder, max_bytes=1_500)
for number in range(count):
    sink.write(json.dumps({"level": ["info", "error"][number % 2], "event": "x", "tool": f"t{number % 3}",
                           "code": "C", "pid": os.getpid(), "n": number, "pad": "é" * 100}))
    time.sleep(pause)
sink.tidy(30)
"""


class Tail:
    """`iserror tail --json` at work; what it printed so far."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "iserror", "tail", "--json", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[dict[str, Any]] = []
        self._grown = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._grown:
                self.lines.append(json.loads(line))
                self._grown.notify()
        with self._grown:
            self._ended = True
            self._grown.notify()

    def wait(self, count: int) -> None:
        """Wait until it has printed so many lines, or has ended."""
        with self._grown:
            self._grown.wait_for(lambda: len(self.lines) >= count or self._ended, 20)

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self._thread.join()
        assert self.process.stderr is not None
        assert self.process.stderr.read() == b""
        self.process.stderr.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait()


def test_tail(tmp_path: Path) -> None:
    """Every line exactly once and in order, over rotation, compression and processes that begin later."""
    (tmp_path / "a.jsonl").write_bytes(line_of(failure(CALLS[0], tool="t1", code="C")) + b"\n")
    with Tail(tmp_path, "-n", 1) as tail, Tail(tmp_path, "--level", "error", "--tool", "t1", "--code", "C") as some:
        tail.wait(1)
        some.wait(1)
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, "200", pause]) for pause in ("0.005", "0.0")
        ]
        tail.wait(50)
        writers.append(subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, "200", "0.002"]))
        for writer in writers:
            assert writer.wait(30) == 0
        tail.wait(601)
        some.wait(103)
        # Nothing comes twice: each of these comes with a look of its own, and so with a whole look after the others.
        for number in range(2):
            last = failure(CALLS[1], number, tool="t1", code="C", n=number)
            with (tmp_path / "a.jsonl").open("ab") as file:
                file.write(line_of(last) + b"\n")
            tail.wait(602 + number)
            some.wait(104 + number)
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".gz"]) > 50
    assert tail.lines[0]["request_id"] == CALLS[0]
    for writer in writers:
        assert [line["n"] for line in tail.lines if line.get("pid") == writer.pid] == list(range(200))
        assert [line["n"] for line in some.lines if line.get("pid") == writer.pid] == list(range(1, 200, 6))
    assert len(tail.lines) == 603
    assert [line["request_id"] for line in some.lines[-2:]] == [CALLS[1]] * 2


def _put(path: Path, *numbers: int) -> None:
    with path.open("ab") as file:
        file.writelines(line_of(failure(CALLS[0], number, n=number)) + b"\n" for number in numbers)


def test_follows_changes(tmp_path: Path) -> None:
    """A file that grows, is torn, truncated, deleted and made anew: each line once."""
    path = tmp_path / "a.jsonl"
    follower = Follower([path])
    _put(path, *range(5))
    assert numbers(follower.last(3)) == [2, 3, 4]
    assert follower.new() == []
    _put(path, 5)
    with path.open("ab") as file:
        file.write(line_of(failure(CALLS[0], n=6))[:50])
    assert numbers(follower.new()) == [5]
    with path.open("ab") as file:
        file.write(line_of(failure(CALLS[0], n=6))[50:])
    assert follower.new() == []
    with path.open("ab") as file:
        file.write(b"\n\nno record\n")
    assert (numbers(follower.new()), follower.skipped) == ([6], 1)
    path.unlink()
    assert follower.new() == []
    _put(path, *range(100, 110))  # longer than before, perhaps with the inode of the deleted one
    assert numbers(follower.new()) == list(range(100, 110))
    path.unlink()
    _put(path, *range(200, 220))
    assert numbers(follower.new()) == list(range(200, 220))
    os.truncate(path, 0)
    assert follower.new() == []
    _put(path, 300)
    assert numbers(follower.new()) == [300]


def test_follows_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is closed and compressed between any two looks, or within one, gives each line once."""
    for moment in range(6):
        folder = tmp_path / str(moment)
        folder.mkdir()
        path = folder / str(Name(stamp(BASE), None, "h", 1))
        _put(path, *range(20))
        follower = Follower([folder])
        steps: Iterator[Callable[[], object]] = iter(
            [lambda: None] * moment + [partial(_put, path, 20), partial(close_and_compress, path)]
        )
        original = source.Source.stat

        def stat(self: source.Source, steps: Any = steps) -> os.stat_result:
            next(steps, lambda: None)()
            return original(self)

        with monkeypatch.context() as patch:
            patch.setattr(source.Source, "stat", stat)
            seen = follower.last(100)
            for _ in range(8):
                seen += follower.new()
        assert next(steps, None) is None
        # What was compressed before the first look is not shown; nothing comes twice.
        assert numbers(seen) in ([], list(range(20)), list(range(21))), moment
        assert numbers(seen) == list(range(21)) or moment < 3


def test_last_of_much(tmp_path: Path) -> None:
    """Of a long file only the end is read; of compressed ones nothing, and never all of it afterwards."""
    path = tmp_path / str(Name(stamp(BASE), None, "h", 1))
    _put(path, *range(10_000))
    follower = Follower([tmp_path])
    assert numbers(follower.last(2)) == [9_998, 9_999]
    assert follower.skipped == 0
    _put(path, 10_000)
    compress(rotate(path))
    assert numbers(follower.new()) == [10_000]
    assert follower.new() == []
    assert Follower([tmp_path]).last(0) == []


def test_follow_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks there is a pause, and what comes is given then."""
    path = tmp_path / "a.jsonl"
    _put(path, 0)
    coming = follow.follow([tmp_path], 1)
    assert next(coming)["n"] == 0
    monkeypatch.setattr(follow.time, "sleep", lambda seconds: _put(path, int(seconds * 1_000)))
    assert next(coming)["n"] == 250
