"""The `iserror` command: options and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from iserror.logs.read.reader import Found, Stream, as_id, paths_of, search
from iserror.logs.record import LEVELS, LOG_VARIABLE, Record, minted, printable
from iserror.logs.render import render, render_line

if TYPE_CHECKING:
    from iserror.logs.read.clickhouse import ClickHouse

FOUND, NOTHING, CANNOT_LOOK, SEVERAL = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0 found, 1 nothing found, 2 could not look, 3 several calls; of `check` and `catalog --check` 0 clean, 1 findings.
    """
    if sys.stdout is None:
        _say("stdout is closed: there is nowhere to print to")
        return CANNOT_LOOK
    parser = _parser()
    given = list(sys.argv[1:] if argv is None else argv)
    server: list[str] = []
    if given[:1] == ["check"] and "--" in given:  # what stands behind it is a command with options of its own
        given, server = given[: given.index("--")], given[given.index("--") + 1 :]
    options, rest = parser.parse_known_args(given)
    if any(text.startswith("-") for text in rest) or (rest and options.command == "check"):
        parser.error(f"unrecognized arguments: {' '.join(map(printable, rest))}")
    if options.command == "check":
        options.server = server
    elif rest:
        options.paths += rest  # those that stand behind an option
    commands = {"trace": _trace, "tail": _tail, "report": _report, "check": _check, "catalog": _catalog}
    try:
        code = commands[options.command](options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough; the interpreter flushes once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError, ImportError, RecursionError) as exc:
        _say(str(exc))
        return CANNOT_LOOK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="iserror", description="Errors of MCP tools: find what happened.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    trace = commands.add_parser(
        "trace",
        help="print everything the log knows about one call",
        description="Print everything the log knows about one call, traceback included, by its request or trace id.",
    )
    trace.add_argument("id", metavar="ID", help="request id or trace id, as the client shows it, or its beginning")
    _log_options(trace)

    tail = commands.add_parser(
        "tail",
        help="follow the log",
        description="Print the last lines of the log, then each that comes, across rotation and new processes.",
    )
    tail.add_argument("-n", dest="count", metavar="N", type=_count, default=10, help="lines to begin with (default 10)")
    tail.add_argument("--level", choices=LEVELS, help="only lines of this level and above")
    tail.add_argument("--tool", help="only lines of this tool")
    tail.add_argument("--code", help="only lines with this code")
    tail.add_argument("paths", metavar="PATH", nargs="*", help=_PATH)
    tail.add_argument("--json", action="store_true", help="print the records as JSON lines")

    report = commands.add_parser(
        "report",
        help="what the failures say about the tools",
        description="Failures by tool and code over time, crashes without a map entry, calls in a loop.",
    )
    report.add_argument("--html", metavar="FILE", type=Path, help="write one page with charts (needs iserror[report])")
    _log_options(report)

    catalog = commands.add_parser(
        "catalog",
        help="the codes that a server gives out, and whether they are what they were",
        description="The catalogue of codes of a guard, an error map, or a server with a guard.",
    )
    catalog.add_argument("object", metavar="MODULE:OBJECT", help="billing.server:guard, or server.py:guard")
    form = catalog.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, which --check reads")
    form.add_argument("--html", action="store_true", help="print a page")
    form.add_argument(
        "--check", metavar="FILE", type=Path, help="exit with 1 if a code of that JSON is gone or means something else"
    )

    check = commands.add_parser(
        "check",
        help="audit an MCP server's errors",
        description="Audit any MCP server: which channel its errors take, what they leak, what its tools answer. "
        "By itself it calls only tools that are annotated readOnlyHint, with arguments that their schemas forbid.",
        usage="iserror check [OPTION ...] (TARGET | -- COMMAND ...)",
    )
    check.add_argument("target", metavar="TARGET", nargs="?", help="http(s)://..., module:object or file.py:object")
    check.add_argument("--call", metavar="TOOL={...}", type=_call, action="append", default=[], help="call this tool")
    check.add_argument("--read-only", action="store_true", help="call the tools that say that they only read")
    check.add_argument(
        "--probe",
        metavar="TOOL",
        action="append",
        default=[],
        help="call this tool with arguments that its schema forbids, as if it were annotated readOnlyHint; "
        "a server that doesn't validate them runs the tool",
    )
    check.add_argument(
        "--probe-all",
        action="store_true",
        help="call every tool with arguments that its schema forbids; a server that doesn't validate them runs the "
        "tools, which may write, pay or delete: use it on a test system",
    )
    check.add_argument(
        "--inject", action="store_true", help="make each tool of a guarded server in memory fail; no tool's body runs"
    )
    check.add_argument("--timeout", metavar="S", type=_seconds, default=30.0, help="for each request (default 30)")
    check.add_argument("--baseline", metavar="FILE", type=Path, help="accept the findings in this file")
    check.add_argument("--write-baseline", metavar="FILE", type=Path, help="write the findings there, for --baseline")
    check.add_argument("--format", choices=["table", "sarif", "junit", "github"], help="default: table")
    check.add_argument("--json", action="store_true", help="print JSON")
    return parser


_PATH: Final = f"log file, or a folder of them (default: what {LOG_VARIABLE} names, else ./logs)"


def _log_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help=_PATH)
    parser.add_argument(
        "--since", type=_time, metavar="TIME", help="2026-11-30T09:00, or how long ago: 90s, 15m, 24h, 7d"
    )
    parser.add_argument("--until", type=_time, metavar="TIME", help="as --since")
    parser.add_argument("--source", metavar="URL", help="clickhouse://HOST/DATABASE in place of files")
    parser.add_argument("--json", action="store_true", help="print JSON")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *args: Any) -> None:
        import iserror

        print(f"iserror {iserror.__version__}")
        parser.exit()


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _time(text: str) -> datetime:
    """A point in time: ISO 8601, UTC where it has no zone, or how long ago."""
    ago = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    try:
        if ago is not None:
            return datetime.now(timezone.utc) - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
        then = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        return then.replace(tzinfo=timezone.utc) if then.tzinfo is None else then.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: use 2026-11-30, 2026-11-30T09:00 (UTC) or how long ago, such as 24h"
        ) from None


def _engine(options: argparse.Namespace) -> ClickHouse | None:
    """The engine to ask in place of files.

    Raises:
        ValueError: A source that is none, or paths besides.
    """
    if options.source is None:
        return None
    if not options.source.startswith("clickhouse://"):
        raise ValueError(
            f"--source {options.source.partition('://')[0]!r} is not known: use clickhouse://HOST/DATABASE"
        )
    if options.paths:
        raise ValueError("give --source or PATH, not both")
    from iserror.logs.read.clickhouse import ClickHouse

    return ClickHouse(options.source)


# --- trace ---------------------------------------------------------------------------------------------------


def _trace(options: argparse.Namespace) -> int:
    wanted = as_id(options.id)
    engine = _engine(options)
    if engine is not None:
        found = Found(engine.search(wanted, since=options.since, until=options.until))
        where = "the table"
    else:
        paths = paths_of(options.paths or None)
        found = search(wanted, paths, options.since, options.until)
        where = ", ".join(map(str, paths))
    if found.skipped:
        _say(f"lines with this id that are no records: {found.skipped}")
    ids = _ids(found.records, wanted)
    if wanted in ids and len(ids) > 1:  # others only begin with it
        ids = {wanted: ids[wanted]}
        found = found._replace(records=[record for record in found.records if wanted in map(record.get, _ID_KEYS)])
    if len(ids) > 1:
        _say(f"{len(ids)} calls begin with {options.id!r}: give more digits")
        _write(f"{full}  {line}\n" for full, line in ids.items())
        return SEVERAL
    if not found.records:
        _say(
            f"no record of {printable(options.id)!r} in {where}: check the id, and that these are the logs of the "
            "server that answered"
        )
        return NOTHING
    if options.json:
        _write(_json(record) for record in found.records)
    else:
        _write([render(found.records)])
        if engine is None and found.everything and minted(wanted) and not (options.since or options.until):
            _say(f"no line says how many lines the call has, so the whole log was searched (files: {found.files})")
    return FOUND


_ID_KEYS: Final = ("request_id", "trace_id", "upstream_request_id")


def _ids(records: Iterable[Record], wanted: str) -> dict[str, str]:
    """The ids that begin with what was asked for, each with its first record on a line."""
    ids: dict[str, str] = {}
    for record in records:
        for key in _ID_KEYS:
            value = record.get(key)
            if isinstance(value, str) and value.startswith(wanted):
                ids.setdefault(printable(value), render_line(record))
                break
    return ids


# --- tail ----------------------------------------------------------------------------------------------------


def _tail(options: argparse.Namespace) -> int:
    from iserror.logs.read.follow import follow

    least = LEVELS[options.level] if options.level else 0

    def is_wanted(record: Record) -> bool:
        level = record.get("level")
        return (
            (LEVELS.get(level, LEVELS["info"]) if isinstance(level, str) else LEVELS["info"]) >= least
            and options.tool in (None, record.get("tool"))
            and options.code in (None, record.get("code"))
        )

    for record in follow(paths_of(options.paths or None), options.count, is_wanted):
        _write([_json(record) if options.json else render_line(record) + "\n"])
        sys.stdout.flush()
    return FOUND


# --- report --------------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> int:
    from iserror.logs.read.summary import summarize
    from iserror.logs.read.text import to_json, to_text

    if options.html is not None and options.json:
        raise ValueError("give --html or --json, not both")
    if options.html is not None:
        from iserror.logs.read.page import plotly_js

        plotly_js()  # what is missing is said before a long log is read
    engine = _engine(options)
    if engine is not None:
        summary = summarize(engine.records(since=options.since, until=options.until))
    else:
        stream = Stream(paths_of(options.paths or None), options.since, options.until)
        summary = summarize(_with_progress(stream))
        if stream.skipped:
            _say(f"lines that are no records: {stream.skipped}")
    if options.html is not None:
        from iserror.logs.read.page import to_html

        _write_private(options.html, to_html(summary))
        _say(f"written to {options.html}")
    elif options.json:
        print(json.dumps(to_json(summary), ensure_ascii=True))
    else:
        unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
        width = shutil.get_terminal_size((100, 24)).columns
        _write(f"{line}\n" for line in to_text(summary, width, unicode=unicode))
    return FOUND


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, as the log is, in place of what is there."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


_WORTH_A_BAR: Final = 32 << 20
_BAR: Final = 30


def _with_progress(stream: Stream) -> Iterator[Record]:
    """The records, with a bar on stderr where that is a terminal and there is much to read."""
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


# --- catalog -------------------------------------------------------------------------------------------------


def _catalog(options: argparse.Namespace) -> int:
    from iserror.cli.catalog import changes, codes_of, load, to_html, to_json, to_markdown

    try:
        codes = codes_of(load(options.object))
    except TypeError as exc:
        raise ValueError(f"{options.object}: {exc}") from None
    if options.check is not None:
        found = changes(options.check.read_text(encoding="utf-8"), codes)
        _write(f"{line}\n" for line in found)
        return NOTHING if found else FOUND
    if options.html:
        _write([to_html(codes, f"Codes of {options.object}")])
    else:
        _write([to_json(codes) if options.json else to_markdown(codes)])
    return FOUND


# --- check ---------------------------------------------------------------------------------------------------


def _call(text: str) -> tuple[str, dict[str, Any]]:
    from iserror.check.target import call

    try:
        return call(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return float(text)


def _check(options: argparse.Namespace) -> int:
    from iserror.check import audit, baseline, finding, output, target
    from iserror.check.notes import CheckOptions

    if options.json and options.format is not None:
        raise ValueError("give --json or --format, not both")
    if options.inject:
        if options.read_only:
            raise ValueError("give --inject or --read-only, not both")
        if options.probe or options.probe_all:
            raise ValueError("give --inject or --probe, not both: --inject calls every tool, and no tool's body runs")
        # Spans of failures that are none would page someone, too.
        os.environ.setdefault("OTEL_SDK_DISABLED", "true")
    render_outcome = output.renderer("json" if options.json else options.format or "table")
    accepted = baseline.read(options.baseline) if options.baseline is not None else set()
    older = accepted | (baseline.read_older(options.write_baseline) if options.write_baseline is not None else set())
    what = target.parse(options.target, options.server)
    asked = CheckOptions(
        options.timeout,
        tuple(options.call),
        options.read_only,
        options.inject,
        probe=tuple(options.probe),
        probe_all=options.probe_all,
    )
    # A CI job that is cancelled must not leave a server behind either.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        done = audit.check(what, asked, _Progress())
    finally:
        signal.signal(signal.SIGTERM, before)
    unprobed = done.skipped.get(finding.UNPROBED, ())
    if options.write_baseline is not None:
        kept = {key for key in older - set(done.found) if finding.may_come_of_a_probe(key, unprobed)}
        baseline.write(options.write_baseline, done.found.values(), kept)
        more = f"; {len(kept)} kept, since their tools weren't probed" if kept else ""
        _say(f"{len(done.found)} findings written to {options.write_baseline}{more}")
        accepted = set(done.found)
    left = [found for key, found in done.found.items() if key not in accepted]
    mended = sum(not finding.may_come_of_a_probe(key, unprobed) for key in accepted - set(done.found))
    if mended:
        _say(f"{mended} findings of the baseline are no longer there: write it anew")
    path = None
    if what.kind == "memory" and ".py:" in what.name:
        path = Path(os.path.relpath(what.name.rpartition(":")[0])).as_posix()
    outcome = output.FinishedCheck(
        what.name, path, done.revisions, done.tools, left, len(done.found) - len(left), done.skipped, bool(done.probed)
    )
    columns = shutil.get_terminal_size((100, 24)).columns
    _write([render_outcome(outcome, columns, sys.stdout.isatty())])
    code = 1 if left else 0
    if what.kind == "memory" and any(key[0] == "session.timeout" for key in done.found):
        # A tool that never ends has a thread that the interpreter would wait for.
        sys.stdout.flush()
        os._exit(code)
    return code


class _Progress:
    """Says on stderr what is being done: on a terminal in one line, else every ten seconds."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        self.since = time.monotonic()

    def __call__(self, step: str) -> None:
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{printable(step)[:width]:<{width}}\r", end="", file=self.stream, flush=True)
        elif time.monotonic() - self.since > 10:
            self.since = time.monotonic()
            print(f"iserror: {printable(step)}", file=self.stream, flush=True)


# --- output --------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    print(f"iserror: {printable(text)}", file=sys.stderr)


def _json(record: Record) -> str:
    text = json.dumps(record, ensure_ascii=True)
    if "NaN" in text or "Infinity" in text:  # which another program wrote, and JSON does not know
        text = json.dumps(json.loads(text, parse_constant=str), ensure_ascii=True)
    return text + "\n"


def _write(texts: Iterable[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    for text in texts:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
