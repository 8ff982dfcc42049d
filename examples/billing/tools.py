"""The four tools, the same on every host, and the command line that the four servers share."""

import argparse
from pathlib import Path
from typing import Annotated, Any

from error_map import billing_errors
from pydantic import Field
from service import Billing, Invoice, InvoiceList, PaymentMethod, Receipt

from iserror import ToolErrors, configure_logging

InvoiceId = Annotated[str, Field(description="An invoice number, such as INV-1001.")]


class NoGuard:
    """What `--bare` puts in the guard's place, to see what the host does on its own."""

    def attach(self, server: Any) -> None:
        """Leave the server alone."""

    def __call__(self, **settings: Any) -> Any:
        """Leave the function alone."""
        return lambda function: function


def register(server: Any, billing: Billing, guard: Any) -> None:
    """Put the tools on `server`: any of the four hosts, they all have `server.tool()`."""
    guard.attach(server)

    @server.tool()
    @guard(effect="read")
    async def get_invoice(invoice_id: InvoiceId) -> Invoice:
        """Look one invoice up, with what was charged for it so far."""
        return await billing.get_invoice(invoice_id)

    # A plain function: hosts run these in a thread (or, mcp 1.x, on the event loop).
    @server.tool()
    @guard(effect="read")
    def find_invoices(
        customer: Annotated[str, Field(description="Part of the customer's name.")],
    ) -> InvoiceList:
        """Find the invoices of a customer. Nothing found is a valid answer."""
        return billing.find_invoices(customer)

    @server.tool()
    @guard(effect="write", idempotency_key="idempotency_key")
    async def pay_invoice(
        invoice_id: InvoiceId,
        amount: Annotated[int, Field(gt=0, description="In cents.")],
        method: PaymentMethod = "card",
        idempotency_key: Annotated[str | None, Field(description="The same for each attempt at one payment.")] = None,
    ) -> Receipt:
        """Pay an invoice, wholly or in part."""
        return await billing.pay_invoice(invoice_id, amount, method)

    @server.tool()
    @guard(effect="write")
    def export_report(month: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$", description="YYYY-MM.")]) -> str:
        """Export the report of one month."""
        return billing.export_report(month)


def setup(server: Any) -> argparse.Namespace:
    """Read the command line and register the tools as it says; returns it for the transport's part."""
    parser = argparse.ArgumentParser(description="The billing example, over stdio by default.")
    parser.add_argument("--http", action="store_true", help="streamable HTTP on 127.0.0.1, path /mcp")
    parser.add_argument("--port", type=int, default=8000, help="for --http (default: 8000)")
    parser.add_argument("--bare", action="store_true", help="without the guard")
    parser.add_argument("--log", type=Path, help="file or folder of the failure log (default: stderr)")
    parser.add_argument("--db", type=Path, default=Path("billing.sqlite3"), help="made when missing")
    parser.add_argument("--upstream", default="http://127.0.0.1:8100", help="URL of upstream.py")
    options = parser.parse_args()

    if options.log is not None:
        configure_logging(path=options.log)
    guard = NoGuard() if options.bare else ToolErrors(billing_errors)
    register(server, Billing(options.db, options.upstream), guard)
    return options
