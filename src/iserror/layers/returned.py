"""What a served tool's body returned by mistake: exceptions as values, errors as successes, what can't be sent."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Final, cast

from iserror.errors.arguments import output_reasons
from iserror.errors.blocks import others
from iserror.errors.lookalike import MAX_TEXT, looks_like_an_error, read, words_in
from iserror.errors.problem import Problem, crash, invalid_output
from iserror.errors.resolve import resolve
from iserror.errors.returned import own_structured
from iserror.errors.toolfailure import ToolFailure
from iserror.layers.call import Call
from iserror.layers.lifecycle import fail, failure_of
from iserror.layers.options import Options
from iserror.layers.report import log_surrogates, report_item
from iserror.logs.sink import tell_once
from iserror.support.causes import Group
from iserror.support.look import look, shield
from iserror.support.schema import takes_text
from iserror.support.sdk import either, is_result_type, texts_in
from iserror.support.values import Path, can_be_sent, exception_in, exchanged, is_clean, parts_of

MAX_LINES: Final = 1_000
"""The most exceptions inside one returned value that are looked up and logged."""


def checked(call: Call, options: Options, value: Any) -> Any:
    """Return what the body of a served call returned, as it may be sent.

    Exceptions inside a container become codes, one line in the log each. Lone surrogates become U+FFFD.

    Raises:
        ToolFailure: If the value is an exception, or holds nothing else.
    """
    if call.progress.body is not options.key or look(is_clean, True, value):
        return value
    failed = look(_failed, None, value)
    if failed is not None:
        raise fail(call, _meaning(call, options, failed))
    made = shield(_repaired, None, call, options, value)
    if made is None:
        raise fail(call, invalid_output(TypeError("an exception inside the result can't be replaced")))
    return made[0]


def sendable(call: Call, result: Any) -> tuple[Any, Problem | None]:
    """Return a host's success with U+FFFD instead of each lone surrogate, which would end a session over stdio.

    Returns:
        The success, and what is wrong if it can't be sent for another reason.
    """
    if can_be_sent(result):
        return result, None
    made = look(_repaired, None, call, None, result)
    if made is not None and can_be_sent(made[0]):
        return made[0], None
    return result, invalid_output(ValueError("the result can't be written as JSON"))


def reading(call: Call, value: Any) -> tuple[Problem, bool] | None:
    """Return what a success means that reads like an error, and whether there is an answer beside that; or None.

    The author's predicate may say it with a `ToolFailure`. One that raises makes the value a success.
    """
    predicate = call.settings.is_returned_error
    if predicate is looks_like_an_error:
        found = read(value)
        return None if found is None else (_with_blocks(_returned(found.text), value), found.partial)
    said = look(lambda: (predicate(value),), None)
    if said is None:
        tell_once("is_returned_error", "is_returned_error raised; the value counts as a success")
        return None
    if issubclass(type(said[0]), ToolFailure):
        problem = resolve(cast("ToolFailure", said[0]), ())
        if isinstance(problem, Problem):
            # What the body did after it had failed, a category doesn't tell.
            problem = problem if problem.basis == "stated" else problem.without_claim()
            return problem if problem.blocks else _with_blocks(problem, value), False
    return (_with_blocks(_returned(words_in(value)), value), False) if look(bool, False, said[0]) else None


def _with_blocks(problem: Problem, value: Any) -> Problem:
    """Return the problem with what else a returned value holds: blocks that aren't texts, structured content."""
    if isinstance(value, (str, dict)):
        return problem
    if look(is_result_type, False, cast(Hashable, type(value))):
        structured = look(either, None, value, "structured_content", "structuredContent")
        blocks = look(others, (), look(getattr, (), value, "content", ()))
        return replace(problem, blocks=blocks, structured=own_structured(structured))
    blocks = look(others, (), value)
    return replace(problem, blocks=blocks) if blocks else problem


def _returned(text: str) -> Problem:
    return Problem("RETURNED_ERROR", text, lines=True)


def unfit(call: Call, exc: BaseException, result: Any = None) -> Problem:
    """Return the problem of a result that doesn't fit its schema: a value that reads like an error says it itself.

    Args:
        call: The call.
        exc: What names field and rule, for the log.
        result: The host's result, if no function of the author's returned a value.
    """
    value = call.progress.value if call.progress.value is not None else result
    found = look(reading, None, call, value)
    if found is not None:
        return replace(found[0], exception=exc)
    said = value if isinstance(value, str) else "\n".join(look(texts_in, [], value))
    wants_none = not shield(takes_text, True, call.progress.output_schema)
    if wants_none and " " in said.strip() and len(said) < MAX_TEXT and not said.lstrip().startswith("{"):
        # The schema asks for something else than a text: what the author wrote instead says why.
        return replace(_returned(said), exception=exc)
    reasons = shield(output_reasons, [], exc, call.progress.output_schema)
    rules = [f"{name}: {rule}" if name else rule for name, rule in reasons]
    return replace(invalid_output(exc), fields=[name for name, _ in reasons if name], rules=rules)


def _failed(value: Any) -> BaseException | None:
    """Return the exception that a value is, or a group of those that a container holds and nothing else."""
    alone = exception_in(value)
    if alone is not None:
        return alone
    items = list(value.values() if isinstance(value, dict) else parts_of(value) if _is_sequence(value) else ())
    found = [exc for item in items if (exc := exception_in(item)) is not None]
    if not items or len(found) < len(items):
        return None
    return found[0] if len(found) == 1 else Group("all that was returned are exceptions", found)


def _is_sequence(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _meaning(call: Call, options: Options | None, exc: BaseException) -> Problem:
    """Return what a returned exception means. What the body did after it was made, nothing tells."""
    maps, own = (options.maps, options.own_map) if options is not None else ((), None)
    problem = resolve(exc, (*maps, *call.progress.maps), own)
    if not isinstance(problem, Problem):
        return crash(exc)
    return problem if problem.basis == "stated" else replace(problem, outcome=None, basis="none")


def _repaired(call: Call, options: Options | None, value: Any) -> tuple[Any]:
    found = 0

    def said_of(exc: BaseException, path: Path) -> dict[str, str]:
        nonlocal found
        found += 1
        if found > MAX_LINES:
            return {"error": "INTERNAL_ERROR"}
        problem = _meaning(call, options, exc)
        failure = failure_of(call, problem)
        report_item(call, problem, failure, ".".join(map(str, path)))
        return {"error": failure.code if problem.is_crash else f"{failure.code}: {failure.message}"}

    made, replaced = exchanged(value, said_of)
    if replaced:
        log_surrogates(call)
    return (made,)
