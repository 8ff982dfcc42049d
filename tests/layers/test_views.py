"""What a view of a tool must not change: the tool itself, what users do with it, and other servers."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import pytest

from iserror import ErrorMap, ToolErrors, ToolFailure
from iserror.testing import assert_no_leak, assert_tool_error
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, ToolError, failure_of, new_server, text_of

pytestmark = [pytest.mark.host, pytest.mark.anyio]

only_fastmcp = pytest.mark.skipif(not IS_FASTMCP, reason="of fastmcp only")


def with_code(code: str) -> ToolErrors:
    errors = ErrorMap()
    errors.add(scenarios.InvoiceNotFound, code=code, category="not_found", message="Gone.")
    return ToolErrors(errors)


async def tool_of(server: Any, name: str) -> Any:
    """The tool object as a user of the host gets it."""
    return await server.get_tool(name) if IS_FASTMCP else server._tool_manager.get_tool(name)


async def test_a_tool_changed_inside_a_call_is_changed() -> None:
    """A tool's body that looks a tool up and changes it changes the tool, not a copy."""
    server = new_server()
    ToolErrors().attach(server)

    def target():  # type: ignore[no-untyped-def]
        return "old"

    async def change():  # type: ignore[no-untyped-def]
        tool = await tool_of(server, "target")
        tool.description = "new"
        tool.fn = lambda: "new"
        return "changed"

    for fn in (target, change):
        server.tool(name=fn.__name__)(fn)
    async with hosts.in_memory(server) as call:
        assert "old" == text_of(await call("target"))
        assert "changed" == text_of(await call("change"))
        assert "new" == text_of(await call("target"))
    assert "new" == (await tool_of(server, "target")).description


async def test_a_value_that_cannot_be_compared_is_not_compared() -> None:
    """A tool whose fields hold something that resists comparison still runs."""

    class Resists:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    server = new_server()
    ToolErrors().attach(server)
    server.tool(name="target")(lambda: "done")
    async with hosts.in_memory(server) as call:
        for _ in range(3):
            (await tool_of(server, "target")).__dict__["note"] = Resists()
            assert "done" == text_of(await call("target"))


async def test_a_sync_wrapper_over_a_guard_with_a_timeout() -> None:
    """A plain wrapper that hands out the guarded coroutine runs as on the bare host, with one time limit."""
    guard, server = ToolErrors(), new_server()

    @guard(timeout=30)
    async def slow() -> str:
        return "done"

    @functools.wraps(slow)
    async def traced() -> str:
        return await slow()

    server.tool(name="slow")(traced)
    guard.attach(server)
    async with hosts.in_memory(server) as call:
        assert "done" == text_of(await call("slow"))


@pytest.mark.parametrize("deliberate", [False, True])
async def test_a_host_error_about_another_servers_tool(deliberate: bool, lines: Lines) -> None:
    """What an unguarded server's host says of a crash in it is not this author's words; what its author said is."""
    other, server = new_server("other"), new_server()

    def bad():  # type: ignore[no-untyped-def]
        raise ToolError("order 7 is closed") if deliberate else RuntimeError(scenarios.DSN)

    async def compose():  # type: ignore[no-untyped-def]
        await other.call_tool("bad", {})

    other.tool(name="bad")(bad)
    server.tool(name="compose")(compose)
    ToolErrors().attach(server)
    async with hosts.in_memory(server) as call:
        answer = await call("compose")
    expected = ("TOOL_ERROR", "order 7 is closed") if deliberate else ("INTERNAL_ERROR", scenarios.CRASH[1])
    failure = failure_of(answer)
    assert expected == (failure["code"], failure["message"])
    assert_no_leak(answer, lines.read(), planted=scenarios.SECRET)


async def test_a_group_of_guarded_failures(lines: Lines) -> None:
    """Of several guarded failures in a group the worst is said, and the log has every traceback."""
    guard = ToolErrors(scenarios.error_map())

    @guard
    def busy() -> None:
        raise scenarios.Busy

    @guard
    def crashing() -> None:
        raise ZeroDivisionError("the original")

    @guard
    async def both() -> None:
        import anyio

        async def run(tool: Any) -> None:
            tool()

        async with anyio.create_task_group() as group:
            group.start_soon(run, busy)
            group.start_soon(run, crashing)

    with pytest.raises(ToolFailure) as caught:
        await both()
    assert "INTERNAL_ERROR" == caught.value.code
    (line,) = lines.read()
    assert {"ZeroDivisionError", "tests.scenarios.Busy"} <= {
        link["type"] for chain in line["exception"][0]["exceptions"] for link in chain
    }


@only_fastmcp
async def test_a_guard_attached_to_a_mounted_server_later() -> None:
    """A mounted server's own guard counts from when it is attached, also for calls through the parent."""
    child, server = new_server("child"), new_server()

    def lookup() -> None:
        raise scenarios.InvoiceNotFound("INV-42")

    child.tool(name="lookup")(lookup)
    server.mount(child)
    ToolErrors().attach(server)
    async with hosts.in_memory(server) as call:
        assert_tool_error(await call("lookup"), code="INTERNAL_ERROR")
        with_code("CHILD_KEY").attach(child)
        assert_tool_error(await call("lookup"), code="CHILD_KEY")


@only_fastmcp
async def test_a_transformed_tool_of_a_mounted_server() -> None:
    """A crash in a mounted server's tool says nothing of itself under a transformed name either."""
    from fastmcp.server.transforms import ToolTransform
    from fastmcp.tools.tool_transform import ToolTransformConfig

    child, server = new_server("child"), new_server()

    def boom() -> None:
        raise RuntimeError(scenarios.DSN)

    child.tool(name="boom")(boom)
    server.mount(child)
    server.add_transform(ToolTransform({"boom": ToolTransformConfig(name="boom2")}))
    ToolErrors().attach(server)
    async with hosts.in_memory(server) as call:
        answer = await call("boom2")
    assert assert_tool_error(answer, code="INTERNAL_ERROR").tool == "boom2"
    assert_no_leak(answer, planted=scenarios.SECRET)


class Refused(ToolFailure):
    """An author's own subclass."""


@pytest.mark.parametrize("kind", [ToolFailure, Refused])
def test_a_pickled_failure_keeps_its_class(kind: type[ToolFailure]) -> None:
    """A failure that went through pickle is of its author's class, and a ToolError of the host."""
    copy = pickle.loads(pickle.dumps(kind("REFUSED", "No.", hint="Ask.")))
    assert (True, True) == (isinstance(copy, kind), isinstance(copy, ToolError))
    assert ("REFUSED", "No.", "Ask.", "REFUSED: No.") == (copy.code, copy.message, copy.hint, str(copy))
