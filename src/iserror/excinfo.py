"""An exception as plain data for the log: its whole chain, every leaf of a group, frames without locals.

Everything is bounded and survives hostile objects, since this runs while a call is failing. Local variables
are never read: they hold the passwords (structlog's ready-made `dict_tracebacks` writes them).
"""

from __future__ import annotations

import linecache
import os.path
from collections.abc import Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

from pydantic import ValidationError

from iserror.problem import MAX_CHAIN, Group, text_of
from iserror.redact import redact_text

MAX_FRAMES: Final = 60
MAX_GROUP: Final = 50
MAX_TEXT: Final = 4_000
MAX_DEPTH: Final = 8

_OURS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


def describe(exc: BaseException, *, depth: int = 0) -> list[dict[str, Any]]:
    """Return the chain, the exception itself first, then what it came from.

    Each item has `type` and `message` (redacted for the log), `frames` (outermost first: `file`, `line`,
    `function`, `source`), `relation` for all but the first (`cause` or `context`: how it led to the one
    before), and for a group `exceptions`, a list of such chains.
    """
    chain: list[dict[str, Any]] = []
    seen: set[int] = set()
    link: BaseException | None = exc
    relation = ""
    while link is not None and id(link) not in seen and len(chain) < MAX_CHAIN:
        seen.add(id(link))
        item: dict[str, Any] = {"type": _type_name(link), "message": log_text(_message(link))}
        if relation:
            item["relation"] = relation
        notes = getattr(link, "__notes__", None)
        if isinstance(notes, list):
            item["notes"] = [log_text(note) for note in notes[:20] if isinstance(note, str)]
        item["frames"] = list(_frames(link.__traceback__))
        if isinstance(link, Group) and depth < MAX_DEPTH:
            item["exceptions"] = [describe(inner, depth=depth + 1) for inner in link.exceptions[:MAX_GROUP]]
            if len(link.exceptions) > MAX_GROUP:
                item["exceptions_left_out"] = len(link.exceptions) - MAX_GROUP
        chain.append(item)
        if link.__cause__ is not None:
            link, relation = link.__cause__, "cause"
        else:
            link, relation = (None if link.__suppress_context__ else link.__context__), "context"
    return chain


def _type_name(exc: BaseException) -> str:
    kind = type(exc)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(exc: BaseException) -> str:
    """The exception's text; of pydantic's errors, which quote the values they refuse, places and rules only."""
    if not isinstance(exc, ValidationError):
        return text_of(exc)
    try:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        places = [f"{'.'.join(map(str, error['loc'])) or 'value'}: {error['type']}" for error in errors[:20]]
        return f"{len(errors)} validation error(s) for {exc.title}: " + "; ".join(places)
    except Exception:  # a location or title that resists
        return "validation error"


def log_text(text: str) -> str:
    """A text as it may stand in the log: without secrets, 4,000 characters at most."""
    text = redact_text(text, profile="log")
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + f"… [{len(text) - MAX_TEXT} more characters]"


def _frames(tb: TracebackType | None) -> Iterator[dict[str, Any]]:
    walked = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            walked.append((code, tb.tb_lineno, tb.tb_frame.f_globals))
        tb = tb.tb_next
    half = MAX_FRAMES // 2
    for index, (code, lineno, module_globals) in enumerate(walked):
        if half <= index < len(walked) - half:
            if index == half:
                yield {"file": "", "line": 0, "function": f"[{len(walked) - MAX_FRAMES} frames left out]", "source": ""}
            continue
        source = linecache.getline(code.co_filename, lineno, module_globals)
        name = getattr(code, "co_qualname", code.co_name)
        yield {"file": code.co_filename, "line": lineno, "function": name, "source": _source(source)}


@lru_cache(maxsize=2_000)
def _source(line: str) -> str:
    return redact_text(line.strip()[:300], profile="log")
