"""What a model is told about each error: the whole map, in one place."""

from errors import (
    AmountTooHigh,
    InvoiceAlreadyPaid,
    InvoiceNotFound,
    PaymentDeclined,
    PaymentOutcomeUnknown,
    PaymentServiceUnavailable,
)

from iserror import ErrorMap

billing_errors = ErrorMap()

billing_errors.add(
    InvoiceNotFound,
    code="INVOICE_NOT_FOUND",
    category="not_found",
    message="No invoice with id {exc.invoice_id}.",
    hint="Use one of: {exc.known_ids}. Or search by customer with find_invoices.",
)
billing_errors.add(
    InvoiceAlreadyPaid,
    code="INVOICE_ALREADY_PAID",
    category="failed_precondition",
    message="Invoice {exc.invoice_id} is already paid in full.",
    hint="Do not pay it again; tell the user.",
)
billing_errors.add(
    AmountTooHigh,
    code="AMOUNT_TOO_HIGH",
    category="out_of_range",
    message="The amount is more than what is due on invoice {exc.invoice_id}.",
    hint="Pay at most {exc.amount_due} cents.",
    details=["amount_due"],
)
billing_errors.add(
    PaymentDeclined,
    code="PAYMENT_DECLINED",
    category="failed_precondition",
    message="The payment of invoice {exc.invoice_id} by {exc.method} was declined: {exc.reason_code}.",
    hint="Ask the user whether to use the other payment method.",
    details=["reason_code"],
)
billing_errors.add(
    PaymentServiceUnavailable,
    code="PAYMENT_SERVICE_UNAVAILABLE",
    category="unavailable",
    message="The payment service does not take requests at the moment.",
    retryable=True,
    retry_after=lambda exc: exc.retry_after,
    # Without this line a write would say `unknown`. We know better: the request was turned away at the
    # door, so that even a payment may be repeated.
    outcome="not_applied",
)
billing_errors.add(
    PaymentOutcomeUnknown,
    code="PAYMENT_OUTCOME_UNKNOWN",
    category="deadline_exceeded",
    message="The payment of invoice {exc.invoice_id} was sent, but no answer came back in time.",
    hint="Call get_invoice for {exc.invoice_id} and compare `charged` before any further payment.",
    outcome="unknown",
)
# By name, so that this file needs no HTTP client. Only reads let it through: `Billing.pay_invoice` turns
# each transport error into one of the two above, since it knows whether the request went out.
billing_errors.add(
    "httpx.TransportError",
    code="PAYMENT_SERVICE_UNREACHABLE",
    category="unavailable",
    message="The payment service did not answer.",
    retryable=True,
)
