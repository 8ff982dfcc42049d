"""`iserror tail`: follow the log."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final

from iserror.cli.logfiles import add_paths
from iserror.cli.terminal import FOUND, json_line, write
from iserror.logs.read.reader import paths_of
from iserror.logs.record import LEVELS, Record
from iserror.logs.render import render_line

HELP: Final = "follow the log"
DESCRIPTION: Final = "Print the last lines of the log, then each new line, across rotation and new processes."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "-n", dest="count", metavar="N", type=_line_count, default=10, help="lines to print first (default: 10)"
    )
    parser.add_argument("--level", choices=LEVELS, help="print only lines of this level and above")
    parser.add_argument("--tool", help="print only lines of this tool")
    parser.add_argument("--code", help="print only lines with this code")
    add_paths(parser)
    parser.add_argument("--json", action="store_true", help="print the records as JSON lines")


def run(options: argparse.Namespace) -> int:
    """Print lines until Ctrl+C and return the exit code."""
    from iserror.logs.read.follow import follow

    minimum = LEVELS[options.level] if options.level else 0

    def is_wanted(record: Record) -> bool:
        level = record.get("level")
        return (
            (LEVELS.get(level, LEVELS["info"]) if isinstance(level, str) else LEVELS["info"]) >= minimum
            and options.tool in (None, record.get("tool"))
            and options.code in (None, record.get("code"))
        )

    for record in follow(paths_of(options.paths or None), options.count, is_wanted):
        write([json_line(record) if options.json else render_line(record) + "\n"])
        sys.stdout.flush()
    return FOUND


def _line_count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"invalid line count {text!r}: use a whole number")
    return int(text)
