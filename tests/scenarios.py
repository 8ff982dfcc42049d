"""One list of calls with the whole wire result that each must give, whatever the host.

`build(mode)` makes the server: its tools decorated only, on an attached server only, or both. Run as a script
it serves the tools over stdio, or streamable HTTP with `--http --port N`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pydantic import BaseModel, Field
from typing_extensions import Annotated  # noqa: UP035 - one import for all Pythons

from iserror import ErrorMap, ToolErrors, ToolFailure
from tests.helpers.hosts import (
    ToolError,
    error_result,
    host_error_result,
    new_server,
    protocol_error,
)

Mode = Literal["decorated", "attached", "both"]
MODES: tuple[Mode, ...] = ("decorated", "attached", "both")

SECRET = "hunter" + "2-" + "Zq8x" * 3
DSN = f"postgres://app:{SECRET}@10.0.0.9/prod"


class InvoiceNotFound(Exception):
    def __init__(self, invoice_id: str) -> None:
        super().__init__(f"SELECT * FROM invoices WHERE id = '{invoice_id}' -- {DSN}")
        self.invoice_id = invoice_id
        self.known = ["INV-1", "INV-2"]


class Busy(Exception):
    retry_after = 2


class PaymentLost(Exception):
    pass


class Order(BaseModel):
    id: int


def error_map() -> ErrorMap:
    errors = ErrorMap()
    errors.add(
        InvoiceNotFound,
        code="INVOICE_NOT_FOUND",
        category="not_found",
        message="No invoice with id {exc.invoice_id}.",
        hint="Use one of: {exc.known}.",
        details=["invoice_id"],
    )
    errors.add(
        Busy,
        code="BILLING_BUSY",
        category="unavailable",
        message="The billing service is busy.",
        retryable=True,
        retry_after=lambda exc: exc.retry_after,
        outcome="not_applied",
    )
    errors.add(
        PaymentLost,
        code="PAYMENT_UNKNOWN",
        category="deadline_exceeded",
        message="The payment service did not answer.",
        hint="Look the payment up with get_payment.",
        retryable=True,
    )
    return errors


@dataclass(frozen=True)
class Scenario:
    """One call and what must come of it.

    `attached` is the whole result or error; `text` the text of a decorated tool on a server without a guard,
    None where the host does not let the decorator have a say.
    """

    tool: str
    attached: dict[str, Any]
    text: str | None
    arguments: dict[str, Any] = field(default_factory=dict)


def failed(
    tool: str,
    code: str,
    message: str,
    category: str,
    outcome: str,
    advice: str | None,
    *,
    hint: str | None = None,
    schema: bool = False,
    retryable: bool = False,
    retry_after: float | None = None,
    details: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], str]:
    """The whole result of a failed call, and its text."""
    envelope = {
        "code": code,
        "message": message,
        "hint": hint,
        "advice": advice,
        "retryable": retryable,
        "retry_after": retry_after,
        "outcome": outcome,
        "category": category,
        "tool": tool,
        "request_id": "<id>",
        "details": details,
    }
    envelope = {key: value for key, value in envelope.items() if value is not None}
    ending = "; ".join(part for part in (f"{tool} failed", advice, "request_id: <id>") if part)
    lines = [f"{code}: {message}", hint, f"[{ending}]"]
    text = "\n".join(line for line in lines if line)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    result["_meta"] = {"iserror/failure": envelope}
    if not schema:
        result["structuredContent"] = envelope
    return {"result": result}, text


def _same(tool: str, *parts: Any, arguments: dict[str, Any] | None = None, **more: Any) -> Scenario:
    attached, text = failed(tool, *parts, **more)
    return Scenario(tool, attached, text, arguments or {})


UNSURE = "it may have taken effect, check before any further call"
ONLY_IF_HARMLESS = "repeat it only if it changes nothing"
CHANGE = "change the call first"
PARTLY = "part of it took effect, check before any further call"
STOP = "stop and tell the user"

NOT_FOUND = ("INVOICE_NOT_FOUND", "No invoice with id INV-42.", "not_found", "not_applied", CHANGE)
NOT_FOUND_MORE = {"hint": "Use one of: INV-1, INV-2.", "details": {"invoice_id": "INV-42"}}
CRASH = ("INTERNAL_ERROR", "The tool failed because of an error on the server.", "internal", "unknown", STOP)
LOST = ("PAYMENT_UNKNOWN", "The payment service did not answer.", "deadline_exceeded")


def _invalid(tool: str, message: str, arguments: dict[str, Any], **more: Any) -> Scenario:
    attached, _ = failed(tool, "INVALID_ARGUMENTS", message, "invalid_argument", "not_applied", CHANGE, **more)
    return Scenario(tool, attached, None, arguments)


SCENARIOS = [
    *(
        _same(f"not_found_{kind}", *NOT_FOUND, **NOT_FOUND_MORE, schema=kind.endswith("typed"))
        for kind in ("sync", "async", "sync_typed", "async_typed")
    ),
    *(
        _same(f"crash_{kind}", *CRASH, schema=kind.endswith("typed"))
        for kind in ("sync", "async", "sync_typed", "async_typed")
    ),
    _same("crash_reading", *CRASH[:3], "not_applied", STOP),
    _same("crash_writing", *CRASH[:4], UNSURE),
    _same("exit_sync", *CRASH),
    _same("exit_async", *CRASH),
    _same("stop_iteration", *CRASH),
    _same("stray_cancel", *CRASH),
    _same(
        "busy",
        "BILLING_BUSY",
        "The billing service is busy.",
        "unavailable",
        "not_applied",
        "may be repeated after 2 s",
        retryable=True,
        retry_after=2.0,
    ),
    _same("lost", *LOST, "unknown", ONLY_IF_HARMLESS, hint="Look the payment up with get_payment."),
    _same("lost_write", *LOST, "unknown", UNSURE, hint="Look the payment up with get_payment."),
    *(
        _same(tool, *LOST, outcome, "may be repeated", hint="Look the payment up with get_payment.", retryable=True)
        for tool, outcome in (("lost_read", "not_applied"), ("lost_idempotent", "unknown"))
    ),
    _same(
        "tool_failure",
        "CARD_DECLINED",
        "The card was declined.",
        "unknown",
        "unknown",
        ONLY_IF_HARMLESS,
        hint="Ask for another card.",
        details={"attempts": 1},
    ),
    _same(
        "tool_failure_sorted",
        "CARD_DECLINED",
        "The card was declined.",
        "failed_precondition",
        "not_applied",
        CHANGE,
    ),
    _same("tool_failure_partial", "HALF_DONE", "Half of it is done.", "internal", "partial", PARTLY),
    _same("tool_error", "TOOL_ERROR", "order 7 is closed", "unknown", "unknown", None),
    _same("tool_error_writing", "TOOL_ERROR", "order 7 is closed", "unknown", "unknown", None),
    _same("tool_error_reading", "TOOL_ERROR", "order 7 is closed", "unknown", "not_applied", None),
    _same("tool_error_caused", *NOT_FOUND, **NOT_FOUND_MORE),
    _same("caused", *NOT_FOUND, **NOT_FOUND_MORE),
    _same("wrapped", *NOT_FOUND[:3], "unknown", ONLY_IF_HARMLESS, **NOT_FOUND_MORE),
    _same("meanwhile", *CRASH),
    _same("group_one", *NOT_FOUND[:3], "unknown", ONLY_IF_HARMLESS, **NOT_FOUND_MORE),
    _same("group_mixed", *CRASH),
    _same(
        "limited",
        "TIMEOUT",
        "The tool did not finish within 0.05 s.",
        "deadline_exceeded",
        "unknown",
        ONLY_IF_HARMLESS,
    ),
    _same("own_validation", *CRASH),
    Scenario("succeed", {"result": {"content": [{"type": "text", "text": "done"}], "isError": False}}, "done"),
    Scenario(
        "protocol",
        {
            "error": {
                "code": -31001,
                "message": "tenant is not provisioned",
                "data": {"tenant": "t1", "iserror/request_id": "<id>"},
            }
        },
        None,
    ),
    Scenario(
        "reserved_code",
        {"error": {"code": -32603, "message": "my own code", "data": {"iserror/request_id": "<id>"}}},
        None,
    ),
    Scenario(
        "no_such_tool",
        {"error": {"code": -32602, "message": "Unknown tool: no_such_tool", "data": {"iserror/request_id": "<id>"}}},
        None,
    ),
    *(
        Scenario(
            tool,
            failed(
                tool, "RETURNED_ERROR", "order 7 is gone", "unknown", "unknown", None, schema=tool.endswith("typed")
            )[0],
            None,
        )
        for tool in ("returned_sdk", "returned_sdk_typed", "returned_host", "returned_host_typed")
    ),
    *(
        Scenario(
            tool,
            failed(
                tool,
                "INVALID_OUTPUT",
                "The tool ran, but its result does not fit its output schema.",
                "internal",
                "unknown",
                STOP,
                schema=True,
            )[0],
            None,
        )
        for tool in ("wrong_shape",)
    ),
    _invalid("pay", "amount: must be an integer", {"amount": SECRET}),
    _invalid("pay", "amount: is required", {}),
    _invalid("pay", "amount: must be greater than 0", {"amount": -5}),
]


def _tools(wrap: Callable[..., Any]) -> list[tuple[str, Any, dict[str, Any]]]:
    """Name, function and registration settings of every tool; `wrap` is the guard, or nothing."""
    tools: list[tuple[str, Any, dict[str, Any]]] = []

    def add(fn: Any, name: str | None = None, options: dict[str, Any] | None = None, **settings: Any) -> None:
        made = wrap(**options)(fn) if options else wrap()(fn)
        tools.append((name or fn.__name__, made, settings))

    def failing(
        exc: Callable[[], BaseException], name: str, options: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        def body():  # type: ignore[no-untyped-def]  # no return type: no output schema
            raise exc()

        body.__name__ = name
        add(body, name, options, **settings)

    def kinds(exc: Callable[[], BaseException], name: str) -> None:
        def sync_typed() -> Order:
            raise exc()

        async def async_plain():  # type: ignore[no-untyped-def]
            raise exc()

        async def async_typed() -> Order:
            raise exc()

        failing(exc, f"{name}_sync")
        for fn, kind in ((sync_typed, "sync_typed"), (async_plain, "async"), (async_typed, "async_typed")):
            fn.__name__ = f"{name}_{kind}"
            add(fn)

    kinds(lambda: InvoiceNotFound("INV-42"), "not_found")
    kinds(lambda: RuntimeError(DSN), "crash")
    failing(lambda: RuntimeError(DSN), "crash_reading", {"effect": "read"})
    failing(lambda: RuntimeError(DSN), "crash_writing", {"effect": "write"})
    failing(lambda: SystemExit(3), "exit_sync")
    failing(lambda: StopIteration("no more rows"), "stop_iteration")
    failing(Busy, "busy")
    failing(PaymentLost, "lost")
    failing(PaymentLost, "lost_write", {"effect": "write"})
    failing(PaymentLost, "lost_read", {"effect": "read"})
    failing(PaymentLost, "lost_idempotent", {"effect": "idempotent"})
    failing(
        lambda: ToolFailure(
            "CARD_DECLINED", "The card was declined.", hint="Ask for another card.", details={"attempts": 1}
        ),
        "tool_failure",
    )
    failing(
        lambda: ToolFailure("CARD_DECLINED", "The card was declined.", category="failed_precondition"),
        "tool_failure_sorted",
    )
    failing(
        lambda: ToolFailure("HALF_DONE", "Half of it is done.", category="internal", outcome="partial"),
        "tool_failure_partial",
    )
    failing(lambda: ToolError("order 7 is closed"), "tool_error")
    failing(lambda: ToolError("order 7 is closed"), "tool_error_writing", {"effect": "write"})
    failing(lambda: ToolError("order 7 is closed"), "tool_error_reading", {"effect": "read"})
    failing(lambda: protocol_error(-31001, "tenant is not provisioned", {"tenant": "t1"}), "protocol")
    failing(lambda: protocol_error(-32055, "my own code"), "reserved_code")

    @add
    async def exit_async():  # type: ignore[no-untyped-def]
        sys.exit(3)

    @add
    async def stray_cancel():  # type: ignore[no-untyped-def]
        other = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(other.cancel)
        await other

    @add
    def tool_error_caused():  # type: ignore[no-untyped-def]
        raise ToolError(f"lookup failed: {DSN}") from InvoiceNotFound("INV-42")

    @add
    def caused():  # type: ignore[no-untyped-def]
        raise ValueError(DSN) from InvoiceNotFound("INV-42")

    @add
    def wrapped():  # type: ignore[no-untyped-def]
        try:
            raise InvoiceNotFound("INV-42")
        except InvoiceNotFound as exc:
            raise ValueError(f"lookup failed: {exc}")

    @add
    def meanwhile():  # type: ignore[no-untyped-def]
        try:
            raise InvoiceNotFound("INV-42")
        except InvoiceNotFound:
            raise ValueError(DSN)

    async def fan_out(*errors: Exception) -> None:
        import anyio

        async def one(exc: Exception) -> None:
            raise exc

        async with anyio.create_task_group() as group:
            for exc in errors:
                group.start_soon(one, exc)

    @add
    async def group_one():  # type: ignore[no-untyped-def]
        await fan_out(InvoiceNotFound("INV-42"))

    @add
    async def group_mixed():  # type: ignore[no-untyped-def]
        await fan_out(InvoiceNotFound("INV-42"), RuntimeError(DSN))

    async def limited():  # type: ignore[no-untyped-def]
        await asyncio.sleep(30)

    add(limited, options={"timeout": 0.05})

    @add
    def own_validation():  # type: ignore[no-untyped-def]
        Order(id=SECRET)  # type: ignore[arg-type]

    @add
    def succeed():  # type: ignore[no-untyped-def]
        return "done"

    @add
    def returned_sdk():  # type: ignore[no-untyped-def]
        return error_result("order 7 is gone")

    @add
    def returned_sdk_typed() -> Order:
        return error_result("order 7 is gone", structured={"code": "GONE"})

    @add
    def returned_host():  # type: ignore[no-untyped-def]
        return host_error_result("order 7 is gone")

    @add
    def returned_host_typed() -> Order:
        return host_error_result("order 7 is gone")

    @add
    def wrong_shape() -> Order:
        return {"id": SECRET}  # type: ignore[return-value]

    @add
    def pay(amount: Annotated[int, Field(gt=0)]):  # type: ignore[no-untyped-def]
        return f"paid {amount}"

    return tools


def build(mode: Mode, **settings: Any) -> Any:
    """A server with every tool of the list."""
    guard = ToolErrors(error_map(), **settings)
    server = new_server()

    def bare(**options: Any) -> Callable[..., Any]:
        # What only the decorator can say is said by it in every mode.
        return guard(**options) if options else lambda fn: fn

    if mode == "both":
        guard.attach(server)
    for name, fn, more in _tools(bare if mode == "attached" else guard):
        server.tool(name=name, **more)(fn)
    if mode == "attached":
        guard.attach(server)
    return server


def serve(server: Any) -> None:
    """Serve over stdio, or over HTTP when the command line says so."""
    from tests.helpers.hosts import HOST, IS_FASTMCP

    if "--http" not in sys.argv:
        server.run(**({"show_banner": False} if IS_FASTMCP else {}))
        return
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if HOST == "mcp1":
        server.settings.port = port
        server.run("streamable-http")
    elif HOST == "mcp2":
        server.run("streamable-http", port=port)
    else:
        server.run("http", port=port, show_banner=False)


if __name__ == "__main__":
    serve(build(next(mode for mode in MODES if mode in sys.argv)))
