"""The `iserror` command: its parser and its exit codes. Each command has its own module."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from iserror.cli import catalog, check, report, tail, trace
from iserror.cli.terminal import CANNOT_LOOK, FOUND, INTERRUPTED, say
from iserror.logs.record import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    0: found. 1: nothing found. 2: could not look. 3: several calls. For `check` and `catalog --check`, 0 is clean and
    1 is findings.
    """
    if sys.stdout is None:
        say("stdout is closed: there is nowhere to print to")
        return CANNOT_LOOK
    parser = _parser()
    given = list(sys.argv[1:] if argv is None else argv)
    server: list[str] = []
    if given[:1] == ["check"] and "--" in given:  # options after `--` belong to the server command
        given, server = given[: given.index("--")], given[given.index("--") + 1 :]
    options, rest = parser.parse_known_args(given)
    if any(text.startswith("-") for text in rest) or (rest and not hasattr(options, "paths")):
        parser.error(f"unrecognized arguments: {' '.join(map(printable, rest))}")
    if options.command == "check":
        options.server = server
    elif rest:
        options.paths += rest  # argparse leaves paths that follow an option
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough; the interpreter flushes again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, ValueError, ImportError, RecursionError) as exc:
        say(str(exc))
        return CANNOT_LOOK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="iserror", description="Errors of MCP tools: find what happened.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (trace, tail, report, catalog, check):
        name = module.__name__.rpartition(".")[2]
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        command.set_defaults(run=module.run)
        module.add_options(command)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *args: Any) -> None:
        import iserror

        print(f"iserror {iserror.__version__}")
        parser.exit()
