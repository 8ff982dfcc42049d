"""`grpc`, and `grpc.aio`."""

from __future__ import annotations

from typing import Final

from iserror.errors.pack import By, Pack
from iserror.packs import codes
from iserror.packs.rpcstatus import STATUSES, status, waiting

# A subclass without a status is an interceptor's or a mock's.
_CALL: Final = By("status", status, {name: waiting(entry) for name, entry in STATUSES.items()}, codes.UPSTREAM_ERROR)

grpc: Final = Pack(
    name="grpc",
    sources=(
        "https://grpc.github.io/grpc/core/md_doc_statuscodes.html",
        "https://grpc.github.io/grpc/python/grpc.html#grpc.RpcError",
        "https://google.aip.dev/193",
        "https://google.aip.dev/194",
    ),
    rows={
        "grpc.RpcError": _CALL,
        "grpc._channel._InactiveRpcError": _CALL,
        "grpc._channel._MultiThreadedRendezvous": _CALL,
        "grpc._channel._SingleThreadedRendezvous": _CALL,
        "grpc.aio._call.AioRpcError": _CALL,
        # `result(timeout)` of a call that goes on, and of a channel that does not become ready.
        "grpc.FutureTimeoutError": codes.UPSTREAM_TIMEOUT,
    },
)
