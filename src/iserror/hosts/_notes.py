"""Notifications that a tool sends while it runs: its log messages and the words of its progress, redacted.

A tool that says `ctx.error(f"failed: {exc}")` before it fails sends the exception's text ahead of the safe answer.
"""

from __future__ import annotations

import functools
from typing import Any, Final, cast

from mcp.server.session import ServerSession

from iserror.hosts._mcp import HOOKED
from iserror.layers.call import Call, current_call
from iserror.redact import current_redaction, redact
from iserror.redact.rule import FAILED
from iserror.support.look import shield

_MESSAGE: Final = "msg"
"""Where fastmcp puts the text of a log message, beside what else is logged."""

_FIELDS: Final = {"notifications/message": "data", "notifications/progress": "message"}


def hook_notifications() -> None:
    """Redact what sessions send in guarded calls. The sessions of all servers of this process are of one class."""
    if HOOKED in vars(ServerSession):
        return
    setattr(ServerSession, HOOKED, True)
    _wrap_sending("_notify" if hasattr(ServerSession, "_notify") else "send_notification")
    if hasattr(ServerSession, "report_progress"):  # mcp 2.x sends it another way
        _wrap_progress(ServerSession.report_progress)


def _wrap_sending(name: str) -> None:
    send = getattr(ServerSession, name)

    @functools.wraps(send)
    async def sends(self: Any, notification: Any, *args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is not None:
            notification = shield(_redacted, None, call, notification)
            if notification is None:  # a fault of ours costs a note, never a secret
                return None
        return await send(self, notification, *args, **kwargs)

    setattr(ServerSession, name, sends)


def _wrap_progress(report: Any) -> None:
    @functools.wraps(report)
    async def reports(self: Any, progress: float, total: float | None = None, message: str | None = None) -> Any:
        call = current_call()
        if call is not None and message is not None:
            message = shield(_text, FAILED, call, message)
        return await report(self, progress, total, message)

    setattr(ServerSession, "report_progress", reports)  # noqa: B010 - mypy refuses the assignment


def _redacted(call: Call, notification: Any) -> Any:
    """Return a notification as it may be sent; the same object if it says nothing of a tool's."""
    inner = getattr(notification, "root", notification)
    field = _FIELDS.get(getattr(inner, "method", ""))
    params = getattr(inner, "params", None)
    value = None if field is None else getattr(params, field, None)
    if field is None or value is None:
        return notification
    safe = _text(call, value) if isinstance(value, str) else redact(value)
    said = value.get(_MESSAGE) if isinstance(value, dict) else getattr(value, _MESSAGE, None)
    if isinstance(safe, dict) and isinstance(said, str):
        safe[_MESSAGE] = _text(call, said)
    inner = inner.model_copy(update={"params": cast(Any, params).model_copy(update={field: safe})})
    return type(notification)(inner) if hasattr(notification, "root") else inner


def _text(call: Call, text: str) -> str:
    redactor, pii = current_redaction()
    return redactor.echoing(text, call.echo, pii=pii)
