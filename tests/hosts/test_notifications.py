"""What a tool sends while it runs: its log messages and its progress, redacted, else as on the bare host."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from iserror import ToolErrors
from tests import scenarios
from tests.helpers.hosts import HOST, IS_FASTMCP, ON_SDK_1, Context, in_memory, new_server

pytestmark = [
    pytest.mark.host,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:.*SEP-2577"),  # from 2026-07-28 on
]

DSN = scenarios.DSN


async def sent(body: Any, arguments: dict[str, Any] | None = None, *, attach: bool = True) -> list[Any]:
    """The data of the log messages and the words of the progress that a client gets during a call."""
    server, found = new_server(), []
    server.tool(name="tool")(body)
    if attach:
        ToolErrors().attach(server)

    async def log(message: Any, *args: Any) -> None:
        found.append(message.data)

    async def progress(done: float, total: Any, message: Any = None) -> None:
        found.append(message)

    ending = "handler" if IS_FASTMCP else "callback"
    callbacks: dict[str, Any] = {"log_handler" if IS_FASTMCP else "logging_callback": log}
    if not ON_SDK_1:
        callbacks["mode"] = "legacy"
    async with in_memory(server, **callbacks) as call:
        await call("tool", arguments, **{f"progress_{ending}": progress})
        await anyio.wait_all_tasks_blocked()
    return found


async def complain(ctx: Context) -> str:
    await ctx.error(f"could not open {DSN}: no route to db01.internal")
    await ctx.report_progress(1, 2, f"tried {DSN}")
    raise RuntimeError(DSN)


async def help_itself(ctx: Context) -> str:
    session = ctx.session
    await session.send_log_message(level="warning", data={"dsn": DSN, "tries": 3, "open": [True, None, 1.5]})
    await session.send_log_message(level="info", data=["SELECT secret FROM users WHERE id = 7", 7])
    return "done"


async def chat(ctx: Context) -> str:
    await ctx.info("Step 1 of 2:\n  reading 7 rows, 'é' included")
    await ctx.report_progress(1, 2, "half of it")
    await ctx.session.send_log_message(level="info", data={"rows": 7, "names": ["Ann", "Bob"], "rate": 0.5})
    return "done"


async def name_a_file(path: str, ctx: Context) -> str:
    await ctx.error(f"no such file: {path}; the cache is /srv/cache/7")
    return "done"


@pytest.mark.parametrize("body", [complain, help_itself])
async def test_secrets(body: Any) -> None:
    """No credential, host, path or statement goes ahead of the safe answer."""
    bare = json.dumps(await sent(body, attach=False))
    assert "hunter2" in bare
    found = await sent(body)
    shown = json.dumps(found)
    for planted in ("hunter2", "10.0.0.9", "db01.internal", "FROM users"):
        assert planted not in shown
    assert len(found) == 2
    if body is help_itself:
        assert (found[0]["tries"], found[0]["open"], found[1][1]) == (3, [True, None, 1.5], 7)


async def test_harmless_notes() -> None:
    """What has nothing to hide comes as it was sent."""
    found = await sent(chat)
    assert found == await sent(chat, attach=False)
    assert len(found) == 3


async def test_the_callers_own_path() -> None:
    """A path that the caller named comes back in a log message, too; others don't."""
    (said,) = await sent(name_a_file, {"path": "/home/ann/report.pdf"})
    text = said["msg"] if IS_FASTMCP else said
    assert text == "no such file: /home/ann/report.pdf; the cache is [redacted:path]"


@pytest.mark.skipif(HOST not in ("fastmcp3", "fastmcp4"), reason="only fastmcp has checks in front of a tool")
class TestDenied:
    """C48: a check refuses a tool that the caller may see."""

    async def answer(self, *, hidden: bool = False, failing: bool = False, errors: Any = None) -> dict[str, Any]:
        from fastmcp.exceptions import AuthorizationError
        from fastmcp.server.middleware import Middleware

        lists: list[str] = []

        class Deny(Middleware):
            async def on_call_tool(self, context: Any, call_next: Any) -> Any:
                raise AuthorizationError("You need the role writer, says db01.internal.")

            async def on_list_tools(self, context: Any, call_next: Any) -> Any:
                lists.append("listed")
                if failing:
                    raise RuntimeError("no list")
                tools = await call_next(context)
                return [] if hidden else tools

        def pay() -> str:
            return "ran"

        server = new_server()
        server.tool()(pay)
        server.add_middleware(Deny())
        ToolErrors(errors).attach(server)
        async with in_memory(server) as call:
            answer: dict[str, Any] = await call("pay")
            assert lists if ON_SDK_1 else lists == ["listed"]  # mcp 1.x lists for itself, too
        return answer

    async def test_a_listed_tool(self) -> None:
        """It is denied in the author's words, and nothing was applied."""
        result = (await self.answer())["result"]
        failure = result["_meta"]["iserror/failure"]
        assert failure["code"] == "PERMISSION_DENIED"
        assert failure["message"] == "You need the role writer, says [redacted:host]."
        assert (failure["outcome"], failure["advice"]) == ("not_applied", "stop and tell the user")

    @pytest.mark.parametrize("settings", [{"hidden": True}, {"failing": True}])
    async def test_a_hidden_tool(self, settings: dict[str, bool]) -> None:
        """What the caller can't list doesn't exist for it, and neither if the list fails."""
        if "failing" in settings and ON_SDK_1:
            pytest.skip("mcp 1.x lists before every call, which fails then")
        answer = await self.answer(**settings)
        assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "Unknown tool: pay")

    async def test_the_map_may_say_otherwise(self) -> None:
        """An entry for the class gives its own code."""
        from iserror import ErrorMap

        errors = ErrorMap()
        errors.add(
            "fastmcp.exceptions.AuthorizationError",
            code="ROLE_MISSING",
            category="permission_denied",
            message="Ask for the role.",
        )
        failure = (await self.answer(errors=errors))["result"]["_meta"]["iserror/failure"]
        assert (failure["code"], failure["message"]) == ("ROLE_MISSING", "Ask for the role.")
