"""What tests run in other processes: it loads quickly, since a spawned process imports it again."""

from __future__ import annotations

import os

import structlog

from iserror import ToolErrors, ToolFailure, current_call

guard = ToolErrors()


@guard(effect="read")
def divide(number: int) -> float:
    structlog.get_logger().info("dividing", number=number)
    return number / (number - number)


@guard(effect="read")
def refuse(number: int) -> None:
    raise ToolFailure("NOT_TODAY", f"Not today, {number}.", category="failed_precondition")


def bare(number: int) -> float:
    structlog.get_logger().info("dividing", number=number)
    return number / (number - number)


def who(_: int) -> tuple[int, str | None, object]:
    """What code in another process sees of a call."""
    call = current_call()
    return os.getpid(), call and call.request_id, structlog.contextvars.get_contextvars().get("request_id")
