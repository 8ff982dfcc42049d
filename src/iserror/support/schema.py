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
