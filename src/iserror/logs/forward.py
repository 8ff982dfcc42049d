"""What the bare host's own sinks would have heard of a failure: a record on its logger, with the original exception.

A guard answers for the host, so that the host logs nothing. Handlers and trackers that its author had set up before
must not go deaf for that. The library's own handlers skip the record: they have the line.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Final

from iserror.logs.chain import State
from iserror.logs.logging_bridge import TAKEN, LogHandler
from iserror.logs.structlog_bridge import configured_by_user
from iserror.support.causes import CAUSE, CONTEXT, TRACEBACK, Group, members
from iserror.support.look import look

FORWARDED: Final = "_iserror_forwarded"
"""Marks the record."""


def forward(logger: str, message: str, exc: BaseException) -> None:
    """Send a record to the handlers of a host's logger, as the host would have done. Never raises.

    Args:
        logger: The host's logger.
        message: The host's message.
        exc: The original exception.
    """
    # Whatever a handler of the user's raises: on the bare host it would have hit the host.
    look(_forward, None, logger, message, exc)


def _forward(name: str, message: str, exc: BaseException) -> None:
    logger = logging.getLogger(name)
    if not logger.isEnabledFor(logging.ERROR):
        return
    # Some formatters follow a chain without an end for ever.
    info = (type(exc), exc, TRACEBACK(exc)) if _ends(exc) else None
    record = logger.makeRecord(name, logging.ERROR, "(iserror)", 0, message, (), info)
    setattr(record, TAKEN, True)
    setattr(record, FORWARDED, True)
    if not logger.filter(record):
        return
    # A logger of its own: trackers patch what every logger does with a record, and the last resort is stderr.
    apart = logging.Logger(name)
    apart.propagate = False
    apart.handlers = [logging.NullHandler(), *_handlers(logger)]
    apart.handle(record)


def _ends(exc: BaseException) -> bool:
    """Return True if what an exception came from has an end, and isn't deep."""
    waiting, steps = [(exc, frozenset[int]())], 0
    while waiting:
        link, above = waiting.pop()
        steps += 1
        if steps > MAX_LINKS or id(link) in above:
            return False
        inside = members(link) if isinstance(link, Group) else ()
        below = (CAUSE(link), CONTEXT(link), *inside)
        waiting += [(one, above | {id(link)}) for one in below if one is not None]
    return True


MAX_LINKS: Final = 100
"""The most exceptions behind one that handlers get."""


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Yield the handlers that a record of a logger reaches, without those that would say it twice."""
    shown = State.stderr is not None and (State.configured or not configured_by_user())
    here: logging.Logger | None = logger
    while here is not None:
        for handler in here.handlers:
            if not isinstance(handler, LogHandler) and not (shown and writes_to_stderr(handler)):
                yield handler
        here = here.parent if here.propagate else None


def writes_to_stderr(handler: logging.Handler) -> bool:
    """Return True for a handler that writes to stderr, also by a console as rich's does."""
    streams = (getattr(handler, "stream", None), getattr(getattr(handler, "console", None), "file", None))
    return any(stream is not None and stream in (sys.stderr, sys.__stderr__) for stream in streams)
