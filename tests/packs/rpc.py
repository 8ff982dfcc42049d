"""A gRPC server on loopback whose methods are named after what they do: a status, or something worse."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as said_besides
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from tests.packs.failing import CANARY


class Answers(grpc.GenericRpcHandler):
    """Treat every method as the name of a status; and keep each request that was received."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def service(self, call: Any) -> Any:
        name = call.method.rpartition("/")[2]
        if name == "stream":
            return grpc.unary_stream_rpc_method_handler(self.stream)
        if name == "missing":
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.answer(name, request, context))

    def answer(self, name: str, request: bytes, context: Any) -> bytes:
        self.received.append(request)
        if name == "large":
            return b"x" * 1_000
        if name == "crash":
            raise RuntimeError(CANARY)
        if name in RICH:
            context.abort_with_status(rpc_status.to_status(RICH[name]))
        context.abort(grpc.StatusCode[name], CANARY)
        raise AssertionError

    def stream(self, request: bytes, context: Any) -> Iterator[bytes]:
        yield b"one"
        context.abort(grpc.StatusCode.NOT_FOUND, CANARY)


def rich(code: grpc.StatusCode, *details: Any) -> Status:
    status = Status(code=code.value[0], message=CANARY)
    for detail in details:
        packed = Packed()
        packed.Pack(detail)
        status.details.append(packed)
    return status


WAIT = said_besides.RetryInfo(retry_delay=Duration(seconds=3, nanos=500_000_000))
FIELDS = said_besides.BadRequest(
    field_violations=[
        said_besides.BadRequest.FieldViolation(field=name, description=CANARY)
        for name in (
            "amount",
            "customer.emails[0].kind",
            f"a key that someone chose: {CANARY}",
            "https://x.example/y",
            f"labels[{CANARY}]",
        )
    ]
)
RICH = {
    "aborted": rich(grpc.StatusCode.ABORTED, said_besides.ErrorInfo(reason=CANARY), WAIT),
    "exhausted": rich(grpc.StatusCode.RESOURCE_EXHAUSTED, WAIT),
    "unavailable": rich(grpc.StatusCode.UNAVAILABLE, WAIT),
    "negative": rich(grpc.StatusCode.UNAVAILABLE, said_besides.RetryInfo(retry_delay=Duration(seconds=-3))),
    "invalid": rich(grpc.StatusCode.INVALID_ARGUMENT, said_besides.LocalizedMessage(message=CANARY), FIELDS),
}


@contextmanager
def serving_rpc() -> Iterator[tuple[str, Answers]]:
    """Run it until the block ends; its address, and what it received."""
    answers = Answers()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(answers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", answers
    server.stop(None).wait()
