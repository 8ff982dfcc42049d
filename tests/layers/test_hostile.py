"""A served tool never fails and never leaks, whatever it raises and whatever a hook or a sink does.

The list of `tests/test_properties.py`, through the host under test in memory and once over stdio.
"""

from __future__ import annotations

from typing import Any

import pytest

from iserror.logs.chain import State
from tests.helpers import hosts
from tests.helpers.promises import RAISED, check_answer
from tests.servers import hostile_server
from tests.servers.hostile_server import ENDING, HOSTILE

pytestmark = [pytest.mark.host, pytest.mark.anyio]
SCRIPT = "tests/servers/hostile_server.py"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tool", ["fail", "fail_typed"])
async def test_in_memory(tool: str, lines: Any) -> None:
    """Every hostile exception is answered with a valid result by an attached server, and the server goes on."""
    # pytest can't pass on what the host's handler would write to its stderr: no encoding has it.
    async with hosts.in_memory(hostile_server.make(forward="none")) as call:
        for kind in HOSTILE:
            check_answer(await call(tool, {"kind": kind}))
        if tool == "fail":
            for kind in ENDING:
                check_answer(await call("end", {"kind": kind}))
        assert hosts.text_of(await call("succeed_although_cancelled")) == "done"
        assert hosts.text_of(await call("succeed")) == "done"
    failed = [line for line in lines.read() if line["event"] == "tool_failed"]
    assert len(failed) == len(HOSTILE) + len(ENDING) * (tool == "fail")


@pytest.mark.timeout(60)
async def test_over_stdio() -> None:
    """Every hostile exception is answered over a real stdio session, and the session goes on."""
    async with hosts.over_stdio(SCRIPT) as call:
        for kind in ENDING:
            check_answer(await call("end", {"kind": kind}))
        for kind in HOSTILE:
            check_answer(await call("fail", {"kind": kind}))
        for tool in ("name_file", "list_files"):
            assert "report-\ufffd.pdf" in hosts.text_of(await call(tool))
        assert hosts.text_of(await call("succeed_although_cancelled")) == "done"
        assert hosts.text_of(await call("succeed")) == "done"


@pytest.mark.parametrize("raised", RAISED)
async def test_predicate_raises(raised: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A predicate that raises makes the return value a success, and is told once."""

    def predicate(value: object) -> bool:
        raise RAISED[raised]()

    async with hosts.in_memory(hostile_server.make(returned_errors="convert", is_returned_error=predicate)) as call:
        for _ in range(2):
            answer = await call("succeed")
            assert answer["result"].get("isError", False) is False
            assert hosts.text_of(answer) == "done"
    assert capsys.readouterr().err.count("is_returned_error raised") == 1


@pytest.mark.usefixtures("bugs_are_reported")
@pytest.mark.parametrize("raised", RAISED)
async def test_sink_raises(raised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log sink that raises costs the line and not the result."""

    class Sink:
        def write(self, *args: object, **options: object) -> None:
            raise RAISED[raised]()

        def close(self) -> None:
            pass

    for name in ("file", "stderr"):
        monkeypatch.setattr(State, name, Sink())
    async with hosts.in_memory(hostile_server.make()) as call:
        check_answer(await call("fail", {"kind": "1 MB"}))
        assert hosts.text_of(await call("succeed")) == "done"
