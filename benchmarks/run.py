"""Measure on every host and write docs/explanation/benchmarks.md: `make bench`; `--quick` to see that it all works.

Each host has a virtualenv of its own in .nox/bench-HOST, made with uv.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HOSTS = {
    "mcp1": "mcp>=1.30.0,<2",
    "mcp2": "mcp>=2.3.0,<3",
    "fastmcp3": "fastmcp>=3.4.11,<4",
    "fastmcp4": "fastmcp>=4.2.3,<5",
}
if sys.version_info < (3, 11):  # which fastmcp 4.2 asks for
    del HOSTS["fastmcp4"]
# What does not depend on the host is measured on this one.
ONE_HOST = "mcp2"
# What the redactor is measured beside.
REDACTORS = ["logfire", "detect-secrets"]
# What the search of a log is measured beside; ripgrep's newer versions come without its binary.
SEARCHERS = ["ripgrep==14.1.0", "duckdb"]
# The layout of a process's memory alone makes a few percent, so each script runs in so many and medians are kept.
PROCESSES = 3

Row = dict[str, Any]


def environment(name: str, *packages: str) -> Path:
    """The Python of the virtualenv of this name, which is made or brought up to date."""
    folder = ROOT / ".nox" / f"bench-{name}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    uv = find_uv()
    if not python.exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    # Not editable, and compiled: what is measured is what users have, and stays the same while it is measured.
    options = ["--quiet", "--python", python, "--compile-bytecode", "--reinstall-package", "iserror"]
    subprocess.run([*uv, "pip", "install", *options, ROOT, *packages], check=True)
    return python


def find_uv() -> list[str]:
    """uv: beside nox, on the path, or as a module."""
    beside_nox = shutil.which("uv", path=str(ROOT / ".venv" / ("Scripts" if os.name == "nt" else "bin")))
    found = beside_nox or shutil.which("uv")
    return [found] if found else [sys.executable, "-m", "uv"]


def run(python: Path, script: str, *, quick: bool) -> list[Row]:
    """The rows of a script: of numbers the medians of several processes."""
    command = [python, Path(__file__).with_name(script), *(["--quick"] if quick else [])]
    runs = []
    for _ in range(1 if quick else PROCESSES):
        with tempfile.TemporaryFile("w+") as errors:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            if done.returncode:
                errors.seek(0)
                sys.exit(f"{script} ended with {done.returncode}:\n{errors.read()[-4_000:]}")
        runs.append([json.loads(line) for line in done.stdout.splitlines()])
    return [_middle(list(same)) for same in zip(*runs, strict=True)]


def _middle(rows: list[Row]) -> Row:
    return {
        key: statistics.median(row[key] for row in rows) if isinstance(value, (int, float)) else value
        for key, value in rows[0].items()
    }


UNITS = (", ms", ", µs")

# --- the page ------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """A Markdown table; a column for every key that a row has."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "| --- " + "| ---: " * (len(columns) - 1) + "|"]
    lines += ["| " + " | ".join(_cell(column, row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(column: str, value: object) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    if column.endswith(UNITS):
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"**{value:.3f}**" if 0.9 < value < 1.1 else f"**{value:.2f}**"


def _columns(rows: list[Row], *, absolute: bool) -> list[Row]:
    """Only the times, or only the ratios; the host in any case."""
    return [{k: v for k, v in row.items() if k == "host" or k.endswith(UNITS) is absolute} for row in rows]


def machine() -> str:
    """The processor, the number of cores, the system and the Python, without names of this machine."""
    model = platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [
            line.partition(":")[2].strip() for line in information.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, {python}"


PAGE = """\
# Benchmarks

`make bench` makes this page. Ratios come first: contenders take turns in one process, in short batches, and the
ratio is taken within each turn (`benchmarks/timing.py`). All is CPU time but for the search of a log{processes}.

{date}, {machine}, {versions}.

## A successful call through `@guard`

Against an empty wrapper that sets and resets one context variable. Aim: at most 2.

{guard_overhead}

## `tools/call`, attached against bare

In memory, over the host's own client; hosts log as they do by default, to a file. The tool is async; the crash is
raised two functions below it. On fastmcp, an attached guard also checks the result against the output schema,
which the host does not: the columns without output schema show what the rest costs. Aims: a success within 1.03,
a crash with its log line at most 1.5 times a success, and never slower than bare on mcp 2.3. (mcp 1.30 logs nothing
of a crash.)

{tools_call}

## One failing call, part by part

A traceback of ten frames, all to files, on {one_host}. Aim: a report in 250 µs. structlog's `dict_tracebacks` writes
local variables unless told otherwise.

{failure_cost}

## Redaction

On the texts of `tests/redact/texts/dev.jsonl`. Aims: 99 % of secrets, 98 % of all, 1 % of harmless texts altered,
0.5 % of what is wanted lost, 50 µs for a harmless text of 200 bytes, growth 1.1 (an exponent, over texts that are made
to make patterns backtrack) and 0.5 s per MB at the worst of them. logfire's scrubber replaces a whole text for one word
in it; detect-secrets is made for source code.

{redaction}

## The largest failures

One failing call through `@guard`, with the slowest of all texts that are made to make patterns backtrack, 200,000
characters long. Aim: 50 ms. Then the five slowest rules of redaction, each on the slowest text that a search over parts
of its own pattern and of real texts found. Aim: growth 1.1 (an exponent).

{limits}

## Finding one call in a log

By its request id, in logs of about 2 KB a line that are in the page cache; wall-clock time, as ripgrep and DuckDB use
every core, and the median over up to 50 ids. Aims: at 1 GB at least 50 times faster than ripgrep, and at most twice the
time at 1 GB as at 10 MB. A trace id says nothing of its time, so that the whole log is read.

{trace}

## Import

Every name of `iserror` in a fresh process once its dependencies are imported; each is imported when it is first used.
Aim: 30 ms.

{import_time}

## Packs

In a process that has imported the library. Aims: all packs included in 5 ms, a look-up in 5 µs. A pack is loaded when
an exception is looked up that it may know, which costs up to 3 ms once.

{packs}

## Errors returned as successes

What the default predicate takes for an error, over the values in `tests/errors/returned_values.py`: counted, not timed.

{returned_errors}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rounds, and the page is printed, not written")
    parser.add_argument(
        "--host", choices=HOSTS, action="append", help="only this host (repeatable); the page is printed"
    )
    arguments = parser.parse_args()

    pythons = {
        host: environment(host, package)
        for host, package in HOSTS.items()
        if host in (*(arguments.host or HOSTS), ONE_HOST)
    }
    page: dict[str, str] = {}
    for script in ("guard_overhead", "failure_cost", "import_time", "packs"):
        print(f"{script} ...", file=sys.stderr)
        page[script] = table(run(pythons[ONE_HOST], f"{script}.py", quick=arguments.quick))
    print("redaction ...", file=sys.stderr)
    redaction = run(environment("redaction", HOSTS[ONE_HOST], *REDACTORS), "redaction.py", quick=arguments.quick)
    page["redaction"] = table(redaction)
    print("limits ...", file=sys.stderr)
    page["limits"] = table(run(pythons[ONE_HOST], "limits.py", quick=arguments.quick))
    counted = [pythons[ONE_HOST], Path(__file__).with_name("returned_errors.py")]
    page["returned_errors"] = subprocess.run(counted, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print("trace ...", file=sys.stderr)
    page["trace"] = table(run(environment("trace", HOSTS[ONE_HOST], *SEARCHERS), "trace.py", quick=arguments.quick))
    rows: list[Row] = []
    for host, python in pythons.items():
        print(f"tools_call on {host} ...", file=sys.stderr)
        rows += run(python, "tools_call.py", quick=arguments.quick)
    page["tools_call"] = f"{table(_columns(rows, absolute=False))}\n\n{table(_columns(rows, absolute=True))}"
    text = PAGE.format(
        processes="" if arguments.quick else f", the median of {PROCESSES} processes",
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        machine=machine(),
        versions=versions(pythons[ONE_HOST]),
        one_host=next(row["host"] for row in rows if row["host"].startswith("mcp 2")),
        **page,
    )
    if arguments.quick or arguments.host:
        print(text)
    else:
        (ROOT / "docs" / "explanation" / "benchmarks.md").write_text(text, encoding="utf-8")


def versions(python: Path) -> str:
    """The versions of the library and of what it stands on."""
    code = "from importlib.metadata import version; print(*(f'{n} {version(n)}' for n in {!r}), sep=', ')"
    names = ("iserror", "pydantic", "structlog", "anyio")
    return subprocess.run(
        [python, "-c", code.replace("{!r}", repr(names))], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
