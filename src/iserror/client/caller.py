"""`ToolCaller`: the one way through which an agent's tool calls go, with bounded retries."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from iserror.attempt import attempt, either
from iserror.call import new_request_id, parse_traceparent
from iserror.client.classify import classify
from iserror.client.outcome import (
    CallOutcome,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolFailed,
    UrlElicitationRequired,
)
from iserror.client.session import list_tools, sender
from iserror.excinfo import describe, log_text
from iserror.failure import log_name
from iserror.fingerprint import fingerprint
from iserror.logs.chain import emit
from iserror.logs.record import SCHEMA_VERSION

if TYPE_CHECKING:
    from tenacity import RetryCallState


class Tool(Protocol):
    """What is read of a listed tool, of any SDK's class."""

    name: str
    annotations: Any


@dataclass
class _Identical:
    """What came of calls of one tool with the same arguments."""

    failures: int = 0
    """In a row; a success forgets them."""
    in_flight: int = 0
    last: CallOutcome | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    key: object = None
    """The idempotency key of the last one whose outcome is not known; the next goes with it."""
    done: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True)
class _Call:
    """One call as it is sent, each time the same."""

    tool: str
    arguments: dict[str, Any]
    key: object
    """Its idempotency key, if one goes with it."""
    same: _Identical


class ToolCaller:
    """Call tools for an agent: every answer classified, failures logged, repeats bounded and only where they are safe.

    A call is repeated when its envelope says `retryable`, and after an unknown outcome when the tool's annotations
    say that it only reads or is idempotent, or an idempotency key goes with it; never before `retry_after`.
    One caller is one run of an agent. It may be used from several tasks.

    Args:
        session: A connected client: `ClientSession` of mcp 1.x, `Client` or `ClientSession` of mcp 2.x, or
            `Client` of fastmcp.
        tools: What `tools/list` gave; unsaid, it is asked for once, before the first call.
        idempotency_keys: Tool name -> the parameter that takes its idempotency key. A call without one gets a
            fresh one, which stays with these arguments until it is known what came of them.
        run_id: Stands in every log line; unsaid, a UUIDv7 of 32 hex digits.
        traceparent: The run's W3C trace context, sent with every call; unsaid, that of the active OpenTelemetry
            span, else a random one that says `sampled`.
        timeout: Seconds for one attempt, above 0.
        max_attempts: How often one call is sent at most, 1 or more.
        max_identical_failures: After so many failures in a row of one tool with the same arguments it is not sent
            any more, 1 or more.
        max_attempts_per_run: How often anything is sent in the whole run, 1 or more.
        max_retries_per_run: How many of these may be repeats, 0 or more.
        max_wait: Seconds before a repeat, above 0; a failure that asks for a longer wait is returned at once.
        backoff: Seconds below which the wait before the first repeat is drawn (full jitter), above 0; doubled
            each time.

    Raises:
        TypeError: A session of no supported library.
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
        self._tools = None if tools is None else {tool.name: tool for tool in tools}
        self._keys = dict(idempotency_keys or {})
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

        Never raises for what a server or a connection does. A cancellation ends it at once.

        Args:
            tool: The tool's name.
            arguments: JSON-safe arguments.

        Raises:
            TypeError: Arguments that are no JSON object.
        """
        sent = _checked(tool, arguments)
        parameter = self._keys.get(tool)
        same = self._identical.setdefault(_same(tool, sent, parameter), _Identical())
        key = sent.get(parameter) if parameter is not None else None
        if parameter is not None and key is None:
            key = same.key or secrets.token_hex(16)
        ready = _Call(tool, sent if parameter is None else {**sent, parameter: key}, key, same)
        attempts = 0
        ended = False
        last: CallOutcome | None = None

        async def once() -> CallOutcome:
            nonlocal attempts, ended, last
            refused = await self._reserve(ready, repeat=attempts > 0)
            if refused is None:
                attempts += 1
                last = await self._once(ready, attempts)
                return last
            ended = True
            if last is None:
                self._log(ready, refused, 0)
            return last or refused  # others used up the budget before this repeat

        retrying = self._tenacity.AsyncRetrying(
            sleep=anyio.sleep,
            stop=self._tenacity.stop_never,
            wait=self._wait,
            retry=self._tenacity.retry_if_result(lambda outcome: not ended and self._repeats(outcome, same, attempts)),
        )
        outcome: CallOutcome = await retrying(once)
        return outcome

    # --- one attempt -----------------------------------------------------------------------------------------

    async def _once(self, call: _Call, attempts: int) -> CallOutcome:
        outcome: CallOutcome | None = None
        traceparent = self._traceparent or active_traceparent() or f"00-{self._trace_id}-{secrets.token_hex(8)}-01"
        started = time.perf_counter_ns()
        try:
            await self._list()
            with anyio.move_on_after(self._timeout):
                outcome = await self._classified(call, {"traceparent": traceparent})
            if outcome is None:
                outcome = OutcomeUnknown("timeout", f"nothing within {self._timeout:g} s.")
            if isinstance(outcome, OutcomeUnknown):
                outcome = replace(outcome, repeatable=self._is_safe(call))
            outcome = replace(outcome, attempts=attempts)
        finally:
            self._settle(call, outcome)
            if outcome is None or _failed(outcome):
                took = round((time.perf_counter_ns() - started) / 1e6, 3)
                self._log(call, outcome, attempts, trace_id=parse_traceparent(traceparent), duration_ms=took)
        return outcome

    async def _classified(self, call: _Call, meta: dict[str, Any]) -> CallOutcome:
        catalogue = self._tools or ()
        try:
            answer = await self._send(call.tool, call.arguments, meta)
        except Exception as exc:
            return classify(exc, tool=call.tool, catalogue=catalogue)
        return classify(answer, tool=call.tool, catalogue=catalogue)

    def _is_safe(self, call: _Call) -> bool:
        """Whether this call may be repeated though nobody knows what came of it."""
        if call.key is not None:
            return True
        annotations = getattr((self._tools or {}).get(call.tool), "annotations", None)
        return (
            either(annotations, "read_only_hint", "readOnlyHint") is True
            or either(annotations, "idempotent_hint", "idempotentHint") is True
        )

    async def _list(self) -> None:
        """Know the tools before a connection breaks: afterwards nobody says which of them are safe."""
        if self._tools is None:
            # If it fails, the call itself shows what is wrong, and the next one asks again.
            with anyio.move_on_after(self._timeout), suppress(Exception):
                self._tools = {tool.name: tool for tool in await list_tools(self._session)}

    # --- limits ----------------------------------------------------------------------------------------------

    async def _reserve(self, call: _Call, *, repeat: bool) -> NotSent | None:
        """Take one attempt from the budget, or say why there is none."""
        same = call.same
        while same.in_flight and same.failures + same.in_flight >= self._max_identical:
            await same.done.wait()  # one of them may yet succeed
        if same.failures >= self._max_identical:
            tried = ", ".join(f"{count} x {kind}" for kind, count in same.kinds.most_common(5))
            return NotSent(
                "identical_failures",
                f"{call.tool} failed {same.failures} times with exactly these arguments ({tried}). "
                "Change the call, or stop and tell the user.",
                same.last,
            )
        if not self._attempts_left or (repeat and not self._retries_left):
            return NotSent("run_budget", "this run has used up its tool calls. Stop and tell the user.", same.last)
        self._attempts_left -= 1
        self._retries_left -= repeat
        same.in_flight += 1
        return None

    def _settle(self, call: _Call, outcome: CallOutcome | None) -> None:
        """Count what came of an attempt; None is one that was cancelled."""
        same = call.same
        same.in_flight -= 1
        failure = outcome.failure if isinstance(outcome, ToolFailed) else None
        if isinstance(outcome, Succeeded) or (failure is not None and failure.outcome == "not_applied"):
            same.key = None if same.key == call.key else same.key
        else:
            same.key = call.key
        if isinstance(outcome, Succeeded):
            same.failures, same.last = 0, None
            same.kinds.clear()
        elif outcome is not None and _failed(outcome):
            same.failures += 1
            same.last = outcome
            same.kinds[_code(outcome) or type(outcome).__name__] += 1
        same.done.set()
        same.done = anyio.Event()

    def _repeats(self, outcome: CallOutcome, same: _Identical, attempts: int) -> bool:
        """Whether to send the call again: a repeat can help and is safe, and every limit allows it."""
        if isinstance(outcome, ToolFailed):
            wanted = outcome.retryable is True
        else:
            wanted = isinstance(outcome, OutcomeUnknown) and outcome.repeatable
            wanted = wanted or (isinstance(outcome, NotSent) and outcome.reason == "connection")
        return (
            wanted
            and attempts < self._max_attempts
            and same.failures < self._max_identical
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
        """One line under the server's request id; of a cancelled attempt, that it was given up."""
        line: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool": log_name(call.tool),
            "run_id": self.run_id,
            "attempt": attempts,
            "fingerprint": fingerprint(call.tool, call.arguments),
            **more,
        }
        if outcome is not None:
            line |= {
                "request_id": outcome.request_id,
                "kind": type(outcome).__name__,
                "code": _code(outcome),
                "message": log_text(outcome.report.partition("\n")[0]),
                "will_repeat": self._repeats(outcome, call.same, attempts),
            }
            if isinstance(outcome, OutcomeUnknown) and outcome.exception is not None:
                line["exception"] = attempt(describe, None, outcome.exception)
        level, event = ("info", "tool_call_cancelled") if outcome is None else ("warning", "tool_call_failed")
        emit(level, event, {key: value for key, value in line.items() if value is not None})


def _checked(tool: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    sent = dict(arguments or {}) if isinstance(arguments, (Mapping, type(None))) else None
    try:
        if sent is None or not isinstance(tool, str):
            raise TypeError("a tool's name is a text, its arguments are a dict")
        json.dumps(sent, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise TypeError(f"cannot call {tool!r}: its arguments are no JSON object ({exc})") from None
    return sent


def _same(tool: str, sent: Mapping[str, Any], parameter: str | None) -> str:
    """What equal calls share; a model that makes up a new idempotency key each time still makes the same call."""
    text = json.dumps([tool, {name: value for name, value in sent.items() if name != parameter}], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


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


def active_traceparent() -> str | None:
    """The active OpenTelemetry span as a W3C `traceparent`, if there is one. The API is not imported for it."""
    trace = sys.modules.get("opentelemetry.trace")
    context = attempt(lambda: trace.get_current_span().get_span_context(), None) if trace is not None else None
    if context is None or not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
