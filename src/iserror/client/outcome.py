"""What came of a tool call, as its client sees it: a closed set of frozen values, made for `match`.

Each has `attempts`, how often the call was sent, and `report`, a text that is short enough to hand to a model.
Texts in them are the server's words but where a field says that it is safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from iserror.errors.failure import Failure
from iserror.redact.text import clean, clean_line, cut_short
from iserror.support.jsonrpc import REQUEST_ID_KEY

if TYPE_CHECKING:
    from iserror.errors.partial import PartialResult

Block: TypeAlias = Mapping[str, Any]
"""A content block in its wire form: `{"type": "text", "text": ...}`."""

MAX_REPORT: Final = 2_000
"""Characters of a report; an envelope's whole text is below it."""

_CHECK: Final = "The call may have taken effect; check before any further call."

# JSON-RPC's and MCP's codes of requests that reach no tool; an author's own may come after an effect.
_BEFORE_THE_TOOL: Final = (-32700, -32600, -32601, -32602, -32020, -32021, -32022)

_CLOSING_LINE: Final = re.compile(r"request_id: ([0-9a-f]{32})\]\s*\Z")


@dataclass(frozen=True, kw_only=True)
class _Called:
    attempts: int = 1
    """How often the call was tried; `ToolCaller` counts. 0 where a limit forbade it."""

    @property
    def request_id(self) -> str | None:
        """The server's request id (32 hex digits), the key into its log; None where it gave none."""
        return None

    @property
    def report(self) -> str:
        """What to tell a model: 2,000 characters at most, never empty."""
        text = clean("\n".join(self._lines())).strip()
        tried = f"\n[tried {self.attempts} times]" if self.attempts > 1 else ""
        limit = MAX_REPORT - len(tried)
        return (text if len(text) <= limit else cut_short(text, limit)) + tried

    def _lines(self) -> Iterator[str]:
        raise NotImplementedError


@dataclass(frozen=True)
class Succeeded(_Called):
    """The tool did what was asked, or the part of it that `partial` does not name."""

    content: tuple[Block, ...]
    """Every block that was sent, in its wire form."""
    structured_content: Any = None
    partial: PartialResult[Any] | None = None
    """What is missing, where the tool answered with an incomplete `PartialResult`."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content as text: texts as they are, every other block as one line that names it."""
        return "\n".join(map(shown, self.content))

    def _lines(self) -> Iterator[str]:
        yield self.text or "The call succeeded and returned nothing."


@dataclass(frozen=True)
class ToolFailed(_Called):
    """The tool ran, or was refused, and says that it failed: the model can act on it."""

    failure: Failure | None
    """The envelope, where the server speaks it."""
    content: tuple[Block, ...] = ()
    structured_content: Any = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str | None:
        """The stable code; None where the server gave none."""
        return self.failure.code if self.failure is not None else None

    @property
    def retryable(self) -> bool | None:
        """Whether repeating exactly this call can succeed and is safe; None where nobody said."""
        return self.failure.retryable if self.failure is not None else None

    @property
    def text(self) -> str:
        """The server's words, as `Succeeded.text`."""
        return "\n".join(map(shown, self.content))

    @property
    def request_id(self) -> str | None:
        if self.failure is not None:
            return self.failure.request_id
        # A decorated tool on a server without `attach` says it in its text alone, as does an exception of a client.
        found = _CLOSING_LINE.search(self.text[-200:])
        return found[1] if found else None

    def _lines(self) -> Iterator[str]:
        if self.failure is not None:
            yield self.failure.text
        else:
            yield self.text.strip() or "The tool failed and did not say why."


@dataclass(frozen=True)
class ProtocolFailed(_Called):
    """The request failed, before a tool ran or because its author said so on purpose: for the host to mend."""

    code: int
    """The JSON-RPC code; of a request that the HTTP server turned away, the status (4xx)."""
    message: str
    """Safe: redacted, one line, 500 characters at most."""
    data: Any = None
    closest: tuple[str, ...] = ()
    """For an unknown tool, the names in the catalogue that are most like it, the best first."""
    failure: Failure | None = None
    """The envelope in `data`, which arguments that do not fit come with."""
    received: Any = field(default=None, compare=False, repr=False)
    """The message and the data as they came. Not safe: for tests that look for leaks."""

    @property
    def request_id(self) -> str | None:
        found = self.data.get(REQUEST_ID_KEY) if isinstance(self.data, Mapping) else None
        return found if isinstance(found, str) and re.fullmatch(r"[0-9a-f]{32}", found) else None

    def _lines(self) -> Iterator[str]:
        yield f"The request failed: {self.message} ({self.code})"
        if self.closest:
            yield f"Tools with a similar name: {', '.join(self.closest)}."
        if self.code not in _BEFORE_THE_TOOL and not 400 <= self.code < 500:
            yield _CHECK


@dataclass(frozen=True)
class InputRequired(_Called):
    """The server asks for input first; nothing has failed (specification 2026-07-28, multi round-trip requests)."""

    input_requests: Mapping[str, Any]
    """Empty where there is only a state, and where the client library would answer them itself, and could not."""
    request_state: str | None = None
    """Opaque; to send back as it is, with the answers."""

    def _lines(self) -> Iterator[str]:
        yield "The tool needs input before it can go on."


@dataclass(frozen=True)
class UrlElicitationRequired(_Called):
    """The user has to visit an address first (JSON-RPC -32042, specification 2025-11-25, URL elicitation)."""

    elicitations: tuple[Mapping[str, Any], ...]
    """As the server sent them: `mode`, `url`, `elicitationId`, `message`. For the user, not for a model."""
    message: str = ""
    """Safe, as `ProtocolFailed.message`."""

    def _lines(self) -> Iterator[str]:
        yield "The user has to follow a link before the tool can go on."


@dataclass(frozen=True)
class ContractBroken(_Called):
    """The answer fits no schema of the protocol; it is never taken for a result. Whether the tool ran is not known."""

    reason: str
    """What is wrong with it, without its values."""

    def _lines(self) -> Iterator[str]:
        yield f"The server's answer cannot be read: {self.reason}."
        yield _CHECK


@dataclass(frozen=True)
class OutcomeUnknown(_Called):
    """The request went out, and no answer came back."""

    reason: Literal["timeout", "connection", "client"]
    """What ended it: time, the connection, or an exception that says neither."""
    message: str
    """Safe, as `ProtocolFailed.message`."""
    repeatable: bool = False
    """Whether a repeat is safe all the same: a tool that only reads or is idempotent, or an idempotency key."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    idempotency_key: str | int | None = None
    """The key that the call went with: with it, another run can repeat the call safely."""
    last: CallOutcome | None = None
    """What came of a later attempt, which says nothing of the one that got no answer."""

    def _lines(self) -> Iterator[str]:
        yield f"No answer came: {self.message}"
        yield "The same call may be repeated." if self.repeatable else _CHECK
        if self.last is not None:
            yield f"A later attempt: {self.last.report}"


@dataclass(frozen=True)
class NotSent(_Called):
    """The call did not go out, so that it had no effect."""

    reason: Literal["connection", "identical_failures", "run_budget"]
    """There was no connection, or a limit of `ToolCaller` was reached."""
    message: str
    """Safe: what was tried, and what to do."""
    last: CallOutcome | None = None
    """Of a call that failed before, what came of it the last time."""
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
    """Return the stable code or the JSON-RPC code of a failure, or None if it has neither."""
    if isinstance(outcome, ProtocolFailed):
        return str(outcome.code)
    return outcome.code if isinstance(outcome, ToolFailed) else None


def shown(block: Block) -> str:
    """A content block as text: a text as it is, and of every other kind one line that says what it is."""
    kind = block.get("type")
    if kind == "text":
        return str(block["text"])
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
