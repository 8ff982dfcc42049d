"""`anyio`."""

from __future__ import annotations

from typing import Final

from iserror.packs import codes
from iserror.packs.pack import Pack

anyio: Final = Pack(
    name="anyio",
    sources=("https://anyio.readthedocs.io/en/stable/api.html#exceptions",),
    # Not here: what a mistake in the tool raises (BusyResourceError, NoEventLoopError, RunFinishedError, ...), what
    # steers it (WouldBlock), and what only carries another exception: TaskFailed, FutureFailed and
    # BrokenWorkerInterpreter, which is raised for whatever fails inside the interpreter.
    rows={
        # No TLS in it: of a handshake the ssl.SSLError passes.
        "anyio.ConnectionFailed": codes.DEPENDENCY_UNAVAILABLE,
        "anyio.BrokenResourceError": codes.CONNECTION_LOST,
        # This side closed it; with a session of an upstream that has ended, for it.
        "anyio.ClosedResourceError": codes.CONNECTION_LOST,
        "anyio.EndOfStream": codes.CONNECTION_LOST,
        "anyio.IncompleteRead": codes.CONNECTION_LOST,
        "anyio.DelimiterNotFound": codes.UPSTREAM_INVALID_RESPONSE,
        "anyio.BrokenWorkerProcess": codes.COMMAND_FAILED,
    },
)
