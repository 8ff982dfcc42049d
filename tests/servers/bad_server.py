"""A raw stdio server with one tool `do`, that does one thing badly: `python bad_server.py MODE [PIDS]`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if __name__ == "__main__" else ""
TOOL: dict[str, Any] = {
    "name": "do",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
SECRET = "sk-" + "proj-" + "a8Kd02mZq7Xw" * 4

RESULTS: dict[str, dict[str, Any]] = {
    "empty": {"content": [], "isError": True},
    "oversized": {"content": [{"type": "text", "text": "x" * 2_001}], "isError": True},
    "surrogate": {"content": [{"type": "text", "text": "half \ud800"}], "isError": True},
    "schema": {"content": [{"type": "text", "text": "no"}], "isError": True, "structuredContent": {"id": "x"}},
    "traceback": {"content": [{"type": "text", "text": "KeyError: 'x'"}], "isError": True},
    "decorated": {
        "content": [
            {
                "type": "text",
                "text": "Error executing tool do: NO_ROW: There is no such row.\n"
                f"[do failed; change the call first; request_id: {'0190163d8694739b' * 2}]",
            }
        ],
        "isError": True,
    },
    "returned": {"content": [{"type": "text", "text": '{"error": "no such row"}'}]},
    "wrapped": {"content": [{"type": "text", "text": "ok"}], "structuredContent": {"result": "Failed to read: no row"}},
    "secret": {"content": [{"type": "text", "text": f"the key is {SECRET}"}]},
    "no_result": {"isError": True},
    "good": {"content": [{"type": "text", "text": "Nothing is free then; try another day."}], "isError": True},
}

DESCRIPTIONS = {
    "documented": 'Call do(token="<your token>") with password=PASSWORD.',
    "documented_secret": f'Call do(token="{SECRET}") with password=PASSWORD.',
}

DEEP: Any = "end"
for _ in range(300):
    DEEP = {"deeper": [DEEP]}
RESULTS["deep"] = {"content": [{"type": "text", "text": "ok"}], "structuredContent": DEEP}

ODD: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": [], "required": 5},
    {"properties": {"a": {"anyOf": 7}, "b": {"type": {"x": 1}}, "c": {"enum": 3}, "d": {"maxLength": "x"}}},
    {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}] * 20}},
        "required": [{}, 7],
    },
]


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(message: dict[str, Any], **what: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **what}))


def tools(message: dict[str, Any]) -> None:
    if MODE == "endless":
        answer(message, result={"tools": [], "nextCursor": "again"})
    elif MODE == "no_list":
        answer(message, result={})
    elif MODE == "nameless":
        answer(message, result={"tools": [TOOL, {"title": "x"}]})
    elif MODE == "flood":
        write("[" + "1," * (9 << 20))
    elif MODE == "odd":
        listed = [{"name": f"odd{i}", "inputSchema": schema} for i, schema in enumerate(ODD)]
        answer(message, result={"tools": [TOOL, *listed]})
    elif MODE in ("stuck", "crowd", "one_dies"):
        listed = [{**TOOL, "name": f"do{i}", "annotations": {"readOnlyHint": True}} for i in range(32)]
        answer(message, result={"tools": listed})
    elif MODE in DESCRIPTIONS:
        answer(message, result={"tools": [{**TOOL, "description": DESCRIPTIONS[MODE]}]})
    else:
        tool = {**TOOL, "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
        answer(message, result={"tools": [tool if MODE == "schema" else TOOL]})


def refuse(message: dict[str, Any], version: str) -> None:
    arguments = message["params"]["arguments"]
    said = list(arguments) if MODE == "names" else list(arguments.values()) if MODE == "values" else ""
    text = f"n: must be an integer {said}"
    if version < "2025-11-25":
        answer(message, error={"code": -32602, "message": text})
    else:
        answer(message, result={"content": [{"type": "text", "text": text}], "isError": True})


OPEN: list[tuple[dict[str, Any], str]] = []
"""The calls that wait for an answer."""


def call(message: dict[str, Any], version: str) -> None:
    params = message["params"]
    if not isinstance(params.get("name"), str) or not isinstance(params.get("arguments", {}), dict):
        answer(message, error={"code": -32602, "message": "Invalid request"})
    elif MODE == "stuck" and params["name"].startswith("do"):
        time.sleep(600)
    elif MODE == "crowd" and params["name"].startswith("do"):
        OPEN.append((message, version))
        while len(OPEN) == 16:
            select.select([sys.stdin], [], [], 0.2)
            if not select.select([sys.stdin], [], [], 0)[0]:
                for held in OPEN:
                    refuse(*held)
                OPEN.clear()
            else:
                os._exit(9)  # more than sixteen calls are open
    elif MODE == "one_dies" and params["name"].startswith("do"):
        if params["name"] == "do3":
            os._exit(3)
        refuse(message, version)
    elif params["name"] != "do":
        answer(message, error={"code": -32602, "message": "Unknown tool"})
    elif type(params["arguments"].get("n")) is not int and MODE != "credulous":
        refuse(message, version)
    elif MODE == "hang":
        time.sleep(600)
    elif MODE == "die":
        print(f"giving up: {SECRET}", file=sys.stderr, flush=True)
        os._exit(3)
    elif MODE == "latin1":
        sys.stdout.buffer.write(
            b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "caf\xe9"}]}}\n'
            % message["id"]
        )
        sys.stdout.flush()
    else:
        answer(message, result=RESULTS.get(MODE, {"content": [{"type": "text", "text": "done"}]}))


def main() -> None:
    if len(sys.argv) > 2:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(sys.argv[2], "a") as file:
            file.write(f"{os.getpid()}\n{child.pid}\n")
    if MODE == "silent":
        time.sleep(600)
    if MODE == "noise":
        write("Starting up with " + SECRET)
    version = ""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            if MODE == "brittle":
                raise
            if MODE == "polite":
                answer({"id": 1}, result={})
            continue
        if "id" not in message or "method" not in message:
            continue
        if MODE == "garbage":
            write("<html>" + SECRET)
        elif message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "bad", "version": "1"}
            answer(message, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif not version and MODE != "eager":
            answer(message, error={"code": -32600, "message": "not initialised"})
        elif message["method"] == "tools/list":
            if MODE == "asks":
                write('{"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}')
                assert json.loads(sys.stdin.buffer.readline())["error"]["code"] == -32601
            tools(message)
        elif message["method"] == "tools/call":
            call(message, version)
        elif MODE == "vague":
            answer(message, result={})
        else:
            answer(message, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
