"""Every scenario through every transport, in every mode, compared whole.

The same list runs on each host, so hosts that agree with it agree with one another.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from iserror import Failure
from tests import scenarios
from tests.helpers import hosts
from tests.helpers.hosts import IS_FASTMCP, normalize

pytestmark = [
    pytest.mark.host,
    pytest.mark.python,
    pytest.mark.anyio,
    # fastmcp 3 and 4 serialise a result that does not fit and warn about it.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]

SCRIPT = "tests/scenarios.py"


def _decorated(scenario: scenarios.Scenario, answer: dict[str, Any]) -> None:
    """What a decorated tool on a server without a guard promises: the flag and the full text."""
    result = answer["result"]
    text = result["content"][0]["text"]
    if result.get("isError"):
        prefix = "" if IS_FASTMCP else f"Error executing tool {scenario.tool}: "
        assert text == prefix + scenario.text
        assert "_meta" not in result
    else:
        assert text == scenario.text
    assert scenarios.SECRET not in str(answer)


async def _all(call: hosts.Call, mode: scenarios.Mode, *, in_memory: bool = False) -> None:
    for scenario in scenarios.SCENARIOS:
        if mode == "decorated" and scenario.text is None:
            continue  # a decorator has no say in it
        if mode == "decorated" and scenario.tool == "stray_cancel" and sys.version_info < (3, 11) and in_memory:
            continue  # docs/reference/hosts.md, limits: the client's own task runs the tool, and asyncio does not count
        raw = await call(scenario.tool, scenario.arguments)
        answer = normalize(raw)
        if mode == "decorated":
            _decorated(scenario, answer)
            continue
        assert answer == scenario.attached, scenario.tool
        assert scenarios.SECRET not in str(raw)
        if answer.get("result", {}).get("isError"):
            envelope = hosts.failure_of(raw)
            failure = Failure.from_wire(envelope)
            assert failure is not None
            assert failure.to_wire() == envelope
            assert failure.text == hosts.text_of(raw)


@pytest.mark.parametrize("mode", scenarios.MODES)
async def test_in_memory(mode: scenarios.Mode) -> None:
    """The in-memory client gets the listed results."""
    async with hosts.in_memory(scenarios.build(mode)) as call:
        await _all(call, mode, in_memory=True)


@pytest.mark.parametrize("mode", scenarios.MODES)
async def test_over_stdio(mode: scenarios.Mode) -> None:
    """The official client over stdio gets the listed results, and the server survives all of them."""
    async with hosts.over_stdio(SCRIPT, mode) as call:
        await _all(call, mode)


@pytest.mark.parametrize("mode", scenarios.MODES)
async def test_over_http(mode: scenarios.Mode) -> None:
    """The official client over streamable HTTP gets the listed results."""
    async with hosts.over_http(scenarios.build(mode)) as call:
        await _all(call, mode)
