"""Calls tools of servers, bare and guarded, in this process, and prints what each sink got: handlers, Sentry."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import sentry_sdk
from sentry_sdk.transport import Transport

from iserror import ErrorMap, ToolErrors, ToolFailure
from tests.helpers.hosts import ToolError, in_memory, new_server

EVENTS: list[Any] = []


class Caught(Transport):
    """Keeps the events in this process."""

    def capture_envelope(self, envelope: Any) -> None:
        event = envelope.get_event()
        if event is not None:
            EVENTS.append(event)


class Heard(logging.Handler):
    """Keeps the records with an exception or of a warning and above."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            exc = record.exc_info[1] if record.exc_info else None
            self.records.append([record.name, record.levelname, record.getMessage(), type(exc).__name__])


class Mapped(Exception):
    pass


def crash() -> None:
    raise ValueError("boom at 10.0.0.9")


def chained() -> None:
    try:
        raise KeyError("a")
    except KeyError as exc:
        raise RuntimeError("no a") from exc


def mapped() -> None:
    raise Mapped("x")


def refused() -> None:
    raise ToolError("no such thing")


def failed() -> None:
    raise ToolFailure("NO_SUCH_THING", "There is no such thing.")


def unfit() -> int:
    return {"a": "x"}  # type: ignore[return-value]


def fine() -> str:
    return "fine"


TOOLS = (crash, chained, mapped, refused, failed, unfit, fine)


WAYS: dict[str, dict[str, Any] | None] = {
    "bare": None,
    "guarded": {},
    "all": {"forward": "all"},
    "none": {"forward": "none"},
    "hook": {"on_error": True},
}


async def main() -> None:
    sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=Caught)
    root, fastmcp = Heard(), Heard()
    logging.getLogger().addHandler(root)
    logging.getLogger("fastmcp").addHandler(fastmcp)
    print(json.dumps({how: await sinks(settings, root, fastmcp) for how, settings in WAYS.items()}))


async def sinks(given: dict[str, Any] | None, root: Heard, fastmcp: Heard) -> dict[str, Any]:
    """What each sink got of each tool of a server, bare if there are no settings."""
    server, settings = new_server(), dict(given or {})
    for tool in TOOLS:
        server.tool()(tool)
    hooked: list[str] = []
    if settings.pop("on_error", None):
        settings["on_error"] = lambda exc, failure: hooked.append(type(exc).__name__)
    if given is not None:
        errors = ErrorMap()
        errors.add(Mapped, code="MAPPED", category="internal", message="It is mapped.")
        ToolErrors(errors, **settings).attach(server)
    found: dict[str, Any] = {}
    async with in_memory(server) as call:
        for tool in TOOLS:
            for kept in (EVENTS, root.records, fastmcp.records, hooked):
                kept.clear()
            try:
                await call(tool.__name__)
            except Exception:
                if given is not None:  # of a bare server, the client refuses what doesn't fit a schema
                    raise
            events = [[one["type"] for one in event.get("exception", {}).get("values", [])] for event in EVENTS]
            heard = [*root.records, *fastmcp.records]
            found[tool.__name__] = {"sentry": events, "heard": heard, "hook": list(hooked)}
        EVENTS.clear()
        await asyncio.gather(*(call("crash") for _ in range(5)))
        found["five at once"] = len(EVENTS)
    return found


if __name__ == "__main__":
    asyncio.run(main())
