"""Details of the core that only a wrong line would show: bounds, order, and which of two things wins."""

from __future__ import annotations

import json
import logging.config
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from iserror import Batch, ErrorMap, PartialResult, ToolErrors, ToolFailure
from iserror.errors.arguments import reasons_of
from iserror.errors.lookalike import looks_like_an_error
from iserror.errors.partial import ItemFailure
from iserror.errors.problem import Problem, ProtocolProblem, crash, invalid_arguments
from iserror.errors.resolve import resolve
from iserror.idempotency import loop, record
from iserror.layers import call as call_module
from iserror.layers import report
from iserror.layers.call import Call
from iserror.layers.lifecycle import fail, failure_of
from iserror.layers.toolrun import _refuse_again
from iserror.support.causes import Group
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import MODERN, ON_SDK_1, new_server
from tests.helpers.hosts import failure_of as envelope_of

pytestmark = pytest.mark.host


class Missing(Exception):
    """It has an entry."""


def make_guard(**settings: Any) -> ToolErrors:
    errors = ErrorMap()
    errors.add(Missing, code="THING_MISSING", category="not_found", message="No such thing.")
    return ToolErrors(errors, **settings)


# --- in process ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["failure", "protocol"])
async def test_in_process_runs_once(kind: Literal["failure", "protocol"], lines: Lines) -> None:
    """A tool that fails in process runs once, and its caller gets what the guard says."""
    server, runs = new_server(), 0
    make_guard().attach(server)

    @server.tool()
    async def tool() -> None:
        nonlocal runs
        runs += 1
        raise Missing if kind == "failure" else hosts.protocol_error(-32602, "not like this")

    with pytest.raises(ToolFailure if kind == "failure" else hosts.ProtocolError) as caught:
        await server.call_tool("tool", {})
    assert runs == 1
    assert "THING_MISSING" in str(caught.value) if kind == "failure" else "not like this" in str(caught.value)
    assert [line["event"] for line in lines.read()] == ["tool_failed" if kind == "failure" else "protocol_error"]


# --- the outermost layer ---------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_logging_that_is_configured_between(lines: Lines) -> None:
    """What the application configures after `attach` doesn't cut the log off from other loggers' records."""
    server = new_server()
    make_guard().attach(server)

    @server.tool()
    async def tool() -> str:
        logging.getLogger("theirs").warning("a word")
        return "done"

    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"none": {"class": "logging.NullHandler"}},
            "root": {"handlers": ["none"], "level": "WARNING"},
        }
    )
    async with hosts.in_memory(server) as call:
        await call("tool")
    written = [line for file in lines.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert "a word" in [json.loads(line)["event"] for line in written]


@pytest.mark.anyio
async def test_lowlevel_layer_raises(lines: Lines) -> None:
    """An exception of a layer between the guard and the tools is a failure with an envelope, not a bare error."""
    server = new_server()
    lowlevel = getattr(server, "_lowlevel_server", None) or server._mcp_server

    async def raising(*_: Any) -> Any:
        raise Missing

    if ON_SDK_1:
        lowlevel.request_handlers[hosts.types.CallToolRequest] = raising
        make_guard().attach(server)
    else:
        make_guard().attach(server)
        lowlevel.middleware.append(_on_calls(raising))

    async with hosts.in_memory(server) as call:
        answer = await call("tool")
    assert envelope_of(answer)["code"] == "THING_MISSING"


def _on_calls(handler: Any) -> Any:
    async def middleware(ctx: Any, call_next: Any) -> Any:
        return await (handler(ctx) if ctx.method == "tools/call" else call_next(ctx))

    return middleware


@pytest.mark.anyio
async def test_refused_arguments_keep_their_exception(lines: Lines) -> None:
    """The line of refused arguments has the validator's exception in either channel."""
    server = new_server()
    make_guard(invalid_arguments="protocol").attach(server)

    @server.tool()
    async def number(n: int) -> int:
        return n

    async with hosts.in_memory(server) as call:
        answer = await call("number", {"n": "x"})
    assert answer["error"]["code"] == -32602
    (line,) = lines.read()
    assert "ValidationError" in line["exception"][0]["type"]


DRAFT = "io.modelcontextprotocol/toolFailure"


@pytest.mark.anyio
@pytest.mark.parametrize("wanted", [False, True])
async def test_the_draft_is_written_on_request(wanted: bool) -> None:
    """The draft's key is there if it was asked for, and one that another server sent stays."""
    server = new_server()
    make_guard(tool_failure_meta=wanted).attach(server)

    @server.tool()
    async def own() -> None:
        raise Missing

    @server.tool()
    async def behind():  # type: ignore[no-untyped-def]
        return hosts.host_error_result("no", meta={DRAFT: {"class": "theirs"}})

    async with hosts.in_memory(server) as call:
        meta = (await call("own"))["result"]["_meta"]
        passed_on = (await call("behind"))["result"]["_meta"]
    assert (DRAFT in meta) is wanted
    assert passed_on[DRAFT] == {"class": "theirs"}


@pytest.mark.anyio
@pytest.mark.skipif(not MODERN, reason="the 1.x SDK sends no server info with results")
async def test_error_results_name_the_server() -> None:
    """An error result has the server info that the host puts into a success."""
    server = new_server("named")
    make_guard().attach(server)

    @server.tool()
    async def tool(fails: bool) -> str:
        if fails:
            raise Missing
        return "done"

    async with hosts.in_memory(server) as call:
        failed, fine = await call("tool", {"fails": True}), await call("tool", {"fails": False})
    key = "io.modelcontextprotocol/serverInfo"
    assert failed["result"]["_meta"][key] == fine["result"]["_meta"][key]
    assert failed["result"]["_meta"][key]["name"] == "named"


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ({"status": "ok", "message": "done"}, False),
        ({"status": "error", "message": "no"}, True),
        ({"status": "FAILED", "message": "no"}, True),
        ({"status": "failure", "error": ""}, False),
        ({"status": "failure"}, False),
        ({"status": "error", "message": ""}, False),
        ({"status": 500, "message": "no"}, False),
        ({"success": False, "message": "no"}, True),
        ({"success": False}, False),
        ({"success": 0, "message": "none"}, False),
        ({"success": True, "message": "done"}, False),
        ({"error": "no"}, False),
        ({"error": None, "message": "done"}, False),
        ({"message": "done"}, False),
        ({}, False),
        (["error"], False),
    ],
)
def test_dicts_that_read_like_errors(value: object, is_one: bool) -> None:
    """A dict reads like an error by its structure, not by its words."""
    assert looks_like_an_error(value) is is_one


def test_two_tokens_share_the_room() -> None:
    """Two tokens of 60 characters aren't both written out; one is, and so are two short ones."""
    long, short = "t" * 60, "t" * 40
    both = PartialResult[str](next_cursor=long, resume_token="u" * 60).summary
    assert long not in both
    assert "the next_cursor of this result" in both
    assert long in PartialResult[str](next_cursor=long).summary
    assert short in PartialResult[str](next_cursor=short, resume_token=short).summary


@pytest.mark.parametrize(("effect", "again"), [("read", True), ("write", False)])
def test_unfinished_items(effect: Literal["read", "write"], again: bool) -> None:
    """An unfinished item of a tool that reads can be retried; one of a tool that writes can't."""

    @make_guard()(effect=effect)
    def tool() -> PartialResult[str]:
        batch = Batch[str]()
        with batch.item("a"):
            pass
        batch.item("b")
        return batch.result()

    (item,) = tool().failed
    assert (item.code, item.retryable) == ("TIMEOUT", again)


@pytest.mark.parametrize(("length", "kept"), [(200, True), (201, False)])
def test_tokens_in_details(length: int, kept: bool) -> None:
    """A token of up to 200 characters is in the details of a call none of whose items succeeded; none is cut."""
    token = "t" * length

    @make_guard()
    def tool() -> PartialResult[str]:
        batch = Batch[str]()
        with batch.item("a"):
            raise Missing
        return batch.result(next_cursor=token)

    with pytest.raises(ToolFailure) as caught:
        tool()
    failure = caught.value.failure
    assert failure is not None
    assert failure.details == ({"next_cursor": token} if kept else None)


def test_ids_in_summaries_are_short() -> None:
    """An id in a summary has up to 40 characters."""
    item = ItemFailure(id="i" * 60, code="NO_WAY", message="No.", retryable=False, outcome="not_applied")
    assert "i" * 41 not in PartialResult[str](failed=[item]).summary


# --- what a problem says ---------------------------------------------------------------------------------------------


def test_ten_reasons() -> None:
    """The message names ten reasons; the log has all fields."""
    problem = invalid_arguments([(f"f{i}", "is required") for i in range(12)], None)
    assert problem.message.count("is required") == 10
    assert "f9: " in problem.message
    assert len(problem.fields) == 12


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 1


class Other(BaseModel):
    model_config = ConfigDict(extra="forbid")
    weight: int = 1


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner = Inner()
    either: Inner | Other = Inner()


class _Tool:
    parameters = Outer.model_json_schema()


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        ({"inner": {"secret_key": 1}}, [("inner", "has an argument that this tool does not have")]),
        # Each branch of a union refuses the other's arguments.
        ({"either": {"size": 1, "weight": 1}}, [("either", "has an argument that this tool does not have")]),
        ({"secret_key": 1}, [("", "an argument that this tool does not have")]),
        ({"inner": {"size": "x"}}, [("inner.size", "must be an integer")]),
    ],
)
def test_extra_arguments(given: dict[str, Any], reasons: list[tuple[str, str]]) -> None:
    """An argument that a tool doesn't have is reported by its place, without its name."""
    with pytest.raises(ValueError, match=r".") as caught:
        Outer.model_validate(given)
    assert reasons_of(caught.value, _Tool(), given) == reasons


def test_a_protocol_error_in_a_group() -> None:
    """In a group a protocol error is a crash, and outweighs a failure with an entry: a result can tell both."""
    maps = [make_guard().errors]
    refused = hosts.protocol_error(-32602, "not like this")
    for leaves in ([refused, RuntimeError("no")], [Missing(), refused], [refused]):
        problem = resolve(Group("both", leaves), maps)
        assert isinstance(problem, Problem)
        assert problem.code == "INTERNAL_ERROR"


def test_an_impossible_problem_is_a_crash_of_its_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem that no check expected becomes a crash with the tool's name and effect."""
    from iserror.support.look import faults

    monkeypatch.setattr(faults, "raises", False)
    call = Call(make_guard(), "find")
    call.progress.refused_by_host(crash(RuntimeError()), hosts.annotations(readOnlyHint=True))
    failure = failure_of(call, Problem("no code", "No.", "internal"))
    assert (failure.code, failure.tool, failure.outcome) == ("INTERNAL_ERROR", "find", "not_applied")


# --- the log ---------------------------------------------------------------------------------------------------------


def test_duration(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The duration of a call is the time between its begin and its line, in milliseconds."""

    class Clock:
        now = 5_000_000

        def perf_counter_ns(self) -> int:
            return self.now

    clock = Clock()
    monkeypatch.setattr(call_module, "time", clock)
    monkeypatch.setattr(report, "time", clock)

    @make_guard()
    def tool() -> None:
        clock.now += 1_500_250
        raise Missing

    with pytest.raises(ToolFailure):
        tool()
    assert lines.read()[0]["duration_ms"] == 1.5


# --- a middleware that runs tools again ------------------------------------------------------------------------------


def failed_call(problem: Problem, *, writes: bool = True) -> Call:
    call = Call(make_guard(), "asked")
    call.progress.looks_in((call.settings.errors,))
    call.progress.target = "asked"
    call.progress.arguments = {"n": 1}
    call.progress.annotations = hosts.annotations(readOnlyHint=not writes)
    call.progress.touches()
    fail(call, problem)
    return call


AGAIN = Problem("BUSY", "Busy.", "unavailable", can_help=True, outcome="not_applied")
CHANGEABLE = Problem("BAD", "Bad.", "invalid_argument", outcome="not_applied")
FINAL = Problem("GONE", "Gone.", "internal", outcome="unknown")


@pytest.mark.parametrize(
    ("problem", "name", "arguments", "handled"),
    [
        (FINAL, "asked", {"n": 1}, None),
        (FINAL, "asked", {"n": 2}, "retried"),
        (FINAL, "other", {"n": 1}, "recovered"),
        (AGAIN, "asked", {"n": 1}, "retried"),
        (CHANGEABLE, "asked", {"n": 1}, None),
        (CHANGEABLE, "asked", {"n": 2}, "retried"),
    ],
)
def test_a_tool_that_runs_again(
    problem: Problem, name: str, arguments: dict[str, Any], handled: str | None, lines: Lines
) -> None:
    """A failed write runs again if a retry is safe, with other arguments, or as another tool; else it fails again."""
    call = failed_call(problem)
    refused = _refuse_again(call, name, arguments)
    assert [line.get("handled") for line in lines.read()] == ([handled] if handled else [])
    if handled:
        assert refused is None
        assert call.progress.problem is call.progress.failure is None
    else:
        assert isinstance(refused, ToolFailure)
        assert refused.failure is call.progress.failure


def test_a_read_that_runs_again(lines: Lines) -> None:
    """A tool that isn't declared to write runs again as on the bare host."""
    assert _refuse_again(failed_call(FINAL, writes=False), "asked", {"n": 1}) is None
    assert [line["handled"] for line in lines.read()] == ["retried"]


def test_a_tool_that_runs_inside_a_failed_one() -> None:
    """A tool that a running one delegates to isn't another tool of the middleware's."""
    call = failed_call(FINAL)
    call.progress.running = 1
    assert isinstance(_refuse_again(call, "other", {"n": 1}), ToolFailure)


def test_a_call_that_ended_in_a_protocol_error() -> None:
    """A middleware that runs such a tool again gets the same protocol error."""
    call = Call(make_guard(), "asked")
    call.progress.target = "asked"
    call.progress.arguments = {}
    call.progress.annotations = hosts.annotations(readOnlyHint=False)
    refused = hosts.protocol_error(-32602, "not like this")
    call.progress.errs(ProtocolProblem(refused, -32602, "not like this"))
    assert _refuse_again(call, "asked", {}) is refused
    assert _refuse_again(Call(make_guard(), "asked"), "asked", {}) is None


# --- guards and keys -------------------------------------------------------------------------------------------------


def test_local_maps() -> None:
    """Only a function with entries for itself has a map in the catalog."""
    guard, local = make_guard(), ErrorMap()

    @guard
    def plain() -> None: ...

    @guard(errors=local)
    def special() -> None: ...

    assert guard.local_maps == [("special", local)]


def test_the_loop_tells_whether_it_runs() -> None:
    """The loop of the stores says that it runs once something was submitted, so that a store closes what it opened."""

    async def nothing() -> int:
        return 7

    assert loop.submit(nothing()).result(10) == 7
    assert loop.is_running() is True


class Paid(BaseModel):
    """A result with an alias and a computed field."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    amount: int = Field(alias="amountDue")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return self.amount * 2


def test_results_are_kept_by_alias() -> None:
    """A kept result has the names of its aliases and no computed field, and gives the same again."""

    def tool() -> Paid:
        raise NotImplementedError

    kept = record.of_result(tool, Paid(amount=4))
    assert kept == {"kind": "named", "value": '{"amountDue":4}'}
    assert record.result_in(tool, kept) == Paid(amount=4)


def test_only_some_of_many_errors_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of items that don't fit cost no more than a few hundred, whoever tells what is wrong."""
    from iserror.errors import arguments

    class Item(BaseModel):
        a: int
        b: int

    class Takes(BaseModel):
        items: list[Item]

    class Taking:
        parameters = Takes.model_json_schema()

    given = {"items": [{}] * 3_000}
    with pytest.raises(ValidationError) as caught:
        Takes.model_validate(given)
    listed: list[str] = []
    monkeypatch.setattr(arguments, "_rule", lambda kind, context: listed.append(kind) or "is required")
    reasons = reasons_of(caught.value, Taking(), given)
    assert reasons[:2] == [("items[0].a", "is required"), ("items[0].b", "is required")]
    assert listed == []
    # Where the schema alone finds nothing, the validator's errors are listed, and the first are looked at.
    assert reasons_of(caught.value, Taking(), {"items": []})[:1] == reasons[:1]
    assert len(listed) == arguments.MAX_LOOKED


class Priced(Exception):
    price = ""


@pytest.mark.anyio
async def test_a_template_that_gets_no_value_is_told_once(lines: Lines) -> None:
    """A misspelt or empty attribute is in the log once, with the entry's code, whatever the tool; a right one isn't."""
    errors = ErrorMap()
    errors.add(
        Priced, code=f"PRICE_ODD_{hosts.HOST.upper()}", category="not_found", message="It costs {exc.prise}.",
        hint="Ask for {exc.price}, not {exc.args}.",
    )  # fmt: skip
    server = new_server()
    ToolErrors(errors).attach(server)

    @server.tool()
    def price() -> str:
        raise Priced("a tip")

    async with hosts.in_memory(server) as call:
        answers = [await call("price") for _ in range(2)]
    assert answers[0]["result"]["content"][0]["text"].startswith(f"PRICE_ODD_{hosts.HOST.upper()}: It costs.\n")
    told = [line for line in lines.read() if line["event"] == "template_value_missing"]
    assert [(line["level"], line["code"][:9], line["attribute"]) for line in told] == [
        ("warning", "PRICE_ODD", "prise"),
        ("warning", "PRICE_ODD", "price"),
    ]
    assert told[0]["request_id"] == envelope_of(answers[0])["request_id"]
