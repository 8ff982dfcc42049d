"""Secrets and internals in what a server sends: the kind and the place, never the text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from iserror.check.notes import Audit
from iserror.check.session import Answer
from iserror.client.outcome import ToolFailed
from iserror.redact import redact, redact_text
from iserror.redact.rule import MARK, Profile

_KINDS: Final = re.compile(re.escape(MARK) + r"(\w{1,40})\]")
_BOUNDS: Final = {"size", "cycle", "int"}
"""Markers of parts that the redactor doesn't read."""


def note_leaks(audit: Audit, answer: Answer, tool: str) -> None:
    """Note secrets in an answer, and internals in an error.

    A success may contain paths and SQL, since they can be the tool's purpose.
    """
    received = answer.received
    if not isinstance(received, dict):
        return
    is_error = isinstance(answer.outcome, ToolFailed) or "error" in received
    for where, part, by_key in parts(received):
        for check, kind in leaked(part, by_key=by_key, is_error=is_error):
            audit.add(check, f"{kind} in {where}", tool, kind)


def leaked(part: object, *, by_key: bool, is_error: bool) -> Iterator[tuple[str, str]]:
    """Yield the leaks in a part of an answer: the check, and the kind."""
    secrets: set[str] = set()
    profiles: tuple[Profile, ...] = ("log", "model") if is_error else ("log",)
    for profile in profiles:
        kinds = _kinds(part, profile, by_key) - secrets
        secrets |= kinds
        for kind in sorted(kinds):
            yield "leaks.secret" if profile == "log" else "leaks.insides", kind


def parts(received: dict[str, Any]) -> Iterator[tuple[str, object, bool]]:
    """Yield the parts of an answer: the place, the value, and whether its keys describe the values.

    The keys of schemas don't.
    """
    error, result = received.get("error"), received.get("result")
    if isinstance(error, dict):
        yield "the error's message", error.get("message"), False
        yield "the error's data", error.get("data"), True
    elif isinstance(result, dict):
        for key, value in result.items():
            if key == "content" and isinstance(value, list):
                for number, block in enumerate(value):
                    yield f"content[{number}]", block, False
            else:
                yield key, value, key == "structuredContent"
    elif "method" in received:
        yield "a notification", received.get("params"), True


def _kinds(value: object, profile: Profile, by_key: bool) -> set[str]:
    if by_key:
        before, after = Counter(_markers(value)), Counter(_markers(redact(value, profile=profile)))
    else:
        texts = list(_texts(value))
        before = Counter(kind for text in texts for kind in _KINDS.findall(text))
        after = Counter(kind for text in texts for kind in _KINDS.findall(redact_text(text, profile=profile)))
    return set(after - before) - _BOUNDS


def _markers(value: object) -> list[str]:
    return _KINDS.findall(json.dumps(value))


def _texts(value: object) -> Iterator[str]:
    waiting = [value]  # A loop instead of recursion, since an answer may be nested deeply.
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
