"""The log in ClickHouse: records by id, and all of them in time order, from the table of `clickhouse.sql`.

The table holds each line as it was written, and that line is read back. Each query is a function that returns a text
and its parameters: a value is never part of the text.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from iserror.logs.record import ID, LEVELS, Record, is_own, parse, printable

TABLE: Final = "iserror_log"
VARIABLE: Final = "CLICKHOUSE_PASSWORD"
"""The environment variable with the password, for a url without one."""
SHAPE: Final = f"clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table={TABLE}&secure=1"

Query = tuple[str, dict[str, Any]]
"""A text for the server, and the values of its parameters: texts, whole numbers and lists of texts."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_DAY: Final = 86_400_000_000  # microseconds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ClickHouseError(ConnectionError):
    """A ClickHouse server can't be reached, or refused a query; the text has what helps."""


def ddl() -> str:
    """Return the statement that creates the table, from the package."""
    return Path(__file__).with_name("clickhouse.sql").read_text(encoding="utf-8")


# --- queries -----------------------------------------------------------------------------------------------

# Each id has a separate condition, since ClickHouse uses no index for one OR the other. A trace id is looked up in
# the projection, which knows the row's place in the table. A whole id is a beginning too, and as fast.
_BY_ID: Final = """\
SELECT line FROM (
    SELECT timestamp, line FROM {table:Identifier} WHERE startsWith(request_id, {id:String})
    UNION ALL
    SELECT timestamp, line FROM {table:Identifier}
    WHERE (request_id, timestamp) IN (
        SELECT request_id, timestamp FROM {table:Identifier} WHERE startsWith(trace_id, {id:String})
    ) AND startsWith(trace_id, {id:String})
)
WHERE timestamp >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')
    AND timestamp <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')
ORDER BY timestamp, line"""

# The equality is what the index knows; of a beginning, the column is read, which is small.
_BY_UPSTREAM_ID: Final = """\
SELECT line FROM {table:Identifier}
WHERE if(length({id:String}) = 32, upstream_request_id = {id:String}, startsWith(upstream_request_id, {id:String}))
    AND timestamp >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')
    AND timestamp <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')
ORDER BY timestamp, line"""

_DAYS: Final = """\
SELECT DISTINCT
    toUnixTimestamp64Micro(timestamp) - positiveModulo(toUnixTimestamp64Micro(timestamp), 86400000000) AS day
FROM {table:Identifier}
WHERE timestamp >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')
    AND timestamp <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')
    AND (empty({tools:Array(String)}) OR has({tools:Array(String)}, tool))
    AND (empty({codes:Array(String)}) OR has({codes:Array(String)}, code))
    AND (empty({levels:Array(String)}) OR has({levels:Array(String)}, level))
ORDER BY day"""

_LINES: Final = """\
SELECT line FROM {table:Identifier}
WHERE timestamp >= fromUnixTimestamp64Micro({since:Int64}, 'UTC')
    AND timestamp <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')
    AND (empty({tools:Array(String)}) OR has({tools:Array(String)}, tool))
    AND (empty({codes:Array(String)}) OR has({codes:Array(String)}, code))
    AND (empty({levels:Array(String)}) OR has({levels:Array(String)}, level))
ORDER BY timestamp, line"""


def by_id(table: str, wanted: str, since: datetime | None = None, until: datetime | None = None) -> Query:
    """Return the query for the lines whose request id or trace id begins with this text."""
    return _BY_ID, {
        "table": table,
        "id": wanted,
        "since": _micros(since or datetime.min),
        "until": _micros(until or datetime.max),
    }


def by_upstream_id(table: str, wanted: str, since: datetime | None = None, until: datetime | None = None) -> Query:
    """Return the query for the lines whose id of a server behind theirs begins with this text."""
    return _BY_UPSTREAM_ID, by_id(table, wanted, since, until)[1]


def days(
    table: str,
    since: datetime | None = None,
    until: datetime | None = None,
    tool: str | None = None,
    code: str | None = None,
    level: str | None = None,
) -> Query:
    """Return the query for the first microseconds of the days that have such lines, in order.

    Raises:
        ValueError: If the level is unknown.
    """
    if level is not None and level not in LEVELS:
        raise ValueError(f"level {level!r} is not valid: use {', '.join(LEVELS)}")
    return _DAYS, {
        "table": table,
        "since": _micros(since or datetime.min),
        "until": _micros(until or datetime.max),
        "tools": [] if tool is None else [tool],
        "codes": [] if code is None else [code],
        "levels": [] if level is None else [name for name, least in LEVELS.items() if least >= LEVELS[level]],
    }


def of_day(query: Query, day: int) -> Query:
    """Return the query for the lines of one day of a `days` query, in time order."""
    parameters = query[1]
    since, until = max(parameters["since"], day), min(parameters["until"], day + _DAY - 1)
    return _LINES, {**parameters, "since": since, "until": until}


def _micros(when: datetime) -> int:
    utc = when.replace(tzinfo=timezone.utc) if when.tzinfo is None else when
    return (utc - _EPOCH) // timedelta(microseconds=1)


# --- the server --------------------------------------------------------------------------------------------


class ClickHouse:
    """The log in a ClickHouse table, over HTTP. It connects with the first query.

    Args:
        url: `clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME&secure=1`. Only the host is required. The
            password may be in the environment instead, as `CLICKHOUSE_PASSWORD`; percent-encode characters that have
            a meaning in a URL. The default port is 8123, or 8443 with `secure=1` (TLS).

    Raises:
        ValueError: If the url isn't like this. It isn't shown: it may hold a password.
    """

    def __init__(self, url: str) -> None:
        parts = _split(url)
        options = _options(parts.query)
        self.secure = options.get("secure", "0") == "1"
        self.host = parts.hostname or ""
        self.port = parts.port or (8443 if self.secure else 8123)
        self.user = unquote(parts.username or "default")
        self.database = parts.path.strip("/") or "default"
        self.table = options.get("table", TABLE)
        for what, name in (("database", self.database), ("table", self.table)):
            if not _IDENTIFIER.fullmatch(name):
                raise _malformed(f"the {what} is not a name of letters, digits and underscores")
        self._password = os.environ.get(VARIABLE, "") if parts.password is None else unquote(parts.password)
        self._client: Any = None

    def __repr__(self) -> str:
        return f"<ClickHouse {self.database}.{self.table} on {self.host}:{self.port}>"

    def search(self, wanted: str, *, since: datetime | None = None, until: datetime | None = None) -> list[Record]:
        """Return the records of one id in time order; then those that name it as the id of a server behind theirs.

        Args:
            wanted: 32 lower-case hexadecimal digits, a request id or a trace id, or the first of them, at least 4.
                Anything else finds nothing.
            since: Earliest time; UTC if it has no zone.
            until: Latest time.

        Raises:
            ClickHouseError: If there is no server, or it refused.
            ImportError: If the extra isn't installed.
        """
        if not ID.fullmatch(wanted):
            return []
        found = list(self._read(by_id(self.table, wanted, since, until)))
        named = self._read(by_upstream_id(self.table, wanted, since, until))
        # A call that asked this server itself names its own id: it is found once.
        return [*found, *(record for record in named if not is_own(record, wanted))]

    def records(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tool: str | None = None,
        code: str | None = None,
        level: str | None = None,
    ) -> Iterator[Record]:
        """Yield records in time order, with one block of the log at a time in memory.

        Args:
            since: Earliest time; UTC if it has no zone.
            until: Latest time.
            tool: Only the records of this tool.
            code: Only the records with this code.
            level: The minimum level: debug, info, warning, error or critical.

        Raises:
            ValueError: If the level is unknown.
            ClickHouseError: If there is no server, or it refused; while records are read.
            ImportError: If the extra isn't installed; while records are read.
        """
        return self._by_day(days(self.table, since, until, tool, code, level))

    def _by_day(self, query: Query) -> Iterator[Record]:
        # If all is asked for at once, the server sorts all before it sends the first line. By the day, it sends the
        # first line in a fiftieth of the time, and needs a fifth of the memory (a million lines).
        for (day,) in list(self._rows(query)):
            yield from self._read(of_day(query, day))

    def _read(self, query: Query) -> Iterator[Record]:
        before = None
        for (line,) in self._rows(query):
            # A shipper that isn't sure sends again: the equal lines come one after the other.
            if line != before and (record := parse(line)) is not None:
                yield record
            before = line

    def _rows(self, query: Query) -> Iterator[tuple[Any, ...]]:
        text, parameters = query
        with self._failures():
            stream = self._connected().query_row_block_stream(
                text, parameters=parameters, query_formats={"String": "bytes"}
            )
        with stream:
            blocks = iter(stream)
            while True:
                with self._failures():
                    block: Iterable[tuple[Any, ...]] | None = next(blocks, None)
                if block is None:
                    return
                yield from block

    def _connected(self) -> Any:
        if self._client is None:
            self._client = _driver().get_client(
                host=self.host,
                port=self.port,
                username=self.user,
                password=self._password,
                database=self.database,
                secure=self.secure,
                connect_timeout=10,
                # A server session takes one query at a time; a reader may look up an id within a stream.
                autogenerate_session_id=False,
            )
        return self._client

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn whatever the client raises into one exception: it has its own, those of its HTTP library, and more."""
        try:
            yield
        except ImportError:
            raise
        except Exception as exc:
            text = str(exc)
            if self._password:
                text = text.replace(self._password, "***")
            code = re.search(r"\bCode: (\d+)", text, re.IGNORECASE)
            remedy = _REMEDIES.get(code[1] if code else "", _NO_ANSWER)
            short = printable(" ".join(text.split())[:300])
            place = f"{self.database}.{self.table} on {self.host}:{self.port}"
            raise ClickHouseError(f"cannot read {place}: {remedy} ({short})") from None


_NO_ANSWER: Final = (
    "check that the server runs, and that this is its HTTP port (8123, or 8443 with secure=1), not the native one"
)
_REMEDIES: Final = {
    "47": "the table has not all columns; make it from the statement that iserror ships, see docs/how-to/shipping.md",
    "60": "there is no such table; make it as docs/how-to/shipping.md says, or name another with ?table=",
    "81": "there is no such database; name it in the url, after the port",
    "159": "the server gave up after its time limit; ask for less time",
    "192": "there is no such user; check the url",
    "194": f"the server needs a password; give it in the url or in {VARIABLE}",
    "241": "the server has too little memory for it; ask for less time",
    "497": "the user may not read the table; grant SELECT on it",
    "516": f"the server refused user or password; check the url and {VARIABLE}",
}


def _driver() -> Any:
    try:
        return importlib.import_module("clickhouse_connect")
    except ModuleNotFoundError:
        raise ImportError(
            "reading from ClickHouse needs the package clickhouse-connect: pip install 'iserror[clickhouse]'"
        ) from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _malformed("the host is not valid") from None
    if parts.scheme != "clickhouse":
        raise _malformed("it does not begin with clickhouse://")
    if parts.fragment or "@" in parts.path + parts.query:
        raise _malformed("characters like / ? # @ in user or password have to be percent-encoded")
    if not parts.hostname:
        raise _malformed("it names no host")
    try:
        _ = parts.port  # checked as it is read
    except ValueError:
        raise _malformed("the port is not valid") from None
    return parts


def _options(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise _malformed("an option is not of the form name=value") from None
    options = dict(pairs)
    if len(options) < len(pairs) or not options.keys() <= {"table", "secure"}:
        raise _malformed("the options are table and secure, each once")
    if options.get("secure", "0") not in ("0", "1"):
        raise _malformed("secure is 0 or 1")
    return options


def _malformed(why: str) -> ValueError:
    return ValueError(f"the ClickHouse url is not valid: {why}. It is like {SHAPE}")
