"""`iserror check` calls no listed tool that may write, unless the user names it: counted where the calls arrive."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from iserror.check import audit
from iserror.check.finding import OWN_RUN, UNPROBED, UNREPLACED
from iserror.check.notes import Audit, CheckOptions
from iserror.check.target import parse
from tests.check.commands import Done, process
from tests.conftest import Lines
from tests.helpers.hosts import IS_FASTMCP, ROOT, free_port, serving_http
from tests.servers import probed_server

pytestmark = [pytest.mark.host, pytest.mark.newest]

SERVER = ROOT / "tests" / "servers" / "probed_server.py"
LISTED = ROOT / "tests" / "servers" / "listed_server.py"


@contextlib.contextmanager
def targets(transport: str, factory: str) -> Iterator[list[str]]:
    """Serve a factory over a transport: the command line's end that names it."""
    if transport == "memory":
        yield [f"{SERVER}:{factory}"]
    elif transport == "stdio":
        yield ["--", sys.executable, str(SERVER), factory]
    else:
        port = free_port()
        with serving_http("tests/servers/probed_server.py", port, factory):
            yield [f"http://127.0.0.1:{port}/mcp"]


def check(ran: Callable[..., Done], *arguments: str) -> dict[str, Any]:
    """Run the command, in this process or in its own, and read its JSON."""
    done = ran("--json", "--timeout", "20", *arguments)
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


of_an_sdk = pytest.mark.skipif(IS_FASTMCP, reason="its transports are the SDK's, and tested there")


@of_an_sdk
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.timeout(200)  # a process for each revision
def test_functions_that_coerce(
    transport: str, run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that takes what its schema forbids runs only if it is annotated as read-only, or named."""
    runs, how = tmp_path / "runs", process if transport == "stdio" else run
    monkeypatch.setenv("PROBE_RUNS", str(runs))

    def ran() -> set[str]:
        names = set(runs.read_text().split())
        runs.unlink()
        return names

    with targets(transport, "plain") as target:
        document = check(how, *target)
        assert ran() == {"read"}
        assert sorted(document["not_checked"][UNPROBED]) == ["book", "pay", "refund", "strict"]
        assert document["not_probed"] == 4
        if transport == "stdio":  # What was read came over the wire, and a check over stdio starts six processes.
            return
        document = check(how, "--probe", "pay", *target)
        assert ran() == {"read", "pay"}
        assert sorted(document["not_checked"][UNPROBED]) == ["book", "refund", "strict"]
        document = check(how, "--probe-all", *target)
        assert ran() == {"read", "pay", "refund", "book"}
        assert (document["not_probed"], UNPROBED in document["not_checked"]) == (0, False)


# --- in memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--probe-all",)], ids=["plain", "all"])
def test_functions_in_memory(
    options: tuple[str, ...], run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every function is probed and none runs. One that takes what its schema forbids is found, beside all others."""
    monkeypatch.setenv("PROBE_RUNS", str(tmp_path / "runs"))
    document = check(run, *options, f"{SERVER}:plain")
    accepted = {f["tool"]: f["seen"] for f in document["findings"] if f["check"] == "arguments.accepted"}
    assert accepted == dict.fromkeys(
        ("pay", "refund", "book", "read"), "amount of a wrong type: they reached the tool's function"
    )
    assert {f["tool"] for f in document["findings"] if f["check"] == "arguments.echo"} == {"strict"}
    assert document["not_probed"] == 0
    assert not (tmp_path / "runs").exists()


def test_a_server_of_the_sdk(run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools of a lowlevel server, whose handler can't be replaced, run only if they are named."""
    monkeypatch.setenv("PROBE_RUNS", str(tmp_path / "runs"))
    document = check(run, f"{SERVER}:lowlevel")
    assert document["not_checked"][UNREPLACED] == ["read", "pay"]
    assert document["not_probed"] == 2
    runs, unknown = tmp_path / "runs", {"iserror_check_no_such_tool"}  # mcp 1.x calls the handler for any name
    assert (set(runs.read_text().split()) if runs.exists() else set()) <= unknown
    document = check(run, "--probe", "pay", f"{SERVER}:lowlevel")
    assert set(runs.read_text().split()) - unknown == {"pay"}
    assert document["not_checked"][UNREPLACED] == ["read"]


@pytest.mark.skipif(not IS_FASTMCP, reason="only fastmcp has proxies")
def test_a_proxied_server(run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxied server gets no call, unless its tool is named; the functions beside it are probed."""
    monkeypatch.setenv("PROBE_RUNS", str(tmp_path / "runs"))
    document = check(run, f"{SERVER}:proxied")
    assert sorted(document["not_checked"][UNREPLACED]) == ["far_read", "far_write"]
    assert {f["tool"] for f in document["findings"] if f["check"] == "arguments.echo"} == {"near"}
    assert not (tmp_path / "runs").exists()
    check(run, "--probe", "far_write", f"{SERVER}:proxied")
    assert set((tmp_path / "runs").read_text().split()) == {"write"}


def test_the_user_hears_nothing_of_probes(run: Callable[..., Done], lines: Lines) -> None:
    """In memory no refusal of bad arguments is logged, and no hook is called."""
    document = check(run, f"{SERVER}:hooked")
    assert (document["findings"], document["not_probed"]) == ([], 0)
    assert [line for line in lines.read() if line.get("tool") == "strict"] == []
    assert probed_server.PAGED == []


# --- an OpenAPI document -------------------------------------------------------------------------------------


@contextlib.contextmanager
def upstream() -> Iterator[tuple[str, Counter[str]]]:
    """Serve HTTP that refuses every request and counts them by method and first part of the path."""
    seen: Counter[str] = Counter()

    class Refuses(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen[f"{self.command} /{self.path.split('/')[1]}"] += 1
            self.send_response(422)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(not IS_FASTMCP, reason="only fastmcp makes servers from OpenAPI documents")
@pytest.mark.parametrize("transport", ["memory", "stdio"])
@pytest.mark.timeout(300)  # a process for each revision
def test_an_openapi_document(transport: str, run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that refuses bad requests gets none in memory, and else those of tools annotated as read-only."""
    how = process if transport == "stdio" else run
    with upstream() as (url, seen):
        monkeypatch.setenv("PROBE_UPSTREAM", url)
        writing = ["change_order", "delete_order", "order", "start_export", "start_job"]
        with targets(transport, "openapi") as target:
            document = check(how, *target)
            if transport != "memory":
                assert set(seen) == {"GET /orders"}
                assert sorted(document["not_checked"][UNPROBED]) == writing
                return
            assert seen == {}
            assert sorted(document["not_checked"][OWN_RUN]) == sorted([*writing, "read_order"])
            document = check(how, "--probe", "order", *target)
            assert set(seen) == {"POST /orders"}
            assert sorted(document["not_checked"][OWN_RUN]) == sorted({*writing, "read_order"} - {"order"})
            seen.clear()
            check(how, "--probe-all", *target)
            written = {"POST /orders", "PUT /orders", "DELETE /orders", "POST /jobs"}
            assert set(seen) == {"GET /orders", "GET /exports"} | written


# --- what servers list ---------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def tool(name: str, annotations: Any = None, **more: Any) -> dict[str, Any]:
    """Make a tool as a server lists it."""
    return {
        "name": name,
        "inputSchema": SCHEMA,
        **({} if annotations is None else {"annotations": annotations}),
        **more,
    }


READS, WRITES = {"readOnlyHint": True}, {"readOnlyHint": False}
FIRST, OTHERS = "2025-11-25", ("2025-06-18", "2025-03-26", "2024-11-05")
LISTS: dict[str, tuple[dict[str, Any], set[tuple[str, str]]]] = {
    "read only": ({"*": [[tool("a", READS)]]}, {(version, "a") for version in (FIRST, *OTHERS)}),
    "no annotations": ({"*": [[tool("a")]]}, set()),
    "a text": ({"*": [[tool("a", {"readOnlyHint": "true"})]]}, set()),
    "a number": ({"*": [[tool("a", {"readOnlyHint": 1})]]}, set()),
    "null": ({"*": [[tool("a", {"readOnlyHint": None})]]}, set()),
    "another key": ({"*": [[tool("a", {"read_only_hint": True, "readonlyhint": True})]]}, set()),
    "annotations that are a list": ({"*": [[tool("a", ["readOnlyHint"])]]}, set()),
    "annotations that are a text": ({"*": [[tool("a", "readOnlyHint")]]}, set()),
    "a hint in _meta and beside": ({"*": [[tool("a", WRITES, _meta=READS, readOnlyHint=True)]]}, set()),
    "twice": ({"*": [[tool("a", READS), tool("a", WRITES)]]}, set()),
    "twice, the last reads": ({"*": [[tool("a", WRITES), tool("a", READS)]]}, set()),
    "twice, on two pages": ({"*": [[tool("a", READS)], [tool("a")]]}, set()),
    "twice, behind a tool without a name": ({"*": [[tool("a", READS), {"title": "x"}], [tool("a")]]}, set()),
    "twice, one without a schema": ({"*": [[tool("a", READS), {"name": "a", "annotations": WRITES}]]}, set()),
    "another annotation later": ({FIRST: [[tool("a", READS)]], "*": [[tool("a", WRITES)]]}, {(FIRST, "a")}),
    "another name later": (
        {FIRST: [[tool("a", READS), tool("b")]], "*": [[tool("a"), tool("b", READS)]]},
        {(FIRST, "a"), *((version, "b") for version in OTHERS)},
    ),
    "the name of the unknown tool": ({"*": [[tool("iserror_check_no_such_tool")]]}, set()),
    "that name without a schema": ({"*": [[{"name": "iserror_check_no_such_tool"}, tool("a")]]}, set()),
    "several such names": (
        {FIRST: [[tool("iserror_check_no_such_tool"), tool("iserror_check_no_such_tool_")]], "*": [[]]},
        set(),
    ),
}


def called(lists: dict[str, Any], calls: Path, options: CheckOptions, *answer: str) -> tuple[Audit, list[Any]]:
    """Check such a server: what was found, and the revision and name of each call."""
    command = [sys.executable, str(LISTED), json.dumps(lists), str(calls), *answer]
    done = audit.check(parse(None, command), options)
    return done, [tuple(line.split(" ", 1)) for line in calls.read_text().splitlines()]


@pytest.mark.parametrize("name", LISTS)
def test_what_a_server_lists(name: str, tmp_path: Path) -> None:
    """Only `readOnlyHint: true`, of a tool whose name is listed once, in the revision's own list, allows a call."""
    lists, expected = LISTS[name]
    done, calls = called(lists, tmp_path / "calls", CheckOptions(20))
    listed = {item["name"] for pages in lists.values() for page in pages for item in page if "name" in item}
    assert {(version, tool) for version, tool in calls if tool in listed} == expected
    assert {version for version, _ in calls} >= {FIRST, *OTHERS}  # the other calls did come
    if not expected:
        assert not done.probed


def test_how_many_calls(tmp_path: Path) -> None:
    """A tool gets all bad arguments in the newest revision, and in the others one call, which shows the channel."""
    _, calls = called({"*": [[tool("a", READS), tool("b", READS)]]}, tmp_path / "calls", CheckOptions(20))
    counted = Counter((version, name) for version, name in calls if name in ("a", "b"))
    of_each = {FIRST: 3, **dict.fromkeys(OTHERS, 1)}
    assert counted == {(version, name): count for version, count in of_each.items() for name in ("a", "b")}


def test_read_only_calls_no_tool_that_is_listed_twice(tmp_path: Path) -> None:
    """`--read-only` doesn't call a tool either if another of its name may write."""
    without = {"type": "object", "properties": {}}
    lists = {"*": [[tool("a", READS, inputSchema=without), tool("a", inputSchema=without), tool("b", READS)]]}
    lists["*"][0].append(tool("c", READS, inputSchema=without))
    _, calls = called(lists, tmp_path / "calls", CheckOptions(20, read_only=True))
    assert {name for _, name in calls} & {"a", "b", "c"} == {"b", "c"}


def test_a_server_that_runs_unknown_tools(tmp_path: Path) -> None:
    """A server that answers a call of an unknown tool with a success gets no other call that names no listed tool."""
    done, calls = called({"*": [[tool("a")]]}, tmp_path / "calls", CheckOptions(20), "done")
    assert calls == [(FIRST, "iserror_check_no_such_tool")]
    (finding,) = done.found.values()
    assert (finding.check, finding.revisions) == ("channels.unknown_tool", (FIRST,))
    why = "calls that name no listed tool, since this server runs something for them"
    assert done.skipped[why] == [
        "tools/call without a name",
        "arguments that are a string",
        "a call before initialization",
        "an unknown tool",
    ]


@pytest.mark.parametrize("listed", ["a", "b"])
def test_a_probe_of_no_tool(listed: str, tmp_path: Path) -> None:
    """A name in `--probe` that no revision lists is reported."""
    lists = {FIRST: [[tool("a")]], "*": [[tool("b")]]}
    done, calls = called(lists, tmp_path / "calls", CheckOptions(20, probe=(listed, "c")))
    assert done.skipped["the probe that you asked for, since there is no such tool"] == ["c"]
    assert {version for version, name in calls if name == listed} == ({FIRST} if listed == "a" else set(OTHERS))
