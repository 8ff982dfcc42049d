"""What a guarded function looks like, to the host and to its own callers: like the bare one."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from iserror import Failure, ToolFailure
from tests import scenarios
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, Context, ToolError, new_server
from tests.hosts.test_registration import Tool, listed, make_guard, not_found, only_fastmcp, result_of, safe_crash

pytestmark = [pytest.mark.host, pytest.mark.python, pytest.mark.anyio]


class Line(BaseModel):
    sku: str
    count: Annotated[int, Field(gt=0)] = 1


class Receipt(BaseModel):
    id: int
    lines: list[Line]


def plain(a: int, b: str = "x") -> str:
    """Join two values."""
    return f"{a}{b}"


async def rich(
    lines: list[Line],
    mode: Literal["fast", "safe"] = "safe",
    limit: Annotated[int, Field(ge=1, le=9, description="How many.")] = 5,
    *,
    note: str | None = None,
) -> Receipt:
    """Make a receipt."""
    return Receipt(id=limit, lines=lines)


def with_context(ctx: Context, a: int) -> dict[str, int]:
    """Say whether the context came."""
    return {"a": a, "context": int(isinstance(ctx, Context))}


def untyped(a, b=2):  # type: ignore[no-untyped-def]
    return "done"


class Desk:
    def bound(self, a: int) -> list[int]:
        """Count up to a number."""
        return list(range(a))

    async def bound_async(self, a: int) -> int:
        return a


class Doubler:
    """Double a number."""

    def __call__(self, a: int) -> int:
        return 2 * a


class AsyncDoubler:
    """Double a number, in time."""

    async def __call__(self, a: int) -> int:
        return 2 * a


def counting(a: int) -> Iterator[int]:
    """Count up, one at a time."""
    yield from range(a)


async def counting_async(a: int) -> AsyncIterator[int]:
    """Count up, in time."""
    for i in range(a):
        yield i


FUNCTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (plain, {"a": 1}),
    "rich": (rich, {"lines": [{"sku": "A"}], "note": "n"}),
    "with_context": (with_context, {"a": 1}),
    "untyped": (untyped, {"a": 1}),
    "bound": (Desk().bound, {"a": 2}),
    "bound_async": (Desk().bound_async, {"a": 2}),
}
# What mcp refuses bare; guarded, it takes them.
OBJECTS: dict[str, tuple[Any, str, int]] = {
    "partial": (functools.partial(plain, b="z"), "Join two values.", 3),
    "callable": (Doubler(), "Double a number.", 6),
    "async_callable": (AsyncDoubler(), "Double a number, in time.", 6),
}


def register(server: Any, fn: Any, name: str) -> None:
    """Register what may have no name of its own."""
    if IS_FASTMCP:
        server.add_tool(Tool.from_function(fn, name=name))
    else:
        server.add_tool(fn, name=name)


@pytest.mark.parametrize("mode", scenarios.MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
async def test_same_to_the_host(name: str, mode: str) -> None:
    """A guarded tool is listed like the bare one, schema, description and all, and gives the same success."""
    fn, arguments = FUNCTIONS[name]
    guard, bare, guarded = make_guard(), new_server(), new_server()
    bare.tool()(fn)
    guarded.tool()(fn if mode == "attached" else guard(fn))
    if mode != "decorated":
        guard.attach(guarded)
    assert await listed(bare) == await listed(guarded)
    assert await result_of(bare, name, arguments) == await result_of(guarded, name, arguments)
    assert await listed(bare) == await listed(guarded)


async def test_the_context_is_injected() -> None:
    """A guarded tool's `ctx` is the host's own context and no argument of the tool."""
    server = new_server()
    make_guard().attach(server)
    server.tool()(make_guard()(with_context))
    answer = await result_of(server, "with_context", {"a": 1})
    assert {"a": 1, "context": 1} == answer["result"]["structuredContent"]
    assert ["a"] == list((await listed(server))[0]["inputSchema"]["properties"])


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize("name", OBJECTS)
async def test_partials_and_callable_objects(name: str, attached: bool) -> None:
    """A guarded partial or callable object registers with its own schema and description, and runs."""
    fn, description, number = OBJECTS[name]
    guard, server = make_guard(), new_server()
    register(server, guard(fn), name)
    if attached:
        guard.attach(server)
    (tool,) = await listed(server)
    assert description == tool["description"]
    types = {key: value["type"] for key, value in tool["inputSchema"]["properties"].items()}
    assert ({"a": "integer", "b": "string"} if name == "partial" else {"a": "integer"}) == types
    assert ["a"] == tool["inputSchema"]["required"]
    expected = f"{number}z" if name == "partial" else number
    assert {"result": expected} == (await result_of(server, name, {"a": 3}))["result"]["structuredContent"]


@only_fastmcp
@pytest.mark.parametrize("name", OBJECTS)
async def test_partials_and_callable_objects_are_listed_alike(name: str) -> None:
    """fastmcp lists a guarded partial or callable object like the bare one, but for a partial's description."""
    fn = OBJECTS[name][0]
    bare, guarded = new_server(), new_server()
    register(bare, fn, name)
    register(guarded, make_guard()(fn), name)
    (left,), (right,) = await listed(bare), await listed(guarded)
    if name == "partial":  # that of functools.partial on fastmcp 3
        del left["description"], right["description"]
    assert left == right


@pytest.mark.parametrize("name", ["partial", "callable", "bound"])
async def test_failures_of_objects(name: str) -> None:
    """A guarded partial, callable object or bound method that fails gives the mapped result."""

    class Lookup:
        def __call__(self) -> Any:
            raise scenarios.InvoiceNotFound("INV-42")

        def method(self) -> Any:
            raise scenarios.InvoiceNotFound("INV-42")

    def fail(invoice_id):  # type: ignore[no-untyped-def]
        raise scenarios.InvoiceNotFound(invoice_id)

    kinds: dict[str, Any] = {
        "partial": functools.partial(fail, "INV-42"),
        "callable": Lookup(),
        "bound": Lookup().method,
    }
    guard, server = make_guard(), new_server()
    guard.attach(server)
    register(server, guard(kinds[name]), "lookup")
    answer = await result_of(server, "lookup")
    # Of `Any` the hosts make different output schemas; the schema alone decides about structuredContent.
    answer["result"].setdefault("structuredContent", answer["result"]["_meta"]["iserror/failure"])
    assert not_found("lookup") == answer


@only_fastmcp
@pytest.mark.parametrize("mode", scenarios.MODES)
@pytest.mark.parametrize("fn", [counting, counting_async])
async def test_generators(fn: Any, mode: str) -> None:
    """A guarded generator function is listed like the bare one and gives the same result."""
    guard, bare, guarded = make_guard(), new_server(), new_server()
    bare.tool(output_schema=None)(fn)
    guarded.tool(output_schema=None)(fn if mode == "attached" else guard(fn))
    if mode != "decorated":
        guard.attach(guarded)
    assert await listed(bare) == await listed(guarded)
    assert await result_of(bare, fn.__name__, {"a": 3}) == await result_of(guarded, fn.__name__, {"a": 3})


@only_fastmcp
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_generators_that_fail(kind: str, lines: Lines) -> None:
    """A generator that fails after its first item gives the mapped result and one line."""

    def sync():  # type: ignore[no-untyped-def]
        yield 1
        raise scenarios.InvoiceNotFound("INV-42")

    async def later():  # type: ignore[no-untyped-def]
        yield 1
        raise scenarios.InvoiceNotFound("INV-42")

    guard, server = make_guard(), new_server()
    guard.attach(server)
    server.tool(name="lookup")(guard(sync if kind == "sync" else later))
    assert not_found("lookup") == await result_of(server, "lookup")
    assert 1 == len(lines.read())


# --- other decorators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["above", "below", "both"])
@pytest.mark.parametrize("attached", [False, True])
async def test_decorators_above_and_below(where: str, attached: bool, lines: Lines) -> None:
    """A decorator above or below the guard runs once a call; what it sees is a ToolFailure or the original."""
    seen: list[str] = []

    def audit(fn: Any) -> Any:
        @functools.wraps(fn)
        async def audited() -> Any:
            try:
                return await fn()
            except Exception as exc:
                seen.append(type(exc).__name__)
                raise

        return audited

    async def body():  # type: ignore[no-untyped-def]
        raise RuntimeError(scenarios.DSN)

    guard, server = make_guard(), new_server()
    fn = audit(body) if where in ("below", "both") else body
    fn = guard(effect="read")(fn)
    fn = audit(fn) if where in ("above", "both") else fn
    if attached:
        guard.attach(server)
    server.tool(name="body")(fn)
    answer = await result_of(server, "body")
    expected = {"above": ["ToolFailure"], "below": ["RuntimeError"], "both": ["RuntimeError", "ToolFailure"]}
    assert expected[where] == seen
    if attached:
        assert safe_crash("body") == answer
    else:
        prefix = "" if IS_FASTMCP else "Error executing tool body: "
        assert [{"type": "text", "text": prefix + hosts.text_of(safe_crash("body"))}] == answer["result"]["content"]
    assert ["INTERNAL_ERROR"] == [line["code"] for line in lines.read()]


async def test_a_decorator_above_that_fails(lines: Lines) -> None:
    """On an attached server what a decorator above the guard raises is mapped too, once."""

    def refuse(fn: Any) -> Any:
        @functools.wraps(fn)
        def refusing() -> Any:
            raise scenarios.InvoiceNotFound("INV-42")

        return refusing

    def succeed():  # type: ignore[no-untyped-def]
        return "done"

    guard, server = make_guard(), new_server()
    guard.attach(server)
    server.tool(name="lookup")(refuse(guard(effect="read")(succeed)))
    assert not_found("lookup") == await result_of(server, "lookup")
    assert 1 == len(lines.read())


# --- without a server ------------------------------------------------------------------------------------------


def test_a_guarded_function_looks_like_the_bare_one() -> None:
    """Name, module, docstring, annotations, signature and kind of a guarded function are those of the bare one."""
    for fn in (plain, rich, with_context, untyped, counting, counting_async):
        guarded = make_guard()(fn)
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
            assert getattr(fn, name) == getattr(guarded, name)
        assert inspect.signature(fn) == inspect.signature(guarded)
        for kind in (
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
            inspect.isgeneratorfunction,
            inspect.isfunction,
        ):
            assert kind(fn) == kind(guarded), (fn, kind)


async def test_called_without_a_server() -> None:
    """Called in process, a guarded function returns its own object, or raises a ToolFailure with the whole text."""
    guard = make_guard()
    assert "1x" == guard(plain)(1)
    receipt = Receipt(id=1, lines=[])

    @guard
    async def same() -> Receipt:
        return receipt

    assert receipt is await same()

    @guard
    def lookup() -> None:
        raise scenarios.InvoiceNotFound("INV-42")

    with pytest.raises(ToolFailure) as raised:
        lookup()
    failure = raised.value.failure
    assert isinstance(failure, Failure)
    assert failure.text == str(raised.value)
    answer = hosts.normalize({"result": {"_meta": {"iserror/failure": failure.to_wire()}}})
    assert not_found("lookup")["result"]["_meta"] == answer["result"]["_meta"]


def test_the_failure_is_the_hosts_own_tool_error() -> None:
    """A ToolFailure, the author's and the guard's, is a ToolError of the running host and has no cause."""
    assert isinstance(ToolFailure("CARD_DECLINED", "The card was declined."), ToolError)

    @make_guard()
    def lookup() -> None:
        raise scenarios.InvoiceNotFound("INV-42")

    with pytest.raises(ToolError) as raised:
        lookup()
    assert isinstance(raised.value, ToolFailure)
    assert (None, True) == (raised.value.__cause__, raised.value.__context__ is None)


@pytest.mark.parametrize("how", ["pickle", "copy", "deepcopy"])
def test_a_failure_can_be_pickled_and_copied(how: str) -> None:
    """A pickled or copied ToolFailure has the type, text, fields and failure of the original."""

    @make_guard()
    def lookup() -> None:
        raise scenarios.InvoiceNotFound("INV-42")

    with pytest.raises(ToolFailure) as raised:
        lookup()
    declined = ToolFailure("CARD_DECLINED", "The card was declined.", hint="Ask.", details={"attempts": 1})
    for original in (raised.value, declined):
        if how == "pickle":
            again = pickle.loads(pickle.dumps(original))
        else:
            again = copy.copy(original) if how == "copy" else copy.deepcopy(original)
        assert type(original) is type(again)
        assert str(original) == str(again)
        assert original.failure == again.failure
        for name in ("code", "message", "hint", "category", "retryable", "retry_after", "outcome", "details"):
            assert getattr(original, name) == getattr(again, name)
