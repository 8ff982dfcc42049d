"""A bug in a step of the core: the client still gets a valid answer, and the operator hears of it.

Each test breaks one step and calls a tool through a real client. What the broken step raises holds a canary, which
must not be in the answer, on stderr or in the log.
"""

from __future__ import annotations

import ast
import importlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import iserror
from iserror import Batch, ErrorMap, ToolErrors, ToolFailure, current_call
from iserror.layers import report, wire
from iserror.layers.call import Call
from iserror.layers.progress import Progress
from iserror.support import look as look_module
from iserror.support.look import Fault, faults, shield
from tests.conftest import Lines
from tests.helpers import hosts
from tests.helpers.hosts import ON_SDK_1, ToolError, failure_of, new_server, text_of

pytestmark = pytest.mark.host
CANARY = "plum" + "-41-" + "tiger"
SOURCE = Path(iserror.__file__).parent

WIRE = "iserror.hosts._sdk1:Sdk1Wire" if ON_SDK_1 else "iserror.hosts._sdk2:Sdk2Wire"


class Missing(Exception):
    """The one exception with an entry."""

    thing = "INV-1"


def make_guard(**settings: Any) -> ToolErrors:
    errors = ErrorMap()
    errors.add(Missing, code="THING_MISSING", category="not_found", message="No {exc.thing}.", retryable=False)
    return ToolErrors(errors, **settings)


def make(attached: bool, decorated: bool, **settings: Any) -> Any:
    server = new_server()
    guard = make_guard(**settings)
    if attached:
        guard.attach(server)
    with_guard = guard if decorated else lambda fn: fn

    @server.tool()
    @with_guard
    async def fine() -> str:
        return "well done"

    @server.tool()
    @with_guard
    async def missing() -> str:
        raise Missing

    @server.tool()
    @with_guard
    async def refused() -> str:
        try:
            raise OSError("the disk said more than it should have")
        except OSError as exc:
            raise ToolError(f"no: {exc}") from exc

    @server.tool()
    @with_guard
    async def protocol() -> str:
        raise hosts.protocol_error(-32602, "not like this")

    @server.tool()
    @with_guard
    async def behind():  # type: ignore[no-untyped-def]
        return hosts.host_error_result("it broke", meta={"theirs": 1})

    @server.tool()
    @with_guard
    async def number(n: int) -> int:
        return n

    @server.tool()
    @with_guard
    async def several():  # type: ignore[no-untyped-def]
        batch: Batch[str] = Batch()
        for name in ("a", "b"):
            with batch.item(name):
                if name == "b":
                    raise Missing
        return batch.result()

    @server.tool()
    @guard(idempotency_key="key")
    async def pay(amount: int, key: str | None = None) -> str:
        if amount < 0:
            raise Missing
        return "well done"

    return server


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fault]]:
    """Collect the faults of this test, which don't raise."""
    found: list[Fault] = []
    monkeypatch.setattr(faults, "raises", False)
    monkeypatch.setattr(faults, "listener", found.append)
    faults._told.clear()
    yield found
    faults._told.clear()


def break_step(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Make a function raise: `module:name`, or `module:Class.name`."""
    module, _, path = place.partition(":")
    *above, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in above:
        owner = getattr(owner, part)
    assert callable(getattr(owner, name))

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"<{CANARY} secret>")

    monkeypatch.setattr(owner, name, broken)


def outcome_of(answer: dict[str, Any]) -> str:
    """Return what a client got: a code, `fine` for a success, or the number of a JSON-RPC error."""
    if "error" in answer:
        return str(answer["error"]["code"])
    if answer["result"].get("isError"):
        return str(failure_of(answer)["code"])
    return "fine"


def check_heard(heard: list[Fault], stderr: str) -> None:
    assert heard
    assert all(fault.error == "RuntimeError" for fault in heard)
    assert stderr.count("guard_error") == len(set(heard))  # once for each place


CORE = "iserror.layers."
STEPS = [
    # step, tool, arguments, what an attached server answers
    ("iserror.errors.template:Template.render", "missing", {}, "INTERNAL_ERROR"),
    ("iserror.errors.resolve:_find", "missing", {}, "INTERNAL_ERROR"),
    ("iserror.errors.resolve:_chain", "missing", {}, "INTERNAL_ERROR"),
    ("iserror.errors.entry:Entry.details_of", "missing", {}, "INTERNAL_ERROR"),
    ("iserror.errors.foreign:_quote", "refused", {}, "TOOL_ERROR"),
    ("iserror.errors.arguments:_from_pydantic", "number", {"n": "x"}, "INVALID_ARGUMENTS"),
    (CORE + "lifecycle:say", "missing", {}, "INTERNAL_ERROR"),
    (CORE + "lifecycle:safe_name", "missing", {}, "INTERNAL_ERROR"),
    (CORE + "run:Run._failed", "missing", {}, "INTERNAL_ERROR"),
    (CORE + "run:problem_in", "fine", {}, "fine"),
    (CORE + "toolrun:_meaning", "missing", {}, "THING_MISSING"),
    (CORE + "toolrun:_meaning", "number", {"n": "x"}, "INTERNAL_ERROR"),
    (CORE + "toolrun:_problem_in", "fine", {}, "fine"),
    (CORE + "views:_body", "fine", {}, "fine"),
    (CORE + "views:_body", "missing", {}, "THING_MISSING"),
    (CORE + "wire:settle", "missing", {}, "THING_MISSING"),
    (CORE + "wire:_answer", "missing", {}, "THING_MISSING"),
    (CORE + "wire:_answer", "fine", {}, "fine"),
    (CORE + "wire:_answer", "unknown", {}, "INTERNAL_ERROR"),
    (CORE + "wire:_outside_the_tool", "unknown", {}, "INTERNAL_ERROR"),
    (CORE + "wire:wire_error", "protocol", {}, "INTERNAL_ERROR"),
    (CORE + "wire:redacted_meta", "behind", {}, "RETURNED_ERROR"),
    (CORE + "wire:draft_tool_failure", "missing", {}, "-32603"),
    (CORE + "report:_report", "missing", {}, "THING_MISSING"),
    (CORE + "report:_line", "missing", {}, "THING_MISSING"),
    (CORE + "report:_line", "fine", {}, "fine"),
    (CORE + "report:_line", "protocol", {}, "-32602"),
    (CORE + "report:described", "missing", {}, "THING_MISSING"),
    (WIRE.partition(":")[0] + ":_request_of", "missing", {}, "THING_MISSING"),
    (WIRE.partition(":")[0] + ":_request_of", "fine", {}, "fine"),
    (WIRE + ".error_result", "missing", {}, "-32603"),
    (WIRE + ".error_in", "fine", {}, "fine"),
    (WIRE + ".error_in", "missing", {}, "THING_MISSING"),
    (WIRE + ".led", "fine", {}, "fine"),
    (CORE + "batch:Batch._problem", "several", {}, "fine"),
    (CORE + "batch:_problem_in", "several", {}, "fine"),
    (CORE + "keyed:_Layer._returned", "pay", {"amount": 1, "key": "k"}, "fine"),
    (CORE + "keyed:_Layer._raised", "pay", {"amount": -1, "key": "k"}, "THING_MISSING"),
]
# On fastmcp, a failure reaches the host's outermost handler as an exception; elsewhere as the host's error result.
QUIET = {(WIRE + ".error_in", "missing")} if hosts.IS_FASTMCP else set()


@pytest.mark.anyio
@pytest.mark.parametrize("decorated", [False, True], ids=["attached", "attached and decorated"])
@pytest.mark.parametrize(("step", "tool", "arguments", "expected"), STEPS, ids=[f"{s[0]} {s[1]}" for s in STEPS])
async def test_attached(
    step: str,
    tool: str,
    arguments: dict[str, Any],
    expected: str,
    decorated: bool,
    heard: list[Fault],
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A client of an attached server gets a valid answer although a step is broken; the fault is heard each time."""
    server = make(True, decorated, calls=True, tool_failure_meta=True)
    async with hosts.in_memory(server) as call:
        break_step(monkeypatch, step)
        first = await call(tool, arguments)
        count = len(heard)
        again = await call(tool, {key: value + "2" if key == "key" else value for key, value in arguments.items()})
        monkeypatch.undo()
        assert outcome_of(await call("fine")) == "fine"  # the server goes on
    stderr = capfd.readouterr().err
    assert outcome_of(first) == outcome_of(again) == expected
    if (step, tool) not in QUIET:
        check_heard(heard, stderr)
        assert len(heard) == 2 * count
    if expected == "INTERNAL_ERROR" and not step.endswith("safe_name") and not step.endswith(":say"):
        assert failure_of(first)["tool"] == tool
    said = json.dumps([first, again]) + stderr + json.dumps(lines.read())
    assert CANARY not in said
    assert current_call() is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("step", "tool", "arguments", "expected"),
    [s for s in STEPS if s[0].startswith("iserror.errors.") and s[1] != "number"]
    + [s for s in STEPS if s[0].startswith((CORE + "lifecycle", CORE + "run:Run", CORE + "report", CORE + "batch"))],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_decorated_only(
    step: str,
    tool: str,
    arguments: dict[str, Any],
    expected: str,
    heard: list[Fault],
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A guarded function on a server without a guard fails with a safe text although a step is broken."""
    async with hosts.in_memory(make(False, True, calls=True)) as call:
        break_step(monkeypatch, step)
        answer = await call(tool, arguments)
        monkeypatch.undo()
    stderr = capfd.readouterr().err
    if expected in ("fine", "-32602"):
        assert not answer.get("result", {}).get("isError") or tool == "protocol"
    else:
        assert answer["result"]["isError"] is True
        assert expected in text_of(answer)
    check_heard(heard, stderr)
    assert CANARY not in json.dumps(answer) + stderr + json.dumps(lines.read())


@pytest.mark.anyio
async def test_the_line_is_written_all_the_same(
    heard: list[Fault], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure whose line can't be built has a line with its code and request id; it is reported once."""
    hooked: list[str] = []
    server = make(True, False, on_error=lambda _, failure: hooked.append(failure.code))
    async with hosts.in_memory(server) as call:
        break_step(monkeypatch, CORE + "report:_line")
        answer = await call("missing")
        monkeypatch.undo()
        break_step(monkeypatch, WIRE + ".error_result")
        await call("missing")
        monkeypatch.undo()
    failed = [line for line in lines.read() if line["event"] == "tool_failed"]
    assert [line["code"] for line in failed] == ["THING_MISSING"] * 2 == hooked
    assert failed[0]["request_id"] == failure_of(answer)["request_id"]


@pytest.mark.anyio
async def test_without_an_exception_of_the_host(
    heard: list[Fault], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client is told that the request failed where no form of the host can be made at all."""
    async with hosts.in_memory(make(True, False)) as call:
        break_step(monkeypatch, WIRE + ".error_result")
        break_step(monkeypatch, WIRE + ".protocol_error")
        answer = await call("missing")
        monkeypatch.undo()
    assert "error" in answer
    assert CANARY not in json.dumps(answer) + capfd.readouterr().err


@pytest.mark.parametrize("step", [CORE + "run:Run._failed", "iserror.errors.template:Template.render"])
def test_raises(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `faults.raises`, which this suite sets, the same bug fails the test that meets it."""

    @make_guard()
    def tool() -> None:
        raise Missing

    assert faults.raises
    break_step(monkeypatch, step)
    with pytest.raises(RuntimeError, match=CANARY):
        tool()


@pytest.mark.anyio
@pytest.mark.parametrize("step", [CORE + "wire:settle", CORE + "wire:_answer", WIRE + ".error_result"])
async def test_raises_attached(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `faults.raises`, a bug in the outermost layer isn't answered with a failure of the tool."""
    async with hosts.in_memory(make(True, False)) as call:
        break_step(monkeypatch, step)
        answer = await call("missing")
        monkeypatch.undo()
    assert "iserror/failure" not in json.dumps(answer)


@pytest.mark.anyio
@pytest.mark.parametrize("step", [CORE + "run:Run._failed", CORE + "run:must_pass", CORE + "toolrun:_meaning"])
@pytest.mark.parametrize("attached", [False, True])
async def test_cancellation_propagates(
    step: str, attached: bool, heard: list[Fault], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled call stays cancelled although a step is broken."""
    if not attached and "toolrun" in step:
        return
    guard, server = make_guard(), new_server()
    begun = anyio.Event()

    @guard
    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    if attached:
        guard.attach(server)
        server.tool()(wait)
    break_step(monkeypatch, step)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            @tasks.start_soon
            async def _cancel() -> None:
                await begun.wait()
                scope.cancel()

            await (server.call_tool("wait", {}) if attached else wait())
    assert scope.cancelled_caught
    assert heard
    assert not [line for line in lines.read() if line["event"] == "tool_failed"]
    assert current_call() is None


class NoHost:
    """A host that serves a call and has no forms."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a cancelled call has no answer, and takes no {name}")


@pytest.mark.anyio
async def test_served_call_stays_cancelled(heard: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost layer makes no answer of a cancellation although it is broken."""
    break_step(monkeypatch, CORE + "wire:_answer")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await wire.serve(NoHost(), Call(make_guard(), "tool"), anyio.sleep_forever)  # type: ignore[arg-type]
    assert scope.cancelled_caught
    assert heard


@pytest.mark.anyio
async def test_in_process(heard: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of the server's that runs a tool gets the tool's protocol error although a step is broken."""
    server = make(True, False)
    break_step(monkeypatch, CORE + "protocol:wire_error")
    with pytest.raises(hosts.ProtocolError, match="not like this"):
        await server.call_tool("protocol", {})
    assert heard


def test_batch_item_propagates(heard: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """An item doesn't swallow what ends the call although its step is broken."""

    @make_guard()
    def tool() -> None:
        with Batch[str]().item("a"):
            raise KeyboardInterrupt

    break_step(monkeypatch, CORE + "batch:Batch._problem")
    with pytest.raises(KeyboardInterrupt):
        tool()
    assert heard


@pytest.mark.parametrize("steps", [("run:Run._failed",), ("run:must_pass", "cancel:must_pass")])
def test_exit_is_a_crash(steps: tuple[str, ...], heard: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit doesn't end the server although a step is broken."""

    @make_guard()
    def tool() -> None:
        raise SystemExit(1)

    for step in steps:
        break_step(monkeypatch, CORE + step)
    with pytest.raises(ToolFailure, match="INTERNAL_ERROR"):
        tool()


# --- the reporter itself ---------------------------------------------------------------------------------------------


def _broken() -> None:
    raise RuntimeError(CANARY)


def test_one_line_from_many_threads(heard: list[Fault], capfd: pytest.CaptureFixture[str]) -> None:
    """Threads that meet the same fault at once write one line on stderr; the listener hears each."""
    together = threading.Barrier(8)

    def meet() -> None:
        together.wait()
        for _ in range(50):
            assert shield(_broken, "went on") == "went on"

    threads = [threading.Thread(target=meet) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capfd.readouterr().err.count("guard_error") == 1
    assert len(heard) == 400


def test_a_listener_with_a_fault_of_its_own(
    heard: list[Fault], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A listener that meets a fault isn't called again, and what it raises goes no further."""

    def listener(fault: Fault) -> None:
        heard.append(fault)
        shield(_broken, None)
        raise RuntimeError(CANARY)

    monkeypatch.setattr(faults, "listener", listener)
    assert shield(_broken, 7) == 7
    assert len(heard) == 1
    assert CANARY not in capfd.readouterr().err


def test_a_class_with_a_hostile_name(heard: list[Fault]) -> None:
    """The name of a class comes from the class itself, whatever its metaclass makes of it."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(CANARY)

    class Hostile(Exception, metaclass=Meta):
        __traceback__ = property(lambda _: 1 / 0)  # type: ignore[assignment]

    def step() -> None:
        raise Hostile

    assert shield(step, 7) == 7
    assert heard[0].error.endswith("Hostile")


# At the end of the stack, Python has no room to close what the tool's frames hold, and says so.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_used_up_stack_is_no_fault(heard: list[Fault]) -> None:
    """A tool that calls itself for ever is a crash, with the words of one, and no fault of ours."""

    @make_guard()
    def deep(n: int) -> None:
        deep(n + 1)

    for _ in range(5):
        with pytest.raises(ToolFailure, match="INTERNAL_ERROR: The tool failed because"):
            deep(0)
    assert not heard


def test_a_recursion_of_ours_is_one(heard: list[Fault], monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that calls itself for ever is a fault."""
    monkeypatch.setattr(look_module, "ROOT", str(Path(__file__).parent))

    def step() -> None:
        step()

    assert shield(step, 7) == 7
    assert heard[0].error == "RecursionError"


def test_interrupt_gets_through(heard: list[Fault]) -> None:
    """Ctrl+C isn't a fault."""

    def step() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shield(step, None)
    assert not heard


# --- the shape of the core -------------------------------------------------------------------------------------------


def _assigned() -> Iterator[tuple[str, str, str]]:
    """Yield the attributes that the package assigns: the file, what it is an attribute of, and its name."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
                yield file.relative_to(SOURCE).as_posix(), ast.unparse(node.value), node.attr


def test_one_writer_of_progress() -> None:
    """Nothing outside of its own module assigns an attribute of a `Progress`."""
    found = [(file, of, name) for file, of, name in _assigned() if of.rpartition(".")[2] == "progress"]
    assert not found
    fields = {name for name in vars(Progress) if not name.startswith("_") and not callable(getattr(Progress, name))}
    own = {name for file, of, name in _assigned() if file == "layers/progress.py" and of == "self"}
    assert own <= fields | {"options"}


def test_writers_of_calls() -> None:
    """Only the log counts a call's lines and only the report keeps its nested calls; nothing else of it changes."""
    fields = {*vars(Call(make_guard(), "tool")), *vars(Call)}
    calls = {"call", "nested", "root", "outer", "parent"}
    found = {
        (file, name)
        for file, of, name in _assigned()
        if of.rpartition(".")[2] in calls and name in fields and file != "layers/call.py"
    }
    assert {name for file, name in found if file.startswith("logs/")} <= {"lines", "ended"}
    assert {(file, name) for file, name in found if not file.startswith("logs/")} == {("layers/report.py", "kept")}


def test_the_way_of_a_failure() -> None:
    """The steps that the docstring of the outermost layer names are where it says."""
    steps = {
        "run": "iserror.layers.run:Run.failed",
        "resolve": "iserror.errors.resolve:resolve",
        "say": "iserror.errors.problem:say",
        "settle": "iserror.layers.wire:settle",
        "report": "iserror.layers.report:report",
        "error_result": WIRE + ".error_result",
    }
    said = wire.__doc__ or ""
    assert sorted(steps, key=lambda name: said.index(f"`{name}`")) == list(steps)
    for place in steps.values():
        module, _, path = place.partition(":")
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found)
    assert callable(report.report)
