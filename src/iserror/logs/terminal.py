"""Events as text for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from iserror.logs import frames
from iserror.logs.chain import EventDict
from iserror.logs.record import printable
from iserror.logs.render import format_chain
from iserror.logs.sink import now


def console() -> Callable[[EventDict], str]:
    """Return the renderer for terminals."""
    renderer = structlog.dev.ConsoleRenderer(sort_keys=False)

    def render(event: EventDict) -> str:
        shown = {"timestamp": now()}
        for key, value in event.items():
            if key in ("exception", "stack"):
                lines = map(printable, str(value).splitlines())
                shown[key] = format_chain(frames.read(value)) if isinstance(value, list) else "\n".join(lines)
            elif key != "schema_version":
                shown[printable(key)] = printable(value)
        return str(renderer(None, event["level"], shown))

    return render
