"""What tools answer that were called on purpose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from iserror.check.checks.answer import look
from iserror.check.checks.arguments import example, is_read_only
from iserror.check.notes import Audit
from iserror.check.session import Answer, Session
from iserror.client.outcome import Succeeded, ToolFailed
from iserror.errors.returned import looks_like_an_error
from iserror.support.look import attempt
from iserror.support.schema import schema_error

MAX_ERROR: Final = 2_000
"""Characters of an error's texts."""

NO_SUCH_TOOL: Final = "the call that was asked for, since there is no such tool"

# What the hosts put before an exception's text; on mcp before that of a deliberate ToolError too.
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
    """Which tools are called, with which arguments: those that were named, and those that only read if asked for."""
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
    """Arguments as the schema's own examples and defaults have them; None where a required one has neither."""
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
        said = example(kind)
        if not said:
            return None
        arguments[name] = said[0]
    return arguments


async def check(audit: Audit, session: Session, tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Call a tool once and look at its answer."""
    name, schema = tool["name"], tool.get("outputSchema")
    answer = await session.call(name, arguments)
    look(audit, answer, name)
    if _SURROGATE.search(json.dumps(answer.received, ensure_ascii=False) if isinstance(answer.received, dict) else ""):
        audit.add("results.undecodable", "a text with lone surrogates, or bytes that are no UTF-8", name)
    structured = answer.result.get("structuredContent")
    if isinstance(schema, dict) and (structured is not None or isinstance(answer.outcome, Succeeded)):
        wrong = schema_error(schema, structured)
        if wrong is not None:
            kind = "an error" if isinstance(answer.outcome, ToolFailed) else "a success"
            audit.add("results.output_schema", f"{kind}: {wrong}", name)
    if isinstance(answer.outcome, Succeeded) and _reads_like_an_error(answer):
        audit.add("results.error_shaped_success", answer.shown(), name)
    if isinstance(answer.outcome, ToolFailed):
        _look_at_error(audit, name, answer, answer.outcome)


def _look_at_error(audit: Audit, name: str, answer: Answer, outcome: ToolFailed) -> None:
    text = "\n".join(answer.texts)
    if not text.strip():
        audit.add("results.empty_text", answer.shown(), name)
    if len(text) > MAX_ERROR:
        audit.add("results.oversized", f"an error of {len(text):,} characters", name)
    if outcome.request_id is not None:  # of a guard: nothing in it is an exception's
        return
    if _VALIDATOR.search(text):
        audit.add("results.validator_text", answer.shown(), name)
    elif _PREFIX.match(text) or _TRACEBACK.search(text):
        audit.add("results.exception_text", answer.shown(), name)


def _reads_like_an_error(answer: Answer) -> bool:
    structured = answer.result.get("structuredContent")
    if isinstance(structured, Mapping) and set(structured) == {"result"}:  # what hosts wrap other types in
        structured = structured["result"]
    values: list[Any] = [structured, *answer.texts[:1]]
    values += [attempt(json.loads, None, text) for text in answer.texts[:1] if text.lstrip().startswith("{")]
    return any(looks_like_an_error(value) for value in values)
