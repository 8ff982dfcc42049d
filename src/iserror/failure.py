"""What a failed call says: the envelope, its text for the model, and the exception that carries it.

`Failure` is the one value that passes from the mapping to every outlet. The exception object goes no
further than the log; whatever reaches a client has to be a field of `Failure` first.
"""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from iserror.attempt import attempt
from iserror.redact import Safe, clean_line, cut_short, redact, redact_text

if TYPE_CHECKING:
    from iserror.problem import Problem

Category: TypeAlias = Literal[
    "invalid_argument",
    "not_found",
    "already_exists",
    "permission_denied",
    "unauthenticated",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "unavailable",
    "deadline_exceeded",
    "unimplemented",
    "data_loss",
    "internal",
    "unknown",
    "cancelled",
    "out_of_range",
]
"""gRPC's canonical codes in lower case (google/rpc/code.proto)."""

Outcome: TypeAlias = Literal["not_applied", "unknown", "partial", "applied"]
"""Whether the tool's side effect took place."""

Effect: TypeAlias = Literal["read", "idempotent", "write"]
"""What a tool does to the world; MCP's own default is a write (`ToolAnnotations`)."""

Scalar: TypeAlias = str | int | float | bool | None

CATEGORIES: Final = frozenset(get_args(Category))
OUTCOMES: Final = frozenset(get_args(Outcome))
EFFECTS: Final = frozenset(get_args(Effect))

CODE_PATTERN: Final = r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$"
_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z|-?[0-9]+(\.[0-9]+)?\Z")
_CODE = re.compile(CODE_PATTERN + r"\Z")

MAX_MESSAGE: Final = 500
MAX_VALUE: Final = 120
MAX_TOOL_NAME: Final = 128
MAX_RETRY_AFTER: Final = 86_400.0
"""Seconds. A wait of more than a day is no advice to a model; what an upstream asks beyond it is cut."""

# A failure of these categories applied nothing unless its author says otherwise (contract, section 2).
_APPLIES_NOTHING: Final = frozenset(
    {
        "invalid_argument",
        "not_found",
        "already_exists",
        "permission_denied",
        "unauthenticated",
        "failed_precondition",
        "out_of_range",
        "unimplemented",
        "resource_exhausted",
    }
)
# Of those that applied nothing, the ones where another call can do better.
_CHANGEABLE: Final = frozenset(
    {"invalid_argument", "not_found", "already_exists", "failed_precondition", "out_of_range", "aborted"}
)

Line = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE, pattern=r"^[^\r\n]+$")]


class Failure(BaseModel):
    """Say what a failed call means, in the envelope that stands in `_meta["iserror/failure"]`.

    Every field shows on the wire; unset ones are left out. Its codes are stable: never renamed, never
    reused. The table is section 2 of the contract, `docs/reference/wire-format.md` for users.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Annotated[str, StringConstraints(min_length=3, max_length=64, pattern=CODE_PATTERN)]
    message: Line
    hint: Line | None = None
    retryable: bool
    retry_after: Annotated[float, Field(ge=0, le=MAX_RETRY_AFTER, allow_inf_nan=False)] | None = None
    outcome: Outcome
    category: Category
    tool: Annotated[str, StringConstraints(max_length=MAX_TOOL_NAME)]
    request_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    trace_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    details: dict[str, str | int | float | bool | None] | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the envelope: a JSON-safe dict with the unset fields left out."""
        wire: dict[str, Any] = {}
        for name in Failure.model_fields:
            value = getattr(self, name)
            if value is not None:
                wire[name] = value
        return wire

    @classmethod
    def from_wire(cls, envelope: object) -> Failure | None:
        """Read an envelope that came from outside; anything that is not a valid one gives None.

        Its texts are redacted and cleaned again: the sender is not this process. Fields that a later version of
        the library may add are left out.
        """
        return attempt(cls._read, None, envelope) if isinstance(envelope, Mapping) else None

    @classmethod
    def _read(cls, envelope: Mapping[str, Any]) -> Failure:
        sent = cls.model_validate({name: value for name, value in envelope.items() if name in cls.model_fields})
        texts = {
            "message": safe_line(sent.message),
            "hint": safe_line(sent.hint) if sent.hint else None,
            "tool": safe_name(sent.tool),
            "details": safe_details(sent.details) if sent.details else None,
        }
        return cls.model_validate({**sent.to_wire(), **texts})

    @property
    def advice(self) -> str:
        """One of the fixed phrases that tell the model what to do next."""
        if self.retryable:
            if self.retry_after:
                return f"may be repeated after {math.ceil(self.retry_after * 10) / 10:g} s"
            return "may be repeated"
        if self.outcome == "applied":
            return "it took effect, check before any further call"
        if self.outcome != "not_applied":
            return "it may have taken effect, check before any further call"
        if self.category in _CHANGEABLE:
            return "change the call first"
        return "stop and tell the user"

    @property
    def text(self) -> str:
        """The text for the model (`content[0].text`): always below 2,000 characters, never empty."""
        lines = [f"{self.code}: {self.message}"]
        if self.hint:
            lines.append(self.hint)
        lines.append(f"[{self.tool} failed; {self.advice}; request_id: {self.request_id}]")
        return "\n".join(lines)


def safe_line(text: str, limit: int = MAX_MESSAGE, *, empty: str = "The tool failed.") -> str:
    """Make one redacted, printable line of any text, `limit` characters at most, for a client to read."""
    return clean_line(text if isinstance(text, Safe) else redact_text(text), limit) or empty


class Shown(str):
    """A part of a text that is ready to be shown: redacted and in quotes, or vouched for."""

    __slots__ = ()


def quoted(text: object, limit: int = MAX_VALUE) -> str:
    """
    Return foreign text as data: redacted, shortened, bare if it reads like an identifier or number, else in quotes.

    For what a stranger wrote (an upstream's error body) and the model needs: within a message, an order inside the
    quotes is no order of the server's. `ErrorMap`'s templates do it for every value.

    Args:
        text: Any value; its `str()` counts.
        limit: Characters, 1 to 500.
    """
    # Redaction comes before the cut, which could otherwise leave the head of a secret.
    whole = attempt(str, "", text)
    line = safe_line(whole if len(whole) <= limit * 8 else cut_short(whole, limit * 8), limit, empty="")
    if not line or _BARE.match(line):
        return line
    shown = json.dumps(line, ensure_ascii=False)
    if redact_text(shown) != shown:  # its escapes look like a finding to whoever redacts it again
        shown = json.dumps(redact_text(line.replace("\\", " ").replace('"', "'")), ensure_ascii=False)
    return Shown(shown)


# No text that a stranger wrote holds it, since it is made anew for each process.
_WORD: Final = f"zq{secrets.token_hex(3)}"


def joined(parts: Iterable[str]) -> str:
    """
    Redact a text made of parts as a whole; the `Shown` ones are one opaque word each meanwhile.

    So a finding cannot take a half of one, and what it takes whole (`password={exc.value}`) goes.
    """
    shown: list[str] = []
    text = ""
    for part in parts:
        if isinstance(part, Shown):
            text += f"{_WORD}x{len(shown)}x"
            shown.append(part)
        else:
            text += part
    if not shown:
        return text
    return Safe(re.sub(_WORD + r"x(\d+)x", lambda m: shown[int(m[1])], redact_text(text)))


def safe_name(name: object) -> str:
    """Make a caller's tool name fit to be shown: one printable line of at most 128 characters."""
    return clean_line(name, MAX_TOOL_NAME) if isinstance(name, str) else ""


def log_name(name: str) -> str:
    """Make a caller's tool name fit for the log."""
    return attempt(lambda: redact_text(safe_name(name), profile="log"), "[redacted]")


def safe_details(details: Mapping[str, object]) -> dict[str, Scalar]:
    """Make a flat copy of details that is redacted, by key too, and JSON-safe; what is no scalar is left out."""
    flat: dict[str, Scalar] = {}
    for key, value in list(details.items())[:20]:
        if not isinstance(value, (bool, int, float, str, type(None))):
            continue
        if isinstance(value, Safe):
            flat[safe_name(redact_text(str(key)))] = clean_line(value, 200)
            continue
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
            value = str(value)[:64]
        redacted = redact({str(key): value})
        for name, item in redacted.items() if isinstance(redacted, dict) else ():
            flat[safe_name(name)] = clean_line(item, 200) if isinstance(item, str) else item
    return flat


def check_code(code: object) -> str:
    """Return `code` if it is a well-formed one, else raise `ValueError` that says what is."""
    if not isinstance(code, str) or not 3 <= len(code) <= 64 or not _CODE.match(code):
        raise ValueError(
            f"code {code!r} is not valid: use 3 to 64 characters of A-Z, 0-9 and single underscores, "
            "starting with a letter, such as 'INVOICE_NOT_FOUND'"
        )
    return code


def check_choice(what: str, value: object, choices: frozenset[str]) -> None:
    """Raise `ValueError` that names the choices when `value` is none of them."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{what} {value!r} is not valid: use one of {', '.join(sorted(choices))}")


def default_outcome(category: str) -> Outcome:
    """What a failure of this category means for a side effect when its author says nothing."""
    return "not_applied" if category in _APPLIES_NOTHING else "unknown"


def parse_retry_after(value: object) -> float | None:
    """Read a wait in seconds from a number, a `timedelta`, a `datetime` or a `Retry-After` header.

    Both forms of the header are understood (RFC 9110, section 10.2.3): seconds, and an HTTP date.
    Whatever is negative, not finite or not understood gives None; more than a day is cut to a day.
    """
    seconds: float
    try:
        if value is None or isinstance(value, bool):
            return None
        if isinstance(value, bytes):
            value = value.decode("ascii")
        if isinstance(value, timedelta):
            seconds = value.total_seconds()
        elif isinstance(value, datetime):
            moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
            seconds = max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
        elif isinstance(value, str) and not re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]{1,6})?\s*", value):
            return parse_retry_after(parsedate_to_datetime(value[:64]))
        else:
            seconds = float(cast(float, value))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, MAX_RETRY_AFTER)


class ToolFailure(Exception):  # noqa: N818 - it is MCP's own word for it, and the contract's
    """Fail a tool call on purpose, with a code of its own, where no exception type says it.

    Args:
        code: Stable code, `^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`, 3 to 64 characters.
        message: What was observed, in the author's words. It is redacted (unless it is a `Safe`), made one
            line, cut at 500 characters and shown on the wire. Words of the exception being handled that
            stand in it are put in quotes.
        hint: The valid next step for the model. Treated like `message`.
        category: One of gRPC's canonical codes in lower case.
        retryable: Whether repeating exactly this call can succeed. What the wire says also takes into
            account whether a repeat is safe.
        retry_after: Seconds before which a repeat is pointless (a number, `timedelta`, `datetime` or
            `Retry-After` header value).
        outcome: Whether the side effect took place; unsaid, it follows from the category.
        details: Flat JSON object for programs; values are redacted.

    Raises:
        ValueError: A malformed code, an unknown category or outcome, an empty message.

    An instance is also a `ToolError` of every host that the process has loaded, so that each of them
    answers with its text whether or not it masks errors. `failure` is set on those that a guard raised.
    """

    failure: Failure | None = None
    _problem: Problem | None = None
    # fastmcp logs a FastMCPError at this level.
    log_level = logging.WARNING

    def __new__(cls, *args: object, **kwargs: object) -> ToolFailure:
        return super().__new__(bound_class(cls))

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        category: Category = "failed_precondition",
        retryable: bool = False,
        retry_after: float | timedelta | datetime | str | None = None,
        outcome: Outcome | None = None,
        details: Mapping[str, Scalar] | None = None,
    ) -> None:
        check_choice("category", category, CATEGORIES)
        if outcome is not None:
            check_choice("outcome", outcome, OUTCOMES)
        if not isinstance(message, str) or not message.strip():
            raise ValueError("message must be a text that says what was observed")
        self.code = check_code(code)
        self.message = message
        self.hint = hint
        self.category: Category = category
        self.retryable = bool(retryable)
        self.retry_after = parse_retry_after(retry_after)
        self.outcome: Outcome | None = outcome
        self.details = dict(details) if details else None
        Exception.__init__(self, f"{code}: {message}")

    @classmethod
    def raised_for(cls, failure: Failure, problem: Problem | None = None) -> ToolFailure:
        """Make the exception with which a guard answers: its text is the full text for the model."""
        made = cls(
            failure.code,
            failure.message,
            hint=failure.hint,
            category=failure.category,
            retryable=failure.retryable,
            retry_after=failure.retry_after,
            outcome=failure.outcome,
            details=failure.details,
        )
        made.failure = failure
        made._problem = problem
        made.args = (failure.text,)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: value for key, value in self.__dict__.items() if key != "_problem"}
        # By the class as its author wrote it: another process binds it to the hosts that it has.
        written = next(cls for cls in type(self).__mro__ if "_bound_to" not in vars(cls))
        return _rebuild, (written, self.args, state)


def _rebuild(cls: type[ToolFailure], args: tuple[object, ...], state: dict[str, object]) -> ToolFailure:
    made = cls.__new__(cls)
    made.args = args
    made.__dict__.update(state)
    return made


_HOST_MODULES: Final = (
    "mcp.server.fastmcp.exceptions",
    "mcp.server.mcpserver.exceptions",
    "fastmcp.exceptions",
)


def host_tool_errors() -> tuple[type[Exception], ...]:
    """The `ToolError` classes of the hosts that this process has loaded; none is imported for it."""
    found: list[type[Exception]] = []
    for name in _HOST_MODULES:
        error = getattr(sys.modules.get(name), "ToolError", None)
        if isinstance(error, type) and issubclass(error, Exception) and error not in found:
            found.append(error)
    return tuple(found)


def bound_class(cls: type[ToolFailure] = ToolFailure) -> type[ToolFailure]:
    """The class as a subclass of the running hosts' `ToolError` classes."""
    hosts = host_tool_errors()
    missing = tuple(host for host in hosts if not issubclass(cls, host))
    # An author's subclass may ask for what this does not know; it stays as it is then.
    return attempt(_bound_class, cls, cast(Any, cls), missing) if missing else cls


@lru_cache(maxsize=256)
def _bound_class(cls: Any, hosts: tuple[Any, ...]) -> type[ToolFailure]:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (cls, *hosts), {**names, "_bound_to": hosts})
