"""A server that `iserror check` is run against: one tool for each bold cell of the contract's section 6, and some more.

`python checked_server.py [--attach] [--http | --sse] [--port N]`; `bare` and `attached` make it in memory. A tool
that runs notes its name in the file that `CHECK_RUNS` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel, Field

from iserror import ToolErrors
from tests.helpers import hosts

PASSWORD = "hunter2" + "hunter2"
DSN = "postgres" + f"://app:{PASSWORD}@10.0.0.9/prod"


class Row(BaseModel):
    id: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def ran(tool: str) -> None:
    if "CHECK_RUNS" in os.environ:
        with open(os.environ["CHECK_RUNS"], "a") as file:
            file.write(f"{tool}\n")


def refused(value: Any) -> bool:
    """Take for an error what the default predicate doesn't, and nothing else."""
    return value == "Refused."


def build(attach: bool, **settings: Any) -> Any:
    """The server, bare or guarded."""
    server = hosts.new_server("checked")
    if attach:
        ToolErrors(is_returned_error=refused, **settings).attach(server)

    @server.tool()
    def crash() -> str:
        ran("crash")
        raise RuntimeError(f"cannot connect to {DSN}")

    @server.tool()
    def protocol() -> str:
        ran("protocol")
        raise hosts.protocol_error(-31001, "tenant is not provisioned")

    @server.tool()
    def pay(amount: Annotated[int, Field(gt=0)], currency: Literal["EUR", "USD"] = "EUR") -> Row:
        ran("pay")
        return Row(id=amount)

    @server.tool()
    def rejected() -> Row:
        ran("rejected")
        return hosts.error_result("not today")

    @server.tool(annotations=hosts.annotations(readOnlyHint=True))
    def read() -> str:
        ran("read")
        return "read"

    @server.tool(annotations=hosts.annotations(readOnlyHint=True))
    def read_one(id: Annotated[str, Field(examples=["INV-1"])]) -> str:
        ran(f"read_one {id}")
        return "Error: no such invoice"

    @server.tool(annotations=hosts.annotations(readOnlyHint=True))
    def read_other(id: str) -> str:
        ran("read_other")
        return id

    @server.tool()
    def undecodable():  # type: ignore[no-untyped-def]  # with a return type, fastmcp 4 refuses the value itself
        ran("undecodable")
        return "half of a pair: \ud800"

    @server.tool()
    def every_type(
        texts: list[str] | None = None,
        lazy: Iterable[int] = (),
        row: Row | None = None,
        rows: Sequence[Row] = (),
        table: dict[str, int] | None = None,
        when: datetime | None = None,
        price: Decimal = Decimal(0),
        colour: Colour = Colour.RED,
        either: int | list[int] | str = 0,
        anything: Any = None,
        flag: bool = False,
        pair: tuple[int, str] | None = None,
        short: Annotated[str, Field(max_length=3)] = "",
        ratio: Annotated[float, Field(le=1)] = 0,
    ) -> str:
        ran("every_type")
        return "ran"

    return server


def bare() -> Any:
    """Make the server as the host has it."""
    return build(False)


def attached() -> Any:
    """Make the guarded server."""
    return build(True)


def loose() -> Any:
    """Make the guarded server with a setting that a check finds."""
    return build(True, invalid_arguments="result")


async def attached_later() -> Any:
    """Make it in a coroutine."""
    return build(True)


def fails() -> Any:
    """Make none."""
    raise RuntimeError(f"cannot connect to {DSN}")


not_a_server = 7


def main() -> None:
    server = loose() if "--loose" in sys.argv else build("--attach" in sys.argv)
    transport = "sse" if "--sse" in sys.argv else "http" if "--http" in sys.argv else None
    if transport is None:
        server.run(**({"show_banner": False} if hosts.IS_FASTMCP else {}))
        return
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if hosts.IS_FASTMCP:
        server.run(transport, port=port, show_banner=False)
    elif hosts.HOST == "mcp1":
        server.settings.port = port
        server.run("sse" if transport == "sse" else "streamable-http")
    else:
        server.run("sse" if transport == "sse" else "streamable-http", port=port)


if __name__ == "__main__":
    main()
