"""A server that speaks JSON-RPC by hand, as no SDK would: each tool answers in a way of its own.

`python raw_server.py NOTES` over stdio, `python raw_server.py NOTES --http --port N` over HTTP. Each call's name is a
line in the file NOTES.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TEXT = {"type": "text", "text": "hi"}
LINK = {"mode": "url", "url": "https://pay.example/authorize", "elicitationId": "1", "message": "Sign in"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def result(**fields: Any) -> dict[str, Any]:
    return {"result": {"content": [TEXT], **fields}}


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **({} if data is None else {"data": data})}}


ANSWERS: dict[str, dict[str, Any]] = {
    "ok": result(),
    "failed": result(isError=True),
    "null_flag": result(isError=None),
    "hologram": result(content=[{"type": "hologram", "data": "x"}]),
    "no_content": {"result": {}},
    "bad_structure": result(structuredContent={"n": "x"}),
    "no_structure": result(),
    "bad_schema": result(structuredContent={"n": 1}),
    "sign_in": error(-32042, "Sign in first", {"elicitations": [LINK]}),
    "bank": error(-32000, "Connection closed by the bank before the payment was made"),
    "date": error(-32602, "Failed to parse date '2026-13-01'"),
    "job": error(-32001, "the job timed out on our side"),
}
BAD_SCHEMA = {"type": "object", "pattern": 7}
OUTPUT: dict[str, Any] = {"bad_structure": SCHEMA, "no_structure": SCHEMA, "bad_schema": BAD_SCHEMA}
READS = ("closes_read",)


def tools() -> list[dict[str, Any]]:
    names = [*ANSWERS, "closes", "closes_read", "silent", "http401", "http429", "http500", "http502"]
    listed: list[dict[str, Any]] = []
    for name in names:
        listed.append({"name": name, "inputSchema": {"type": "object"}})
        if name in OUTPUT:
            listed[-1]["outputSchema"] = OUTPUT[name]
        if name in READS:
            listed[-1]["annotations"] = {"readOnlyHint": True}
    return listed


class Closed(Exception):
    """The connection is to be cut."""


class Status(Exception):
    """The HTTP request is to be turned away."""


def answer(message: dict[str, Any], notes: Path) -> dict[str, Any] | None:
    """The response to a message, None where none is due."""
    if "id" not in message:
        return None
    method, params = message["method"], message.get("params") or {}
    said: dict[str, Any] = error(-32601, "Method not found")
    if method == "initialize":
        version = min(params["protocolVersion"], "2025-11-25")
        info = {"name": "raw", "version": "1"}
        said = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list" and "--no-list" not in sys.argv:
        said = {"result": {"tools": tools()}}
    elif method == "tools/call":
        name = params["name"]
        with notes.open("a") as file:
            file.write(f"{name}\n")
        if name.startswith("closes"):
            raise Closed
        if name.startswith("http"):
            raise Status(name[4:])
        if name == "silent":
            time.sleep(30)
        said = ANSWERS[name]
    return {"jsonrpc": "2.0", "id": message["id"], **said}


def serve_stdio(notes: Path) -> None:
    for line in sys.stdin:
        try:
            said = answer(json.loads(line), notes)
        except Closed:
            os._exit(1)
        if said is not None:
            print(json.dumps(said), flush=True)


def handler(notes: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(405, b"")

        do_DELETE = do_GET

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                said = answer(message, notes)
            except Closed:
                self.close_connection = True
                self.connection.shutdown(2)
            except Status as exc:
                self.reply(int(str(exc)), b"turned away by gw7.internal")
            else:
                self.reply(202 if said is None else 200, b"" if said is None else json.dumps(said).encode())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if status == 200 else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        log_message: Callable[..., None] = lambda *_: None

    return Handler


def main() -> None:
    notes = Path(next(argument for argument in sys.argv[1:] if "notes" in argument))
    if "--http" not in sys.argv:
        serve_stdio(notes)
        return
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), handler(notes)).serve_forever()


if __name__ == "__main__":
    main()
