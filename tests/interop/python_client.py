"""Drive servers by the Python client of this environment: mcp 1.x, mcp 2.x, or fastmcp's.

Reads and prints what clients.mjs does, and adds what `iserror.client.classify` says of each answer. Of fastmcp's
client, which raises for a failed tool unless told not to, an answer also has what it `raised`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

from iserror.client import classify
from tests.helpers.hosts import IS_FASTMCP, ProtocolError, fastmcp_http, fastmcp_stdio, sdk_http, sdk_stdio


def connected(target: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
    """The client's session with one target."""
    if "url" in target:
        return (fastmcp_http if IS_FASTMCP else sdk_http)(target["url"])
    python, *command = target["command"]
    return (fastmcp_stdio if IS_FASTMCP else sdk_stdio)(*command, python=python)


def in_json(result: Any) -> dict[str, Any]:
    """What the client handed on, in the names of the wire."""
    if not IS_FASTMCP:
        dumped: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
    return {
        "content": [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content],
        "isError": result.is_error,
        "_meta": result.meta,
        **({} if result.structured_content is None else {"structuredContent": result.structured_content}),
    }


def classified(handed_on: Any) -> dict[str, Any]:
    """The outcome, as far as the tests compare it."""
    outcome = classify(handed_on)
    return {
        "kind": type(outcome).__name__,
        "code": getattr(outcome, "code", None),
        "request_id": outcome.request_id,
    }


async def answer(session: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make one call."""
    settings = {"raise_on_error": False} if IS_FASTMCP else {}
    try:
        result = await session.call_tool(tool, arguments, **settings)
    except ProtocolError as exc:
        error = {"code": exc.error.code, "message": exc.error.message, "data": exc.error.data}
        return {"error": {"type": type(exc).__name__, **error}, "classified": classified(exc)}
    except Exception as exc:
        return {"error": {"type": type(exc).__name__, "message": str(exc)}, "classified": classified(exc)}
    told = {"result": in_json(result), "classified": classified(result)}
    if IS_FASTMCP and result.is_error:
        try:
            await session.call_tool(tool, arguments)
        except Exception as exc:
            told["raised"] = {"type": type(exc).__name__, "message": str(exc), "classified": classified(exc)}
    return told


async def converse(target: dict[str, Any], calls: list[Any]) -> dict[str, Any]:
    """Make all calls on one connection."""
    async with connected(target) as session:
        await session.list_tools()  # from here on the official clients validate results against the output schemas
        answers = [await answer(session, tool, arguments) for tool, arguments in calls]
        # None on the older ones, which negotiate nothing newer than 2025-11-25.
        return {"revision": getattr(session, "protocol_version", None), "answers": answers}


async def main() -> None:
    """Read, drive, print."""
    asked = json.load(sys.stdin)
    print(json.dumps([await converse(target, asked["calls"]) for target in asked["targets"]]))


if __name__ == "__main__":
    asyncio.run(main())
