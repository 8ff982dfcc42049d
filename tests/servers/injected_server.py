"""Guarded servers for `iserror check --inject`, with a tool of each kind. A body that runs says so in `RAN`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

if str(Path(__file__).parents[2]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[2]))

from iserror import ErrorMap, ToolErrors
from tests.helpers import hosts

RAN: list[str] = []
PAGED: list[BaseException] = []


class NotFound(Exception):
    def __init__(self, item_id: str, known: list[str]) -> None:
        super().__init__(f"no {item_id}")
        self.item_id, self.known = item_id, known


class Busy(Exception):
    def __init__(self) -> None:
        super().__init__("busy")


class Upstream(Exception):
    """Can be made of nothing that a check would think of."""

    def __init__(self, *, response: Any) -> None:
        super().__init__(response.url)
        self.response = response


class Unmade(Exception):
    def __new__(cls, *args: object) -> Unmade:
        raise TypeError("made by its library only")


class Colour(Enum):
    RED = "red"


class Item(BaseModel):
    id: str
    size: int


def errors() -> ErrorMap:
    """A map with classes of every kind."""
    made = ErrorMap()
    made.add(NotFound, code="NOT_FOUND", category="not_found", message="No {exc.item_id}.", hint="Not {exc.known}.")
    made.add(Busy, code="BUSY", category="unavailable", message="Busy.", retryable=True, retry_after=2)
    made.add(
        Upstream,
        code="UPSTREAM_FAILED",
        category="unavailable",
        message="It said {exc.response.reason}.",
        details={"status": "response.status"},
    )
    made.add("json.JSONDecodeError", code="BAD_JSON", category="data_loss", message="No JSON: {exc.doc}.")
    made.add("no_such_package.Error", code="NO_SUCH", category="internal", message="None.")
    made.add(UnicodeDecodeError, code="BAD_TEXT", category="data_loss", message="No text.")
    made.add(Unmade, code="UNMADE", category="internal", message="Not made.")
    return made


def own_errors() -> ErrorMap:
    """The map of one tool."""
    made = ErrorMap()
    made.add(LookupError, code="NO_ROW", category="aborted", message="No row {exc.args}.", outcome="partial")
    return made


def guarded_tools(server: Any, guard: ToolErrors) -> None:
    """Tools with a decorator."""

    @server.tool()
    @guard(effect="read")
    async def read(item_id: str) -> Item:
        RAN.append("read")
        if item_id == "gone":
            raise NotFound(item_id, [])
        return Item(id=item_id, size=1)

    @server.tool()
    @guard(errors=own_errors(), timeout=30, idempotency_key="key")
    async def write(size: Annotated[int, Field(gt=4)], key: str) -> list[str]:
        RAN.append("write")
        return []

    @server.tool()
    @guard
    def plain(when: datetime, colour: Colour, rows: Annotated[list[Item], Field(min_length=1)]) -> str:
        RAN.append("plain")
        return ""


def bare_tools(server: Any) -> None:
    """Tools without one."""

    @server.tool(annotations=hosts.annotations(readOnlyHint=True))
    async def bare(context: hosts.Context, flag: bool) -> dict[str, int]:
        RAN.append("bare")
        return {}

    @server.tool()
    def month(month: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]) -> str:
        RAN.append("month")
        return month

    if hosts.IS_FASTMCP:  # mcp does not run generators

        @server.tool()
        async def items() -> AsyncIterator[int]:
            RAN.append("items")
            yield 1


def attached() -> Any:
    """A server with a guard and a hook."""
    server = hosts.new_server("attached")
    guard = ToolErrors(errors(), on_error=lambda exc, failure: PAGED.append(exc))
    guard.attach(server)
    guarded_tools(server, guard)
    bare_tools(server)
    return server


def decorated() -> Any:
    """A server with decorators only, and a tool that has none."""
    server = hosts.new_server("decorated")
    guarded_tools(server, ToolErrors(errors()))

    @server.tool()
    def forgotten() -> str:
        RAN.append("forgotten")
        return ""

    return server


def bare() -> Any:
    """A server without a guard."""
    server = hosts.new_server("bare")
    bare_tools(server)
    return server


def small(errors: ErrorMap | None = None, **settings: Any) -> Any:
    """A guarded server with one tool."""
    server = hosts.new_server("small")
    ToolErrors(errors, **settings).attach(server)

    @server.tool()
    async def do() -> Item:
        RAN.append("do")
        return Item(id="1", size=1)

    return server


def vouching() -> Any:
    """The same with a map that calls an attribute safe."""
    made = ErrorMap()
    made.add(NotFound, code="NOT_FOUND", category="not_found", message="No {exc.item_id}.", safe=["item_id"])
    return small(made)


def billing() -> Any:
    """The example's tools, without its payment API."""
    sys.path.insert(0, str(hosts.ROOT / "examples" / "billing"))
    from error_map import billing_errors
    from service import Billing
    from tools import register

    server = hosts.new_server("billing")
    register(server, Billing(Path(":memory:"), "http://127.0.0.1:9"), ToolErrors(billing_errors))
    return server


def tool_objects() -> Any:
    """A server whose tools are objects of many classes."""
    return _fastmcp_objects() if hosts.IS_FASTMCP else _mcp_objects()


def _mcp_objects() -> Any:
    server = small(errors())
    manager = server._tool_manager
    kind = type(manager.get_tool("do"))

    class OwnRun(kind):  # type: ignore[misc, valid-type]
        async def run(self, *args: Any, **kwargs: Any) -> Any:
            RAN.append("own_run")
            return await super().run(*args, **kwargs)

    class Derived(kind):  # type: ignore[misc, valid-type]
        pass

    async def body(n: int) -> list[int]:
        RAN.append("body")
        return [n]

    manager._tools["own_run"] = OwnRun.from_function(body, name="own_run")
    manager._tools["derived"] = Derived.from_function(body, name="derived")
    find = manager.get_tool

    def anew(name: str) -> Any:
        tool = find(name)
        return tool.model_copy(update={"fn": body}) if name == "derived" and server.anew else tool

    manager.get_tool, server.anew = anew, False
    return server


def _fastmcp_objects() -> Any:
    from fastmcp.server import create_proxy
    from fastmcp.server.transforms import ToolTransform
    from fastmcp.tools.base import Tool
    from fastmcp.tools.tool_transform import ArgTransform, ArgTransformConfig, ToolTransformConfig

    server, inner, remote = small(errors()), hosts.new_server("inner"), hosts.new_server("remote")
    other = ErrorMap()
    other.add(NotFound, code="OTHER", category="aborted", message="Other.")
    ToolErrors(other).attach(inner)
    bare_tools(inner)

    @remote.tool
    def behind() -> str:
        RAN.append("behind")
        return ""

    server.mount(inner, "inner")
    server.mount(create_proxy(remote), "far")

    class OwnRun(Tool):  # type: ignore[misc]
        async def run(self, arguments: dict[str, Any]) -> Any:
            RAN.append("own_run")

    class OwnDispatch(Tool):  # type: ignore[misc]
        async def _run(self, *args: Any, **kwargs: Any) -> Any:
            RAN.append("own_dispatch")

    nothing = {"type": "object", "properties": {}}
    server.add_tool(OwnRun(name="own_run", parameters=nothing))
    server.add_tool(OwnDispatch(name="own_dispatch", parameters=nothing))

    @server.tool
    def base(a: int, b: str = "x") -> str:
        RAN.append("base")
        return ""

    async def custom(z: int) -> str:
        RAN.append("custom")
        return ""

    base = Tool.from_tool(base)
    server.add_tool(Tool.from_tool(base, name="renamed", transform_args={"a": ArgTransform(name="z")}))
    arguments = {"a": ArgTransform(name="z"), "b": ArgTransform(hide=True)}
    server.add_tool(Tool.from_tool(base, name="custom", transform_fn=custom, transform_args=arguments))
    config = ToolTransformConfig(name="ground", arguments={"a": ArgTransformConfig(name="left")})
    server.add_transform(ToolTransform({"base": config}))
    return server
