"""The entry that a map lacks: for an exception type as the log names it, the line that adds one."""

from __future__ import annotations

import builtins
import itertools
import re
from typing import Final

MAX_TEXT: Final = 200
"""Characters of a name; a longer one was cut."""

SEVERAL: Final = "(several types in a group)"

# A `ToolError` that the host made of another server's crash: the map is asked for what it came from.
HOST_ERRORS: Final = frozenset(
    {
        "mcp.server.fastmcp.exceptions.ToolError",
        "mcp.server.mcpserver.exceptions.ToolError",
        "fastmcp.exceptions.ToolError",
    }
)
# Of these the map is never asked: they do not come from `Exception`.
_NO_EXCEPTIONS: Final = frozenset({"asyncio.exceptions.CancelledError", "asyncio.CancelledError", "trio.Cancelled"})
LIBRARY_CODES: Final = frozenset(
    {
        "INTERNAL_ERROR",
        "INVALID_OUTPUT",
        "TIMEOUT",
        "INVALID_ARGUMENTS",
        "UNKNOWN_TOOL",
        "TOOL_ERROR",
        "RETURNED_ERROR",
        "NOTHING_SUCCEEDED",
        "IDEMPOTENCY_KEY_IN_USE",
        "IDEMPOTENCY_KEY_REUSED",
        "IDEMPOTENCY_STORE_UNAVAILABLE",
        "IDEMPOTENCY_UNAUTHENTICATED",
        "OUTCOME_UNKNOWN",
        "RESULT_NOT_KEPT",
    }
)

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_MAX_CODE: Final = 64

# By the class's name, first match first: the category, and words that hold whatever it was.
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


def entry(kind: str, taken: set[tuple[str, str]]) -> tuple[str, str]:
    """The line that adds an entry for an exception type, and what to know of it; no line for what has no name."""
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
    """How a line names the exception class, and what to know of it; the name is empty where there is none."""
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
            return "", "An entry for Exception would hide every crash: raise a class of your own, and map that."
        if not issubclass(builtin, Exception):
            return "", "It does not come from Exception, so no entry applies: catch it in the tool."
        return kind, "Any mistake in the code may raise it: better raise a class of your own, and map that."
    if len(kind) >= MAX_TEXT or not _DOTTED.match(kind) or not all(part.isidentifier() for part in kind.split(".")):
        return "", "This is no dotted name of a class: see the traceback, and map a class that it comes from."
    advice = "Its name holds only while its module is the one that is run." if kind.startswith("__main__.") else ""
    return '"' + kind.encode("unicode_escape").decode() + '"', advice


def _code(name: str, package: str, category: str, taken: set[tuple[str, str]]) -> str:
    """A code after the class's name that is free: neither the library's own nor known with another category."""
    known = LIBRARY_CODES | {code for code, said in taken if said != category}
    plain = _snake(name) or f"{category.upper()}_FAILURE"
    numbered = (f"{plain[:56].rstrip('_')}_{number}" for number in itertools.count(2))
    candidates = itertools.chain([plain, _snake(f"{package}_{plain}")], numbered)
    return next(code for code in candidates if code not in known)


def _snake(name: str) -> str:
    """A class's name as a code; empty where too little of it is ASCII."""
    plain = re.sub(r"[^A-Za-z0-9_]", "", name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).upper()
    code = re.sub(r"_+", "_", words).lstrip("_0123456789")[:_MAX_CODE].rstrip("_")
    return code if len(code) >= 3 else ""
