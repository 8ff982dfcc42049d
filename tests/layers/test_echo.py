"""What the caller sent in this call is said back to it, on every host: in the author's words, nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from iserror import (
    Batch,
    ErrorMap,
    Failure,
    OwnWords,
    PartialResult,
    ToolErrors,
    ToolFailure,
    configure_logging,
    redact_text,
)
from iserror.errors.partial import ItemFailure
from iserror.errors.problem import Problem
from iserror.layers.call import Call, Request, in_call
from iserror.layers.lifecycle import failure_of as safe_failure
from iserror.testing import assert_tool_error
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import ToolError, failure_of, protocol_error, text_of

pytestmark = [pytest.mark.host, pytest.mark.anyio]

FILE = "/home/ann/report.txt"
LONG = "/home/ann/documents/of/this/year/report.txt"
OTHER = "/srv/app/tenants/7/secret.txt"
QUERY = "SELECT id, name FROM usrs WHERE plan = 'free'"
HOST = "db.corp.internal"
KEY = "sk_" + "live_" + "a1B2c3D4e5F6g7H8" * 2


class Missing(Exception):
    def __init__(self, path: str, other: str = OTHER) -> None:
        super().__init__(f"no {path}")
        self.path = path
        self.other = other
        self.both = [path, other]


class Refused(Exception):
    """Its own words are for the model."""


def map_of() -> ErrorMap:
    errors = ErrorMap()
    errors.add(
        Missing,
        code="FILE_MISSING",
        category="not_found",
        message="No file {exc.path}, nor {exc.other}.",
        hint="Look for {exc.path}.",
        details=["path", "both"],
    )
    errors.add(Refused, code="REFUSED", category="invalid_argument", message=OwnWords())
    return errors


def serving(fn: Callable[..., Any], guard: ToolErrors | None = None, **settings: Any) -> Any:
    """A server with one tool."""
    server = hosts.new_server()
    guard = guard or ToolErrors(map_of())
    guard.attach(server)
    server.tool()(guard(**settings)(fn) if settings else fn)
    return server


async def answer_of(fn: Callable[..., Any], arguments: dict[str, Any], **settings: Any) -> dict[str, Any]:
    async with hosts.in_memory(serving(fn, **settings)) as call:
        return await call(fn.__name__, arguments)


def fails(make: Callable[[str], Exception]) -> Any:
    async def tool(path: str) -> str:
        raise make(path)

    return tool


SAID: dict[str, tuple[Callable[[str], Exception], str, str | None]] = {
    "ToolError": (
        lambda path: ToolError(f"No file {path}, nor {OTHER}."),
        f"TOOL_ERROR: No file {FILE}, nor [redacted:path].",
        None,
    ),
    "ToolError of lines": (
        lambda path: ToolError(f"No file {path}.\nNor {OTHER}.\nSee {path}."),
        f"TOOL_ERROR: No file {FILE}.\nNor [redacted:path].\nSee {FILE}.",
        None,
    ),
    "ToolFailure": (
        lambda path: ToolFailure("FILE_MISSING", f"No {path}, nor {OTHER}.", hint=f"Look for {path}, not {OTHER}."),
        f"FILE_MISSING: No {FILE}, nor [redacted:path].",
        f"Look for {FILE}, not [redacted:path].",
    ),
    "ToolFailure with values": (
        lambda path: ToolFailure("FILE_MISSING", "No {path}, nor {other}.", values={"path": path, "other": OTHER}),
        f'FILE_MISSING: No "{FILE}", nor "[redacted:path]".',
        None,
    ),
    "own words": (lambda path: Refused(f"No {path}, nor {OTHER}."), f"REFUSED: No {FILE}, nor [redacted:path].", None),
    "a map's template": (
        Missing,
        f'FILE_MISSING: No file "{FILE}", nor "[redacted:path]".',
        f'Look for "{FILE}".',
    ),
}


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_said(kind: str, sync: bool) -> None:
    """The path that the caller named comes back, another in the same text does not."""
    make, text, hint = SAID[kind]
    fn = fails(make)
    if sync:

        def tool(path: str) -> str:
            raise make(path)

        fn = tool
    answer = await answer_of(fn, {"path": FILE})
    assert text_of(answer).startswith(text)
    assert failure_of(answer)["message"] == text.partition("\n")[0].partition(": ")[2]
    assert failure_of(answer).get("hint") == hint
    assert FILE not in text_of(await answer_of(fn, {"path": FILE + "x"})).replace(FILE + "x", "")


@pytest.mark.parametrize(
    ("argument", "text", "expected"),
    [
        (QUERY, f'Cannot run "{QUERY}"', f'Cannot run "{QUERY}"'),
        (QUERY, f'Cannot run "{QUERY} AND t = 7"', 'Cannot run "[redacted:sql]"'),
        (HOST, f"No host {HOST}, nor web.corp.internal", f"No host {HOST}, nor [redacted:host]"),
        (f"https://{HOST}/x", f"No host {HOST}", f"No host {HOST}"),
        ("10.0.0.5", "No host 10.0.0.5", "No host [redacted:ip]"),
        (KEY, f"No key {KEY}", "No key [redacted:stripe_key]"),
        (["a", {"deep": [FILE]}], f"No file {FILE}", f"No file {FILE}"),
        ({FILE: "a key"}, f"No file {FILE}", "No file [redacted:path]"),
        (json.dumps({"paths": [FILE, 7]}), f"No file {FILE}", f"No file {FILE}"),
    ],
)
async def test_other_words(argument: Any, text: str, expected: str) -> None:
    """SQL and hosts are the caller's too, in nested arguments and in JSON texts; addresses and credentials never."""

    async def tool(what: Any) -> str:
        raise ToolError(text)

    assert text_of(await answer_of(tool, {"what": argument})).startswith(f"TOOL_ERROR: {expected}\n")


async def test_not_in_details() -> None:
    """Details are for programs: they hold no path."""
    failure = failure_of(await answer_of(fails(Missing), {"path": FILE}))
    assert failure["details"] == {"path": "[redacted:path]", "both": '"[redacted:path]", "[redacted:path]"'}
    stated = fails(lambda path: ToolFailure("FILE_MISSING", f"No {path}.", details={"path": path}))
    failure = failure_of(await answer_of(stated, {"path": FILE}))
    assert failure["message"] == f"No {FILE}."
    assert failure["details"] == {"path": "[redacted:path]"}


async def test_not_of_a_crash() -> None:
    """A crash says nothing of its text."""
    answer = await answer_of(fails(lambda path: RuntimeError(f"no file {path}")), {"path": FILE})
    assert failure_of(answer)["code"] == "INTERNAL_ERROR"
    assert FILE not in json.dumps(answer)


NO_FILE = "[Errno 2] No such file or directory: '[redacted:path]'"
QUOTED: dict[str, tuple[Callable[[str, Exception], str], str]] = {
    "before": (lambda path, exc: f"Cannot read {path}: {exc}", f'Cannot read "{LONG}": "{NO_FILE}"'),
    "before, in quotes": (lambda path, exc: f"Cannot read '{path}': {exc}", f'Cannot read "{LONG}": "{NO_FILE}"'),
    "behind": (lambda path, exc: f"{exc} ({path})", f'"{NO_FILE}" ("{LONG}")'),
    "behind, after a dash": (lambda path, exc: f"{exc} - {path}", f'"{NO_FILE}" - "{LONG}"'),
    "around": (lambda path, exc: f"{path}: {exc}: {path}", f'"{LONG}": "{NO_FILE}": "{LONG}"'),
    "alone": (lambda path, exc: f"Cannot read {path}.", f'Cannot read "{LONG}".'),
    "the words alone": (lambda path, exc: str(exc), f'"{NO_FILE}"'),
    "the words, and more": (lambda path, exc: f"Failed: {exc}", f'Failed: "{NO_FILE}"'),
}


@pytest.mark.parametrize("kind", QUOTED)
async def test_not_in_quotes(kind: str) -> None:
    """What another exception said stays redacted; the path before or behind it is the caller's."""
    make, expected = QUOTED[kind]

    async def tool(path: str) -> str:
        try:
            open(path)
        except OSError as exc:
            raise ToolError(make(path, exc)) from exc
        return ""

    message = failure_of(await answer_of(tool, {"path": LONG}))["message"]
    assert message == expected


async def test_foreign_words_that_begin_with_it() -> None:
    """A foreign text that begins or ends with the caller's path is foreign as a whole."""

    async def tool(path: str) -> str:
        try:
            raise ValueError(f"{LONG} is locked by process 7 of {LONG}")
        except ValueError as exc:
            raise ToolError(f"Cannot read it: {exc}") from exc

    message = failure_of(await answer_of(tool, {"path": LONG}))["message"]
    assert message == 'Cannot read it: "[redacted:path] is locked by process 7 of [redacted:path]"'


async def test_values_that_say_more() -> None:
    """A value with more than the caller's words is an upstream's: its path stays redacted."""
    why = f"upstream has no {FILE} in {OTHER}"
    fn = fails(lambda path: ToolFailure("FAILED", "It says {why}, of {path}.", values={"why": why, "path": path}))
    answer = await answer_of(fn, {"path": FILE})
    assert failure_of(answer)["message"] == (
        f'It says "upstream has no [redacted:path] in [redacted:path]", of "{FILE}".'
    )


async def test_protocol_error() -> None:
    """A JSON-RPC error that the author raised: its message has the caller's words, its data hasn't."""
    fn = fails(lambda path: protocol_error(-32001, f"No {path}, nor {OTHER}.", {"path": path}))
    error = (await answer_of(fn, {"path": FILE}))["error"]
    assert error["message"] == f"No {FILE}, nor [redacted:path]."
    assert error["data"]["path"] == "[redacted:path]"


async def test_arguments_that_do_not_fit() -> None:
    """What is wrong with arguments never shows a value."""

    async def tool(path: str, count: int) -> str:
        return path

    assert FILE not in json.dumps(await answer_of(tool, {"path": FILE, "count": FILE}))


async def test_error_result() -> None:
    """An error result that the tool returned has the caller's words."""

    async def tool(path: str):  # type: ignore[no-untyped-def]
        return hosts.host_error_result(f"No file {path}, nor {OTHER}.")

    text = text_of(await answer_of(tool, {"path": FILE}))
    assert text.startswith(f"RETURNED_ERROR: No file {FILE}, nor [redacted:path].\n")


async def test_envelope_of_another_server() -> None:
    """A text that another server's guard wrote is a quote: nothing of it is an echo."""
    sent = Failure(
        code="FILE_MISSING",
        message=f"No file {FILE}.",
        hint=f"Look for {FILE}.",
        retryable=False,
        outcome="not_applied",
        category="not_found",
        tool="x",
        request_id="0" * 32,
    )

    async def tool(path: str):  # type: ignore[no-untyped-def]
        return hosts.host_error_result(sent.text, meta={"iserror/failure": sent.to_wire()})

    answer = await answer_of(tool, {"path": FILE})
    assert failure_of(answer)["message"] == '"No file [redacted:path]."'
    assert FILE not in json.dumps(answer)


# --- whose words they are --------------------------------------------------------------------------------------------


async def test_only_from_the_wire() -> None:
    """A default, and what the tool makes of an argument or puts into it, isn't the caller's."""

    async def tool(options: Any, path: str = OTHER) -> str:
        options["path"] = f"/srv/app/tenants/7/{options['name']}"
        raise ToolError(f"No {path} and {options['path']} and {options['name']}")

    text = text_of(await answer_of(tool, {"options": {"name": "secret.txt"}}))
    assert text.startswith("TOOL_ERROR: No [redacted:path] and [redacted:path] and secret.txt\n")


@pytest.mark.skipif(not hosts.IS_FASTMCP, reason="fastmcp's middleware")
@pytest.mark.parametrize("in_place", [True, False])
async def test_before_middleware(in_place: bool) -> None:
    """What a middleware makes of the arguments isn't the caller's, in place or not."""
    from fastmcp.server.middleware import Middleware

    class Resolving(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            if in_place:
                context.message.arguments["path"] = OTHER
                return await call_next(context)
            message = context.message.model_copy(update={"arguments": {"path": OTHER}})
            return await call_next(context.copy(message=message))

    server = serving(fails(lambda path: ToolError(f"No {path}, nor {FILE}.")))
    server.add_middleware(Resolving())
    async with hosts.in_memory(server) as call:
        text = text_of(await call("tool", {"path": FILE}))
    assert text.startswith(f"TOOL_ERROR: No [redacted:path], nor {FILE}.\n")


async def test_replayed() -> None:
    """A kept failure is replayed to a call with the same arguments only, and so with the same words."""
    runs = []

    async def tool(key: str, path: str) -> str:
        runs.append(path)
        raise ToolError(f"No {path}, nor {OTHER}.")

    async with hosts.in_memory(serving(tool, idempotency_key="key")) as call:
        first, again = [await call("tool", {"key": "k", "path": FILE}) for _ in range(2)]
        other = await call("tool", {"key": "k", "path": LONG})
    assert runs == [FILE]
    assert failure_of(first)["message"] == failure_of(again)["message"] == f"No {FILE}, nor [redacted:path]."
    assert failure_of(other)["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert FILE not in json.dumps(other)


async def test_nested() -> None:
    """What counts is what the caller of the outermost call sent, however a tool that it calls got it."""
    guard = ToolErrors(map_of())
    server = hosts.new_server()
    guard.attach(server)

    @server.tool()
    async def inner(path: str) -> str:
        raise ToolError(f"No {path} in the inner tool")

    @server.tool()
    @guard
    async def outer(path: str, own: bool) -> str:
        return str(await server.call_tool("inner", {"path": path if own else OTHER}))

    @guard
    async def function(path: str) -> str:
        raise ToolError(f"No {path} in a function")

    @server.tool()
    async def calls(path: str, own: bool) -> str:
        return await function(path if own else OTHER)

    async with hosts.in_memory(server) as call:
        for tool in ("outer", "calls"):
            assert f"No {FILE} in" in text_of(await call(tool, {"path": FILE, "own": True}))
            text = text_of(await call(tool, {"path": FILE, "own": False}))
            assert "No [redacted:path] in" in text
            assert OTHER not in text


async def test_one_call_beside_another() -> None:
    """Two calls at once: neither is told what the other sent."""
    together = anyio.Event()

    async def tool(path: str, last: bool) -> str:
        if last:
            together.set()
        await together.wait()
        raise ToolError(f"No {FILE} and {LONG}")

    async with hosts.in_memory(serving(tool)) as call:
        texts: dict[bool, str] = {}

        async def ask(path: str, last: bool) -> None:
            texts[last] = text_of(await call("tool", {"path": path, "last": last}))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, FILE, False)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(ask, LONG, True)
    assert texts[False].startswith(f"TOOL_ERROR: No {FILE} and [redacted:path]\n")
    assert texts[True].startswith(f"TOOL_ERROR: No [redacted:path] and {LONG}\n")


async def test_an_exception_for_two_callers() -> None:
    """An exception that two calls share says to each what that one sent, wherever it was made."""
    made: list[Exception] = []

    async def tool(path: str) -> str:
        if not made:
            made.append(ToolFailure("MISSING", "No {a}, nor {b}.", values={"a": FILE, "b": LONG}))
        raise made[0]

    async with hosts.in_memory(serving(tool)) as call:
        for _ in range(2):
            answer = await call("tool", {"path": FILE})
            assert failure_of(answer)["message"] == f'No "{FILE}", nor "[redacted:path]".'
            answer = await call("tool", {"path": LONG})
            assert failure_of(answer)["message"] == f'No "[redacted:path]", nor "{LONG}".'
    assert str(made[0]) == 'MISSING: No "[redacted:path]", nor "[redacted:path]".'


async def test_a_worker_that_outlives_its_call() -> None:
    """A task that a call left behind says nothing of what that call's caller sent: it may work for another."""
    jobs: Any = None

    async def work(results: Any) -> None:
        async for _ in jobs[1]:
            await results.send(
                ItemFailure(id=FILE, code="FILE_MISSING", message="x", retryable=False, outcome="unknown")
            )

    async def tool(path: str) -> str:
        nonlocal jobs
        if jobs is None:
            jobs = anyio.create_memory_object_stream(1)
            results = anyio.create_memory_object_stream(1)
            jobs = (*jobs, results[1], asyncio.get_running_loop().create_task(work(results[0])))
            return "started"
        await jobs[0].send(path)
        return str((await jobs[2].receive()).id)

    async with hosts.in_memory(serving(tool)) as call:
        assert text_of(await call("tool", {"path": FILE})) == "started"
        answer = await call("tool", {"path": LONG})
        jobs[3].cancel()
    for stream in jobs[:3]:
        stream.close()
    assert text_of(answer) == "[redacted:path]"


@pytest.mark.parametrize("code", ["INTERNAL_ERROR", "INVALID_OUTPUT", "INVALID_ARGUMENTS"])
async def test_codes_that_say_nothing(code: str) -> None:
    """Whatever the text of a crash or of arguments that don't fit will hold: no echo."""
    call = Call(ToolErrors(), "tool", request=Request(arguments={"path": FILE}))
    with in_call(call):
        said = safe_failure(call, Problem(code, f"No file {FILE}.", refused=code == "INVALID_ARGUMENTS"))
        other = safe_failure(call, Problem("TOOL_ERROR", f"No file {FILE}."))
    assert said.message == "No file [redacted:path]."
    assert other.message == f"No file {FILE}."


async def test_outside_of_a_call() -> None:
    """A function that no server runs has no caller: everything is redacted."""
    guard = ToolErrors(map_of())

    @guard
    async def alone(path: str) -> str:
        raise ToolError(f"No {path}")

    with pytest.raises(ToolFailure, match=r"No \[redacted:path\]"):
        await alone(FILE)


# --- items -----------------------------------------------------------------------------------------------------------


async def test_items() -> None:
    """An item's name and message have the caller's words; what the server made of them doesn't."""

    async def tool(paths: list[str]) -> PartialResult[str]:
        batch: Batch[str] = Batch()
        for path in (*paths, OTHER):
            with batch.item(path):
                if path != paths[0]:
                    raise Missing(path)
        return batch.result()

    answer = await answer_of(tool, {"paths": ["ok.txt", FILE]})
    text = json.dumps(answer)
    assert OTHER not in text
    block = text_of(answer)
    found = json.loads(block[block.index("{") :])
    assert [(item["id"], item["message"]) for item in found["failed"]] == [
        (FILE, f'No file "{FILE}", nor "[redacted:path]".'),
        ("[redacted:path]", 'No file "[redacted:path]", nor "[redacted:path]".'),
    ]
    assert f'"{FILE}" (FILE_MISSING' in found["summary"]


async def test_items_in_threads() -> None:
    """A thread that the tool starts without its context redacts as before: it knows of no call."""

    async def tool(paths: list[str]) -> PartialResult[str]:
        batch: Batch[str] = Batch()

        def one(path: str) -> None:
            with batch.item(path):
                raise ToolError(f"No {path}")

        with ThreadPoolExecutor(1) as pool:
            list(pool.map(one, paths))
        return batch.result()

    assert "NOTHING_SUCCEEDED" not in text_of(await answer_of(tool, {"paths": [FILE]}))


# --- where nothing is an echo ----------------------------------------------------------------------------------------


async def test_not_in_the_log(tmp_path: Any) -> None:
    """A log that is to have no paths has none, whoever sent them."""
    configure_logging(tmp_path, profile="model")
    await answer_of(fails(lambda path: ToolFailure("FILE_MISSING", f"No {path}.")), {"path": FILE})
    found = Lines(tmp_path).read()
    assert found
    assert FILE not in json.dumps(found)


async def test_not_in_the_author_s_own_redaction() -> None:
    """`redact_text` does in a call what it does elsewhere."""

    async def tool(path: str) -> str:
        return redact_text(f"No {path}")

    assert "No [redacted:path]" in text_of(await answer_of(tool, {"path": FILE}))


async def test_successes_are_not_touched() -> None:
    """A success has nothing to do with it."""

    async def tool(path: str) -> str:
        return f"{path} and {OTHER}"

    assert text_of(await answer_of(tool, {"path": FILE})) == f"{FILE} and {OTHER}"


async def test_over_http() -> None:
    """Over a real connection it is the same."""
    make, text, _ = SAID["ToolError"]
    async with hosts.over_http(serving(fails(make))) as call:
        answer = await call("tool", {"path": FILE})
    assert text_of(answer).startswith(text)
    assert_tool_error(answer["result"], code="TOOL_ERROR")
