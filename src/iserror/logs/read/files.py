"""The files of a log: what the paths name that a reader is given."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from iserror.logs.read.source import Source
from iserror.logs.segment import is_log, late_file


def sources(paths: list[Path]) -> list[Source]:
    """Return the files that the paths name, each once; for a folder, every `*.jsonl` and `*.jsonl.gz` below it.

    Raises:
        FileNotFoundError: If a path doesn't exist.
        OSError: If a folder can't be read.
    """
    found: dict[tuple[Any, ...], Source] = {}
    identities: dict[tuple[int, int], Source] = {}
    for path in paths:
        for file in _files(path):
            source = Source(file)
            try:
                status = source.stat()
            except FileNotFoundError:  # it has another name by now, perhaps
                pass
            except OSError as exc:
                if exc.errno == errno.ELOOP:
                    continue
                raise
            else:
                identity = status.st_dev, status.st_ino
                if not stat.S_ISREG(status.st_mode) or identities.setdefault(identity, source).key != source.key:
                    continue
            # While a file is compressed, both forms may be there; a later name is the more complete one.
            found[source.key] = source
    return list(found.values())


def listed(paths: list[Path]) -> list[Source]:
    """Return the same files, listed until two lists agree: a file that is renamed while it is listed may be missing.

    Raises:
        OSError: As for `sources`.
    """
    found = sources(paths)
    for _ in range(5):
        before, found = found, sources(paths)
        if {source.key for source in before} == {source.key for source in found}:
            break
    return found


def _files(path: Path) -> Iterable[Path]:
    if path.is_dir():
        walk = os.walk(path, onerror=_unreadable)
        return map(
            Path, sorted(os.path.join(folder, file) for folder, _, files in walk for file in files if is_log(file))
        )
    if path.is_file():
        return [file for file in (path, late_file(path)) if file == path or file.is_file()]
    raise FileNotFoundError(f"there is no file or folder {str(path)!r}")


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
