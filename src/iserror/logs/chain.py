"""One chain for every line of the process: the library's own, structlog's, and the standard library's.

Context variables, redaction, exceptions without local variables, JSON, then the sinks. Nothing here writes to stdout,
and nothing here raises.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

from structlog.contextvars import get_contextvars

from iserror.logs.excinfo import described
from iserror.logs.owner import Owner, ids_of, running
from iserror.logs.redaction import log_text, long_log_text, redacted
from iserror.logs.sink import FileSink, StderrSink, now, stamped
from iserror.redact import cut_short
from iserror.support.look import look, shield

EventDict = dict[str, Any]


class State:
    """What `configure_logging` chose for this process; stderr until then."""

    file: FileSink | None = None
    stderr: StderrSink | None = StderrSink()
    level: int = logging.INFO
    over_logging = False
    """Whether structlog, as its user configured it, makes records of logging."""
    reinstall_due = False
    """Whether other code may have replaced our processor or handlers since. The first call calls `reinstall`."""
    configured = False
    root_levels: tuple[int, int] | None = None
    """The root logger's level before and after we set it. None if we left it alone."""
    captured: list[EventDict] | None = None
    """A test's list of the library's lines about failures. They are still written where they go otherwise."""


# --- writing -------------------------------------------------------------------------------------------------


def write_line(event: EventDict, owner: Owner | None, *, final: bool = False, stderr: bool = True) -> None:
    """Write a finished event as a line to the sinks.

    Args:
        event: Plain JSON data, redacted.
        owner: The call that the line belongs to.
        final: Whether the line ends the call.
        stderr: Whether it goes to stderr too, where the log does.
    """
    body = shield(to_json, None, event)
    if body is None:
        body = _least_json(event)
    file = State.file
    root = owner.root if owner is not None else None
    line = file.write(body, root, final=final) if file is not None else stamped(body, now())
    if stderr and State.stderr is not None:
        State.stderr.write(line, event)


def to_json(event: EventDict) -> str:
    """Return an event as a JSON object."""
    try:
        return _ENCODE(event)
    except (TypeError, ValueError, RecursionError):  # a key that isn't a text, a cycle
        return json.dumps(redacted(event), ensure_ascii=False)


_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, default=redacted).encode


def _least_json(event: EventDict) -> str:
    """Return the simple values of an event as JSON: after a bug in `to_json`, ids and code are still there."""
    return json.dumps({key: value for key, value in event.items() if _is_simple(value)}, ensure_ascii=False)


def _is_simple(value: object) -> bool:
    return type(value) in (str, int, float, bool) or (type(value) is list and all(type(item) is str for item in value))


# --- lines of other loggers ----------------------------------------------------------------------------------


def prepared(level: str, event: Mapping[str, Any], exc_info: object = None) -> EventDict:
    """Return the line of another logger for the log: under the ids of the call, redacted, exceptions as data."""
    ids = call_ids()  # first: it drops what a call that is over has bound
    given: Mapping[Any, Any] = look(lambda: dict(event), {})
    fields = {_key(key): value for key, value in {**get_contextvars(), **given}.items()}
    text = fields.pop("event", "")
    exc = look(_exception, None, fields.pop("exc_info", None))
    if exc is None:
        exc = look(_exception, None, exc_info)
    exception, stack = fields.pop("exception", None), fields.pop("stack", None)
    for key in (*ids, "schema_version"):
        # A field of the caller's may be called `request_id` too: the operator finds both.
        other, own = fields.pop(key, None), ids.get(key)
        if other is not None and other is not own and (type(other) is not type(own) or other != own):
            fields[f"event_{key}"] = other
    for key in ("level", "timestamp"):
        fields.pop(key, None)
    line: EventDict = {"level": level, "event": log_text(look(_text, UNSEEN, text, repr)), **ids}
    plain = _Plain()
    safe = redacted({key: look(plain.of, UNSEEN, value) for key, value in fields.items()})
    line.update(safe if isinstance(safe, dict) else {"fields": safe})
    if stack is not None:
        line["stack"] = long_log_text(look(_text, UNSEEN, stack))
    if exc is not None:
        line["exception"] = described(exc)
    elif isinstance(exception, str):
        line["exception"] = long_log_text(look(_text, UNSEEN, exception))
    elif exception is not None:
        line["exception"] = redacted(look(_without_locals, UNSEEN, exception))
    return line


def call_ids() -> EventDict:
    """Return the ids of the call that runs here, whatever its tool bound over them."""
    owner = running()
    return {} if owner is None else dict(ids_of(owner.root))


UNSEEN: Final = "(a value that cannot be shown)"
UNMADE: Final = "(a line that could not be made)"


def _key(key: object) -> str:
    return key if type(key) is str else look(_text, "(a key that cannot be shown)", key)


def _text(value: object, show: type[str] | Any = str) -> str:
    # A subclass of str may have methods that raise.
    return str.__str__(value if isinstance(value, str) else show(value))


def _exception(exc_info: object) -> BaseException | None:
    if exc_info is True:
        exc_info = sys.exc_info()
    exc = exc_info[1] if isinstance(exc_info, tuple) and len(exc_info) > 1 else exc_info
    return exc if isinstance(exc, BaseException) else None


_DEPTH: Final = 8
_NODES: Final = 2_000
_MAX_VALUE: Final = 4_000


class _Plain:
    """The values of a line as JSON, others as text: people want the time and the path.

    The bounds are for a whole line.
    """

    def __init__(self) -> None:
        self.left = _NODES
        self.above: set[int] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        self.left -= 1
        if self.left < 0:
            return "[redacted:size]"
        kind = type(value)
        if kind is str:
            return _cut(value)
        if value is None or kind in (int, float, bool):
            return value
        is_mapping = isinstance(value, Mapping)
        if depth < _DEPTH and (is_mapping or kind in (list, tuple, set, frozenset)):
            if id(value) in self.above:
                return "[redacted:cycle]"
            self.above.add(id(value))
            try:
                return self._mapping(value, depth) if is_mapping else self._items(value, depth)
            finally:
                self.above.discard(id(value))
        if hasattr(kind, "model_dump") or hasattr(kind, "__dataclass_fields__"):
            return value
        return _cut(look(_text, f"({kind.__qualname__})", value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        items = itertools.islice(value.items(), self.left + 1)
        return {_key(key): look(self.of, UNSEEN, item, depth + 1) for key, item in items}

    def _items(self, value: Any, depth: int) -> Any:
        return [look(self.of, UNSEEN, item, depth + 1) for item in itertools.islice(value, self.left + 1)]


def _cut(text: str) -> str:
    # With the word at the end: half of a secret looks like none.
    return text if len(text) <= _MAX_VALUE else cut_short(text, _MAX_VALUE)


def _without_locals(value: Any) -> Any:
    """Return a traceback as structlog's `dict_tracebacks` makes it, without the local variables."""
    if isinstance(value, list):
        return [_without_locals(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_locals(item) for key, item in value.items() if key != "locals"}
    return value
