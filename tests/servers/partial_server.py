"""Tools over many items, on each host: decorated only, on an attached server only, or both. Also a script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel

from iserror import Batch, PartialResult, ToolErrors
from tests import scenarios
from tests.helpers.hosts import new_server


class Receipt(BaseModel):
    invoice: str
    cents: int


def pay(invoice_id: str) -> Receipt:
    """Pay one invoice; what its id begins with decides what happens."""
    kind = invoice_id.partition("-")[0]
    if kind == "INV":
        return Receipt(invoice=invoice_id, cents=100)
    if kind == "busy":
        raise scenarios.Busy
    if kind == "lost":
        raise scenarios.PaymentLost
    if kind == "crash":
        raise RuntimeError(scenarios.DSN)
    raise scenarios.InvoiceNotFound(invoice_id)


async def pay_all(ids: list[str]) -> PartialResult[Receipt]:
    batch: Batch[Receipt] = Batch()
    for invoice_id in ids:
        with batch.item(invoice_id) as item:
            item.value = pay(invoice_id)
    return batch.result()


def pay_all_sync(ids: list[str]) -> PartialResult[Receipt]:
    batch: Batch[Receipt] = Batch()
    for invoice_id in ids:
        with batch.item(invoice_id) as item:
            item.value = pay(invoice_id)
    return batch.result()


async def untyped(ids: list[str]):  # type: ignore[no-untyped-def]  # no return type: no output schema
    return await pay_all(ids)


def page(cursor: str = "") -> PartialResult[int]:
    return PartialResult(succeeded=[1, 2], next_cursor=None if cursor else "p2")


TOOLS = (pay_all, pay_all_sync, untyped, page)


def build(mode: scenarios.Mode, *more: Any, **settings: Any) -> Any:
    """A server with every tool."""
    guard = ToolErrors(scenarios.error_map(), **settings)
    server = new_server()
    if mode != "decorated":
        guard.attach(server)
    for fn in (*TOOLS, *more):
        server.tool()(fn if mode == "attached" else guard(fn))
    return server


if __name__ == "__main__":
    scenarios.serve(build("attached"))
