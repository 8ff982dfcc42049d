"""The log in ClickHouse: the shipped table and queries, the client over HTTP, and the shippers' settings.

The SQL runs in chdb, which is ClickHouse's engine in a process: a small HTTP server hands it what the official client
sends, and the answer back. Where a `clickhouse-server` starts that is not too old, the same tests run against it.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from iserror.logs.read import clickhouse
from iserror.logs.read.clickhouse import ClickHouse, ClickHouseError
from tests.helpers.hosts import ROOT

pytestmark = pytest.mark.hostless

USER, PASSWORD = "reader", "p@ss/wörd"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
PAGE = ROOT / "docs" / "how-to" / "shipping.md"


# --- two servers --------------------------------------------------------------------------------------------


@dataclass
class Server:
    """A database of a server, which takes SQL over HTTP."""

    port: int
    database: str = "default"

    def run(self, sql: str, data: bytes = b"", **parameters: str) -> str:
        """Run a statement, with the data of an insert as a shipper sends it."""
        values = {
            "query": sql,
            "database": self.database,
            **{f"param_{name}": text for name, text in parameters.items()},
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/?{urlencode(values)}", data, {"Authorization": BASIC}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return str(answer.read().decode("utf-8", "replace"))
        except HTTPError as exc:
            with exc:
                raise AssertionError(exc.read().decode("utf-8", "replace")) from None

    def insert(self, lines: list[bytes], table: str = "iserror_log") -> None:
        self.run(f"INSERT INTO {table} (line) FORMAT LineAsString", b"\n".join(lines))

    def url(self, options: str = "") -> str:
        return f"clickhouse://{USER}:{quote(PASSWORD, '')}@127.0.0.1:{self.port}/{self.database}{options}"


class Engine:
    """ClickHouse's engine in this process, which has one, and takes one query at a time."""

    def __init__(self, folder: Path) -> None:
        session = pytest.importorskip("chdb.session", reason="chdb, ClickHouse's engine, is not installed")
        self.session = session.Session(str(folder / "data"))
        self.body = folder / "body"
        self.lock = threading.Lock()

    def answer(self, values: dict[str, str], body: bytes) -> bytes:
        """What ClickHouse answers to a request with these values in its URL, and this body."""
        sql = values.get("query", "")
        if body and re.match(r"\s*INSERT", sql, re.IGNORECASE):
            self.body.write_bytes(body)
            sql = re.sub(r"FORMAT (\w+)\s*$", rf"FROM INFILE '{self.body}' FORMAT \1", sql)
        else:
            sql += body.decode()
        # As over HTTP, the last word of a query is its format.
        match = re.search(r"\s+FORMAT\s+(\w+)\s*$", sql)
        if match is not None and not sql.lstrip().upper().startswith("INSERT"):
            sql, form = sql[: match.start()], match[1]
        else:
            form = "TabSeparated"
        # chdb takes a value as HTTP does: as text, with escapes.
        parameters = {name[6:]: text for name, text in values.items() if name.startswith("param_")}
        with self.lock:
            self.session.query(f"USE `{values.get('database', 'default')}`")
            return bytes(self.session.query(sql, form, params=parameters or None).bytes())


class Handler(BaseHTTPRequestHandler):
    """ClickHouse's HTTP interface, as far as its client and the shippers need it."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        values = {name: found[-1] for name, found in parse_qs(urlsplit(self.path).query, True).items()}
        if self.headers.get("Authorization") != BASIC:
            return self.reply(403, b"Code: 516. DB::Exception: reader: Authentication failed. (AUTHENTICATION_FAILED)")
        try:
            return self.reply(200, self.engine.answer(values, body))
        except Exception as exc:
            return self.reply(500, str(exc).encode())

    do_GET = do_POST

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")  # as ClickHouse does
        if code := re.match(rb"Code: (\d+)", body) if status != 200 else None:
            self.send_header("X-ClickHouse-Exception-Code", code[1].decode())
        self.end_headers()
        for start in range(0, len(body), 1 << 16):
            piece = body[start : start + (1 << 16)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def in_process(folder: Path) -> Iterator[int]:
    """The engine behind an HTTP server of this process; gives its port."""
    handler = type("Bound", (Handler,), {"engine": Engine(folder)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        handler.engine.session.close()


def command() -> list[str]:
    """How the machine's server is started, if it has one."""
    server, several = shutil.which("clickhouse-server"), shutil.which("clickhouse")
    return [server] if server else [several, "server"] if several else []


INSTALLED = command()

# `yandex` is the root that servers of every age take.
CONFIG = """<yandex>
<logger><level>warning</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><http_port>{port}</http_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<mark_cache_size>10000000</mark_cache_size>
<users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
</yandex>"""
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas>
<users><{user}><password>{password}</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></{user}></users></yandex>"""


@contextmanager
def installed(folder: Path) -> Iterator[int]:
    """The machine's `clickhouse-server`, on a port and in a folder of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config.xml").write_text(CONFIG.format(port=port, folder=folder))
    (folder / "users.xml").write_text(USERS.format(user=USER, password=PASSWORD))
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [*INSTALLED, f"--config-file={folder / 'config.xml'}"], stdout=out, stderr=out, cwd=folder
        )
    try:
        version = ""
        for _ in range(150):
            try:
                version = Server(port).run("SELECT version()").strip()
                break
            except OSError:  # it does not listen yet
                if process.poll() is not None:
                    break
                time.sleep(0.1)
        if not version:
            pytest.skip(f"clickhouse-server does not start here: {(folder / 'out').read_text()[-300:]}")
        if int(version.split(".")[0]) < 22:
            pytest.skip(
                f"clickhouse-server is {version} (Debian's): it has no query parameters, DateTime64 or JSONExtract, "
                "and clickhouse-connect refuses it"
            )
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module", params=[in_process, installed] if INSTALLED else [in_process])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    pytest.importorskip("clickhouse_connect", reason="clickhouse-connect, the extra `clickhouse`, is not installed")
    with request.param(tmp_path_factory.mktemp("clickhouse")) as port:
        yield port


def made(port: int, database: str) -> Server:
    """A new database of this name that has only the table, without a line."""
    Server(port).run(f"DROP DATABASE IF EXISTS {database}")
    Server(port).run(f"CREATE DATABASE {database}")
    server = Server(port, database)
    server.run(clickhouse.ddl())
    return server


@pytest.fixture
def empty(running: int) -> Server:
    """A table without a line."""
    return made(running, "empty")


# --- a log --------------------------------------------------------------------------------------------------

REQUEST, OTHER, THIRD = "0190163d8694739bb34aa4f8a1c7bd31", "0190163d8694739bb34affffffffffff", "0190163e" + "7" * 24
TRACE, BEHIND = "0af7651916cd43dd8448eb211c80319c", "f00d" + "0" * 28
HOSTILE = """'; DROP TABLE iserror_log; -- " \\ \\' {id:String} %s \t\n`"""
DAY = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


def record(days: float, event: str, **fields: Any) -> dict[str, Any]:
    when = (DAY + timedelta(days=days)).isoformat(timespec="microseconds")
    return {"timestamp": when.replace("+00:00", "Z"), "level": "error", "event": event, **fields}


RECORDS = [
    record(0, "first", request_id=REQUEST, trace_id=TRACE, tool="pay", code="TIMEOUT", level="warning"),
    record(0.1, "second", request_id=REQUEST, trace_id=TRACE, tool="pay", duration_ms=1.5, level="debug"),
    record(0.2, "same trace", request_id=OTHER, trace_id=TRACE, tool="look", code="INTERNAL_ERROR"),
    record(40, "a month later", request_id=THIRD, trace_id="", tool="look", code="TIMEOUT", level="info"),
    record(41, "passed on", request_id="ffff" + "1" * 28, upstream_request_id=BEHIND, tool=HOSTILE, level="critical"),
    record(
        41,
        "at the same time",
        request_id="ffff" + "2" * 28,
        upstream_request_id=THIRD,  # another call's id
        tool="naïve ünïcode ✓",
        code=HOSTILE,
    ),
    record(42, "no ids", level="own", tool=None, exception=[{"type": "KeyError", "message": HOSTILE}]),
]
# Another program's order of keys, and way to write a time.
RECORDS[1] = dict(reversed(RECORDS[1].items()))
RECORDS[3]["timestamp"] = RECORDS[3]["timestamp"].replace("T03:", "T05:").replace("Z", "+02:00")
BY_NAME = {each["event"]: each for each in RECORDS}
JUNK = [
    b"",
    b"not JSON",
    b"[1, 2]",
    b'"text"',
    b"null",
    b'{"event": "torn", "request_id": "' + REQUEST.encode(),
    b'{"request_id": "' + REQUEST.encode() + b'", "no": "event"}',
    b'{"event": "\xff\xfe", "request_id": "' + REQUEST.encode() + b'"}',
    b'{"timestamp": {"a": 1}, "event": 5}',
    b"'); DROP TABLE iserror_log; --",
]


def text(each: dict[str, Any]) -> bytes:
    return json.dumps(each, ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def log(running: int) -> Server:
    """A table with the records, in no order, and one of them twice, among other lines."""
    server = made(running, "logs")
    server.insert([text(each) for each in reversed(RECORDS)] + JUNK + [text(RECORDS[0])])
    return server


@pytest.fixture(scope="module")
def reader(log: Server) -> ClickHouse:
    """What reads that table."""
    return ClickHouse(log.url())


def names(found: Any) -> list[str]:
    """The events of records that are what was written."""
    found = list(found)
    assert found == [BY_NAME[each["event"]] for each in found]
    return [each["event"] for each in found]


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        (REQUEST, ["first", "second"]),
        (TRACE, ["first", "second", "same trace"]),
        (REQUEST[:24], ["first", "second"]),
        (REQUEST[:20], ["first", "second", "same trace"]),
        ("0190163", ["first", "second", "same trace", "a month later", "at the same time"]),
        (THIRD, ["a month later", "at the same time"]),
        (TRACE[:4], ["first", "second", "same trace"]),
        ("ffff", ["passed on", "at the same time"]),
        (BEHIND, ["passed on"]),
        ("f00d", ["passed on"]),
        ("f" * 32, []),
        ("abcd", []),
        # What is no id finds nothing, and harms nothing.
        ("", []),
        ("019", []),
        (REQUEST.upper(), []),
        (REQUEST + "0", []),
        ("' OR 1=1 --", []),
        ("0190%", []),
        (HOSTILE, []),
    ],
)
def test_search(reader: ClickHouse, wanted: str, events: list[str]) -> None:
    """A request id, a trace id, or the beginning of one, gives its records as they were written, in time order."""
    assert names(reader.search(wanted)) == events


def test_search_within_a_time(reader: ClickHouse) -> None:
    """`since` and `until` are both in; a time without a zone is UTC."""
    second = DAY + timedelta(days=0.1)
    a_moment = timedelta(microseconds=1)
    assert names(reader.search(REQUEST, since=second)) == ["second"]
    assert names(reader.search(REQUEST, since=second + a_moment)) == []
    assert names(reader.search(REQUEST, until=DAY)) == ["first"]
    assert names(reader.search(TRACE, since=DAY + a_moment, until=second)) == ["second"]
    assert names(reader.search(REQUEST, since=second.replace(tzinfo=None))) == ["second"]
    elsewhere = timezone(timedelta(hours=-9))
    assert names(reader.search(BEHIND, since=DAY.astimezone(elsewhere))) == ["passed on"]
    assert names(reader.search(BEHIND, until=second)) == []
    assert names(reader.search(REQUEST, since=datetime.min, until=datetime.max)) == ["first", "second"]


@pytest.mark.parametrize(
    ("filters", "events"),
    [
        ({}, list(BY_NAME)),
        ({"tool": "pay"}, ["first", "second"]),
        ({"tool": HOSTILE}, ["passed on"]),
        ({"tool": "naïve ünïcode ✓"}, ["at the same time"]),
        ({"tool": "x' OR '1'='1"}, []),
        ({"tool": "pay'] OR 1 OR has(['"}, []),
        ({"code": "TIMEOUT"}, ["first", "a month later"]),
        ({"code": HOSTILE}, ["at the same time"]),
        ({"code": "\\"}, []),
        ({"tool": "look", "code": "TIMEOUT"}, ["a month later"]),
        ({"level": "critical"}, ["passed on"]),
        ({"level": "warning"}, ["first", "same trace", "passed on", "at the same time"]),
        ({"level": "debug"}, list(BY_NAME)[:-1]),
        ({"since": DAY + timedelta(days=40)}, list(BY_NAME)[3:]),
        ({"since": DAY + timedelta(days=0.1), "until": DAY + timedelta(days=40)}, list(BY_NAME)[1:4]),
        ({"until": datetime(2026, 1, 2, 3, 4, 5, 6)}, ["first"]),
        ({"until": datetime(1800, 1, 1)}, []),
    ],
)
def test_records(reader: ClickHouse, filters: dict[str, Any], events: list[str]) -> None:
    """All records, or those of a tool, a code, a least level or a time, come in time order, and each once."""
    assert names(reader.records(**filters)) == events


def test_level_that_is_none(reader: ClickHouse) -> None:
    """An unknown level is said before anything is read."""
    with pytest.raises(ValueError, match="level 'loud' is not valid: use debug, info, warning, error, critical"):
        reader.records(level="loud")


def test_records_come_in_blocks(empty: Server) -> None:
    """The first record is there before the last is asked for, and an id can be looked up meanwhile."""
    lines = [record(number / 1000, f"number {number}", request_id=f"{number:032x}") for number in range(3000)]
    empty.insert([text(each) for each in lines])
    reader = ClickHouse(empty.url())
    stream = reader.records()
    assert next(stream) == lines[0]
    assert reader.search(f"{2999:032x}") == [lines[2999]]
    assert list(stream) == lines[1:]
    given_up = reader.records()
    next(given_up)
    given_up.close()
    assert len(list(reader.records(until=DAY + timedelta(days=1)))) == 1001


def test_every_line_that_python_reads_is_found(empty: Server) -> None:
    """What is JSON to Python and not to ClickHouse, and a line behind a torn one, have their columns all the same."""
    head = b'{"timestamp": "2026-01-02T03:04:05.000006Z", "level": "error", "request_id": "'
    lines = [
        head + b'aaaa1111", "event": "numbers", "tool": "a", "some": [NaN, -Infinity, Infinity]}',
        head + b'aaaa2222", "event": "surrogate", "tool": "a", "some": "\\udc80 \\\\udc80 \\\\\\ud800"}',
        head + b'aaaa3333", "event": "to' + head + b'aaaa4444", "event": "behind a torn line", "tool": "a"}',
        head + b'aaaa5555", "event": "deep", "tool": "a", "some": ' + b"[" * 500 + b"]" * 500 + b"}",
        head + b'aaaa6666", "event": "large", "tool": "a", "some": ' + b"9" * 400 + b"}",
    ]
    empty.insert(lines)
    reader = ClickHouse(empty.url())
    expected = ["numbers", "surrogate", "behind a torn line", "deep", "large"]
    assert sorted(each["event"] for each in reader.search("aaaa")) == sorted(expected)
    assert sorted(each["event"] for each in reader.records(tool="a", since=DAY, until=DAY)) == sorted(expected)


def test_columns(log: Server) -> None:
    """The columns for queries of one's own are those of the record; junk leaves them empty."""
    columns = "timestamp, level, event, server, tool, request_id, code, duration_ms, exception_type"
    rows = log.run(f"SELECT {columns} FROM iserror_log WHERE event IN ('second', 'no ids') ORDER BY timestamp")
    assert rows.splitlines() == [
        f"2026-01-02 05:28:05.000006\tdebug\tsecond\t\tpay\t{REQUEST}\t\t1.5\t",
        "2026-02-13 03:04:05.000006\town\tno ids\t\t\t\t\t0\tKeyError",
    ]
    assert log.run("SELECT count() FROM iserror_log").strip() == str(len(RECORDS) + len(JUNK) + 1)
    assert log.run("SELECT count() FROM iserror_log WHERE toYear(timestamp) = 1970").strip() == str(len(JUNK))


def test_how_long_it_is_kept(empty: Server) -> None:
    """The line that is commented out works: what is older is gone, and so is what has no time."""
    empty.run("DROP TABLE iserror_log")
    empty.run(clickhouse.ddl().replace("-- TTL", "TTL"))
    now = datetime.now(timezone.utc)
    lines = [{"event": f"{days} days", "timestamp": (now - timedelta(days=days)).isoformat()} for days in (300, 400)]
    empty.insert([text(each) for each in lines] + JUNK)
    empty.run("OPTIMIZE TABLE iserror_log FINAL")
    assert empty.run("SELECT event FROM iserror_log").split("\n") == ["300 days", ""]


# --- indexes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(running: int) -> Server:
    """A table of 60,000 lines, in 60 granules or so."""
    server = made(running, "large")
    server.run(
        """INSERT INTO iserror_log (line) SELECT concat(
            '{"timestamp": "', toString(toDateTime('2026-01-02 00:00:00', 'UTC') + number), '", "event": "n"',
            ', "request_id": "0190', leftPad(lower(hex(number)), 28, '0'), '"',
            ', "trace_id": "', lower(hex(MD5(toString(number)))), '"',
            if(number % 100, '', concat(', "upstream_request_id": "', lower(hex(MD5(toString(-number - 1)))), '"')),
            '}') FROM numbers(60000)"""
    )
    server.run("OPTIMIZE TABLE iserror_log FINAL")
    return server


def granules(server: Server, query: clickhouse.Query) -> list[tuple[int, int]]:
    """Of each reading of the table in a query's plan: the granules that the indexes leave, and all there are."""
    sql, parameters = query
    plan = server.run(f"EXPLAIN indexes = 1 {sql}", **{name: as_http(value) for name, value in parameters.items()})
    counts = [re.findall(r"Granules: (\d+)/(\d+)", reading) for reading in plan.split("ReadFromMergeTree")[1:]]
    assert counts
    return [(int(found[-1][0]), int(found[0][1])) for found in counts]


def as_http(value: Any) -> str:
    return "[" + ", ".join(f"'{each}'" for each in value) + "]" if isinstance(value, list) else str(value)


@pytest.mark.parametrize("length", [32, 30])
def test_ids_are_found_by_index(large: Server, length: int) -> None:
    """Of a request id, a trace id, or a beginning of one, a granule or two are read, of sixty."""
    row = large.run("SELECT request_id, trace_id FROM iserror_log WHERE request_id LIKE '%7530'").split()
    reader = ClickHouse(large.url())
    for wanted in row:
        found = granules(large, clickhouse.by_id("iserror_log", wanted[:length]))
        # The rows by request id, and those by the places that the projection gave.
        assert [count for _, count in found] == [59, 59]
        assert sum(left for left, _ in found) <= 3
        ids = {each["request_id"] for each in reader.search(wanted[:length])}
        assert row[0] in ids
        assert len(ids) < 300


def test_the_projection_is_used(large: Server) -> None:
    """The places of a trace's rows are looked up in the trace's order, not in the table."""
    plan = large.run(
        "EXPLAIN indexes = 1 SELECT request_id, timestamp FROM iserror_log WHERE startsWith(trace_id, {id:String})",
        id="0123456",
    )
    assert "by_trace" in plan
    assert re.findall(r"Granules: (\d+)/", plan)[-1] in ("0", "1")


def test_upstream_ids_and_times_are_found_by_index(large: Server) -> None:
    """An id of a server behind, and a time of the log, leave most granules unread."""
    upstream = large.run("SELECT max(upstream_request_id) FROM iserror_log").strip()
    ((left, count),) = granules(large, clickhouse.by_upstream_id("iserror_log", upstream))
    assert (left <= 5, count) == (True, 59)
    query = clickhouse.days("iserror_log", datetime(2026, 1, 2, 1), datetime(2026, 1, 2, 2))
    midnight = int(datetime(2026, 1, 2, tzinfo=timezone.utc).timestamp()) * 10**6
    for each in (query, clickhouse.of_day(query, midnight)):
        ((left, count),) = granules(large, each)
        assert (left <= 5, count) == (True, 59)


# --- what goes wrong -----------------------------------------------------------------------------------------


def test_password_from_the_environment(log: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password that the url does not have is taken from the environment; one in the url goes before it."""
    bare = log.url().replace(quote(PASSWORD, ""), "").replace(":@", "@")
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", PASSWORD)
    assert names(ClickHouse(bare).search(BEHIND)) == ["passed on"]
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "wrong")
    assert names(ClickHouse(log.url()).search(BEHIND)) == ["passed on"]


def test_refused(log: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server refuses is one error, which says what helps and shows no password."""
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "hunter2")
    wrong = log.url().replace(f":{quote(PASSWORD, '')}@", "@")
    for url, remedy in (
        (wrong, "the server refused user or password; check the url and CLICKHOUSE_PASSWORD"),
        (log.url("?table=nothing"), "there is no such table; make it as docs/how-to/shipping.md says"),
        (log.url().replace("/logs", "/nothing"), "there is no such database; name it in the url"),
    ):
        with pytest.raises(ClickHouseError) as caught:
            ClickHouse(url).search(TRACE)
        assert remedy in str(caught.value)
        assert str(caught.value).startswith("cannot read ")
        assert not any(secret in str(caught.value) for secret in ("hunter2", PASSWORD, quote(PASSWORD, "")))
        with pytest.raises(ClickHouseError):
            list(ClickHouse(url).records())


def test_lost_within_a_stream(log: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that goes away within a stream is the same error."""
    reader = ClickHouse(log.url())
    stream = reader.records()
    next(stream)

    def fails(*args: object, **kwargs: object) -> None:
        raise OSError(f"gone, {PASSWORD}")

    monkeypatch.setattr(reader._client, "query_row_block_stream", fails)
    with pytest.raises(ClickHouseError, match=r"check that the server runs.*\(gone, \*\*\*\)"):
        list(stream)


def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, the error comes at once, names the place and the remedy, and is an OSError."""
    pytest.importorskip("clickhouse_connect", reason="clickhouse-connect is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reader = ClickHouse(f"clickhouse://me:hunter2@127.0.0.1:{port}/logs")
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    for read in (lambda: reader.search(REQUEST), lambda: list(reader.records())):
        with pytest.raises(OSError) as caught:
            read()
        assert pauses == []
        assert str(caught.value).startswith(f"cannot read logs.iserror_log on 127.0.0.1:{port}: check that the server")
        assert "8123" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__suppress_context__


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the client the error says what to install."""
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(ImportError, match=r"pip install 'iserror\[clickhouse\]'"):
        ClickHouse("clickhouse://somewhere").search(REQUEST)


def test_what_the_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told all of the url, TLS too."""
    told: dict[str, Any] = {}
    driver = SimpleNamespace(get_client=lambda **given: told.update(given))
    monkeypatch.setitem(sys.modules, "clickhouse_connect", driver)
    with pytest.raises(ClickHouseError):  # what it gives is no client
        ClickHouse("clickhouse://me:hun%2Fter2@somewhere/logs?secure=1").search(REQUEST)
    assert told.items() >= {
        "host": "somewhere", "port": 8443, "username": "me", "password": "hun/ter2", "database": "logs", "secure": True,
        "autogenerate_session_id": False,
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "does not begin with clickhouse://"),
        ("https://me:hunter2@somewhere", "does not begin with clickhouse://"),
        ("clickhouse:me:hunter2@somewhere", "percent-encoded"),
        ("clickhouse://", "names no host"),
        ("clickhouse://me:hunter2@", "names no host"),
        ("clickhouse://me:hunter2@somewhere:port", "the port"),
        ("clickhouse://me:hunter2@somewhere:99999", "the port"),
        ("clickhouse://me:hunter2@[::1", "the host"),
        ("clickhouse://me:hun/ter2@somewhere", "percent-encoded"),
        ("clickhouse://me:8123/hunter2@somewhere", "percent-encoded"),
        ("clickhouse://me?hunter2@somewhere", "percent-encoded"),
        ("clickhouse://me#hunter2@somewhere", "percent-encoded"),
        ("clickhouse://somewhere/a/b", "the database is not a name"),
        ("clickhouse://somewhere/logs?table=", "the table is not a name"),
        ("clickhouse://somewhere/logs?table=a;hunter2", "the table is not a name"),
        ("clickhouse://somewhere/logs?table=a.b", "the table is not a name"),
        ("clickhouse://somewhere/logs?table=a&table=b", "each once"),
        ("clickhouse://somewhere/logs?password=hunter2", "the options are table and secure"),
        ("clickhouse://somewhere/logs?secure", "name=value"),
        ("clickhouse://somewhere/logs?secure=yes", "secure is 0 or 1"),
    ],
)
def test_malformed_url(url: str, why: str) -> None:
    """A url that is not valid is refused with the reason and the shape, and is not shown."""
    with pytest.raises(ValueError) as caught:
        ClickHouse(url)
    assert why in str(caught.value)
    assert str(caught.value).endswith("clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table=iserror_log&secure=1")
    assert "hun" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_url() -> None:
    """Everything but the host has a default; what is percent-encoded is decoded; nothing shows the password."""
    least = ClickHouse("clickhouse://somewhere")
    assert (least.host, least.port, least.user, least.database, least.table, least.secure) == (
        "somewhere", 8123, "default", "default", "iserror_log", False,
    )  # fmt: skip
    most = ClickHouse("clickhouse://m%40e:hunter%2F2@[::1]/logs?secure=1&table=other")
    assert (most.host, most.port, most.user, most.database, most.table, most.secure) == (
        "::1", 8443, "m@e", "logs", "other", True,
    )  # fmt: skip
    assert most._password == "hunter/2"
    assert repr(most) == "<ClickHouse logs.other on ::1:8443>"


# --- the page -------------------------------------------------------------------------------------------------


def blocks(kind: str) -> list[str]:
    """The blocks of code of this kind on the page."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def fluent_bit() -> dict[str, dict[str, str]]:
    """Fluent Bit's settings: of each section its keys, in lower case as Fluent Bit takes them."""
    sections: dict[str, dict[str, str]] = {}
    for line in blocks("text")[0].splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line.strip() and not line.lstrip().startswith("#"):
            key, value = line.split(None, 1)
            current[key.lower()] = value.strip()
    return sections


def paths(value: Any, before: str = "") -> set[str]:
    """The dotted names of all settings in nested ones."""
    if not isinstance(value, dict) or not value:
        return {before}
    return set().union(*(paths(inner, f"{before}.{key}".lstrip(".")) for key, inner in value.items()))


def test_page_makes_the_table(empty: Server, log: Server) -> None:
    """The command for the table prints the statement, and what the page shows as SQL runs."""
    command = next(line for line in "".join(blocks("console")).splitlines() if line.startswith("python -c"))
    code = re.search(r'-c "(.*?)" \|', command)
    assert code is not None
    out = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, check=True).stdout
    assert out == clickhouse.ddl() + "\n"
    empty.run(out)
    rows = log.run(blocks("sql")[-1].rstrip(";\n").replace("INTERVAL 7 DAY", "INTERVAL 100 YEAR"))
    assert rows == ""
    rows = log.run(blocks("sql")[-1].rstrip(";\n").replace("7 DAY", "100 YEAR").replace("tool_failed", "second"))
    assert rows == "pay\t\t1\t1.5\n"


def test_page_by_hand(empty: Server) -> None:
    """The statement for compressed files takes them as they are, twice too."""
    statement = re.search(r'zcat .*--query "(.*)"', "".join(blocks("console")))
    assert statement is not None
    for _ in range(2):
        empty.run(statement[1], b"\n".join([*JUNK, *map(text, RECORDS)]) + b"\n")
    assert names(ClickHouse(empty.url()).records()) == list(BY_NAME)


def test_page_vector(empty: Server) -> None:
    """Vector's settings are those of its reference, and what its sink sends is taken."""
    settings = pytest.importorskip("yaml").safe_load(blocks("yaml")[0])
    # website/cue/reference/components of vectordotdev/vector: sources/file, transforms/remap, sinks/clickhouse.
    assert paths(settings) == {
        "data_dir",
        *(f"secret.files.{name}" for name in ("type", "path", "remove_trailing_whitespace")),
        *(f"sources.iserror.{name}" for name in ("type", "include", "read_from", "max_line_bytes")),
        *(f"sources.iserror.fingerprint.{name}" for name in ("strategy", "lines")),
        *(f"transforms.iserror_line.{name}" for name in ("type", "inputs", "source")),
        *(f"sinks.clickhouse.{name}" for name in ("type", "inputs", "endpoint", "database", "table", "format")),
        *(f"sinks.clickhouse.auth.{name}" for name in ("strategy", "user", "password")),
        *(f"sinks.clickhouse.{name}" for name in ("compression", "batch.timeout_secs", "acknowledgements.enabled")),
    }
    sink = settings["sinks"]["clickhouse"]
    assert settings["transforms"]["iserror_line"]["source"] == '. = {"line": .message}'
    sent = b"".join(json.dumps({"line": text(each).decode()}).encode() + b"\n" for each in RECORDS)
    # As src/sinks/clickhouse/service.rs has it.
    statement = "INSERT INTO {database:Identifier}.{table:Identifier} FORMAT JSONEachRow"
    empty.run(statement, sent, database=empty.database, table=sink["table"])
    assert (sink["type"], sink["format"], sink["inputs"]) == ("clickhouse", "json_each_row", ["iserror_line"])
    assert names(ClickHouse(empty.url()).records()) == list(BY_NAME)


def test_page_fluent_bit(empty: Server) -> None:
    """Fluent Bit's settings are those of its manual, and the request that they make is taken."""
    settings = fluent_bit()
    # pipeline/inputs/tail and pipeline/outputs/http of fluent/fluent-bit-docs.
    assert {name: set(keys) for name, keys in settings.items()} == {
        "SERVICE": {"flush", "storage.path"},
        "INPUT": {
            "name", "tag", "path", "exclude_path", "key", "db", "read_from_head", "refresh_interval", "rotate_wait",
            "buffer_max_size", "skip_long_lines", "storage.type",
        },
        "OUTPUT": {
            "name", "match", "host", "port", "uri", "format", "json_date_key", "compress", "http_user", "http_passwd",
            "retry_limit",
        },
    }  # fmt: skip
    assert settings["OUTPUT"]["match"] == settings["INPUT"]["tag"]
    key = settings["INPUT"]["key"]
    sent = b"".join(json.dumps({key: text(each).decode()}).encode() + b"\n" for each in RECORDS)
    values = {name: found[0] for name, found in parse_qs(urlsplit(settings["OUTPUT"]["uri"]).query).items()}
    assert values.keys() == {"database", "query"}
    empty.run(values["query"], sent)
    assert names(ClickHouse(empty.url()).records()) == list(BY_NAME)


def test_page_fluent_bit_leaves_out_what_was_renamed() -> None:
    """Its patterns match the files that are written, also those of late lines, and not those that were renamed."""
    tail = fluent_bit()["INPUT"]
    folder = tail["path"].rpartition("/")[0]
    open_one, closed = "20260102T030405.000006Z", "20260102T030405.000006Z_20260103T030405.000006Z"
    taken = [
        name
        for name in (
            f"{open_one}-a-1.jsonl",
            f"{open_one}-a-1.late.jsonl",
            f"{closed}-a-1.jsonl",
            f"{open_one}-a-1.jsonl.gz",
        )
        if fnmatch(f"{folder}/{name}", tail["path"]) and not fnmatch(f"{folder}/{name}", tail["exclude_path"])
    ]
    assert taken == [f"{open_one}-a-1.jsonl", f"{open_one}-a-1.late.jsonl"]


def test_page_collector(empty: Server) -> None:
    """The Collector's settings are those of its components, and its table's lines come into ours."""
    settings = pytest.importorskip("yaml").safe_load(blocks("yaml")[1])
    # The README of receiver/filelogreceiver, exporter/clickhouseexporter and extension/storage/filestorage.
    assert paths(settings) == {
        *(f"extensions.file_storage.{name}" for name in ("directory", "create_directory")),
        *(f"receivers.file_log/iserror.{name}" for name in ("include", "start_at", "storage", "max_log_size")),
        "receivers.file_log/iserror.resource.service.name",
        *(f"receivers.file_log/iserror.retry_on_failure.{name}" for name in ("enabled", "max_elapsed_time")),
        *(f"exporters.clickhouse/iserror.{name}" for name in ("endpoint", "username", "password", "database")),
        *(f"exporters.clickhouse/iserror.{name}" for name in ("logs_table_name", "ttl")),
        *(f"exporters.clickhouse/iserror.sending_queue.{name}" for name in ("storage", "block_on_overflow")),
        "exporters.clickhouse/iserror.sending_queue.batch.flush_timeout",
        *(f"exporters.clickhouse/iserror.retry_on_failure.{name}" for name in ("enabled", "max_elapsed_time")),
        "service.extensions",
        *(f"service.pipelines.logs/iserror.{name}" for name in ("receivers", "exporters")),
    }
    table = settings["exporters"]["clickhouse/iserror"]["logs_table_name"]
    # The columns that matter here, of the table that the exporter makes.
    empty.run(
        f"CREATE TABLE {table} (Timestamp DateTime64(9), ServiceName LowCardinality(String), Body String)"
        " ENGINE = MergeTree ORDER BY Timestamp"
    )
    service = settings["receivers"]["file_log/iserror"]["resource"]["service.name"]

    def send(each: dict[str, Any], name: str) -> None:
        row = {"Timestamp": "2026-01-02 03:04:05", "ServiceName": name, "Body": text(each).decode()}
        empty.run(f"INSERT INTO {table} FORMAT JSONEachRow", json.dumps(row).encode())

    send(RECORDS[0], service)
    statements = [each for each in blocks("sql")[0].split(";") if each.strip()]
    for statement in statements:
        empty.run(statement.strip())
    for each in RECORDS:
        send(each, service)
    send({"event": "of another service"}, "other")
    assert names(ClickHouse(empty.url()).records()) == list(BY_NAME)
    assert empty.run("SELECT count() FROM iserror_log").strip() == str(len(RECORDS) + 1)
