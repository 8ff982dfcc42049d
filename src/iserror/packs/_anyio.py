"""`anyio`."""

from __future__ import annotations

from typing import Final

from iserror.errors.pack import Pack
from iserror.packs import codes

# These aren't listed: exceptions for mistakes in the tool (BusyResourceError, NoEventLoopError, RunFinishedError, ...)
# and for control flow (WouldBlock). Others only carry another exception: TaskFailed, FutureFailed, and
# BrokenWorkerInterpreter for any failure inside the interpreter. `connect_tcp` raises an OSError, which the stdlib pack
# knows.
_ROWS: Final = {
    # No TLS in it: of a handshake the ssl.SSLError passes.
    "ConnectionFailed": codes.DEPENDENCY_UNAVAILABLE,
    "BrokenResourceError": codes.CONNECTION_LOST,
    # This side closed it; with a session of an upstream that has ended, for it.
    "ClosedResourceError": codes.CONNECTION_LOST,
    "EndOfStream": codes.CONNECTION_LOST,
    "IncompleteRead": codes.CONNECTION_LOST,
    "DelimiterNotFound": codes.UPSTREAM_INVALID_RESPONSE,
    "BrokenWorkerProcess": codes.COMMAND_FAILED,
}
anyio: Final = Pack(
    name="anyio",
    sources=("https://anyio.readthedocs.io/en/stable/api.html#exceptions",),
    # A class is of `anyio` only from the moment that someone looks it up there (4.16).
    rows={
        f"{module}.{name}": entry for module in ("anyio", "anyio._core._exceptions") for name, entry in _ROWS.items()
    },
)
