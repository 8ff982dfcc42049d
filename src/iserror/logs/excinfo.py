"""An exception as plain data for the log: its whole chain, every leaf of a group, frames without locals.

Everything is bounded and survives hostile objects, since this runs while a call is failing. Local variables
are never read: they hold the passwords (structlog's ready-made `dict_tracebacks` writes them).
"""

from __future__ import annotations

import linecache
import os.path
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

from pydantic import ValidationError

from iserror.errors.toolfailure import came_from
from iserror.redact import Redactor, current_redaction, cut_short, redact_text
from iserror.redact.rule import Profile
from iserror.support.causes import MAX_CHAIN, Group, members, text_of
from iserror.support.look import attempt

MAX_FRAMES: Final = 60
MAX_GROUP: Final = 50
MAX_EXCEPTIONS: Final = 200
MAX_TEXT: Final = 4_000
_MAX_LONG: Final = 20_000
MAX_DEPTH: Final = 8

_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def describe(exc: BaseException) -> list[dict[str, Any]]:
    """Return the chain, the exception itself first, then what it came from.

    Each item has `type` and `message` (redacted for the log), `frames` (outermost first: `file`, `line`,
    `function`, `source`), `relation` for all but the first (`cause` or `context`: how it led to the one
    before), and for a group `exceptions`, a list of such chains. One that is met again, by another way, is left
    out there.
    """
    return _describe(exc, set(), 0)


def _describe(exc: BaseException, seen: set[int], depth: int) -> list[dict[str, Any]]:
    chain: list[dict[str, Any]] = []
    link: BaseException | None = exc
    relation = ""
    while link is not None and id(link) not in seen and len(chain) < MAX_CHAIN and len(seen) < MAX_EXCEPTIONS:
        seen.add(id(link))
        item: dict[str, Any] = {"type": _type_name(link), "message": log_text(_message(link))}
        if relation:
            item["relation"] = relation
        notes = attempt(_notes, None, link)
        if notes:
            item["notes"] = notes
        item["frames"] = list(_frames(_TRACEBACK(link)))
        if issubclass(type(link), Group):
            inner = members(link)
            chains = [_describe(leaf, seen, depth + 1) for leaf in inner[:MAX_GROUP]] if depth < MAX_DEPTH else []
            item["exceptions"] = [chain for chain in chains if chain]
            if len(item["exceptions"]) < len(inner):
                item["exceptions_left_out"] = len(inner) - len(item["exceptions"])
        chain.append(item)
        link, relation = came_from(link)
    return chain


_TRACEBACK: Final[Callable[[BaseException], Any]] = vars(BaseException)["__traceback__"].__get__


def _notes(exc: BaseException) -> list[str]:
    return [log_text(note) for note in getattr(exc, "__notes__", ())[:20] if isinstance(note, str)]


def _type_name(exc: BaseException) -> str:
    kind = type(exc)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(exc: BaseException) -> str:
    """The exception's text; of pydantic's errors, which quote the values they refuse, places and rules only."""
    return attempt(_rules, "", exc) if issubclass(type(exc), ValidationError) else text_of(exc)


def _rules(exc: Any) -> str:
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    places = [f"{'.'.join(map(str, error['loc'])) or 'value'}: {error['type']}" for error in errors[:20]]
    return f"{len(errors)} validation error(s) for {exc.title}: " + "; ".join(places)


class LogText:
    """How texts of the log are redacted; `configure_logging` says."""

    profile: Profile = "log"


def long_log_text(text: str) -> str:
    """A text as it may stand in the log: without secrets, 20,000 characters at most."""
    text = text if len(text) <= _MAX_LONG else cut_short(text, _MAX_LONG)
    return attempt(lambda: redact_text(text, profile=LogText.profile), "[redacted]")


def log_text(text: str) -> str:
    """A text as it may stand in the log: without secrets, 4,000 characters at most."""
    rest = max(0, len(text) - 2 * MAX_TEXT)  # what is far beyond is not worth the redaction
    text = long_log_text(cut_short(text, 2 * MAX_TEXT) if rest else text)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + f"… [{len(text) - MAX_TEXT + rest} more characters]"


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
        yield {
            "file": code.co_filename,
            "line": lineno,
            "function": name,
            "source": _source(source, *current_redaction(), LogText.profile),
        }


@lru_cache(maxsize=2_000)
def _source(line: str, redactor: Redactor, pii: bool, profile: Profile) -> str:
    return redactor.redact_text(line.strip()[:300], profile=profile, pii=pii)
