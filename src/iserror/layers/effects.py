"""What a tool does to the world, as its annotations and `ToolErrors(effects=...)` say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias, cast

from iserror.errors.vocabulary import EFFECTS, Effect
from iserror.logs.sink import tell_once
from iserror.support.look import look
from iserror.support.sdk import destructive_hint, is_idempotent, read_only_hint
from iserror.support.validate import check_plain_function

Effects: TypeAlias = Mapping[str, Effect] | Callable[[Any], Effect | None]
"""Patterns of tool names with effects, or a function of the host's tool object."""

_CARE: Final = ("read", "idempotent", "write")
"""The effects, the most careful one last."""

_FAILED: Final = object()


def checked_effects(effects: object) -> Effects | None:
    """Return `effects`.

    Raises:
        TypeError: If it is neither a mapping of names nor a plain function.
        ValueError: If an effect is unknown.
    """
    if effects is None:
        return None
    if not isinstance(effects, Mapping):
        if not callable(effects):
            raise TypeError(
                f"effects must map patterns of tool names to effects, or be a function of the tool, not "
                f"{type(effects).__name__}"
            )
        check_plain_function("effects", effects)
        return effects
    for pattern, effect in effects.items():
        if not isinstance(pattern, str):
            raise TypeError(f"effects: {pattern!r} isn't a tool's name or a pattern of names, such as 'get_*'")
        if not isinstance(effect, str) or effect not in EFFECTS:
            raise ValueError(f"effects: {effect!r} of {pattern!r} isn't one of {', '.join(_CARE)}")
    return dict(effects)


def annotated_effect(annotations: object) -> Effect | None:
    """Return the effect that a tool's annotations declare; None if they declare none.

    A tool that is read-only and destructive at once counts as a write (MCP, `ToolAnnotations`).
    """
    reads, destroys = read_only_hint(annotations), destructive_hint(annotations)
    if reads is True:
        return "write" if destroys is True else "read"
    if is_idempotent(annotations):
        return "idempotent"
    return "write" if reads is False or destroys is not None else None


def effect_said(effects: Effects, tool: Any, name: str, *, exact: bool) -> Effect | None:
    """Return what `ToolErrors(effects=...)` says of a tool: the most careful of all patterns that match its name.

    Args:
        effects: The setting.
        tool: The host's tool object; None if there is none, as for a function that is only decorated.
        name: The tool's name.
        exact: Whether a pattern, unlike the tool's own name, can only call it a write.
    """
    if not isinstance(effects, Mapping):
        if tool is None:
            return None
        said: Any = look(effects, _FAILED, tool)
        if said is None or (isinstance(said, str) and said in EFFECTS):
            return cast("Effect | None", said)
        tell_once("effects", "the function in effects= raised or returned no effect; the tool counts as undeclared")
        return None
    matches = [
        effect
        for pattern, effect in effects.items()
        if pattern == name or (fnmatchcase(name, pattern) and not (exact and effect != "write"))
    ]
    return max(matches, key=_CARE.index, default=None)


def weakened(effects: Effects | None, tool: Any, annotations: object) -> str | None:
    """Return a warning if the setting calls a tool less dangerous than its annotations do, which it can't."""
    annotated = annotated_effect(annotations)
    if effects is None or annotated is None:
        return None
    said = effect_said(effects, tool, str(tool.name), exact=False)
    if said is None or _CARE.index(said) >= _CARE.index(annotated):
        return None
    return (
        f"effects= calls the tool {tool.name!r} {said!r}, but its annotations declare {annotated!r}, which applies: "
        f"change the annotations, or use @guard(effect={said!r})"
    )
