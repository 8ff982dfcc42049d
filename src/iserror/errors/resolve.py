"""`resolve`: what an exception means."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias, cast

from iserror.errors.attempts import earlier, outside
from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.failure import Failure
from iserror.errors.foreign import MAX_QUOTED, MAX_WORDS, beside, held_words, in_quotes
from iserror.errors.ownwords import OwnWords
from iserror.errors.problem import Problem, ProtocolProblem, crash
from iserror.errors.sessions import SESSION_CODES, problem_of_session, side_of
from iserror.errors.template import Path
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import CATEGORIES, OUTCOMES, check_code
from iserror.errors.wait import parse_retry_after
from iserror.redact.speech import quoted
from iserror.redact.text import Safe
from iserror.support.causes import MAX_CHAIN, Group, leaves, origin, raised_in, text_of
from iserror.support.jsonrpc import MISSING_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED
from iserror.support.loading import full_name, is_library
from iserror.support.look import look, shield
from iserror.support.sdk import (
    HOSTS,
    host_refusals,
    host_tool_errors,
    package_of,
    protocol_error_data,
    raised_by_client,
    raised_by_sdk,
)
from iserror.support.validate import check_choice

Way: TypeAlias = Literal["cause", "wrapped", "meanwhile"]
"""How an exception led to another: by `from`, or, without it, as what it wraps, or as what was only being handled."""


def resolve(exc: BaseException, maps: Sequence[ErrorMap], own: ErrorMap | None = None) -> Problem | ProtocolProblem:
    """Say what an exception means. Never raises: a fault of this step makes the exception a crash.

    Args:
        exc: The exception. One that isn't an `Exception` (an exit, a stray cancellation) is a crash too.
        maps: The maps to look in, the nearest first.
        own: The one of them that is for this tool alone. The outcome that it declares applies to the failure of
            a tool that this one called, too.
    """
    if not issubclass(type(exc), (Exception, Group)):
        return crash(exc)
    return shield(_resolve, crash(exc), exc, maps, own)


def _resolve(exc: BaseException, maps: Sequence[ErrorMap], own: ErrorMap | None = None) -> Problem | ProtocolProblem:
    kind = type(exc)  # not isinstance(): an object may lie about its class
    if issubclass(kind, ToolFailure):
        return _of_tool_failure(cast("ToolFailure", exc), own)
    side = side_of(exc)
    protocol = protocol_error_data(exc)
    if protocol is not None and side != "upstream":
        code, message, data = protocol
        # Only this call's own client, and this server's code, speak to the client in the SDK's words.
        if code == MISSING_CLIENT_CAPABILITY or (code == URL_ELICITATION_REQUIRED and side is None):
            return ProtocolProblem(exc, code, message, data, untouched=True)
        if not raised_by_sdk(exc):
            return ProtocolProblem(exc, code, in_quotes(message, exc), data)
    if issubclass(kind, Group):
        return _resolve_group(exc, maps)
    host_error = issubclass(kind, host_tool_errors()) and side != "client"
    if host_error and raised_by_sdk(exc):
        return _of_another_server(exc, maps)
    host_error = host_error or (issubclass(kind, host_refusals()) and not raised_by_sdk(exc))
    found, ignored = _along_the_chain(exc, maps, host_error)
    if found is None:
        found = _of_session(exc)
        if host_error:
            found = _refusal(exc) if found is None else found.saying(in_quotes(text_of(exc), exc) or found.message)
        found = found or crash(exc)
    return replace(found, context_code=ignored) if ignored else found


def _of_session(exc: BaseException) -> Problem | None:
    """Return what an SDK's session said that an exception is, or comes from."""
    for link, _ in _chain(exc, causes_only=True):
        found = problem_of_session(link)
        if found is not None:
            return replace(found, exception=exc)
    return None


def _along_the_chain(
    exc: BaseException, maps: Sequence[ErrorMap], host_error: bool
) -> tuple[Problem | None, str | None]:
    """Return what the nearest link of an exception's chain that a map knows means, and what is only noted.

    Returns:
        The problem, or None; and the code of what was being handled as the exception was raised, if that isn't what
        the exception says.
    """
    for link, way in _chain(exc, in_words=host_error):
        inner: Problem | ProtocolProblem | None = None
        entry = None
        if link is not exc and issubclass(type(link), Group):
            inner = _resolve_group(link, maps)
        elif issubclass(type(link), ToolFailure):
            inner = _of_tool_failure(cast("ToolFailure", link), None)
        else:
            entry = _find(link, maps)
            if entry is not None and not (host_error and entry.catch_all):
                inner = _of_entry(entry, link, maps)
                if entry.catch_all:
                    inner = _of_session(exc) or inner
        if not isinstance(inner, Problem) or not (inner.mapped or inner.code in SESSION_CODES):
            continue
        if way == "meanwhile":
            return None, inner.code
        inner = _proved(inner, exc, maps) if way == "cause" else inner.without_claim()
        if host_error and link is not exc and _says_more(exc, entry):
            inner = inner.saying(in_quotes(text_of(exc), exc))
        return replace(inner, exception=exc), None
    return None, None


def _says_more(exc: BaseException, entry: Entry | None) -> bool:
    """Return True if the text of a host's `ToolError` stays, around an exception that has an entry.

    Its author wrote it for the model. Only the same author's own entry can say it better: where the text is hardly more
    than the words of the exception behind it.
    """
    text = text_of(exc)[:MAX_QUOTED]
    if not text.strip():
        return False
    if entry is None or entry.packed:
        return True
    if entry.keep_text is not None:
        return entry.keep_text
    return len(_WORD.findall(beside(text, exc))) >= _SAYS


_WORD: Final = re.compile(r"[^\W_]*[^\W\d_][^\W_]*")
_SAYS: Final = 3
"""Words of a text, besides those of the exception behind it, that say something themselves."""


def _proved(problem: Problem, exc: BaseException, maps: Sequence[ErrorMap]) -> Problem:
    """Return the problem without a pack's `not_applied` if another request shows, or a failure that is uncertain."""
    if problem.basis != "pack" or problem.claim != "not_applied":
        return problem
    entries = (_find(link, maps) for link in outside(exc))
    doubt = earlier(exc) or any(entry is not None and entry.claim != "not_applied" for entry in entries)
    return problem.unproven() if doubt else problem


def _refusal(exc: BaseException) -> Problem:
    """Return the problem of a host's `ToolError`: its text is the author's, and nothing tells what had happened."""
    said = in_quotes(text_of(exc), exc)
    code = "PERMISSION_DENIED" if issubclass(type(exc), host_refusals("AuthorizationError")) else "TOOL_ERROR"
    return Problem(code, said or "The tool refused the call.", exception=exc, lines=True)


def _speaks_of(exc: BaseException, context: BaseException) -> bool:
    """Return True if an exception says what was being handled as it was raised, without `from`.

    It does if its text holds the other's words, or if a library raised it and so wrapped the other. Otherwise something
    else broke, and what was being handled isn't what broke.
    """
    return bool(held_words(text_of(exc)[:MAX_QUOTED], context)) or _is_wrapped_by_library(exc)


def _is_wrapped_by_library(exc: BaseException) -> bool:
    """Return True if a host raised an exception, or a client library its own: it wrapped what it handled."""
    module = raised_in(exc)
    top = package_of(module)
    if top in HOSTS or top in _STDLIB_CLIENTS:
        return True
    return top == package_of(full_name(type(exc))) and top not in sys.stdlib_module_names and is_library(module)


def _of_tool_failure(exc: ToolFailure, own: ErrorMap | None) -> Problem:
    """Return the problem behind a `ToolFailure`: an inner guard's, or what the author raised it with."""
    problem, failure = look(lambda: (exc._problem, exc.failure), (None, None))
    if isinstance(problem, Problem):
        problem = _nested(problem, own)
        if problem.exception is None and (exc._described or origin(exc)[0] is not None):
            problem = replace(problem, exception=exc)  # it comes from another process
    if isinstance(problem, Problem) and failure is None:
        return problem
    if isinstance(problem, Problem) and isinstance(failure, Failure):
        # An inner guard has said it: its texts are redacted. A constant one can't have suffered from that.
        message = problem.message if isinstance(problem.message, Safe) else Safe(failure.words)
        return replace(problem, message=message, hint=Safe(failure.hint) if failure.hint else None)
    stated = look(_stated, None, exc)
    if stated is None:  # a subclass does without our `__init__`, or the attributes have been changed
        return crash(exc)
    hint = in_quotes(stated.hint, exc) if stated.hint else None
    return replace(stated, message=in_quotes(stated.message, exc), hint=hint)


def _nested(problem: Problem, own: ErrorMap | None) -> Problem:
    """Return the problem of a tool that this one called, with the outcome that this tool's own map declares for it."""
    entry = _find(problem.exception, (own,)) if own is not None and problem.exception is not None else None
    if entry is not None and entry.outcome is not None and not entry.packed:
        return replace(problem, outcome=entry.outcome, basis="entry", nested=False)
    return replace(problem, nested=True)


def _stated(exc: ToolFailure) -> Problem:
    check_code(exc.code)
    check_choice("category", exc.category, CATEGORIES)
    if exc.outcome is not None:
        check_choice("outcome", exc.outcome, OUTCOMES)
    if not isinstance(exc.message, str) or not isinstance(exc.hint, (str, type(None))):
        raise TypeError("message and hint are texts")
    return Problem(
        exc.code,
        exc.message,
        exc.category,
        hint=exc.hint,
        can_help=exc.retryable,
        retry_after=parse_retry_after(exc.retry_after),
        outcome=exc.outcome,
        details=dict(exc.details) if exc.details else None,
        exception=exc,
        basis="category" if exc.outcome is None else "stated",
        blocks=exc.content,
    )


def _of_entry(entry: Entry, exc: BaseException, maps: Sequence[ErrorMap]) -> Problem:
    """Return the problem that an entry makes of this exception."""
    missing: list[Path] = []
    unsure = None
    outcome, basis = entry.claim, entry.basis
    if entry.packed and entry.claim == "not_applied":
        other = entry.unproven()
        unsure = other.message_of(exc, []), other.hint_of(exc, [])
    elif basis == "none":
        # The author says what it means. What a library's exception tells of its request, the packs know.
        packed = next((found for errors in maps if (found := errors.packed(exc)) is not None), None)
        if packed is not None:
            outcome, basis = packed.claim, "pack"
    return Problem(
        entry.code_of(exc),
        entry.message_of(exc, missing, _own_links(entry, exc, maps)),
        entry.category_of(exc),
        hint=entry.hint_of(exc, missing),
        can_help=entry.retryable,
        retry_after=entry.wait_of(exc),
        outcome=outcome,
        details=entry.details_of(exc),
        exception=exc,
        basis=basis,
        level=entry.level,
        lines=isinstance(entry.message, OwnWords),
        unsure=unsure,
        missing=missing if missing and not entry.packed else (),
    )


def _own_links(entry: Entry, exc: BaseException, maps: Sequence[ErrorMap]) -> frozenset[int]:
    """Return the ids of the exceptions behind one for which the same entry holds.

    Where the entry lets an exception's own words through, the author declared theirs to be the server's, too.
    """
    if not isinstance(entry.message, OwnWords) or entry.instead_of is not None:
        return frozenset()
    links = (link for link, _ in _chain(exc) if link is not exc)
    return frozenset(id(link) for link in links if _find(link, maps) is entry)


def _of_another_server(exc: BaseException, maps: Sequence[ErrorMap]) -> Problem | ProtocolProblem:
    """Return the problem of a `ToolError` that a host made about another tool or server: its text isn't an author's."""
    cause = origin(exc)[0]
    if cause is not None:
        problem = _resolve(cause, maps)
        return replace(problem, exception=exc) if isinstance(problem, Problem) else crash(exc)
    if raised_by_client(exc):
        said = quoted(text_of(exc), MAX_WORDS)
        return Problem("RETURNED_ERROR", said or "The call failed.", exception=exc)
    return crash(exc)


def _find(exc: BaseException, maps: Sequence[ErrorMap]) -> Entry | None:
    for errors in maps:
        entry = errors.find(exc)
        if entry is not None:
            return entry
    return None


def _chain(
    exc: BaseException, *, causes_only: bool = False, in_words: bool = False
) -> Iterator[tuple[BaseException, Way]]:
    """Yield the exception, then what it came from, each with the way that led to it.

    Args:
        exc: Where to begin.
        causes_only: Whether to follow `__cause__` alone.
        in_words: Whether the exception is a deliberate refusal, which wraps what was being handled only if its text
            says so.
    """
    seen: set[int] = set()
    link: BaseException | None = exc
    way: Way = "cause"
    while link is not None and id(link) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(link))
        yield link, way
        found, how = origin(link)
        if how == "context" and (causes_only or found is None):
            return
        if how == "context" and way != "meanwhile" and found is not None:
            speaks = (
                bool(held_words(text_of(exc)[:MAX_QUOTED], found))
                if link is exc and in_words
                else _speaks_of(link, found)
            )
            way = "wrapped" if speaks else "meanwhile"
        link = found


_STDLIB_CLIENTS: Final = frozenset({"http", "urllib", "ftplib", "imaplib", "poplib", "smtplib", "xmlrpc"})

# Least certain first: what may have happened outweighs what did not.
_CERTAINTY: Final = {"unknown": 0, "partial": 1, "applied": 2, "not_applied": 3}


def _resolve_group(group: BaseException, maps: Sequence[ErrorMap]) -> Problem:
    """Return what a group means: its own entry, else its worst leaf.

    A crash outweighs the rest, and a protocol error in a group is one: what else failed would be lost with it.
    """
    entry = _find(group, maps)
    if entry is not None and not entry.catch_all:
        return _proved(_of_entry(entry, group, maps), group, maps)
    found = list(leaves(group))
    if not found:
        return crash(group)
    problems = [p if isinstance(p, Problem) else crash(leaf) for leaf in found for p in (_resolve(leaf, maps),)]
    worst = min(problems, key=lambda p: (not p.is_crash, p.can_help, _CERTAINTY[p.claim]))
    # The others may have taken effect.
    alone = len(found) == 1 and worst.basis == "pack"
    return replace(_proved(worst, group, maps) if alone else worst.unproven(), exception=group)
