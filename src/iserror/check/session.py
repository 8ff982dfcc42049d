"""A client session in one protocol revision, over a raw connection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import anyio

from iserror.check.connection import Connection, GoneError, Message, Status
from iserror.client import CallOutcome, classify
from iserror.client.outcome import ContractBroken, ProtocolFailed, Succeeded, ToolFailed
from iserror.redact.speech import safe_line
from iserror.support.jsonrpc import FAILURE_KEY, REQUEST_ID_KEY, STATELESS_REVISION

MAX_PAGES: Final = 100
"""Maximum number of pages of a listing."""
_INFO: Final = {"name": "iserror-check", "version": "1"}
_META: Final = "io.modelcontextprotocol/"


class NotSpokenError(Exception):
    """The server doesn't support this revision."""


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    received: Message | Status

    @cached_property
    def outcome(self) -> CallOutcome | Status:
        """The classified answer, or the HTTP status if there is no message."""
        return self.received if isinstance(self.received, Status) else classify(self.received)

    @property
    def code(self) -> int | None:
        """The JSON-RPC error code; None if the answer isn't a JSON-RPC error."""
        return self.outcome.code if isinstance(self.outcome, ProtocolFailed) else None

    @property
    def result(self) -> Mapping[str, Any]:
        """The result; empty if there is none."""
        found = self.received.get("result") if isinstance(self.received, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    @property
    def is_of_a_guard(self) -> bool:
        """Whether a guard of this library made the error."""
        error = self.received.get("error") if isinstance(self.received, Mapping) else None
        data = error.get("data") if isinstance(error, Mapping) else None
        meta = self.result.get("_meta")
        return any(isinstance(held, Mapping) and REQUEST_ID_KEY in held for held in (data, meta)) or (
            isinstance(meta, Mapping) and FAILURE_KEY in meta
        )

    @property
    def texts(self) -> list[str]:
        """The readable texts: those of the content, or the error's message."""
        if isinstance(self.outcome, (Succeeded, ToolFailed)):
            return [block["text"] for block in self.outcome.content if block.get("type") == "text"]
        error = self.received.get("error") if isinstance(self.received, Mapping) else None
        message = error.get("message") if isinstance(error, Mapping) else None
        return [message] if isinstance(message, str) else []

    def shown(self, hidden: str = "") -> str:
        """Return a short, redacted description.

        Args:
            hidden: A word to mask.
        """
        outcome = self.outcome
        text = "\n".join(self.texts)
        text = safe_line(text.replace(hidden, "CANARY") if hidden else text, 120, empty="no text")
        if isinstance(outcome, Status):
            return f"HTTP status {outcome.code} without a JSON-RPC message"
        if isinstance(outcome, ContractBroken):
            return f"an invalid answer: {outcome.reason}"
        if isinstance(outcome, Succeeded):
            return f"a success, {text!r}"
        if isinstance(outcome, ToolFailed):
            return f"a result with isError true, {text!r}"
        return f"JSON-RPC error {self.code}, {text!r}" if self.code is not None else type(outcome).__name__


@dataclass
class Session:
    """A session in one protocol revision."""

    connection: Connection
    revision: str
    """The revision to ask for; after `open`, the negotiated one."""
    timeout: float
    """The timeout of each request, in seconds."""
    strays: list[Answer] = field(default_factory=list)
    """Responses that match no open request."""
    listed: list[str] = field(default_factory=list)
    """The names in the last listing, with duplicates and the names of malformed tools."""
    _id: int = 0
    _open: dict[int, Answer | None] = field(default_factory=dict)
    """The open requests, each with its answer once that has arrived."""

    @property
    def is_stateless(self) -> bool:
        """Whether each request states its revision, without initialization."""
        return self.revision >= STATELESS_REVISION

    async def open(self) -> Answer:
        """Negotiate the revision. Afterwards `revision` is the server's choice.

        Raises:
            NotSpokenError: If the server refuses the revision.
            GoneError: If the server doesn't answer.
        """
        if self.is_stateless:
            try:
                answer = await self.ask("server/discover")
            except GoneError as gone:
                if gone.reason == "timeout":  # An older server doesn't have to answer an unknown method.
                    raise NotSpokenError from None
                raise
            if self.revision not in (answer.result.get("supportedVersions") or ()):
                raise NotSpokenError
            return answer
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": _INFO}
        answer = await self.ask("initialize", params)
        chosen = answer.result.get("protocolVersion")
        if not isinstance(chosen, str):
            raise NotSpokenError
        self.revision = chosen
        await self.connection.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', self._headers("", {}))
        return answer

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            GoneError: If no answer arrives in time, or the connection ends.
        """
        data, headers = self._request(method, params)
        return await self._exchange(self._id, data, headers)

    def _request(self, method: str, params: Mapping[str, Any] | None) -> tuple[bytes, dict[str, str]]:
        self._id += 1
        sent = dict(params or {})
        if self.is_stateless:
            sent["_meta"] = {
                f"{_META}protocolVersion": self.revision,
                f"{_META}clientInfo": _INFO,
                f"{_META}clientCapabilities": {},
            }
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": sent}
        return json.dumps(message).encode(), self._headers(method, sent)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def start(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Call a tool without waiting. Its answer becomes a stray."""
        await self.connection.send(*self._request("tools/call", {"name": tool, "arguments": arguments}))

    async def cancel(self) -> None:
        """Cancel the last request."""
        params = {"requestId": self._id}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await self.connection.send(json.dumps(message).encode(), self._headers("notifications/cancelled", params))

    async def ping(self) -> None:
        """Check that the server still answers.

        Raises:
            GoneError: If it doesn't.
        """
        await self.ask("server/discover" if self.is_stateless else "ping")

    async def send_raw(self, data: bytes) -> None:
        """Send bytes that aren't a message."""
        with anyio.move_on_after(self.timeout):
            await self.connection.send(data, self._headers("tools/list", {}))
        self.strays += map(Answer, await self.connection.drain())  # Over HTTP the answer has arrived by now.

    async def _exchange(self, number: int, data: bytes, headers: Mapping[str, str]) -> Answer:
        self._open[number] = None
        try:
            with anyio.move_on_after(self.timeout):
                await self.connection.send(data, headers)
                while True:
                    arrived = self.connection.arrived
                    for received in await self.connection.drain():
                        self._sort(Answer(received), number)
                    if (answer := self._open[number]) is not None:
                        return answer
                    if self.connection.gone is not None:
                        raise self.connection.gone
                    await arrived.wait()
        finally:
            del self._open[number]
        raise GoneError("timeout", f"no answer within {self.timeout:g} s")

    def _sort(self, answer: Answer, asking: int) -> None:
        """Give an answer to the request that it belongs to, any of the open ones.

        Args:
            answer: The answer.
            asking: The request that gets an HTTP status: over HTTP there is one at a time.
        """
        received = answer.received
        key = asking if isinstance(received, Status) else received.get("id")
        if self.connection.name == "http" and not isinstance(received, Status) and "error" in received:
            key = asking  # It answers this POST: the server couldn't read the id.
        owner = next((number for number in self._open if number == key), None)
        if owner is None:
            self.strays.append(answer)
        else:
            self._open[owner] = answer
            if owner != asking:
                self.connection.wake()

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that HTTP needs (specification 2026-07-28, transports, streamable HTTP)."""
        if method == "initialize":
            return {}
        headers = {"MCP-Protocol-Version": self.revision}
        if self.is_stateless:
            headers["Mcp-Method"] = method
            if isinstance(params.get("name"), str) and params["name"].isascii():
                headers["Mcp-Name"] = params["name"]
        return headers

    async def list_tools(self) -> tuple[list[dict[str, Any]], list[Answer], str]:
        """List the tools, page by page.

        A tool whose name is listed twice loses its annotations, since a call may run either tool.

        Returns:
            Each tool with a name and an input schema, the answers that list them, and what is wrong (empty if nothing).
        """
        tools, answers, wrong = await self._pages()
        twice = {name for name, count in Counter(self.listed).items() if count > 1}
        known = [{**tool, "annotations": None} if tool["name"] in twice else tool for tool in tools]
        return known, answers, wrong or ("a name that is listed twice" if twice else "")

    async def _pages(self) -> tuple[list[dict[str, Any]], list[Answer], str]:
        tools: list[dict[str, Any]] = []
        self.listed = []
        wrong = ""
        answers: list[Answer] = []
        cursor: object = None
        seen = set()
        for _ in range(MAX_PAGES):
            answer = await self.ask("tools/list", {"cursor": cursor} if cursor is not None else {})
            answers.append(answer)
            listed = answer.result.get("tools")
            if not isinstance(listed, list):
                # A server without tools doesn't know the method.
                lacking = "" if answer.code == -32601 else "an answer without a list of tools"
                return tools, answers, wrong or lacking
            good = [t for t in listed if isinstance(t, dict) and isinstance(t.get("name"), str)]
            self.listed += [t["name"] for t in good]
            tools += [t for t in good if isinstance(t.get("inputSchema"), dict)]
            if len(good) < len(listed) or any(not isinstance(t.get("inputSchema"), dict) for t in good):
                wrong = wrong or "a tool without a name or an input schema"
            cursor = answer.result.get("nextCursor")
            if cursor is None:
                return tools, answers, wrong
            if not isinstance(cursor, str) or cursor in seen:
                return tools, answers, wrong or "a cursor that isn't a string or was used before"
            seen.add(cursor)
        return tools, answers, wrong or f"more than {MAX_PAGES} pages"


@dataclass(frozen=True)
class Step:
    """One part of a check. If it breaks the connection, the next step gets a new one."""

    label: str
    tool: str
    run: Callable[[Session], Awaitable[None]]
    place: str = ""
    """Which of the tools it is, to show: `tool 7 of 258`."""
    is_shared: bool = False
    """Whether it may run together with other such steps, each in separate calls."""

    @property
    def shown(self) -> str:
        """What is being done, for people."""
        tool = ", ".join(part for part in (self.place, self.tool) if part)
        return f"{tool}: {self.label}" if tool else self.label
