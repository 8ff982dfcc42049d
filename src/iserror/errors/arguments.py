"""What is wrong with arguments, without their values: declared fields and the broken rule.

Validators' own messages may quote the value (a custom validator's always can), and a key that the caller made up is a
value too. So the text is built from the rule and from the location, as far as the schema declares it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from iserror.redact.speech import safe_line
from iserror.support.look import look, shield
from iserror.support.schema import violations
from iserror.support.sdk import parameters_of, parent_of

MAX_REASONS: Final = 20
"""The most reasons in an answer."""

MAX_LISTED: Final = 1_000
"""Errors that are listed for their rules. If there are more, the JSON Schema alone tells the rules."""

MAX_LOOKED: Final = 200
"""Errors of a validator that are looked at: one argument may have tens of thousands."""

_RULES: Final[Mapping[str, str]] = {
    "missing": "is required",
    "missing_argument": "is required",
    "missing_keyword_only_argument": "is required",
    "missing_positional_only_argument": "is required",
    "unexpected_keyword_argument": "is not an argument of this tool",
    "unexpected_positional_argument": "is not an argument of this tool",
    "extra_forbidden": "is not an argument of this tool",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "string_pattern_mismatch": "must match the pattern in the input schema",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "finite_number": "must be a finite number",
    "none_required": "must be null",
    "value_error": "is not valid",
    "assertion_error": "is not valid",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "json_invalid": "must be valid JSON",
}
"""pydantic's error types whose context holds nothing except the schema's own limits, which fill the braces."""

_KINDS: Final[Mapping[str, str]] = {
    "int": "an integer",
    "float": "a number",
    "decimal": "a number",
    "string": "a string",
    "bool": "a boolean",
    "list": "an array",
    "tuple": "an array",
    "set": "an array",
    "frozen_set": "an array",
    "bytes": "a string",
    "date": "a date (YYYY-MM-DD)",
    "datetime": "a date and time (ISO 8601)",
    "time": "a time (HH:MM:SS)",
    "time_delta": "a duration",
    "url": "a URL",
    "uuid": "a UUID",
}
_EXTRA: Final = "an argument that this tool does not have"
_EXTRA_IN: Final = "has an argument that this tool does not have"
_JSON_KINDS: Final[Mapping[str, str]] = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def reasons_of(error: BaseException, tool: Any, arguments: object) -> list[tuple[str, str]]:
    """Return pairs of a declared field (or "") and the rule that the arguments break, up to `MAX_REASONS`.

    Args:
        error: The exception with which the host refused them.
        tool: The host's tool object.
        arguments: Those that the tool object got.
    """
    schema = parameters_of(tool)
    schema = schema if isinstance(schema, Mapping) else {}
    if parent_of(tool) is not None:
        # A transformed tool's error has the names of the tool behind it, which the caller doesn't know.
        return reasons_of_json(schema, arguments)
    if look(_count, 0, error) > MAX_LISTED:
        # Listing them all takes longer than to look for the first ones again.
        found = reasons_of_json(schema, arguments)
        if found:
            return found
    return shield(_from_pydantic, [], look(_errors_of, [], error), schema)[:MAX_REASONS]


def output_reasons(error: BaseException, schema: object) -> list[tuple[str, str]]:
    """Return pairs of a declared field (or "") and the rule that a result breaks, for the log.

    Args:
        error: The validator's exception.
        schema: The tool's output schema.
    """
    schema = schema if isinstance(schema, Mapping) else {}
    broken = getattr(error, "broken", None)
    if broken is not None:
        found = _from_schema(schema, [broken])
    else:
        found = _from_pydantic(look(_errors_of, [], error), schema)[:MAX_REASONS]
    return [(name, rule.replace(_EXTRA, "a field that the schema does not have")) for name, rule in found]


def _count(error: Any) -> int:
    return int(error.error_count())


def _errors_of(error: Any) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = error.errors(include_url=False, include_input=False)
    return errors


def reasons_of_json(schema: Mapping[str, Any], arguments: object) -> list[tuple[str, str]]:
    """Return the same by the JSON Schema alone; nothing if the schema can't be used."""
    found = look(lambda: list(islice(violations(schema, arguments), MAX_REASONS)), [])
    return shield(_from_schema, [], schema, found)


def _from_schema(schema: Mapping[str, Any], errors: Sequence[Any]) -> list[tuple[str, str]]:
    found = []
    for error in errors:
        name = _declared([*error.absolute_path], schema)
        if error.validator == "required":
            missing = [key for key in error.validator_value if key not in error.instance]
            prefix = f"{name}." if name else ""
            found += [(f"{prefix}{key}", "is required") for key in missing]
        elif error.validator == "additionalProperties":
            found.append((name, _EXTRA_IN if name else _EXTRA))
        else:
            found.append((name, _json_rule(error.validator, error.validator_value)))
    return list(dict.fromkeys(found))[:MAX_REASONS]


def _json_rule(rule: str, limit: Any) -> str:
    if rule == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        return "must be " + " or ".join(_JSON_KINDS.get(kind, "of another type") for kind in kinds)
    if rule == "enum":
        return f"must be one of {', '.join(map(repr, limit))}"
    words = {
        "minimum": "must be greater than or equal to {}",
        "exclusiveMinimum": "must be greater than {}",
        "maximum": "must be less than or equal to {}",
        "exclusiveMaximum": "must be less than {}",
        "minLength": "must have at least {} characters",
        "maxLength": "must have at most {} characters",
        "minItems": "must have at least {} items",
        "maxItems": "must have at most {} items",
        "multipleOf": "must be a multiple of {}",
    }.get(rule)
    return words.format(limit) if words else "is not valid"


def _from_pydantic(errors: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for error in errors[:MAX_LOOKED]:
        kind, location = str(error.get("type", "")), list(error.get("loc", ()))
        name = _declared(location, schema)
        rule = _rule(kind, error.get("ctx"))
        if kind in ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"):
            # The last part is caller input: never echo it.
            name = _declared(location[:-1], schema)
            rule = _EXTRA_IN if name else _EXTRA
        elif not name and kind.startswith("missing"):
            name, rule = "", "an argument is missing"
        found.append((name, rule))
    return list(dict.fromkeys(found))


def _rule(kind: str, context: object) -> str:
    words = _RULES.get(kind)
    if words is not None:
        values = context if isinstance(context, Mapping) else {}
        try:
            return safe_line(words.format_map({key: values[key] for key in re.findall(r"\{(\w+)\}", words)}), 200)
        except KeyError:
            return "is not valid"
    base = re.sub(
        r"_(type|parsing|from_date_parsing|parsing_size|unicode|from_float|from_datetime_parsing)\Z", "", kind
    )
    base = re.sub(r"_(from|not)_\w+\Z", "", base)
    expected = _KINDS.get(base)
    return f"must be {expected}" if expected else "is not valid"


def _declared(location: Sequence[Any], schema: Mapping[str, Any]) -> str:
    """Return the path as far as the schema declares it: indexes stay, the caller's own keys don't."""
    parts: list[str] = []
    here: Any = schema
    definitions = schema.get("$defs", {})
    for part in location:
        candidates = _open(here, definitions)
        if isinstance(part, int):
            if not parts:
                continue
            parts[-1] += f"[{part}]"
            here = next((c["items"] for c in candidates if isinstance(c.get("items"), Mapping)), {})
            continue
        declared = next(
            (c["properties"][part] for c in candidates if part in (c.get("properties") or {})),
            None,
        )
        if declared is None:
            # A branch of a union, the name of a model or validator: pydantic's word, which the model doesn't know.
            continue
        parts.append(str(part))
        here = declared
    return ".".join(parts)


def _open(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """Return a schema's own alternatives: references are followed, unions opened."""
    if not isinstance(schema, Mapping) or depth > 8:
        return []
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _open(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    found = [schema]
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key) or ():
            found += _open(option, definitions, depth + 1)
    return found
