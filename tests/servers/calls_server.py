"""A server for the client's side: tools that fail in each way a client can meet, and note every run in a file.

`python calls_server.py NOTES [--log FOLDER] [--bare] [--http --port N]`
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from pydantic import BaseModel

from iserror import ErrorMap, ToolErrors, ToolFailure, configure_logging
from tests.helpers.hosts import annotations, new_server, protocol_error


class Busy(Exception):
    pass


class Row(BaseModel):
    id: int


def error_map() -> ErrorMap:
    errors = ErrorMap()
    errors.add(
        Busy,
        code="BUSY",
        category="unavailable",
        message="The service is busy.",
        retryable=True,
        retry_after=0.05,
        outcome="not_applied",
    )
    return errors


def build(notes: Path, *, bare: bool = False) -> Any:
    """The server. Each tool notes its name and `key` when it runs."""
    server = new_server("calls")
    if not bare:
        ToolErrors(error_map()).attach(server)

    def note(tool: str, key: str) -> int:
        with notes.open("a") as file:
            file.write(f"{tool} {key}\n")
        return notes.read_text().split("\n").count(f"{tool} {key}")

    @server.tool()
    def answer(key: str = "") -> Row:
        note("answer", key)
        return Row(id=7)

    @server.tool()
    def refused(key: str = "") -> str:
        note("refused", key)
        raise ToolFailure("NOT_ALLOWED", "This account is closed.", hint="Tell the user.", category="permission_denied")

    @server.tool()
    def busy(times: int, key: str = "") -> str:
        if note("busy", key) <= times:
            raise Busy
        return "done"

    @server.tool()
    def crash(key: str = "") -> str:
        note("crash", key)
        raise RuntimeError("SELECT * FROM accounts")

    @server.tool()
    def on_purpose(key: str = "") -> str:
        note("on_purpose", key)
        raise protocol_error(-32000, "the session has no workspace", {"open": "workspace"})

    @server.tool(annotations=annotations(readOnlyHint=True))
    async def slow_read(seconds: float, key: str = "") -> str:
        note("slow_read", key)
        await anyio.sleep(seconds)
        return "late"

    @server.tool()
    async def slow_write(seconds: float, key: str = "") -> str:
        note("slow_write", key)
        await anyio.sleep(seconds)
        return "late"

    @server.tool()
    def die(key: str = "") -> str:
        note("die", key)
        os._exit(9)

    return server


def main() -> None:
    from tests.scenarios import serve

    if "--log" in sys.argv:
        configure_logging(sys.argv[sys.argv.index("--log") + 1])
    notes = next(argument for argument in sys.argv[1:] if argument.endswith("notes.txt"))
    serve(build(Path(notes), bare="--bare" in sys.argv))


if __name__ == "__main__":
    main()
