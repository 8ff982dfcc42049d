"""The log: one JSON line a failure, written before the result is returned, and read back by id.

`find` and `records` read it; `iserror.configure_logging` says where it goes.
"""

from __future__ import annotations

from iserror.logs.reader import find, records
from iserror.logs.record import SCHEMA_VERSION, Record

__all__ = ["SCHEMA_VERSION", "Record", "find", "records"]
