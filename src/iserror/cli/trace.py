"""`iserror trace`: print everything the log knows about one call."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

from iserror.cli.logfiles import add_log_options, engine_of
from iserror.cli.terminal import FOUND, NOTHING, SEVERAL, json_line, say, write
from iserror.logs.read.reader import as_id, paths_of
from iserror.logs.read.search import Found, search
from iserror.logs.record import Record, is_own, minted, printable
from iserror.logs.render import render, render_line

HELP: Final = "print everything the log knows about one call"
DESCRIPTION: Final = (
    "Print everything the log knows about one call, traceback included. Find the call by its request or trace id."
)

_NAMED: Final = "Other calls, which got this id from the server behind them (upstream_request_id):"
_ID_KEYS: Final = ("request_id", "trace_id", "upstream_request_id")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("id", metavar="ID", help="request id or trace id as the client shows it, or its first digits")
    add_log_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the records of one call and return the exit code."""
    wanted = as_id(options.id)
    engine = engine_of(options)
    if engine is not None:
        found = Found(engine.search(wanted, since=options.since, until=options.until))
        where = "the table"
    else:
        paths = paths_of(options.paths or None)
        found = search(wanted, paths, options.since, options.until)
        where = ", ".join(map(str, paths))
    if found.skipped:
        say(f"skipped lines with this id that are not records: {found.skipped}")
    ids = _matching_ids(found.records, wanted)
    if wanted in ids and len(ids) > 1:  # the others only begin with it
        ids = {wanted: ids[wanted]}
        found = found._replace(records=[record for record in found.records if wanted in map(record.get, _ID_KEYS)])
    if len(ids) > 1:
        say(f"{len(ids)} calls begin with {options.id!r}: give more digits")
        write(f"{full}  {line}\n" for full, line in ids.items())
        return SEVERAL
    if not found.records:
        say(
            f"no record of {printable(options.id)!r} in {where}: check the id, and that these are the logs of the "
            "server that answered"
        )
        return NOTHING
    if options.json:
        write(json_line(record) for record in found.records)
    else:
        own = [record for record in found.records if is_own(record, wanted)]
        named = [record for record in found.records if not is_own(record, wanted)]
        write([render(own)] if own else [])
        if named:
            write([f"{_NAMED}\n\n", render(named)])
        if engine is None and found.everything and minted(wanted) and not (options.since or options.until):
            say(f"no line says how many lines the call has, so the whole log was searched (files: {found.files})")
    return FOUND


def _matching_ids(records: Iterable[Record], wanted: str) -> dict[str, str]:
    """Return the ids that begin with `wanted`, each with its first record on a line."""
    ids: dict[str, str] = {}
    for record in records:
        for key in _ID_KEYS:
            value = record.get(key)
            if isinstance(value, str) and value.startswith(wanted):
                ids.setdefault(printable(value), render_line(record))
                break
    return ids
