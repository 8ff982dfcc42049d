"""Reading the log back: all records of a call, or all of a time, across files, processes and rotated files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from iserror.logs.read.search import search
from iserror.logs.read.stream import Stream
from iserror.logs.record import ID, LOG_VARIABLE, SHORTEST_PREFIX, Record, expanded

DEFAULT_PATH: Final = "logs"

Where = str | os.PathLike[str]


def find(id: str, path: Where | Iterable[Where] | None = None) -> list[Record]:
    """Return every record of one request id or trace id, in time order.

    Records of other calls that name the id as their upstream's (`upstream_request_id`) come after those: an
    upstream may send any id. In a log of more than 32 MiB, only the part around the call is searched for them.

    Args:
        id: The id as a client shows it, case and dashes don't matter; or its first digits, at least four, for the
            records of every id that begins with them.
        path: Files and folders, compressed files too (default: what `ISERROR_LOG` names, else `./logs`).

    Raises:
        FileNotFoundError: If a path doesn't exist.
        ValueError: If `id` isn't an id.
    """
    return search(as_id(id), paths_of(path)).records


def records(
    path: Where | Iterable[Where] | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tool: str | None = None,
    code: str | None = None,
) -> Iterator[Record]:
    """Yield the records of a log one by one, in time order as far as its files are.

    Args:
        path: Files and folders, compressed files too (default: what `ISERROR_LOG` names, else `./logs`).
        since: Earliest time; UTC if it has no zone.
        until: Latest time.
        tool: Only the records of this tool.
        code: Only the records with this code.

    Raises:
        FileNotFoundError: If a path doesn't exist.
    """
    return Stream(paths_of(path), since, until).records(tool, code)


def paths_of(path: Where | Iterable[Where] | None) -> list[Path]:
    """Return the paths to read: the given ones, else the one in `ISERROR_LOG`, else `./logs`."""
    if path is None:
        named = os.environ.get(LOG_VARIABLE, "")
        path = named if named and named != "stderr" else DEFAULT_PATH
    given: list[Where] = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return [expanded(each) for each in given] or paths_of(None)


def as_id(text: str) -> str:
    """Return an id, or the beginning of one, in the log's form.

    Raises:
        ValueError: If the text isn't one.
    """
    wanted = text.strip().replace("-", "").lower()
    if not ID.fullmatch(wanted):
        raise ValueError(
            f"invalid id {text!r}: use {SHORTEST_PREFIX} to 32 hexadecimal digits of a request id or trace id"
        )
    return wanted
