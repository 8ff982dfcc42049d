"""`ToolCaller`: an agent's tool calls, with bounded retries."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from iserror.client.budget import Budget
from iserror.client.classify import classify
from iserror.client.outcome import (
    CallOutcome,
    ContractBroken,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    ToolFailed,
    code_of,
    is_failure,
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
from iserror.support.look import look
from iserror.support.otel import active, active_traceparent, parse_traceparent
from iserror.support.sdk_client import (
    cancel_request,
    input_schema_of,
    is_annotated,
    note_ids,
    sent_id,
)

if TYPE_CHECKING:
    from tenacity import RetryCallState


class Tool(Protocol):
    """A listed tool of any SDK. The caller also reads its input schema, which the SDKs name differently."""

    name: str
    annotations: Any


@dataclass(frozen=True)
class _Call:
    """One call. Each attempt sends the same."""

    tool: str
    arguments: dict[str, Any]
    parameter: str | None
    """The parameter that has the idempotency key, or None if the call has no key."""
    fingerprint: str | None

    @property
    def key(self) -> str | int | None:
        return None if self.parameter is None else self.arguments[self.parameter]


class ToolCaller:
    """Call tools for an agent: classify every answer, log failures, and retry only where that helps and is safe.

    A call is retried

    - if its envelope has `retryable: true`, and nothing was applied or a retry is safe as after an unknown outcome,
    - if there was no connection,
    - after an unknown outcome, if the tool is annotated as read-only or idempotent, or the call has an idempotency key.

    It is never retried before `retry_after`. One caller is one run of an agent. Several tasks may share it.

    Args:
        session: A connected client: `ClientSession` of mcp 1.x, `Client` or `ClientSession` of mcp 2.x, or
            `Client` of fastmcp.
        tools: The result of `tools/list`, or its list. If omitted, the caller asks for it before the first call.
        idempotency_keys: Tool name -> the parameter that takes its idempotency key. A call without a key gets a new
            one. The next call with the same arguments gets the same key, until one of them is known to be done.
        run_id: The id in every log line (default: a UUIDv7 of 32 hex digits).
        traceparent: The run's W3C trace context, sent with every call (default: the active OpenTelemetry span, else a
            random context that says `sampled`).
        timeout: Seconds for one attempt, and for the list of tools, above 0.
        max_attempts: Attempts per call, 1 or more.
        max_identical_failures: Failures in a row of one tool with the same arguments, 1 or more. After that, the
            caller doesn't send the call again.
        max_attempts_per_run: Attempts in the whole run, 1 or more.
        max_retries_per_run: How many of these attempts may be retries, 0 or more.
        max_wait: Longest wait before a retry, in seconds, above 0. If a failure asks for more, the caller returns it.
        backoff: Upper bound of the random wait before the first retry (full jitter), in seconds, above 0. It doubles
            with each retry.

    Raises:
        TypeError: If the session isn't a client of a supported library, or `tools` aren't tools.
        ValueError: If a limit is out of range, or `traceparent` is malformed.
        ImportError: If tenacity is missing: install `iserror[client]`.
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
        self._budget = Budget(
            max_attempts=max_attempts,
            max_identical_failures=max_identical_failures,
            max_attempts_per_run=max_attempts_per_run,
            max_retries_per_run=max_retries_per_run,
        )
        for name, seconds in (("timeout", timeout), ("max_wait", max_wait), ("backoff", backoff)):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
                raise ValueError(f"{name} {seconds!r} is not valid: use a number of seconds above 0")
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
        self._max_wait = max_wait
        self._tenacity = tenacity
        self._jitter = tenacity.wait_random_exponential(multiplier=backoff, max=max_wait)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> CallOutcome:
        """Call a tool, retry where that helps and is safe, and return the outcome.

        Nothing that a server or a connection does raises here. But some clients cancel their caller when a connection
        breaks (see the docs), and a cancellation ends the call at once.

        Args:
            tool: The tool's name.
            arguments: JSON-safe arguments.

        Raises:
            TypeError: If the arguments aren't a JSON object.
            ValueError: If the tool lacks the parameter that `idempotency_keys` names.
        """
        sent = _json_copy(tool, arguments)
        parameter = self._parameters.get(tool)
        await self._load_tools()
        self._check_parameter(tool, parameter)
        # A model that makes up a new key for each retry still makes the same call.
        plain = {name: value for name, value in sent.items() if name != parameter}
        identity = hashlib.blake2b(json.dumps([tool, plain], sort_keys=True).encode(), digest_size=16).hexdigest()
        same = await self._budget.enter(tool, identity)
        if isinstance(same, NotSent):
            self._write_line(_Call(tool, sent, None, fingerprint(tool, plain)), same, 0)
            return same
        if parameter is not None:
            # A pending key goes before one that the model made up for its retry of the same call.
            given = sent.get(parameter)
            usable = isinstance(given, (str, int)) and not isinstance(given, bool) and given != ""
            sent[parameter] = same.keys.pop(0) if same.keys else given if usable else secrets.token_hex(16)
        call = _Call(tool, sent, parameter, fingerprint(tool, plain))
        outcome: CallOutcome | None = None
        try:
            outcome = await self._with_retries(call)
        finally:
            self._budget.leave(identity, same, call.key, outcome)
        return outcome

    async def _with_retries(self, call: _Call) -> CallOutcome:
        """Try the call until another attempt is of no use, or the budget is used up."""
        attempts = 0
        ended = False
        last: CallOutcome | None = None
        lost: OutcomeUnknown | None = None

        async def once() -> CallOutcome:
            nonlocal attempts, ended, last, lost
            refused = self._budget.take_attempt(retry=attempts > 0)
            if refused is not None:
                ended = True
                if last is None:
                    self._write_line(call, refused, 0)
                return last or refused  # other calls used up the budget before this retry
            attempts += 1
            last = await self._attempt(call, attempts)
            if isinstance(last, OutcomeUnknown):
                lost = last
            return last

        retrying = self._tenacity.AsyncRetrying(
            sleep=anyio.sleep,
            stop=self._tenacity.stop_never,
            wait=self._wait,
            retry=self._tenacity.retry_if_result(
                lambda outcome: not ended and self._will_retry(call, outcome, attempts)
            ),
        )
        outcome: CallOutcome = await retrying(once)
        if lost is not None and _claims_no_effect(outcome) and not self._only_reads(call.tool):
            # The claim is about the last attempt, not about the one that got no answer.
            return replace(lost, attempts=attempts, last=outcome)
        return outcome

    # --- one attempt -----------------------------------------------------------------------------------------

    async def _attempt(self, call: _Call, attempts: int) -> CallOutcome:
        outcome: CallOutcome | None = None
        traceparent = self._traceparent or active_traceparent() or f"00-{self._trace_id}-{secrets.token_hex(8)}-01"
        started = time.perf_counter_ns()
        try:
            outcome = replace(await self._send_and_classify(call, traceparent), attempts=attempts)
        finally:
            if outcome is None or is_failure(outcome):
                took = round((time.perf_counter_ns() - started) / 1e6, 3)
                self._write_line(call, outcome, attempts, trace_id=parse_traceparent(traceparent), duration_ms=took)
        return outcome

    async def _send_and_classify(self, call: _Call, traceparent: str) -> CallOutcome:
        answer: Any = None
        ids: list[Any] = []
        look(note_ids, None, self._session)
        noted = sent_id.set(ids)
        try:
            with anyio.move_on_after(self._timeout) as timer:
                try:
                    with active(traceparent):
                        answer = await self._send(call.tool, call.arguments, {"traceparent": traceparent})
                except Exception as exc:
                    answer = exc
        finally:
            sent_id.reset(noted)
        if timer.cancelled_caught and answer is None:
            outcome: CallOutcome = OutcomeUnknown("timeout", f"nothing within {self._timeout:g} s.")
        else:
            try:
                outcome = classify(answer, tool=call.tool, catalogue=self._tools or (), arguments=call.arguments)
            except TypeError:
                outcome = ContractBroken("the client library returned something that is not a result")
        outcome = replace(outcome, read_only=self._only_reads(call.tool))
        if isinstance(outcome, OutcomeUnknown):
            if outcome.reason == "timeout" and ids:
                await cancel_request(self._session, ids[-1])  # before a retry, so that both don't run at once
            return replace(outcome, repeatable=self._is_safe_to_retry(call), idempotency_key=call.key)
        return outcome

    # --- the tools -------------------------------------------------------------------------------------------

    async def _load_tools(self) -> None:
        """Ask for the tools before a connection breaks: afterwards their annotations can't be read."""
        self._listing = self._listing or anyio.Lock()
        if self._tools is None:
            async with self._listing:
                if self._tools is None:
                    # If it fails, the call itself shows what is wrong, and the next call asks again.
                    with anyio.move_on_after(self._timeout), suppress(Exception):
                        self._tools = by_name(await list_tools(self._session))

    def _tool(self, name: str) -> Any:
        return (self._tools or {}).get(name)

    def _check_parameter(self, tool: str, parameter: str | None) -> None:
        properties = _properties(self._tool(tool))
        if parameter is not None and properties is not None and parameter not in properties:
            raise ValueError(
                f"idempotency_keys: {tool!r} has no parameter {parameter!r}; it has {', '.join(properties)}"
            )

    def _is_safe_to_retry(self, call: _Call) -> bool:
        """Return True if the call may be sent again although its outcome is unknown."""
        tool = self._tool(call.tool)
        # A server may ignore a parameter that its schema doesn't show.
        has_key = call.parameter is not None and call.parameter in (_properties(tool) or ())
        return has_key or is_annotated(tool, "idempotent") or self._only_reads(call.tool)

    def _only_reads(self, name: str) -> bool:
        return is_annotated(self._tool(name), "read_only")

    # --- retries ---------------------------------------------------------------------------------------------

    def _will_retry(self, call: _Call, outcome: CallOutcome, attempts: int) -> bool:
        """Return True if a retry can help and is safe, and every limit allows it."""
        match outcome:
            case ToolFailed(failure=Failure(retryable=True, outcome="not_applied")):
                helps = True
            case ToolFailed(failure=Failure(retryable=True, outcome="unknown")):
                helps = self._is_safe_to_retry(call)  # whatever the envelope claims
            case OutcomeUnknown(repeatable=True) | NotSent(reason="connection"):
                helps = True
            case _:
                helps = False
        return helps and self._budget.has_retry(attempts) and _requested_wait(outcome) <= self._max_wait

    def _wait(self, state: RetryCallState) -> float:
        """Return seconds before the next attempt: what the server asks for, and a random part that grows."""
        outcome = state.outcome.result() if state.outcome is not None else None
        return min(_requested_wait(outcome) + float(self._jitter(state)), self._max_wait)

    # --- the log ---------------------------------------------------------------------------------------------

    def _write_line(self, call: _Call, outcome: CallOutcome | None, attempts: int, **more: Any) -> None:
        """Write one line under the server's request id. Without an outcome, the attempt was canceled."""
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
                "code": code_of(outcome),
                "message": log_text(outcome.report.partition("\n")[0]),
                "will_repeat": self._will_retry(call, outcome, attempts),
            }
            if isinstance(outcome, OutcomeUnknown) and outcome.exception is not None:
                line["exception"] = described(outcome.exception)
        event = "tool_call_cancelled" if outcome is None else "tool_call_failed"
        emit("warning", event, {key: value for key, value in line.items() if value is not None})


def _json_copy(tool: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the arguments, read back from JSON, so that each attempt sends the same."""
    try:
        if not isinstance(arguments, (Mapping, type(None))) or not isinstance(tool, str):
            raise TypeError("a tool's name is a text, its arguments are a dict")
        text = json.dumps({} if arguments is None else dict(arguments), allow_nan=False, ensure_ascii=False)
        text.encode()  # half of a surrogate pair ends a whole stdio session
    except (TypeError, ValueError, RecursionError) as exc:
        raise TypeError(f"cannot call {safe_name(tool)!r}: its arguments are not a JSON object ({exc})") from None
    sent: dict[str, Any] = json.loads(text)
    return sent


def _properties(tool: Any) -> Mapping[str, Any] | None:
    """Return the parameters of a listed tool, or None if it has no schema."""
    schema = input_schema_of(tool)
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _requested_wait(outcome: CallOutcome | None) -> float:
    """Return the seconds that the server asks to wait."""
    failure = outcome.failure if isinstance(outcome, ToolFailed) else None
    return (failure.retry_after or 0.0) if failure is not None else 0.0


def _claims_no_effect(outcome: CallOutcome) -> bool:
    """Return True if an outcome, taken alone, says that the call had no effect."""
    if isinstance(outcome, ToolFailed):
        return outcome.failure is not None and outcome.failure.outcome == "not_applied"
    return isinstance(outcome, (NotSent, ProtocolFailed))
