"""The description of an exception: its whole chain, every leaf of a group, frames without local variables.

Everything is bounded and survives hostile objects, since this runs while a call is failing. Local variables are never
read: they hold the passwords (structlog's ready-made `dict_tracebacks` writes them).
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, TracebackType
from typing import Any, Final

from pydantic import ValidationError

from iserror.errors.toolfailure import came_from
from iserror.logs.frames import Chain, Frame, Link, to_json
from iserror.logs.redaction import LogText, log_text
from iserror.redact import Redactor, current_redaction
from iserror.redact.rule import Profile
from iserror.support.causes import MAX_CHAIN, Group, members, text_of
from iserror.support.look import ROOT, look, shield

MAX_FRAMES: Final = 60
MAX_GROUP: Final = 50
MAX_EXCEPTIONS: Final = 200
MAX_DEPTH: Final = 8
MAX_NOTES: Final = 20
_MAX_SOURCE: Final = 300


def described(exc: BaseException) -> list[dict[str, Any]]:
    """Return an exception as a log line holds it. If it can't be described, its type at least. Never raises."""
    return shield(_described, [{"type": _QUALNAME(type(exc)), "message": "", "frames": []}], exc)


def _described(exc: BaseException) -> list[dict[str, Any]]:
    return to_json(describe(exc))


def describe(exc: BaseException) -> Chain:
    """Describe an exception and what led to it; messages and source lines are redacted.

    An exception that the walk meets twice is described once.
    """
    return _describe(exc, set(), 0)


def _describe(exc: BaseException, seen: set[int], depth: int) -> Chain:
    chain: list[Link] = []
    following: BaseException | None = exc
    relation = ""
    while following is not None and id(following) not in seen and len(chain) < MAX_CHAIN and len(seen) < MAX_EXCEPTIONS:
        seen.add(id(following))
        link = Link(
            type=_type_name(following),
            message=log_text(_message(following)),
            relation=relation,
            notes=[log_text(note) for note in look(_notes, (), following)],
            frames=_frames(_TRACEBACK(following)),
        )
        if issubclass(type(following), Group):
            inner = members(following)
            chains = [_describe(leaf, seen, depth + 1) for leaf in inner[:MAX_GROUP]] if depth < MAX_DEPTH else []
            link.exceptions = [chain for chain in chains if chain]
            link.exceptions_left_out = len(inner) - len(link.exceptions)
        chain.append(link)
        following, relation = came_from(following)
    return chain


_TRACEBACK: Final[Callable[[BaseException], Any]] = vars(BaseException)["__traceback__"].__get__
# Not through the class itself: its metaclass may raise.
_QUALNAME: Final[Callable[[type], str]] = vars(type)["__qualname__"].__get__


def _notes(exc: BaseException) -> Sequence[str]:
    return [str.__str__(note) for note in getattr(exc, "__notes__", ())[:MAX_NOTES] if isinstance(note, str)]


def _type_name(exc: BaseException) -> str:
    kind = type(exc)
    name, module = _QUALNAME(kind), look(lambda: kind.__module__, None)
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name


def _message(exc: BaseException) -> str:
    """Return the exception's text. Pydantic's errors quote the values they refuse: return places and rules only."""
    if issubclass(type(exc), ValidationError):
        return look(_rules, "", exc)
    return text_of(exc)


def _rules(exc: Any) -> str:
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    places = [f"{'.'.join(map(str, error['loc'])) or 'value'}: {error['type']}" for error in errors[:20]]
    return f"{len(errors)} validation error(s) for {exc.title}: " + "; ".join(places)


def _frames(tb: TracebackType | None) -> list[Frame]:
    """Return the frames of a traceback without those of this library, and without the middle of a long one."""
    walked: list[tuple[CodeType, int, dict[str, Any]]] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(ROOT):
            walked.append((code, tb.tb_lineno, tb.tb_frame.f_globals))
        tb = tb.tb_next
    if len(walked) <= MAX_FRAMES:
        return [_frame(*step) for step in walked]
    half = MAX_FRAMES // 2
    gap = Frame("", 0, f"[{len(walked) - MAX_FRAMES} frames left out]", "")
    return [*(_frame(*step) for step in walked[:half]), gap, *(_frame(*step) for step in walked[-half:])]


def _frame(code: CodeType, line: int, module_globals: dict[str, Any]) -> Frame:
    # A module's loader gives the source: it may be anything.
    source = look(linecache.getline, "", code.co_filename, line, module_globals)
    name = getattr(code, "co_qualname", code.co_name)
    return Frame(code.co_filename, line, name, _source(source, *current_redaction(), LogText.profile))


@lru_cache(maxsize=2_000)
def _source(line: str, redactor: Redactor, pii: bool, profile: Profile) -> str:
    return redactor.redact_text(line.strip()[:_MAX_SOURCE], profile=profile, pii=pii)
