"""The terminal that the commands share: exit codes, stdout, stderr, and files that only their owner may read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from iserror.logs.record import Record, printable

FOUND: Final = 0
"""The command found what was asked for; `check` and `catalog --check` found nothing to report."""
NOTHING: Final = 1
"""Nothing was found; `check` and `catalog --check` have findings."""
CANNOT_LOOK: Final = 2
"""The command could not look: wrong arguments, unreadable files, no server."""
SEVERAL: Final = 3
"""The id fits several calls."""
INTERRUPTED: Final = 130
"""Ctrl+C, as shells report it."""


def say(text: str) -> None:
    """Print a message to stderr."""
    print(f"iserror: {printable(text)}", file=sys.stderr)


def write(texts: Iterable[str]) -> None:
    """Print texts to stdout, with escapes for characters that its encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    for text in texts:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def json_line(record: Record) -> str:
    """Return a record as one line of strict JSON."""
    text = json.dumps(record, ensure_ascii=True)
    if "NaN" in text or "Infinity" in text:  # another program wrote them, and JSON doesn't have them
        text = json.dumps(json.loads(text, parse_constant=str), ensure_ascii=True)
    return text + "\n"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, as the log is. It replaces a file or a link that is there."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
