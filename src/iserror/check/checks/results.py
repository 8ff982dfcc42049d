"""The answers of tools that the user asks to call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from iserror.check.checks.answer import note_answer
from iserror.check.checks.arguments import example, is_read_only
from iserror.check.notes import Audit
from iserror.check.session import Answer, Session
from iserror.client.outcome import Succeeded, ToolFailed
from iserror.errors.lookalike import looks_like_an_error
from iserror.layers.settings import Settings
from iserror.support.look import look
from iserror.support.schema import schema_error

MAX_ERROR: Final = 2_000
"""Maximum length of an error's text, in characters."""

NO_SUCH_TOOL: Final = "the call that you asked for, since there is no such tool"

# Hosts put this before the text of an exception; mcp also before the text of a deliberate ToolError.
_PREFIX: Final = re.compile(r"\s*Error (?:executing tool \S+|calling tool '[^']*'): \S")
_TRACEBACK: Final = re.compile(
    r"Traceback \(most recent call last\)|^\s*(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Warning)\b\s*[:(]",
    re.MULTILINE,
)
_VALIDATOR: Final = re.compile(
    r"Output validation error|\d+ validation errors? for |outputSchema defined but|errors\.pydantic\.dev"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def to_call(
    audit: Audit, tools: Sequence[Mapping[str, Any]], calls: Sequence[tuple[str, Mapping[str, Any]]], read_only: bool
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the tools to call with their arguments: those named, and with `read_only` those that only read."""
    by_name = {tool["name"]: tool for tool in tools}
    for name, arguments in calls:
        if name in by_name:
            yield by_name[name], arguments
        else:
            audit.skip(NO_SUCH_TOOL, name)
    named = {name for name, _ in calls}
    for tool in tools if read_only else ():
        if is_read_only(tool) and tool["name"] not in named:
            made = _example(tool["inputSchema"])
            if made is None:
                audit.skip("its result, since the schema has no examples of what it requires", tool["name"])
            else:
                yield tool, made


def _example(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return arguments from the schema's examples and defaults; None if a required argument has none."""
    whole = schema.get("examples")
    if isinstance(whole, list) and whole and isinstance(whole[0], dict):
        return whole[0]
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    arguments = {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        kind = properties.get(name)
        kind = kind if isinstance(kind, Mapping) else {}
        found = example(kind)
        if not found:
            return None
        arguments[name] = found[0]
    return arguments


def predicate_of(guard: Settings | None) -> Callable[[Any], object]:
    """Return what tells a returned error from a success: the guard's own predicate, else the default one."""
    return guard.is_returned_error if guard is not None else looks_like_an_error


async def check(
    audit: Audit,
    session: Session,
    tool: Mapping[str, Any],
    arguments: Mapping[str, Any],
    is_returned_error: Callable[[Any], object] = looks_like_an_error,
) -> None:
    """Call a tool once and check its answer."""
    name, schema = tool["name"], tool.get("outputSchema")
    answer = await session.call(name, arguments)
    note_answer(audit, answer, name)
    if _SURROGATE.search(json.dumps(answer.received, ensure_ascii=False) if isinstance(answer.received, dict) else ""):
        audit.add("results.undecodable", "a text with lone surrogates, or bytes that aren't UTF-8", name)
    structured = answer.result.get("structuredContent")
    if isinstance(schema, dict) and (structured is not None or isinstance(answer.outcome, Succeeded)):
        wrong = schema_error(schema, structured)
        if wrong is not None:
            kind = "an error" if isinstance(answer.outcome, ToolFailed) else "a success"
            audit.add("results.output_schema", f"{kind}: {wrong}", name)
    if isinstance(answer.outcome, Succeeded) and _reads_like_an_error(answer, is_returned_error):
        audit.add("results.error_shaped_success", answer.shown(), name)
    if isinstance(answer.outcome, ToolFailed):
        _note_error(audit, name, answer, answer.outcome)


def _note_error(audit: Audit, name: str, answer: Answer, outcome: ToolFailed) -> None:
    text = "\n".join(answer.texts)
    if not text.strip():
        audit.add("results.empty_text", answer.shown(), name)
    if len(text) > MAX_ERROR:
        audit.add("results.oversized", f"an error of {len(text):,} characters", name)
    if outcome.request_id is not None:  # A guard made it, without the text of an exception.
        return
    if _VALIDATOR.search(text):
        audit.add("results.validator_text", answer.shown(), name)
    elif _PREFIX.match(text) or _TRACEBACK.search(text):
        audit.add("results.exception_text", answer.shown(), name)


def _reads_like_an_error(answer: Answer, is_returned_error: Callable[[Any], object]) -> bool:
    structured = answer.result.get("structuredContent")
    if isinstance(structured, Mapping) and set(structured) == {"result"}:  # Hosts wrap other types in this key.
        structured = structured["result"]
    values: list[Any] = [structured] if structured is not None else []
    for text in answer.texts:
        parsed = look(json.loads, None, text)
        values.append(text if parsed is None else parsed)
    return any(look(is_returned_error, False, value) for value in values)
