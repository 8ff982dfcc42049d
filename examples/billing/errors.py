"""What can go wrong in the billing domain.

Plain exceptions: nothing here knows of MCP or of iserror, so the same service can stand behind a web
page or a script. What a model is told about each of them is decided in `error_map.py`.
"""

# ruff: noqa: N818 - named in the words of the domain, without an Error at the end

from __future__ import annotations


class BillingError(Exception):
    """Base of everything this service raises on purpose."""


class InvoiceNotFound(BillingError):
    """No invoice has this id."""

    def __init__(self, invoice_id: str, known_ids: list[str]) -> None:
        super().__init__(f"no invoice {invoice_id!r}")
        self.invoice_id = invoice_id
        self.known_ids = known_ids


class InvoiceAlreadyPaid(BillingError):
    """Nothing is due any more."""

    def __init__(self, invoice_id: str) -> None:
        super().__init__(f"invoice {invoice_id} is already paid")
        self.invoice_id = invoice_id


class AmountTooHigh(BillingError):
    """The payment would be more than what is due."""

    def __init__(self, invoice_id: str, amount_due: int) -> None:
        super().__init__(f"at most {amount_due} is due on {invoice_id}")
        self.invoice_id = invoice_id
        self.amount_due = amount_due


class PaymentDeclined(BillingError):
    """The payment API said no, and charged nothing."""

    def __init__(self, invoice_id: str, method: str, reason_code: str) -> None:
        super().__init__(f"payment of {invoice_id} by {method} declined: {reason_code}")
        self.invoice_id = invoice_id
        self.method = method
        self.reason_code = reason_code


class PaymentServiceUnavailable(BillingError):
    """The payment API did not take the request: it said so (503), or no connection came about."""

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__("the payment API is unavailable")
        self.retry_after = retry_after
        """Seconds to wait, when the API named them."""


class PaymentOutcomeUnknown(BillingError):
    """The request went out and no answer came back: the money may or may not have moved."""

    def __init__(self, invoice_id: str) -> None:
        super().__init__(f"no answer to the payment of {invoice_id}")
        self.invoice_id = invoice_id
