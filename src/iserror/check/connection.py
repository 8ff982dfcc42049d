"""A raw JSON-RPC connection over any transport: it sends any bytes, and passes on every message.

The SDKs' clients would refuse to send malformed messages, and would hide malformed answers.
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
"""Maximum size of a message, in bytes. If a server sends more, the check stops reading."""

MAX_NOTED: Final = 100
"""Maximum number of noise lines and of notifications to keep."""

MAX_WAITING: Final = 10_000
"""Maximum number of messages to hold. If a server sends more without being asked, the rest is dropped."""

GRACE: Final = 2.0
"""How long a server may take to end by itself, in seconds."""


class CannotRunError(ValueError):
    """The target can't be loaded, started or reached, so there is nothing to check."""


class GoneError(Exception):
    """The server stopped answering."""

    def __init__(self, reason: Literal["timeout", "died", "flood", "undecodable"], seen: str) -> None:
        super().__init__(seen)
        self.reason = reason
        self.seen = seen


@dataclass(frozen=True)
class Status:
    """An HTTP status without a JSON-RPC message."""

    code: int


class Connection:
    """A connection to a server. Each transport sends in its own way, and fills the inbox."""

    name: str = ""
    """The transport."""

    def __init__(self) -> None:
        self._inbox: deque[Message | Status | GoneError] = deque()
        self.arrived = anyio.Event()
        """Set, and replaced, when something arrives."""
        self.noise: list[str] = []
        """Lines that aren't messages: their length and their beginning, redacted."""
        self.notices: list[Message] = []
        """Notifications of the server."""
        self.gone: GoneError | None = None

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send one message, well-formed or not. Only HTTP uses the headers."""
        raise NotImplementedError

    async def drain(self) -> list[Message | Status]:
        """Take what has arrived out of the inbox, and return the responses and bare HTTP statuses.

        After the last message `gone` says why the connection has ended.
        """
        responses: list[Message | Status] = []
        while self._inbox:
            found = self._inbox.popleft()
            if isinstance(found, GoneError):
                self.gone = found
            elif isinstance(found, Status) or "method" not in found:
                responses.append(found)
            elif "id" in found:
                await self._refuse(found)
            elif len(self.notices) < MAX_NOTED:
                self.notices.append(found)
        return responses

    async def _refuse(self, request: Message) -> None:
        """Answer a request of the server, which knows that this client has no capabilities."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        await self.send(json.dumps(answer).encode())

    def put(self, item: Message | Status | GoneError) -> None:
        """Put a message into the inbox."""
        if len(self._inbox) < MAX_WAITING or isinstance(item, GoneError):
            self._inbox.append(item)
        self.wake()

    def wake(self) -> None:
        """Let everyone who waits look again."""
        self.arrived.set()
        self.arrived = anyio.Event()

    def put_bytes(self, data: bytes) -> bool:
        """Put a JSON-RPC message into the inbox and return True; note anything else."""
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
    """Parse a JSON-RPC message; return None for anything else. Bytes that aren't UTF-8 become lone surrogates."""
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
    """Return the lines that a chunk completes, and leave the remainder in `rest`."""
    head, newline, tail = chunk.rpartition(b"\n")
    if not newline:
        rest += chunk
        return []
    lines = (bytes(rest) + head).split(b"\n")
    rest[:] = tail
    return lines


# --- stdio ---------------------------------------------------------------------------------------------------


class _Stdio(Connection):
    name = "stdio"

    def __init__(self, process: anyio.abc.Process) -> None:
        super().__init__()
        self.process = process
        self.last_stderr = b""
        self._sending = anyio.Lock()

    async def send(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        assert self.process.stdin is not None
        # If the server is gone, the next read tells why.
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            if self.process.returncode is None:
                async with self._sending:
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
        """Notice that the process ended even if a child of it keeps stdout open."""
        await self.process.wait()
        await anyio.sleep(GRACE / 4)  # Leave time to read the last output.
        self._died()

    def _died(self) -> None:
        code = self.process.returncode
        why = "it closed stdout" if code is None else f"exit code {code}"
        self.put(GoneError("died", why + self._last_words()))

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in self.process.stderr:
                self.last_stderr = (self.last_stderr + chunk)[-4_000:]

    def _last_words(self) -> str:
        lines = self.last_stderr.decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"; the last line on stderr: {safe_line(last, 200)!r}" if last else ""


@contextlib.asynccontextmanager
async def stdio(command: Sequence[str]) -> AsyncIterator[Connection]:
    """Start a server and connect to its stdin and stdout. At exit, end the server and its children."""
    try:
        process = await anyio.open_process(command, stderr=subprocess.PIPE, start_new_session=True)
    except (OSError, ValueError) as exc:
        raise CannotRunError(f"cannot start {command[0]!r}: {getattr(exc, 'strerror', None) or exc}") from None
    connection = _Stdio(process)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.read)
            tasks.start_soon(connection.read_stderr)
            tasks.start_soon(connection.watch)
            try:
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _end(process: anyio.abc.Process) -> None:
    """End a server as the specification says: close stdin, wait, terminate, wait, kill."""
    assert process.stdin is not None
    with contextlib.suppress(Exception):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if number is not None:
            _signal(process, number)
        with anyio.move_on_after(GRACE):
            await process.wait()
            break
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # End the children that it left.


def _signal(process: anyio.abc.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(signal.Signals(number))


# --- HTTP ----------------------------------------------------------------------------------------------------


def _http_library() -> Any:
    """Import the HTTP client that mcp depends on."""
    try:
        import httpx2  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import httpx

        return httpx
    return httpx2


class _Http(Connection):
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
    """Yield the type and the data of each server-sent event."""
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


class _Sse(Connection):
    """The transport of revision 2024-11-05: a stream of events, and a separate URL for requests."""

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
            self.put(GoneError("died", "it sent no endpoint URL"))
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
    """A URL that serves streamable HTTP or SSE."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sse: bool | None = None

    @contextlib.asynccontextmanager
    async def connect(self, seconds: float) -> AsyncIterator[Connection]:
        """Connect, with a timeout in seconds for each request."""
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
        """Return True for the older transport, SSE: the URL refuses a POST and answers a GET with events.

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
    """Return a URL to show, without user, password and query."""
    scheme, _, rest = url.partition("://")
    bare = f"{scheme}://{rest.partition('?')[0].partition('#')[0].rpartition('@')[2]}"
    return clean_line(redact_text(bare, profile="log"), 200)
