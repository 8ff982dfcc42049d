"""Idempotency keys on every host: what a repeat gets, and that the body runs once."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import pytest

from iserror import ToolErrors, current_call
from iserror.idempotency import Entry, Idempotency, IdempotencyStore, MemoryStore
from iserror.testing import assert_tool_error
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.clock import Clock
from tests.helpers.hosts import HOST, Context, failure_of, in_memory, new_server, text_of, types
from tests.helpers.stores import Watched
from tests.servers.idempotent_server import Effects, add_tools, error_map

SCRIPT = "tests/servers/idempotent_server.py"
pytestmark = [pytest.mark.host, pytest.mark.anyio]


class Served:
    """A server of this host in memory, its tools and effects; `meanwhile` is called in a body that holds."""

    def __init__(
        self, folder: Path, *, attached: bool = True, meanwhile: Callable[[], object] | None = None, **settings: Any
    ) -> None:
        # `MCPServer` without a guard hands a tool nothing that tells who is calling.
        if not attached and HOST == "mcp2":
            settings.setdefault("subject", lambda: "me")
        self.settings = Idempotency(**settings)
        self.guard = ToolErrors(error_map(), idempotency=self.settings)
        self.server = new_server("payments")
        self.effects = Effects(folder / "effects", meanwhile)
        add_tools(self.server, self.guard, self.effects)
        if attached:
            self.guard.attach(self.server)


@pytest.fixture(params=[True, False], ids=["attached", "decorated"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Served:
    return Served(tmp_path, attached=request.param)


@pytest.fixture
def attached(tmp_path: Path) -> Served:
    return Served(tmp_path)


def mine(store: IdempotencyStore | None = None, **settings: Any) -> Idempotency:
    """Settings for calls in process, where no host tells who is calling."""
    return Idempotency(store, subject=lambda: "me", **settings)


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two answers are equal but for their ids."""
    return hosts.normalize(first) == hosts.normalize(second)


# --- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["pay", "pay_sync"])
async def test_a_repeat_gets_the_first_result(tool: str, served: Served) -> None:
    """A call repeated with its key gives the same answer to the last field, and its body has run once."""
    async with in_memory(served.server) as call:
        first = await call(tool, {"amount": 5, "key": "k"})
        again = [await call(tool, {"amount": 5, "key": "k"}) for _ in range(3)]
        assert all(same(first, answer) for answer in again)
        assert json.loads(text_of(first)) == {"amount": 5, "run": 1}
        assert served.effects.all() == [f"{tool} 5"]


async def test_without_a_key_it_is_a_plain_write(served: Served) -> None:
    """Without a key, and with null for one, each call runs."""
    async with in_memory(served.server) as call:
        for arguments in ({"amount": 5}, {"amount": 5, "key": None}, {"amount": 5}):
            await call("pay", arguments)
    assert len(served.effects.all()) == 3


KINDS = ["none", "text", "dict", "blocks", "result", "host_result"]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_form_of_a_result_is_repeated(kind: str, served: Served) -> None:
    """Whatever form a tool gives its result in, the repeat's is JSON-equal."""
    async with in_memory(served.server) as call:
        first = await call("give", {"kind": kind, "key": "k"})
        assert first["result"].get("isError") is not True
        assert same(first, await call("give", {"kind": kind, "key": "k"}))
    assert len(served.effects.all()) == 1


async def test_a_result_that_json_would_change_is_not_kept(attached: Served) -> None:
    """Content blocks inside of other data, which a host would show otherwise when rebuilt, are not kept."""
    async with in_memory(attached.server) as call:
        first = await call("give", {"kind": "mixed", "key": "k"})
        assert [block["text"] for block in first["result"]["content"]] == ["one", "two"]
        assert_tool_error(await call("give", {"kind": "mixed", "key": "k"}), code="RESULT_NOT_KEPT")
    assert len(attached.effects.all()) == 1


async def test_a_result_that_is_too_large_is_not_kept(served: Served) -> None:
    """Of a result above the limit a repeat learns that the call took effect, and nothing runs again."""
    async with in_memory(served.server) as call:
        await call("give", {"kind": "huge", "key": "k"})
        again = await call("give", {"kind": "huge", "key": "k"})
    assert "RESULT_NOT_KEPT: An earlier call with this idempotency key took effect." in text_of(again)
    assert "it took effect, check before any further call" in text_of(again)
    assert len(served.effects.all()) == 1


# --- failures ----------------------------------------------------------------------------------------------------

AGAIN = {
    "unknown": ("PAYMENT_UNKNOWN", "unknown"),
    "partial": ("HALF_DONE", "partial"),
    "applied": ("SENT_ONCE", "applied"),
    "crash": ("INTERNAL_ERROR", "unknown"),
}


@pytest.mark.parametrize("kind", list(AGAIN))
async def test_a_failure_that_may_have_had_an_effect_is_repeated(kind: str, attached: Served, lines: Lines) -> None:
    """It comes again in the same words under its own id, and is not retryable, though entry and effect allow it."""
    async with in_memory(attached.server) as call:
        first = await call("fail", {"kind": kind, "key": "k"})
        again = await call("fail", {"kind": kind, "key": "k"})
    assert same(first, again)
    code, outcome = AGAIN[kind]
    failure = failure_of(again)
    assert (failure["code"], failure["outcome"], failure["retryable"]) == (code, outcome, False)
    assert failure["request_id"] != failure_of(first)["request_id"]
    assert "/srv/secret" not in json.dumps(again)
    assert len(attached.effects.all()) == 1
    _, line = lines.read()
    assert line["first_request_id"] == failure_of(first)["request_id"]
    assert line["request_id"] == failure["request_id"]


@pytest.mark.parametrize("kind", ["not_applied", "elicitation"])
async def test_what_applied_nothing_releases_the_key(kind: str, attached: Served) -> None:
    """After a failure that applied nothing, or a question to the client, the next call with the key runs."""
    async with in_memory(attached.server) as call:
        first = await call("fail", {"kind": kind, "key": "k"})
        again = await call("fail", {"kind": kind, "key": "k"})
    assert same(first, again)
    assert len(attached.effects.all()) == 2
    if kind == "not_applied":
        assert_tool_error(first, retryable=True)


@pytest.mark.parametrize(("kind", "code"), [("protocol", -32001), ("refused", -32602)])
async def test_a_protocol_error_of_unknown_outcome_is_not_run_again(kind: str, code: int, attached: Served) -> None:
    """A JSON-RPC error raised on purpose may have had an effect, whatever its code: its key reads as unknown."""
    async with in_memory(attached.server) as call:
        first = await call("fail", {"kind": kind, "key": "k"})
        again = await call("fail", {"kind": kind, "key": "k"})
    assert first["error"]["code"] == code
    assert_tool_error(again, code="OUTCOME_UNKNOWN", retryable=False)
    assert len(attached.effects.all()) == 1


@pytest.mark.parametrize("kind", ["error", "host_error"])
async def test_a_returned_error_is_a_failure(kind: str, attached: Served) -> None:
    """An error result that the tool returned is kept as a failure of unknown outcome."""
    async with in_memory(attached.server) as call:
        first = await call("give", {"kind": kind, "key": "k"})
        again = await call("give", {"kind": kind, "key": "k"})
    assert_tool_error(first, code="RETURNED_ERROR")
    assert same(first, again)
    assert len(attached.effects.all()) == 1


async def test_a_returned_error_that_applied_nothing(attached: Served) -> None:
    """Another server's word that nothing was applied holds for its own call: the tool may have done more, so the key
    stays."""
    async with in_memory(attached.server) as call:
        for _ in range(2):
            again = await call("give", {"kind": "upstream", "key": "k"})
            assert_tool_error(again, code="TOO_EARLY", outcome="unknown", retryable=False)
    assert len(attached.effects.all()) == 1


async def test_what_a_server_behind_said_is_passed_on_again() -> None:
    """A failure of another server that the tool passed on comes again with its envelope and its `_meta`."""
    guard, server, runs = ToolErrors(), new_server(), []  # type: ignore[var-annotated]
    envelope = {
        "code": "BANK_DOWN",
        "message": "Bank.",
        "retryable": True,
        "retry_after": 3.0,
        "outcome": "unknown",
        "category": "unavailable",
        "tool": "theirs",
        "request_id": "0" * 32,
    }

    @server.tool()
    @guard(idempotency_key="key")
    async def pay(key: str):  # type: ignore[no-untyped-def]
        runs.append(key)
        return hosts.error_result("BANK_DOWN: Bank.", meta={"iserror/failure": envelope, "mine": 1})

    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert same(first, again)
    assert (failure_of(again)["tool"], failure_of(again)["retryable"]) == ("pay", False)
    assert failure_of(again)["request_id"] not in ("0" * 32, failure_of(first)["request_id"])
    assert again["result"]["_meta"]["iserror/upstream"] == {"request_id": "0" * 32}
    assert again["result"]["_meta"]["mine"] == 1
    assert len(runs) == 1


async def test_a_converted_error_is_a_failure(tmp_path: Path) -> None:
    """With `returned_errors="convert"` a text that reads like an error is kept as that failure."""
    guard, runs = ToolErrors(returned_errors="convert"), []
    server = new_server()

    @server.tool()
    @guard(idempotency_key="key")
    async def pay(key: str) -> str:
        runs.append(key)
        return "Error: the bank is closed"

    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert_tool_error(first, code="RETURNED_ERROR")
    assert same(first, again)
    assert len(runs) == 1


async def test_other_arguments_are_refused(served: Served) -> None:
    """A key used with other arguments fails before the body runs, and the first result is still there."""
    async with in_memory(served.server) as call:
        first = await call("pay", {"amount": 5, "key": "k"})
        other = await call("pay", {"amount": 6, "key": "k"})
        assert "IDEMPOTENCY_KEY_REUSED: " in text_of(other)
        assert "change the call first" in text_of(other)
        assert same(first, await call("pay", {"amount": 5, "key": "k"}))
    assert served.effects.all() == ["pay 5"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\u202ea"])
async def test_a_malformed_key_is_an_argument_error(key: str, attached: Served) -> None:
    """A key that is empty, too long or not printable fails like any argument that does not fit, in the same channel."""
    async with in_memory(attached.server) as call:
        answer = await call("pay", {"amount": 5, "key": key})
    failure = failure_of(answer)
    assert failure["code"] == "INVALID_ARGUMENTS"
    assert failure["message"] == "key: must be a text of 1 to 255 printable characters"
    assert attached.effects.all() == []


async def test_tools_do_not_share_a_key(served: Served) -> None:
    """The same key in two tools is two keys."""
    async with in_memory(served.server) as call:
        await call("pay", {"amount": 5, "key": "k"})
        await call("give", {"kind": "none", "key": "k"})
    assert served.effects.all() == ["pay 5", "give none"]


async def test_a_replay_is_one_line_of_its_call(attached: Served, lines: Lines) -> None:
    """A repeated success is logged with the first call's id, at info level."""
    async with in_memory(attached.server) as call:
        await call("pay", {"amount": 5, "key": "k"})
        await call("pay", {"amount": 5, "key": "k"})
    (line,) = lines.read()
    assert (line["event"], line["level"], line["tool"]) == ("idempotent_replay", "info", "pay")
    assert line["first_request_id"] != line["request_id"]


async def test_a_host_s_context_is_no_argument(tmp_path: Path) -> None:
    """What the host injects differs in each call and does not make its arguments other ones."""
    guard, runs = ToolErrors(), []
    server = new_server()

    @server.tool()
    @guard(idempotency_key="key")
    async def pay(ctx: Context, key: str) -> str:
        runs.append(ctx)
        return "paid"

    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert same(first, again)
    assert len(runs) == 1


@pytest.mark.skipif(HOST == "mcp1", reason="mcp 1.x injects nothing but its context")
async def test_a_dependency_is_no_argument() -> None:
    """What fastmcp's `Depends` or mcp 2.x's `Resolve` makes anew for each call does not count."""
    guard, runs = ToolErrors(), []
    server = new_server()

    async def pay(key: str, session: Any) -> str:
        runs.append(session)
        return "paid"

    if hosts.IS_FASTMCP:
        from fastmcp.dependencies import Depends

        pay.__defaults__ = (Depends(object),)
        pay.__annotations__ = {"key": str, "session": object, "return": str}
    else:
        from mcp.server.mcpserver import Resolve

        def made() -> dict[str, float]:
            return {"now": time.monotonic()}

        pay.__annotations__ = {"key": str, "session": Annotated[dict[str, float], Resolve(made)], "return": str}
    server.tool()(guard(idempotency_key="key")(pay))
    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert text_of(first) == text_of(again) == "paid"
    assert len(runs) == 1


@pytest.mark.skipif(hosts.ON_SDK_1, reason="only the newest revision has input-required results")
async def test_a_question_to_the_client_releases_the_key() -> None:
    """An input-required result ends no call: the client's next one, with its answer, runs."""
    guard, runs = ToolErrors(), []
    server = new_server()

    async def greet(ctx: Any, key: str) -> Any:
        runs.append(key)
        if ctx.input_responses:
            return "hello"
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        form = types.ElicitRequestFormParams(message="Your name?", requested_schema=schema)
        return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=form)}, request_state="s")

    greet.__annotations__ = {"ctx": Context, "key": str, "return": str | types.InputRequiredResult}
    server.tool()(guard(idempotency_key="key")(greet))
    guard.attach(server)

    async def answer(*_: Any) -> Any:
        if hosts.IS_FASTMCP:
            from fastmcp.client.elicitation import ElicitResult

            return ElicitResult(action="accept", content={"name": "Ann"})
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    name = "elicitation_handler" if hosts.IS_FASTMCP else "elicitation_callback"
    async with in_memory(server, **{name: answer}) as call:
        first, again = [await call("greet", {"key": "k"}) for _ in range(2)]
    assert text_of(first) == text_of(again) == "hello"
    assert len(runs) == 2


async def test_a_guard_above_the_host_s_decorator() -> None:
    """A key declared above the host's decorator, which has the bare function, counts on a server with the guard."""
    guard, runs = ToolErrors(), []
    server = new_server()

    async def pay(key: str) -> str:
        runs.append(key)
        return "paid"

    server.tool()(pay)
    guard(idempotency_key="key")(pay)
    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert same(first, again)
    assert len(runs) == 1


async def test_a_wrapper_round_a_guarded_function() -> None:
    """A decorator between host and guard sees each call, and the key is asked for once."""
    guard, runs, seen = ToolErrors(), [], []
    server = new_server()

    @guard(idempotency_key="key")
    async def pay(key: str) -> str:
        runs.append(key)
        return "paid"

    @functools.wraps(pay)
    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return await pay(*args, **kwargs)

    server.tool()(wrapped)
    guard.attach(server)
    async with in_memory(server) as call:
        first, again = [await call("pay", {"key": "k"}) for _ in range(2)]
    assert same(first, again)
    assert (len(seen), len(runs)) == (2, 1)


# --- concurrency -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_attached", [True, False], ids=["attached", "decorated"])
async def test_duplicates_wait_for_the_first(is_attached: bool, tmp_path: Path) -> None:
    """Calls that come while the first runs get its result, and the body runs once."""
    store, answers = Watched(), []
    served = Served(tmp_path, attached=is_attached, meanwhile=lambda: store.until(waiting=5), store=store)
    async with in_memory(served.server) as call, anyio.create_task_group() as group:

        async def one() -> None:
            answers.append(await call("pay", {"amount": 5, "key": "k", "hold": 1}))

        for _ in range(6):
            group.start_soon(one)
    assert len(answers) == 6
    assert all(same(answers[0], answer) for answer in answers)
    assert served.effects.all() == ["pay 5"]


async def test_a_duplicate_does_not_wait_for_ever(tmp_path: Path, clock: Clock) -> None:
    """After `wait` seconds a duplicate fails retryably; the repeat that it allows gets the result."""
    may_end, store = threading.Event(), Watched(clock, 21)
    served = Served(tmp_path, meanwhile=lambda: may_end.wait(30), store=store, wait=20, lease=60)
    arguments = {"amount": 5, "key": "k", "hold": 1}
    async with in_memory(served.server) as call, anyio.create_task_group() as group:

        async def first() -> None:
            await call("pay", arguments)
            ended.set()

        ended = anyio.Event()
        group.start_soon(first)
        while not served.effects.all():
            await anyio.sleep(0.01)
        early = failure_of(await call("pay", arguments))
        assert (early["code"], early["retryable"], early["outcome"]) == ("IDEMPOTENCY_KEY_IN_USE", True, "not_applied")
        may_end.set()
        await ended.wait()
        assert json.loads(text_of(await call("pay", arguments))) == {"amount": 5, "run": 1}
    assert served.effects.all() == ["pay 5"]


def test_a_body_that_the_client_cancelled_is_unknown(tmp_path: Path) -> None:
    """A call that its client cancelled while the body ran never runs again."""
    effects = Effects(tmp_path / "effects")
    arguments = {"amount": 5, "key": "k", "hold": 30}
    with hosts.RawStdio(SCRIPT, "--effects", str(effects.file)) as raw:
        raw.send({"method": "tools/call", "params": {"name": "pay", "arguments": arguments}, "id": 1_000})
        while not effects.all():
            time.sleep(0.01)
        raw.send({"method": "notifications/cancelled", "params": {"requestId": 1_000}})
        answer = raw.call("pay", arguments)
    assert_tool_error(answer, code="OUTCOME_UNKNOWN")
    assert effects.all() == ["pay 5"]


async def test_nested_in_another_tool(attached: Served) -> None:
    """A keyed tool that another tool calls, directly or through the server, runs once for its key."""
    guard, server = attached.guard, attached.server
    runs: list[str] = []

    @guard(idempotency_key="key")
    async def inner(key: str) -> int:
        runs.append(key)
        return len(runs)

    @server.tool()
    @guard
    async def outer() -> str:
        again = [await inner("k"), await inner("k")]
        for _ in range(2):
            await server.call_tool("pay", {"amount": 5, "key": "k"})
        call = current_call()
        assert call is not None
        return f"{again}"

    async with in_memory(server) as call:
        assert text_of(await call("outer")) == text_of(await call("outer")) == "[1, 1]"
    assert attached.effects.all() == ["pay 5"]


# --- stores that fail --------------------------------------------------------------------------------------------


class Broken(MemoryStore):
    """A store that fails in one method."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    async def claim(self, *arguments: Any) -> Entry:
        if self.method == "claim":
            raise ConnectionError("redis://10.0.0.9 is down")
        return await super().claim(*arguments)

    async def finish(self, *arguments: Any) -> None:
        if self.method == "finish":
            raise ConnectionError("redis://10.0.0.9 is down")
        await super().finish(*arguments)


async def test_no_store_no_run(tmp_path: Path, lines: Lines) -> None:
    """Where the key cannot be claimed the body does not run; the failure is retryable, and the log has the reason."""
    served = Served(tmp_path, store=Broken("claim"))
    async with in_memory(served.server) as call:
        answer = await call("pay", {"amount": 5, "key": "k"})
    failure = failure_of(answer)
    assert (failure["code"], failure["retryable"], failure["outcome"]) == (
        "IDEMPOTENCY_STORE_UNAVAILABLE",
        True,
        "not_applied",
    )
    assert "10.0.0.9" not in json.dumps(answer)
    assert served.effects.all() == []
    (line,) = lines.read()
    assert line["exception"][0]["type"] == "ConnectionError"


async def test_a_store_that_fails_after_the_body(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], clock: Clock
) -> None:
    """The caller gets the result, the operator is told once, and the key reads as unknown when its lease is over."""
    served = Served(tmp_path, store=Broken("finish"), lease=60)
    async with in_memory(served.server) as call:
        first = await call("pay", {"amount": 5, "key": "k"})
        assert json.loads(text_of(first)) == {"amount": 5, "run": 1}
        clock.forward(61)
        again = failure_of(await call("pay", {"amount": 5, "key": "k"}))
        await call("pay", {"amount": 5, "key": "other"})
    assert (again["code"], again["outcome"], again["retryable"]) == ("OUTCOME_UNKNOWN", "unknown", False)
    assert capfd.readouterr().err.count("did not take how a call ended") == 1
    assert served.effects.all() == ["pay 5", "pay 5"]
