"""The scope of one call: its identity, and what its layers tell one another.

A call passes several layers: the host's outermost handler, its middleware, the tool object, the function.
They share one mutable `Call` in a context variable, so that a failure is mapped and logged once, and by the
outermost of them. Context variables reach worker threads and child tasks; a fresh request opens a fresh one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from structlog.contextvars import bind_contextvars, reset_contextvars

from iserror.errors.failure import Failure
from iserror.errors.problem import Problem, ProtocolProblem, crash
from iserror.errors.toolfailure import ToolFailure, came_from
from iserror.errors.vocabulary import Effect
from iserror.layers.ids import new_request_id
from iserror.logs import owner
from iserror.logs.fingerprint import fingerprint
from iserror.redact.speech import MAX_TOOL_NAME, log_name, safe_name
from iserror.support.causes import MAX_CHAIN, leaves
from iserror.support.look import attempt
from iserror.support.sdk import either

if TYPE_CHECKING:
    from iserror.errors.errormap import ErrorMap
    from iserror.guard import ToolErrors
    from iserror.layers.function import Options

current: Final = cast("ContextVar[Call | None]", owner.current)


def _after_fork() -> None:
    """What a forked child logs for the call that it was forked in is not counted by its parent."""
    call = current.get()
    if call is not None:
        call.root.ended = True


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


# Nobody said by which request a call came.
UNTOLD: Final = object()


def _structlog_vars(*names: str) -> tuple[ContextVar[Any], ...]:
    """Structlog's own context variables of these names: setting one directly is what binding does, and fast."""
    tokens = bind_contextvars(**dict.fromkeys(names))
    reset_contextvars(**tokens)
    return tuple(tokens[name].var for name in names)


_REQUEST_ID, _TOOL, _TRACE_ID, _JSONRPC_ID = _structlog_vars("request_id", "tool", "trace_id", "jsonrpc_id")


class Call:
    """One activation of a tool; the root of nested ones holds what they share.

    Public are `request_id`, `trace_id` and `tool`, through `current_call()`.
    """

    # Class attributes are the defaults: a call that only passes a decorator sets no more than it needs.
    parent: Call | None = None
    trace_id: str | None = None
    options: Options | None = None
    annotations: object = None
    output_schema: object = None
    maps: tuple[ErrorMap, ...] = ()
    arguments: Mapping[str, Any] | None = None
    tool_arguments: Mapping[str, Any] | None = None
    jsonrpc_id: str | int | None = None
    protocol_version: str | None = None
    # Where a served call is: `awaiting` while the host acts, `dispatching` while it acts for a tool's body that
    # calls another tool, `running` tool objects (inside one another where one is `delegating` to a mounted server;
    # the outermost is the `target`), `inside` the function `body`; whether that was `entered`, and has `returned`.
    awaiting = False
    dispatching = 0
    running = 0
    delegating = False
    target: str | None = None
    body: object = None
    inside = 0
    entered = False
    returned = False
    closed = False
    problem: Problem | ProtocolProblem | None = None
    failure: Failure | None = None
    escaped: BaseException | None = None
    missing: BaseException | None = None
    incomplete: str | None = None
    """The summary, where the body returned a partial result."""
    lines = 0
    ended = False
    """How many lines the log has of it, and whether the last one is among them; the log's sink counts."""
    keyed = False
    """Whether an idempotency key is in force for it."""
    request: object = UNTOLD
    """The HTTP request that a host serves with it; None where it came another way."""
    served_by: object = None
    """The task that serves it, where asyncio does not say who cancels (before Python 3.11)."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """Gives what the host knows about the request, for the log."""
    _kept: dict[int, Call] | None = None
    _started = False
    _current: Token[Call | None]
    _bound: tuple[Token[Any], ...] = ()

    def __init__(self, guard: ToolErrors, tool: str, parent: Call | None = None) -> None:
        self.guard = guard
        self.tool = tool
        if parent is None:
            self.started = time.perf_counter_ns()
            self.request_id = new_request_id()
        else:
            self.parent = parent
            self.started = parent.started
            self.request_id = parent.request_id
            self.trace_id = parent.trace_id

    @property
    def root(self) -> Call:
        call = self
        while call.parent is not None:
            call = call.parent
        return call

    @cached_property
    def fingerprint(self) -> str | None:
        """What tells equal calls; hashed once, since each item of a batch may log it."""
        return fingerprint(self.tool, self.arguments)

    @property
    def effect(self) -> Effect:
        """What the tool does: what `@guard` says, else its annotations, else a write (MCP's own default)."""
        if self.options is not None and self.options.effect is not None:
            return self.options.effect
        if either(self.annotations, "read_only_hint", "readOnlyHint") is True:
            return "read"
        return "idempotent" if either(self.annotations, "idempotent_hint", "idempotentHint") is True else "write"

    def enter(self) -> None:
        """Make this the current call; bind its ids for structlog if it is a root."""
        self._current = current.set(self)
        if self.parent is None:
            tool = self.tool if self.tool.isidentifier() and len(self.tool) <= MAX_TOOL_NAME else log_name(self.tool)
            bound: tuple[Token[Any], ...] = (_REQUEST_ID.set(self.request_id), _TOOL.set(tool))
            if self.trace_id is not None:
                bound += (_TRACE_ID.set(self.trace_id),)
            if self.jsonrpc_id is not None:
                bound += (_JSONRPC_ID.set(self.jsonrpc_id),)
            self._bound = bound
        if self.guard.calls and not self._started:
            from iserror.layers.report import report_started

            self._started = True
            report_started(self)

    def unbind(self) -> None:
        """Undo `enter`. A generator may be closed in another context; there is nothing to undo then."""
        try:
            current.reset(self._current)
            for token in self._bound:
                token.var.reset(token)
        except ValueError:
            pass

    def leave(self) -> None:
        """End the call; tell what failed in it that nobody told."""
        self.closed = True
        self.tell_kept()
        self.unbind()
        if self.parent is None and self.problem is not None:
            # A failed call's tracebacks lead back to it; without this cycle they go when the answer has gone.
            self.problem = self.failure = self.escaped = self.missing = None

    def failure_of(self, problem: Problem) -> Failure:
        """Say a problem of this call's tool."""
        about: dict[str, Any] = {
            "tool": safe_name(self.tool),
            "effect": self.effect,
            "request_id": self.request_id,
            "trace_id": self.trace_id,
            "keyed": self.keyed,
        }
        # Whatever value no check foresaw: the answer has to be valid.
        said = attempt(lambda: problem.failure(**about), None)
        return said if said is not None else crash(RuntimeError()).failure(**about)

    def fail(self, problem: Problem) -> ToolFailure:
        """Note what the call failed with, for the layers above, and make the exception that says it."""
        self.problem = problem
        self.failure = self.failure_of(problem)
        return ToolFailure.raised_for(self.failure, problem)

    def said(self, exc: BaseException) -> bool:
        """Whether this is the `ToolFailure` that says what the call failed with."""
        return self.problem is not None and isinstance(exc, ToolFailure) and exc._problem is self.problem

    def keep(self, nested: Call) -> None:
        """Keep a nested call's failure: if what called that tool goes on without it, the end tells it."""
        if isinstance(nested.problem, Problem):
            self._kept = self._kept or {}
            self._kept[id(nested.problem.exception)] = nested

    def tell_kept(self) -> None:
        """Report the failures of nested calls that what called those tools went on without."""
        if self._kept:
            from iserror.layers.report import report

            kept, self._kept = self._kept, None
            for call in kept.values():
                report(call, handled="recovered")

    def told(self, problem: Problem) -> None:
        """A failure was reported; those it was made of are not told again."""
        if self._kept and problem.exception is not None:
            for leaf in leaves(problem.exception):
                link: BaseException | None = leaf
                for _ in range(MAX_CHAIN):
                    if link is None:
                        break
                    self._kept.pop(id(link), None)
                    link = came_from(link)[0]


def current_call() -> Call | None:
    """Return the guarded call that is running here, or None outside of one.

    `request_id` (32 hex digits, the key into the logs), `trace_id` (32 hex digits or None) and `tool` are
    for use: send them along to an upstream, so that one id ties the call, the dependency and the result
    together. Works in async tools, in sync tools in worker threads and in tasks that a tool starts.
    """
    call = current.get()
    return None if call is None or call.closed else call
