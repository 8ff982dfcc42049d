"""`iserror catalog`: list a server's error codes and detect breaking changes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

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


def run(options: argparse.Namespace) -> int:
    """Print the codes, or the breaking changes, and return the exit code."""
    from iserror.cli.codes import changes, codes_of, load, to_html, to_json, to_markdown

    try:
        codes = codes_of(load(options.object))
    except TypeError as exc:
        raise ValueError(f"{options.object}: {exc}") from None
    if options.check is not None:
        found = changes(options.check.read_text(encoding="utf-8"), codes)
        write(f"{line}\n" for line in found)
        return NOTHING if found else FOUND
    if options.html:
        write([to_html(codes, f"Codes of {options.object}")])
    else:
        write([to_json(codes) if options.json else to_markdown(codes)])
    return FOUND
