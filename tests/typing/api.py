"""Typed uses of the public API: checked by mypy and pyright in strict mode, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

import iserror
from iserror import (
    Batch,
    ErrorMap,
    Failure,
    From,
    ItemFailure,
    OwnWords,
    PartialResult,
    Redactor,
    Rule,
    Safe,
    ToolErrors,
    ToolFailure,
    configure_logging,
    configure_redaction,
    current_call,
    quoted,
    redact_text,
)
from iserror.client import (
    CallOutcome,
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolCaller,
    ToolFailed,
    UrlElicitationRequired,
    classify,
)
from iserror.idempotency import Entry, Idempotency, IdempotencyStore, MemoryStore, RedisStore
from iserror.redact import redact
from iserror.testing import Connection, assert_no_leak, assert_protocol_error, assert_tool_error, connect


class NotFound(Exception):
    invoice_id = "INV-1"


class Busy(Exception):
    retry_after = 2.0


def wait(exc: Busy) -> float:
    return exc.retry_after


def hook(exception: BaseException, failure: Failure) -> None:
    assert_type(failure.code, str)
    assert_type(failure.retry_after, float | None)
    assert_type(failure.text, str)
    assert_type(failure.advice, str | None)


errors = ErrorMap()
errors.add(
    NotFound, code="NOT_FOUND", category="not_found", message="No invoice {exc.invoice_id}.", details=["invoice_id"]
)
errors.include(iserror.packs.httpx, *iserror.packs.detect())
errors.add(ValueError, code="INVALID", category="invalid_argument", message=OwnWords(), raised_in=[__name__, "app"])
errors.add(status=range(500, 600), code="DOWN", category="unavailable", message="It is down: {body.detail}.")
errors.add(instead_of="QUERY_INVALID", code="SQL_INVALID", category="invalid_argument", message=OwnWords())
errors.add(
    "app.ApiError",
    code=From("error_type", "API_ERROR"),
    codes={"quota": "QUOTA_EXCEEDED"},
    category=From(lambda exc: exc.category, "internal"),
    message="It failed.",
    hint=From("hint", ""),
    keep_text=True,
)
errors.add("httpx.ReadTimeout", code="LOST", category="deadline_exceeded", message="Lost.", outcome="unknown")
errors.add(Busy, code="BUSY", category="unavailable", message="Busy.", retryable=True, retry_after=wait, level="error")
errors.add(
    OSError, code="IO_FAILED", category="unavailable", message="I/O.", retryable=True, retry_after=timedelta(seconds=2)
)

guard = ToolErrors(errors, unknown_tool="result", invalid_arguments="auto", returned_errors="log", on_error=hook)
guard_2 = ToolErrors(is_returned_error=lambda value: ToolFailure("GONE", "It is gone."))


@guard
def plain(invoice_id: str, *, verbose: bool = False) -> int:
    return len(invoice_id)


@guard(effect="read", errors=errors, timeout=2.5)
async def slow(invoice_id: str) -> list[str]:
    return [invoice_id]


@guard()
async def rows(count: int) -> AsyncIterator[int]:
    yield count


@guard
async def pay_all(ids: list[str]) -> PartialResult[int]:
    batch: Batch[int] = Batch()
    for invoice_id in ids:
        with batch.item(invoice_id) as item:
            item.value = len(invoice_id)
    return batch.result(next_cursor="c", resume_token=None)


assert_type(PartialResult[int](succeeded=[1]).failed, list[ItemFailure])
assert_type(plain("x", verbose=True), int)
checked_plain: Callable[[str], int] = plain
checked_slow: Callable[[str], Awaitable[list[str]]] = slow


async def use() -> None:
    assert_type(await slow("x"), list[str])
    async for row in rows(1):
        assert_type(row, int)
    try:
        plain("x")
    except ToolFailure as failed:
        assert_type(failed.failure, Failure | None)
        assert_type(failed.code, str)
    call = current_call()
    if call is not None:
        assert_type(call.request_id, str)
        assert_type(call.trace_id, str | None)
        assert_type(call.tool, str)
    raise ToolFailure(
        "CARD_DECLINED",
        "The card was declined.",
        hint="Ask for another card.",
        category="failed_precondition",
        retryable=False,
        retry_after=timedelta(seconds=1),
        outcome="not_applied",
        details={"attempts": 1},
    )


configure_logging("logs", stderr=False, level="INFO")
assert_type(redact_text("x", profile="log"), str)
assert_type(Failure.from_wire({}), Failure | None)

own = Redactor().add(Rule("acme", "acme", r"acme_[0-9]{6}", gates=("acme_",))).remove("sms_code")
assert_type(own, Redactor)
assert_type(own.redact_text("x", pii=True), str)
configure_redaction(own, pii=True)
assert_type(quoted({"any": "thing"}, 80), str)
assert_type(redact(["x"]), object)
ToolFailure("SEARCH_FAILED", "search failed: {why}", hint="See {why}.", values={"why": ValueError("x")})
ToolFailure("NO_ELEMENT", "No element matches.", content=[{"type": "image", "data": "aGk=", "mimeType": "image/png"}])
ToolFailure("NO_FILE", Safe("Nothing at /srv/x."), details={"path": Safe("/srv/x")})


def said(outcome: CallOutcome) -> str:
    match outcome:
        case Succeeded(partial=missing):
            assert_type(missing, PartialResult[Any] | None)
            return outcome.text
        case ToolFailed(failure):
            assert_type(failure, Failure | None)
            assert_type(outcome.retryable, bool | None)
            return outcome.report
        case ProtocolFailed(code, message):
            assert_type(code, int)
            assert_type(outcome.closest, tuple[str, ...])
            return message
        case OutcomeUnknown(repeatable=repeatable):
            assert_type(repeatable, bool)
            return outcome.report
        case NotSent(last=last):
            assert_type(last, CallOutcome | None)
            return outcome.report
        case InputRequired() | UrlElicitationRequired() | ContractBroken():
            return outcome.report


async def call(session: object) -> None:
    caller = ToolCaller(session, idempotency_keys={"pay": "key"}, max_attempts=2)
    assert_type(await caller.call("pay", {"amount": 1}), CallOutcome)
    assert_type(classify(b"{}", jsonrpc_id=1, catalogue=["pay"]), CallOutcome)
    assert_type(caller.run_id, str)


store: IdempotencyStore = MemoryStore(max_entries=10)
store = RedisStore("redis://127.0.0.1:6379/0", prefix="mine:", max_age=3_600)
keys = ToolErrors(idempotency=Idempotency(store, wait=5, lease=2, subject=lambda: "me", allow_unauthenticated=True))
assert_type(Entry("done", b"").record, bytes)


@keys(effect="write", idempotency_key="key")
async def send(text: str, key: str | None = None) -> int:
    return len(text)


def receive() -> Coroutine[Any, Any, int]:
    return send("x", key="k")


async def checked(server: object) -> None:
    async with connect(server) as connection:
        assert_type(connection, Connection)
        outcome = await connection.call("pay", {"amount": 1}, meta={"traceparent": ""})
        assert_type(outcome, CallOutcome)
    failure = assert_tool_error(outcome, code="X_Y", retryable=True, category="internal", outcome="unknown")
    assert_type(failure, Failure)
    assert_type(assert_protocol_error(outcome, code=-32602), ProtocolFailed)
    assert_no_leak(outcome, failure, planted="word")
    assert_no_leak(outcome, planted=["word"])


def test_pay(call_tool: Callable[..., CallOutcome], captured_failures: list[dict[str, Any]]) -> None:
    assert_tool_error(call_tool(object(), "pay"))
