"""A whole check: each protocol revision in turn, step by step, with a new connection if one breaks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias

import anyio

from iserror.check.checks import arguments, channels, coverage, leaks, results
from iserror.check.checks.inject import Injection
from iserror.check.connection import CannotRunError, Connection, GoneError
from iserror.check.notes import Audit, CheckOptions
from iserror.check.session import Answer, NotSpokenError, Session, Step
from iserror.check.target import Target, quiet
from iserror.hosts.inside import protocol_revisions
from iserror.support.jsonrpc import STATELESS_REVISION

MAX_BROKEN: Final = 10
"""How many connections may break. A server that hangs in every tool would take hours."""

Plan: TypeAlias = Callable[[Session, CheckOptions, Audit], Awaitable[list[Step]]]
"""Makes the steps for a revision."""


def check(target: Target, options: CheckOptions, progress: Callable[[str], None] = lambda text: None) -> Audit:
    """Check a server.

    Args:
        target: The server.
        options: What to do beyond the checks that run no tool.
        progress: Called with one line before each step.

    Raises:
        CannotRunError: If the server can't be started or reached, or supports none of the installed SDK's revisions.
            With `options.inject`, also if the server isn't in memory or has no guard.
    """
    audit = Audit()
    plan: Plan = partial(_plan, target)
    injecting: AbstractContextManager[None] = nullcontext()
    if options.inject:
        if target.kind != "memory":
            raise CannotRunError("faults are injected in memory only: name a server as module:object or file.py:object")
        injection = Injection(target.server, options)
        plan, injecting = partial(_plan_injection, injection), injection.running()
    inside = quiet() if target.kind == "memory" else nullcontext()
    disabled = logging.root.manager.disable
    try:
        with inside, injecting:
            if target.kind == "memory":
                logging.disable()
            anyio.run(_check, target, options, audit, progress, plan)
    except asyncio.CancelledError:  # Python 3.10 turns Ctrl+C into this.
        raise KeyboardInterrupt from None
    finally:
        logging.disable(disabled)
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
                progress(f"{revision}: {label}")
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
                    step = steps.popleft()
                    label, tool = step.label, step.tool
                    progress(f"{session.revision}: {f'{tool}, {label}' if tool else label}")
                    try:
                        await step.run(session)
                    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as exc:
                        # Unexpected data from a server must not end the check.
                        audit.add(
                            "channels.broken_answer", f"{label}: the answer can't be read ({type(exc).__name__})", tool
                        )
            except NotSpokenError:
                return True
            except GoneError as gone:
                if gone.reason == "undecodable":
                    audit.add("results.undecodable", f"{label}: {gone.seen}", tool)
                else:
                    audit.add(f"session.{gone.reason}", f"{label}: {gone.seen}", tool, label)
                audit.broken += 1
                if not opened or steps is None:
                    return bool(audit.revisions)
                if audit.broken >= MAX_BROKEN:
                    audit.skip(f"the rest, since {MAX_BROKEN} connections broke", f"from {session.revision} on")
                    return False
            finally:
                _note_streams(connection, audit)
    return True


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


async def _plan(target: Target, session: Session, options: CheckOptions, audit: Audit) -> list[Step]:
    """Return the steps for this revision. Steps that may end the connection come last."""
    tools = await _tools(session, audit)
    steps = [Step(label, "", partial(run, audit)) for label, run in channels.STEPS]
    # Read-only tools come first: if the server doesn't validate arguments, it shows where that does least harm.
    for tool in sorted(tools, key=lambda tool: not arguments.is_read_only(tool)):
        run = partial(arguments.check, audit, tool=tool, options=options)
        steps.append(Step("arguments that do not fit", tool["name"], run))
    if target.kind == "memory" and len(audit.revisions) == 1:
        steps.append(Step("coverage", "", partial(coverage.check, audit, target.server)))
    if len(audit.revisions) == 1:  # A tool body runs once, in the newest revision.
        for called, given in results.to_call(audit, tools, options.calls, options.read_only):
            steps.append(Step("call", called["name"], partial(results.check, audit, tool=called, arguments=given)))
    steps.append(Step("malformed JSON", "", partial(channels.malformed_json, audit)))
    return steps
