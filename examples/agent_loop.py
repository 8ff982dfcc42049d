"""An agent's loop without a model, against the billing server: what to do after each outcome.

    python examples/agent_loop.py

A fixed list of wishes stands in for the model, `decide` for what it would do with each report. Starts the payment
API and the billing server of the installed host, over stdio. Exits 1 if an outcome is not as expected.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

BILLING = Path(__file__).resolve().parent / "billing"
sys.path.insert(0, str(BILLING))

from demo import connected_client, payment_api, server_module  # noqa: E402 - after the path to it
from mcp import StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402

from iserror import Failure, configure_logging  # noqa: E402
from iserror.client import (  # noqa: E402
    CallOutcome,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolCaller,
    ToolFailed,
)

Call = tuple[str, dict[str, Any]]

# What the model wants to do, and how each wish has to end.
WISHES: list[tuple[Call, str]] = [
    (("get_invoice", {"invoice_id": "1001"}), "done"),  # no such id: the hint names those that there are
    (("get_invoce", {"invoice_id": "INV-1003"}), "done"),  # no such tool: the catalogue has one like it
    (("pay_invoice", {"invoice_id": "INV-1001", "amount": 12_000}), "done"),
    (("pay_invoice", {"invoice_id": "INV-1004", "amount": 1_999}), "stopped"),  # busy, however often it is repeated
    (("pay_invoice", {"invoice_id": "INV-1005", "amount": 88_000}), "checked"),  # no answer: look before anything else
    (("export_report", {"month": "2026-06"}), "stopped"),  # a crash: the user gets the request id
]

EXPECTED_CHARGES = 4  # one, one and its repeat that were turned away, and the one that got no answer


def decide(call: Call, outcome: CallOutcome) -> Call | str:
    """What a sensible model does next: another call, or `done`, `checked` or `stopped`."""
    tool, arguments = call
    match outcome:
        case Succeeded():
            return "done"
        case ToolFailed(failure=Failure(code="INVOICE_NOT_FOUND", hint=str(hint))):
            known = hint.partition(": ")[2].split(". ")[0].split(", ")
            return tool, {**arguments, "invoice_id": next(name for name in known if arguments["invoice_id"] in name)}
        case ToolFailed(failure=Failure(outcome="unknown")) | OutcomeUnknown() if tool == "pay_invoice":
            return "get_invoice", {"invoice_id": arguments["invoice_id"]}
        case ProtocolFailed(closest=(name, *_)):
            return name, arguments
        case _:
            return "stopped"


async def pursue(caller: ToolCaller, wish: Call) -> str:
    """Call until the wish is fulfilled or given up; says how it ended."""
    call, paying = wish, wish[0] == "pay_invoice"
    for _ in range(5):
        outcome = await caller.call(*call)
        tries = f" ({outcome.attempts} times)" if outcome.attempts > 1 else ""
        print(f"  {call[0]}({', '.join(f'{name}={value!r}' for name, value in call[1].items())}){tries}")
        for line in outcome.report.splitlines():
            print(f"    {line}")
        following = decide(call, outcome)
        if isinstance(following, str):
            return "checked" if paying and call != wish else following
        call = following
    return "stopped"


async def run(folder: Path) -> int:
    """Pursue every wish; gives the number of those that did not end as expected."""
    wrong = 0
    configure_logging(folder / "log", stderr=False)  # beside the server's: `iserror trace` then shows both sides
    with payment_api(folder / "upstream.jsonl") as url, (folder / "stderr.txt").open("w") as errlog:
        arguments = [str(BILLING / server_module()), "--db", str(folder / "db"), "--upstream", url]
        arguments += ["--log", str(folder / "log")]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with stdio_client(parameters, errlog=errlog) as streams, connected_client(streams) as session:
            caller = ToolCaller(session, max_attempts=2, idempotency_keys={"pay_invoice": "idempotency_key"})
            for wish, expected in WISHES:
                print(f"\nWish: {wish[0]} {wish[1]}")
                ended = await pursue(caller, wish)
                print(f"  -> {ended}" + ("" if ended == expected else f", expected {expected}"))
                wrong += ended != expected
            # The payment without an answer once more: it goes with the same key, so that nothing is charged again.
            outcome = await caller.call("pay_invoice", {"invoice_id": "INV-1005", "amount": 88_000})
            charges = (folder / "upstream.jsonl").read_text().count('"POST"')
            print(f"\nThe lost payment once more:\n    {outcome.report.splitlines()[0]}\n    {charges} charges in all")
            wrong += not isinstance(outcome, ToolFailed) or charges != EXPECTED_CHARGES
            # A model that does not take no for an answer gets no further than the limit.
            for _ in range(3):
                outcome = await caller.call("export_report", {"month": "2026-06"})
            print(f"\nOnce more, and again:\n    {outcome.report.splitlines()[0]}")
            wrong += not isinstance(outcome, NotSent)
    return wrong


def main() -> int:
    """Run the loop."""
    with tempfile.TemporaryDirectory(prefix="iserror-agent-") as folder:
        wrong = asyncio.run(asyncio.wait_for(run(Path(folder)), 60))
    print("\nAll of it as expected." if not wrong else f"\n{wrong} not as expected.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
