"""`iserror report`: summarize failures by tool and code."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from iserror.cli.logfiles import add_log_options, engine_of
from iserror.cli.terminal import FOUND, say, write, write_private
from iserror.logs.read.reader import paths_of
from iserror.logs.read.stream import Stream
from iserror.logs.record import Record

HELP: Final = "summarize failures by tool and code"
DESCRIPTION: Final = (
    "Summarize the log: failures by tool and code over time, crashes without a map entry, calls that loop."
)

_WORTH_A_BAR: Final = 32 << 20
"""Bytes of log."""
_BAR: Final = 30
"""Columns."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--html", metavar="FILE", type=Path, help="write one page with charts (needs iserror[report])")
    add_log_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print or write the summary of a log and return the exit code."""
    from iserror.logs.read.summary import summarize
    from iserror.logs.read.text import to_json, to_text

    if options.html is not None and options.json:
        raise ValueError("give --html or --json, not both")
    if options.html is not None:
        from iserror.logs.read.page import plotly_js

        plotly_js()  # report a missing package before reading a long log
    engine = engine_of(options)
    if engine is not None:
        summary = summarize(engine.records(since=options.since, until=options.until))
    else:
        stream = Stream(paths_of(options.paths or None), options.since, options.until)
        summary = summarize(_with_progress_bar(stream))
        if stream.skipped:
            say(f"skipped lines that are not records: {stream.skipped}")
    if options.html is not None:
        from iserror.logs.read.page import to_html

        write_private(options.html, to_html(summary))
        say(f"written to {options.html}")
    elif options.json:
        print(json.dumps(to_json(summary), ensure_ascii=True))
    else:
        unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        width = shutil.get_terminal_size((100, 24)).columns
        write(f"{line}\n" for line in to_text(summary, width, unicode=unicode))
    return FOUND


def _with_progress_bar(stream: Stream) -> Iterator[Record]:
    """Yield the records; show a bar if stderr is a terminal and the log is long."""
    shown = sys.stderr.isatty() and stream.total > _WORTH_A_BAR
    last = -1
    for number, record in enumerate(stream.records()):
        if shown and not number % 512:
            percent = min(100, stream.done * 100 // stream.total)
            if percent != last:
                last = percent
                done = "#" * (percent * _BAR // 100)
                print(f"\r[{done:<{_BAR}}] {percent:3} %", end="", file=sys.stderr, flush=True)
        yield record
    if shown:
        print("\r" + " " * (_BAR + 10) + "\r", end="", file=sys.stderr, flush=True)
