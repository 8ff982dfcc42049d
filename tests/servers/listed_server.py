"""A raw stdio server that lists what it is given: `python listed_server.py LISTS CALLS [ANSWER]`.

LISTS is JSON: for each revision, or for `*`, the pages of its tools. The file CALLS gets a line for each call, with the
revision and the tool. ANSWER is `done`, or `refused` (the default): an error result such as a service behind the tool
would cause.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(message: dict[str, Any], **what: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **what}), flush=True)


def main() -> None:
    lists, calls = json.loads(sys.argv[1]), sys.argv[2]
    runs = sys.argv[3:] == ["done"]
    version = ""
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if "id" not in message:
            continue
        params = message.get("params", {})
        if message["method"] == "initialize":
            version = params["protocolVersion"]
            info = {"name": "listed", "version": "1"}
            answer(message, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif message["method"] == "tools/list":
            pages, number = lists.get(version, lists.get("*")), int(params.get("cursor", 0))
            more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
            answer(message, result={"tools": pages[number], **more})
        elif message["method"] == "tools/call":
            with open(calls, "a") as file:
                file.write(f"{version or 'none'} {params.get('name')}\n")
            answer(message, result={"content": [{"type": "text", "text": "422"}], "isError": not runs})
        elif message["method"] == "ping":
            answer(message, result={})
        else:
            answer(message, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
