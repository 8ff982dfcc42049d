"""`ToolCaller`: the one way through which an agent's tool calls go, with bounded retries."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from iserror.client.classify import classify
from iserror.client.outcome import (
    CallOutcome,
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolFailed,
    UrlElicitationRequired,
)
from iserror.client.session import by_name, list_tools, sender
from iserror.errors.failure import Failure
from iserror.layers.ids import new_request_id
from iserror.logs.emit import emit
from iserror.logs.excinfo import described
from iserror.logs.fingerprint import fingerprint
from iserror.logs.record import SCHEMA_VERSION
from iserror.logs.redaction import log_text
from iserror.redact.speech import log_name, safe_name
from iserror.support.look import attempt
from iserror.support.otel import parse_traceparent
from iserror.support.sdk import either

if TYPE_CHECKING:
    from tenacity import RetryCallState


class Tool(Protocol):
    """What is read of a listed tool, of any SDK's class; beside it the input schema, under either of its names."""

    name: str
    annotations: Any


@dataclass
class _Identical:
    """What came of calls of one tool with the same arguments."""

    failures: int = 0
    """Calls in a row that failed, however often each was tried; a success forgets them."""
    in_flight: int = 0
    last: CallOutcome | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    keys: list[str | int] = field(default_factory=list)
    """Idempotency keys of calls of which it is not known that they are done; the next calls go with them."""
    done: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True)
class _Call:
    """One call as it is sent, each time the same."""

    tool: str
    arguments: dict[str, Any]
    parameter: str | None
    """The one that has its idempotency key, if one goes with it."""
    fingerprint: str | None

    @property
    def key(self) -> str | int | None:
        return None if self.parameter is None else self.arguments[self.parameter]


class ToolCaller:
    """Call tools for an agent: every answer classified, failures logged, repeats bounded and only where they are safe.

    A call is repeated when its envelope says `retryable`, when there was no connection, and after an unknown outcome
    when the tool's annotations say that it only reads or is idempotent, or an idempotency key goes with it; never
    before `retry_after`. One caller is one run of an agent. It may be used from several tasks.

    Args:
        session: A connected client: `ClientSession` of mcp 1.x, `Client` or `ClientSession` of mcp 2.x, or
            `Client` of fastmcp.
        tools: What `tools/list` gave, the result or its list; unsaid, it is asked for before the first call.
        idempotency_keys: Tool name -> the parameter that takes its idempotency key. A call without one gets a
            fresh one; as long as it is not known that the call is done, the next with the same arguments has it too.
        run_id: Stands in every log line; unsaid, a UUIDv7 of 32 hex digits.
        traceparent: The run's W3C trace context, sent with every call; unsaid, that of the active OpenTelemetry
            span, else a random one that says `sampled`.
        timeout: Seconds for one attempt, above 0, and for the list of tools.
        max_attempts: How often one call is sent at most, 1 or more.
        max_identical_failures: After so many calls in a row of one tool with the same arguments that failed, none
            is sent any more, 1 or more.
        max_attempts_per_run: How often anything is sent in the whole run, 1 or more.
        max_retries_per_run: How many of these may be repeats, 0 or more.
        max_wait: Seconds before a repeat, above 0; a failure that asks for a longer wait is returned at once.
        backoff: Seconds below which the wait before the first repeat is drawn (full jitter), above 0; doubled
            each time.

    Raises:
        TypeError: A session of no supported library, `tools` that are no tools.
        ValueError: A limit out of range, a malformed `traceparent`.
        ImportError: tenacity is missing: install `iserror[client]`.
    """

    def __init__(
        self,
        session: Any,
        *,
        tools: Iterable[Tool] | None = None,
        idempotency_keys: Mapping[str, str] | None = None,
        run_id: str | None = None,
        traceparent: str | None = None,
        timeout: float = 30.0,
        max_attempts: int = 3,
        max_identical_failures: int = 3,
        max_attempts_per_run: int = 200,
        max_retries_per_run: int = 20,
        max_wait: float = 10.0,
        backoff: float = 0.5,
    ) -> None:
        try:
            import tenacity
        except ImportError as exc:
            raise ImportError("ToolCaller needs tenacity: install iserror[client]", name="tenacity") from exc
        for what, number, least in (
            ("max_attempts", max_attempts, 1),
            ("max_identical_failures", max_identical_failures, 1),
            ("max_attempts_per_run", max_attempts_per_run, 1),
            ("max_retries_per_run", max_retries_per_run, 0),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{what} {number!r} is not valid: use a whole number, {least} or more")
        for what, seconds in (("timeout", timeout), ("max_wait", max_wait), ("backoff", backoff)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
                raise ValueError(f"{what} {seconds!r} is not valid: use a number of seconds above 0")
        if traceparent is not None and parse_traceparent(traceparent) is None:
            raise ValueError("traceparent is not valid: use 00-TRACE_ID-SPAN_ID-FLAGS (W3C Trace Context)")
        self.run_id = run_id or new_request_id()
        self._send = sender(session)
        self._session = session
        self._tools = None if tools is None else by_name(tools)
        self._listing: anyio.Lock | None = None
        self._parameters = dict(idempotency_keys or {})
        self._traceparent = traceparent
        self._trace_id = secrets.token_hex(16)
        self._timeout = timeout
        self._max_attempts = max_attempts
        self._max_identical = max_identical_failures
        self._attempts_left = max_attempts_per_run
        self._retries_left = max_retries_per_run
        self._max_wait = max_wait
        self._tenacity = tenacity
        self._jitter = tenacity.wait_random_exponential(multiplier=backoff, max=max_wait)
        self._identical: dict[str, _Identical] = {}

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> CallOutcome:
        """Call a tool, and again where that is sensible and safe, and say what came of it.

        What a server or a connection does raises nothing; but some clients cancel their caller when a connection
        breaks (see the docs). A cancellation ends it at once.

        Args:
            tool: The tool's name.
            arguments: JSON-safe arguments.

        Raises:
            TypeError: Arguments that are no JSON object.
            ValueError: The tool has no such parameter as `idempotency_keys` says.
        """
        sent = _checked(tool, arguments)
        parameter = self._parameters.get(tool)
        await self._list()
        self._check(tool, parameter)
        # A model that makes up a new key for each repeat still makes the same call.
        plain = {name: value for name, value in sent.items() if name != parameter}
        like = hashlib.blake2b(json.dumps([tool, plain], sort_keys=True).encode(), digest_size=16).hexdigest()
        refused = await self._enter(tool, like)
        if refused is not None:
            self._log(_Call(tool, sent, None, fingerprint(tool, plain)), refused, 0)
            return refused
        same = self._identical[like]
        if parameter is not None:
            # One that is pending goes before one that the model made up for its repeat of the same call.
            given = sent.get(parameter)
            usable = isinstance(given, (str, int)) and not isinstance(given, bool) and given != ""
            sent[parameter] = same.keys.pop(0) if same.keys else given if usable else secrets.token_hex(16)
        call = _Call(tool, sent, parameter, fingerprint(tool, plain))
        outcome: CallOutcome | None = None
        try:
            outcome = await self._repeated(call)
        finally:
            self._leave(like, same, call, outcome)
        return outcome

    async def _repeated(self, call: _Call) -> CallOutcome:
        """Try the call until that is of no more use, or the budget is used up."""
        attempts = 0
        ended = False
        last: CallOutcome | None = None
        lost: OutcomeUnknown | None = None

        async def once() -> CallOutcome:
            nonlocal attempts, ended, last, lost
            refused = self._reserve(repeat=attempts > 0)
            if refused is not None:
                ended = True
                if last is None:
                    self._log(call, refused, 0)
                return last or refused  # others used up the budget before this repeat
            attempts += 1
            last = await self._once(call, attempts)
            if isinstance(last, OutcomeUnknown):
                lost = last
            return last

        retrying = self._tenacity.AsyncRetrying(
            sleep=anyio.sleep,
            stop=self._tenacity.stop_never,
            wait=self._wait,
            retry=self._tenacity.retry_if_result(lambda outcome: not ended and self._repeats(outcome, attempts)),
        )
        outcome: CallOutcome = await retrying(once)
        if lost is not None and _says_nothing_happened(outcome) and not self._only_reads(call.tool):
            # Of the attempt before, which got no answer, it says nothing.
            return replace(lost, attempts=attempts, last=outcome)
        return outcome

    # --- one attempt -----------------------------------------------------------------------------------------

    async def _once(self, call: _Call, attempts: int) -> CallOutcome:
        outcome: CallOutcome | None = None
        traceparent = self._traceparent or active_traceparent() or f"00-{self._trace_id}-{secrets.token_hex(8)}-01"
        started = time.perf_counter_ns()
        try:
            outcome = replace(await self._classified(call, traceparent), attempts=attempts)
        finally:
            if outcome is None or _failed(outcome):
                took = round((time.perf_counter_ns() - started) / 1e6, 3)
                self._log(call, outcome, attempts, trace_id=parse_traceparent(traceparent), duration_ms=took)
        return outcome

    async def _classified(self, call: _Call, traceparent: str) -> CallOutcome:
        answer: Any = None
        with anyio.move_on_after(self._timeout) as timer:
            try:
                with _within(traceparent):
                    answer = await self._send(call.tool, call.arguments, {"traceparent": traceparent})
            except Exception as exc:
                answer = exc
        if timer.cancelled_caught and answer is None:
            outcome: CallOutcome = OutcomeUnknown("timeout", f"nothing within {self._timeout:g} s.")
        else:
            try:
                outcome = classify(answer, tool=call.tool, catalogue=self._tools or ())
            except TypeError:
                outcome = ContractBroken("the client library gave something that is no result")
        if isinstance(outcome, OutcomeUnknown):
            return replace(outcome, repeatable=self._is_safe(call), idempotency_key=call.key)
        return outcome

    def _check(self, tool: str, parameter: str | None) -> None:
        properties = _properties(self._tool(tool))
        if parameter is not None and properties is not None and parameter not in properties:
            raise ValueError(
                f"idempotency_keys: {tool!r} has no parameter {parameter!r}; it has {', '.join(properties)}"
            )

    def _tool(self, name: str) -> Any:
        return (self._tools or {}).get(name)

    def _is_safe(self, call: _Call) -> bool:
        """Whether this call may be repeated though nobody knows what came of it."""
        tool = self._tool(call.tool)
        # A parameter that nobody has seen in the schema may be one that the server ignores.
        has_key = call.parameter is not None and call.parameter in (_properties(tool) or ())
        idempotent = either(getattr(tool, "annotations", None), "idempotent_hint", "idempotentHint") is True
        return has_key or idempotent or self._only_reads(call.tool)

    def _only_reads(self, name: str) -> bool:
        annotations = getattr(self._tool(name), "annotations", None)
        return either(annotations, "read_only_hint", "readOnlyHint") is True

    async def _list(self) -> None:
        """Know the tools before a connection breaks: afterwards nobody says which of them are safe."""
        self._listing = self._listing or anyio.Lock()
        if self._tools is None:
            async with self._listing:
                if self._tools is None:
                    # If it fails, the call itself shows what is wrong, and the next one asks again.
                    with anyio.move_on_after(self._timeout), suppress(Exception):
                        self._tools = by_name(await list_tools(self._session))

    # --- limits ----------------------------------------------------------------------------------------------

    async def _enter(self, tool: str, like: str) -> NotSent | None:
        """Begin a call, or say why it may not be sent."""
        while True:
            if not self._attempts_left:
                return self._used_up()
            same = self._identical.setdefault(like, _Identical())
            if same.failures >= self._max_identical:
                tried = ", ".join(f"{count} x {kind}" for kind, count in same.kinds.most_common(5))
                return NotSent(
                    "identical_failures",
                    f"{safe_name(tool)} failed {same.failures} times with exactly these arguments ({tried}). "
                    "Change the call, or stop and tell the user.",
                    same.last,
                )
            if same.failures + same.in_flight < self._max_identical:
                same.in_flight += 1
                return None
            await same.done.wait()  # one of those under way may yet succeed

    def _leave(self, like: str, same: _Identical, call: _Call, outcome: CallOutcome | None) -> None:
        """Count what came of a call; None is one that was cancelled."""
        same.in_flight -= 1
        if isinstance(outcome, Succeeded):
            same.failures, same.last = 0, None
            same.kinds.clear()
        else:
            if call.key is not None:
                same.keys.append(call.key)
            if outcome is not None and _failed(outcome) and not isinstance(outcome, NotSent):
                same.failures += 1
                same.last = replace(outcome, exception=None) if isinstance(outcome, OutcomeUnknown) else outcome
                same.kinds[_code(outcome) or type(outcome).__name__] += 1
        same.done.set()
        same.done = anyio.Event()
        if not (same.in_flight or same.failures or same.keys) and self._identical.get(like) is same:
            del self._identical[like]

    def _reserve(self, *, repeat: bool) -> NotSent | None:
        """Take one attempt from the run's budget, or say that there is none."""
        if not self._attempts_left or (repeat and not self._retries_left):
            return self._used_up()
        self._attempts_left -= 1
        self._retries_left -= repeat
        return None

    @staticmethod
    def _used_up() -> NotSent:
        return NotSent("run_budget", "this run has used up its tool calls. Stop and tell the user.")

    def _repeats(self, outcome: CallOutcome, attempts: int) -> bool:
        """Whether to send the call again: a repeat can help and is safe, and every limit allows it."""
        match outcome:
            case ToolFailed(failure=Failure(retryable=True, outcome="not_applied" | "unknown")):
                wanted = True
            case OutcomeUnknown(repeatable=True) | NotSent(reason="connection"):
                wanted = True
            case _:
                wanted = False
        return (
            wanted
            and attempts < self._max_attempts
            and self._attempts_left > 0
            and self._retries_left > 0
            and _asked_wait(outcome) <= self._max_wait
        )

    def _wait(self, state: RetryCallState) -> float:
        """Seconds before the next attempt: what the server asks for, and a random part that grows."""
        outcome = state.outcome.result() if state.outcome is not None else None
        return min(_asked_wait(outcome) + float(self._jitter(state)), self._max_wait)

    # --- the log ---------------------------------------------------------------------------------------------

    def _log(self, call: _Call, outcome: CallOutcome | None, attempts: int, **more: Any) -> None:
        """One line under the server's request id; of a cancelled attempt, that its answer will not be seen."""
        line: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool": log_name(call.tool),
            "run_id": self.run_id,
            "attempt": attempts,
            "fingerprint": call.fingerprint,
            **more,
        }
        if outcome is not None:
            line |= {
                "request_id": outcome.request_id,
                "kind": type(outcome).__name__,
                "code": _code(outcome),
                "message": log_text(outcome.report.partition("\n")[0]),
                "will_repeat": self._repeats(outcome, attempts),
            }
            if isinstance(outcome, OutcomeUnknown) and outcome.exception is not None:
                line["exception"] = described(outcome.exception)
        event = "tool_call_cancelled" if outcome is None else "tool_call_failed"
        emit("warning", event, {key: value for key, value in line.items() if value is not None})


def _checked(tool: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of the arguments as JSON has them, so that each attempt sends the same."""
    try:
        if not isinstance(arguments, (Mapping, type(None))) or not isinstance(tool, str):
            raise TypeError("a tool's name is a text, its arguments are a dict")
        text = json.dumps({} if arguments is None else dict(arguments), allow_nan=False, ensure_ascii=False)
        text.encode()  # half of a surrogate pair ends a whole stdio session
    except (TypeError, ValueError, RecursionError) as exc:
        raise TypeError(f"cannot call {safe_name(tool)!r}: its arguments are no JSON object ({exc})") from None
    sent: dict[str, Any] = json.loads(text)
    return sent


def _properties(tool: Any) -> Mapping[str, Any] | None:
    """The parameters of a listed tool; None where its schema does not say."""
    schema = either(tool, "input_schema", "inputSchema")
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _failed(outcome: CallOutcome) -> bool:
    return not isinstance(outcome, (Succeeded, InputRequired, UrlElicitationRequired))


def _code(outcome: CallOutcome) -> str | None:
    if isinstance(outcome, ProtocolFailed):
        return str(outcome.code)
    return outcome.code if isinstance(outcome, ToolFailed) else None


def _asked_wait(outcome: CallOutcome | None) -> float:
    """Seconds that the server asks to wait."""
    failure = outcome.failure if isinstance(outcome, ToolFailed) else None
    return (failure.retry_after or 0.0) if failure is not None else 0.0


def _says_nothing_happened(outcome: CallOutcome) -> bool:
    """Whether an outcome, taken alone, says that the call had no effect."""
    if isinstance(outcome, ToolFailed):
        return outcome.failure is not None and outcome.failure.outcome == "not_applied"
    return isinstance(outcome, (NotSent, ProtocolFailed))


def active_traceparent() -> str | None:
    """The active OpenTelemetry span as a W3C `traceparent`, if there is one. The API is not imported for it."""
    trace = sys.modules.get("opentelemetry.trace")
    context = attempt(lambda: trace.get_current_span().get_span_context(), None) if trace is not None else None
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@contextmanager
def _within(traceparent: str) -> Iterator[None]:
    """Make the trace context the active one: clients that trace themselves send their own spans' in its place."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or active_traceparent() == traceparent:
        yield
        return
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    context = trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
    )
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield
