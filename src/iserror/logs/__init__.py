"""The log: one JSON line per failure, written before the result is returned, and read back by id.

`find` and `records` read it; `iserror.configure_logging` sets where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iserror.logs.record import SCHEMA_VERSION, Record

if TYPE_CHECKING:
    from iserror.logs.read.reader import find, records

__all__ = ["SCHEMA_VERSION", "Record", "find", "records"]


def __getattr__(name: str) -> object:
    # A server writes the log and doesn't read it.
    if name in ("find", "records"):
        from iserror.logs.read import reader

        return getattr(reader, name)
    raise AttributeError(f"module 'iserror.logs' has no attribute {name!r}")
