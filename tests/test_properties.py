"""The guard never fails and never leaks, whatever an exception, a value or a hook does.

All of it runs on bare guarded functions, where every mistake of the guard shows as another exception;
`tests/layers/test_hostile.py` takes the same list through a host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iserror import ErrorMap, Failure, Redactor, Rule, ToolErrors, ToolFailure, configure_redaction
from iserror.support.causes import Group
from tests.helpers import hosts
from tests.helpers.promises import RAISED, caught_from, check_failure, failure_of, quick
from tests.servers import hostile_server
from tests.servers.hostile_server import DSN, HOSTILE, SECRET, Mapped

pytestmark = pytest.mark.hostless

ANY_TEXT = st.text(st.characters(), max_size=120)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", HOSTILE)
def test_bare_function(kind: str, lines: Any) -> None:
    """A hostile exception becomes one valid failure and one line, without the planted secret in the failure."""
    failure = failure_of(ToolErrors(hostile_server.error_map()), HOSTILE[kind]())
    (line,) = (line for line in lines.read() if line["event"] == "tool_failed")
    assert line["code"] == failure.code
    assert line["request_id"] == failure.request_id


@quick
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_of_a_crash(text: str, more: str) -> None:
    """Nothing of a crash's text is said, whatever it is: the failure is the same but for the id."""
    failure = failure_of(ToolErrors(), RuntimeError(text, DSN, more))
    assert failure.to_wire() == {
        "code": "INTERNAL_ERROR",
        "message": "The tool failed because of an error on the server.",
        "advice": "stop and tell the user",
        "retryable": False,
        "outcome": "unknown",
        "category": "internal",
        "tool": "tool",
        "request_id": failure.request_id,
    }


@quick
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_of_a_tool_error(text: str, more: str) -> None:
    """A deliberate text of any characters gives a valid failure, and a DSN inside it is not said."""
    assert failure_of(ToolErrors(), hosts.ToolError(f"{text} {DSN} {more}")).code == "TOOL_ERROR"


@quick
@example("[redacted:", "", {})
@given(ANY_TEXT, ANY_TEXT, st.dictionaries(ANY_TEXT, ANY_TEXT | st.floats() | st.integers() | st.none(), max_size=5))
def test_any_text_of_a_tool_failure(text: str, hint: str, details: dict[str, Any]) -> None:
    """A ToolFailure with any message, hint and details gives a valid failure with its own code."""
    exc = ToolFailure("REFUSED", f"no {text} {DSN}", hint=hint, details={**details, "dsn": DSN})
    assert failure_of(ToolErrors(), exc).code == "REFUSED"


VALUES = st.recursive(
    ANY_TEXT | st.integers() | st.floats() | st.booleans() | st.none() | st.binary() | st.dates() | st.uuids(),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=20,
)


@quick
@given(VALUES)
def test_any_value_in_a_template(value: object) -> None:
    """A mapped exception whose attribute is anything gives a valid failure with the entry's code."""
    failure = failure_of(ToolErrors(hostile_server.error_map()), Mapped(value))
    assert failure.code == "MAPPED"
    assert failure.message.startswith("No thing")
    assert failure.message.endswith(".")


EXCEPTIONS = st.sampled_from([RuntimeError, hosts.ToolError, Mapped, KeyError, StopIteration, TimeoutError]).map(
    lambda cls: cls(DSN)
)


def _linked(parts: tuple[BaseException, BaseException, bool]) -> BaseException:
    exc, other, as_cause = parts
    setattr(exc, "__cause__" if as_cause else "__context__", other)
    return exc


TREES = st.recursive(
    EXCEPTIONS,
    lambda inner: (
        st.tuples(inner, inner, st.booleans()).map(_linked)
        | st.lists(inner, min_size=1, max_size=4).map(lambda leaves: Group(DSN, leaves))
    ),
    max_leaves=25,
)


@quick
@given(TREES)
def test_any_tree_of_exceptions(exc: BaseException) -> None:
    """Causes, contexts and groups in any mixture give a valid failure with one of the codes that they hold."""
    assert failure_of(ToolErrors(hostile_server.error_map()), exc).code in ("INTERNAL_ERROR", "TOOL_ERROR", "MAPPED")


@quick
@given(st.text(st.characters(), min_size=1, max_size=300))
def test_any_tool_name(name: str) -> None:
    """A function of any name gives a failure whose tool is printable and at most 128 characters."""

    def tool() -> None:
        raise RuntimeError(DSN)

    tool.__name__ = name
    assert len(check_failure(caught_from(ToolErrors()(tool))).tool) <= 128


@quick
@given(
    st.recursive(
        st.text(st.characters()) | st.floats() | st.none(), lambda x: st.lists(x) | st.dictionaries(ANY_TEXT, x)
    )
)
def test_any_envelope_from_outside(envelope: object) -> None:
    """What is no envelope is never taken for one."""
    assert Failure.from_wire(envelope) is None
    assert Failure.from_wire({"code": envelope, "message": envelope}) is None


@quick
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_in_an_envelope_from_outside(message: str, hint: str, tool: str) -> None:
    """A foreign envelope is refused, or taken in a form that is safe to pass on."""
    sent = {
        "code": "FOREIGN",
        "message": f"{message} {DSN}",
        "hint": hint,
        "retryable": False,
        "outcome": "unknown",
        "category": "internal",
        "tool": tool,
        "request_id": "0" * 32,
    }
    failure = Failure.from_wire(sent)
    if failure is not None:
        check_failure(failure)


# --- what the author and the process bring along ----------------------------------------------------------------


@pytest.mark.parametrize("raised", RAISED)
def test_hook_raises(raised: str, lines: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A hook that raises costs neither the answer nor the line, and is told once."""

    def hook(exc: BaseException, failure: Failure) -> None:
        raise RAISED[raised]()

    guard = ToolErrors(on_error=hook)
    codes = [failure_of(guard, RuntimeError(DSN)).code for _ in range(2)]
    assert codes == ["INTERNAL_ERROR", "INTERNAL_ERROR"]
    assert [line["code"] for line in lines.read()] == codes
    told = capsys.readouterr().err
    assert told.count("the on_error hook raised") == 1
    assert SECRET not in told


@pytest.mark.parametrize("raised", RAISED)
def test_retry_after_raises(raised: str) -> None:
    """A function for retry_after that raises gives a failure without a wait."""

    def wait(exc: Any) -> float:
        raise RAISED[raised]()

    failure = failure_of(ToolErrors(hostile_server.error_map(wait)), Mapped())
    assert (failure.code, failure.message, failure.retry_after) == ("MAPPED", "No thing INV-1.", None)


@pytest.mark.parametrize("raised", RAISED)
def test_redactor_raises(raised: str) -> None:
    """A redactor with a rule that raises gives a failure that says nothing of the text."""

    def broken(text: str) -> list[tuple[int, int]]:
        raise RAISED[raised]()

    guard = ToolErrors(hostile_server.error_map())
    for exc in (RuntimeError(DSN), hosts.ToolError(f"no way to {DSN}"), Mapped(DSN), ToolFailure("REFUSED", DSN)):

        @guard
        def tool(exc: BaseException = exc) -> None:
            raise exc

        configure_redaction(Redactor().add(Rule("broken", "broken", find=broken)))
        failure = caught_from(tool)
        configure_redaction()
        check_failure(failure)


class BadStream:
    """A stream that fails in a way of the test's choice."""

    encoding = "utf-8"

    def __init__(self, error: Callable[[], BaseException]) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error()

    def flush(self) -> None:
        raise self.error()


@pytest.mark.parametrize(
    "error", [*RAISED.values(), lambda: OSError(28, "No space left"), lambda: ValueError("closed")]
)
def test_stderr_raises(error: Callable[[], BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stderr that fails in any way costs the line and not the answer."""
    monkeypatch.setattr(sys, "stderr", BadStream(error))
    assert failure_of(ToolErrors(), RuntimeError(DSN)).code == "INTERNAL_ERROR"


def test_details_raise() -> None:
    """Details whose attribute raises are left out, and the failure stays."""
    errors = ErrorMap()
    errors.add(Mapped, code="GONE", category="not_found", message="Gone.", details=["value", "missing"])

    class Bad(Mapped):
        @property
        def value(self) -> str:
            raise RuntimeError(DSN)

        @value.setter
        def value(self, value: object) -> None:
            pass

    assert failure_of(ToolErrors(errors), Bad()).details is None
