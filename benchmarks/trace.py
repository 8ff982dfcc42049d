"""Everything about one call, from logs of 10 MB to 1 GB: iserror beside what people search logs with.

The logs are written through the library's sink. Times are wall-clock times, as some contenders use every core, of
logs that are in the page cache. Contenders that are not installed are left out.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from timing import Row, main

from iserror.layers.ids import new_request_id
from iserror.logs import find
from iserror.logs.sink import FileSink

SIZES = (10, 100, 1_000)
QUICK_SIZES = (1, 10)
IDS = 50
SECONDS = 4.0
"""After so long, no more ids are searched with a contender."""
LAYOUTS = {"plain, one process": (1, None), "compressed, four processes": (4, 16)}
"""How many processes write, and into how many files that are closed and compressed."""

Ids = tuple[str, str]
Search = Callable[[str, Path], object]

# --- the log ------------------------------------------------------------------------------------------------------


def words(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(3, 11))) for _ in range(count)]


def templates(rng: random.Random) -> list[str]:
    """Lines without their ids: of 40 tools, with tracebacks through 400 places, about 2 KB each."""
    vocabulary = words(rng, 600)

    def text(low: int, high: int) -> str:
        return " ".join(rng.choices(vocabulary, k=rng.randint(low, high)))

    places = [
        {
            "file": f"/srv/app/{rng.choice(vocabulary)}/{rng.choice(vocabulary)}.py",
            "line": rng.randint(1, 900),
            "function": rng.choice(vocabulary),
            "source": f"return await {rng.choice(vocabulary)}.{text(1, 1)}({text(1, 4).replace(' ', ', ')})",
        }
        for _ in range(400)
    ]
    return [
        json.dumps(
            {
                "level": "error",
                "event": "tool_failed",
                "schema_version": 1,
                "server": "billing",
                "tool": f"{vocabulary[number % 40]}_{vocabulary[number % 7]}",
                "jsonrpc_id": rng.randint(1, 10_000),
                "code": vocabulary[number % 9].upper(),
                "category": "internal",
                "retryable": False,
                "outcome": "unknown",
                "mapped": False,
                "duration_ms": rng.randint(1, 900_000) / 1_000,
                "fingerprint": rng.randbytes(8).hex(),
                "exception": [
                    {
                        "type": f"{rng.choice(vocabulary).title()}Error",
                        "message": f"{text(3, 30)} ({rng.randbytes(8).hex()})",
                        "frames": rng.sample(places, rng.randint(6, 12)),
                    }
                ],
            }
        )[1:]
        for number in range(2_000)
    ]


class Call:
    lines = 0
    ended = False


def write(folder: Path, size: int, max_bytes: int | None, seed: int) -> list[Ids]:
    """Write so many bytes of lines; gives some request ids with their trace ids."""
    rng = random.Random(seed)
    bodies = templates(rng)
    sink = FileSink(folder, max_bytes=max_bytes)
    ids: list[Ids] = []
    written = count = 0
    while written < size:
        request, trace = new_request_id(), f"{rng.getrandbits(128):032x}"
        body = f'{{"request_id": "{request}", "trace_id": "{trace}", {rng.choice(bodies)}'
        written += len(sink.write(body, Call(), final=True)) + 1
        count += 1
        if not count % 50:
            ids.append((request, trace))
    sink.tidy(600)
    return ids


def make(folder: Path, size: int, processes: int, max_bytes: int | None) -> list[Ids]:
    folder.mkdir()
    jobs = [(folder, size // processes, max_bytes, number) for number in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        ids = [pair for part in pool.starmap(write, jobs) for pair in part]
    return random.Random(0).sample(ids, min(IDS, len(ids)))


# --- the contenders -----------------------------------------------------------------------------------------------


def command(*parts: str) -> Search:
    def search(wanted: str, folder: Path) -> object:
        files = sorted(map(str, folder.iterdir())) if "FILES" in parts else []
        given = {"FOLDER": str(folder), "ID": wanted}
        argv = [given.get(part, part) for part in parts if part != "FILES"]
        return subprocess.run([*argv, *files], check=True, capture_output=True).stdout

    return search


def duckdb_search() -> Search:
    import duckdb

    database = duckdb.connect()
    columns = "{request_id: 'VARCHAR', trace_id: 'VARCHAR', event: 'VARCHAR', code: 'VARCHAR', exception: 'JSON'}"

    def search(wanted: str, folder: Path) -> object:
        return database.execute(
            f"SELECT * FROM read_json(?, format = 'newline_delimited', columns = {columns}) WHERE request_id = ?",
            [f"{folder}/*.jsonl*", wanted],
        ).fetchall()

    return search


def lines(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file


def loads(wanted: str, folder: Path) -> object:
    return [record for record in map(json.loads, lines(folder)) if record.get("request_id") == wanted]


def contenders(*, packed: bool) -> Iterator[tuple[str, Search]]:
    yield "iserror.logs.find", find
    yield "iserror trace ID", command(sys.executable, "-m", "iserror", "trace", "ID", "FOLDER")
    ripgrep = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which("rg")
    if ripgrep is not None and (not packed or shutil.which("gzip")):
        yield "ripgrep", command(ripgrep, *(["-z"] if packed else []), "-F", "ID", "FOLDER")
    grep = "zgrep" if packed else "grep"
    if shutil.which(grep):
        yield f"{grep} -F", command(grep, "-F", "ID", "FILES")
    if importlib.util.find_spec("duckdb"):
        yield "DuckDB", duckdb_search()
    yield "json.loads of every line", loads


def milliseconds(search: Search, ids: list[str], folder: Path) -> float:
    """The median over the ids, after one that warms up."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    for number, wanted in enumerate([ids[0], *ids]):
        start = time.perf_counter()
        found = search(wanted, folder)
        took = (time.perf_counter() - start) * 1_000
        assert found, wanted
        if number or took > SECONDS * 1_000:
            times.append(took)
        if time.perf_counter() > end and times:
            break
    return statistics.median(times)


def measure(quick: bool) -> list[Row]:
    sizes = QUICK_SIZES if quick else SIZES
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as root:
        for layout, (processes, parts) in LAYOUTS.items():
            took: dict[str, list[float]] = {}
            for size in sizes:
                folder, bytes_ = Path(root, "log"), size * 1_000_000
                ids = make(folder, bytes_, processes, bytes_ // parts if parts else None)
                requests, traces = ([pair[which] for pair in ids] for which in (0, 1))
                os.sync()
                for name, search in contenders(packed=parts is not None):
                    took.setdefault(name, []).append(milliseconds(search, requests, folder))
                took.setdefault("iserror.logs.find by trace id", []).append(milliseconds(find, traces, folder))
                shutil.rmtree(folder)
            least, most = sizes[0], sizes[-1]
            best = took["iserror.logs.find"][-1]
            rows += [
                {
                    "search": f"{name}; {layout}",
                    **{f"{size} MB, ms": one for size, one in zip(sizes, each, strict=True)},
                    f"{most} / {least} MB": each[-1] / each[0],
                    f"/ find at {most} MB": each[-1] / best,
                }
                for name, each in took.items()
            ]
    return rows


if __name__ == "__main__":
    main(measure, __doc__)
