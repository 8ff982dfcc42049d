"""A gRPC server on loopback answers each status to both of grpc's clients, and the pack says what that means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.rpc import Answers, serving_rpc
from tests.packs.upstream import Upstream, free_port, serving

PACK = iserror.packs.grpc
Call = Callable[..., Any]


@pytest.fixture(scope="module")
def target() -> Iterator[tuple[str, Answers]]:
    with serving_rpc() as served:
        yield served


def sync_call(target: str, method: str, timeout: float = 5, **settings: Any) -> None:
    with grpc.insecure_channel(target, **settings) as channel:
        channel.unary_unary(f"/{CANARY}/{method}")(CANARY.encode(), timeout=timeout)


async def aio_call(target: str, method: str, timeout: float = 5, **settings: Any) -> None:
    async with grpc.aio.insecure_channel(target, **settings) as channel:
        await channel.unary_unary(f"/{CANARY}/{method}")(CANARY.encode(), timeout=timeout)


both = pytest.mark.parametrize("call", [sync_call, aio_call])


STATUSES = {
    "CANCELLED": ("UPSTREAM_ERROR", "unknown"),
    "UNKNOWN": ("UPSTREAM_ERROR", "unknown"),
    "crash": ("UPSTREAM_ERROR", "unknown"),
    "INVALID_ARGUMENT": ("UPSTREAM_REJECTED", "not_applied"),
    "DEADLINE_EXCEEDED": ("UPSTREAM_TIMEOUT", "unknown"),
    # What an earlier attempt may have done: a channel that repeats has no record of it.
    "NOT_FOUND": ("UPSTREAM_NOT_FOUND", "unknown"),
    "ALREADY_EXISTS": ("ALREADY_EXISTS", "unknown"),
    "PERMISSION_DENIED": ("UPSTREAM_PERMISSION_DENIED", "not_applied"),
    "UNAUTHENTICATED": ("UPSTREAM_UNAUTHENTICATED", "not_applied"),
    "RESOURCE_EXHAUSTED": ("UPSTREAM_RATE_LIMITED", "unknown"),
    "FAILED_PRECONDITION": ("UPSTREAM_PRECONDITION_FAILED", "unknown"),
    "ABORTED": ("UPSTREAM_CONFLICT", "unknown"),
    "OUT_OF_RANGE": ("UPSTREAM_REJECTED", "not_applied"),
    "UNIMPLEMENTED": ("UPSTREAM_UNIMPLEMENTED", "not_applied"),
    "missing": ("UPSTREAM_UNIMPLEMENTED", "not_applied"),
    "INTERNAL": ("UPSTREAM_ERROR", "unknown"),
    "UNAVAILABLE": ("UPSTREAM_UNAVAILABLE", "unknown"),
    "DATA_LOSS": ("UPSTREAM_ERROR", "unknown"),
}


@both
def test_statuses(lines: Lines, target: tuple[str, Answers], call: Call) -> None:
    """Each status has its meaning, whichever client gets it; of one that a client makes up as well, it is unknown."""
    said = failures(PACK, lines, [partial(call, target[0], status) for status in STATUSES])
    assert [(one.code, one.outcome) for one in said] == list(STATUSES.values())
    assert not any(one.retryable for one in said)


def test_reading_is_repeated(lines: Lines, target: tuple[str, Answers]) -> None:
    """A tool that only reads may be called again where the same request can succeed later, and there alone."""
    said = failures(PACK, lines, [partial(sync_call, target[0], status) for status in STATUSES], effect="read")
    assert {status for status, one in zip(STATUSES, said, strict=True) if one.retryable} == {
        "CANCELLED",
        "UNKNOWN",
        "crash",
        "DEADLINE_EXCEEDED",
        "RESOURCE_EXHAUSTED",
        "INTERNAL",
        "UNAVAILABLE",
    }


@both
@pytest.mark.parametrize(
    ("method", "code", "outcome", "wait"),
    [
        ("exhausted", "UPSTREAM_RATE_LIMITED", "not_applied", 3.5),
        ("aborted", "TRANSACTION_CONFLICT", "not_applied", 3.5),
        ("unavailable", "UPSTREAM_UNAVAILABLE", "unknown", None),
    ],
)
def test_a_wait(
    lines: Lines, target: tuple[str, Answers], call: Call, method: str, code: str, outcome: str, wait: float | None
) -> None:
    """`RetryInfo` says that the server refused, and when to come again."""
    said = failure(PACK, lines, lambda: call(target[0], method))
    assert (said.code, said.outcome, said.retryable, said.retry_after) == (code, outcome, wait is not None, wait)


@pytest.mark.parametrize(("method", "wait"), [("unavailable", 3.5), ("negative", None), ("UNAVAILABLE", None)])
def test_a_wait_before_reading(lines: Lines, target: tuple[str, Answers], method: str, wait: float | None) -> None:
    """A tool that only reads is told the server's wait; a wait that makes no sense is none."""
    said = failure(PACK, lines, lambda: sync_call(target[0], method), effect="read")
    assert (said.retryable, said.retry_after) == (True, wait)


@both
def test_fields(lines: Lines, target: tuple[str, Answers], call: Call) -> None:
    """`BadRequest` names the fields that are wrong; only what looks like a name of a schema is shown."""
    said = failure(PACK, lines, lambda: call(target[0], "invalid"))
    assert (said.code, said.details) == ("UPSTREAM_REJECTED", {"fields": "amount, customer.emails[0].kind"})


@both
def test_not_reached(lines: Lines, call: Call) -> None:
    """A refused connection looks as an answer of UNAVAILABLE does, so that its outcome is unknown."""
    said = failure(PACK, lines, lambda: call(f"127.0.0.1:{free_port()}", "UNAVAILABLE"))
    assert (said.code, said.outcome, said.retryable) == ("UPSTREAM_UNAVAILABLE", "unknown", False)


@both
def test_no_answer(lines: Lines, call: Call) -> None:
    """A server that takes the connection and says nothing is a timeout."""
    with serving(Upstream(reads=False, ends="stall")) as upstream:
        said = failure(PACK, lines, lambda: call(f"127.0.0.1:{upstream.port}", "UNAVAILABLE", timeout=0.2))
    assert (said.code, said.outcome) == ("UPSTREAM_TIMEOUT", "unknown")


@both
def test_what_was_done_is_not_denied(lines: Lines, target: tuple[str, Answers], call: Call) -> None:
    """An answer that the client finds too large comes after the server's work: its outcome is unknown."""
    target[1].received.clear()
    options = [("grpc.max_receive_message_length", 10)]
    said = failure(PACK, lines, lambda: call(target[0], "large", options=options))
    assert target[1].received == [CANARY.encode()]
    assert said.outcome == "unknown"


def test_a_stream(lines: Lines, target: tuple[str, Answers]) -> None:
    """A stream that ends with a status, in either way of reading it, is the same failure."""

    def read(**options: Any) -> None:
        with grpc.insecure_channel(target[0], **options) as channel:
            list(channel.unary_stream("/x/stream")(b""))

    single = [(grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1)]
    assert failure(PACK, lines, read).code == "UPSTREAM_NOT_FOUND"
    assert failure(PACK, lines, lambda: read(options=single)).code == "UPSTREAM_NOT_FOUND"


def test_a_future(lines: Lines) -> None:
    """A channel that does not become ready in time is a timeout."""

    def wait() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{free_port()}") as channel:
            grpc.channel_ready_future(channel).result(timeout=0.1)

    assert failure(PACK, lines, wait).code == "UPSTREAM_TIMEOUT"


def test_no_status(lines: Lines) -> None:
    """An `RpcError` of somebody else's, without a status, is a failure of the upstream."""

    def mocked() -> None:
        raise grpc.RpcError(CANARY)

    assert failure(PACK, lines, mocked).code == "UPSTREAM_ERROR"


def test_names() -> None:
    """Every row is a class of the installed library."""
    from grpc import _channel
    from grpc.aio import AioRpcError

    classes = [_channel._InactiveRpcError, _channel._MultiThreadedRendezvous, _channel._SingleThreadedRendezvous]
    classes += [grpc.RpcError, AioRpcError, grpc.FutureTimeoutError]
    assert {f"{cls.__module__}.{cls.__qualname__}" for cls in classes} == set(PACK.rows)
