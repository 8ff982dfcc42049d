"""The writing side of the log: what is answered is in it, once and whole, whatever happens to process and disk."""

from __future__ import annotations

import functools
import json
import logging
import logging.config
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from iserror import ToolErrors, ToolFailure, configure_logging, current_call, logs
from iserror.layers.ids import new_request_id
from iserror.logs import housekeeping
from iserror.logs.chain import State
from iserror.logs.housekeeping import Housekeeper
from iserror.logs.read.search import search
from iserror.logs.record import stamp
from iserror.logs.segment import Name
from iserror.logs.sink import FileSink
from tests.helpers.log_children import STAGES, body, command, duplicates, fail, run, sink_of
from tests.helpers.log_files import (
    assert_counted,
    assert_in_order,
    ids_of,
    log_files,
    name_of,
    needs_posix,
    raw_lines,
    scaled,
)

pytestmark = pytest.mark.hostless

# --- many processes --------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_posix
@pytest.mark.timeout(300)
def test_four_writers_and_a_reader(tmp_path: Path) -> None:
    """Every record of four processes that rotate all the time is found, once and whole, while they write and after."""
    folder, count = tmp_path / "logs", scaled(50_000)
    notes = [tmp_path / f"ids-{number}" for number in range(4)]
    writers = [
        subprocess.Popen(
            command("bulk", folder, note, count, 250_000, 250),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for note in notes
    ]
    chance, looks = random.Random(1), 0

    def known() -> list[list[str]]:
        return [note.read_text().split("\n")[:-1] for note in notes if note.exists()]

    while any(writer.poll() is None for writer in writers):
        before = known()
        everything = [one for ids in before for one in ids]
        time.sleep(0.05)  # most of the time is the writers'
        if not everything:
            continue
        looks += 1
        for one in [*(ids[-1] for ids in known() if ids), *chance.sample(everything, min(8, len(everything)))]:
            assert [one] == [record["request_id"] for record in logs.find(one, folder)]
        if looks % 20 == 1:
            found = ids_of(logs.records(folder))
            assert duplicates(found) == []
            assert set(everything) - set(found) == set()
        if looks <= STAGES:  # they wait for as many looks
            for writer in writers:
                assert writer.stdin is not None
                writer.stdin.write(b".")
                writer.stdin.flush()
    for writer in writers:
        out, err = writer.communicate()
        assert (writer.returncode, out, err.count(b"\n")) == (0, b"0", 1) or out == b"0\n", err[-2_000:]
    assert looks >= STAGES
    expected = [one for ids in known() for one in ids]
    assert len(expected) == 4 * count
    found = ids_of(logs.records(folder))
    assert duplicates(found) == []
    assert set(found) == set(expected)
    for one in chance.sample(expected, 300):
        assert [one] == [record["request_id"] for record in logs.find(one, folder)]
    files = log_files(folder)
    assert len(files) > 4 * count // 1_500
    assert sum(file.suffix == ".gz" for file in files) >= len(files) - 4
    for file in chance.sample(files, 20):
        assert all(isinstance(json.loads(line), dict) for line in raw_lines(file))


@pytest.mark.slow
@needs_posix
@pytest.mark.timeout(300)
@pytest.mark.parametrize("max_bytes", [2_500, 40_000])
def test_killed(max_bytes: int, tmp_path: Path) -> None:
    """Every failure that came out of a writer before it was killed is in the log, in rotation and compression too."""
    received, _ = run("killed", tmp_path / "logs", scaled(100), max_bytes, max_bytes)
    assert len(received) > scaled(100) * 5
    found = ids_of(logs.records(tmp_path / "logs"))
    assert duplicates(found) == []
    assert set(received) - set(found) == set()
    for one in random.Random(1).sample(received, 20):
        assert [one] == ids_of(logs.find(one, tmp_path / "logs"))


def test_rotation_while_the_clock_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that fill up while the clock stands still, or is set back a little, do not take one another's names."""
    at = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: at)
    ids = []
    writer = FileSink(tmp_path, max_bytes=500)
    for number in range(40):
        ids.append(new_request_id())
        writer.write(body(ids[-1]), SimpleNamespace(lines=0, ended=False), final=True)
        if number == 20:
            at += 1_000_000
    writer.tidy(30)
    assert sorted(ids_of(logs.records(tmp_path))) == sorted(ids)
    assert writer.lost == 0


# --- a full disk -----------------------------------------------------------------------------------------------


def _mounting(folder: Path) -> tuple[str, ...]:
    """A command before which a child may mount a disk of its own, where this machine lets it."""
    for prefix in (("unshare", "-m"), ("unshare", "-rm")):
        if shutil.which("unshare") is None:
            break
        command = [*prefix, "mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return prefix
    pytest.skip("neither root nor a namespace that may mount")


@needs_posix
@pytest.mark.parametrize("what", ["file", "folder", "rotating"])
def test_full_disk(what: str, tmp_path: Path) -> None:
    """A disk that is full again and again costs lines, which are counted to the one, no result, and no line after."""
    place, kept = tmp_path / "disk", tmp_path / "disk-kept"
    place.mkdir()
    kept.mkdir()
    seen, stderr = run("full", place, what, 12, prefix=_mounting(place))
    answered, found, losses = seen["answered"], seen["found"], seen["losses"]
    assert len(answered) == len(set(answered)) == 12 * 153
    assert duplicates(ids_of(found)) == []
    missing = set(answered) - set(ids_of(found))
    assert losses[1::2] == [0] * 12
    outages = [lost for lost in losses[::2] if lost]
    assert len(outages) > 3
    resumed = [record["lost"] for record in found if record["event"] == "log_resumed"]
    assert sum(resumed) == len(missing) >= sum(outages)
    assert set(answered[-3:]) - missing == set(answered[-3:])
    assert stderr.count("results are not affected") == len(resumed)
    assert stderr.count("is written to") == len(resumed)
    assert seen["temporaries"] == []


class Disk:
    """What `os.write` is while a test says how it fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write = os.write
        self.room: int | None = None
        self.refused = b"\0"
        monkeypatch.setattr(os, "write", self)

    def __call__(self, fd: int, data: Any) -> int:
        data = bytes(data)
        if self.room is not None or self.refused in data:
            room = min(self.room or 0, len(data)) if self.refused not in data else 0
            if not room:
                raise OSError(28, "No space left on device")
            if self.room is not None:
                self.room -= room
            return self.write(fd, data[:room])
        return self.write(fd, data)


@pytest.mark.parametrize("room", [0, 1, 100, 10_000])
def test_torn_line(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that a full disk cut costs neither the line before nor the one after it, wherever it was cut."""
    log = sink_of(tmp_path)
    disk = Disk(monkeypatch)
    before = fail()
    disk.room = room
    cut = [fail() for _ in range(20)]
    held, disk.room = log.lost, None
    after = [fail(), fail()]
    found = ids_of(logs.records(tmp_path))
    assert found[0] == before
    assert found[-2:] == after
    resumed = [record["lost"] for record in logs.records(tmp_path) if record["event"] == "log_resumed"]
    assert resumed == [held] == [20 - len(found) + 3]
    assert set(found[1:-2]) <= set(cut)


def test_a_line_without_its_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of which a full disk took only the newline is in the log, and not counted as lost."""
    log = FileSink(tmp_path)
    call: Any = SimpleNamespace(lines=0, ended=False)
    disk = Disk(monkeypatch)
    log.write(body("a" * 32))
    disk.room = len(log.write(body("b" * 32)))  # the next one has the same length
    log.write(body("c" * 32), call)
    disk.room = None
    log.write(body("d" * 32))
    assert ids_of(logs.records(tmp_path)) == [letter * 32 for letter in "abcd"]
    assert [record for record in logs.records(tmp_path) if record["event"] == "log_resumed"] == []
    assert call.lines == 1


def test_no_room_for_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the note of what was lost finds no room, the line before it counts as written, and the note comes later."""
    log = sink_of(tmp_path)
    disk = Disk(monkeypatch)
    disk.room = 0
    fail()
    disk.room, disk.refused = None, b"log_resumed"
    written = [fail(), fail()]
    log.write('{"event": "by hand"}')  # which raises nothing
    assert log.lost == 1
    disk.refused = b"\0"
    written.append(fail())
    assert ids_of(logs.records(tmp_path)) == written
    for one in written:
        assert_counted(logs.find(one, tmp_path))
    assert [record["lost"] for record in logs.records(tmp_path) if record["event"] == "log_resumed"] == [1]


# --- a log that goes -------------------------------------------------------------------------------------------


def _delete(log: Path) -> None:
    shutil.rmtree(log.parent)


def _rename(log: Path) -> None:
    log.parent.rename(log.parent.with_name("elsewhere"))


def _unlink(log: Path) -> None:
    for file in [log] if log.is_file() else log.iterdir():
        file.unlink()


def _replace(log: Path) -> None:
    _unlink(log)
    if log.is_dir():
        log.rmdir()
        log.touch()
    else:
        log.mkdir()


def _replace_parent(log: Path) -> None:
    shutil.rmtree(log.parent)
    log.parent.touch()


def _move(log: Path) -> None:
    for file in [log] if log.is_file() else log.iterdir():
        file.rename(file.with_name(file.name + ".1"))


def _truncate(log: Path) -> None:
    for file in [log] if log.is_file() else log.iterdir():
        os.truncate(file, 0)


def _link(log: Path) -> None:
    _rename(log)
    log.parent.symlink_to(log.parent.with_name("elsewhere"))


BLOCKING = (_replace, _replace_parent)


@needs_posix
@pytest.mark.parametrize("name", ["log.jsonl", "logs"])
@pytest.mark.parametrize(
    "happens", [_delete, _rename, _unlink, _replace, _replace_parent, _move, _truncate, _link], ids=lambda f: f.__name__
)
def test_a_log_that_goes(
    happens: Callable[[Path], None], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever becomes of file or folder under a running writer, calls are answered, and the log goes on after it."""
    log = tmp_path / "parent" / name
    log.parent.mkdir()
    writer = sink_of(log, **({} if name == "log.jsonl" else {"max_bytes": 2_000}))
    for _ in range(5):
        fail()
    writer.tidy(30)
    happens(log)
    blocked = happens in BLOCKING
    during = [fail() for _ in range(3)]
    assert writer.lost == (3 if blocked else 0)
    if blocked:
        place = log if happens is _replace else log.parent
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    after = [fail() for _ in range(3)]
    writer.tidy(30)
    found = ids_of(logs.records(log))
    assert found[-3:] == after
    assert found[-6:-3] == during if not blocked else during[0] not in found
    assert capsys.readouterr().err.count("results are not affected") == int(blocked)
    resumed = [record["lost"] for record in logs.records(log) if record["event"] == "log_resumed"]
    assert resumed == ([3] if blocked else [])


# --- whose file it is ------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.parametrize("where", ["file", "late file", "file of a folder"])
def test_a_planted_link(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log file is never opened through a link: what that leads to stays, stderr says why and has the line."""
    victim = tmp_path / "victim.txt"
    victim.write_text("keep\n")
    victim.chmod(0o644)
    folder = tmp_path / "logs"
    folder.mkdir()
    if where == "file of a folder":
        configure_logging(folder, stderr=True)
        assert State.file is not None
        name = Name(stamp(1_800_000_000_000_000_000), None, housekeeping.host_name(), os.getpid())
        State.file._file._path_at = lambda _: folder / str(name)
        (folder / str(name)).symlink_to(victim)
    else:
        configure_logging(folder / "a.jsonl", stderr=True)
        (folder / ("a.jsonl" if where == "file" else "a.late.jsonl")).symlink_to(victim)
    if where == "late file":
        structlog.get_logger().warning("planted", request_id="f" * 32)
    else:
        fail()
    errors = capsys.readouterr().err
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("keep\n", 0o644)
    assert errors.count("jsonl is a symbolic link") == 1
    assert errors.count('"planted"' if where == "late file" else '"tool_failed"') == 1
    assert State.file is not None
    assert State.file.lost == 1


@needs_posix
@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640, 0o600])
def test_a_file_that_is_there(mode: int, tmp_path: Path) -> None:
    """A file of one's own that others may read is theirs no longer; its lines stay."""
    log = tmp_path / "a.jsonl"
    log.write_text('{"event": "before"}\n')
    log.chmod(mode)
    configure_logging(log)
    fail()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["before", "tool_failed"]


@needs_posix
@pytest.mark.parametrize("what", ["file", "link to the folder"])
def test_what_another_user_made(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, or a link in place of the folder, that another user made is not used; one's own link to a folder is."""
    folder = tmp_path / "logs"
    (tmp_path / "real").mkdir()
    folder.symlink_to(tmp_path / "real")
    log = folder / "a.jsonl"
    configure_logging(log)
    fail()
    assert len(log.read_text().splitlines()) == 1
    configure_logging(log)  # closes it
    if what == "file":
        (tmp_path / "real").rename(tmp_path / "other")
        folder.unlink()
        (tmp_path / "other").rename(folder)
    me = 4711
    monkeypatch.setattr(os, "geteuid", lambda: me)
    if what != "file" and os.getuid() == 0:
        os.chown(folder, 4712, 4712, follow_symlinks=False)
    before = log.read_bytes()
    capsys.readouterr()
    fail()
    assert log.read_bytes() == before
    assert "another user" in capsys.readouterr().err


@needs_posix
def test_stderr_by_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    """A path that is a name of stderr, all of which are links, means stderr."""
    configure_logging("/dev/stderr")
    fail()
    assert capfd.readouterr().err.count("tool_failed") == 1


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own need not be."""
    for root in map(Path, dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"])):
        if all(parent.is_dir() and parent.stat().st_mode & 0o001 for parent in (root, *root.parents)):
            with tempfile.TemporaryDirectory(dir=root) as folder:
                Path(folder).chmod(0o755)
                yield Path(folder)
            return
    pytest.skip("every folder for temporary files is closed to other users")


@needs_posix
@pytest.mark.parametrize("what", ["logs", "log.jsonl"])
def test_permission_lost(what: str, public: Path) -> None:
    """Without permission the open file still takes lines; a new one costs lines and no result, until it is back."""
    place = public / "place"  # the child is not root
    place.mkdir()
    seen, stderr = run("forbidden", place / what, what)
    first, second, _, _, last = seen["answered"]
    assert seen["lost"] == 2
    found = list(logs.records(place / what))
    assert ids_of(found) == [first, second, last]
    assert stderr.count("Permission denied") == 1
    assert [record["lost"] for record in found if record["event"] == "log_resumed"] == [2]


# --- retention -------------------------------------------------------------------------------------------------

HOST = housekeeping.host_name()


def gone_pid() -> int:
    """The id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def aged(folder: Path, name: str, age: float, size: int = 1_000) -> Path:
    path = folder / name
    path.write_bytes(b"x" * (size - 1) + b"\n")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


FOREIGN = (
    "notes.txt",
    "other.jsonl",
    "other.jsonl.gz",
    ".iserror-fingerprint-key",
    "backup.jsonl.gz.1-deadbeef.tmp",
    "20200101T000000.000000Z_20200101T000000.000000Z-h-1.jsonl.gz.old.tmp",
    "20200101T000000.000000Z-h.jsonl",
    "20200101T000000Z-h-1.jsonl",
    "20200101T000000.000000Z-h-1.jsonl.bak",
    "20200101T000000.000000Z_20200101T000000.000000Z-h-1.log",
)


@needs_posix
@pytest.mark.parametrize("limits", [(None, 3_600.0), (500, None), (1, 1.0)])
def test_retention_leaves_what_is_not_its_own(limits: tuple[int | None, float | None], tmp_path: Path) -> None:
    """Retention deletes no file whose name is not exactly one of ours, nor anything in a folder below."""
    (tmp_path / "below").mkdir()
    kept = [aged(tmp_path, name, 9e6) for name in FOREIGN]
    kept.append(aged(tmp_path / "below", f"20200101T000000.000000Z_20200102T000000.000000Z-{HOST}-1.jsonl", 9e6))
    mine = aged(tmp_path, f"20200101T000000.000000Z_20200102T000000.000000Z-{HOST}-1.jsonl", 9e6)
    hostile = aged(tmp_path, f"20200101T000000.000000Z-{HOST}-{10**30}.jsonl", 7e4 if limits[1] is None else 9e6)
    Housekeeper(tmp_path, *limits).tidy()
    assert [path.name for path in kept if not path.exists()] == []
    assert not mine.exists()
    assert not mine.with_name(mine.name + ".gz").exists()
    assert hostile.exists() == (limits[1] is None)  # nobody can say whether that process lives


@needs_posix
def test_retention_by_size(tmp_path: Path) -> None:
    """Above `max_total_bytes` the oldest closed files go, and no more of them than has to; open ones stay."""
    one = "20200101T000000.00000{}Z"
    closed = [
        aged(tmp_path, f"{one.format(n)}_20200102T000000.000000Z-{HOST}-1.jsonl.gz", 9_000 - n * 1_000)
        for n in range(5)
    ]
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        open_ones = [
            aged(tmp_path, f"{one.format(6)}-{HOST}-{living.pid}.jsonl", 80_000),  # idle for most of a day, and alive
            aged(tmp_path, f"{one.format(7)}-{HOST}-{living.pid}.late.jsonl", 80_000),
            aged(tmp_path, f"{one.format(8)}-elsewhere-{living.pid}.jsonl", 80_000),  # on another machine
        ]
        dead = aged(tmp_path, f"{one.format(9)}-{HOST}-{gone_pid()}.jsonl", 8_500)
        Housekeeper(tmp_path, 5_500, None).tidy()
        assert [path.name for path in open_ones if not path.exists()] == []
        assert [path.exists() for path in closed] == [False, False, False, True, True]
        assert not dead.exists()
        Housekeeper(tmp_path, 100, None).tidy()
        assert [path.name for path in open_ones if not path.exists()] == []
        assert [path for path in closed if path.exists()] == []
    finally:
        living.communicate()


@needs_posix
def test_retention_by_age(tmp_path: Path) -> None:
    """Past `max_age` of its last line a file goes, compressed since or not; a younger one stays, and an open one."""
    one = "20200101T000000.00000{}Z"
    old = aged(tmp_path, f"{one.format(1)}_20200102T000000.000000Z-{HOST}-1.jsonl.gz", 7_300)
    packed = aged(tmp_path, f"{one.format(2)}_20200102T000000.000000Z-{HOST}-1.jsonl", 7_300)
    young = aged(tmp_path, f"{one.format(3)}_20200102T000000.000000Z-{HOST}-1.jsonl", 7_100)
    living = aged(tmp_path, f"{one.format(4)}-{HOST}-{os.getppid()}.jsonl", 7_100)
    Housekeeper(tmp_path, None, 7_200.0).tidy()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [young.name + ".gz", living.name]
    assert not old.exists()
    assert not packed.exists()
    assert abs(time.time() - (tmp_path / left[0]).stat().st_mtime - 7_100) < 60  # compressing makes nothing younger


def test_retention_leaves_the_file_of_this_process(tmp_path: Path) -> None:
    """The file that this process writes is not deleted for its size, however long ago its last line was."""
    log = FileSink(tmp_path, max_bytes=600, max_total_bytes=1)
    log.write(body("a" * 32), SimpleNamespace(lines=0, ended=False))
    (mine,) = log_files(tmp_path)
    os.utime(mine, (1, 1))
    ended: Any = SimpleNamespace(lines=1, ended=True)
    for letter in "bcdef":
        log.write(body(letter * 32), ended)  # in the file of late lines, which wakes the housekeeper
    log.tidy(30)
    assert mine.exists()


def test_an_open_file_past_its_age(tmp_path: Path) -> None:
    """Of a writer that was idle for longer than `max_age` the old lines go, and the next one is found."""
    log = FileSink(tmp_path, max_age=3_600.0)
    log.write(body("a" * 32))
    log.tidy(30)
    (mine,) = log_files(tmp_path)
    os.utime(mine, (1, 1))
    Housekeeper(tmp_path, None, 3_600.0).tidy()
    log.write(body("b" * 32))
    assert ids_of(logs.records(tmp_path)) == ["b" * 32]


def test_limits_while_writing(tmp_path: Path) -> None:
    """A folder that is written for long stays near its limit, and the newest lines are there."""
    log = sink_of(tmp_path, max_bytes=20_000, max_total_bytes=100_000)
    ids = []
    for _ in range(2_000):
        ids.append(new_request_id())
        log.write(body(ids[-1], padding=os.urandom(200).hex()))
        if len(ids) % 50 == 0:
            log.tidy(30)
    log.tidy(30)
    assert sum(path.stat().st_size for path in log_files(tmp_path)) < 150_000
    found = ids_of(logs.records(tmp_path))
    assert found == ids[-len(found) :]
    assert len(found) > 100


def test_abandoned_temporaries(tmp_path: Path) -> None:
    """What a killed compression left is removed, one that runs is left alone, and its file is not compressed twice."""
    name = "20200101T000000.000000Z_20200102T000000.000000Z-h-{}.jsonl"
    left = aged(tmp_path, f"{name.format(1)}.gz.7-00c0ffee.tmp", 100)
    running = aged(tmp_path, f"{name.format(2)}.gz.7-00c0ffee.tmp", 1)
    theirs = aged(tmp_path, name.format(2), 1)
    ours = aged(tmp_path, name.format(1), 1)
    Housekeeper(tmp_path, None, None).tidy()
    assert [path.exists() for path in (left, running, theirs, ours)] == [False, True, True, False]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [name.format(1) + ".gz", theirs.name, running.name]
    )


# --- threads, and the clock ------------------------------------------------------------------------------------


def test_threads(tmp_path: Path) -> None:
    """Sixteen threads leave whole lines in time order in every file, and each call says how many are its own."""
    log = sink_of(tmp_path, max_bytes=60_000)
    answered: list[list[str]] = []

    def tool(count: int) -> None:
        for number in range(count):
            structlog.get_logger().info("by structlog", number=number)
            logging.getLogger("tool").warning("by logging %d", number)
        raise RuntimeError("no such row")

    guarded = ToolErrors()(tool)

    def work() -> None:
        mine: list[str] = []
        answered.append(mine)
        for number in range(60):
            with pytest.raises(ToolFailure) as raised:
                guarded(number % 3)
            assert raised.value.failure is not None
            mine.append(raised.value.failure.request_id)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.tidy(30)
    assert_in_order(tmp_path)
    assert len(log_files(tmp_path)) > 5
    by_id: dict[str, list[dict[str, Any]]] = {}
    for record in logs.records(tmp_path):
        by_id.setdefault(record["request_id"], []).append(record)
    for mine in answered:
        for number, one in enumerate(mine):
            assert len(by_id[one]) == 1 + 2 * (number % 3)
            assert_counted(by_id[one])
    assert len(by_id) == 16 * 60
    for mine in answered:
        assert len(logs.find(mine[-1], tmp_path)) == 1 + 2 * (59 % 3)


@pytest.mark.parametrize("max_bytes", [None, 0, 5_000])
def test_clock_set_back(max_bytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is set back by an hour starts a new file; every file is in time order, and all is found."""
    real, shift = time.time_ns, 0
    monkeypatch.setattr(time, "time_ns", lambda: real() + shift)
    log = sink_of(tmp_path, max_bytes=max_bytes)
    answered = [fail() for _ in range(20)]
    shift = -3_600 * 1_000_000_000
    answered += [fail() for _ in range(20)]
    shift = -3_605 * 1_000_000_000
    answered += [fail() for _ in range(20)]
    shift = 0
    answered += [fail() for _ in range(20)]
    log.tidy(30)
    assert_in_order(tmp_path)
    assert sorted(ids_of(logs.records(tmp_path))) == sorted(answered)
    for one in answered:
        assert ids_of(logs.find(one, tmp_path)) == [one]
    firsts = [name_of(file).first for file in log_files(tmp_path)]
    assert len({first[:13] for first in firsts}) == 2


# --- interruption ----------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.timeout(120)
def test_interrupted(tmp_path: Path) -> None:
    """Lines of a signal's handler and of collected objects, in the middle of other lines, are there, whole and once."""
    seen, stderr = run("interrupted", tmp_path / "logs", 2_000, 30_000)
    assert seen["signals"] > 50
    assert seen["dying"] == 2_000
    for file in log_files(tmp_path / "logs"):
        for line in raw_lines(file):
            json.loads(line)
    events = Counter(record["event"] for record in logs.records(tmp_path / "logs"))
    expected = {
        "main": 2_000,
        "signal": seen["signals"],
        **{f"signal {number}": 1 for number in range(1, seen["signals"] + 1)},
        **{f"collected {number}": 1 for number in range(1, 2_001)},
        **{f"thread {number}": 1 for number in range(2_000) if number % 4},
        "tool_failed": 501,
    }
    wrong = {event: (count, events[event]) for event, count in expected.items() if events[event] != count}
    assert wrong == {}
    assert "lines were lost" not in stderr
    assert_in_order(tmp_path / "logs")


class Interrupting(FileSink):
    """A sink in the middle of whose next write something happens."""

    happens: Callable[[], object] | None = None

    def _time(self) -> str:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return super()._time()


@pytest.fixture
def interrupting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interrupting:
    monkeypatch.setattr("iserror.logs.configure.FileSink", Interrupting)
    log = sink_of(tmp_path / "logs", max_bytes=2_000)
    assert isinstance(log, Interrupting)
    return log


def test_lines_in_the_middle_of_another(interrupting: Interrupting) -> None:
    """A call's line that comes in the middle of another of it is counted: the last one says how many there are."""

    def tool() -> None:
        log = structlog.get_logger()
        for number in range(4):
            interrupting.happens = lambda number=number: log.info("in the middle", number=number)
            log.info("a line", number=number)
        interrupting.happens = lambda: log.info("in the middle of the last")
        raise RuntimeError("no such row")

    with pytest.raises(ToolFailure) as raised:
        ToolErrors()(tool)()
    assert raised.value.failure is not None
    fail()
    interrupting.tidy(30)  # a file that is being compressed changes its name
    found = logs.find(raised.value.failure.request_id, interrupting.path)
    assert len(found) == 10
    (last,) = [record for record in found if "lines" in record]
    # What comes after it was made up stands in the file of late lines.
    held = [
        json.loads(line)
        for file in log_files(interrupting.path)
        if ".late." not in file.name
        for line in raw_lines(file)
    ]
    assert last["lines"] == sum(line.get("request_id") == last["request_id"] for line in held)


def test_a_line_in_the_middle_of_the_first(interrupting: Interrupting) -> None:
    """A line that comes when no file is open yet is not lost."""
    interrupting.happens = lambda: structlog.get_logger().info("in the middle")
    fail()
    events = [record["event"] for record in logs.records(interrupting.path)]
    assert sorted(events) == ["in the middle", "tool_failed"]


@needs_posix
def test_a_line_in_the_middle_and_a_descriptor_of_another(interrupting: Interrupting, tmp_path: Path) -> None:
    """A line that comes in the middle of another goes into no file that has taken the descriptor since."""
    fail()
    fd = interrupting._file.fd
    assert fd is not None
    with open(tmp_path / "foreign", "wb") as foreign:
        os.dup2(foreign.fileno(), fd)
        interrupting.happens = lambda: structlog.get_logger().info("in the middle")
        fail()
        os.close(fd)
    assert (tmp_path / "foreign").read_bytes() == b""
    assert [record["event"] for record in logs.records(interrupting.path)].count("in the middle") == 1


def test_two_threads_and_two_locks(interrupting: Interrupting) -> None:
    """A thread that logs by logging in the middle of its own write does not wait for one that waits for it."""
    reached = threading.Event()

    class Reached:
        def __str__(self) -> str:
            reached.set()
            return "other"

    other = threading.Thread(target=lambda: logging.warning("%s", Reached()), daemon=True)

    def meanwhile() -> None:
        other.start()
        assert reached.wait(20)
        logging.warning("in the middle")

    def work() -> None:
        interrupting.happens = meanwhile
        structlog.get_logger().info("outer")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    stuck = thread.is_alive()
    if stuck:  # what comes after this test, and the end of the process, would wait for the same locks
        interrupting._lock = threading.RLock()
        for handler in logging.root.handlers:
            handler.createLock()
    assert not stuck
    other.join(30)
    assert sorted(record["event"] for record in logs.records(interrupting.path)) == ["in the middle", "other", "outer"]


@needs_posix
@pytest.mark.timeout(120)
def test_forked_in_the_middle(tmp_path: Path) -> None:
    """A child that was forked while another thread wrote logs without waiting, into a file of its own."""
    seen, _ = run("forked", tmp_path / "logs", 80)
    assert seen["stuck"] == 0
    assert len(seen["answered"]) == 80
    found = ids_of(logs.records(tmp_path / "logs"))
    assert duplicates(found) == []
    assert set(seen["answered"]) - set(found) == set()
    pids = {name_of(file).pid for file in log_files(tmp_path / "logs")}
    assert set(seen["answered"].values()) - pids == set()
    for one, pid in list(seen["answered"].items())[:10]:
        (file,) = [file for file in log_files(tmp_path / "logs") if one in "".join(raw_lines(file))]
        assert name_of(file).pid == pid
    assert_in_order(tmp_path / "logs")


@needs_posix
def test_forked_while_a_call_is_hashed(tmp_path: Path) -> None:
    """A child that was forked while another thread computed a fingerprint waits for no lock of that thread."""
    seen, _ = run("forked_while_hashing", tmp_path / "logs")
    assert seen["answered"] == seen["expected"] != ""


@needs_posix
def test_a_shared_file_is_counted_too(tmp_path: Path) -> None:
    """A call in a file that processes share is found without reading all of it, with what it logs after its end."""
    file = tmp_path / "billing.jsonl"
    configure_logging(file)
    later: list[Callable[[], None]] = []

    @ToolErrors()
    def tool() -> None:
        call = current_call()
        assert call is not None
        later.append(functools.partial(structlog.get_logger().info, "after the end", request_id=call.request_id))
        structlog.get_logger().info("in the tool")
        raise RuntimeError

    fail()
    with pytest.raises(ToolFailure) as caught:
        tool()
    later[0]()
    fail()
    assert caught.value.failure is not None
    found = search(caught.value.failure.request_id, [file])
    assert [record["event"] for record in found.records] == ["in the tool", "tool_failed", "after the end"]
    assert not found.everything
    assert [record["event"] for record in logs.records(tmp_path / "billing.late.jsonl")] == ["after the end"]
    # Beside another program's file nothing is certain.
    (tmp_path / "other.jsonl").write_text('{"event": "x"}\n')
    assert search(caught.value.failure.request_id, [tmp_path]).everything


@needs_posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_lines_of_another_process(tmp_path: Path) -> None:
    """What a forked process logs with a call's id bound is found with the call's own lines; it isn't in the call."""
    configure_logging(tmp_path)

    @ToolErrors()
    def tool() -> None:
        call = current_call()
        assert call is not None
        request_id = call.request_id
        child = os.fork()
        if not child:
            try:
                structlog.get_logger().info("of the child alone")
                structlog.contextvars.bind_contextvars(request_id=request_id)
                structlog.get_logger().info("in the child")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        structlog.get_logger().info("in the parent")
        raise RuntimeError

    with pytest.raises(ToolFailure) as caught:
        tool()
    assert caught.value.failure is not None
    found = search(caught.value.failure.request_id, [tmp_path])
    assert [record["event"] for record in found.records] == ["in the child", "in the parent", "tool_failed"]
    assert found.records[-1]["lines"] == 2
    assert not found.everything
    # Where it is looked for however long the child's own file is.
    (late,) = tmp_path.glob("*.late.jsonl")
    assert [json.loads(line)["event"] for line in raw_lines(late)] == ["in the child"]
    (alone,) = (record for record in logs.records(tmp_path) if record["event"] == "of the child alone")
    assert not {"request_id", "tool"} & set(alone)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_closed_descriptors(what: str, tmp_path: Path) -> None:
    """A program that closes all descriptors and opens others gets no line into them, and goes on logging."""
    seen, _ = run("closed", tmp_path, what)
    assert seen["taken"] == 20
    assert seen["others"] == 0
    *whole, lost, last = seen["answered"]
    assert [one for one in ids_of(seen["found"]) if one != lost] == [*whole, last]


def test_reconfigured(tmp_path: Path) -> None:
    """A second configuration closes the files of the first."""
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for number in range(20):
        sink_of(tmp_path / str(number % 2))
        fail()
    configure_logging(stderr=True)
    after = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    assert after <= before + 2
    assert len(list(logs.records(tmp_path))) == 20
