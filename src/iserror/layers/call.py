"""`Call`: the identity of one call, which its layers share through a context variable.

A call passes several layers: the host's outermost handler, its middleware, the tool object, the function. Through the
one `Call`, a failure is mapped and logged once, by the outermost of them. Context variables reach worker threads and
child tasks; a new request opens a new call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from iserror.errors.problem import Problem, ProtocolProblem
from iserror.errors.toolfailure import ToolFailure
from iserror.errors.vocabulary import Effect
from iserror.layers.ids import new_request_id
from iserror.layers.options import effect_of
from iserror.layers.progress import Progress
from iserror.layers.settings import Settings
from iserror.logs import owner
from iserror.logs.fingerprint import fingerprint
from iserror.redact.echo import Echo, here, leaves_of
from iserror.support.sdk import UNKNOWN_REQUEST

current: Final[ContextVar[Call | None]] = cast("ContextVar[Call | None]", owner.current)
"""The innermost call that is running here."""


@dataclass(frozen=True)
class Request:
    """What a host's adapter knows of the request behind a call."""

    arguments: Mapping[str, Any] | None = None
    """As they came from the wire."""
    trace_id: str | None = None
    """32 hex digits."""
    jsonrpc_id: str | int | None = None
    protocol_version: str | None = None
    """The negotiated revision; None if it can't be known."""
    http: object = UNKNOWN_REQUEST
    """The HTTP request; None for a call that came another way."""
    logged: Callable[[], tuple[str, str] | None] = lambda: None
    """Returns the logger on which the host would log a failure of this tool, and its message; None if it logs none."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """Returns what else the host knows, for the log."""


_UNKNOWN: Final = Request()


class Call:
    """One activation of a tool. The root of nested ones holds what they share.

    Public, through `current_call()`, are `request_id`, `trace_id` and `tool`.
    """

    parent: Call | None = None
    lines: int = 0
    """How many lines of the log belong to it. The log counts."""
    ended: bool = False
    """Whether the last of them is written."""
    over: bool = False
    """Whether it has ended, hooks included."""
    orphaned: bool = False
    """Whether it runs in a task that another call started and did not wait for."""
    _hashed: tuple[str | None] | None = None
    _echo: Echo | None = None
    protocol_below: BaseException | None = None
    """The protocol error that ended a call nested in this one."""
    kept: dict[int, Call] | None = None
    """Nested calls that failed and that nothing has reported, by the id of their exception."""

    def __init__(self, settings: Settings, tool: str, parent: Call | None = None, request: Request = _UNKNOWN) -> None:
        self.settings = settings
        self.tool = tool
        self.request = request
        self.jsonrpc_id = request.jsonrpc_id
        self.progress = Progress()
        if parent is None:
            self.started = time.perf_counter_ns()
            self.request_id = new_request_id()
            self.trace_id = request.trace_id
            self._sent = leaves_of(request.arguments)  # now: a middleware or the tool may change them in place
        else:
            self.parent = parent
            self.started = parent.started
            self.request_id = parent.request_id
            self.trace_id = parent.trace_id

    def ends(self) -> None:
        """Note that nothing more of the call's runs, hooks included."""
        self.over = True

    def outlives(self) -> None:
        """Note that it runs in a task that another call started and did not wait for."""
        self.orphaned = True

    def waited(self, seconds: float) -> None:
        """Take time out of what the call took."""
        self.started += int(seconds * 1e9)

    @property
    def root(self) -> Call:
        """The outermost call that this one is nested in, or the call itself."""
        call = self
        while call.parent is not None:
            call = call.parent
        return call

    @property
    def fingerprint(self) -> str | None:
        """What tells equal calls. Hashed once: each item of a batch may log it."""
        # Not a cached_property: before Python 3.12 that has a lock, which a forked child may never get.
        if self._hashed is None:
            self._hashed = (fingerprint(self.tool, self.request.arguments),)
        return self._hashed[0]

    @property
    def echo(self) -> Echo:
        """What the caller of the outermost call sent. Read at the first failure."""
        root = self.root
        if root._echo is None:
            root._echo = Echo(root._sent)
        return root._echo

    @property
    def effect(self) -> Effect | None:
        """What the tool does; None if no author declares it."""
        progress = self.progress
        return effect_of(progress.options, progress.annotations, progress.tool, self.settings, self.tool)

    def forbids(self, problem: ProtocolProblem) -> bool:
        """Return True if a protocol error may not end this call: another tool raised it, and this one writes.

        What this one had done before would be lost with a JSON-RPC error, which several agents take for the end.
        """
        return problem.exception is self.protocol_below and self.effect == "write"

    def ends_with(self, problem: ProtocolProblem) -> None:
        """Note the protocol error that ends this call, for the one that it is nested in."""
        if self.parent is not None:
            self.parent.protocol_below = problem.exception

    def failed_with(self, exc: BaseException) -> bool:
        """Return True for the `ToolFailure` that says what this call failed with."""
        problem = self.progress.problem
        return (
            isinstance(problem, Problem) and issubclass(type(exc), ToolFailure) and exc._problem is problem  # type: ignore[attr-defined]
        )


def current_call() -> Call | None:
    """Return the guarded call that is running here, or None outside of one.

    Its `request_id` (32 hex digits, the key to the logs), `trace_id` (32 hex digits or None) and `tool` are for use.
    Send them to an upstream, so that one id ties the call, the dependency and the result together. It works in async
    tools, in sync tools in worker threads, and in tasks that a tool starts.
    """
    call = current.get()
    return None if call is None or call.progress.closed else call


def _echo_here() -> Echo | None:
    call = current.get()
    return None if call is None or call.root.over else call.echo


here.find = _echo_here


def still_open(call: Call) -> Call | None:
    """Return the innermost of a call and those that it is nested in that has not ended."""
    found: Call | None = call
    while found is not None and found.progress.closed:
        found = found.parent
    return found


_NONE: Final = Call(cast(Settings, None), "")
"""What is current where no call shall be: a worker that is started there fails for the call that waits for it."""
_NONE.ends()
_NONE.progress.closes()


@contextmanager
def in_call(call: Call | None) -> Iterator[None]:
    """Run a block in a call that was captured elsewhere, or in none.

    A task keeps the call that started it, also while it works for others. A worker that serves several calls takes each
    call with its job: `current_call()` where the job is made, `with in_call(call):` around the work. Start the worker
    itself under `with in_call(None):`, so that it keeps none.

    Args:
        call: What `current_call()` returned; None, or a call that has ended, for no call. It can't be sent to another
            process.
    """
    before, inside = current.get(), None if call is None else still_open(call)
    hidden = dict.fromkeys(owner.bound_here(before), ...) if before is not None else {}
    token = current.set(inside if inside is not None else _NONE)
    bound = owner.bind({**hidden, **(owner.ids_of(inside.root) if inside is not None else {})})
    try:
        yield
    finally:
        try:
            current.reset(token)
            for each in bound:
                each.var.reset(each)
        except ValueError:  # a generator around it may be closed in another context
            pass


def _after_fork() -> None:
    """Leave the call in a forked child. What goes on in its functions there has ids that the child draws."""
    call = current.get()
    if call is None:
        return
    owner.unbind(call)
    current.set(None)
    own_id = new_request_id()
    inner: Call | None = call
    while inner is not None:
        inner.request_id, inner.lines, inner.ended, inner.kept = own_id, 0, False, None
        inner.progress.closes()
        inner = inner.parent


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
