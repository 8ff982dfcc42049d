"""The `iserror` command: options and exit codes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import iserror
from iserror.logs import find
from iserror.render import render


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 found, 1 nothing found, 2 could not look)."""
    parser = argparse.ArgumentParser(prog="iserror", description="Errors of MCP tools: find what happened.")
    parser.add_argument("--version", action="version", version=f"iserror {iserror.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    trace = commands.add_parser(
        "trace",
        help="print everything the log knows about one call",
        description="Print everything the log knows about one call, traceback included, by its request or trace id.",
    )
    trace.add_argument("id", metavar="ID", help="request id or trace id, as the client shows it")
    trace.add_argument("paths", metavar="PATH", nargs="+", help="log file, or a folder with *.jsonl files")
    trace.add_argument("--json", action="store_true", help="print the records as JSON lines")
    options = parser.parse_args(argv)
    return _trace(options)


def _trace(options: argparse.Namespace) -> int:
    try:
        records = find(options.id, options.paths)
    except OSError as exc:
        print(f"iserror: {exc}", file=sys.stderr)
        return 2
    if not records:
        print(
            f"iserror: no record of {options.id!r} in {', '.join(options.paths)}: check the id, and that these are "
            "the logs of the server that answered",
            file=sys.stderr,
        )
        return 1
    if options.json:
        for record in records:
            print(json.dumps(record, ensure_ascii=True))
    else:
        text = render(records)
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0
