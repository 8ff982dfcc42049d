"""A whole check: each protocol revision in turn, step by step, with a new connection if one breaks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import anyio

from iserror.check.bodies import Bodies, Stage
from iserror.check.checks import arguments, channels, coverage, leaks, results
from iserror.check.checks.inject import Injection
from iserror.check.connection import CannotRunError, Connection, GoneError
from iserror.check.notes import Audit, CheckOptions
from iserror.check.session import Answer, NotSpokenError, Session, Step
from iserror.check.target import Target, quiet
from iserror.hosts import guard_of
from iserror.hosts.inside import protocol_revisions
from iserror.support.jsonrpc import STATELESS_REVISION

MAX_BROKEN: Final = 10
"""How many connections may break. A server that hangs in every tool would take hours."""

TOGETHER: Final = 16
"""How many tools are called at the same time, over stdio: most of a call is the server's waiting for something."""

Plan: TypeAlias = Callable[[Session, CheckOptions, Audit], Awaitable[list[Step]]]
"""Makes the steps for a revision."""


def check(target: Target, options: CheckOptions, progress: Callable[[str], None] = lambda text: None) -> Audit:
    """Check a server.

    Args:
        target: The server.
        options: What to do beyond the checks that run no tool.
        progress: Called with one line before each step: the revision, and what is being done.

    Raises:
        CannotRunError: If the server can't be started or reached, or supports none of the installed SDK's revisions.
            With `options.inject`, also if the server isn't in memory or has no guard.
    """
    audit = Audit()
    bodies = Bodies(Stage(options.timeout)) if target.kind == "memory" else None
    plan: Plan = partial(_plan, target, bodies)
    injecting: AbstractContextManager[None] = nullcontext()
    if options.inject:
        if bodies is None:
            raise CannotRunError("faults are injected in memory only: name a server as module:object or file.py:object")
        injection = Injection(target.server, options, bodies)
        plan, injecting = partial(_plan_injection, injection), injection.running()
    inside = quiet() if target.kind == "memory" else nullcontext()
    disabled = logging.root.manager.disable
    try:
        with inside, injecting:
            if target.kind == "memory":
                logging.disable()
                audit.guarded = guard_of(target.server) is not None
            anyio.run(_check, target, options, audit, progress, plan)
    except asyncio.CancelledError:  # Python 3.10 turns Ctrl+C into this.
        raise KeyboardInterrupt from None
    finally:
        logging.disable(disabled)
        if bodies is not None:
            bodies.restore()
    if audit.guarded:
        audit.found = {key: replace(finding, guarded=True) for key, finding in audit.found.items()}
    for name in options.probe if not options.inject else ():
        if name not in audit.names:
            audit.skip(arguments.NO_SUCH_PROBE, name)
    if not audit.revisions and not audit.found:
        known = ", ".join(protocol_revisions())
        raise CannotRunError(f"{target.name} supports none of these revisions: {known}. Is it an MCP server?")
    return audit


async def _check(
    target: Target, options: CheckOptions, audit: Audit, progress: Callable[[str], None], plan: Plan
) -> None:
    before = False
    for revision in protocol_revisions():
        audit.revision = revision
        known = len(audit.revisions)
        if not await _check_revision(target, options, audit, progress, plan, revision):
            break
        if options.inject and audit.revisions:  # Failures don't depend on the revision.
            break
        if len(audit.revisions) > known and not before and audit.revision < STATELESS_REVISION:
            before = True
            await _check_before(target, options, audit)


async def _check_revision(
    target: Target, options: CheckOptions, audit: Audit, progress: Callable[[str], None], plan: Plan, revision: str
) -> bool:
    """Check one revision. Return False if the check should end."""
    steps: deque[Step] | None = None
    while steps is None or steps:
        label, tool = "initialize" if revision < STATELESS_REVISION else "server/discover", ""
        opened = False
        async with target.connect(options.timeout) as connection:
            # No exception may leave this block: the task group behind it would wrap it in a group.
            try:
                progress(f"protocol {revision}, {label}")
                session = Session(connection, revision, options.timeout)
                first = await session.open()
                opened = True
                if steps is None:
                    if session.revision in audit.revisions:
                        return True  # The server chose a revision that is already checked.
                    audit.revision = session.revision
                    audit.revisions.append(session.revision)
                    leaks.note_leaks(audit, first, "")
                    label = "tools/list"
                    steps = deque(await plan(session, options, audit))
                while steps:
                    if steps[0].is_shared and connection.name == "stdio":
                        broken = await _run_together(session, audit, progress, steps)
                        if len(broken) > 1:  # One by one, over new connections, they show which of them it was.
                            steps.extendleft(replace(step, is_shared=False) for step, _ in reversed(broken))
                            break
                        for step, gone in broken:
                            label, tool = step.label, step.tool
                            raise gone
                    else:
                        step = steps.popleft()
                        label, tool = step.label, step.tool
                        await _run(session, audit, progress, step)
            except NotSpokenError:
                return True
            except GoneError as gone:
                if gone.reason == "undecodable":
                    audit.add("results.undecodable", f"{label}: {gone.seen}", tool)
                else:
                    audit.add(f"session.{gone.reason}", f"{label}: {gone.seen}", tool, label)
                if tool:
                    audit.stopped.add(tool)
                audit.broken += 1
                if not opened or steps is None:
                    return bool(audit.revisions)
                if audit.broken >= MAX_BROKEN:
                    audit.skip(f"the rest, since {MAX_BROKEN} connections broke", f"from {session.revision} on")
                    return False
            finally:
                _note_streams(connection, audit)
    return True


async def _run(session: Session, audit: Audit, progress: Callable[[str], None], step: Step) -> None:
    progress(f"protocol {session.revision}, {step.shown}")
    try:
        await step.run(session)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as exc:
        # Unexpected data from a server must not end the check.
        seen = f"{step.label}: the answer can't be read ({type(exc).__name__})"
        audit.add("channels.broken_answer", seen, step.tool)


async def _run_together(
    session: Session, audit: Audit, progress: Callable[[str], None], steps: deque[Step]
) -> list[tuple[Step, GoneError]]:
    """Run the shared steps in front, some at the same time.

    Returns:
        The steps in whose calls the server stopped answering. With several, none is known to be the reason.
    """
    broken: list[tuple[Step, GoneError]] = []

    async def work() -> None:
        while steps and steps[0].is_shared and not broken:
            step = steps.popleft()
            try:
                await _run(session, audit, progress, step)
            except GoneError as gone:
                broken.append((step, gone))

    async with anyio.create_task_group() as tasks:
        for _ in range(TOGETHER):
            tasks.start_soon(work)
    return broken


async def _check_before(target: Target, options: CheckOptions, audit: Audit) -> None:
    """Call a tool before initialization, on a new connection."""
    async with target.connect(options.timeout) as connection:
        try:
            await channels.before_initialize(audit, Session(connection, audit.revision, options.timeout))
        except GoneError as gone:
            label = "a call before initialization"
            audit.add(f"session.{gone.reason}", f"{label}: {gone.seen}", "", label)


def _note_streams(connection: Connection, audit: Audit) -> None:
    if connection.name == "stdio" and connection.noise:
        more = f" ({len(connection.noise)} lines in all)" if len(connection.noise) > 1 else ""
        audit.add("stdout.noise", f"a line of {connection.noise[0]}{more}")
    for notice in connection.notices:
        leaks.note_leaks(audit, Answer(notice), "")


async def _tools(session: Session, audit: Audit) -> list[dict[str, Any]]:
    tools, answers, wrong = await session.list_tools()
    for answer in answers:
        leaks.note_leaks(audit, answer, "")
    if wrong:
        audit.add("session.tools_list", f"tools/list: {wrong}")
    audit.tools = max(audit.tools, len(tools))
    audit.names.update(session.listed)
    return tools


async def _plan_injection(injection: Injection, session: Session, options: CheckOptions, audit: Audit) -> list[Step]:
    """Return the steps that inject faults into each tool."""
    return await injection.steps(session, audit, await _tools(session, audit))


async def _plan(
    target: Target, bodies: Bodies | None, session: Session, options: CheckOptions, audit: Audit
) -> list[Step]:
    """Return the steps for this revision. Steps that may end the connection come last."""
    if bodies is not None:
        bodies.restore()
    tools = await _tools(session, audit)
    steps = [Step(label, "", partial(run, audit)) for label, run in channels.STEPS]
    # Read-only tools come first: if the server doesn't validate arguments, it shows where that does least harm.
    ordered = sorted(tools, key=lambda tool: not arguments.is_read_only(tool))
    for number, tool in enumerate(ordered, 1):
        run = partial(arguments.check, audit, tool=tool, options=options, bodies=bodies)
        place = f"tool {number} of {len(tools)}"
        steps.append(Step("arguments that do not fit", tool["name"], run, place, is_shared=True))
    if target.kind == "memory" and len(audit.revisions) == 1:
        steps.append(Step("coverage", "", _restored(bodies, partial(coverage.check, audit, target.server))))
    if len(audit.revisions) == 1:  # A tool body runs once, in the newest revision.
        predicate = results.predicate_of(guard_of(target.server))
        for called, given in results.to_call(audit, tools, options.calls, options.read_only):
            call = partial(results.check, audit, tool=called, arguments=given, is_returned_error=predicate)
            steps.append(Step("call", called["name"], _restored(bodies, call)))
    steps.append(Step("malformed JSON", "", partial(channels.malformed_json, audit)))
    return steps


def _restored(bodies: Bodies | None, run: Callable[[Session], Awaitable[None]]) -> Callable[[Session], Awaitable[None]]:
    """Return a step that sees the server's own bodies."""

    async def restored(session: Session) -> None:
        if bodies is not None:
            bodies.restore()
        await run(session)

    return restored
