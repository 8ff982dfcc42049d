"""TARGET: what is to be checked, and how to connect to it."""

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

from iserror.check.memory import lowlevel_of, memory
from iserror.check.connection import CannotRunError, Http, Wire, safe_url, stdio
from iserror.hosts import SUPPORTED
from iserror.redact.speech import safe_line
from iserror.support.loading import imported

_USE: Final = "use -- COMMAND, an http(s):// URL, module:object or file.py:object"


@dataclass(frozen=True)
class Target:
    """Something to connect to, as often as it takes."""

    kind: Literal["stdio", "http", "memory"]
    name: str
    """For a person to read, without credentials."""
    connect: Callable[[float], AbstractAsyncContextManager[Wire]]
    """Connect; the argument is the seconds that it may take."""
    server: Any = None
    """The server object, of a target in memory."""


def parse(target: str | None, command: Sequence[str] = ()) -> Target:
    """Read a target; a server object is loaded, a command is not yet started.

    Args:
        target: An `http(s)://` URL, `module:object` or `file.py:object`; None with a command.
        command: A server on stdio, with its arguments.

    Raises:
        CannotRunError: It is none of these, or cannot be loaded.
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
    """The server object that `module:object` or `file.py:object` names, or that the function of this name makes.

    Raises:
        CannotRunError: There is none.
    """
    place, colon, name = target.rpartition(":")
    if not (colon and place and name):
        raise CannotRunError(f"{target!r} is no target: {_USE}")
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
            f"{target} is no server and makes none, but a {type(found).__name__}: supported are {SUPPORTED}"
        )
    return found


def call(text: str) -> tuple[str, dict[str, Any]]:
    """A tool and its arguments, from `TOOL={...}`.

    Raises:
        ValueError: It is none.
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
    """Code of the user's runs: whatever it raises becomes one line."""
    try:
        with quiet():
            yield
    except (Exception, SystemExit) as exc:
        raise CannotRunError(f"{what}: {type(exc).__name__}: {safe_line(str(exc), 200, empty='no text')}") from None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What a server of this process prints is not ours to print: it may hold what no one should see."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
