"""Start a published server by its own entry point, bare or with a guard attached.

`python launch.py bare|packs|mapped MODULE:FUNCTION [ARGUMENT ...]`. The host's `run` methods are taken over, so that
the server object is found wherever the package keeps it. `mapped` adds the entries that `servers.toml` names, in
`PUBLISHED_MAP`, and converts errors that are returned as successes.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from importlib import import_module
from typing import Any

HOSTS = ("mcp.server.fastmcp:FastMCP", "mcp.server.mcpserver:MCPServer", "fastmcp:FastMCP")
RUNS = ("run", "run_async", "run_stdio_async", "run_http_async")


def found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def guard(how: str) -> Any:
    """The guard that an author would attach: with the packs of what is installed, and a few entries."""
    import iserror

    errors = iserror.ErrorMap()
    for entry in json.loads(os.environ.get("PUBLISHED_MAP", "[]")) if how == "mapped" else ():
        if entry.get("message") == "OwnWords()":
            entry["message"] = iserror.OwnWords()
        name = entry.pop("exception", None)
        if isinstance(name, str) and "." not in name:
            name = getattr(import_module("builtins"), name)
        errors.add(name, **entry)
    errors.include(*iserror.packs.detect())
    return iserror.ToolErrors(errors, returned_errors="convert" if how == "mapped" else "log")


def attach_before_it_runs(how: str) -> None:
    attached: set[int] = set()
    for place in HOSTS:
        try:
            kind = found(place)
        except (ImportError, AttributeError):
            continue
        for name in RUNS:
            method = vars(kind).get(name) or getattr(kind, name, None)
            if method is None:
                continue

            def run(self: Any, *args: Any, _method: Any = method, **kwargs: Any) -> Any:
                if id(self) not in attached:
                    attached.add(id(self))
                    guard(how).attach(self)
                return _method(self, *args, **kwargs)

            setattr(kind, name, functools.wraps(method)(run))


def main() -> None:
    how, entry, *arguments = sys.argv[1:]
    if how != "bare":
        attach_before_it_runs(how)
    sys.argv = [entry, *arguments]
    result = found(entry)()
    if hasattr(result, "__await__"):
        import asyncio

        asyncio.run(result)


main()
