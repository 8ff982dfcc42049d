"""`anyio`."""

from __future__ import annotations

from typing import Final

from iserror.errors.pack import Pack
from iserror.packs import codes

# Not here: what a mistake in the tool raises (BusyResourceError, NoEventLoopError, RunFinishedError, ...), what steers
# it (WouldBlock), and what only carries another exception: TaskFailed, FutureFailed and BrokenWorkerInterpreter, which
# is raised for whatever fails inside the interpreter. `connect_tcp` raises an OSError, which is the stdlib pack's.
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
