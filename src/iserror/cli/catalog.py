"""`iserror catalog`: list a server's error codes and detect breaking changes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from iserror.cli.terminal import FOUND, NOTHING, write

HELP: Final = "list a server's error codes and detect breaking changes"
DESCRIPTION: Final = "List the error codes of a guard, an error map, a pack, or a server with a guard attached."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("object", metavar="MODULE:OBJECT", help="billing.server:guard, or server.py:guard")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, which --check reads")
    form.add_argument("--html", action="store_true", help="print an HTML page")
    form.add_argument(
        "--check",
        metavar="FILE",
        type=Path,
        help="compare with this JSON, and exit with 1 if a code is missing or its meaning changed",
    )
    packs = parser.add_mutually_exclusive_group()
    packs.add_argument("--own", action="store_true", help="leave out what packs give")
    packs.add_argument("--packs", action="store_true", help="list each entry of a pack, too, instead of one row a code")
    parser.add_argument("--strict", action="store_true", help="with --check: exit with 1 for a new code, too")
    parser.add_argument("--update", action="store_true", help="with --check: write new codes to the file")


def run(options: argparse.Namespace) -> int:
    """Print the codes, or the breaking changes, and return the exit code."""
    from iserror.cli.codes import codes_of, load, own_alone, to_html, to_json, to_markdown

    if options.check is None and (options.strict or options.update):
        raise ValueError("--strict and --update go with --check FILE")
    try:
        codes = codes_of(load(options.object))
    except TypeError as exc:
        raise ValueError(f"{options.object}: {exc}") from None
    if options.own:
        codes = own_alone(codes)
    if options.check is not None:
        return _check(options, codes)
    if options.html:
        write([to_html(codes, f"Codes of {options.object}", unfold=options.packs)])
    else:
        write([to_json(codes) if options.json else to_markdown(codes, unfold=options.packs)])
    return FOUND


def _check(options: argparse.Namespace, codes: dict[str, Any]) -> int:
    from iserror.cli.codes import changes, unrecorded, updated

    before = options.check.read_text(encoding="utf-8")
    found = changes(before, codes)
    write(f"{line}\n" for line in found)
    new = unrecorded(before, codes)
    if new and options.update and not found:
        options.check.write_text(updated(before, codes), encoding="utf-8")
        sys.stderr.write(f"{options.check}: {len(new)} new codes are recorded: {', '.join(new)}\n")
        return FOUND
    if new:
        sys.stderr.write(f"{options.check}: unrecorded codes: {', '.join(new)}; --update records them\n")
    return NOTHING if found or (new and options.strict) else FOUND
