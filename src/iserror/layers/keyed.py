"""The layer of a guarded function that has an idempotency key: inside the guard's wrapper and its time limit.

A key is absent, in progress, or done. The body runs only for who claimed an absent key. How it ends decides: a
result, and a failure that may have had an effect, make the key done for good; what applied nothing releases it. A key
that stays in progress beyond its lease belongs to a process that died, and nobody runs its call again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

import anyio
from pydantic.fields import FieldInfo

from iserror.errors.problem import Problem, built_in, crash, invalid_arguments
from iserror.errors.resolve import resolve
from iserror.errors.returned import from_result
from iserror.idempotency import loop, record, scope
from iserror.idempotency.settings import Idempotency
from iserror.idempotency.store import Entry
from iserror.layers.call import Call, current
from iserror.layers.cancel import must_pass
from iserror.layers.report import from_value, protocol_outcome, report_replayed
from iserror.logs.sink import tell_once
from iserror.support.look import attempt

if TYPE_CHECKING:
    from iserror.layers.function import Options

STORE_LIMIT: Final = 10.0
"""Seconds for one answer of the store."""
FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25
"""Seconds between two looks at a key that another call has."""

_INPUT_REQUIRED: Final = ("InputRequiredResult", "InputRequiredToolResult")

_held: Final[ContextVar[tuple[Ticket, ...]]] = ContextVar("iserror_idempotency_held", default=())


def keyed(fn: Callable[..., Any], kind: Any, options: Options, name: str) -> Callable[..., Any]:
    """The function with the layer round it, sync or async as it is.

    Args:
        fn: The function.
        kind: What runs when it is called: of a partial or callable object the function inside.
        options: Its options, with a guard and the name of the parameter.
        name: Its name, for messages.

    Raises:
        ValueError: It has no such parameter, or is a generator.
    """
    assert options.guard is not None
    assert options.idempotency_key is not None
    if inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind):
        raise ValueError(f"idempotency_key= on {name!r}: a generator has no result to keep")
    parameter = inspect.signature(fn).parameters.get(options.idempotency_key)
    if parameter is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ValueError(
            f"idempotency_key={options.idempotency_key!r}: {name!r} has no parameter of that name that can be given "
            "by name"
        )
    if options.guard.idempotency is None:
        options.guard.idempotency = Idempotency()
    layer = _Layer(fn, kind, options, options.guard.idempotency, name)
    return layer.run_async if inspect.iscoroutinefunction(kind) else layer.run


class _Layer:
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
                result = await self.fn(*args, **kwargs)
            except BaseException as exc:
                ended = self._after(ticket, exc)  # outside of the shield, which hides whether this is cancelled
                with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
                    await loop.wait(loop.submit(ended))
                raise
            # Whatever cancels this meanwhile, the store is told.
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
                result = self.fn(*args, **kwargs)
            except BaseException as exc:
                self._tell(self._after(ticket, exc))
                raise
            if type(result) is CoroutineType:  # nothing says that anybody will ever run it
                result.close()
                self._tell(ticket.release())
                cause = TypeError(f"{self.name!r} has a key and hands out a coroutine: make the tool async")
                raise ticket.call.fail(replace(crash(cause), outcome="not_applied"))
            self._tell(self._done(ticket, result))
            return result

    @staticmethod
    def _tell(ended: Coroutine[Any, Any, None]) -> None:
        loop.wait_blocking(loop.submit(ended), cancellable=False)

    def _ticket(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ticket | None:
        """What a call needs to ask for its key; None without one.

        Raises:
            ToolFailure: The key is not valid, or may not be used.
        """
        call = current.get()
        if call is None:  # not guarded
            return None
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = str(self.options.idempotency_key)
        if bound.arguments[given] is None or isinstance(bound.arguments[given], FieldInfo):  # in process: its default
            return None
        call.keyed = True
        try:
            key = scope.key_text(bound.arguments[given])
        except ValueError as exc:
            problem = invalid_arguments([(given, scope.KEY_RULE)], exc)
        else:
            try:
                hidden = scope.scoped(self.settings, call, self._tool(call), key)
                arguments = scope.arguments_digest(bound.arguments, self.without)
            except scope.NotAuthenticated as exc:
                tell_once("idempotency_subject", str(exc))
                problem = built_in(
                    "IDEMPOTENCY_UNAUTHENTICATED",
                    "An idempotency key is accepted only from a caller that is signed in.",
                    exception=exc,
                    outcome="not_applied",
                    constant=True,
                )
            except Exception as exc:
                problem = replace(crash(exc), outcome="not_applied")  # the body has not run
            else:
                return self._unless_inside(call, Ticket(self.settings, call, hidden, arguments, self.options.timeout))
        raise call.fail(problem)

    def _tool(self, call: Call) -> tuple[str, ...]:
        """What the tool is called in the scope: as it is registered, of one that a host with a guard serves.

        Raises:
            ValueError: It has only the name of its function, and shares that.
        """
        if call.body is self.options.key:
            return (call.target or call.tool,)  # where its function stands may change
        if len(self.there) > 1:
            raise ValueError(
                f"several functions with an idempotency key are called {'.'.join(self.place)}: their keys cannot be "
                "told apart unless the guard is attached to the server that has them as tools"
            )
        return self.place

    def _unless_inside(self, call: Call, ticket: Ticket) -> Ticket:
        """The ticket, if the call that has the key is not the one that makes this call: it would wait for itself."""
        if any(held.running and held.key == ticket.key for held in _held.get()):
            raise call.fail(
                built_in(
                    "IDEMPOTENCY_KEY_IN_USE",
                    "This call was made by the call that has the same idempotency key.",
                    outcome="not_applied",
                    constant=True,
                )
            )
        return ticket

    # --- what a repeat gets ----------------------------------------------------------------------------------

    def _repeat(self, ticket: Ticket, found: Entry | Exception | None) -> Any:
        call = ticket.call
        if isinstance(found, Entry) and found.state == "done":
            kept = record.read(found.record)
            problem = record.problem_in(kept) if ticket.is_repeated_by(kept) else None
            if problem is None and ticket.is_repeated_by(kept):
                result = attempt(lambda: (record.result_in(self.kind, kept),), None)
                if result is not None:
                    report_replayed(call, str(kept["request_id"]))
                    return result[0]
                problem = record.problem_in({**kept, **record.LOST})
            if problem is not None:
                raise call.fail(problem)
        raise call.fail(_refusal(ticket, found))

    # --- how the body ended ----------------------------------------------------------------------------------

    def _done(self, ticket: Ticket, result: Any) -> Coroutine[Any, Any, None]:
        """What tells the store what the body returned."""
        return attempt(self._returned, None, ticket, result) or ticket.finish(record.LOST)

    def _after(self, ticket: Ticket, exc: BaseException) -> Coroutine[Any, Any, None]:
        """What tells the store what the body raised."""
        return attempt(self._raised, None, ticket, exc) or ticket.finish({})

    def _returned(self, ticket: Ticket, result: Any) -> Coroutine[Any, Any, None]:
        call = ticket.call
        if type(result).__name__ in _INPUT_REQUIRED:
            return ticket.release()
        problem = from_result(result)
        if problem is None and call.body is self.options.key and call.guard.returned_errors == "convert":
            problem = from_value(call.guard, call, result)
        if problem is not None:
            return self._failed(ticket, problem)
        return ticket.finish(record.of_result(self.kind, result))

    def _raised(self, ticket: Ticket, exc: BaseException) -> Coroutine[Any, Any, None]:
        call = ticket.call
        if must_pass(exc):
            return ticket.finish({})
        found = call.problem if call.said(exc) else resolve(exc, (*self.options.maps, *call.maps))
        if isinstance(found, Problem):
            return self._failed(ticket, found)
        if found is None or (not found.untouched and protocol_outcome(call, found) != "not_applied"):
            return ticket.finish({})
        return ticket.release()

    def _failed(self, ticket: Ticket, problem: Problem) -> Coroutine[Any, Any, None]:
        failure = ticket.call.failure_of(problem)
        if failure.outcome == "not_applied":
            return ticket.release()
        return ticket.finish(record.of_failure(failure, problem))


def _asked(ticket: Ticket) -> concurrent.futures.Future[Entry | Exception]:
    """The claim, on its way; or why there is no way."""
    try:
        return loop.submit(ticket.acquire())
    except Exception as exc:
        failed: concurrent.futures.Future[Entry | Exception] = concurrent.futures.Future()
        failed.set_result(exc)
        return failed


def _refusal(ticket: Ticket, found: Entry | Exception | None) -> Problem:
    """Why a call does not run that got no record it could repeat."""
    if not isinstance(found, Entry):
        return built_in(
            "IDEMPOTENCY_STORE_UNAVAILABLE",
            "The store of idempotency keys could not be reached, so the tool was not run.",
            exception=found,
            outcome="not_applied",
            can_help=True,
            constant=True,
        )
    kept = record.read(found.record)
    if kept and not ticket.is_repeated_by(kept):
        return built_in(
            "IDEMPOTENCY_KEY_REUSED",
            "This idempotency key was used for a call with other arguments.",
            hint="Use a new key for a different call.",
            outcome="not_applied",
            constant=True,
            first_request_id=str(kept.get("request_id", "")),
        )
    if found.state == "in_progress":
        return built_in(
            "IDEMPOTENCY_KEY_IN_USE",
            "Another call with this idempotency key has not finished yet.",
            hint="Repeat this call with the same key and arguments to get its result.",
            outcome="not_applied",  # by this call
            can_help=True,
            constant=True,
            first_request_id=str(kept.get("request_id", "")),
        )
    return record.unknown(str(kept.get("request_id", "")))


class Ticket:
    """One call's claim to a key. Its coroutines run on the store's loop."""

    def __init__(self, settings: Idempotency, call: Call, key: str, arguments: str, limit: float | None) -> None:
        self.store = settings.store
        self.wait = settings.wait if limit is None else min(settings.wait, 0.9 * limit)
        self.lease = settings.lease
        self.call = call
        self.key = key
        self.begun = record.begun(arguments, call.root.request_id)
        self.owner = secrets.token_hex(16)
        self.running = False
        self._gone = False
        self._beat: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self.running = True
        self._before = _held.set((*_held.get(), self))

    def __exit__(self, *exc: object) -> None:
        self.running = False
        with suppress(ValueError):
            _held.reset(self._before)

    @staticmethod
    def claimed_by(found: Entry | Exception | None) -> bool:
        """Whether the key is this call's now."""
        return isinstance(found, Entry) and found.state == "claimed"

    def is_repeated_by(self, kept: dict[str, Any]) -> bool:
        """Whether a record is of a call with the same arguments."""
        return bool(kept.get("arguments") == self.begun["arguments"])

    async def acquire(self) -> Entry | Exception:
        """Claim the key, or wait for the call that has it; what there is then, or why nobody knows."""
        ends = asyncio.get_running_loop().time() + self.wait
        pause = FIRST_PAUSE
        while True:
            try:
                found: Entry = await self._ask(
                    self.store.claim(self.key, self.owner, record.packed(self.begun), self.lease)
                )
            except Exception as exc:
                self._late = asyncio.create_task(self._release_quietly())  # it may have got there
                return exc
            if found.state == "claimed":
                self._beat = asyncio.create_task(self._renew())
                if self._gone:
                    await self.release()
                return found
            left = ends - asyncio.get_running_loop().time()
            waits = found.state == "in_progress" and self.is_repeated_by(record.read(found.record))
            if not waits or left <= 0 or self._gone:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def leave(self) -> None:
        """Give the key back, now or once it is claimed: the caller has gone."""
        self._gone = True
        loop.submit(self._give_back())

    async def _give_back(self) -> None:
        if self._beat is not None:
            await self.release()

    async def finish(self, ended: Mapping[str, Any]) -> None:
        """Make the key done; without more than who and what, for an unknown outcome."""
        await self._end(self.store.finish(self.key, self.owner, record.packed({**self.begun, **ended})))

    async def release(self) -> None:
        """Make the key free."""
        await self._end(self.store.release(self.key, self.owner))

    async def _end(self, asked: Coroutine[Any, Any, None]) -> None:
        if self._beat is not None:
            self._beat.cancel()
        try:
            await self._ask(asked)
        except Exception:
            tell_once(
                "idempotency_store",
                "the store of idempotency keys did not take how a call ended; its key reads as unknown from now on",
            )

    async def _release_quietly(self) -> None:
        with suppress(Exception):
            await self._ask(self.store.release(self.key, self.owner))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.lease / 3)
            with suppress(Exception):  # it is tried again, and the end of the call tells
                await self._ask(self.store.renew(self.key, self.owner, self.lease))

    @staticmethod
    async def _ask(asked: Coroutine[Any, Any, Any]) -> Any:
        return await asyncio.wait_for(asked, STORE_LIMIT)
