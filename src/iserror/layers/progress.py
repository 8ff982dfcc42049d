"""`Progress`: where a call stands, and what became of it.

Several layers move a call on: the host's outermost handler, its dispatch, tool objects, functions. Each says what
happened by one of these methods, and nothing else writes these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iserror.errors.problem import Problem, ProtocolProblem

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from iserror.errors.errormap import ErrorMap
    from iserror.errors.failure import Failure
    from iserror.layers.options import Options
    from iserror.layers.toolhost import Layer


class Progress:
    """Where a call stands, and what became of it."""

    # Class attributes are the defaults: a call that only passes a decorator sets no more than it needs.

    awaiting: bool = False
    """Whether the host acts: the next tool or body that begins is the call's own."""
    dispatching: int = 0
    """How many dispatches the host makes for a tool's body that calls another tool."""
    running: int = 0
    """How many tool objects run, one inside another where one delegates to a mounted server."""
    delegating: bool = False
    """Whether the tool that runs delegates."""
    target: str | None = None
    """The name of the outermost tool that ran."""
    body: object = None
    """The key of the function that the tool runs."""
    inside: int = 0
    """How many wrappers of that function are running."""
    entered: bool = False
    """Whether that function began."""
    finished: bool = False
    """Whether it returned."""
    value: Any = None
    """What it returned, until the call has ended."""
    touched: bool = False
    """Whether any body ran in this call, or anything of the author's that isn't known to read."""
    closed: bool = False
    """Whether the call has ended."""
    served_by: asyncio.Task[object] | None = None
    """The task that serves it: asyncio doesn't say who cancels before Python 3.11."""
    keyed: bool = False
    """Whether an idempotency key is in use."""

    options: Options | None = None
    maps: tuple[ErrorMap, ...] = ()
    """Where exceptions are looked up, after the maps of the options; the nearest first."""
    tool: Any = None
    """The tool object that runs."""
    annotations: object = None
    """Its annotations."""
    output_schema: object = None
    """That of the outermost tool."""
    arguments: Mapping[str, Any] | None = None
    """Those that the tool object got."""

    problem: Problem | ProtocolProblem | None = None
    failure: Failure | None = None
    """What the problem says."""
    escaped: BaseException | None = None
    """What left the host's dispatch, before the host turned it into a text."""
    missing: BaseException | None = None
    """The host's exception for a tool that it doesn't have."""
    denied: BaseException | None = None
    """The host's exception for a tool that this caller may see, and not call."""
    traceback: TracebackType | None = None
    """That of an exception that left the host's dispatch as it was."""
    incomplete: str | None = None
    """The summary, if the body returned a partial result."""

    # --- the host ---

    def served(self, task: asyncio.Task[object] | None = None) -> None:
        """Note that the host takes over the call."""
        self.awaiting = True
        self.served_by = task

    def denies(self, exc: BaseException) -> None:
        """Note the exception with which a check refused a tool that the caller can list."""
        self.denied = exc

    def dispatch_begins(self) -> None:
        """Note that the tool's body calls another tool through the host."""
        self.dispatching += 1

    def dispatch_ends(self) -> None:
        """Note that the other tool has ended."""
        self.dispatching -= 1

    def escapes(self, exc: BaseException | None) -> None:
        """Note the exception that left the host's dispatch; None if the dispatch ended well."""
        self.escaped = exc

    def shows(self, exc: BaseException) -> None:
        """Note the traceback of an exception that leaves the host's dispatch as it is, before the host's frames."""
        self.traceback = exc.__traceback__

    def misses(self, exc: BaseException) -> None:
        """Note the exception for a tool that the host doesn't have."""
        self.missing = exc

    def refused_by_host(self, problem: Problem, annotations: object = None, output_schema: object = None) -> None:
        """Note that the host's own check of arguments or result failed, outside of any tool object."""
        self.problem = problem
        self.annotations = annotations if annotations is not None else self.annotations
        self.output_schema = output_schema if output_schema is not None else self.output_schema

    # --- a tool object ---

    def looks_in(self, maps: tuple[ErrorMap, ...]) -> None:
        """Look exceptions up in these maps."""
        self.maps = maps

    def tool_begins(self, layer: Layer, arguments: Mapping[str, Any]) -> None:
        """Note that a tool object runs."""
        tool = self.tool = layer.tool
        self.missing = None
        self.arguments = arguments
        self.annotations = tool.annotations
        if not self.running:
            self.target = tool.name
            self.output_schema = tool.output_schema
        if layer.errors is not None and layer.errors not in self.maps:
            self.maps = (layer.errors, *self.maps)
        if layer.options is not None:
            self.options = layer.options
        self.body, self.delegating = layer.body, layer.delegates
        self.awaiting, self.entered, self.finished, self.value = True, False, False, None
        # Without a function that we see begin, the tool object is the body.
        self.touched = self.touched or layer.body is None
        self.running += 1

    def tool_ends(self) -> None:
        """Note that the tool object has ended, and that the host acts again."""
        self.running -= 1
        self.awaiting = True

    # --- a function ---

    def stands_alone(self, options: Options) -> None:
        """Note that a guarded function runs in its own call."""
        self.options = options
        self.touched = True

    def touches(self) -> None:
        """Note that something ran in this call that may have had an effect."""
        self.touched = True

    def body_begins(self, options: Options | None) -> None:
        """Note that the tool's function begins."""
        self.awaiting = False
        self.entered = self.touched = True
        self.inside += 1
        if options is not None:
            self.options = options

    def body_returns(self, value: Any) -> None:
        """Note that the tool's function ran to its end, and with what."""
        self.finished = self.inside == 1
        self.value = value

    def body_ends(self) -> None:
        """Note that the tool's function has ended, well or not."""
        self.inside -= 1

    def completes(self, incomplete: str | None) -> None:
        """Note that the tool's function returned a success; a partial one has a summary."""
        self.incomplete = incomplete

    def takes_key(self) -> None:
        """Note that an idempotency key came with the call."""
        self.keyed = True

    # --- what became of it ---

    def fails(self, problem: Problem, failure: Failure) -> None:
        """Note what the call failed with."""
        self.problem, self.failure = problem, failure

    def errs(self, problem: ProtocolProblem) -> None:
        """Note that the call ends with a JSON-RPC error."""
        self.problem = problem

    def recovers(self) -> None:
        """Forget what failed: the call continues without it."""
        self.problem = self.failure = None

    def closes(self) -> None:
        """Note that the call has ended."""
        self.closed, self.value = True, None

    def lets_go(self) -> None:
        """Drop what failed: its tracebacks lead back to the call, and should go when the answer has gone."""
        self.problem = self.failure = self.escaped = self.missing = self.denied = self.traceback = None
