"""One raw JSON-RPC connection, whatever carries it: hand-written messages go out, every message is handed on.

The SDKs' own clients would refuse to send what a check has to send, and hide what a server must not answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio

from iserror.redact import clean_line, redact_text
from iserror.redact.speech import safe_line

Message = Mapping[str, Any]

MAX_MESSAGE: Final = 16 << 20
"""Bytes of one message; a server that sends more is not read any further."""

MAX_NOTED: Final = 100

MAX_WAITING: Final = 10_000
"""Messages that wait to be looked at; a server that sends more, without being asked, is heard no further."""

GRACE: Final = 2.0
"""Seconds for a server to end by itself."""


class CannotRunError(ValueError):
    """There is nothing to check: the target cannot be loaded, started or reached."""


class GoneError(Exception):
    """The server does not answer any more."""

    def __init__(self, reason: Literal["timeout", "died", "flood", "undecodable"], seen: str) -> None:
        super().__init__(seen)
        self.reason = reason
        self.seen = seen


@dataclass(frozen=True)
class Status:
    """An HTTP status that came in place of a JSON-RPC message."""

    code: int


class Wire:
    """A connection; each transport says how a message is sent and fills the inbox."""

    name: str = ""

    def __init__(self) -> None:
        self._inbox: deque[Message | Status | GoneError] = deque()
        self._arrived = anyio.Event()
        self.noise: list[str] = []
        self.notices: list[Message] = []
        self.gone: GoneError | None = None

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send one message, well-formed or not; the headers count on HTTP only."""
        raise NotImplementedError

    async def receive(self) -> Message | Status:
        """Wait for the next response, or for a status without one.

        Raises:
            GoneError: The connection ended.
        """
        while True:
            if self.gone is not None:
                raise self.gone
            while not self._inbox:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            found = self._inbox.popleft()
            if isinstance(found, GoneError):
                self.gone = found
            elif isinstance(found, Status) or "method" not in found:
                return found
            elif "id" in found:
                await self._refuse(found)
            elif len(self.notices) < MAX_NOTED:
                self.notices.append(found)

    async def _refuse(self, request: Message) -> None:
        """Answer what the server asks: it was told that this client can do nothing."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        await self.send(json.dumps(answer).encode())

    def take(self) -> list[Message | Status]:
        """Every response that has come already."""
        waiting, self._inbox = self._inbox, deque()
        taken: list[Message | Status] = []
        for item in waiting:
            if isinstance(item, Status) or (not isinstance(item, GoneError) and "method" not in item):
                taken.append(item)
            else:
                self._inbox.append(item)
        return taken

    def put(self, item: Message | Status | GoneError) -> None:
        """Hand on what came."""
        if len(self._inbox) < MAX_WAITING or isinstance(item, GoneError):
            self._inbox.append(item)
        self._arrived.set()

    def put_bytes(self, data: bytes) -> bool:
        """Take in what came, if it is a JSON-RPC message; else note it."""
        message = as_message(data)
        if message is not None:
            self.put(message)
            return True
        if data.strip():
            shown = safe_line(data[:400].decode("utf-8", "replace"), 60)
            if len(self.noise) < MAX_NOTED:
                self.noise.append(f"{len(data)} bytes, {shown!r}")
        return False


def as_message(data: bytes) -> Message | None:
    """The JSON-RPC message that these bytes are; bytes that are no UTF-8 become lone surrogates in its texts."""
    try:
        try:
            found = json.loads(data.decode())
        except UnicodeDecodeError:
            found = json.loads(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict) and found.get("jsonrpc") == "2.0" and found.keys() & {"method", "result", "error"}:
        return found
    return None


def _lines(rest: bytearray, chunk: bytes) -> list[bytes]:
    """The lines that a chunk completes; what is left of it stays in `rest`."""
    head, newline, tail = chunk.rpartition(b"\n")
    if not newline:
        rest += chunk
        return []
    lines = (bytes(rest) + head).split(b"\n")
    rest[:] = tail
    return lines


# --- stdio ---------------------------------------------------------------------------------------------------


class _Stdio(Wire):
    name = "stdio"

    def __init__(self, process: anyio.abc.Process) -> None:
        super().__init__()
        self.process = process
        self.said = b""

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        assert self.process.stdin is not None
        # What is read next tells why, where the other side is gone.
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            if self.process.returncode is None:
                await self.process.stdin.send(data + b"\n")

    async def read(self) -> None:
        assert self.process.stdout is not None
        rest = bytearray()
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in self.process.stdout:
                for line in _lines(rest, chunk):
                    self.put_bytes(line)
                if len(rest) > MAX_MESSAGE:
                    self.put(GoneError("flood", f"a line of more than {MAX_MESSAGE:,} bytes"))
                    return
        self.put_bytes(bytes(rest))
        with anyio.move_on_after(GRACE):
            await self.process.wait()
        self._died()

    async def watch(self) -> None:
        """Notice its end where something that it started keeps stdout open."""
        await self.process.wait()
        await anyio.sleep(GRACE / 4)  # what it wrote last is still to be read
        self._died()

    def _died(self) -> None:
        code = self.process.returncode
        why = "it closed stdout" if code is None else f"exit code {code}"
        self.put(GoneError("died", why + self._last_words()))

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in self.process.stderr:
                self.said = (self.said + chunk)[-4_000:]

    def _last_words(self) -> str:
        lines = self.said.decode("utf-8", "replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "")
        return f"; the last line on stderr: {safe_line(said, 200)!r}" if said else ""


@contextlib.asynccontextmanager
async def stdio(command: Sequence[str]) -> AsyncIterator[Wire]:
    """Start a server and connect to its stdin and stdout; it is ended in any case, with what it started."""
    try:
        process = await anyio.open_process(command, stderr=subprocess.PIPE, start_new_session=True)
    except (OSError, ValueError) as exc:
        raise CannotRunError(f"cannot start {command[0]!r}: {getattr(exc, 'strerror', None) or exc}") from None
    wire = _Stdio(process)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.read)
            tasks.start_soon(wire.read_stderr)
            tasks.start_soon(wire.watch)
            try:
                yield wire
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _end(process: anyio.abc.Process) -> None:
    """End a server as the specification asks: close stdin, wait, terminate, wait, kill."""
    assert process.stdin is not None
    with contextlib.suppress(Exception):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if number is not None:
            _signal(process, number)
        with anyio.move_on_after(GRACE):
            await process.wait()
            break
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # what it started and left behind


def _signal(process: anyio.abc.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(signal.Signals(number))


# --- HTTP ----------------------------------------------------------------------------------------------------


def _http_library() -> Any:
    """The HTTP client that the installed mcp brings."""
    try:
        import httpx2  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import httpx

        return httpx
    return httpx2


class _Http(Wire):
    name = "http"

    def __init__(self, url: str, client: Any) -> None:
        super().__init__()
        self.url = url
        self.client = client
        self.session_id: str | None = None

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **(headers or {})}
        if self.session_id is not None:
            sent["Mcp-Session-Id"] = self.session_id
        try:
            async with self.client.stream("POST", self.url, content=data, headers=sent) as response:
                if response.status_code < 400:
                    self.session_id = response.headers.get("mcp-session-id", self.session_id)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    async for event, text in _events(response):
                        if event == "message" and self.put_bytes(text) and "method" not in (as_message(text) or {}):
                            return
                    return
                body = await _body(response)
                message = as_message(body)
                if message is not None:
                    self.put(message)
                elif response.status_code != 202:
                    self.put(Status(response.status_code))
        except GoneError as gone:
            self.put(gone)
        except _http_library().HTTPError as exc:
            self.put(GoneError("died", f"the connection broke ({type(exc).__name__})"))

    async def close(self) -> None:
        if self.session_id is not None:
            with contextlib.suppress(Exception), anyio.move_on_after(GRACE):
                await self.client.delete(self.url, headers={"Mcp-Session-Id": self.session_id})


async def _body(response: Any) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_MESSAGE:
            raise GoneError("flood", f"an answer of more than {MAX_MESSAGE:,} bytes")
    return bytes(body)


async def _events(response: Any) -> AsyncIterator[tuple[str, bytes]]:
    """Type and data of each server-sent event."""
    rest, event, data = bytearray(), "message", b""
    async for chunk in response.aiter_bytes():
        for line in (line.rstrip(b"\r") for line in _lines(rest, chunk)):
            if line.startswith(b"data:"):
                data += line[5:].removeprefix(b" ")
            elif line.startswith(b"event:"):
                event = line[6:].strip().decode("utf-8", "replace")
            elif not line:
                if data:
                    yield event, data
                event, data = "message", b""
        if len(rest) + len(data) > MAX_MESSAGE:
            raise GoneError("flood", f"an event of more than {MAX_MESSAGE:,} bytes")


class _Sse(Wire):
    """The transport of revision 2024-11-05: one stream of events, and a URL of its own to post to."""

    name = "sse"

    def __init__(self, url: str, client: Any) -> None:
        super().__init__()
        self.url = url
        self.client = client
        self.endpoint: str | None = None
        self.opened = anyio.Event()

    async def read(self) -> None:
        try:
            async with self.client.stream("GET", self.url, headers={"Accept": "text/event-stream"}) as response:
                async for event, text in _events(response):
                    if event == "endpoint":
                        self.endpoint = str(response.url.join(text.decode("utf-8", "replace")))
                        self.opened.set()
                    elif event == "message":
                        self.put_bytes(text)
            self.put(GoneError("died", "it closed the stream of events"))
        except GoneError as gone:
            self.put(gone)
        except _http_library().HTTPError as exc:
            self.put(GoneError("died", f"the connection broke ({type(exc).__name__})"))
        self.opened.set()

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        if self.endpoint is None:
            self.put(GoneError("died", "it names no endpoint to post to"))
            return
        try:
            sent = {"Content-Type": "application/json", **(headers or {})}
            response = await self.client.post(self.endpoint, content=data, headers=sent)
        except _http_library().HTTPError as exc:
            self.put(GoneError("died", f"the connection broke ({type(exc).__name__})"))
            return
        if response.status_code >= 400 and not self.put_bytes(response.content):
            self.put(Status(response.status_code))


class Http:
    """A URL to connect to: streamable HTTP, or SSE where that is what it serves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sse: bool | None = None

    @contextlib.asynccontextmanager
    async def connect(self, seconds: float) -> AsyncIterator[Wire]:
        """Connect, within so many seconds for each part of it."""
        library = _http_library()
        async with library.AsyncClient(timeout=seconds, follow_redirects=True) as client:
            if self.is_sse is None:
                try:
                    self.is_sse = await self._probe(client)
                except (library.HTTPError, library.InvalidURL) as exc:
                    raise CannotRunError(f"cannot reach {safe_url(self.url)}: {type(exc).__name__}") from None
            if not self.is_sse:
                streamable = _Http(self.url, client)
                try:
                    yield streamable
                finally:
                    with anyio.CancelScope(shield=True):
                        await streamable.close()
                return
            sse = _Sse(self.url, client)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sse.read)
                with anyio.move_on_after(seconds):
                    await sse.opened.wait()
                try:
                    yield sse
                finally:
                    tasks.cancel_scope.cancel()

    async def _probe(self, client: Any) -> bool:
        """Whether the URL speaks the older transport: it refuses a POST and answers a GET with events.

        Source: specification 2025-06-18, transports, backwards compatibility.
        """
        headers = {"Content-Type": "application/json"}
        async with client.stream("POST", self.url, content=b"{}", headers=headers) as response:
            if response.status_code in (401, 403):
                raise CannotRunError(f"{safe_url(self.url)} answers with HTTP status {response.status_code}")
            if response.status_code not in (404, 405):
                return False
        async with client.stream("GET", self.url, headers={"Accept": "text/event-stream"}) as response:
            return bool(response.headers.get("content-type", "").startswith("text/event-stream"))


def safe_url(url: str) -> str:
    """A URL without user, password and query, for a person to read."""
    scheme, _, rest = url.partition("://")
    bare = f"{scheme}://{rest.partition('?')[0].partition('#')[0].rpartition('@')[2]}"
    return clean_line(redact_text(bare, profile="log"), 200)
