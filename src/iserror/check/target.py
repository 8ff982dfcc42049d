"""The server to check, and how to connect to it."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from iserror.check.connection import CannotRunError, Connection, Http, safe_url, stdio
from iserror.check.memory import memory
from iserror.hosts import SUPPORTED
from iserror.hosts.inside import lowlevel_of
from iserror.redact.speech import safe_line
from iserror.support.loading import imported

_USE: Final = "use -- COMMAND, an http(s):// URL, module:object or file.py:object"


@dataclass(frozen=True)
class Target:
    """A server that a check can connect to again and again."""

    kind: Literal["stdio", "http", "memory"]
    name: str
    """The name to show, without credentials."""
    connect: Callable[[float], AbstractAsyncContextManager[Connection]]
    """Opens a connection; the argument is the timeout in seconds."""
    server: Any = None
    """The server object of a target in memory."""


def parse(target: str | None, command: Sequence[str] = ()) -> Target:
    """Read a target. A server object is loaded; a command is started by `connect`.

    Args:
        target: An `http(s)://` URL, `module:object` or `file.py:object`; None with a command.
        command: A server on stdio, with its arguments.

    Raises:
        CannotRunError: If the target isn't one of these, or can't be loaded.
    """
    if bool(command) == (target is not None):
        raise CannotRunError(f"give one target: {_USE}")
    if target is None:
        # Other arguments may be credentials.
        scripts = [word for word in command[1:2] if word.endswith((".py", ".js", ".mjs", ".ts"))]
        return Target("stdio", " ".join(Path(word).name for word in (command[0], *scripts)), lambda _: stdio(command))
    if target.startswith(("http://", "https://")):
        return Target("http", safe_url(target), Http(target).connect)
    server = load(target)
    return Target("memory", target, lambda _: memory(server), server)


def load(target: str) -> Any:
    """Return the server object that `module:object` or `file.py:object` names; a function of that name makes it.

    Raises:
        CannotRunError: If there is no such object, or it isn't a server.
    """
    place, colon, name = target.rpartition(":")
    if not (colon and place and name):
        raise CannotRunError(f"{target!r} is not a target: {_USE}")
    with _running(f"{place} cannot be imported"):
        found: Any = imported(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise CannotRunError(f"{place} has no {part!r}")
        found = getattr(found, part)
    if lowlevel_of(found) is None and callable(found):
        with _running(f"{target} cannot make a server"):
            found = found()
            if inspect.isawaitable(found):
                found = anyio.run(_awaited, found)
    if lowlevel_of(found) is None:
        raise CannotRunError(
            f"{target} is of type {type(found).__name__}: name a server or a function that makes one, of {SUPPORTED}"
        )
    return found


def call(text: str) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments in `TOOL={...}`.

    Raises:
        ValueError: If the text has another form.
    """
    tool, _, arguments = text.partition("=")
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = None
    if not tool or not isinstance(found, dict):
        raise ValueError("give a tool and its arguments as a JSON object: TOOL='{\"id\": 7}'")
    return tool, found


async def _awaited(value: Any) -> Any:
    return await value


@contextlib.contextmanager
def _running(what: str) -> Iterator[None]:
    """Run the user's code silently, and turn what it raises into one line."""
    try:
        with quiet():
            yield
    except (Exception, SystemExit) as exc:
        raise CannotRunError(f"{what}: {type(exc).__name__}: {safe_line(str(exc), 200, empty='no text')}") from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop what a server in this process prints: its output may hold secrets."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
