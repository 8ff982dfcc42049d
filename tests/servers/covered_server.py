"""Servers with every gap that the coverage checks look for, and one without; `iserror check` loads them in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from iserror import ErrorMap, ToolErrors
from tests.helpers import hosts

if hosts.IS_FASTMCP:
    from fastmcp.utilities.types import Image
elif hosts.HOST == "mcp2":
    from mcp.server.mcpserver import Image
else:
    from mcp.server.fastmcp import Image


class Handle:
    """Nothing that JSON could be made of."""


class Point:
    """JSON is made of its annotated attributes by mcp, and by fastmcp not."""

    x: int


class Row(BaseModel):
    id: int


class BillingError(Exception):
    """Never raised itself."""


class NotFound(BillingError):
    """In the map."""


class VersionNotFound(NotFound):
    """Known by its base."""


class Refused(BillingError):
    """In the map of one tool."""


class Locked(BillingError):
    """In no map."""


class Given(BillingError):
    """In the map, and raised by nobody."""


class _Internal(Exception):
    """Nobody else's."""


class Caught(Exception):
    """In the map, and only caught, asked for and named in a type."""


def fails(exc: Exception) -> None:
    try:
        raise exc
    except Caught as caught:
        seen: Caught | None = caught
        assert isinstance(seen, Caught)


def entries() -> ErrorMap:
    errors = ErrorMap()
    errors.add(NotFound, code="NOT_FOUND", category="not_found", message="It is not there.")
    errors.add(Given, code="GIVEN", category="not_found", message="It is not there.")
    errors.add(Caught, code="CAUGHT", category="not_found", message="It is not there.")
    errors.add("json.JSONDecodeError", code="BAD_JSON", category="internal", message="It is no JSON.")
    errors.add("json.NoSuchError", code="MISSPELT", category="internal", message="It is not there.")
    errors.add("json.dumps", code="NO_CLASS", category="internal", message="It is not there.")
    errors.add("no_such_library.Error", code="NOT_INSTALLED", category="internal", message="It is not there.")
    return errors


def decorated() -> Any:
    """Guarded tools and others, no guard attached."""
    server = hosts.new_server("decorated")
    guard = ToolErrors(entries())
    local = ErrorMap()
    local.add(Refused, code="REFUSED", category="failed_precondition", message="It is refused.")
    local.add("json.NoSuchErrorEither", code="MISSPELT_TOO", category="not_found", message="It is not there.")

    @server.tool()
    @guard(errors=local)
    def good() -> Row:
        fails(Refused())
        fails(VersionNotFound())
        fails(_Internal())
        raise Locked

    @guard
    @server.tool()
    def wrong_order() -> str:
        raise NotFound

    @server.tool()
    def bare() -> str:
        return ""

    return server


def attached() -> Any:
    """The same tools under a guard, and what they return."""
    server = hosts.new_server("attached")
    guard = ToolErrors(entries())
    guard.attach(server)

    @guard
    @server.tool()
    def wrong_order() -> str:
        return ""

    def handle() -> Handle:
        return Handle()

    def point() -> Point:
        return Point()

    def handles() -> list[Handle | int]:
        return []

    def function() -> Callable[..., int]:
        return abs

    def image() -> list[Image]:
        return []

    def rows() -> dict[str, list[Row] | None]:
        return {}

    for fn in (handle, point, handles, function, image, rows):
        with contextlib.suppress(PydanticUserError):  # some hosts find out by themselves
            server.tool()(fn)
    return server


def good() -> Any:
    """A server without gaps."""
    server = hosts.new_server("good")
    errors = ErrorMap()
    errors.add(BillingError, code="BILLING", category="not_found", message="It is not there.")
    errors.add(Exception, code="OTHER", category="unknown", message="Something else.")
    ToolErrors(errors).attach(server)

    @server.tool()
    def tool() -> Row:
        raise Locked

    return server
