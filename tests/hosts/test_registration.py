"""However and whenever a tool gets onto a server: it is guarded, by one guard, once."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from iserror import ToolErrors, ToolFailure
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import HOST, IS_FASTMCP, new_server, normalize

pytestmark = [pytest.mark.host, pytest.mark.python, pytest.mark.anyio]

if IS_FASTMCP:
    from fastmcp.tools.base import Tool
elif HOST == "mcp1":
    from mcp.server.fastmcp.tools.base import Tool
    from mcp.server.fastmcp.tools.tool_manager import ToolManager
    from mcp.server.fastmcp.utilities.func_metadata import ArgModelBase
else:
    from mcp.server.mcpserver.tools.base import Tool
    from mcp.server.mcpserver.tools.tool_manager import ToolManager
    from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase

only_mcp = pytest.mark.skipif(IS_FASTMCP, reason="the SDK's tool table, which fastmcp does not have")
only_fastmcp = pytest.mark.skipif(not IS_FASTMCP, reason="of fastmcp only")


def make_guard() -> ToolErrors:
    return ToolErrors(scenarios.error_map())


def not_found(tool: str) -> dict[str, Any]:
    """The whole result that a missing invoice must give."""
    return scenarios.failed(tool, *scenarios.NOT_FOUND, **scenarios.NOT_FOUND_MORE)[0]


def safe_crash(tool: str) -> dict[str, Any]:
    """The whole result of a crash in a tool that only reads."""
    return scenarios.failed(tool, *scenarios.CRASH[:3], "not_applied", scenarios.STOP)[0]


async def listed(server: Any) -> list[dict[str, Any]]:
    """What `tools/list` shows, whole."""
    tools = await server.list_tools()
    tools = [tool.to_mcp_tool() if IS_FASTMCP else tool for tool in tools]
    return [tool.model_dump(mode="json", by_alias=True) for tool in tools]


async def result_of(server: Any, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    async with hosts.in_memory(server) as call:
        return normalize(await call(tool, arguments))


# --- ways to register ------------------------------------------------------------------------------------------


def lookup():  # type: ignore[no-untyped-def]  # no return type: no output schema
    raise scenarios.InvoiceNotFound("INV-42")


async def lookup_async():  # type: ignore[no-untyped-def]
    raise scenarios.InvoiceNotFound("INV-42")


class OwnRun(Tool):
    """A tool object whose body is its own run method, as some servers have."""

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        raise scenarios.InvoiceNotFound("INV-42")


def by_decorator(server: Any) -> None:
    server.tool(name="lookup")(lookup)


def by_decorator_async(server: Any) -> None:
    server.tool(name="lookup")(lookup_async)


def by_add_tool(server: Any) -> None:
    server.add_tool(Tool.from_function(lookup, name="lookup") if IS_FASTMCP else lookup)


def by_tool_subclass(server: Any) -> None:
    if IS_FASTMCP:
        server.add_tool(OwnRun(name="lookup", parameters={"type": "object", "properties": {}}))
    else:
        server._tool_manager._tools["lookup"] = OwnRun.from_function(lookup, name="lookup")


def by_factory(server: Any) -> None:
    def make(name: str) -> Callable[[], Any]:
        def made():  # type: ignore[no-untyped-def]
            raise scenarios.InvoiceNotFound("INV-42" if name == "lookup" else "INV-1")

        return made

    for name in ("first", "lookup", "last"):
        server.tool(name=name)(make(name))


WAYS = [by_decorator, by_decorator_async, by_add_tool, by_tool_subclass, by_factory]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("register", WAYS)
async def test_every_way_to_register(register: Callable[[Any], None], when: str, lines: Lines) -> None:
    """A tool registered before or after attach, in any way, gives the mapped result and one line."""
    guard, server = make_guard(), new_server()
    if when == "before":
        register(server)
    guard.attach(server)
    if when == "after":
        register(server)
    assert not_found("lookup") == await result_of(server, "lookup")
    assert ["INVOICE_NOT_FOUND"] == [line["code"] for line in lines.read()]


async def test_tools_registered_in_a_lifespan(lines: Lines) -> None:
    """A tool that the server's lifespan registers is guarded."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        app.tool(name="lookup")(lookup)
        yield

    server = new_server(lifespan=lifespan)
    make_guard().attach(server)
    assert not_found("lookup") == await result_of(server, "lookup")
    assert 1 == len(lines.read())


async def test_attach_in_a_lifespan() -> None:
    """A guard that the lifespan attaches is in force for the calls that follow."""
    guard = make_guard()

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        guard.attach(app)
        yield

    server = new_server(lifespan=lifespan)
    server.tool(name="lookup")(lookup)
    assert not_found("lookup") == await result_of(server, "lookup")


async def test_a_tool_registered_between_calls() -> None:
    """A tool registered by another tool's call is guarded in the next call."""
    server = new_server()
    make_guard().attach(server)

    @server.tool()
    def unlock() -> str:
        server.tool(name="lookup")(lookup)
        return "unlocked"

    async with hosts.in_memory(server) as call:
        await call("unlock")
        assert not_found("lookup") == normalize(await call("lookup"))


@only_mcp
@pytest.mark.parametrize("what", ["table", "manager"])
async def test_the_tool_table_replaced_after_attach(what: str) -> None:
    """A server that replaces its tool table, or the whole manager, stays guarded."""
    server = new_server()
    make_guard().attach(server)
    async with hosts.in_memory(server) as call:
        if what == "table":
            server._tool_manager._tools = {"lookup": Tool.from_function(lookup)}
        else:
            server._tool_manager = ToolManager(tools=[Tool.from_function(lookup)])
        assert not_found("lookup") == normalize(await call("lookup"))
        unknown = {"code": -32602, "message": "Unknown tool: gone", "data": {"iserror/request_id": "<id>"}}
        assert {"error": unknown} == normalize(await call("gone"))


@only_mcp
async def test_the_argument_model_swapped() -> None:
    """Arguments that a swapped model refuses are refused in the guard's words, without the caller's key."""

    class Strict(ArgModelBase, extra="forbid"):  # type: ignore[misc, valid-type]
        amount: int

    def pay(amount: int) -> str:
        return "paid"

    server = new_server()
    ToolErrors(invalid_arguments="result").attach(server)
    server.add_tool(pay)
    tool = server._tool_manager._tools["pay"]
    tool.fn_metadata = tool.fn_metadata.model_copy(update={"arg_model": Strict})
    expected = scenarios.failed(
        "pay",
        "INVALID_ARGUMENTS",
        "an argument that this tool does not have",
        "invalid_argument",
        "not_applied",
        scenarios.CHANGE,
        schema=True,
    )[0]
    assert expected == await result_of(server, "pay", {"amount": 1, "made_up": 2})
    assert "paid" == (await result_of(server, "pay", {"amount": 1}))["result"]["content"][0]["text"]


@only_fastmcp
async def test_a_provider_added_after_attach() -> None:
    """A tool of a provider that is added after attach is guarded."""
    from fastmcp.server.providers import LocalProvider

    server = new_server()
    make_guard().attach(server)
    provider = LocalProvider()
    provider.add_tool(Tool.from_function(lookup))
    server.add_provider(provider)
    assert not_found("lookup") == await result_of(server, "lookup")


@pytest.mark.parametrize("order", ["below", "above"])
async def test_a_replaced_signature(order: str) -> None:
    """A `__signature__` set on the function or on the guarded one is what the host sees and calls."""
    guard, server = make_guard(), new_server()

    def take(**given: Any) -> Any:
        raise scenarios.InvoiceNotFound(given["invoice_id"])

    def sign(fn: Any) -> Any:
        parameter = inspect.Parameter("invoice_id", inspect.Parameter.KEYWORD_ONLY, annotation=str)
        fn.__signature__ = inspect.Signature([parameter])
        fn.__annotations__ = {"invoice_id": str}
        return fn

    guard.attach(server)
    server.tool(name="lookup")(guard(sign(take)) if order == "below" else sign(guard(take)))
    tool = (await listed(server))[0]
    assert ["invoice_id"] == list(tool["inputSchema"]["properties"])
    assert not_found("lookup") == await result_of(server, "lookup", {"invoice_id": "INV-42"})


# --- attach ----------------------------------------------------------------------------------------------------


async def test_attach_twice_is_harmless(lines: Lines) -> None:
    """The same guard attached twice gives one result, one line and one call of the hook."""
    told: list[BaseException] = []
    guard = ToolErrors(scenarios.error_map(), on_error=lambda exc, failure: told.append(exc))
    server = new_server()
    guard.attach(server)
    by_decorator(server)
    guard.attach(server)
    assert not_found("lookup") == await result_of(server, "lookup")
    assert [1, 1] == [len(lines.read()), len(told)]


async def test_another_guard_is_refused() -> None:
    """A second guard on one server is a ValueError that says what to do, and the first stays in force."""
    server = new_server("billing")
    make_guard().attach(server)
    by_decorator(server)
    with pytest.raises(ValueError) as refused:
        ToolErrors().attach(server)
    assert (
        "another guard is attached to server 'billing': attach one guard, and give tools entries of their own with "
        "@guard(errors=...)"
    ) == str(refused.value)
    assert not_found("lookup") == await result_of(server, "lookup")


@pytest.mark.parametrize("thing", [None, "billing", object(), lookup, dict, new_server])
def test_attach_to_no_server(thing: Any) -> None:
    """What is no supported server gets a TypeError that names what is."""
    with pytest.raises(
        TypeError, match=r"supported are mcp 1\.x FastMCP, mcp 2\.x MCPServer, and FastMCP of the fastmcp"
    ):
        make_guard().attach(thing)


def test_attach_to_the_lowlevel_server() -> None:
    """The lowlevel server inside one gets a TypeError that says where to attach."""
    server = new_server()
    lowlevel = server._lowlevel_server if HOST == "mcp2" else server._mcp_server
    with pytest.raises(TypeError, match="attach to the server that holds it"):
        make_guard().attach(lowlevel)


async def test_one_guard_on_two_servers() -> None:
    """One guard serves several servers, each under its own name."""
    guard, servers = make_guard(), [new_server("one"), new_server("two")]
    for server in servers:
        guard.attach(server)
        by_decorator(server)
    assert [not_found("lookup")] * 2 == [await result_of(server, "lookup") for server in servers]


@pytest.mark.parametrize("attach", ["first", "between", "last"])
async def test_guard_above_the_registration(attach: str) -> None:
    """`@guard(...)` above `@server.tool()` counts all the same: its effect and its entries are in force."""
    guard, server = make_guard(), new_server()
    if attach == "first":
        guard.attach(server)

    def crash():  # type: ignore[no-untyped-def]
        raise RuntimeError(scenarios.DSN)

    registered = server.tool(name="crash")(crash)
    if attach == "between":
        guard.attach(server)
    above = guard(effect="read")(registered)
    if attach == "last":
        guard.attach(server)
    assert safe_crash("crash") == await result_of(server, "crash")
    with pytest.raises(ToolFailure):
        above()


def test_guard_on_a_tool_object() -> None:
    """A registered tool object below @guard is a TypeError that names the tool and the right place."""
    with pytest.raises(TypeError, match="'lookup' is registered already: put @guard below the decorator"):
        make_guard()(Tool.from_function(lookup))


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # fastmcp's, of the wrong shape
async def test_a_tool_subclass_that_extends_the_hosts_own() -> None:
    """A subclass's run method runs on the tool itself, and what fails below it keeps its kind."""
    if IS_FASTMCP:
        from fastmcp.tools.function_tool import FunctionTool as HostsTool
    else:
        HostsTool = Tool

    class Counting(HostsTool):  # type: ignore[misc,valid-type]
        runs: int = 0

        async def run(self, *args: Any, **kwargs: Any) -> Any:
            self.runs += 1
            return await super().run(*args, **kwargs)

    def wrong_shape(n: int) -> scenarios.Order:
        return {"id": scenarios.SECRET}  # type: ignore[return-value]

    def own_validation(n: int) -> scenarios.Order:
        return scenarios.Order(id=scenarios.SECRET)  # type: ignore[arg-type]

    server = new_server()
    tools = [Counting.from_function(wrong_shape), Counting.from_function(own_validation)]
    for tool in tools:
        if IS_FASTMCP:
            server.add_tool(tool)
        else:
            server._tool_manager._tools[tool.name] = tool
    make_guard().attach(server)
    async with hosts.in_memory(server) as call:
        calls = [("wrong_shape", {"n": 1}), ("wrong_shape", {"n": "x"}), ("own_validation", {"n": 1})]
        answers = [normalize(await call(tool, arguments)) for tool, arguments in calls]
    codes = ["INVALID_OUTPUT", "INVALID_ARGUMENTS", "INTERNAL_ERROR"]
    assert codes == [hosts.text_of(answer).partition(":")[0] for answer in answers]
    assert [2, 1] == [tool.runs for tool in tools]
