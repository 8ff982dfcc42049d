"""Suggestions of map entries: for an exception type in the log, the line that adds its entry."""

from __future__ import annotations

import builtins
import itertools
import re
from typing import Final

from iserror.errors.vocabulary import BUILT_IN
from iserror.logs.read.values import MAX_TEXT
from iserror.support.sdk import TOOL_ERROR_NAMES

SEVERAL: Final = "(several types in a group)"

HOST_ERRORS: Final = TOOL_ERROR_NAMES
"""What hosts raise for another server's crash: the map is asked for the exception that led to it."""
_NO_EXCEPTIONS: Final = frozenset({"asyncio.exceptions.CancelledError", "asyncio.CancelledError", "trio.Cancelled"})
"""These don't come from `Exception`: no map is asked for them."""
LIBRARY_CODES: Final = frozenset(BUILT_IN)
"""A suggested code has another meaning than these."""

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_MAX_CODE: Final = 64

_CATEGORIES: Final = (
    (r"ModuleNotFound", "internal"),
    (r"Time(d)?_?[Oo]ut|DeadlineExceeded", "deadline_exceeded"),
    (r"TooManyRequests|Rate_?Limit|Throttl|Quota", "resource_exhausted"),
    (r"Unauthenticated|Unauthorized|Authentication", "unauthenticated"),
    (r"Permission|Forbidden|AccessDenied", "permission_denied"),
    (r"AlreadyExists|FileExists|Duplicate", "already_exists"),
    (r"Connect|Unavailable|BrokenPipe|Network|Unreachable|gaierror", "unavailable"),
    (r"NotFound|DoesNotExist|NoSuch|NoResult|\AKeyError\Z|\ALookupError\Z", "not_found"),
    (r"NotImplemented|Unimplemented|Unsupported", "unimplemented"),
)
"""The category by the class's name; the first match counts."""
_WORDS: Final = {
    "deadline_exceeded": "The service behind this tool did not answer in time.",
    "resource_exhausted": "The service behind this tool takes no more requests at the moment.",
    "unauthenticated": "The service behind this tool did not accept the server's credentials.",
    "permission_denied": "The service behind this tool does not permit this.",
    "already_exists": "There is one already.",
    "unavailable": "The service behind this tool could not be reached.",
    "not_found": "There is no such item.",
    "unimplemented": "The service behind this tool does not support this.",
    "internal": "The tool could not complete the call.",
}
"""A message for each category that is true whatever the exception was."""


def suggested_entry(kind: str, taken: set[tuple[str, str]]) -> tuple[str, str]:
    """Return the line that adds an entry for an exception type, and advice. A type without a name has no line."""
    named = _named(kind)
    if not named[0]:
        return named
    name, advice = named
    package, _, last = kind.rpartition(".")
    category = next((found for pattern, found in _CATEGORIES if re.search(pattern, last)), "internal")
    code = _code(last, package.partition(".")[0], category, taken)
    taken.add((code, category))
    retryable = ", retryable=True" if category == "unavailable" else ""
    words = _WORDS[category]
    return f'errors.add({name}, code="{code}", category="{category}"{retryable}, message="{words}")', advice


def _named(kind: str) -> tuple[str, str]:
    """Return how a line names the exception class, and advice. The name is empty if no line can name it."""
    if not kind:
        return "", "The log does not say which exception it was: see the traceback."
    if kind == SEVERAL:
        return "", "Several tasks failed in different ways: see the traceback, and map what is in the group."
    if kind in HOST_ERRORS:
        return "", "Another server's tool crashed: that server's log has the exception."
    if kind in _NO_EXCEPTIONS:
        return "", "It does not come from Exception, so no entry applies: catch it in the tool."
    if "<locals>" in kind:
        return "", "A class that a function makes has no name to map: define it in a module."
    builtin = getattr(builtins, kind, None) if kind.isidentifier() else None
    if isinstance(builtin, type) and builtin.__name__ == kind and issubclass(builtin, BaseException):
        if kind == "Exception":
            return "", "An entry for Exception would hide every crash: raise your own class, and map that."
        if not issubclass(builtin, Exception):
            return "", "It does not come from Exception, so no entry applies: catch it in the tool."
        return kind, "Any mistake in the code may raise it: better raise your own class, and map that."
    if len(kind) >= MAX_TEXT or not _DOTTED.match(kind) or not all(part.isidentifier() for part in kind.split(".")):
        return "", "This isn't a dotted name of a class: see the traceback, and map a class that it comes from."
    advice = "This name is right only while its module is the one that you run." if kind.startswith("__main__.") else ""
    return '"' + kind.encode("unicode_escape").decode() + '"', advice


def _code(name: str, package: str, category: str, taken: set[tuple[str, str]]) -> str:
    """Return a code after the class's name that is free: not the library's, and not known with another category."""
    known = LIBRARY_CODES | {code for code, said in taken if said != category}
    plain = _snake(name) or f"{category.upper()}_FAILURE"
    numbered = (f"{plain[:56].rstrip('_')}_{number}" for number in itertools.count(2))
    candidates = itertools.chain([plain, _snake(f"{package}_{plain}")], numbered)
    return next(code for code in candidates if code not in known)


def _snake(name: str) -> str:
    """Return a class's name as a code, or an empty text if too little of it is ASCII."""
    plain = re.sub(r"[^A-Za-z0-9_]", "", name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).upper()
    code = re.sub(r"_+", "_", words).lstrip("_0123456789")[:_MAX_CODE].rstrip("_")
    return code if len(code) >= 3 else ""
