"""A bug in the client's own steps is heard, and the caller still gets the outcome."""

from __future__ import annotations

from typing import Any

import pytest

from iserror.client import OutcomeUnknown, ToolCaller
from iserror.logs import excinfo
from iserror.support.look import Fault, faults

pytestmark = pytest.mark.sdk


class ClientSession:
    """A session whose connection breaks in each call."""

    __module__ = "mcp.client.session"

    async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any]) -> Any:
        raise EOFError("the pipe broke")

    async def list_tools(self) -> Any:
        return []


@pytest.mark.anyio
async def test_a_bug_in_the_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the exception of a lost call cannot be described, the fault is reported without the user's text."""

    def broken(exc: BaseException) -> Any:
        raise LookupError(f"secret of {exc}")

    heard: list[Fault] = []
    monkeypatch.setattr(excinfo, "describe", broken)
    monkeypatch.setattr(faults, "raises", False)
    monkeypatch.setattr(faults, "listener", heard.append)
    outcome = await ToolCaller(ClientSession(), max_attempts=1).call("pay")
    assert isinstance(outcome, OutcomeUnknown)
    assert [fault.error for fault in heard] == ["LookupError"]
    assert "secret" not in repr(heard)
