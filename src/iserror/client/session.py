"""A connected client: its list of tools, and how it sends a call."""

from __future__ import annotations

from typing import Any, Final

from iserror.support.sdk_client import next_page
from iserror.support.sdk_client import tool_sender as sender

__all__ = ["MAX_PAGES", "by_name", "list_tools", "sender"]

MAX_PAGES: Final = 100
"""Pages of `tools/list` to ask for: a server may return cursors forever."""


def by_name(tools: Any) -> dict[str, Any]:
    """Return listed tools by their names.

    Args:
        tools: A result of `tools/list`, or its list of tools.

    Raises:
        TypeError: If `tools` is anything else.
    """
    try:
        return {tool.name: tool for tool in getattr(tools, "tools", tools)}
    except (TypeError, AttributeError):
        raise TypeError(f"tools must be a result of tools/list or its list, not {type(tools).__name__}") from None


async def list_tools(session: Any) -> list[Any]:
    """Return every tool that the server lists."""
    tools: list[Any] = []
    page = await session.list_tools()
    for _ in range(MAX_PAGES):
        if isinstance(page, list):  # this client asks for all pages itself
            return page
        tools += page.tools
        more = next_page(session, page)
        if more is None:
            break
        page = await session.list_tools(**more)
    return tools
