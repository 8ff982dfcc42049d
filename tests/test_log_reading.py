"""Reading the log: beside a naive reader, over damaged files, while files change, and at the command line."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from iserror import cli, logs
from iserror.logs import segment
from iserror.logs.read import follow, reader, source
from iserror.logs.read.follow import Follower
from iserror.logs.read.reader import Stream, search
from iserror.logs.record import stamp
from iserror.logs.render import render_line
from iserror.logs.segment import Name
from iserror.logs.sink import FileSink

SECOND = 1_000_000_000
BASE = 1_767_323_045 * SECOND  # 2026-01-02T03:04:05Z


def uuid7(seconds: int, tail: str) -> str:
    return f"{(BASE // SECOND + seconds) * 1000:012x}7abc8{tail:0>15}"


CALLS = [uuid7(0, "1"), uuid7(30, "2"), uuid7(60, "3")]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
LIKE_A_CALL = uuid7(0, "")[:8] + "ffff7abc8000000000000000"  # a trace id that happens to be a UUIDv7 of another time
IDS = [*CALLS, TRACE, LIKE_A_CALL]


def line_of(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()


def failure(id: str, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": stamp(BASE + int(seconds * SECOND)),
        "level": "error",
        "event": "tool_failed",
        "schema_version": 1,
        "tool": "pay",
        "request_id": id,
        "code": "INTERNAL_ERROR",
        **more,
    }


def packed(data: bytes) -> bytes:
    target = BytesIO()
    segment.compress(BytesIO(data), target)
    return target.getvalue()


@contextlib.contextmanager
def small(**more: int) -> Iterator[None]:
    """Blocks, members and steps so small that a few lines have all their boundaries."""
    sizes = {"BLOCK": 300, "MEMBER": 400, "_PROBE": 64, "_NEAR": 200, "MAX_LINE": 4_000, **more}
    with (
        mock.patch.multiple(source, **sizes),
        mock.patch.multiple(segment, MEMBER=sizes["MEMBER"]),
        mock.patch.multiple(reader, _STEP=256),
    ):
        yield


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
    return own or [r for r in records if str(r.get("upstream_request_id")).startswith(wanted)]


def numbers(records: list[dict[str, Any]]) -> list[int]:
    return sorted(record["n"] for record in records)


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
            assert times(found.records) == sorted(times(found.records))
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
def test_little_is_read(is_packed: bool, tmp_path: Path) -> None:
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


def _rotated(path: Path) -> Path:
    name = Name.of(path)
    assert name is not None
    return path.rename(path.with_name(str(name._replace(last=stamp(BASE + 50 * SECOND)))))


def _compressed(path: Path) -> Path:
    name = Name.of(path)
    assert name is not None
    target = path.with_name(str(name._replace(compressed=True)))
    target.write_bytes(packed(path.read_bytes()))
    path.unlink()
    return target


def _closed_and_compressed(path: Path) -> Path:
    return _compressed(_rotated(path))


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
                path = _rotated(path)
            opened = iter(range(1_000))

            def change(path: Path = path) -> None:
                name = Name.of(path)
                if name is not None and name.last is None:
                    path = _rotated(path)
                    if then == "closed":
                        return
                if path.exists():
                    _compressed(path)

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


def test_many_files(tmp_path: Path) -> None:
    """Ten thousand files side by side need no more descriptors than one."""
    for number in range(10_000):
        record = line_of(failure(CALLS[0] if number % 1_000 == 0 else CALLS[1], number, trace_id=TRACE)) + b"\n"
        form = number % 5
        if form == 0:
            path, content = tmp_path / f"{number}.jsonl", record
        elif form == 1:
            path, content = tmp_path / f"{number}.jsonl.gz", gzip.compress(record, 1)
        else:
            name = Name(stamp(BASE), None if form == 2 else stamp(BASE + 10_000 * SECOND), "h", number)
            path = tmp_path / str(name._replace(compressed=form == 4))
            content = packed(record) if form == 4 else record
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", MANY_FILES, tmp_path, CALLS[0]], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "10 10000\n6000\n", done.stderr


# --- the command line ---------------------------------------------------------------------------------------------


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "iserror", *map(str, arguments)], capture_output=True, timeout=60, **options
    )


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
    """What is no time is refused with those that are."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["trace", CALLS[0], f"{option}={text}"])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert f"invalid time {text!r}: use 2026-11-30, 2026-11-30T09:00 (UTC) or an age such as 24h" in err
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
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def wait(self, count: int, seconds: float = 20.0) -> None:
        until = time.monotonic() + seconds
        while len(self.lines) < count and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.02)

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
        time.sleep(0.6)  # nothing comes twice
    assert len([path for path in tmp_path.iterdir() if path.suffix == ".gz"]) > 50
    assert tail.lines[0]["request_id"] == CALLS[0]
    for writer in writers:
        assert [line["n"] for line in tail.lines if line.get("pid") == writer.pid] == list(range(200))
        assert [line["n"] for line in some.lines if line.get("pid") == writer.pid] == list(range(1, 200, 6))
    assert len(tail.lines) == 601


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
            [lambda: None] * moment + [partial(_put, path, 20), partial(_closed_and_compressed, path)]
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
    _compressed(_rotated(path))
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
