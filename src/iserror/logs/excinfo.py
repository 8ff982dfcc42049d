"""The description of an exception: its whole chain, every leaf of a group, frames without local variables.

Everything is bounded and survives hostile objects, since this runs while a call is failing. Local variables are never
read: they hold the passwords (structlog's ready-made `dict_tracebacks` writes them).
"""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, TracebackType
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from iserror.errors.toolfailure import came_from, described_elsewhere
from iserror.errors.toolfailure import describe as describe_for_pickles
from iserror.logs.frames import Chain, Frame, Link, read, to_json
from iserror.logs.redaction import MAX_TEXT, LogText, log_text, looked_at
from iserror.redact import Redactor, current_redaction
from iserror.redact.rule import Profile
from iserror.support.causes import MAX_CHAIN, TRACEBACK, Group, members, notes, text_of
from iserror.support.look import ROOT, look, shield

MAX_FRAMES: Final = 60
MAX_GROUP: Final = 50
MAX_EXCEPTIONS: Final = 200
MAX_DEPTH: Final = 8
MAX_NOTES: Final = 20
MAX_ERRORS: Final = 1_000
"""The most errors of a pydantic exception for which their places are listed: it makes a list of them all."""
_MAX_SOURCE: Final = 300

# The limits for one failure in all, however many exceptions it has. What comes first gets the most.
MAX_CHARS: Final = 16_384
MAX_NOTE_CHARS: Final = 4_096
MAX_ALL_NOTES: Final = 100
MAX_ALL_FRAMES: Final = 480
_LEAST: Final = 60
"""Characters of a message that are shown however many there are."""


def described(exc: BaseException) -> list[dict[str, Any]]:
    """Return an exception as a log line holds it. If it can't be described, its type at least. Never raises."""
    return shield(_described, [{"type": _QUALNAME(type(exc)), "message": "", "frames": []}], exc)


def _described(exc: BaseException) -> list[dict[str, Any]]:
    return to_json(describe(exc))


describe_for_pickles.by = described


def describe(exc: BaseException) -> Chain:
    """Describe an exception and what led to it; messages and source lines are redacted.

    An exception that the walk meets twice is described once.
    """
    return _Walk().chain(exc, 0)


class _Walk:
    """One walk through an exception, its causes and the members of its groups: what is left of the bounds."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.chars, self.note_chars = MAX_CHARS, MAX_NOTE_CHARS
        self.notes, self.frames = MAX_ALL_NOTES, MAX_ALL_FRAMES

    def chain(self, exc: BaseException, depth: int) -> Chain:
        chain: list[Link] = []
        elsewhere: Chain = ()
        following: BaseException | None = exc
        relation = ""
        seen = self.seen
        while following is not None and id(following) not in seen:
            if len(chain) >= MAX_CHAIN or len(seen) >= MAX_EXCEPTIONS:
                break
            seen.add(id(following))
            link = Link(
                type=_type_name(following),
                message=self.text(_message(following), tail=_TYPE_NAME(type(following)) in _REMOTE),
                relation=relation,
                notes=self.some_notes(following),
                frames=self.some_frames(TRACEBACK(following)),
            )
            if issubclass(type(following), Group):
                inner = members(following)
                chains = [self.chain(leaf, depth + 1) for leaf in inner[:MAX_GROUP]] if depth < MAX_DEPTH else []
                link.exceptions = [chain for chain in chains if chain]
                link.exceptions_left_out = len(inner) - len(link.exceptions)
            chain.append(link)
            elsewhere = read(described_elsewhere(following)) or elsewhere
            following, relation = came_from(following)
        if elsewhere:
            # What a guard's failure was raised for in the process that it comes from.
            elsewhere[0].relation = "cause"
            chain += elsewhere
        return chain

    def text(self, said: str, *, tail: bool = False) -> str:
        """Return a message for the log. A long one may have a quarter of what is left: all exceptions say something.

        Args:
            said: The message.
            tail: Whether its end says more than its middle.
        """
        limit = min(MAX_TEXT, max(self.chars // 4, _LEAST))
        self.chars -= looked_at(len(said), limit)
        start = said.find("\n", len(said) - limit * 3 // 4) if tail and len(said) > limit else -1
        if start < 0:
            return log_text(said, limit)
        return f"{log_text(said[:start], limit // 4)}\n{log_text(said[start + 1 :], limit)}"

    def some_notes(self, exc: BaseException) -> list[str]:
        found = notes(exc, min(MAX_NOTES, self.notes))
        self.notes -= len(found)
        shown = []
        for note in found:
            limit = min(MAX_TEXT, self.note_chars // 2)
            if limit < _LEAST:
                break
            self.note_chars -= looked_at(len(note), limit)
            shown.append(log_text(note, limit))
        return shown if len(shown) == len(found) else [*shown, f"[{len(found) - len(shown)} notes left out]"]

    def some_frames(self, tb: TracebackType | None) -> list[Frame]:
        found = _frames(tb, min(MAX_FRAMES, max(self.frames // 4, 2)))
        self.frames -= len(found)
        return found


_REMOTE: Final = frozenset({"_RemoteTraceback", "RemoteTraceback"})
"""The causes with which `concurrent.futures` and `multiprocessing` send the traceback of a worker, as text."""

# Not through the class itself: its metaclass may raise.
_TYPE_NAME: Final[Callable[[type], str]] = vars(type)["__name__"].__get__
_QUALNAME: Final[Callable[[type], str]] = vars(type)["__qualname__"].__get__


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
    count = exc.error_count()
    if count > MAX_ERRORS:
        return f"{count} validation error(s) for {exc.title}"
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    places = [f"{'.'.join(map(str, error['loc'])) or 'value'}: {error['type']}" for error in errors[:20]]
    return f"{len(errors)} validation error(s) for {exc.title}: " + "; ".join(places)


def _frames(tb: TracebackType | None, most: int) -> list[Frame]:
    """Return the frames of a traceback without those of this library, and without the middle of a long one."""
    half = most // 2
    first: list[_Step] = []
    last: deque[_Step] = deque(maxlen=most - half)
    count = 0
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(ROOT):
            (first if count < half else last).append((code, tb.tb_lineno, tb.tb_frame.f_globals))
            count += 1
        tb = tb.tb_next
    gap = [Frame("", 0, f"[{count - most} frames left out]", "")] if count > most else []
    return [*(_frame(*step) for step in first), *gap, *(_frame(*step) for step in last)]


_Step: TypeAlias = tuple[CodeType, int, dict[str, Any]]


def _frame(code: CodeType, line: int, module_globals: dict[str, Any]) -> Frame:
    # A module's loader gives the source: it may be anything.
    source = look(linecache.getline, "", code.co_filename, line, module_globals)
    name = getattr(code, "co_qualname", code.co_name)
    return Frame(code.co_filename, line, name, _source(source, *current_redaction(), LogText.profile))


@lru_cache(maxsize=2_000)
def _source(line: str, redactor: Redactor, pii: bool, profile: Profile) -> str:
    return redactor.redact_text(line.strip()[:_MAX_SOURCE], profile=profile, pii=pii)
