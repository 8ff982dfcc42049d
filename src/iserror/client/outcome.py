"""The outcome of a tool call, as its client sees it: a closed set of frozen values, made for `match`.

Each outcome has `attempts`, how often the call was sent, and `report`, a text that is short enough for a model.
The texts in an outcome come from the server, unless a field is documented as safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from iserror.errors.failure import Failure
from iserror.errors.verdict import UNSURE
from iserror.redact.text import bounded, clean_line, cut_short
from iserror.support.jsonrpc import REQUEST_ID_KEY
from iserror.support.look import look

if TYPE_CHECKING:
    from iserror.errors.partial import PartialResult

Block: TypeAlias = Mapping[str, Any]
"""A content block in its wire form: `{"type": "text", "text": ...}`."""

MAX_BLOCKS: Final = 200
"""Blocks of a result that a report shows."""

MAX_REPORT: Final = 2_000
"""Characters of a report. An envelope's whole text is shorter."""

_CHECK: Final = "The call may have taken effect; check before any further call."

# The codes that JSON-RPC and MCP define for requests that reach no tool. A server's own code may come after an effect.
_BEFORE_THE_TOOL: Final = (-32700, -32600, -32601, -32602, -32020, -32021, -32022)

_CLOSING_LINE: Final = re.compile(r"request_id: ([0-9a-f]{32})\]\s*\Z")


@dataclass(frozen=True, kw_only=True)
class _Called:
    attempts: int = 1
    """How often `ToolCaller` tried the call. 0 if a limit forbade it."""
    read_only: bool = field(default=False, repr=False, compare=False)
    """Whether the tool's annotations declare that it only reads: then no call has an effect. `ToolCaller` sets it."""

    @property
    def request_id(self) -> str | None:
        """The server's request id (32 hex digits), the key into its log, or None if the server sent no id."""
        return None

    @property
    def report(self) -> str:
        """The text for a model: up to 2,000 characters, never empty."""
        text = bounded(look(lambda: "\n".join(self._lines()), "")).strip() or "The outcome cannot be shown."
        tried = f"\n[tried {self.attempts} times]" if self.attempts > 1 else ""
        limit = MAX_REPORT - len(tried)
        return (text if len(text) <= limit else cut_short(text, limit)) + tried

    def _lines(self) -> Iterator[str]:
        raise NotImplementedError

    def _check(self) -> Iterator[str]:
        if not self.read_only:
            yield _CHECK


@dataclass(frozen=True)
class Succeeded(_Called):
    """The tool did what was asked, except for what `partial` names."""

    content: tuple[Block, ...]
    """Every block that was sent, in its wire form."""
    structured_content: Any = None
    partial: PartialResult[Any] | None = None
    """The incomplete `PartialResult` that names what is missing, if the tool answered with one."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content as text: texts unchanged, every other block as one line that names it."""
        return "\n".join(map(shown, self.content))

    def _lines(self) -> Iterator[str]:
        yield "\n".join(_first(self.content)) or "The call succeeded and returned nothing."


@dataclass(frozen=True)
class ToolFailed(_Called):
    """The tool reports a failure, or the server refused the call as a result: the model can act on it."""

    failure: Failure | None
    """The envelope, if the server sent one."""
    content: tuple[Block, ...] = ()
    structured_content: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str | None:
        """The stable code, or None if the server sent no envelope."""
        return self.failure.code if self.failure is not None else None

    @property
    def retryable(self) -> bool | None:
        """Whether a retry of exactly this call can succeed and is safe, or None if the server sent no envelope."""
        return self.failure.retryable if self.failure is not None else None

    @property
    def text(self) -> str:
        """The server's text, as for `Succeeded.text`."""
        return "\n".join(map(shown, self.content))

    @property
    def request_id(self) -> str | None:
        if self.failure is not None:
            return self.failure.request_id
        # Only the text has it if the tool is decorated on a server without `attach`, or a client raised an exception.
        found = _CLOSING_LINE.search(look(lambda: self.text[-200:], ""))
        return found[1] if found else None

    def _lines(self) -> Iterator[str]:
        if self.failure is not None:
            unsure = self.read_only and self.failure.advice == UNSURE
            yield (self.failure.model_copy(update={"advice": None}) if unsure else self.failure).text
        else:
            yield "\n".join(_first(self.content)).strip() or "The tool failed and did not say why."


@dataclass(frozen=True)
class ProtocolFailed(_Called):
    """The request failed, before a tool ran or because its author raised a protocol error: the host can fix it."""

    code: int
    """The JSON-RPC code, or the status (4xx) if the HTTP server turned the request away."""
    message: str
    """Safe: redacted, one line, up to 500 characters."""
    data: Any = None
    closest: tuple[str, ...] = ()
    """For an unknown tool, the most similar names in the catalog, best first."""
    failure: Failure | None = None
    """The envelope in `data`, which a server sends for arguments that do not fit."""
    received: Any = field(default=None, compare=False, repr=False)
    """The message and the data, unchanged. Not safe: for tests that look for leaks."""

    @property
    def request_id(self) -> str | None:
        found = self.data.get(REQUEST_ID_KEY) if isinstance(self.data, Mapping) else None
        return found if isinstance(found, str) and re.fullmatch(r"[0-9a-f]{32}", found) else None

    def _lines(self) -> Iterator[str]:
        yield f"The request failed: {self.message} ({self.code})"
        if self.closest:
            yield f"Tools with a similar name: {', '.join(self.closest)}."
        if self.code not in _BEFORE_THE_TOOL and not 400 <= self.code < 500:
            yield from self._check()


@dataclass(frozen=True)
class InputRequired(_Called):
    """The server asks for input first; nothing has failed (specification 2026-07-28, multi round-trip requests)."""

    input_requests: Mapping[str, Any]
    """Empty if there is only a state, or if the client library failed to answer the requests itself."""
    request_state: str | None = None
    """Opaque. Send it back unchanged, with the answers."""

    def _lines(self) -> Iterator[str]:
        yield "The tool needs input before it can go on."


@dataclass(frozen=True)
class UrlElicitationRequired(_Called):
    """The user has to visit an address first (JSON-RPC -32042, specification 2025-11-25, URL elicitation)."""

    elicitations: tuple[Mapping[str, Any], ...]
    """The elicitations, unchanged: `mode`, `url`, `elicitationId`, `message`. For the user, not for a model."""
    message: str = ""
    """Safe, as for `ProtocolFailed.message`."""

    def _lines(self) -> Iterator[str]:
        yield "The user has to follow a link before the tool can go on."


@dataclass(frozen=True)
class ContractBroken(_Called):
    """The answer fits no schema of the protocol and is never taken for a result. The tool may have run."""

    reason: str
    """What is wrong with the answer, without its values."""

    def _lines(self) -> Iterator[str]:
        yield f"The server's answer cannot be read: {self.reason}."
        yield from self._check()


@dataclass(frozen=True)
class OutcomeUnknown(_Called):
    """The request was sent, and no answer came back."""

    reason: Literal["timeout", "connection", "client"]
    """What ended the wait: time, the connection, or another failure of the client."""
    message: str
    """Safe, as for `ProtocolFailed.message`."""
    repeatable: bool = False
    """Whether a retry is still safe: the tool only reads or is idempotent, or the call has an idempotency key."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    idempotency_key: str | int | None = None
    """The key that the call was sent with. With the same key, another run can retry the call safely."""
    last: CallOutcome | None = None
    """The outcome of a later attempt. It says nothing about the attempt that got no answer."""

    def _lines(self) -> Iterator[str]:
        yield f"No answer came: {self.message}"
        if self.repeatable:
            yield "The same call may be repeated."
        else:
            yield from self._check()
        if self.last is not None:
            yield f"A later attempt: {self.last.report}"


@dataclass(frozen=True)
class NotSent(_Called):
    """The call wasn't sent and had no effect."""

    reason: Literal["connection", "session", "identical_failures", "run_budget"]
    """No connection, a session that the server doesn't know (any more), or a limit of `ToolCaller`."""
    message: str
    """Safe: what was tried, and what to do."""
    last: CallOutcome | None = None
    """The last outcome of the same call, if it failed before."""
    attempts: int = field(default=0, kw_only=True)

    def _lines(self) -> Iterator[str]:
        yield f"Not sent: {self.message}"
        if self.last is not None:
            yield f"The last time: {self.last.report}"


CallOutcome: TypeAlias = (
    Succeeded
    | ToolFailed
    | ProtocolFailed
    | InputRequired
    | UrlElicitationRequired
    | ContractBroken
    | OutcomeUnknown
    | NotSent
)


def is_failure(outcome: CallOutcome) -> bool:
    """Return True unless the call succeeded or the server waits for input."""
    return not isinstance(outcome, (Succeeded, InputRequired, UrlElicitationRequired))


def code_of(outcome: CallOutcome) -> str | None:
    """Return the stable code or the JSON-RPC code of a failure, or None if the server sent no code."""
    if isinstance(outcome, ProtocolFailed):
        return str(outcome.code)
    return outcome.code if isinstance(outcome, ToolFailed) else None


def _first(content: tuple[Block, ...]) -> Iterator[str]:
    """Yield the texts of blocks, as far as a report can show them. What cannot be seen counts too."""
    room = 4 * MAX_REPORT
    for block in content[:MAX_BLOCKS]:
        text = shown(block)[:room]
        room -= len(text)
        yield text
        if room <= 0:
            yield "…"
            return
    if len(content) > MAX_BLOCKS:
        yield "…"


def shown(block: Block) -> str:
    """Render a content block as text: a text unchanged, any other kind as one line that names it."""
    kind = block.get("type")
    if kind == "text":
        return str.__str__(block["text"])
    if kind == "resource":
        resource = block["resource"]
        head = f"[resource {clean_line(resource['uri'], 200)}"
        if "text" in resource:
            return f"{head}]\n{resource['text']}"
        return f"{head}, {_kind_and_size(resource.get('mimeType'), resource['blob'])}]"
    if kind == "resource_link":
        return f"[resource link {clean_line(block['name'], 100)}: {clean_line(block['uri'], 200)}]"
    return f"[{kind}, {_kind_and_size(block.get('mimeType'), block['data'])}]"


def _kind_and_size(mime_type: object, base64: str) -> str:
    size = f"{len(base64) * 3 // 4} bytes"
    return f"{clean_line(mime_type, 100)}, {size}" if isinstance(mime_type, str) and mime_type else size
