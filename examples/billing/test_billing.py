"""The service's failures under test, with the fixtures of iserror's pytest plugin: run `pytest` in this folder."""

from typing import Any

import pytest
from server_for_tests import server

from iserror.client import Succeeded
from iserror.testing import assert_no_leak, assert_protocol_error, assert_tool_error


@pytest.fixture
def billing() -> Any:
    """A server of this test's own."""
    return server()


def test_find(call_tool: Any, billing: Any, captured_failures: list[dict[str, Any]]) -> None:
    """Nothing found is no failure."""
    assert isinstance(call_tool(billing, "find_invoices", {"customer": "nobody"}), Succeeded)
    assert captured_failures == []


def test_unknown_invoice(call_tool: Any, billing: Any) -> None:
    """The hint names the invoices that there are."""
    answer = call_tool(billing, "get_invoice", {"invoice_id": "1001"})
    failure = assert_tool_error(answer, code="INVOICE_NOT_FOUND", retryable=False)
    assert failure.hint is not None
    assert "INV-1001" in failure.hint


def test_payment_service_down(call_tool: Any, billing: Any) -> None:
    """A payment that never left this machine may be repeated."""
    answer = call_tool(billing, "pay_invoice", {"invoice_id": "INV-1001", "amount": 100})
    assert_tool_error(answer, code="PAYMENT_SERVICE_UNAVAILABLE", retryable=True, outcome="not_applied")


def test_crash(call_tool: Any, billing: Any, captured_failures: list[dict[str, Any]]) -> None:
    """A crash tells the model nothing, and the operator where it was, under one request id."""
    answer = call_tool(billing, "export_report", {"month": "2026-06"})
    failure = assert_tool_error(answer, code="INTERNAL_ERROR")
    assert_no_leak(answer, *captured_failures, planted="correct-horse")
    (record,) = captured_failures
    assert record["request_id"] == failure.request_id
    assert "export_report" in record["exception"][0]["frames"][-1]["function"]


def test_unknown_tool(call_tool: Any, billing: Any) -> None:
    """A tool that is not there is the host's to mend."""
    assert_protocol_error(call_tool(billing, "refund_invoice"), code=-32602)
