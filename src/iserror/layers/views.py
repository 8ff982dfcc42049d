"""`Views`: what a server's look-up gives to the host that runs a tool.

Hosts log and trace what leaves a tool object. So in a served call the look-up returns a *view* of the tool: a copy
whose run method goes through `guarded_run`. The tool object itself stays as it is: other servers may have it too, with
another guard or none.
"""

from __future__ import annotations

import weakref
from typing import Any

from iserror.layers.effects import weakened
from iserror.layers.function import body_of
from iserror.layers.options import Options, options_of
from iserror.layers.settings import Settings
from iserror.layers.toolhost import Layer, ToolHost
from iserror.layers.toolrun import guarded_run
from iserror.logs.sink import tell_once
from iserror.support.look import look, shield
from iserror.support.sdk import TOOL_FUNCTION, TOOL_PARENT, is_the_hosts


class Views:
    """The views of tool objects on one server, each made once for a tool object as it is."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[weakref.ref[Any], Settings | None, dict[str, Any], Any]] = {}

    def of(self, host: ToolHost, tool: Any, settings: Settings | None) -> Any:
        """Return the tool as the host runs it for the current call.

        Args:
            host: The adapter.
            tool: The host's tool object (a pydantic model).
            settings: Those of the guard attached to the server that has the tool, if there is one.
        """
        made = self._made.get(id(tool))
        if made is not None and made[0]() is tool and made[1] is settings and _is_unchanged(made[2], tool.__dict__):
            return made[3]
        # A tool without a view runs as it is: the wire layer still answers for it.
        return shield(self._make, tool, host, tool, settings)

    def _make(self, host: ToolHost, tool: Any, settings: Settings | None) -> Any:
        view = _with_body(tool, settings)
        if view is None:
            return tool
        said = weakened(settings.effects, view, view.annotations) if settings is not None else None
        if said is not None:  # a tool that was registered after `attach`, which warns of the others
            tell_once(f"effects of {view.name}", said)
        # A class of the user's may keep state on the object: its own method runs on the tool itself.
        runner = view if is_the_hosts(type(tool)) else tool
        inner = getattr(runner, host.run)
        options, body = _body(view)
        errors = settings.errors if settings is not None else None
        layer = Layer(host, view, errors, options, body, host.delegates(tool))

        async def run(arguments: Any, *args: Any, **kwargs: Any) -> Any:
            return await guarded_run(layer, arguments, lambda: inner(arguments, *args, **kwargs))

        view.__dict__[host.run] = run
        if runner is view:
            key = id(tool)
            gone = weakref.ref(tool, lambda _: self._made.pop(key, None))
            self._made[key] = (gone, settings, dict(tool.__dict__), view)
        return view


def _is_unchanged(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return True if the fields are the same objects. Comparing their values would run the user's code."""
    if len(before) != len(now):
        return False
    for key, value in before.items():  # noqa: SIM110 - all() would enter a generator for each field, on every call
        if key not in now or now[key] is not value:
            return False
    return True


def _with_body(tool: Any, settings: Settings | None) -> Any:
    """Return a copy of a tool object with its function marked as the body; of a transformed tool, the one behind it.

    Returns:
        The copy; None if a class of the user's refuses to be copied.
    """
    copy = look(tool.model_copy, None)
    if copy is None:
        return None
    fields = copy.__dict__
    if TOOL_PARENT in fields:
        fields[TOOL_PARENT] = _with_body(fields[TOOL_PARENT], settings) or fields[TOOL_PARENT]
    fn = fields.get(TOOL_FUNCTION)
    # fastmcp's transformed tools forward through a function of the host, which isn't the body of a tool.
    if fn is not None and not is_the_hosts(fn):
        fields[TOOL_FUNCTION] = body_of(fn, settings)
    return copy


def _body(tool: Any) -> tuple[Options | None, object]:
    """Return the options of a tool's function, and its key."""
    fields = tool.__dict__
    options = options_of(fields.get(TOOL_FUNCTION))
    if options is None and TOOL_PARENT in fields:
        return None, _body(fields[TOOL_PARENT])[1]
    if options is None:
        return None, None
    return (options if options.settings is not None else None), options.key
