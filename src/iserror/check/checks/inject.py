"""Fault injection: make every tool of a guarded server fail in every way, and check the result.

The user's log and pagers get nothing: the log goes to a temporary folder, and the guards lose their `on_error` hooks
while the check runs.
"""

from __future__ import annotations

import contextlib
import logging
import re
import tempfile
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from iserror.check.bodies import PLACE, Bodies, Place, kept_log
from iserror.check.checks.answer import note_form
from iserror.check.checks.arguments import fitting
from iserror.check.connection import CannotRunError
from iserror.check.faults import InjectedFault, faults_of
from iserror.check.notes import Audit, CheckOptions
from iserror.check.plants import Plants
from iserror.check.session import Answer, Session, Step
from iserror.client.outcome import ProtocolFailed, Succeeded, ToolFailed
from iserror.errors.failure import Failure
from iserror.errors.verdict import judge
from iserror.hosts import guard_of
from iserror.logs import frames
from iserror.logs.chain import State
from iserror.logs.read.reader import find
from iserror.logs.record import FINAL, Record
from iserror.logs.sink import FileSink
from iserror.redact.speech import safe_name
from iserror.support.causes import leaves
from iserror.support.jsonrpc import FAILURE_KEY, REQUEST_ID_KEY
from iserror.support.look import look, shield
from iserror.support.schema import schema_error

MAX_TEXT: Final = 2_000
"""Maximum length of a text, in characters."""

_POLL: Final = 0.005
"""How long to wait before the server's thread is asked again, in seconds."""

_LOGGED_WITHIN: Final = 5.0
"""How long the log line of a cancelled call may take, in seconds. No answer waits for it."""


class Injection:
    """One run of fault injection.

    Args:
        server: The server object of any host.
        options: The user's options. `calls` gives a tool's arguments.
        bodies: The bodies of its tools.
    """

    def __init__(self, server: Any, options: CheckOptions, bodies: Bodies) -> None:
        self.server = server
        self.arguments = dict(options.calls)
        self.plants = Plants()
        self.bodies = bodies
        self.stage = bodies.stage
        self.log = Path()
        self.sink: FileSink | None = None
        self.left_out: set[str] = set()
        """Tools that get no more faults, since none reaches a guarded body."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Log to a temporary folder, and restore everything afterwards."""
        with (
            tempfile.TemporaryDirectory(prefix="iserror-inject-", ignore_cleanup_errors=True) as folder,
            warnings.catch_warnings(),  # A warning raised as an error would replace a result.
            kept_log(),
        ):
            warnings.simplefilter("ignore")
            self.log = Path(folder) / "inject.jsonl"
            self.log.touch(0o600)
            self.sink = FileSink(self.log)
            try:
                yield
            finally:
                self.bodies.restore()
                self.sink.close()

    async def steps(self, session: Session, audit: Audit, tools: list[dict[str, Any]]) -> list[Step]:
        """Return a step for each fault of each tool.

        Raises:
            CannotRunError: If no tool has a guard.
        """
        for name in set(self.arguments) - {tool["name"] for tool in tools}:
            audit.skip("the call that you asked for, since there is no such tool", name)
        steps: list[Step] = []
        is_guarded = guard_of(self.server) is not None
        for number, tool in enumerate(tools, 1):
            name = tool["name"]
            place = await self._place(session, name)
            if place is None:
                audit.skip("fault injection, since its body can't be replaced (a proxy, or made for each call)", name)
                continue
            is_guarded = is_guarded or place.is_guarded
            arguments = self.arguments.get(name, fitting(tool["inputSchema"]))
            if arguments is None:
                audit.skip("fault injection, since no arguments fit its schema: give some with --call", name)
                continue
            output = tool.get("outputSchema") if place.attached and place.returns else None
            skip, which = partial(_skip, audit, name), f"tool {number} of {len(tools)}"
            steps += (
                Step(
                    fault.name,
                    name,
                    partial(self._try, audit, tool, arguments, fault),
                    which,
                )
                for fault in faults_of(place.maps, self.plants, output, skip, place.module)
            )
        if tools and not is_guarded:
            raise CannotRunError("no tool has a guard: use guard.attach(server), and check again")
        return steps

    async def _place(self, session: Session, name: str) -> Place | None:
        """Replace the bodies that exist now, and return the stand-in that a call of this tool leads to."""
        # A lifespan may have configured a log.
        State.file, State.stderr, State.level, State.configured = self.sink, None, logging.INFO, True
        return await self.bodies.lead(session.connection, name, session.timeout)

    async def _try(
        self,
        audit: Audit,
        tool: Mapping[str, Any],
        arguments: Mapping[str, Any],
        fault: InjectedFault,
        session: Session,
    ) -> None:
        name = tool["name"]
        place = await self._place(session, name)
        if place is None or name in self.left_out:  # Look-ups may change while a server runs.
            return
        if fault.channel == "none" and not place.attached and not place.is_async:
            audit.skip("a cancellation, since a plain function can't see it without guard.attach(server)", name)
            return
        self.stage.set(fault.exception, fault.value, waits=fault.channel == "none")
        try:
            if fault.channel == "none":
                await self._cancel(audit, session, name, arguments)
                return
            answer = await session.call(name, arguments)
        finally:
            self.stage.released.set()
        if not self.stage.entered:
            self.left_out.add(name)
            code = _envelope(answer).get("code", answer.code or "no failure")
            audit.skip(
                f"fault injection, since a call ended before its body ({code}): pass arguments with --call", name
            )
            return
        call = self.stage.call
        if call is None:
            self.left_out.add(name)
            audit.add("inject.unguarded", "no guard runs when it is called", name)
            return
        request_id = call.root.request_id
        records = self._records(request_id)
        if isinstance(answer.outcome, Succeeded) and any(record.get("handled") == "recovered" for record in records):
            audit.skip("the result of its failures, since a middleware answers instead", name)
            return
        _Judge(audit, self.plants, tool, place, fault, request_id).judge(answer, records)
        await session.ping()

    def _records(self, request_id: str) -> list[Record]:
        return shield(find, [], request_id, self.log)

    # --- cancellation ---

    async def _cancel(self, audit: Audit, session: Session, name: str, arguments: Mapping[str, Any]) -> None:
        """Cancel a call while its body runs. It must get no result, and one log line must report the cancellation."""
        where = "cancelled by the client"
        session.strays.clear()
        await session.start(name, arguments)
        await _until(lambda: self.stage.entered, session.timeout)
        await session.cancel()
        if self.stage.on_loop:
            await session.ping()
            audit.skip("a cancellation, since the host runs it on its event loop", name)
            return
        await session.ping()  # The server has read the cancellation by now.
        self.stage.released.set()
        call = self.stage.call
        if call is None:
            audit.skip("a cancellation, since the call did not reach its body in time", name)
            return
        request_id = call.root.request_id
        await _until(lambda: bool(_final(self._records(request_id))), min(session.timeout, _LOGGED_WITHIN))
        await session.ping()
        events = [record["event"] for record in _final(self._records(request_id))]
        if events != ["tool_cancelled"]:
            audit.add("inject.log", f"{', '.join(events) or 'no line'}, not one line tool_cancelled", name, where)
        for stray in session.strays:
            if isinstance(stray.outcome, (Succeeded, ToolFailed)):
                audit.add("inject.channel", f"a cancelled call: {stray.shown()}, not left unanswered", name, where)


async def _until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition in the server's thread, up to a number of seconds."""
    with anyio.move_on_after(seconds):
        while not is_so():  # noqa: ASYNC110 - no event exists
            await anyio.sleep(_POLL)


def _skip(audit: Audit, name: str, what: str) -> None:
    audit.skip(what, name)


def _envelope(answer: Answer) -> Mapping[str, Any]:
    meta = answer.result.get("_meta")
    found = meta.get(FAILURE_KEY) if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) else {}


class _Judge:
    """Compares the result of one fault with the result that the map declares."""

    def __init__(
        self, audit: Audit, plants: Plants, tool: Mapping[str, Any], place: Place, fault: InjectedFault, request_id: str
    ) -> None:
        self.audit, self.plants, self.tool, self.place, self.fault = audit, plants, tool, place, fault
        self.request_id = request_id

    def add(self, check: str, seen: str, where: str = "") -> None:
        self.audit.add(check, seen, self.tool["name"], where or self.fault.name)

    def judge(self, answer: Answer, records: list[Record]) -> None:
        """Note what is wrong with an answer and its log records."""
        note_form(self.audit, answer, self.tool["name"])
        fault = self.fault
        if sent := self.plants.sent(answer.received):
            marked = f" (the map marks {', '.join(fault.safe)} as safe)" if fault.safe else ""
            self.add("inject.leak", f"{', '.join(sent)} in the answer{marked}")
        if logged := self.plants.logged(records):
            self.add("inject.leak", f"{', '.join(logged)} in the log", f"{fault.name}, log")
        if fault.lost:
            read = ", ".join(f"{{exc.{path}}}" for path in fault.lost)
            self.add("inject.template", f"{fault.code} reads {read}, which isn't there: it was sent without the value")
        if fault.channel == "protocol":
            self._judge_protocol(answer)
        elif not isinstance(answer.outcome, ToolFailed):
            self.add("inject.channel", f"{self._shown(answer)}, not a result with isError true")
        elif self.place.attached:
            self._judge_envelope(answer)
        else:
            self._judge_text(answer)
        self._judge_log(records)

    def _shown(self, answer: Answer) -> str:
        """Describe the answer, unless it contains a planted secret."""
        return "an answer" if self.plants.sent(answer.received) else answer.shown()

    def _judge_protocol(self, answer: Answer) -> None:
        if isinstance(answer.outcome, ProtocolFailed) and str(answer.code) == self.fault.code:
            error = answer.received.get("error") if isinstance(answer.received, Mapping) else None
            data = error.get("data") if isinstance(error, Mapping) else None
            if not isinstance(data, Mapping) or data.get(REQUEST_ID_KEY) != self.request_id:
                self.add("inject.code", f"no {REQUEST_ID_KEY} of this call in the error's data")
        elif self.place.attached or not isinstance(answer.outcome, ToolFailed):
            # Without `attach`, the 1.x SDK turns it into a result.
            self.add("inject.channel", f"{self._shown(answer)}, not JSON-RPC error {self.fault.code}")

    def _judge_envelope(self, answer: Answer) -> None:
        fault, envelope = self.fault, _envelope(answer)
        failure = look(Failure.model_validate, None, envelope)
        if failure is None:
            self.add("inject.code", "no valid envelope in _meta" if envelope else "no envelope in _meta")
            return
        effect = self.place.effect
        verdict = judge(
            code=fault.code,
            category=fault.category,
            effect=effect,
            outcome=fault.outcome,
            basis=fault.basis,
            can_help=fault.can_help,
        )
        expected = {
            "code": fault.code,
            "category": fault.category,
            "outcome": verdict.outcome,
            "retryable": verdict.retryable,
            "tool": safe_name(self.tool["name"]),
            "request_id": self.request_id,
        }
        if wrong := [
            f"{key} {envelope.get(key)!r}, not {value!r}"
            for key, value in expected.items()
            if envelope.get(key) != value
        ]:
            self.add("inject.code", "; ".join(wrong))
        texts = answer.texts
        if texts != [failure.text]:
            self.add("inject.text", f"not the envelope's text alone: {self._shown(answer)}")
        else:
            self._judge_bounds(texts[0])
        schema, structured = self.tool.get("outputSchema"), answer.result.get("structuredContent")
        if isinstance(schema, dict) and structured is not None:
            wrong_there = schema_error(schema, structured)
            if wrong_there is not None:
                self.audit.add("results.output_schema", f"an error: {wrong_there}", self.tool["name"])

    def _judge_text(self, answer: Answer) -> None:
        """Check the text alone: without `attach` there is no envelope, and some hosts add a prefix."""
        text = "\n".join(answer.texts)
        close = rf"\[.* failed; (?:.*; )?request_id: {self.request_id}\]"
        shape = rf"(Error executing tool \S+: )?{self.fault.code}: [^\n]+\n(.+\n)?{close}"
        if re.fullmatch(shape, text) is None:
            self.add("inject.code" if self.fault.code not in text else "inject.text", self._shown(answer))
        self._judge_bounds(text)

    def _judge_bounds(self, text: str) -> None:
        # Control, format (zero width, bidirectional), surrogates, private use.
        bad = sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c).startswith("C")})
        if bad:
            self.add("inject.text", f"forbidden characters: {', '.join(bad)}")
        if len(text) >= MAX_TEXT:
            self.add("inject.text", f"{len(text):,} characters")

    def _judge_log(self, records: list[Record]) -> None:
        """Check that one line reports how the call ended."""
        fault = self.fault
        found = _final(records)
        if len(found) != 1:
            self.add("inject.log", f"{len(found)} lines for the failure, not one")
            return
        (record,) = found
        event = "protocol_error" if fault.channel == "protocol" else "tool_failed"
        if (record["event"], record.get("code")) != (event, fault.code):
            self.add(
                "inject.log", f"{record['event']} with code {record.get('code')!r}, not {event} with {fault.code!r}"
            )
        if fault.exception is None:
            return
        links = list(frames.every_link(frames.read(record.get("exception"))))
        for exc in leaves(fault.exception):
            kind = type(exc).__qualname__
            if not any(link.type.endswith(kind) for link in links):
                self.add("inject.log", f"{kind} is not in the line's exception")
        if not any(frame.file == PLACE for link in links for frame in link.frames):
            self.add("inject.log", "the traceback doesn't lead to the line that raised it")


def _final(records: list[Record]) -> list[Record]:
    """Return the lines about how the call ended, without those of failures that a middleware handled."""
    return [record for record in records if record["event"] in FINAL and "handled" not in record]
