"""Arguments that a tool's input schema forbids: the channel, and whether the values come back.

No body that writes may run. A server that doesn't validate arguments runs the tool, and its answer doesn't show it: the
refusal of a service behind the tool looks like the refusal of a validator. So bad arguments go only to tools annotated
`readOnlyHint: true`, and to tools that the user names. In memory every tool gets them, since stand-ins replace the
bodies.

Even then, a call is sent only if every host refuses it. No host turns an object into a scalar, or anything but an
object into one, and a call without a required argument always fails. Arguments that some host accepts aren't sent: a
number in a string, or an undeclared argument where nothing else is wrong.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from iserror.check.bodies import Bodies, unlogged
from iserror.check.checks.answer import note_answer
from iserror.check.finding import OWN_RUN, UNPROBED, UNREPLACED
from iserror.check.notes import Audit, CheckOptions
from iserror.check.session import Answer, Session
from iserror.client.outcome import ProtocolFailed, Succeeded, ToolFailed
from iserror.support.jsonrpc import RESULT_REVISION
from iserror.support.look import look
from iserror.support.schema import schema_error

MAX_CALLS: Final = 12
"""Maximum number of calls of one tool in one revision."""

MAX_ALTERNATIVES: Final = 100
"""Maximum number of alternatives in a property's schema to read."""

NO_SUCH_PROBE: Final = "the probe that you asked for, since there is no such tool"

_HEADER_MISMATCH: Final = -32020


def is_read_only(tool: Mapping[str, Any]) -> bool:
    """Return True if the tool's annotations declare that it changes nothing; nothing but `true` counts."""
    annotations = tool.get("annotations")
    return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True


async def check(
    audit: Audit, session: Session, tool: Mapping[str, Any], options: CheckOptions, bodies: Bodies | None = None
) -> None:
    """Send a tool arguments that must be refused, until it accepts some.

    A tool gets all of them in one revision. In the others one call shows the channel, which alone depends on the
    revision.

    Args:
        audit: Takes the notes.
        session: The session.
        tool: The tool, as the server lists it.
        options: The user's options.
        bodies: The bodies to replace, of a server in memory.
    """
    name = tool["name"]
    bad = list(broken(tool["inputSchema"], f"canary{secrets.token_hex(8)}"))[:MAX_CALLS]
    if not bad:
        audit.skip("arguments, since none are certain to be refused", name)
        return
    is_named = options.probe_all or name in options.probe
    if bodies is None and not (is_named or is_read_only(tool)):
        audit.skip(UNPROBED, name)
        return
    if name in audit.accepting:
        audit.skip("more arguments, since the tool accepted some that its schema forbids", name)
        return
    if name in audit.stopped:
        audit.skip("more arguments, since the server stopped answering while it was called", name)
        return
    if name in audit.probed:
        bad = [probe for probe in bad if probe[1]][:1] or bad[:1]
    with unlogged() if bodies is not None else contextlib.nullcontext():
        await _probe(audit, session, name, bad, bodies, is_named=is_named)


async def _probe(
    audit: Audit,
    session: Session,
    name: str,
    bad: Sequence[tuple[str, dict[str, Any], str]],
    bodies: Bodies | None,
    *,
    is_named: bool,
) -> None:
    audit.probed.add(name)
    for how, arguments, mark in bad:
        place = await bodies.lead(session.connection, name, session.timeout) if bodies is not None else None
        if bodies is not None and place is None:
            if not is_named:
                _withdraw(audit, UNREPLACED, name)
                return
            bodies.restore()
        answer = await session.call(name, arguments)
        if place is not None and bodies is not None and bodies.stage.entered:
            if not place.is_run:
                audit.accepting.add(name)
                audit.add("arguments.accepted", f"{how}: they reached the tool's function", name)
                return
            if not is_named:
                _withdraw(audit, OWN_RUN, name)
                return
            bodies.restore()
            bodies = None
            answer = await session.call(name, arguments)
        note_answer(audit, answer, name)
        if isinstance(answer.outcome, Succeeded):
            audit.accepting.add(name)
            audit.add("arguments.accepted", f"{how}: {answer.shown(mark)}", name)
            return
        _note_refusal(audit, session, name, how, mark, answer)


def _withdraw(audit: Audit, why: str, name: str) -> None:
    audit.probed.discard(name)
    audit.skip(why, name)


def _note_refusal(audit: Audit, session: Session, name: str, how: str, mark: str, answer: Answer) -> None:
    if mark in str(answer.received):
        channel = "JSON-RPC error" if answer.code is not None else "result"
        audit.add("arguments.echo", f"{how}: the {channel} repeats the value that was sent", name)
    as_result = session.revision >= RESULT_REVISION
    outcome = answer.outcome
    fits = (
        isinstance(outcome, ToolFailed) if as_result else isinstance(outcome, ProtocolFailed) and answer.code == -32602
    ) or answer.code == _HEADER_MISMATCH
    if not fits:
        wanted = "a result with isError true" if as_result else "JSON-RPC error -32602"
        audit.add("arguments.channel", f"{how}: {answer.shown(mark)}, not {wanted}", name)


def broken(schema: Mapping[str, Any], canary: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield bad arguments, those that are most certain to be refused first, without any that show the same.

    Args:
        schema: The tool's input schema.
        canary: A word for the values, with hexadecimal digits at its end. It is in no name.

    Yields:
        What is wrong, the arguments, and the word in them that no answer may repeat.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    names = schema.get("required")
    required = {name for name in properties if name in names} if isinstance(names, list) else set()
    number = int(canary[-8:], 16) + 10**10
    opened = {name: _opened(kind, schema) for name, kind in properties.items()}
    wrong = {name: value for name, kind in opened.items() if (value := _wrong_type(kind, canary, number)) is not None}
    if required:
        yield "required arguments missing", {}, canary
        yield "an undeclared argument", {_undeclared(properties): canary}, canary
    if len(wrong) > 1:
        only_number = all(value == number for value in wrong.values())
        yield "every argument of a wrong type", wrong, str(number) if only_number else canary
    seen: set[object] = set()
    for name, value in wrong.items():
        # Where a required argument is missing as well, one more such call shows nothing new.
        if (required and len(wrong) > 1) or seen == (seen := seen | {frozenset(_types(opened[name]))}):
            continue
        yield f"{name} of a wrong type", {name: value}, str(number) if value == number else canary
    for name, kind in opened.items():
        # The server may not check every rule in the schema, so something else must be wrong as well.
        also = next(((other, value) for other, value in wrong.items() if other != name), None)
        if not required - {name} and also is None:
            continue
        beside = {} if required - {name} else dict([also] if also else [])
        for how, value in _out_of_range(kind, canary, number):
            if seen == (seen := seen | {"range" if isinstance(value, int) else how}):
                continue
            mark = str(abs(value)) if isinstance(value, int) else canary
            yield f"{name} {how}", {**beside, name: value}, mark


UNDECLARED: Final = "undeclared"
"""A name for arguments that no tool declares. It is short, since some validators cut what they quote."""


def _undeclared(properties: Mapping[str, Any]) -> str:
    name = UNDECLARED
    while name in properties:
        name += "_"
    return name


def fitting(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fewest arguments that a schema allows, from its examples if it has some; None if none are found."""
    made = look(_fitting, None, schema, schema, 0)
    return made if isinstance(made, dict) and schema_error(schema, made) is None else None


def example(schema: Mapping[str, Any]) -> list[Any]:
    """Return a list of the schema's first example, or its default; an empty list without both."""
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return examples[:1]
    return [schema["default"]] if "default" in schema else []


def _fitting(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    """Return a value that fits a common schema."""
    if found := example(schema):
        return found[0]
    if depth > MAX_DEPTH:
        raise RecursionError
    for option in islice(_alternatives(schema, root, 0), MAX_ALTERNATIVES):
        if found := [*example(option), *option.get("enum", ())[:1], *([option["const"]] if "const" in option else ())]:
            return found[0]
        (kind, *_) = [option["type"]] if isinstance(option.get("type"), str) else option.get("type", ["null"])
        if kind == "object":
            properties = option.get("properties", {})
            names = option.get("required", ())
            return {name: _fitting(properties.get(name, {}), root, depth + 1) for name in names}
        if kind == "array":
            return [_fitting(option.get("items", {}), root, depth + 1)] * option.get("minItems", 0)
        values = _SCALARS.get(kind, ())
        if kind in ("integer", "number"):
            values = (*values, *(option[key] + step for key, step in _LIMITS.items() if key in option))
        elif kind == "string":
            values = (*values, "x" * option.get("minLength", 0))
        for value in values:
            if schema_error(option, value) is None and _is_formatted(option.get("format"), value):
                return value
    return None


MAX_DEPTH: Final = 8

_LIMITS: Final = {"minimum": 0, "exclusiveMinimum": 1, "maximum": 0, "exclusiveMaximum": -1, "multipleOf": 0}

_FORMATS: Final = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "a@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
_SCALARS: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": (
        *("x", *_FORMATS.values()),
        # Texts that match common patterns.
        *(
            "1",
            "12",
            "123",
            "1234",
            "2026-01",
            "00:00",
            "1.0.0",
            "A",
            "AB",
            "EUR",
            "INV-1",
            "INV-0001",
            "#000000",
            "a-b",
        ),
        *("/x", "a.txt", "+15550100", "0" * 8, "0" * 16, "0" * 32, "0" * 40, "0" * 64),
    ),
    "integer": (1, 0, -1),
    "number": (1, 0, -1, 0.5),
    "boolean": (False, True),
    "null": (None,),
}


def _is_formatted(name: object, value: object) -> bool:
    """Return True if a text has the format that a schema names. jsonschema doesn't check formats."""
    return name not in _FORMATS or value == _FORMATS[str(name)]


def _opened(kind: Any, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of a property's schema. An empty one means that anything may be allowed."""
    found = list(islice(_alternatives(kind, schema, 0), MAX_ALTERNATIVES))
    return found if len(found) < MAX_ALTERNATIVES else [{}]


def _alternatives(kind: Any, schema: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    if not isinstance(kind, Mapping) or depth > 8:
        yield {}
        return
    reference, options = kind.get("$ref"), kind.get("anyOf", kind.get("oneOf", kind.get("allOf")))
    if isinstance(reference, str):
        root, _, name = reference.rpartition("/")
        definitions = schema.get(root[2:]) if root in ("#/$defs", "#/definitions") else None
        found = definitions.get(name) if isinstance(definitions, Mapping) else None
        yield from _alternatives(found, schema, depth + 1)
    elif isinstance(options, list) and ("allOf" not in kind or len(options) == 1):
        for option in options:
            yield from _alternatives(option, schema, depth + 1)
    else:
        yield kind if "allOf" not in kind else {}


def _types(options: list[Mapping[str, Any]]) -> set[str]:
    """Return the JSON types that are allowed; an empty set if unknown."""
    types: set[str] = set()
    for option in options:
        kinds = option.get("type")
        if kinds is None and isinstance(option.get("enum"), list):
            kinds = [_TYPE_OF.get(type(value), "") for value in option["enum"]]
        if kinds is None and "const" in option:
            kinds = _TYPE_OF.get(type(option["const"]), "")
        names = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(names, list) or not set(map(str, names)) <= _KNOWN:
            return set()
        types |= set(names)
    return types


_TYPE_OF: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_KNOWN: Final = {"string", "integer", "number", "boolean", "null", "array", "object"}


def _wrong_type(options: list[Mapping[str, Any]], canary: str, number: int) -> object:
    """Return a value that no host accepts for any of the alternatives; None if uncertain."""
    types = _types(options) - {"null"}
    if "array" in types:  # Some hosts accept an object, since it is iterable.
        return number if types == {"array"} else None
    if "object" in types:
        return [canary]
    return {UNDECLARED: canary} if types else None


def _out_of_range(options: list[Mapping[str, Any]], canary: str, number: int) -> Iterator[tuple[str, str | int]]:
    """Yield values of the right type that break another rule, if there is one alternative except null."""
    options = [option for option in options if option.get("type") != "null"]
    if len(options) != 1:
        return
    (option,) = options
    if isinstance(option.get("enum"), list) and all(isinstance(value, str) for value in option["enum"]):
        yield "not in the enumeration", canary
    if option.get("type") in ("integer", "number"):
        if (top := _limit(option, "maximum", "exclusiveMaximum")) is not None:
            yield "above its range", top + number
        elif (bottom := _limit(option, "minimum", "exclusiveMinimum")) is not None:
            yield "below its range", bottom - number
    longest = option.get("maxLength")
    if option.get("type") == "string" and isinstance(longest, int) and 0 <= longest <= 10_000:
        yield "longer than it may be", canary * (longest // len(canary) + 1)


def _limit(option: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = option.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**52:
            return int(value)
    return None
