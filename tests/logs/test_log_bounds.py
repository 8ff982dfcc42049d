"""The bounds of the log: how much of an exception is described, a file that cannot be renamed, one that grows."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from iserror import Redactor, redact_text
from iserror.errors.problem import crash
from iserror.layers.call import Call, Request
from iserror.layers.lifecycle import fail
from iserror.layers.report import report
from iserror.layers.settings import Settings
from iserror.logs import appender, frames
from iserror.logs.excinfo import (
    MAX_ALL_FRAMES,
    MAX_ALL_NOTES,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_ERRORS,
    MAX_EXCEPTIONS,
    MAX_FRAMES,
    MAX_GROUP,
    MAX_NOTE_CHARS,
    MAX_NOTES,
    describe,
)
from iserror.logs.frames import Chain, Frame, Link, every_link
from iserror.logs.read import source
from iserror.logs.read.follow import Follower
from iserror.logs.redaction import MAX_ARGUMENTS
from iserror.logs.sink import FileSink
from iserror.support.causes import MAX_CHAIN, Group
from tests.conftest import Lines

pytestmark = pytest.mark.hostless

# --- an exception --------------------------------------------------------------------------------------------


def raised(depth: int) -> BaseException:
    """An exception that was raised that many frames below this one, by functions f1, f2 and so on."""
    calls = "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(1, depth))
    names: dict[str, Any] = {}
    exec(compile(f"{calls}def f{depth}():\n    raise LookupError\n", "calls.py", "exec"), names)
    try:
        names["f1"]()
    except LookupError as exc:
        exc.__traceback__ = exc.__traceback__.tb_next if exc.__traceback__ else None
        return exc
    raise AssertionError


@pytest.mark.parametrize("depth", [1, MAX_FRAMES - 1, MAX_FRAMES, MAX_FRAMES + 1, MAX_FRAMES + 2, 2 * MAX_FRAMES])
def test_frames(depth: int) -> None:
    """A traceback has its first and its last frames, and says how many were in between."""
    (link,) = describe(raised(depth))
    half = MAX_FRAMES // 2
    expected = [f"f{n}" for n in range(1, depth + 1)]
    if depth > MAX_FRAMES:
        expected = [*expected[:half], f"[{depth - MAX_FRAMES} frames left out]", *expected[-half:]]
    assert [frame.function for frame in link.frames] == expected
    assert {frame.file for frame in link.frames} == ({"calls.py", ""} if depth > MAX_FRAMES else {"calls.py"})


def linked(count: int) -> BaseException:
    exc: BaseException = ValueError("0")
    for number in range(1, count):
        following = ValueError(str(number))
        following.__cause__ = exc
        exc = following
    return exc


@pytest.mark.parametrize("count", [MAX_CHAIN - 1, MAX_CHAIN, MAX_CHAIN + 1, 3 * MAX_CHAIN])
def test_chain(count: int) -> None:
    """A chain has the exception itself and those that led to it last."""
    chain = describe(linked(count))
    assert [link.message for link in chain] == [str(count - 1 - n) for n in range(min(count, MAX_CHAIN))]
    assert [link.relation for link in chain] == ["", *["cause"] * (len(chain) - 1)]


@pytest.mark.parametrize("count", [MAX_GROUP, MAX_GROUP + 1, 3 * MAX_GROUP])
def test_group(count: int) -> None:
    """A group has its first members, and says how many are left out."""
    (link,) = describe(Group("several", [ValueError(str(n)) for n in range(count)]))
    assert link.exceptions is not None
    assert [chain[0].message for chain in link.exceptions] == [str(n) for n in range(MAX_GROUP)]
    assert link.exceptions_left_out == count - MAX_GROUP


def test_groups_inside_groups() -> None:
    """So many levels are described; below them the members are counted."""
    exc: BaseException = ValueError("innermost")
    for number in range(MAX_DEPTH + 3):
        exc = Group(str(number), [exc])  # type: ignore[type-var]
    found = list(every_link(describe(exc)))
    assert [link.message.partition(" ")[0] for link in found] == [str(MAX_DEPTH + 2 - n) for n in range(MAX_DEPTH + 1)]
    assert [link.exceptions_left_out for link in found] == [0] * MAX_DEPTH + [1]


@pytest.mark.parametrize("inner", [1, 3, 4, 49])
def test_exceptions_in_all(inner: int) -> None:
    """Whatever its shape, one line describes so many exceptions and no more."""
    groups = [Group(str(n), [ValueError(f"{n}.{m}") for m in range(inner)]) for n in range(MAX_GROUP)]
    chain = describe(Group("all", groups))
    assert len(list(every_link(chain))) == min(1 + MAX_GROUP * (inner + 1), MAX_EXCEPTIONS)


def test_notes() -> None:
    exc = ValueError("x")
    exc.__notes__ = [7, *(str(n) for n in range(2 * MAX_NOTES))]  # type: ignore[attr-defined]
    (link,) = describe(exc)
    assert link.notes == [str(n) for n in range(MAX_NOTES - 1)]


class Endless(list[str]):
    """Notes without an end."""

    def __iter__(self) -> Iterator[str]:
        return itertools.repeat("again")


class Odd(Exception):
    notes: Any

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("notes") if name == "__notes__" else super().__getattribute__(name)


@pytest.mark.parametrize(
    ("notes", "shown"),
    [
        (itertools.repeat("x"), []),
        (Endless(), ["again"] * MAX_NOTES),
        ("one text", ["one text"]),
        (7, []),
        (None, []),
        ({"a": 1}, []),
        (("a", "b"), ["a", "b"]),
    ],
)
def test_notes_of_any_kind(notes: Any, shown: list[str]) -> None:
    """Notes that aren't a list of texts, or have no end, are read as far as that goes; the failure is described."""
    exc = Odd("x")
    exc.notes = notes
    (link,) = describe(exc)
    assert (link.message, list(link.notes)) == ("x", shown)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts that redaction reads for the log."""
    lengths: list[int] = []

    def spy(text: str, **options: Any) -> str:
        lengths.append(len(text))
        return redact_text(text, **options)

    monkeypatch.setattr("iserror.logs.redaction.redact_text", spy)
    return lengths


def long_words(number: int) -> str:
    return f"{number} " + "many words of an exception " * 400


def large_group() -> BaseException:
    leaves = []
    for n in range(MAX_GROUP):
        leaf = linked(MAX_CHAIN)
        leaf.args = (long_words(n),)
        leaf.__notes__ = [long_words(m) for m in range(MAX_NOTES)]  # type: ignore[attr-defined]
        leaves.append(leaf)
    return Group("all", leaves)


def long_chain() -> BaseException:
    exc: BaseException = ValueError(long_words(0))
    for n in range(1, MAX_CHAIN):
        following = ValueError(long_words(n))
        following.__cause__ = exc
        exc = following
    return exc


@pytest.mark.parametrize("make", [large_group, long_chain])
def test_what_is_read_of_a_failure_in_all(make: Callable[[], BaseException], looked_at: list[int]) -> None:
    """However many texts a failure has, only so many characters are read; each message has its beginning."""
    links = list(every_link(describe(make())))
    assert sum(looked_at) <= MAX_CHARS + MAX_NOTE_CHARS + len(links) * 3 * 60
    assert sum(len(link.notes) for link in links) <= MAX_ALL_NOTES + len(links)
    assert all(link.message[:1] in "0123456789a" for link in links)
    assert max(len(link.message) for link in links) > 2_000


def test_a_long_message_alone(looked_at: list[int]) -> None:
    """One exception's message has its 4,000 characters."""
    (link,) = describe(ValueError("word " * 10_000))
    assert len(link.message) > 4_000
    assert link.message.endswith("more characters]")


def test_frames_in_all() -> None:
    """However many exceptions a failure has, only so many frames are described, and of each the last."""
    links = list(every_link(describe(Group("all", [raised(MAX_FRAMES) for _ in range(MAX_GROUP)]))))
    assert sum(len(link.frames) for link in links) <= MAX_ALL_FRAMES + 3 * len(links)
    assert {link.frames[-1].function for link in links[1:]} == {f"f{MAX_FRAMES}"}


def test_the_end_of_a_traceback_as_text() -> None:
    """Of a long traceback that a pool sent as text, the end is there: it says what happened."""

    class _RemoteTraceback(Exception):
        pass

    exc = ValueError("x")
    exc.__cause__ = _RemoteTraceback("".join(f"  File a.py, line {n}\n" for n in range(2_000)) + "KeyError: 'last'")
    _, remote = describe(exc)
    assert remote.message.endswith("KeyError: 'last'")
    assert remote.message.startswith("  File a.py, line 0\n")
    assert len(remote.message) < 6_000


def test_errors_of_a_validator() -> None:
    """Of tens of thousands of errors only the number is logged: pydantic makes a list of them all or none."""
    with pytest.raises(ValidationError) as few:
        TypeAdapter(list[int]).validate_python(["x"] * MAX_ERRORS)
    with pytest.raises(ValidationError) as many:
        TypeAdapter(list[int]).validate_python(["x"] * (MAX_ERRORS + 1))
    assert "0: int_parsing" in describe(few.value)[0].message
    assert describe(many.value)[0].message == f"{MAX_ERRORS + 1} validation error(s) for list[int]"


@pytest.mark.parametrize("many", [False, True])
def test_arguments_in_all(many: bool, lines: Lines) -> None:
    """Of logged arguments so many characters are read, in one text or in many; a secret at the cut is gone."""
    secret = "hunter" + "2" * 40
    text = "word " * (MAX_ARGUMENTS // 5 - 8) + f"password={secret} " + "word " * 50_000
    arguments = {str(n): "x" for n in range(100_000)} if many else {"text": text}
    call = Call(Settings(log_arguments=True), "pay", request=Request(arguments=arguments))
    read: list[int] = []
    original = Redactor.redact_text

    def spy(self: Redactor, text: str, **options: Any) -> str:
        read.append(len(text))
        return original(self, text, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Redactor, "redact_text", spy)
        fail(call, crash(ValueError("x")))
        report(call)
    (line,) = lines.read()
    assert sum(read) < MAX_ARGUMENTS + 200
    assert len(read) < 3_000
    assert "2222" not in str(line)
    first = next(iter(line["arguments"].items()))
    assert first == ("0", "x") if many else first[1].startswith("word ")


# --- on disk and back ----------------------------------------------------------------------------------------

FRAME = Frame("a.py", 3, "f", "f()")
LINKS: Chain = [
    Link("E", "m", notes=["n"], frames=[FRAME]),
    Link("G", "g", "cause", exceptions=[[Link("I", "i"), Link("J", "j", "context")]], exceptions_left_out=2),
    Link("G", "g", "context", exceptions=[]),
]


def test_keys_on_disk() -> None:
    """The keys of a line, in their order; what an exception does not have is left out."""
    frame = {"file": "a.py", "line": 3, "function": "f", "source": "f()"}
    inner = [
        {"type": "I", "message": "i", "frames": []},
        {"type": "J", "message": "j", "relation": "context", "frames": []},
    ]
    group = {"type": "G", "message": "g", "relation": "cause", "frames": [], "exceptions": [inner]}
    expected = [
        {"type": "E", "message": "m", "notes": ["n"], "frames": [frame]},
        {**group, "exceptions_left_out": 2},
        {"type": "G", "message": "g", "relation": "context", "frames": [], "exceptions": []},
    ]
    assert json.dumps(frames.to_json(LINKS)) == json.dumps(expected)


@pytest.mark.parametrize("chain", [LINKS, [], describe(raised(70)), describe(Group("g", [linked(3), raised(2)]))])  # type: ignore[list-item]
def test_there_and_back(chain: Chain) -> None:
    """What is read is what was written."""
    written = json.loads(json.dumps(frames.to_json(chain)))
    assert frames.to_json(frames.read(written)) == written


ODD: list[Any] = [None, True, 7, -7, 1.5, 10**5000, float("nan"), float("inf"), "", "text", [], ["x"], {}, {"a": 1}]


def odd() -> Iterator[Any]:
    for value in ODD:
        yield from (value, [value], [[value]], [{"frames": value}], [{"frames": [value]}], [{"exceptions": [value]}])
        yield [dict.fromkeys(("type", "message", "relation", "notes", "frames", "exceptions"), value)]
        yield [{"frames": [dict.fromkeys(("file", "line", "function", "source"), value)]}]
        yield [{"exceptions": [[{"type": value}], value]}]


@pytest.mark.parametrize("value", list(odd()), ids=lambda value: type(value).__name__)
def test_what_is_no_chain(value: Any) -> None:
    """Whatever a line holds, what is read has the types that it says."""
    for link in every_link(frames.read(value)):
        assert [type(text) for text in (link.type, link.message, link.relation, *link.notes)] == [str] * (
            3 + len(link.notes)
        )
        assert type(link.exceptions_left_out) is int
        for frame in link.frames:
            assert list(map(type, frame)) == [str, int, str, str]


def test_endless_groups() -> None:
    """Groups inside groups are read so deep and no deeper, without an end of the stack."""
    value: Any = [{"type": "E"}]
    for _ in range(5_000):
        value = [{"type": "G", "exceptions": [value]}]
    assert 50 < len(list(every_link(frames.read(value)))) < 100


# --- files ---------------------------------------------------------------------------------------------------


def test_a_rename_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file that cannot be renamed takes further lines, and is tried again once in an eighth of its size."""
    sizes: list[int] = []

    def refused(path: Path, _: object) -> None:
        sizes.append(path.stat().st_size)
        raise PermissionError

    log = FileSink(tmp_path, max_bytes=8_000)
    with monkeypatch.context() as patch:
        patch.setattr(appender.os, "rename", refused)  # type: ignore[attr-defined]
        for number in range(130):
            log.write(json.dumps({"event": "x", "number": number, "padding": "x" * 30}))
        assert log.lost == 0
    length = os.path.getsize(next(tmp_path.glob("*.jsonl"))) / 130
    assert [round((size - 8_000) / 1_000) for size in sizes] == list(range(len(sizes)))
    assert len(sizes) == 1 + int((130 * length - 8_000) / 1_000)
    log.write(json.dumps({"event": "x", "number": 130, "padding": "x" * 1_000}))
    log.tidy(30)
    log.close()
    numbers = [
        json.loads(line)["number"]
        for file in sorted(tmp_path.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    assert len(numbers) in (1, 131)  # the first file is compressed by now, or not yet
    assert numbers[-1] == 130


def test_a_file_that_grows_during_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that comes between a look at a file's size and the reading of it is told once."""
    path = tmp_path / "a.log"
    path.write_text('{"event": "first"}\n')
    coming = ['{"event": "second"}\n']
    stat = source.Source.stat

    def growing(self: source.Source) -> os.stat_result:
        found = stat(self)
        while coming:
            with path.open("a") as file:
                file.write(coming.pop())
        return found

    follower = Follower([path])
    monkeypatch.setattr(source.Source, "stat", growing)
    monkeypatch.setattr("iserror.logs.read.follow.listed", lambda paths: [source.Source(path) for path in paths])
    assert [record["event"] for record in follower.new()] == ["first", "second"]
    assert follower.new() == []
    with path.open("a") as file:
        file.write('{"event": "third"}\n')
    assert [record["event"] for record in follower.new()] == ["third"]
    assert follower.new() == []
