"""Reading the log: beside a naive reader, over damaged files, and while files change."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from iserror import logs
from iserror.cli import run as cli
from iserror.logs import segment
from iserror.logs.read import source
from iserror.logs.read.follow import Follower
from iserror.logs.read.search import search
from iserror.logs.read.stream import Stream
from iserror.logs.record import is_own, stamp
from iserror.logs.render import render_line
from iserror.logs.segment import Name
from iserror.logs.sink import FileSink
from tests.helpers.log_files import scaled
from tests.helpers.log_records import (
    BASE,
    CALLS,
    IDS,
    SECOND,
    TRACE,
    compress,
    failure,
    line_of,
    numbers,
    packed,
    rotate,
    small,
    uuid7,
)

pytestmark = pytest.mark.hostless


# --- beside a naive reader ----------------------------------------------------------------------------------------


@dataclass
class File:
    """A file to be written: what it holds, and in which form."""

    form: str
    process: int
    records: list[dict[str, Any]]
    eol: bytes = b"\n"
    ends: bool = True
    junk: list[bytes] = field(default_factory=list)
    path: Path = Path()

    @property
    def counts(self) -> bool:
        return self.form in ("open", "closed", "packed", "both", "gzipped")

    @property
    def content(self) -> bytes:
        lines = [line_of(record) for record in self.records]
        for number, text in enumerate(self.junk):
            lines.insert(number * 2, text)
        return self.eol.join(lines) + (self.eol if self.ends and lines else b"")

    def write(self, root: Path, number: int) -> None:
        folder = root / f"p{self.process % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        content = self.content
        if self.form.startswith("foreign"):
            self.path = folder / f"app{number}.jsonl"
            if self.form == "foreign.gz":
                self.path = self.path.with_suffix(".jsonl.gz")
                content = gzip.compress(content[:300]) + gzip.compress(content[300:])
            self.path.write_bytes(content)
            return
        times = [record["timestamp"] for record in self.records if "timestamp" in record]
        first = min(times, default=stamp(BASE))
        # Names differ by microseconds; no line is before the name's time.
        first = f"{first[:-7]}000{number:03}Z"
        name = Name(first, max(times, default=first), "host", self.process, self.form.startswith("late"))
        if self.form in ("open", "late"):
            name = name._replace(last=None)
        plain, zipped = folder / str(name), folder / str(name._replace(compressed=True))
        self.path = plain
        if self.form in ("packed", "both", "gzipped", "late.gz"):
            self.path = zipped
            zipped.write_bytes(gzip.compress(content) if self.form == "gzipped" else packed(content))
        if self.form not in ("packed", "gzipped", "late.gz"):
            plain.write_bytes(content)


FORMS = ["open", "closed", "packed", "both", "gzipped", "late", "late.gz", "foreign", "foreign.gz"]
JUNK = [b"", b"  ", b"{", b"[]", b'"event"', b"\xff\xfe{\x00", b'{"event": 7}', *(id.encode() for id in IDS[:2])]


@st.composite
def folders(draw: st.DrawFn) -> list[File]:
    numbers = iter(range(1_000))
    files = []
    is_sorted = draw(st.booleans())
    for _ in range(draw(st.integers(0, 7))):
        records = []
        for _ in range(draw(st.integers(0, 12))):
            id = draw(st.sampled_from(IDS))
            key = draw(st.sampled_from(["request_id", "request_id", "request_id", "upstream_request_id"]))
            if key == "request_id" and id not in CALLS:
                key = draw(st.sampled_from(["request_id", "trace_id"]))
            record = failure("f" * 32, draw(st.integers(-90, 90)), n=next(numbers))
            # Fractions keep the first microseconds of a second free for the names.
            record["timestamp"] = record["timestamp"][:-7] + draw(st.sampled_from(["001000Z", "500000Z", "999999Z"]))
            record |= {key: id, "tool": draw(st.sampled_from(["pay", "get it", "é"]))}
            record["pad"] = "x" * draw(st.sampled_from([0, 0, 10, 200, 1_000]))
            if draw(st.integers(0, 9)) == 0:
                record |= {"event": "said"}
                del record["code"]
            if draw(st.integers(0, 15)) == 0:
                del record["timestamp"]
            records.append(record)
        if is_sorted:
            records.sort(key=lambda record: record.get("timestamp", ""))
        files.append(
            File(
                draw(st.sampled_from(FORMS)),
                draw(st.integers(1, 3)),
                records,
                draw(st.sampled_from([b"\n", b"\n", b"\r\n"])),
                draw(st.booleans()),
                draw(st.lists(st.sampled_from(JUNK), max_size=3)),
            )
        )
    for id in CALLS:
        _end(draw, files, id)
    return files


def _end(draw: st.DrawFn, files: list[File], id: str) -> None:
    """Perhaps let a line say how many lines a call has: what it says is true, or too much, or stands elsewhere."""
    process = draw(st.integers(0, 3))
    said = draw(st.sampled_from([0, 0, 0, 1]))
    own: list[dict[str, Any]] = []
    for file in files:
        for record in file.records:
            if record["request_id"] != id:
                continue
            if file in _alone(files):
                own.append(record)
            elif not file.counts:
                if draw(st.booleans()):
                    record["lines"] = draw(st.sampled_from([0, 1, 2, 99, True, "1", None]))
            elif file.process == process:
                own.append(record)
            elif process:
                record |= {"request_id": "f" * 32, "upstream_request_id": id}
    if own:
        own[draw(st.integers(0, len(own) - 1))] |= {"event": "tool_failed", "lines": len(own) + said}


def naive(root: Path) -> list[tuple[Path, bytes]]:
    """Every line of every file, of a file in both forms once."""
    lines = []
    for path in sorted(root.rglob("*.jsonl*")):
        if path.suffix != ".gz" and path.with_name(path.name + ".gz").exists():
            continue
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        lines += [(path, line) for line in data.split(b"\n")]
    return lines


def naive_records(root: Path) -> list[dict[str, Any]]:
    found = []
    for _, line in naive(root):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("event"), str):
            found.append(record)
    return found


def naive_find(records: list[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    own = [r for r in records if any(str(r.get(key)).startswith(wanted) for key in ("request_id", "trace_id"))]
    return own + [r for r in records if r not in own and str(r.get("upstream_request_id")).startswith(wanted)]


def times(records: list[dict[str, Any]]) -> list[str]:
    return [record.get("timestamp", "") for record in records]


# Without shrinking: a case that fails is small enough.
MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)


@MANY
@given(folders(), st.booleans(), st.randoms(use_true_random=False))
def test_as_a_naive_reader(tmp_path_factory: Any, files: list[File], is_small: bool, rng: random.Random) -> None:
    """Ids, prefixes, times, tools and codes give what reading every line gives, whatever the folder is like."""
    root = tmp_path_factory.mktemp("folder")
    with small() if is_small else contextlib.nullcontext():
        for number, file in enumerate(files):
            file.write(root, number)
        every = naive_records(root)
        for wanted in (*IDS, IDS[0][:8], IDS[0][:13], "f" * 32, "0" * 32):
            found = search(wanted, [root])
            expected = naive_find(every, wanted)
            assert (wanted, numbers(found.records)) == (wanted, numbers(expected))
            own = [record for record in found.records if is_own(record, wanted)]
            assert found.records[: len(own)] == own
            assert times(own) == sorted(times(own))
            assert times(found.records[len(own) :]) == sorted(times(found.records[len(own) :]))
            assert found.everything or _is_certain(files, wanted), wanted
        junk = [line for _, line in naive(root) if line.strip() and not _is_record(line)]
        stream = Stream([root])
        assert numbers(list(stream.records())) == numbers(every)
        assert stream.skipped == len(junk)
        # Our files stand in time order, whatever others do; only then a time has its place in them.
        for _ in range(3 if all(_is_sorted(file) for file in files) else 0):
            since, until = sorted(BASE + rng.randint(-100, 100) * SECOND for _ in range(2))
            tool, code = rng.choice([None, "pay", "get it", "é"]), rng.choice([None, "INTERNAL_ERROR"])
            early, late = stamp(since), stamp(until)
            narrowed = [record for record in every if early <= record.get("timestamp", "") <= late]
            got = list(logs.records(root, since=_when(since), until=_when(until), tool=tool, code=code))
            assert numbers(got) == numbers(
                [r for r in narrowed if tool in (None, r["tool"]) and code in (None, r.get("code"))]
            )
            found = search(TRACE, [root], _when(since), _when(until))
            assert numbers(found.records) == numbers(naive_find(narrowed, TRACE))


def _is_sorted(file: File) -> bool:
    return file.form.startswith("foreign") or times(file.records) == sorted(times(file.records))


def _is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and isinstance(record.get("event"), str)


def _is_certain(files: list[File], wanted: str) -> bool:
    """The search ends early only where a counted file says how many lines there are, and so many are there."""
    counted = _alone(files) or [file for file in files if file.counts]
    own = [r for file in counted for r in file.records if r["request_id"] == wanted]
    return wanted in CALLS and any(record.get("lines") == len(own) for record in own)


def _alone(files: list[File]) -> list[File]:
    """A file with a name of its own, where there is no other but late ones: it is one that processes share."""
    main = [file for file in files if not file.form.startswith("late")]
    return main if len(main) == 1 and main[0].form.startswith("foreign") else []


def _when(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds // SECOND, timezone.utc)


@pytest.mark.parametrize("is_packed", [False, True])
def test_every_place(is_packed: bool, tmp_path: Path) -> None:
    """An id is found wherever it stands: every offset against blocks and members, file start and end."""
    path = tmp_path / "a.jsonl"
    wanted = line_of(failure(CALLS[0]))
    with small():
        for before in range(0, 700, 3):
            filler = line_of(failure(CALLS[1], pad="x" * before))
            data = b"\n".join([filler, wanted, filler, b"x" * 1_000, wanted])
            path.write_bytes(packed(data) if is_packed else data)
            found = search(CALLS[0], [tmp_path])
            assert (len(found.records), found.skipped) == (2, 0), before
        for data in (wanted, wanted + b"\n", b"\n\r\n" + wanted + b"\r\n", b"\xef\xbb\xbf" + wanted):
            path.write_bytes(packed(data) if is_packed else data)
            assert len(logs.find(CALLS[0], tmp_path)) == 1
            assert len(list(logs.records(tmp_path))) == 1
        path.write_bytes(b"")
        assert logs.find(CALLS[0], tmp_path) == list(logs.records(tmp_path)) == []


def test_equal_places_in_members(tmp_path: Path) -> None:
    """Lines of several members are not taken for one because their places add up to the same."""
    lines = [
        line_of({"timestamp": stamp(BASE), "event": "x", "request_id": CALLS[0], "n": n, "pad": "x" * (n * 7 % 61)})
        for n in range(1_000)
    ]
    with small():
        path = tmp_path / str(Name(stamp(BASE), stamp(BASE), "h", 1, compressed=True))
        path.write_bytes(packed(b"\n".join(lines) + b"\n"))
        assert numbers(logs.find(CALLS[0], tmp_path)) == list(range(1_000))


def test_line_twice(tmp_path: Path) -> None:
    """A line that holds the id often, over many blocks, comes once."""
    record = failure(CALLS[0], trace_id=CALLS[0], text=f"{CALLS[0]} " * 60)
    name = Name(stamp(BASE - SECOND), None, "h", 1)
    (tmp_path / str(name)).write_bytes(b"\n".join([line_of(failure(CALLS[1], -1))] * 9 + [line_of(record)] * 2) + b"\n")
    with small():
        assert len(logs.find(CALLS[0], tmp_path)) == 2


def test_torn_before_a_line(tmp_path: Path) -> None:
    """A torn line costs neither the one that stands behind it on the same line, nor its time."""
    torn = line_of(failure(CALLS[1], -3_600))[:100]
    (tmp_path / "a.jsonl").write_bytes(torn + line_of(failure(CALLS[0])) + b"\n")
    assert len(logs.find(CALLS[0], tmp_path)) == 1
    assert len(list(logs.records(tmp_path, since=_when(BASE - SECOND)))) == 1


def test_other_forms_of_time(tmp_path: Path) -> None:
    """Times of other programs are compared as times, with their zones."""
    texts = ["2026-01-02T04:04:05+01:00", "2026-01-02 03:04:05.000000Z", "2026-01-02T03:04:05.000000", "soon", 7, None]
    for number, text in enumerate(texts):
        record = {**failure(CALLS[0]), "timestamp": text, "n": number}
        (tmp_path / f"{number}.jsonl").write_bytes(line_of(record))
    assert numbers(logs.find(CALLS[0], tmp_path)) == list(range(6))
    assert numbers(list(logs.records(tmp_path, since=_when(BASE), until=_when(BASE)))) == [0, 1, 2]


def test_same_file_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named several times, or has several names, is read once."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "a.jsonl"
    path.write_bytes(line_of(failure(CALLS[0])))
    (folder / "b.jsonl").symlink_to(path)
    os.link(path, folder / "c.jsonl")
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert len(logs.find(CALLS[0], [folder, "logs", path, tmp_path / "link", "logs/../logs/a.jsonl"])) == 1
    assert len(list(logs.records([folder, "logs", path]))) == 1


def test_far_ahead_of_its_place(tmp_path: Path) -> None:
    """Lines far from where the call began are found: long after it, and before it by a clock that was wrong."""
    filler = [line_of(failure(CALLS[1], second, pad="x" * 900)) for second in range(-2_000, 2_000)]
    lines = [line_of(failure(CALLS[0], second, n=n)) for n, second in enumerate((-1_990, 0, 1_990))]
    data = b"\n".join([filler[0], lines[0], *filler[1:2_000], lines[1], *filler[2_000:-1], lines[2], filler[-1], b""])
    name = Name(stamp(BASE - 2_000 * SECOND), stamp(BASE + 1_999 * SECOND), "h", 1)
    for compressed in (False, True):
        folder = tmp_path / str(compressed)
        folder.mkdir()
        content = packed(data) if compressed else data
        (folder / str(name._replace(compressed=compressed))).write_bytes(content)
        assert numbers(search(CALLS[0], [folder]).records) == [0, 1, 2]


def test_late_lines(tmp_path: Path) -> None:
    """Lines that a call left behind, or another program wrote, are found although the call's own are all there."""
    name = Name(stamp(BASE), None, "h", 1)
    (tmp_path / str(name)).write_bytes(line_of(failure(CALLS[0], lines=1, n=0)))
    (tmp_path / str(name._replace(late=True, first=stamp(BASE + 86_400 * SECOND)))).write_bytes(
        line_of(failure(CALLS[0], 86_401, event="said", n=1))
    )
    found = search(CALLS[0], [tmp_path])
    assert (numbers(found.records), found.everything) == ([0, 1], False)
    (tmp_path / "other.jsonl").write_bytes(b"\n" * 500_000 + line_of(failure(CALLS[0], 7_000, event="proxied", n=2)))
    found = search(CALLS[0], [tmp_path])
    assert (numbers(found.records), found.everything) == ([0, 1, 2], False)


@pytest.mark.parametrize("said", [0, 1, 4, True, "3", None, 3.0, [3]])
def test_wrong_count(said: object, tmp_path: Path) -> None:
    """A number of lines that is not the one found ends no search."""
    name = Name(stamp(BASE), None, "h", 1)
    lines = [line_of(failure(CALLS[0], n=0, lines=said)), line_of(failure(CALLS[0], n=1))]
    (tmp_path / str(name)).write_bytes(b"\n".join(lines))
    (tmp_path / str(name._replace(first=stamp(BASE + 9 * SECOND)))).write_bytes(line_of(failure(CALLS[0], 9, n=2)))
    found = search(CALLS[0], [tmp_path])
    assert (numbers(found.records), found.everything) == ([0, 1, 2], True)


def test_written_by_the_sink(tmp_path: Path) -> None:
    """Thousands of calls through the real sink, rotated and compressed: each is found whole, without a full search."""

    class Call:
        lines = 0
        ended = False

    sink = FileSink(tmp_path / "logs", max_bytes=200_000)
    ids = []
    for number in range(1_500):
        call, id = Call(), f"{time.time_ns() // 1_000_000:012x}7abc8{number:015x}"
        sink.write(json.dumps({"event": "said", "request_id": id, "pad": os.urandom(150).hex()}), call)
        sink.write(json.dumps({"event": "tool_failed", "schema_version": 1, "request_id": id}), call, final=True)
        if number % 500 == 0:
            sink.write(json.dumps({"event": "late", "request_id": id}), call)
        ids.append(id)
    sink.tidy(60)
    assert [path for path in (tmp_path / "logs").iterdir() if path.suffix == ".gz"] != []
    for number in (*range(0, 1_500, 50), 1_499):
        found = search(ids[number], [tmp_path / "logs"])
        assert [record["event"] for record in found.records] == ["said", "tool_failed", "late"][
            : 2 + (number % 500 == 0)
        ]
        assert not found.everything
    assert len(list(logs.records(tmp_path / "logs"))) == 3_003


@pytest.mark.parametrize("is_packed", [False, True])
def test_little_is_read(is_packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long file only the part where the call, or the time, has to be."""
    rng = random.Random(1)
    lines = [line_of(failure(uuid7(n, str(n)), n, lines=1, n=n, pad=rng.randbytes(500).hex())) for n in range(5_000)]
    name = Name(stamp(BASE), stamp(BASE + 4_999 * SECOND), "h", 1, compressed=is_packed)
    data = b"\n".join(lines) + b"\n"
    (tmp_path / str(name)).write_bytes(packed(data) if is_packed else data)
    size = (tmp_path / str(name)).stat().st_size
    sizes: list[int] = []
    original = source.Source._read, source.Source._read_into

    def read(self: source.Source, at: int, size: int) -> bytes:
        found = original[0](self, at, size)
        sizes.append(len(found))
        return found

    def read_into(self: source.Source, view: memoryview, at: int) -> int:
        sizes.append(original[1](self, view, at))
        return sizes[-1]

    monkeypatch.setattr("iserror.logs.read.search._SMALL", 0)
    with mock.patch.multiple(source.Source, _read=read, _read_into=read_into):
        for n in (0, 1, 1_234, 2_500, 4_998, 4_999):
            sizes.clear()
            found = search(uuid7(n, str(n)), [tmp_path])
            assert (numbers(found.records), found.everything) == ([n], False)
            # A look for a compressed file's place is as long as a member.
            assert sum(sizes) < (17 * segment.MEMBER if is_packed else size // 10)
        if is_packed:
            sizes.clear()
            since = _when(BASE + 2_000 * SECOND)
            assert len(list(logs.records(tmp_path, since=since, until=since + timedelta(seconds=100)))) == 101
            assert sum(sizes) < size // 10


# --- damaged and foreign files ------------------------------------------------------------------------------------


def read_all(path: Path) -> tuple[list[int], int]:
    """What both ways of reading give, and how much was skipped."""
    stream = Stream([path])
    found = numbers(list(stream.records()))
    assert set(numbers(search(CALLS[0], [path]).records)) <= set(found)
    return found, stream.skipped


FEW = 6


@pytest.fixture
def few_lines() -> bytes:
    return b"".join(line_of(failure(CALLS[0], n=number)) + b"\n" for number in range(FEW))


def test_cut_anywhere(tmp_path: Path, few_lines: bytes) -> None:
    """A file that ends anywhere gives every line before that, and counts what is torn."""
    ends = [at for at in range(len(few_lines)) if few_lines[at : at + 1] == b"\n"]
    path = tmp_path / "a.jsonl"
    with small():
        ours = packed(few_lines)
        members = [m for at in range(len(ours)) if (m := segment.member_at(ours[at : at + segment.HEADER_SIZE], at))]
        assert len(members) >= 3
        counts = [gzip.decompress(ours[member.start : member.stop]).count(b"\n") for member in members]
        for cut in range(len(few_lines)):
            path.write_bytes(few_lines[:cut])
            whole = sum(end <= cut for end in ends)
            assert read_all(tmp_path) == (list(range(whole)), int(cut not in (0, *ends, *(end + 1 for end in ends))))
        for data in (ours, gzip.compress(few_lines)):
            for cut in range(len(data)):
                path.write_bytes(data[:cut])
                found, skipped = read_all(tmp_path)
                assert found == list(range(len(found)))
                is_whole = cut == 0 or (data is ours and any(cut == member.start for member in members))
                assert (skipped == 0) is is_whole
                if data is ours:
                    assert len(found) >= sum(
                        count for member, count in zip(members, counts, strict=True) if member.stop <= cut
                    )


def test_flipped_bytes(tmp_path: Path, few_lines: bytes) -> None:
    """Random damage costs at most the lines, or members, that it is in."""
    rng = random.Random(7)
    path = tmp_path / "a.jsonl"
    with small():
        for data in (few_lines, packed(few_lines), gzip.compress(few_lines)):
            for _ in range(250):
                bad = bytearray(data)
                for _ in range(rng.randint(1, 3)):
                    bad[rng.randrange(len(bad))] = rng.randrange(256)
                path.write_bytes(bad)
                stream = Stream([path])
                found = [record.get("n") for record in stream.records()]
                assert len(found) <= FEW
                assert len(search(CALLS[0], [path]).records) <= FEW
        for size in (1, 100, 3_000):
            for head in (b"", b"\x1f\x8b", b"\x1f\x8b\x08\x04"):
                path.write_bytes(head + rng.randbytes(size))
                assert read_all(path)[0] == []


def test_damaged_member(tmp_path: Path, few_lines: bytes) -> None:
    """What damages a member, its header or what stands between members costs that member."""
    path = tmp_path / "a.jsonl.gz"
    with small():
        data = packed(few_lines)
        starts = [at for at in range(len(data)) if segment.member_at(data[at : at + segment.HEADER_SIZE], at)]
        whole = len(starts)
        second = starts[1]
        for at in (second, second + 14, second + segment.HEADER_SIZE + 5):
            bad = data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]
            path.write_bytes(bad)
            found, skipped = read_all(tmp_path)
            assert skipped >= 1
            assert found[0] == 0
            assert found[-1] == FEW - 1
            assert len(found) >= FEW - 2 * (FEW // whole)
        path.write_bytes(data[:second] + b"junk" * 500 + data[second:] + b"more")
        assert read_all(tmp_path) == (list(range(FEW)), 2)
        path.write_bytes(data[:second] + gzip.compress(b"[]") + data[second:])
        assert read_all(tmp_path) == (list(range(FEW)), 1)


@pytest.mark.parametrize("size", [0, 1, 37, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("when", [0, 1, (1 << 64) - 1])
def test_lying_headers(size: int, when: int, tmp_path: Path, few_lines: bytes) -> None:
    """Sizes and times of a header that cannot be are no reason to fail, or to ask for memory."""
    data = bytearray(packed(few_lines))
    data[16:36] = size.to_bytes(4, "little") + when.to_bytes(8, "little") * 2
    name = Name(stamp(BASE - SECOND), stamp(BASE + SECOND), "h", 1, compressed=True)
    (tmp_path / str(name)).write_bytes(data)
    found, skipped = read_all(tmp_path)
    assert found == list(range(FEW)) or skipped
    list(logs.records(tmp_path, since=_when(BASE), until=_when(BASE)))
    follower = Follower([tmp_path])
    follower.last(3)
    follower.new()


def test_bomb(tmp_path: Path) -> None:
    """A member that swells beyond any line is left out."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(b"\0" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    body = start + zeros * 600 + packer.flush()
    header = packed(line_of(failure(CALLS[0])))[: segment.HEADER_SIZE]
    data = bytearray(header + body[10:])
    data[16:20] = len(data).to_bytes(4, "little")
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(data)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))\n"
        "from iserror.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    for data in (bytes(data), body):
        path.write_bytes(data)
        done = subprocess.run([sys.executable, "-c", script, "trace", CALLS[0], str(path)], capture_output=True)
        assert (done.returncode, done.stdout) == (1, b""), done.stderr
        assert b"Traceback" not in done.stderr


def test_long_lines(tmp_path: Path) -> None:
    """Lines up to the limit are read, longer ones are left out and counted once, those around them are found."""
    around = [line_of(failure(CALLS[0], n=number)) for number in range(2)]
    path = tmp_path / str(Name(stamp(BASE - SECOND), None, "h", 1))
    with small():
        for length in (3_999, 4_000, 4_001, 4_100, 4_299, 4_301, 8_000, 20_000):
            base = failure(CALLS[0], pad="", n=9)
            record = {**base, "pad": (CALLS[0] + "y") * ((length - 300) // 33)}
            record["pad"] += "z" * (length - len(line_of(record)))
            assert len(line_of(record)) == length
            path.write_bytes(b"\n".join([around[0], line_of(record), around[1]]))
            expected = [0, 1, 9] if length <= 4_000 else [0, 1]
            found, stream = search(CALLS[0], [path]), Stream([path])
            assert (numbers(found.records), found.skipped) == (expected, length > 4_000), length
            assert (numbers(list(stream.records())), stream.skipped) == (expected, length > 4_000), length
            path.write_bytes(line_of(record))
            assert read_all(path) == ([9][: length <= 4_000], int(length > 4_000))


def test_huge_line(tmp_path: Path) -> None:
    """A line of 50 MB is a line; one of 70 MB is none, and costs neither its neighbours nor much time."""
    path = tmp_path / str(Name(stamp(BASE - SECOND), None, "h", 1))
    for megabytes, expected in ((50, [0, 1, 9]), (70, [0, 1])):
        with path.open("wb") as file:
            file.write(line_of(failure(CALLS[0], n=0)) + b'\n{"n": 9, "event": "x", "request_id": "')
            file.write(CALLS[0].encode() + b'", "pad": "')
            for _ in range(megabytes):
                file.write((CALLS[0] + " " * 992).encode() * 1_000)
            file.write(b'"}\n' + line_of(failure(CALLS[0], n=1)) + b"\n")
        started = time.process_time()
        found = search(CALLS[0], [path])
        assert (numbers(found.records), found.skipped) == (expected, megabytes > 64)
        assert numbers(list(logs.records(path))) == expected
        assert time.process_time() - started < 6


DEEP = 100_000
ODD_LINES: list[bytes] = [
    b"[" * DEEP,
    b'{"event": "x", "a": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"event": "x", "request_id": "%s", "a": %s}' % (CALLS[0].encode(), b"[" * DEEP + b"]" * DEEP),
    b'{"event": "x", "request_id": "%s", "n": 1%s}' % (CALLS[0].encode(), b"0" * 5_000),
    f'{{"event": "{CALLS[0]}"}}'.encode("utf-16"),
    f'{{"event": "caf\xe9 {CALLS[0]}"}}'.encode("latin-1"),
    b'{"EVENT": "%s"}' % CALLS[0].encode(),
    b'<34>Oct 11 22:14:15 host su: "%s"' % CALLS[0].encode(),
    CALLS[0].encode(),
    b"\0" * 500,
]


def _deep(depth: int) -> bytes:
    opening, closing = '[{"type": "E", "exceptions": [' * depth, "]}]" * depth
    return line_of(failure(CALLS[0]))[:-1] + f', "exception": {opening}{closing}}}'.encode()


ODD_RECORDS: list[bytes] = [
    b'{"event": "x", "request_id": "%s", "n": 1e999, "duration_ms": NaN, "code": -Infinity}' % CALLS[0].encode(),
    line_of({**failure(CALLS[0]), "lines": True}),
    line_of({**failure(CALLS[0]), "lines": -1, "timestamp": 7, "level": [], "tool": {}, "code": None, "server": 1}),
    line_of({**failure(CALLS[0]), "timestamp": "2026-99-99T99:99:99.000000Z"}),
    line_of({**failure(CALLS[0]), "timestamp": "\x1b" * 27, "fingerprint": [], "session_id": {}, "trace_id": 7}),
    *map(_deep, (10, 100, 250, 320, 330, 1_000, 2_000)),
    *(b'{"event": "x", "request_id": "%s", "a": %s}' % (CALLS[0].encode(), b"[" * n + b"]" * n) for n in (900, 990)),
]


def test_odd_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no record is skipped, counted and costs nothing else; each command ends as it says."""
    path = tmp_path / "a.jsonl"
    for odd in ODD_LINES:
        path.write_bytes(odd + b"\n" + line_of(failure(CALLS[0], lines=1)) + b"\n")
        stream = Stream([path])
        assert len(list(stream.records())) == 1
        assert stream.skipped >= 1
        for command in (["trace", CALLS[0]], ["trace", CALLS[0], "--json"], ["report"]):
            assert cli.main([*command, str(path)]) == 0
            captured = capsys.readouterr()
            assert ("that are not records" in captured.err) is (command[0] == "report" or CALLS[0].encode() in odd)
        assert len(Follower([path]).last(5)) == 1


def test_odd_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record may hold anything under our keys: it is shown, or it is no record."""
    path = tmp_path / "a.jsonl"
    for odd in ODD_RECORDS:
        path.write_bytes(odd + b"\n" + line_of(failure(CALLS[0], lines=1, n="the good one")) + b"\n")
        for command in (["trace", CALLS[0]], ["trace", CALLS[0], "--json"], ["report"], ["report", "--json"]):
            assert cli.main([*command, str(path)]) == 0, odd[:200]
            out, err = capsys.readouterr()
            assert "the good one" in out or command[0] == "report"
            assert [c for c in out + err if not c.isprintable() and c != "\n"] == []
        for record in Follower([path]).last(5):
            render_line(record)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pipes, folders, devices and links that lead nowhere are passed over in a folder; given, they are refused."""
    (tmp_path / "a.jsonl").write_bytes(line_of(failure(CALLS[0])) + b"\n")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "folder.jsonl" / "b.jsonl").write_bytes(line_of(failure(CALLS[0])) + b"\n")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "nowhere.jsonl").symlink_to(tmp_path / "gone.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    assert cli.main(["trace", CALLS[0], str(tmp_path), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert cli.main(["report", str(tmp_path)]) == 0
    assert len(Follower([tmp_path]).last(5)) == 2
    capsys.readouterr()
    for name in ("pipe.jsonl", "loop.jsonl", "nowhere.jsonl", "zero.jsonl"):
        for command in (["trace", CALLS[0]], ["report"], ["tail"]):
            assert cli.main([*command, str(tmp_path / name)]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err == f"iserror: there is no file or folder {str(tmp_path / name)!r}\n"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_unreadable(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file or folder may not be read, nobody is told that there is no record."""
    (tmp_path / "a.jsonl").write_bytes(line_of(failure(CALLS[0])))

    def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    # As root reads everything, the system's answer is given in its place.
    monkeypatch.setattr(os, "open" if what == "file" else "scandir", refuse)
    for command in (["trace", CALLS[0]], ["report"], ["tail"]):
        assert cli.main([*command, str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Permission denied" in err


# --- files that change meanwhile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", ["as it is written", "closed"])
@pytest.mark.parametrize("then", ["closed", "compressed", "at once"])
def test_renamed_meanwhile(seen: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is closed or compressed at any moment of the search is read once and whole."""
    lines = [line_of(failure(CALLS[n % 2], n // 2, n=n, pad="x" * (n % 7) * 20)) for n in range(60)]
    data = b"".join(line + b"\n" for line in lines)
    expected = {CALLS[0]: list(range(0, 60, 2)), CALLS[1]: list(range(1, 60, 2))}
    original = source.Source.open
    for moment in range(12):
        for wanted in (*CALLS[:2], None):
            folder = tmp_path / f"{moment}-{wanted}"
            folder.mkdir()
            path = folder / str(Name(stamp(BASE), None, "h", 1))
            path.write_bytes(data)
            (folder / "other.jsonl").write_bytes(line_of(failure(CALLS[2], n=99)))
            if seen == "closed":
                path = rotate(path)
            opened = iter(range(1_000))

            def change(path: Path = path) -> None:
                name = Name.of(path)
                if name is not None and name.last is None:
                    path = rotate(path)
                    if then == "closed":
                        return
                if path.exists():
                    compress(path)

            def open_(self: source.Source, opened: Any = opened, change: Any = change, moment: int = moment) -> None:
                if next(opened) == moment:
                    change()
                original(self)

            with small(), monkeypatch.context() as patch:
                patch.setattr(source.Source, "open", open_)
                if wanted is None:
                    assert numbers(list(logs.records(folder))) == [*range(60), 99]
                else:
                    found = search(wanted, [folder])
                    assert (numbers(found.records), found.skipped) == (expected[wanted], 0)


@pytest.mark.parametrize("what", ["deleted", "truncated", "renamed away", "folder"])
def test_gone_meanwhile(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes at any moment costs its own lines at most."""
    original = source.Source.open
    for moment in range(8):
        folder = tmp_path / str(moment)
        folder.mkdir()
        path = folder / str(Name(stamp(BASE), None, "h", 1))
        path.write_bytes(b"".join(line_of(failure(CALLS[0], n=n)) + b"\n" for n in range(50)))
        (tmp_path / "kept.jsonl").write_bytes(line_of(failure(CALLS[0], n=99)))
        opened = iter(range(1_000))

        def open_(self: source.Source, opened: Any = opened, path: Path = path, moment: int = moment) -> None:
            if next(opened) == moment and path.exists():
                if what == "truncated":
                    os.truncate(path, 100)
                elif what == "renamed away":
                    path.rename(path.with_name("old.jsonl.1"))
                else:
                    path.unlink()
                    if what == "folder":
                        path.parent.rmdir()
            original(self)

        with small(), monkeypatch.context() as patch:
            patch.setattr(source.Source, "open", open_)
            for read in (lambda: search(CALLS[0], [tmp_path]).records, lambda: list(logs.records(tmp_path))):
                found = numbers(read())
                assert found.count(99) == 1
                assert len(found) == len(set(found))


def test_begun_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears while the others are searched is searched too."""
    (tmp_path / "a.jsonl").write_bytes(line_of(failure(CALLS[0], n=0)))
    original = source.Source.open

    def open_(self: source.Source) -> None:
        (tmp_path / "b.jsonl").write_bytes(line_of(failure(CALLS[0], n=1)))
        original(self)

    monkeypatch.setattr(source.Source, "open", open_)
    assert numbers(logs.find(CALLS[0], tmp_path)) == [0, 1]


MANY_FILES = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from iserror import logs
from iserror.logs.read.follow import Follower
path, call = sys.argv[1:]
print(len(logs.find(call, path)), len(list(logs.records(path))))
print(len(Follower([Path(path)]).last(10_000)))
"""


@pytest.mark.slow
def test_many_files(tmp_path: Path) -> None:
    """Thousands of files side by side need no more descriptors than one."""
    count = scaled(10_000)
    for number in range(count):
        record = line_of(failure(CALLS[0] if number % (count // 10) == 0 else CALLS[1], number, trace_id=TRACE)) + b"\n"
        form = number % 5
        if form == 0:
            path, content = tmp_path / f"{number}.jsonl", record
        elif form == 1:
            path, content = tmp_path / f"{number}.jsonl.gz", gzip.compress(record, 1)
        else:
            name = Name(stamp(BASE), None if form == 2 else stamp(BASE + count * SECOND), "h", number)
            path = tmp_path / str(name._replace(compressed=form == 4))
            content = packed(record) if form == 4 else record
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", MANY_FILES, tmp_path, CALLS[0]], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"10 {count}\n{count * 6 // 10}\n", done.stderr
