"""JSON Schema: what a tool's schema has against its arguments or its result, where the host doesn't say."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

MAX_CACHED: Final = 1_000

_validators: OrderedDict[int, tuple[Any, Any]] = OrderedDict()


class OutputSchemaError(Exception):
    """A result that does not fit; its text is for the log."""

    broken: Any = None
    """jsonschema's error."""


def schema_error(schema: Any, value: Any) -> BaseException | None:
    """Return what the schema has against the value, or None.

    Args:
        schema: The tool's output schema, a dict.
        value: The result's structured content; None if it has none, which no output schema allows.

    Returns:
        An exception that names the broken rule; None also if the schema itself can't be used, since the author's
        mistake must not fail every call.

    Source: specification 2025-06-18, tools, output schema.
    """
    if value is None:
        return OutputSchemaError("the tool has an output schema and its result no structured content")
    try:
        error = next(violations(schema, value), None)
    except Exception:  # a schema with a reference that leads nowhere, a regex that does not compile
        return None
    if error is None:
        return None
    found = OutputSchemaError(describe_error(error))
    found.broken = error
    return found


def violations(schema: Any, value: Any) -> Iterator[Any]:
    """Yield jsonschema's errors.

    Raises:
        Exception: If the schema can't be used (jsonschema's and referencing's own classes).
    """
    yield from _validator(schema).iter_errors(value)


def takes_text(schema: Any) -> bool:
    """Return True if an output schema may allow a text where a tool returns its value.

    Args:
        schema: The tool's output schema. Hosts put a value that isn't an object under `result`.
    """
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties.keys() == {"result"}:
        return _takes_text(properties["result"], schema, 0)
    return _takes_text(schema, schema, 0)


def _takes_text(schema: Any, whole: dict[str, Any], depth: int) -> bool:
    if not isinstance(schema, dict) or depth > MAX_OPENED:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str):
        definitions = whole.get("$defs")
        found = definitions.get(reference.rpartition("/")[2]) if isinstance(definitions, dict) else None
        return _takes_text(found, whole, depth + 1)
    for key in ("enum", "const"):
        if key in schema:
            values = schema[key] if key == "enum" else [schema[key]]
            return any(isinstance(value, str) for value in values)
    options = [option for key in ("anyOf", "oneOf", "allOf") for option in schema.get(key) or ()]
    if options:
        return any(_takes_text(option, whole, depth + 1) for option in options)
    kind = schema.get("type")
    return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)


MAX_OPENED: Final = 8
"""How deep references and alternatives of a schema are followed."""


def describe_error(error: Any) -> str:
    """Return where a value breaks which rule, for the log. jsonschema's own message quotes the value."""
    where = ".".join(str(part) for part in error.absolute_path) or "the result"
    return f"{where}: breaks the schema's {error.validator!r}"


def _validator(schema: Any) -> Any:
    cached = _validators.get(id(schema))
    if cached is not None and cached[0] is schema:
        return cached[1]
    from jsonschema.validators import validator_for
    from referencing import Registry

    # An empty registry: jsonschema would fetch references from the network.
    made = validator_for(schema)(schema, registry=Registry())
    _validators[id(schema)] = (schema, made)
    if len(_validators) > MAX_CACHED:
        _validators.popitem(last=False)
    return made
