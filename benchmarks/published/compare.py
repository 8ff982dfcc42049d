"""Call published servers bare, and with a guard attached, and set the answers side by side.

`nox -s published` builds an environment for each server of `servers.toml` and runs this in them. The page that it
writes has each call that can't succeed with its answers. `verdicts.toml` says of each what a reader found: `better`,
`alike` or `worse`. A call without a verdict, one that is worse with the few entries that a maintainer would write, and
a success that changed make the run fail.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).parent
WAYS = ("bare", "packs", "mapped")
VERDICTS = ("better", "alike", "worse")
LIMIT = 20.0
"""Seconds for one call."""


class Upstream(BaseHTTPRequestHandler):
    """Answers each request with the status that stands in its address."""

    def answer(self) -> None:
        found = re.search(r"\b(4\d\d|5\d\d)\b", self.path)
        status = int(found[1]) if found else 200
        body = json.dumps({"errorMessages": [f"refused with {status}"], "errors": {}} if status >= 400 else {}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, *args: object) -> None:
        pass


def prepare(work: Path) -> None:
    """Make the files that the calls name."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "notes.txt").write_text("no workbook")
    with sqlite3.connect(work / "shop.db") as shop:
        shop.execute("create table customers (id integer primary key, name text)")
        shop.execute("insert into customers values (1, 'Ann')")
    shop.close()
    shutil.copy(HERE / "book.xlsx", work) if (HERE / "book.xlsx").exists() else None


def filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, said in values.items():
            value = value.replace(f"{{{name}}}", said)
        return value
    if isinstance(value, dict):
        return {key: filled(item, values) for key, item in value.items()}
    return [filled(item, values) for item in value] if isinstance(value, list) else value


async def answers(python: Path, server: dict[str, Any], how: str, values: dict[str, str]) -> list[Any]:
    """The answers of one server to all of its calls."""
    work = Path(values["work"])
    prepare(work)
    keep = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "SSL_CERT_FILE")}
    env = {**keep, **filled(server.get("env", {}), values), "PUBLISHED_MAP": json.dumps(server.get("map", []))}
    arguments = [str(HERE / "launch.py"), how, server["entry"], *filled(server.get("args", []), values)]
    parameters = StdioServerParameters(command=str(python), args=arguments, env=env, cwd=str(work))
    found = []
    with (work.parent / "stderr.log").open("a") as log:
        async with stdio_client(parameters, errlog=log) as streams, ClientSession(*streams) as session:
            await session.initialize()
            for tool, given in (*server["fail"], *server["good"]):
                try:
                    result = await asyncio.wait_for(session.call_tool(tool, filled(given, values)), LIMIT)
                    found.append(result.model_dump(mode="json", by_alias=True, exclude_none=True))
                except MCPError as exc:
                    found.append({"jsonrpc": {"code": exc.error.code, "message": exc.error.message}})
                except TimeoutError:
                    found.append({"timeout": LIMIT})
                except Exception as exc:  # an answer that the client refuses
                    found.append({"refused": f"{type(exc).__name__}: {str(exc).partition(chr(10))[0]}"})
    return found


def text_of(answer: Any, values: dict[str, str]) -> str:
    """An answer in words, without what differs in each run."""
    if "jsonrpc" in answer:
        said = f"JSON-RPC {answer['jsonrpc']['code']}: {answer['jsonrpc']['message']}"
    elif "timeout" in answer:
        said = "no answer"
    elif "refused" in answer:
        said = f"(refused by the client) {answer['refused']}"
    else:
        blocks = answer.get("content", [])
        said = "\n".join(block.get("text", f"({block['type']})") for block in blocks)
        said = ("" if answer.get("isError") else "(success) ") + said
    return steady(said, values)


def steady(said: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        said = said.replace(value, f"{{{name}}}")
    said = re.sub(r"request_id: [0-9a-f]{32}", "request_id: ID", said)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", said)


def lost(before: str, after: str) -> list[str]:
    """The words, names and numbers of the bare answer that the other one lacks."""
    words = {word.strip(".,:;()[]'\"").casefold() for word in before.split()}
    return sorted(word for word in words if len(word) > 2 and word not in after.casefold())


def page(rows: list[dict[str, Any]], counts: dict[str, Counter[str]]) -> Iterator[str]:
    yield "# Published servers, bare and guarded\n\n"
    for how in WAYS[1:]:
        yield f"- {how}: {', '.join(f'{counts[how][verdict]} {verdict}' for verdict in (*VERDICTS, 'unjudged'))}\n"
    for row in rows:
        yield f"\n## {row['key']}\n\n`{json.dumps(row['arguments'])}`\n\n"
        for how in WAYS:
            same = " (as packs)" if how == "mapped" and row["mapped"] == row["packs"] else ""
            verdict = f" **{row['verdicts'][how]}**" if how != "bare" else ""
            yield f"{how}{same}{verdict}\n\n"
            if not same:
                yield "```text\n" + row[how][:1500] + "\n```\n\n"
            if how == "packs" and (gone := lost(row["bare"], row["packs"])):
                yield f"gone: {', '.join(gone)[:300]}\n\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environments", type=Path, nargs="?", help="the folder with one environment a server")
    parser.add_argument("--list", action="store_true", help="print the servers with their versions, and end")
    parser.add_argument("--page", type=Path, default=Path("published.md"), help="where the answers go")
    parser.add_argument("--only", nargs="*", default=[], help="these servers alone")
    options = parser.parse_args()
    servers = tomllib.loads((HERE / "servers.toml").read_text(encoding="utf-8"))
    if options.list:
        print("\n".join(f"{name}=={server['version']}" for name, server in servers.items()))
        return 0
    if options.environments is None:
        parser.error("name the folder with the environments")
    judged = tomllib.loads((HERE / "verdicts.toml").read_text(encoding="utf-8"))
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    rows: list[dict[str, Any]] = []
    counts: dict[str, Counter[str]] = {how: Counter() for how in WAYS[1:]}
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        values = {"work": f"{folder}/work", "upstream": f"http://127.0.0.1:{upstream.server_port}"}
        for name, server in servers.items():
            if options.only and name not in options.only:
                continue
            print(f"{name} {server['version']} on {server['host']}", flush=True)
            python = options.environments.absolute() / name / "bin" / "python"
            got = {how: asyncio.run(answers(python, server, how, values)) for how in WAYS}
            for i, (tool, given) in enumerate(server["fail"]):
                key = f"{name}.{i + 1}.{tool}"
                said = {how: text_of(got[how][i], values) for how in WAYS}
                found = judged.get(name, {}).get(f"{i + 1}.{tool}", {})
                verdicts = {how: found.get(how, "unjudged") for how in WAYS[1:]}
                for how, verdict in verdicts.items():
                    counts[how][verdict] += 1
                    if verdict not in VERDICTS or (verdict == "worse" and how == "mapped"):
                        faults.append(f"{key} {how}: {verdict}")
                rows.append({"key": key, "arguments": given, "verdicts": verdicts, **said})
            for i, (tool, _) in enumerate(server["good"], len(server["fail"])):
                plain = {how: steady(json.dumps(got[how][i], sort_keys=True), values) for how in WAYS}
                for how in WAYS[1:]:
                    if plain[how] != plain["bare"] or got["bare"][i].get("isError"):
                        changed = "".join(difflib.ndiff([plain["bare"]], [plain[how]]))[:500]
                        faults.append(f"{name} {tool} {how}: a success changed: {changed}")
    upstream.shutdown()
    options.page.write_text("".join(page(rows, counts)), encoding="utf-8")
    print(f"{len(rows)} calls that can't succeed; the answers are in {options.page}")
    for how in WAYS[1:]:
        print(f"{how}: {', '.join(f'{counts[how][verdict]} {verdict}' for verdict in (*VERDICTS, 'unjudged'))}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
