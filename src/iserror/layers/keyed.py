"""The layer of a guarded function that has an idempotency key: inside the guard's wrapper and its time limit.

A key is absent, in progress, or done. The body runs only for who claimed an absent key. How it ends decides: a
result, and a failure that may have had an effect, make the key done for good; what applied nothing releases it. A key
that stays in progress beyond its lease belongs to a process that died, and its call is never run again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import anyio
from pydantic.fields import FieldInfo

from iserror.errors.problem import Problem, crash, invalid_arguments
from iserror.errors.returned import stated_problem
from iserror.idempotency import loop, record, scope
from iserror.idempotency.settings import Idempotency
from iserror.idempotency.store import Entry
from iserror.layers.call import Call, current
from iserror.layers.cancel import must_pass
from iserror.layers.lifecycle import fail, failure_of
from iserror.layers.report import log_replayed, protocol_outcome
from iserror.layers.returned import checked
from iserror.layers.run import meaning, problem_in
from iserror.layers.ticket import Ticket, held
from iserror.logs.sink import tell_once
from iserror.redact.text import Safe
from iserror.support.look import look, shield
from iserror.support.sdk import asks_the_client

if TYPE_CHECKING:
    from iserror.layers.options import Options


def keyed(fn: Callable[..., Any], kind: Any, options: Options, name: str) -> Callable[..., Any]:
    """Return the function with the layer around it, sync or async like the function.

    Args:
        fn: The function.
        kind: The function that runs when it is called, inside a partial or callable object.
        options: Its options, with a guard and the name of the parameter.
        name: Its name, for messages.

    Raises:
        ValueError: If the function has no such parameter, or is a generator.
    """
    assert options.settings is not None
    assert options.idempotency_key is not None
    if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
        raise ValueError(f"idempotency_key= on {name!r}: a generator has no result to keep")
    parameter = inspect.signature(fn).parameters.get(options.idempotency_key)
    if parameter is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ValueError(
            f"idempotency_key={options.idempotency_key!r}: {name!r} has no parameter of that name that can be given "
            "by name"
        )
    if options.settings.idempotency is None:
        options.settings.idempotency = Idempotency()
    layer = _Layer(fn, kind, options, options.settings.idempotency, name)
    return layer.run_async if inspect.iscoroutinefunction(kind) else layer.run


class _Layer:
    """The layer of one function."""

    def __init__(self, fn: Callable[..., Any], kind: Any, options: Options, settings: Idempotency, name: str) -> None:
        self.fn = fn
        self.kind = kind
        self.options = options
        self.settings = settings
        self.name = name
        self.signature = inspect.signature(fn)
        self.without = scope.injected(kind) | {str(options.idempotency_key)}
        self.place = str(kind.__module__), str(getattr(kind, "__qualname__", name))
        self.there = settings.functions.setdefault(self.place, [])
        if len(self.there) < 2 and not any(known is fn for known in self.there):
            self.there.append(fn)

    async def run_async(self, *args: Any, **kwargs: Any) -> Any:
        ticket = self._ticket(args, kwargs)
        if ticket is None:
            return await self.fn(*args, **kwargs)
        found: Entry | Exception | None = None
        try:
            found = await loop.wait(_asked(ticket))
        finally:
            if found is None:
                ticket.leave()
        if not ticket.claimed_by(found):
            return self._repeat(ticket, found)
        with ticket:
            try:
                result = checked(ticket.call, self.options, await self.fn(*args, **kwargs))
            except BaseException as exc:
                ended = self._after(ticket, exc)  # outside of the shield, which hides whether this is cancelled
                with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
                    await loop.wait(loop.submit(ended))
                raise
            # The store gets the result although this may be cancelled now.
            with anyio.CancelScope(shield=True):
                await loop.wait(loop.submit(self._done(ticket, result)))
            return result

    def run(self, *args: Any, **kwargs: Any) -> Any:
        ticket = self._ticket(args, kwargs)
        if ticket is None:
            return self.fn(*args, **kwargs)
        found: Entry | Exception | None = None
        try:
            found = loop.wait_blocking(_asked(ticket), cancellable=True)
        finally:
            if found is None:
                ticket.leave()
        if not ticket.claimed_by(found):
            return self._repeat(ticket, found)
        with ticket:
            try:
                result = checked(ticket.call, self.options, self.fn(*args, **kwargs))
            except BaseException as exc:
                self._tell(self._after(ticket, exc))
                raise
            if type(result) is CoroutineType:  # it may never be run
                result.close()
                self._tell(ticket.release())
                cause = TypeError(f"{self.name!r} has a key and hands out a coroutine: make the tool async")
                raise fail(ticket.call, replace(crash(cause), outcome="not_applied"))
            self._tell(self._done(ticket, result))
            return result

    @staticmethod
    def _tell(ended: Coroutine[Any, Any, None]) -> None:
        loop.wait_blocking(loop.submit(ended), cancellable=False)

    def _ticket(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ticket | None:
        """Return what a call needs to ask for its key; None if it has no key.

        Raises:
            ToolFailure: If the key isn't valid, or may not be used.
        """
        call = current.get()
        if call is None:  # not guarded
            return None
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = str(self.options.idempotency_key)
        if bound.arguments[given] is None or isinstance(bound.arguments[given], FieldInfo):  # in process: its default
            return None
        call.progress.takes_key()
        try:
            key = scope.key_text(bound.arguments[given])
        except ValueError as exc:
            problem = invalid_arguments([(given, scope.KEY_RULE)], exc)
        else:
            try:
                hidden = scope.scoped(self.settings, _server(call), call.root.request.http, self._tool(call), key)
                arguments = scope.arguments_digest(bound.arguments, self.without)
            except scope.NotAuthenticated as exc:
                tell_once("idempotency_subject", str(exc))
                problem = Problem(
                    "IDEMPOTENCY_UNAUTHENTICATED",
                    Safe("An idempotency key is accepted only from a caller that is signed in."),
                    exception=exc,
                    outcome="not_applied",
                )
            except Exception as exc:
                problem = replace(crash(exc), outcome="not_applied")  # the body has not run
            else:
                return self._unless_inside(call, Ticket(self.settings, call, hidden, arguments, self.options.timeout))
        raise fail(call, problem)

    def _tool(self, call: Call) -> tuple[str, ...]:
        """Return the tool's name in the scope of a key: the registered one, if a host with a guard serves the call.

        Raises:
            ValueError: If it has only the name of its function, and another function has the same.
        """
        if call.progress.body is self.options.key:
            return (call.progress.target or call.tool,)  # where its function stands may change
        if len(self.there) > 1:
            raise ValueError(
                f"several functions with an idempotency key are called {'.'.join(self.place)}: their keys cannot be "
                "told apart unless the guard is attached to the server that has them as tools"
            )
        return self.place

    def _unless_inside(self, call: Call, ticket: Ticket) -> Ticket:
        """Return the ticket, unless the call that has the key makes this call: it would wait for itself."""
        if any(other.running and other.key == ticket.key for other in held.get()):
            raise fail(
                call,
                Problem(
                    "IDEMPOTENCY_KEY_IN_USE",
                    Safe("This call was made by the call that has the same idempotency key."),
                    outcome="not_applied",
                ),
            )
        return ticket

    # --- what a retry gets -----------------------------------------------------------------------------------

    def _repeat(self, ticket: Ticket, found: Entry | Exception | None) -> Any:
        call = ticket.call
        if isinstance(found, Entry) and found.state == "done":
            kept = record.read(found.record)
            problem = record.problem_in(kept) if ticket.is_repeated_by(kept) else None
            if problem is None and ticket.is_repeated_by(kept):
                result = look(lambda: (record.result_in(self.kind, kept),), None)
                if result is not None:
                    log_replayed(call, str(kept["request_id"]))
                    return result[0]
                problem = record.problem_in({**kept, **record.LOST})
            if problem is not None:
                raise fail(call, problem)
        raise fail(call, _refusal(ticket, found))

    # --- how the body ended ----------------------------------------------------------------------------------

    def _done(self, ticket: Ticket, result: Any) -> Coroutine[Any, Any, None]:
        """Return the coroutine that writes to the store what the body returned."""
        return shield(self._returned, None, ticket, result) or ticket.finish(record.LOST)

    def _after(self, ticket: Ticket, exc: BaseException) -> Coroutine[Any, Any, None]:
        """Return the coroutine that writes to the store what the body raised."""
        return shield(self._raised, None, ticket, exc) or ticket.finish({})

    def _returned(self, ticket: Ticket, result: Any) -> Coroutine[Any, Any, None]:
        call = ticket.call
        if asks_the_client(result):
            return ticket.release()
        setting = self.options.returned_errors or call.settings.returned_errors
        converts = call.progress.body is self.options.key and setting == "convert"
        problem = problem_in(call, self.options, result) if converts else stated_problem(result)
        if problem is not None:
            return self._failed(ticket, problem.unproven())
        return ticket.finish(record.of_result(self.kind, result))

    def _raised(self, ticket: Ticket, exc: BaseException) -> Coroutine[Any, Any, None]:
        call = ticket.call
        if must_pass(exc):
            return ticket.finish({})
        found = call.progress.problem
        if not call.failed_with(exc):
            found = meaning(call, self.options, exc)
        if isinstance(found, Problem):
            return self._failed(ticket, found)
        if found is None or (not found.untouched and protocol_outcome(call, found) != "not_applied"):
            return ticket.finish({})
        return ticket.release()

    def _failed(self, ticket: Ticket, problem: Problem) -> Coroutine[Any, Any, None]:
        failure = failure_of(ticket.call, problem)
        if failure.outcome == "not_applied":
            return ticket.release()
        return ticket.finish(record.of_failure(failure, problem))


def _server(call: Call) -> str:
    """Return the name of the server that serves a call; empty if nothing tells it."""
    return look(lambda: str(call.root.request.facts().get("server") or ""), "")


def _asked(ticket: Ticket) -> concurrent.futures.Future[Entry | Exception]:
    """Start the claim, and return its future. If it can't be started, the future holds the reason."""
    try:
        return loop.submit(ticket.acquire())
    except Exception as exc:
        failed: concurrent.futures.Future[Entry | Exception] = concurrent.futures.Future()
        failed.set_result(exc)
        return failed


def _refusal(ticket: Ticket, found: Entry | Exception | None) -> Problem:
    """Return why a call doesn't run although it got no result to repeat."""
    if not isinstance(found, Entry):
        return Problem(
            "IDEMPOTENCY_STORE_UNAVAILABLE",
            Safe("The store of idempotency keys did not take the key, so the tool was not run."),
            exception=found,
            outcome="not_applied",
            can_help=True,
        )
    kept = record.read(found.record)
    if kept and not ticket.is_repeated_by(kept):
        return Problem(
            "IDEMPOTENCY_KEY_REUSED",
            Safe("This idempotency key was used for a call with other arguments."),
            hint="Use a new key for a different call.",
            outcome="not_applied",
            first_request_id=str(kept.get("request_id", "")),
        )
    if found.state == "in_progress":
        return Problem(
            "IDEMPOTENCY_KEY_IN_USE",
            Safe("Another call with this idempotency key has not finished yet."),
            hint="Repeat this call with the same key and arguments to get its result.",
            outcome="not_applied",  # by this call
            can_help=True,
            first_request_id=str(kept.get("request_id", "")),
        )
    return record.unknown(str(kept.get("request_id", "")))
