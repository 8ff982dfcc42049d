"""A server whose tools fail in every awkward way, in memory, over stdio or over HTTP (`--http --port N`).

`HOSTILE` is a list of exceptions that resist being looked at; the other tools are for the tests of cancellation
and of the log. Options: `--log PATH`, `--signs PATH` (a folder where tools leave signs of what they saw),
`--structlog stdout` (a user's own configuration that prints), `--stateless`, `--log-arguments`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import anyio
import structlog
from pydantic import BaseModel

from iserror import ErrorMap, ToolErrors, ToolFailure, configure_logging
from iserror.support.causes import Group
from tests.helpers.hosts import HOST, IS_FASTMCP, ToolError, new_server

SECRET = "swordfish" + "-7Qx" + "9Lm" * 4
DSN = f"postgres://app:{SECRET}@10.0.0.9/prod"


class Order(BaseModel):
    id: int


class Halt(BaseException):
    """What passes every `except Exception`, and is no exit."""


class Mapped(Exception):
    """Has an entry whose every part reads the exception."""

    def __init__(self, value: object = "INV-1") -> None:
        super().__init__(DSN)
        self.value = value


def _raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def method(*_: object) -> Any:
        raise error()

    return method


def _class(base: type[BaseException], **namespace: Any) -> type[BaseException]:
    return type("Hostile" + base.__name__, (base,), namespace)


class Text(str):
    """A text whose every method raises, as far as Python lets it."""

    __slots__ = ()


for _name in ("__getitem__", "__len__", "__contains__", "__iter__", "isascii", "isprintable", "split", "strip"):
    setattr(Text, _name, _raising(lambda: RuntimeError(DSN)))


class Endless(Exception):
    """An attribute that never ends."""

    def __init__(self) -> None:
        super().__init__(DSN)

    @property
    def value(self) -> Iterator[str]:
        while True:
            yield "again"


def _caused(exc: BaseException, cause: BaseException) -> BaseException:
    exc.__cause__ = cause
    return exc


def _cycle(length: int, link: str) -> BaseException:
    ring = [RuntimeError(DSN) for _ in range(length)]
    for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
        setattr(one, link, other)
    return ring[0]


def _chain(length: int) -> BaseException:
    exc: BaseException = RuntimeError(DSN)
    for _ in range(length):
        exc = _caused(RuntimeError(DSN), exc)
    return exc


def _nested(depth: int, width: int = 1) -> BaseException:
    """A group inside a group inside a group; of width 2 and more, one group object stands in many places."""
    exc: Any = RuntimeError(DSN)
    for _ in range(depth):
        exc = Group(DSN, [exc] * width)
    return exc


def _without_init(cls: type[BaseException]) -> BaseException:
    return cls.__new__(cls)


def _changed(**values: object) -> ToolFailure:
    made = ToolFailure("FINE_SO_FAR", "All is well.")
    made.__dict__.update(values)
    return made


def _noted(notes: object) -> BaseException:
    exc = RuntimeError(DSN)
    exc.__notes__ = notes  # type: ignore[attr-defined]
    return exc


_ERRORS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: RuntimeError(DSN),
    "exit": lambda: SystemExit(DSN),
    "halt": lambda: Halt(DSN),
}
_DUNDERS = (
    "__str__",
    "__repr__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__len__",
    "__iter__",
    "__format__",
    "__getattribute__",
    "__getattr__",
    "__reduce_ex__",
)
_ATTRIBUTES = (
    "__class__",
    "__cause__",
    "__context__",
    "__suppress_context__",
    "__traceback__",
    "__notes__",
    "__dict__",
)

HOSTILE: dict[str, Callable[[], BaseException]] = {
    **{
        f"{name} raises {kind}": lambda name=name, error=error: _class(RuntimeError, **{name: _raising(error)})(DSN)
        for name in _DUNDERS
        for kind, error in _ERRORS.items()
    },
    **{
        f"{name} is a property that raises {kind}": lambda name=name, error=error: _class(
            RuntimeError, **{name: property(_raising(error))}
        )(DSN)
        for name in _ATTRIBUTES
        for kind, error in _ERRORS.items()
    },
    **{
        f"mapped, its attribute raises {kind}": lambda error=error: _class(
            Mapped, value=property(_raising(error))
        ).__new__(_class(Mapped, value=property(_raising(error))))
        for kind, error in _ERRORS.items()
    },
    **{
        f"mapped, its value's text raises {kind}": lambda error=error: Mapped(
            type("Value", (), {"__str__": _raising(error)})()
        )
        for kind, error in _ERRORS.items()
    },
    **{
        f"its class is said to be {cls.__name__}": lambda cls=cls: _class(RuntimeError, __class__=cls)(DSN)
        for cls in (int, ToolFailure, ToolError, KeyboardInterrupt, asyncio.CancelledError, Group)
    },
    "__str__ gives no text": lambda: _class(RuntimeError, __str__=lambda _: 7)(DSN),
    "__str__ gives a hostile text": lambda: _class(RuntimeError, __str__=lambda _: Text(DSN))(DSN),
    "a host's error with a hostile text": lambda: ToolError(Text(DSN)),
    "a host's error without a text": lambda: ToolError(),
    "a host's error with a text of blanks": lambda: ToolError(" \n\t\u200b\u202e"),
    "a host's error with a DSN": lambda: ToolError(f"no way to {DSN}"),
    "a host's error of 1 MB": lambda: ToolError("no " + "x" * 1_000_000 + f" {DSN}"),
    "a host's error of 1 MB of words": lambda: ToolError("a.b@c = 'd', " * 80_000 + DSN),
    "a host's error with lone surrogates": lambda: ToolError("\ud800 no \udfff"),
    "a host's error that says ToolFailure": lambda: _class(ToolError, _problem=7, failure=7)(DSN),
    "GeneratorExit": lambda: GeneratorExit(DSN),
    "a group with GeneratorExit": lambda: Group(DSN, [GeneratorExit(), ValueError(DSN)]),
    "a group with SystemExit": lambda: Group(DSN, [ValueError(DSN), SystemExit(DSN)]),
    "a stray CancelledError": lambda: asyncio.CancelledError(DSN),
    "a group with a stray CancelledError": lambda: Group(DSN, [asyncio.CancelledError(DSN)]),
    "1 MB": lambda: RuntimeError(DSN * 20_000),
    "no text that UTF-8 has": lambda: RuntimeError("\udc80" * 100),
    "arguments replaced": lambda: _class(RuntimeError, args=property(_raising(lambda: RuntimeError(DSN))))(DSN),
    "module is no text": lambda: _class(RuntimeError, __module__=7)(DSN),
    "named like the SDK's": lambda: type(
        "McpError", (RuntimeError,), {"__module__": "mcp", "error": property(_raising(lambda: RuntimeError(DSN)))}
    )(DSN),
    "notes that are no list": lambda: _noted(7),
    "notes that are no texts": lambda: _noted([7, None, Text(DSN), DSN * 1000] * 1000),
    "its own cause": lambda: _cycle(1, "__cause__"),
    "causes in a ring": lambda: _cycle(7, "__cause__"),
    "contexts in a ring": lambda: _cycle(7, "__context__"),
    "a chain of 5,000": lambda: _chain(5_000),
    "a hostile cause": lambda: _caused(ValueError(DSN), _class(KeyError, __str__=_raising(Halt))(DSN)),
    "a group 200 levels deep": lambda: _nested(200),
    "a group of 10,000": lambda: Group(DSN, [RuntimeError(DSN) for _ in range(10_000)]),
    "a group of a thousand kinds": lambda: Group(DSN, [_class(RuntimeError)(DSN) for _ in range(1_000)]),
    "one group in 30 million places": lambda: _nested(5, 30),
    "a group that holds itself": lambda: _class(Group, exceptions=property(lambda self: (self,)))("x", [ValueError()]),
    "a group that hides its leaves": lambda: _class(Group, exceptions=property(_raising(lambda: Halt(DSN))))(
        "x", [ValueError()]
    ),
    "mapped, a value without end": Endless,
    "mapped, a value of 1 MB": lambda: Mapped("x" * 1_000_000),
    "mapped, a value with a secret": lambda: Mapped(DSN),
    "mapped, a value with lone surrogates": lambda: Mapped("\ud800\udfff"),
    "mapped, a hostile text": lambda: Mapped(Text(DSN)),
    "mapped, no number": lambda: Mapped(float("nan")),
    "mapped, a huge number": lambda: Mapped(10**5000),
    "a failure that was never made": lambda: _without_init(ToolFailure),
    "a failure with a code of no form": lambda: _changed(code=DSN),
    "a failure without a message": lambda: _changed(message=None),
    "a failure with a hostile message": lambda: _changed(message=Text(DSN)),
    "a failure with a category of its own": lambda: _changed(category=DSN),
    "a failure with an outcome of its own": lambda: _changed(outcome=DSN),
    "a failure that waits for ever": lambda: _changed(retryable=True, outcome="not_applied", retry_after=float("inf")),
    "a failure with hostile details": lambda: _changed(details={"a": object(), "b": float("inf"), 7: DSN, "\ud800": 1}),
    "a failure whose details are none": lambda: _changed(details=DSN),
    "a failure that says another's": lambda: _changed(failure=7, _problem=7),
}


async def _cancel_and_wait() -> None:
    _cancel_own_task()
    await asyncio.sleep(30)


async def _cancel_in_a_group() -> None:
    _cancel_own_task()
    async with anyio.create_task_group() as group:
        group.start_soon(asyncio.sleep, 30)


async def _cancel_and_fail() -> None:
    _cancel_own_task()
    raise RuntimeError(DSN)


async def _cancel_twice_from_a_timer() -> None:
    for _ in range(2):
        asyncio.get_running_loop().call_soon(_task().cancel)
    await asyncio.sleep(30)


async def _await_what_is_cancelled() -> None:
    other = asyncio.ensure_future(asyncio.sleep(30))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _cancel_own_task() -> None:
    _task().cancel()


ENDING: dict[str, Callable[[], Awaitable[None]]] = {
    "cancels its own task": _cancel_and_wait,
    "cancels its own task, in a group": _cancel_in_a_group,
    "cancels its own task and fails": _cancel_and_fail,
    "cancels its own task twice": _cancel_twice_from_a_timer,
    "awaits a task that somebody cancels": _await_what_is_cancelled,
}
"""What a tool does that ends it, but not by raising what it is told to."""

LONE = b"report-\xff.pdf".decode("utf-8", "surrogateescape")
"""A file's name as `os.listdir` gives it, with a lone surrogate."""


def error_map(wait: Callable[[Any], Any] = lambda exc: exc.value) -> ErrorMap:
    errors = ErrorMap()
    for cls in (Mapped, Endless):
        errors.add(
            cls,
            code="MAPPED",
            category="unavailable",
            message="No thing {exc.value}.",
            hint="Not {exc.value}.",
            details=["value"],
            retryable=True,
            retry_after=wait,
        )
    return errors


def make(wait: Callable[[Any], Any] = lambda exc: exc.value, **settings: Any) -> Any:
    """The server, guarded: one tool that raises what it is told to, by name, in each kind."""
    server = new_server()
    guard = ToolErrors(error_map(wait), **settings)
    guard.attach(server)

    @server.tool()
    @guard
    def fail(kind: str):  # type: ignore[no-untyped-def]
        raise HOSTILE[kind]()

    @server.tool()
    async def fail_typed(kind: str) -> Order:
        raise HOSTILE[kind]()

    @server.tool()
    @guard
    async def end(kind: str):  # type: ignore[no-untyped-def]
        await ENDING[kind]()

    @server.tool()
    async def succeed_although_cancelled():  # type: ignore[no-untyped-def]
        _cancel_own_task()
        return "done"

    @server.tool()
    def list_files() -> list[str]:
        return [LONE, "a.pdf"]

    @server.tool()
    def name_file():  # type: ignore[no-untyped-def]
        return LONE

    @server.tool()
    def succeed():  # type: ignore[no-untyped-def]
        return "done"

    return server


def add_witnesses(server: Any, guard: ToolErrors, signs: Path) -> None:
    """Tools that leave files behind of what happened to them."""

    def sign(name: str) -> None:
        (signs / name).touch()

    @server.tool()
    @guard
    async def wait():  # type: ignore[no-untyped-def]
        sign("started")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            sign("cancelled")
            raise
        finally:
            sign("ended")
        return "done"

    @server.tool()
    async def fail_in_cleanup():  # type: ignore[no-untyped-def]
        sign("started")
        try:
            await asyncio.sleep(30)
        finally:
            sign("ended")
            raise RuntimeError(DSN)

    @server.tool()
    async def swallow():  # type: ignore[no-untyped-def]
        sign("started")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            sign("ended")
        return "done"

    @server.tool()
    @guard
    def wait_in_thread():  # type: ignore[no-untyped-def]
        sign("started")
        time.sleep(0.6)
        sign("ended")
        return "main" if threading.current_thread() is threading.main_thread() else "thread"

    @server.tool()
    @guard
    def talk():  # type: ignore[no-untyped-def]
        structlog.get_logger().info("talking", what="a tool's own line")
        raise RuntimeError(DSN)

    @server.tool()
    @guard
    def take(amount: int, note: str = ""):  # type: ignore[no-untyped-def]
        raise LookupError("no such thing")


def _option(name: str) -> str | None:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def main() -> None:
    log, signs = _option("--log"), _option("--signs")
    if _option("--structlog") == "stdout":
        structlog.configure(
            processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
            logger_factory=structlog.PrintLoggerFactory(),
        )
    if log:
        configure_logging(log)
    server = make(log_arguments="--log-arguments" in sys.argv)
    if signs:
        add_witnesses(server, ToolErrors(), Path(signs))
    if "--http" not in sys.argv:
        server.run(**({"show_banner": False} if IS_FASTMCP else {}))
        return
    port, stateless = int(_option("--port") or 0), "--stateless" in sys.argv
    if HOST == "mcp1":
        server.settings.port, server.settings.stateless_http = port, stateless
        server.run("streamable-http")
    elif HOST == "mcp2":
        server.run("streamable-http", port=port, stateless_http=stateless)
    else:
        server.run("http", port=port, show_banner=False, stateless_http=stateless)


if __name__ == "__main__":
    main()
