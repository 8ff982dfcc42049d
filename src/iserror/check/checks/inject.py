"""Fault injection: every tool of a guarded server is made to fail in every way, and what comes of it is checked.

Nothing of it reaches the user's own outlets: the log goes to a folder of its own, and the guards' `on_error` hooks
are taken away meanwhile.
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

from iserror.check.bodies import PLACE, Bodies, Place, Stage
from iserror.check.checks.answer import look_at_form
from iserror.check.checks.arguments import fitting
from iserror.check.faults import Fault, faults
from iserror.check.memory import Memory
from iserror.check.notes import Audit, Options
from iserror.check.plants import Plants
from iserror.check.session import Answer, Session, Step
from iserror.check.connection import CannotRunError
from iserror.client.outcome import ProtocolFailed, Succeeded, ToolFailed
from iserror.errors.failure import Failure
from iserror.errors.vocabulary import default_outcome
from iserror.hosts import guard_of
from iserror.logs.chain import State
from iserror.logs.read.reader import find
from iserror.logs.record import FINAL, Record
from iserror.logs.sink import FileSink
from iserror.redact.speech import safe_name
from iserror.support.causes import leaves
from iserror.support.jsonrpc import FAILURE_KEY, REQUEST_ID_KEY
from iserror.support.look import attempt
from iserror.support.schema import schema_error

MAX_TEXT: Final = 2_000
_POLL: Final = 0.005
_LOGGED_WITHIN: Final = 5.0
"""Seconds for the line of a cancelled call, which no answer waits for."""


class Injection:
    """One run of it.

    Args:
        server: The server object, of any host.
        options: What was asked for: `--call` gives a tool's arguments.
    """

    def __init__(self, server: Any, options: Options) -> None:
        self.server = server
        self.arguments = dict(options.calls)
        self.plants = Plants()
        self.stage = Stage(options.timeout)
        self.bodies = Bodies(self.stage)
        self.log = Path()
        self.sink: FileSink | None = None
        self.left_out: set[str] = set()
        """Tools of which nothing more is to be found out."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Log to a folder of its own, and put everything back in the end."""
        before = State.file, State.stderr, State.level, State.configured
        with (
            tempfile.TemporaryDirectory(prefix="iserror-inject-", ignore_cleanup_errors=True) as folder,
            warnings.catch_warnings(),  # made errors, they would come out of a host in the place of a result
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
                State.file, State.stderr, State.level, State.configured = before

    async def steps(self, session: Session, audit: Audit, tools: list[dict[str, Any]]) -> list[Step]:
        """What to try with each tool.

        Raises:
            CannotRunError: No tool has a guard.
        """
        for name in set(self.arguments) - {tool["name"] for tool in tools}:
            audit.skip("the call that was asked for, since there is no such tool", name)
        steps: list[Step] = []
        is_guarded = guard_of(self.server) is not None
        for tool in tools:
            name = tool["name"]
            place = await self._place(session, name)
            if place is None:
                audit.skip("fault injection, since its body cannot be replaced (a proxy, or made for each call)", name)
                continue
            is_guarded = is_guarded or place.is_guarded
            arguments = self.arguments.get(name, fitting(tool["inputSchema"]))
            if arguments is None:
                audit.skip("fault injection, since no arguments fit its schema: give some with --call", name)
                continue
            output = tool.get("outputSchema") if place.attached and place.returns else None
            skip = partial(_skip, audit, name)
            steps += (
                Step(fault.name, name, partial(self._try, audit, tool, arguments, fault))
                for fault in faults(place.maps, self.plants, output, skip)
            )
        if tools and not is_guarded:
            raise CannotRunError("no tool has a guard: use guard.attach(server), and check again")
        return steps

    async def _place(self, session: Session, name: str) -> Place | None:
        """Replace what bodies there are now, and say where a call of this tool ends."""
        wire = session.wire
        assert isinstance(wire, Memory)

        async def look() -> Place | None:
            self.bodies.replace_all(self.server)
            return await self.bodies.find(self.server, name)

        # A lifespan may have configured a log.
        State.file, State.stderr, State.level, State.configured = self.sink, None, logging.INFO, True
        return await wire.inside(look, session.timeout)

    async def _try(
        self, audit: Audit, tool: Mapping[str, Any], arguments: Mapping[str, Any], fault: Fault, session: Session
    ) -> None:
        name = tool["name"]
        place = await self._place(session, name)
        if place is None or name in self.left_out:  # look-ups may change while a server runs
            return
        if fault.channel == "none" and not place.attached and not place.is_async:
            audit.skip("a cancellation, of which a plain function knows nothing without guard.attach(server)", name)
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
            said = _envelope(answer).get("code", answer.code or "no failure")
            audit.skip(f"fault injection, since a call ended before its body ({said}); --call gives arguments", name)
            return
        call = self.stage.call
        if call is None:
            self.left_out.add(name)
            audit.add("inject.unguarded", "no guard runs when it is called", name)
            return
        request_id = call.root.request_id
        records = self._records(request_id)
        if isinstance(answer.outcome, Succeeded) and any(record.get("handled") == "recovered" for record in records):
            audit.skip("what becomes of its failures, since a middleware answers in their place", name)
            return
        _Judge(audit, self.plants, tool, place, fault, request_id).look(answer, records)
        await session.ping()

    def _records(self, request_id: str) -> list[Record]:
        return attempt(find, [], request_id, self.log)

    # --- cancellation ---

    async def _cancel(self, audit: Audit, session: Session, name: str, arguments: Mapping[str, Any]) -> None:
        """Cancel a call while its body runs: no result may come of it, and one line says that it was cancelled."""
        where = "cancelled by the client"
        session.strays.clear()
        await session.start(name, arguments)
        await _until(lambda: self.stage.entered, session.timeout)
        await session.cancel()
        if self.stage.on_loop:
            await session.ping()
            audit.skip("a cancellation, since the host runs it on its event loop", name)
            return
        await session.ping()  # the server has read the cancellation by now
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
            audit.add(
                "inject.log", f"not one line that it was cancelled, but: {', '.join(events) or 'none'}", name, where
            )
        for stray in session.strays:
            if isinstance(stray.outcome, (Succeeded, ToolFailed)):
                audit.add(
                    "inject.channel", f"a call that was cancelled: {stray.shown()}, not left unanswered", name, where
                )


async def _until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait for something in the server's thread, so many seconds at most."""
    with anyio.move_on_after(seconds):
        while not is_so():  # noqa: ASYNC110 - nothing tells
            await anyio.sleep(_POLL)


def _skip(audit: Audit, name: str, what: str) -> None:
    audit.skip(what, name)


def _envelope(answer: Answer) -> Mapping[str, Any]:
    meta = answer.result.get("_meta")
    found = meta.get(FAILURE_KEY) if isinstance(meta, Mapping) else None
    return found if isinstance(found, Mapping) else {}


class _Judge:
    """What must come of one fault."""

    def __init__(
        self, audit: Audit, plants: Plants, tool: Mapping[str, Any], place: Place, fault: Fault, request_id: str
    ) -> None:
        self.audit, self.plants, self.tool, self.place, self.fault = audit, plants, tool, place, fault
        self.request_id = request_id

    def add(self, check: str, seen: str, where: str = "") -> None:
        self.audit.add(check, seen, self.tool["name"], where or self.fault.name)

    def look(self, answer: Answer, records: list[Record]) -> None:
        look_at_form(self.audit, answer, self.tool["name"])
        fault = self.fault
        if sent := self.plants.sent(answer.received):
            vouched = f" (the map calls {', '.join(fault.safe)} safe)" if fault.safe else ""
            self.add("inject.leak", f"{', '.join(sent)} in the answer{vouched}")
        if logged := self.plants.logged(records):
            self.add("inject.leak", f"{', '.join(logged)} in the log", f"{fault.name}, log")
        if fault.channel == "protocol":
            self._look_at_protocol(answer)
        elif not isinstance(answer.outcome, ToolFailed):
            self.add("inject.channel", f"{self._shown(answer)}, not a result with isError true")
        elif self.place.attached:
            self._look_at_envelope(answer)
        else:
            self._look_at_text(answer)
        self._look_at_log(records)

    def _shown(self, answer: Answer) -> str:
        """What came, unless something planted is in it."""
        return "an answer" if self.plants.sent(answer.received) else answer.shown()

    def _look_at_protocol(self, answer: Answer) -> None:
        if isinstance(answer.outcome, ProtocolFailed) and str(answer.code) == self.fault.code:
            error = answer.received.get("error") if isinstance(answer.received, Mapping) else None
            data = error.get("data") if isinstance(error, Mapping) else None
            if not isinstance(data, Mapping) or data.get(REQUEST_ID_KEY) != self.request_id:
                self.add("inject.code", f"no {REQUEST_ID_KEY} of this call in the error's data")
        elif self.place.attached or not isinstance(answer.outcome, ToolFailed):
            # Without `attach` the 1.x SDK makes a result of it.
            self.add("inject.channel", f"{self._shown(answer)}, not JSON-RPC error {self.fault.code}")

    def _look_at_envelope(self, answer: Answer) -> None:
        fault, envelope = self.fault, _envelope(answer)
        failure = attempt(Failure.model_validate, None, envelope)
        if failure is None:
            self.add("inject.code", "no valid envelope in _meta" if envelope else "no envelope in _meta")
            return
        effect = self.place.effect
        outcome = "not_applied" if effect == "read" else fault.outcome or default_outcome(fault.category)
        expected = {
            "code": fault.code,
            "category": fault.category,
            "outcome": outcome,
            "retryable": fault.can_help and (outcome == "not_applied" or effect != "write"),
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
            self._look_at_bounds(texts[0])
        schema, structured = self.tool.get("outputSchema"), answer.result.get("structuredContent")
        if isinstance(schema, dict) and structured is not None:
            wrong_there = schema_error(schema, structured)
            if wrong_there is not None:
                self.audit.add("results.output_schema", f"an error: {wrong_there}", self.tool["name"])

    def _look_at_text(self, answer: Answer) -> None:
        """Without `attach` there is the text alone, behind the words of some hosts."""
        text = "\n".join(answer.texts)
        close = rf"\[.* failed; .*; request_id: {self.request_id}\]"
        shape = rf"(Error executing tool \S+: )?{self.fault.code}: [^\n]+\n(.+\n)?{close}"
        if re.fullmatch(shape, text) is None:
            self.add("inject.code" if self.fault.code not in text else "inject.text", self._shown(answer))
        self._look_at_bounds(text)

    def _look_at_bounds(self, text: str) -> None:
        # Control, format (zero width, bidirectional), surrogates, private use.
        bad = sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c).startswith("C")})
        if bad:
            self.add("inject.text", f"characters that no text may have: {', '.join(bad)}")
        if len(text) >= MAX_TEXT:
            self.add("inject.text", f"{len(text):,} characters")

    def _look_at_log(self, records: list[Record]) -> None:
        """One line says how the call ended."""
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
        chain = list(_described(record.get("exception")))
        for exc in leaves(fault.exception):
            kind = type(exc).__qualname__
            if not any(str(item.get("type", "")).endswith(kind) for item in chain):
                self.add("inject.log", f"{kind} is not in the line's exception")
        if not any(frame.get("file") == PLACE for item in chain for frame in item.get("frames", ())):
            self.add("inject.log", "the traceback does not lead to where it was raised")


def _final(records: list[Record]) -> list[Record]:
    """The lines that say how the call ended; what a middleware ran again, or went on without, has others."""
    return [record for record in records if record["event"] in FINAL and "handled" not in record]


def _described(chain: object) -> Iterator[Mapping[str, Any]]:
    """Every exception of a described one: its chain, and a group's leaves."""
    for item in chain if isinstance(chain, list) else ():
        if isinstance(item, Mapping):
            yield item
            for inner in item.get("exceptions", ()):
                yield from _described(inner)
