"""The billing service itself: SQLite for the invoices, HTTP for the payments. No MCP in here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
from errors import (
    AmountTooHigh,
    InvoiceAlreadyPaid,
    InvoiceNotFound,
    PaymentDeclined,
    PaymentOutcomeUnknown,
    PaymentServiceUnavailable,
)
from pydantic import BaseModel, Field

from iserror import current_call

PaymentMethod = Literal["card", "transfer"]

# What the payment API does with each is written down in upstream.py.
SEED = [
    ("INV-1001", "Blue Heron Bakery", 12_000, 0),
    ("INV-1002", "Blue Heron Bakery", 4_550, 4_550),
    ("INV-1003", "Old Mill Cycles", 23_900, 0),
    ("INV-1004", "Old Mill Cycles", 1_999, 0),
    ("INV-1005", "Kestrel Roofing", 88_000, 0),
]


class InvoiceSummary(BaseModel):
    """One line of a search result."""

    id: str
    customer: str
    amount: int = Field(description="Total, in cents.")
    paid: int = Field(description="Paid so far, in cents.")


class InvoiceList(BaseModel):
    """A search result. An object and not a bare list: a model sees `"total": 0`, not an empty answer."""

    total: int
    invoices: list[InvoiceSummary]


class Invoice(InvoiceSummary):
    """An invoice with what the payment API has on record for it."""

    charged: int = Field(description="Charged according to the payment API, in cents.")


class Receipt(BaseModel):
    """A payment that went through."""

    payment_id: str
    invoice_id: str
    amount: int = Field(description="Paid just now, in cents.")
    due: int = Field(description="Still due, in cents.")


class Billing:
    """Invoices in the SQLite file `db`, payments at the HTTP API `upstream`."""

    def __init__(self, db: Path, upstream: str, timeout: float = 1.0) -> None:
        self._db = db
        # trust_env=False: the API is on loopback, a proxy from the environment could not reach it.
        self._http = httpx.AsyncClient(base_url=upstream, timeout=timeout, trust_env=False)
        with self._connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS invoices (id TEXT PRIMARY KEY, customer TEXT NOT NULL,"
                " amount INTEGER NOT NULL, paid INTEGER NOT NULL)"
            )
            connection.executemany("INSERT OR IGNORE INTO invoices VALUES (?, ?, ?, ?)", SEED)

    async def get_invoice(self, invoice_id: str) -> Invoice:
        """The invoice, with what was charged for it."""
        invoice = self._load(invoice_id)
        response = await self._http.get(f"/payments/{invoice.id}", headers=_request_id())
        if response.status_code == 404:
            return Invoice(**invoice.model_dump(), charged=0)
        self._raise_for_status(response)
        return Invoice(**invoice.model_dump(), charged=response.json()["charged"])

    def find_invoices(self, customer: str) -> InvoiceList:
        """The invoices whose customer's name contains `customer`, whatever its case."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT * FROM invoices WHERE instr(lower(customer), lower(?)) ORDER BY id", (customer,)
            ).fetchall()
        return InvoiceList(total=len(rows), invoices=[_summary(row) for row in rows])

    async def pay_invoice(self, invoice_id: str, amount: int, method: PaymentMethod) -> Receipt:
        """Charge `amount` cents, and book them on the invoice."""
        invoice = self._load(invoice_id)
        due = invoice.amount - invoice.paid
        if due == 0:
            raise InvoiceAlreadyPaid(invoice.id)
        if amount > due:
            raise AmountTooHigh(invoice.id, due)

        charge = {"invoice_id": invoice.id, "amount": amount, "method": method}
        try:
            response = await self._http.post("/charges", json=charge, headers=_request_id())
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as exc:
            raise PaymentServiceUnavailable from exc  # never left this machine
        except httpx.TransportError as exc:
            raise PaymentOutcomeUnknown(invoice.id) from exc  # it did leave
        if response.status_code == 402:
            raise PaymentDeclined(invoice.id, method, response.json()["reason"])
        self._raise_for_status(response)

        with self._connection() as connection:
            connection.execute("UPDATE invoices SET paid = paid + ? WHERE id = ?", (amount, invoice.id))
        payment_id = response.json()["payment_id"]
        return Receipt(payment_id=payment_id, invoice_id=invoice.id, amount=amount, due=due - amount)

    def export_report(self, month: str) -> str:
        """Crash the way real code does: with an operator's secrets in the text of the exception."""
        # In pieces, so that secret scanners do not take this file for a leak.
        password = "correct" + "-horse"
        dsn = "postgresql://" + f"reports:{password}@" + "db7.internal/reports"
        token = "gh" + "p_" + "0aB1cD2eF3" * 3 + "456789"
        target = f"/srv/billing/exports/{month}.csv"
        try:
            Path(target).read_text(encoding="utf-8")
        except OSError as exc:
            raise RuntimeError(f"cannot copy {target} to {dsn} (token {token})") from exc
        return f"exported {target}"  # not reached: nobody has that folder

    def _raise_for_status(self, response: httpx.Response) -> None:
        if response.status_code == 503:
            seconds = response.headers.get("Retry-After", "")
            raise PaymentServiceUnavailable(float(seconds) if seconds.isdecimal() else None)
        response.raise_for_status()  # anything else that is not a success is a bug of ours, or theirs

    def _load(self, invoice_id: str) -> InvoiceSummary:
        with self._connection() as connection:
            row = connection.execute("SELECT * FROM invoices WHERE id = ?", (invoice_id,)).fetchone()
            if row is None:
                known = connection.execute("SELECT id FROM invoices ORDER BY id").fetchall()
                raise InvoiceNotFound(invoice_id, [known_id for (known_id,) in known])
        return _summary(row)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # One short connection a call: tools run on several threads, and SQLite connections do not.
        connection = sqlite3.connect(self._db)
        try:
            with connection:  # commits, or rolls back
                yield connection
        finally:
            connection.close()


def _summary(row: tuple[Any, ...]) -> InvoiceSummary:
    invoice_id, customer, amount, paid = row
    return InvoiceSummary(id=invoice_id, customer=customer, amount=amount, paid=paid)


def _request_id() -> dict[str, str]:
    # The id of the tool call travels along: one id then finds the call in the model's transcript, in our
    # log and in the payment API's. Outside of a guarded tool there is no call, and no id.
    call = current_call()
    return {"X-Request-Id": call.request_id} if call else {}
