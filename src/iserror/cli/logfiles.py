"""The options of the commands that read a log: files or an engine, and a span of time."""

from __future__ import annotations

import argparse
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from iserror.logs.record import LOG_VARIABLE

if TYPE_CHECKING:
    from iserror.logs.read.clickhouse import ClickHouse

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Declare the log's paths."""
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help=f"log file, or a folder of log files (default: {LOG_VARIABLE}, else ./logs)",
    )


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Declare which part of which log to read."""
    add_paths(parser)
    parser.add_argument(
        "--since",
        type=point_in_time,
        metavar="TIME",
        help="skip earlier lines: 2026-11-30T09:00 (UTC), or an age such as 90s, 15m, 24h, 7d",
    )
    parser.add_argument("--until", type=point_in_time, metavar="TIME", help="skip later lines: a time as for --since")
    parser.add_argument("--source", metavar="URL", help="read clickhouse://HOST/DATABASE instead of files")
    parser.add_argument("--json", action="store_true", help="print JSON")


def point_in_time(text: str) -> datetime:
    """Read a time: ISO 8601, in UTC if it has no zone, or an age.

    Raises:
        argparse.ArgumentTypeError: If the text isn't a time.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    try:
        if ago is not None:
            return datetime.now(timezone.utc) - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        then = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return then.replace(tzinfo=timezone.utc) if then.tzinfo is None else then.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"invalid time {text!r}: use 2026-11-30, 2026-11-30T09:00 (UTC) or an age such as 24h"
        ) from None


def engine_of(options: argparse.Namespace) -> ClickHouse | None:
    """Return the engine that `--source` names, or None for files.

    Raises:
        ValueError: If the source isn't known, or paths are given too.
    """
    if options.source is None:
        return None
    if not options.source.startswith("clickhouse://"):
        raise ValueError(f"unknown --source {options.source.partition('://')[0]!r}: use clickhouse://HOST/DATABASE")
    if options.paths:
        raise ValueError("give --source or PATH, not both")
    from iserror.logs.read.clickhouse import ClickHouse

    return ClickHouse(options.source)
