"""Processes that write a log and get into trouble: killed, forked, full, interrupted. Run by test_log_writing.py.

`python log_children.py WHAT ARGUMENT...`; what came of it goes to stdout as one JSON value.
"""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import structlog

from iserror import ToolErrors, ToolFailure, configure_logging, logs
from iserror.layers.call import Call, Request
from iserror.layers.ids import new_request_id
from iserror.logs.chain import State
from iserror.logs.sink import FileSink


def failing(text: str = "no such row") -> Any:
    raise RuntimeError(text)


GUARDED = ToolErrors()(failing)


def fail(text: str = "no such row") -> str:
    """A call that fails, by the whole way; returns the id that its result has."""
    try:
        GUARDED(text)
    except ToolFailure as exc:
        failed = exc
    else:
        raise AssertionError("it did not fail")
    assert failed.failure is not None
    return failed.failure.request_id


def sink_of(path: str | Path, **settings: Any) -> FileSink:
    """Configure logging there; the sink that writes."""
    configure_logging(path, **settings)
    assert State.file is not None
    return State.file


def body(request_id: str, *, padding: str = "") -> str:
    """A line as a failure's, without the work that makes it."""
    return (
        f'{{"level": "error", "event": "tool_failed", "schema_version": 1, "tool": "bulk", '
        f'"request_id": "{request_id}", "code": "INTERNAL_ERROR", "category": "internal", "padding": "{padding}"}}'
    )


STAGES = 4
"""How often a writer of many lines waits for a byte on stdin."""


def bulk(folder: str, ids: str, count: str, max_bytes: str, every: str) -> object:
    """Write so many failures, one in `every` by the whole way; each id goes to the file `ids` once it is logged."""
    waits = [int(count) * stage // (STAGES + 1) for stage in range(1, STAGES + 1)]
    sink = sink_of(folder, max_bytes=int(max_bytes))
    note = os.open(ids, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(int(count)):
        if number in waits:
            os.read(0, 1)
        if number % int(every):
            request_id = new_request_id()
            call: Any = SimpleNamespace(lines=0, ended=False)
            sink.write(body(request_id, padding="x" * (number % 97)), call, final=True)
        else:
            request_id = fail()
        os.write(note, request_id.encode() + b"\n")
    sink.tidy(60)
    return sink.lost


# --- killed --------------------------------------------------------------------------------------------------


def killed(folder: str, times: str, max_bytes: str, seed: str) -> object:
    """Fork a writer and kill it at a random moment, so many times; every id that came out of it while it lived."""
    chance = random.Random(int(seed))
    received: list[str] = []
    for _ in range(int(times)):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            sink_of(folder, max_bytes=int(max_bytes))
            while True:
                os.write(writing, fail().encode() + b"\n")
        os.close(writing)
        data, wanted = b"", chance.randrange(1, 30)
        while data.count(b"\n") < wanted:
            data += os.read(reading, 1 << 16)
        until = time.perf_counter() + chance.random() * 0.002  # any moment of a write, a rename, a compression
        while time.perf_counter() < until:
            pass
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while more := os.read(reading, 1 << 16):
            data += more
        os.close(reading)
        received += data.decode().split("\n")[:-1]
    return received


def servers_killed(folder: str, times: str, max_bytes: str) -> object:
    """Fork a stdio server, call it and kill it, so many times; the id of every result that came out of it."""
    from tests.servers import log_server

    chance, received = random.Random(7), []
    server = log_server.build(folder, max_bytes)
    for _ in range(int(times)):
        requests, answers = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(requests[0], 0)
            os.dup2(answers[1], 1)
            os.closerange(3, 50)
            log_server.serve(server)
        os.close(requests[0])
        os.close(answers[1])
        count = chance.randrange(1, 16)
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        messages: list[dict[str, Any]] = [{"method": "initialize", "params": info, "id": 0}]
        messages.append({"method": "notifications/initialized"})
        for number in range(1, count + 8):
            call = {"name": "fail", "arguments": {"number": number}}
            messages.append({"method": "tools/call", "params": call, "id": number})
        text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        os.write(requests[1], text.encode())
        with open(answers[0], "rb") as out:
            lines = [out.readline() for _ in range(count + 1)]
            os.kill(pid, signal.SIGKILL)
            lines += out.read().split(b"\n")[:-1]  # what it sent before it was killed
        os.waitpid(pid, 0)
        os.close(requests[1])
        results = [json.loads(line).get("result", {}) for line in lines if line]
        received += [result["_meta"]["iserror/failure"]["request_id"] for result in results if "content" in result]
    return received


# --- a full disk ---------------------------------------------------------------------------------------------


def full(place: str, what: str, cycles: str) -> object:
    """Fill a small disk by logging, free it, log on, and again; what was answered, and what the log then holds."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=True)
    log = Path(place, "log.jsonl" if what == "file" else "logs")
    sink = sink_of(log, **({"max_bytes": 20_000} if what == "rotating" else {}))
    ballast = Path(place, "ballast")
    answered, losses, chance = [], [], random.Random(what)
    for _ in range(int(cycles)):
        # All but some pages; compression and the log fill those.
        attempt_to_fill(ballast, leave=chance.randrange(0, 40_000))
        for _ in range(150):
            answered.append(fail("x" * chance.randrange(0, 400)))
        losses.append(sink.lost)
        ballast.unlink()
        if what == "rotating":
            sink.tidy(30)
            # What a full disk did not let it compress takes its space: an operator makes room.
            for file in sorted(log.glob("*.jsonl.gz"))[:-4]:
                shutil.move(file, f"{place}-kept")
        elif chance.random() < 0.4:
            keep(log, Path(f"{place}-kept"))
        answered += [fail() for _ in range(3)]
        sink.tidy(30)
        losses.append(sink.lost)
    kept = Path(f"{place}-kept")
    for file in [log] if log.is_file() else list(log.glob("*.jsonl*")):
        shutil.copy(file, kept)
    found = list(logs.records(kept))
    temporaries = [path.name for path in Path(place).rglob("*.tmp")]
    return {"answered": answered, "losses": losses, "found": found, "temporaries": temporaries}


def attempt_to_fill(ballast: Path, leave: int) -> None:
    """Take all of a disk's space but some."""
    stat = os.statvfs(ballast.parent)
    ballast.write_bytes(b"\0" * max(0, stat.f_bavail * stat.f_frsize - leave))


def keep(log: Path, kept: Path) -> None:
    """Move what a full disk holds elsewhere, as an operator does: the log goes on in a new file."""
    for file in [log] if log.is_file() else list(log.glob("*.jsonl")):
        shutil.move(file, kept / f"{time.time_ns()}-{file.name}")


# --- no permission -------------------------------------------------------------------------------------------


def forbidden(path: str, what: str) -> object:
    """Lose the permission to write, as a user who is not root, and get it back."""
    if os.getuid() == 0:
        os.chown(Path(path).parent, 65534, 65534)
        os.setgid(65534)
        os.setuid(65534)
    log = Path(path)
    sink = sink_of(log)
    folder = log if what == "logs" else log.parent
    answered = [fail()]
    files = list(folder.glob("*.jsonl"))
    folder.chmod(0)
    answered.append(fail())  # the open file still takes lines
    sink.close()
    answered.append(fail())
    folder.chmod(0o500)
    for file in files:
        file.chmod(0o400)
    answered.append(fail())
    lost = sink.lost
    folder.chmod(0o700)
    for file in files:
        file.chmod(0o600)
    answered.append(fail())
    # It does not read the log: Python itself may lie where only root may read what is still to import.
    return {"answered": answered, "lost": lost}


# --- interrupted ---------------------------------------------------------------------------------------------


class Dying:
    """Logs when it is collected: at any allocation, in the middle of a write too."""

    numbers = itertools.count(1)  # one after the other, whichever thread collects
    gone: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        number = next(Dying.numbers)
        logging.getLogger("dying").warning("collected %d", number)
        Dying.gone.append(number)


def interrupted(folder: str, count: str, max_bytes: str) -> object:
    """Write from two threads while a signal's handler and collected objects log by structlog and logging."""
    sink = sink_of(folder, max_bytes=int(max_bytes))
    numbers = itertools.count(1)

    def handler(*_: object) -> None:
        number = next(numbers)
        structlog.get_logger().warning("signal", number=number)
        logging.getLogger("handler").warning("signal %d", number)
        # Not by an interval: on a busy machine handlers would pile up in one another.
        signal.setitimer(signal.ITIMER_REAL, 0.003)

    failed: list[str] = []

    def work() -> None:
        for number in range(int(count)):
            if number % 4 == 0:
                failed.append(fail())
            else:
                logging.getLogger("worker").warning("thread %d", number)

    gc.set_threshold(20)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    thread = threading.Thread(target=work)
    thread.start()
    for number in range(int(count)):
        Dying()
        structlog.get_logger().info("main", number=number)
    # `join` alone would keep signals from their handler, where it waits in C.
    while thread.is_alive():
        thread.join(0.01)
    signal.setitimer(signal.ITIMER_REAL, 0)
    gc.set_threshold(700)
    for _ in range(100):
        gc.collect()  # which does nothing while another thread does it
        if len(Dying.gone) == int(count):
            break
        time.sleep(0.1)
    fail()
    sink.tidy(30)
    return {"signals": next(numbers) - 1, "dying": len(Dying.gone), "failed": failed}


def forked(folder: str, count: str) -> object:
    """Fork so many times while another thread is writing; each child fails a call and says its id."""
    sink_of(folder, max_bytes=50_000)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            fail()

    thread = threading.Thread(target=work)
    thread.start()
    fail()
    answered: dict[str, int] = {}
    stuck = 0
    for _ in range(int(count)):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writing, fail().encode())
            os._exit(0)
        os.close(writing)
        if select.select([reading], [], [], 10)[0]:
            answered[os.read(reading, 64).decode()] = pid
        else:
            stuck += 1
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
    stop.set()
    thread.join()
    return {"answered": answered, "stuck": stuck}


def forked_while_hashing(folder: str) -> object:
    """Fork while another thread computes a call's fingerprint; the child computes one of its own."""
    sink_of(folder)
    guard, inside, go_on = ToolErrors(), threading.Event(), threading.Event()

    class Slow:
        def __str__(self) -> str:
            inside.set()
            go_on.wait(60)
            return "slow"

    def fingerprint_of(value: object) -> str | None:
        return Call(guard, "pay", request=Request(arguments={"amount": value})).fingerprint

    thread = threading.Thread(target=fingerprint_of, args=(Slow(),))
    thread.start()
    inside.wait(60)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, str(fingerprint_of(7)).encode())
        os._exit(0)
    os.close(writing)
    answered = os.read(reading, 64).decode() if select.select([reading], [], [], 10)[0] else ""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    go_on.set()
    thread.join()
    return {"answered": answered, "expected": str(fingerprint_of(7))}


# --- descriptors ---------------------------------------------------------------------------------------------


def closed(path: str, what: str) -> object:
    """Close all descriptors and open others in their place, as a program that makes itself a daemon does."""
    log = Path(path, "logs" if what == "folder" else "log.jsonl")
    sink = sink_of(log)

    def failed() -> str:
        """A failure, and the end of the housekeeping that it may have begun: that has descriptors of its own."""
        one = fail()
        sink.tidy(60)
        return one

    answered = [failed()]
    out = os.dup(1)
    os.closerange(3, out)
    others = [os.open(Path(path, f"other-{number}"), os.O_RDWR | os.O_CREAT, 0o600) for number in range(20)]
    answered.append(failed())
    for other in others:
        os.close(other)
    # Nothing at all in their place.
    os.closerange(3, out)
    answered.append(failed())
    # The log itself, open for reading only.
    fd = sink._file.fd
    assert fd is not None
    again = os.open(sink._file._path, os.O_RDONLY)
    os.dup2(again, fd)
    os.close(again)
    answered += [failed(), failed()]
    return {
        "answered": answered,
        "found": list(logs.records(log)),
        "others": sum(file.stat().st_size for file in Path(path).glob("other-*")),
        "taken": len(others),
    }


# --- a terminal, and the environment -------------------------------------------------------------------------

ESCAPES = "\x1b[31mred\x1b[0m \x9b31m \x1b]0;title\x07 \u202egnp.exe \r\b"


def terminal(_: str) -> object:
    """Fail and log with every kind of escape in texts, keys and values; for a terminal on stderr."""
    configure_logging()

    def tool() -> None:
        log = structlog.get_logger()
        log.warning(f"event {ESCAPES}", value=ESCAPES, **{f"key {ESCAPES}": [ESCAPES, {ESCAPES: ESCAPES}]})
        log.warning("a list for an exception", exception=[ESCAPES, {"message": ESCAPES, "type": ESCAPES}])
        log.warning("no list for an exception", exception={"text": ESCAPES})
        log.warning("a stack", stack=ESCAPES, stack_info=True, level=ESCAPES, timestamp=ESCAPES, logger=ESCAPES)
        logging.getLogger(f"name {ESCAPES}").warning("message %s", ESCAPES, extra={"more": ESCAPES})
        try:
            raise ValueError(f"first {ESCAPES}")
        except ValueError as exc:
            log.exception("with a traceback")
            logging.getLogger("plain").exception("with a traceback too")
            raise RuntimeError(f"then {ESCAPES}\nsecond line") from exc

    try:
        ToolErrors()(tool)()
    except ToolFailure:
        return None


def environment(_: str) -> object:
    """A server process that calls nothing but `attach`."""
    from tests.helpers import hosts

    server = hosts.new_server()
    ToolErrors().attach(server)
    structlog.get_logger().info("by structlog")
    logging.getLogger("some.where").info("by logging")
    return fail()


CHILDREN: dict[str, Callable[..., object]] = {
    child.__name__: child
    for child in (
        bulk,
        killed,
        servers_killed,
        full,
        forbidden,
        interrupted,
        forked,
        forked_while_hashing,
        closed,
        terminal,
        environment,
    )
}


# --- the side of the tests -----------------------------------------------------------------------------------


def command(what: str, *arguments: object) -> list[str]:
    """The command of a child."""
    return [sys.executable, __file__, what, *map(str, arguments)]


def run(what: str, *arguments: object, prefix: tuple[str, ...] = (), limit: float = 120, **more: Any) -> Any:
    """Run a child to its end: what it says, and its stderr."""
    child = subprocess.run(
        [*prefix, *command(what, *arguments)], capture_output=True, text=True, timeout=limit, check=False, **more
    )
    assert child.returncode == 0, child.stderr[-3_000:]
    return json.loads(child.stdout), child.stderr


def duplicates(found: Iterator[str] | list[str]) -> list[str]:
    """What is there more than once."""
    return [thing for thing, count in Counter(found).items() if count > 1]


if __name__ == "__main__":
    print(json.dumps(CHILDREN[sys.argv[1]](*sys.argv[2:])))
