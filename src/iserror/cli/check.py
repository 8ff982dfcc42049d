"""`iserror check`: audit an MCP server's errors."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from iserror.cli.terminal import FOUND, NOTHING, say, write
from iserror.logs.record import printable

HELP: Final = "audit an MCP server's errors"
DESCRIPTION: Final = (
    "Audit any MCP server: which channel its errors take, what they leak, what its tools answer. "
    "By itself it calls only tools that are annotated readOnlyHint, with arguments that their schemas forbid. "
    "In memory it tries every tool, and none runs."
)

_QUIET_SECONDS: Final = 10
"""How long a check may say nothing on a stderr that isn't a terminal."""


def add_options(check: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    check.usage = "iserror check [OPTION ...] (TARGET | -- COMMAND ...)"
    check.add_argument("target", metavar="TARGET", nargs="?", help="http(s)://..., module:object or file.py:object")
    check.add_argument("--call", metavar="TOOL={...}", type=_call, action="append", default=[], help="call this tool")
    check.add_argument("--read-only", action="store_true", help="call the tools that say that they only read")
    check.add_argument(
        "--probe",
        metavar="TOOL",
        action="append",
        default=[],
        help="call this tool with arguments that its schema forbids, even if it isn't annotated "
        "readOnlyHint or can't be replaced in memory; "
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
    check.add_argument(
        "--timeout", metavar="S", type=_seconds, default=30.0, help="timeout per request, in seconds (default: 30)"
    )
    check.add_argument("--baseline", metavar="FILE", type=Path, help="accept the findings in this file")
    check.add_argument("--write-baseline", metavar="FILE", type=Path, help="write the findings to FILE, for --baseline")
    check.add_argument("--format", choices=["table", "sarif", "junit", "github"], help="default: table")
    check.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Check a server, print the findings and return the exit code.

    Args:
        options: With `server`, the command behind `--`.
    """
    from iserror.check import audit, baseline, finding, output, target
    from iserror.check.notes import CheckOptions

    if options.json and options.format is not None:
        raise ValueError("give --json or --format, not both")
    if options.inject:
        if options.read_only:
            raise ValueError("give --inject or --read-only, not both")
        if options.probe or options.probe_all:
            raise ValueError("give --inject or --probe, not both: --inject calls every tool, and no tool's body runs")
        # Spans of injected failures would page someone.
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
    # A CI job that is canceled must not leave a server behind.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = Progress()
    try:
        done = audit.check(what, asked, progress)
    finally:
        progress.end()
        signal.signal(signal.SIGTERM, before)
    unprobed = finding.unprobed_in(done.skipped)
    if options.write_baseline is not None:
        kept = {key for key in older - set(done.found) if finding.may_come_of_a_probe(key, unprobed)}
        baseline.write(options.write_baseline, done.found.values(), kept)
        more = f"; {len(kept)} kept from before, not probed now" if kept else ""
        say(f"{_findings(len(done.found))} written to {options.write_baseline}{more}")
        accepted = set(done.found)
    left = [found for key, found in done.found.items() if key not in accepted]
    if gone := sum(not finding.may_come_of_a_probe(key, unprobed) for key in accepted - set(done.found)):
        say(
            f"{_findings(gone, 'baseline ')} no longer {'occurs' if gone == 1 else 'occur'}: update it with "
            f"--write-baseline {options.baseline}"
        )
    path = None
    if what.kind == "memory" and ".py:" in what.name:
        path = Path(os.path.relpath(what.name.rpartition(":")[0])).as_posix()
    outcome = output.FinishedCheck(
        what.name,
        path,
        done.revisions,
        done.tools,
        left,
        len(done.found) - len(left),
        done.skipped,
        bool(done.probed),
        done.guarded,
    )
    columns = shutil.get_terminal_size((100, 24)).columns
    write([render_outcome(outcome, columns, sys.stdout.isatty())])
    code = NOTHING if left else FOUND
    if what.kind == "memory" and any(key[0] == "session.timeout" for key in done.found):
        # The interpreter would wait for the thread of a tool that never ends.
        sys.stdout.flush()
        os._exit(code)
    return code


class Progress:
    """The current step on stderr: on one line of a terminal, else at most every ten seconds."""

    def __init__(self) -> None:
        self.stream = sys.stderr
        self.since = time.monotonic()
        self.on_a_line = False
        """Whether a terminal shows a step now."""

    def __call__(self, step: str) -> None:
        if self.stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self.on_a_line = True
            print(f"\r{printable(step)[:width]:<{width}}\r", end="", file=self.stream, flush=True)
        elif time.monotonic() - self.since > _QUIET_SECONDS:
            self.since = time.monotonic()
            print(f"iserror: {printable(step)}", file=self.stream, flush=True)

    def end(self) -> None:
        """Clear the line of a terminal."""
        if self.on_a_line:
            print(f"\r{'':<{shutil.get_terminal_size().columns - 1}}\r", end="", file=self.stream, flush=True)


def _findings(count: int, kind: str = "") -> str:
    return f"{count} {kind}finding{'' if count == 1 else 's'}"


def _call(text: str) -> tuple[str, dict[str, Any]]:
    from iserror.check.target import call

    try:
        return call(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,3})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"invalid timeout {text!r}: use a number of seconds above 0")
    return float(text)
