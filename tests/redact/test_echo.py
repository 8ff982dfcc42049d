"""What the caller sent is said back to it; nothing more, nothing less, and no credential in it.

Every secret here is built from pieces, so that no file holds a whole one.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iserror.redact import DEFAULT_RULES, Redactor, Rule, redact_text
from iserror.redact.echo import KINDS, MAX_LEAF, MAX_LEAVES, MAX_NAMED, MAX_VALUES, Echo, leaves_of

pytestmark = pytest.mark.hostless

REDACTOR = Redactor()
FILE = "/home/ann/report.txt"
WINDOWS = r"C:\Users\ann\report.txt"
QUERY = "SELECT id, name FROM usrs WHERE plan = 'free'"
KEY = "sk_" + "live_" + "a1B2c3D4e5F6g7H8" * 2


def said(text: str, *leaves: str, pii: bool = False) -> str:
    """What a caller that sent these texts is told."""
    return REDACTOR.echoing(text, Echo(leaves_of({"sent": list(leaves)})), pii=pii)


# What was sent, the text, what is said of it; None for the whole text.
KEPT: list[tuple[str, str, str | None]] = [
    # A whole text of the arguments.
    (FILE, f"No file {FILE}.", None),
    (FILE, f"No file {FILE}, nor {FILE}", None),
    (FILE, f"No file '{FILE}': not found", None),
    (FILE, f"{FILE}:12: syntax", None),
    (FILE, f"No file {FILE}, nor /home/ann/other.txt", f"No file {FILE}, nor [redacted:path]"),
    (FILE, f"/home/ann/other.txt {FILE} /srv/app/x.py", f"[redacted:path] {FILE} [redacted:path]"),
    ("/home/ann/reports/", "No folder /home/ann/reports", None),
    ("/home/ann/reports", "No folder /home/ann/reports/", None),
    ("/home/Ann/Report.TXT", "No file /home/ann/report.txt", None),
    ("/home/ann/\uff46ile.txt", "No file /home/ann/file.txt", None),
    ("/home/ann/r\u200beport.txt", f"No file {FILE}", None),
    ("/etc/x", "No file /etc/x", None),
    ("~/notes/todo.txt", "No file ~/notes/todo.txt", None),
    (WINDOWS, f"No file {WINDOWS}", None),
    (WINDOWS, f"No file {WINDOWS!r}", None),
    (r"\\files\share\report.txt", r"No file \\files\share\report.txt", None),
    ("file:///home/ann/report.txt", "No file file:///home/ann/report.txt", None),
    ("/home/ann/report(1).txt", "No file /home/ann/report(1).txt.", None),
    ("/home/ann/Old Files/the report.txt", "No file '/home/ann/Old Files/the report.txt'", None),
    ("/home/ann/a,b.csv", 'No file "/home/ann/a,b.csv"', None),
    # A whole word of one.
    (f"show me {FILE}, please", f"No file {FILE}.", None),
    (f'{{"path": "{FILE}"}}', f"No file {FILE}.", None),
    (f"cat '{FILE}'", f"No file {FILE}.", None),
    # SQL.
    (QUERY, f'Cannot run "{QUERY}"', None),
    (QUERY, f"Cannot run {QUERY}", None),
    (QUERY, f"Cannot run {QUERY!r}", None),
    (f"  {QUERY.lower()} ;\n", f"Cannot run {QUERY}.", None),
    (QUERY.replace(" FROM", "\nFROM"), f"Cannot run '{QUERY}'", None),
    (QUERY.replace(" FROM", "\n  FROM"), f"Cannot run {QUERY.replace(' FROM', chr(10) + '  FROM')!r}", None),
    (f"{QUERY}; DELETE FROM usrs", f'Cannot run "{QUERY}"', None),
    (QUERY, f"Cannot run {QUERY}: no such table", None),
    (QUERY, f"Cannot run {QUERY} - no such table: usrs", None),
    (QUERY, f"{QUERY}: see DELETE FROM usrs_old", f"{QUERY}: see [redacted:sql]"),
    (QUERY, f"Cannot run {QUERY}; DROP TABLE tenants", f"Cannot run {QUERY}; [redacted:sql]"),
    # Hosts.
    ("db.corp.internal", "No host db.corp.internal", None),
    ("DB.corp.internal", "No host db.corp.internal", None),
    ("https://db.corp.internal/x?y=1", "No host db.corp.internal", None),
    ("db.corp.internal:5432", "No host db.corp.internal:5432", None),
    ("http://billing:8080/pay", "GET http://billing:8080/pay failed", None),
    (
        "db.corp.internal",
        "No host db.corp.internal, nor web.corp.internal",
        "No host db.corp.internal, nor [redacted:host]",
    ),
]


@pytest.mark.parametrize(("sent", "text", "expected"), KEPT)
def test_kept(sent: str, text: str, expected: str | None) -> None:
    """The caller's whole words stay. To anybody else they are redacted."""
    assert said(text, sent) == (text if expected is None else expected)
    assert said(text) == redact_text(text) != text
    assert said(text, "something else") == redact_text(text)


# What was sent, and a text of which no more is said than to anybody.
GONE: list[tuple[str, str]] = [
    # Shorter or longer than what was sent.
    (FILE, "No folder /home/ann"),
    (FILE, "No folder /home/ann/"),
    (FILE, "No file /home/ann/report"),
    ("/home/ann", f"No file {FILE}"),
    ("/home/ann/", f"No file {FILE}"),
    (FILE, f"No file {FILE}.bak"),
    (FILE, f"No file {FILE}/secret/x"),
    (FILE, f"No file /srv/tenants/7{FILE}"),
    (FILE, f"No file file://{FILE}"),
    ("home/ann/report.txt", f"No file {FILE}"),
    ("report.txt", f"No file {FILE}"),
    ("/", f"No file {FILE}"),
    ("/home/ann/..", "No folder /home/ann"),
    ("/home/ann/report(1).txt", "No file /home/ann/report"),
    ("/home/ann/report(1).txt", "No file /home/ann/report(1).txt.bak"),
    ("/home/ann/report(1).txt", "No file /home/ann/report(2).txt"),
    ("/home/ann/report(1).txt", "x/home/ann/report(1).txt, /home/ann/report"),
    (f"path={FILE}", f"No file {FILE}"),
    (f"x{FILE}", f"No file {FILE}"),
    ("~/report.txt", f"No file {FILE}"),
    (WINDOWS, r"No folder C:\Users\ann"),
    (r"C:\Users", rf"No file {WINDOWS}"),
    ("cat /srv/x", "No file /srv/xy/z"),
    ("cat ~/.ab", "No file ~/.ab"),
    # SQL of which the caller sent a part only.
    ("SELECT id, name FROM usrs", f'Cannot run "{QUERY}"'),
    ("SELECT id, name FROM usrs", f"Cannot run {QUERY}: no such table"),
    (QUERY, f"Cannot run {QUERY} AND tenant = 7: no such table"),
    (QUERY, f"Cannot run {QUERY}::text AND tenant = 7"),
    (QUERY, f'Cannot run "{QUERY} AND tenant = 7"'),
    ("SELECT * FROM users_archive", 'Cannot run "DELETE FROM users"'),
    ("SELECT id FROM users_archive", 'Cannot run "SELECT id FROM users"'),
    ("SELECT", 'Cannot run "SELECT id FROM users"'),
    # Hosts inside of a text, other hosts and ports, and what is never said.
    ("see db.corp.internal", "No host db.corp.internal"),
    ("corp.internal", "No host db.corp.internal"),
    ("db.corp.internal", "No host db.corp.internal:5432"),
    ("http://billing:8080/pay", "GET http://billing:9090/pay failed"),
    ("https://example.com/?u=db.corp.internal", "No host db.corp.internal"),
    ("https://db.corp.internal@example.com/", "No host db.corp.internal"),
    ("10.0.0.5", "No host 10.0.0.5"),
    ("http://10.0.0.5:8080/x", "No host 10.0.0.5:8080"),
    ("http://127.0.0.1:8080/", "GET http://127.0.0.1:8080/ failed"),
    ("169.254.169.254", "No host 169.254.169.254"),
    ("[::1]:8080", "No host [::1]:8080"),
    ("fd00::1", "No host fd00::1"),
    ("http://localhost:8080/", "GET http://localhost:8080/ failed"),
    ("app.localhost.local", "No host app.localhost.local"),
    ("ip-10-0-0-5.ec2.internal", "No host ip-10-0-0-5.ec2.internal"),
    ("10-0-0-5.default.pod.svc", "No host 10-0-0-5.default.pod.svc"),
    # An address or a host in a path.
    ("/mnt/10.0.0.5/x", "No file /mnt/10.0.0.5/x"),
    ("/mnt/db.corp.internal/x", "No file /mnt/db.corp.internal/x"),
    (r"\\10.0.0.5\share\x", r"No file \\10.0.0.5\share\x"),
    # Credentials, and what looks like one.
    (KEY, f"No such key: {KEY}"),
    (f"/home/ann/{KEY}/x", f"No file /home/ann/{KEY}/x"),
    ("/home/ann/token=hunter2-and-more/x", "No file /home/ann/token=hunter2-and-more/x"),
    ("/home/ann/hunter2", "password=/home/ann/hunter2"),
    ("ALTER USER ann IDENTIFIED BY 'hunter2-x'", "Cannot run \"ALTER USER ann IDENTIFIED BY 'hunter2-x'\""),
    # Rows that a database quotes aren't the statement.
    ("ann@example.com", "Key (email)=(ann@example.com) already exists"),
    # A list of more than a few.
    (" ".join(f"/home/ann/{i}.txt" for i in range(MAX_NAMED + 1)), "No file /home/ann/1.txt"),
    (" ".join(f"db{i}.corp.internal" for i in range(MAX_NAMED + 1)) + f" {FILE}", f"No file {FILE}"),
    ("x" * MAX_LEAF + f" {FILE}", f"No file {FILE}"),
    # A marker is nobody's word.
    ("/home/ann/[redacted:stripe_key]", f"No file /home/ann/{KEY}"),
]


@pytest.mark.parametrize(("sent", "text"), GONE)
def test_gone(sent: str, text: str) -> None:
    """A part of what the caller sent, or more than that, is no echo; credentials and addresses never are."""
    assert said(text, sent) == redact_text(text) != text


def test_credentials_inside_a_url() -> None:
    """The host of a URL that the caller sent stays, its password does not."""
    url = "https://ann:" + "s3cret-W0rd" + "@db.corp.internal/x"
    answer = said(f"Cannot fetch {url}", url)
    assert "s3cret" not in answer
    assert "@db.corp.internal/x" in answer


def test_what_a_server_adds_to_an_echo_is_gone() -> None:
    """A rule that reads another's marker (a port behind a host, parameters behind SQL) still finds what it did."""
    assert said("No host db.corp.internal port 5432", "db.corp.internal") == (
        "No host db.corp.internal port [redacted:port]"
    )
    assert said("SELECT id FROM usrs: params: (1, 'x')", "SELECT id FROM usrs") == (
        "SELECT id FROM usrs: params: [redacted:sql_params]"
    )
    text = "Query \"SELECT id FROM usrs\" failed, params: (1, 'x')"
    assert said(text, "SELECT id FROM usrs") == 'Query "SELECT id FROM usrs" failed, params: [redacted:sql_params]'


def test_the_rest_of_a_long_statement_is_gone() -> None:
    """Of a statement that is longer than any text of the arguments, nothing stays, though its start was sent."""
    sent = "SELECT id FROM usrs WHERE name IN (" + "'ann', " * 500
    text = sent.replace(" ", "    ") + "'bob') AND tenant = 7"
    assert len(sent) <= MAX_LEAF < len(text)
    assert said(text, sent) == redact_text(text) == "[redacted:sql]"


def test_side_by_side() -> None:
    """Findings with only a blank between them share a marker, but an echo shares none."""
    other = "/home/ann/other.txt"
    assert said(f"{other} {FILE} {other} {other}", FILE) == f"[redacted:path] {FILE} [redacted:path]"
    assert said(f"{FILE} {FILE} {other}", FILE) == f"{FILE} {FILE} [redacted:path]"


def test_positions_survive_every_rule() -> None:
    """Echoes come back to their places, whatever is replaced before and behind them."""
    text = f"{KEY} {FILE} {KEY} db.corp.internal ann:pw@x {FILE} 10.0.0.5 [redacted:path] /srv/app/x.py {WINDOWS}"
    answer = said(text, FILE, WINDOWS, "db.corp.internal")
    assert answer == redact_text(
        text.replace(FILE, "AAA").replace(WINDOWS, "BBB").replace("db.corp.internal", "CCC")
    ).replace("AAA", FILE).replace("BBB", WINDOWS).replace("CCC", "db.corp.internal")


def test_personal_data() -> None:
    """Personal data that is to be redacted is so inside the caller's words, too."""
    path = "/home/ann@example.com/x"
    assert said(f"No file {path}", path) == f"No file {path}"
    assert "ann@example.com" not in said(f"No file {path}", path, pii=True)


def test_rules_of_the_author() -> None:
    """Another rule that finds something inside the caller's words wins; one of these kinds makes the same exception."""
    redactor = Redactor().add(Rule("badge", "badge", r"B-\d{6}"), Rule("share", "path", r"nas:\w{1,20}/\w{1,20}"))
    assert redactor.echoing("No /home/ann/B-123456/x", Echo(("/home/ann/B-123456/x",))) == (
        redactor.redact_text("No /home/ann/B-123456/x")
    )
    assert redactor.echoing("No nas:a/b, nas:c/d", Echo(("nas:a/b",))) == "No nas:a/b, [redacted:path]"


# --- the arguments ---------------------------------------------------------------------------------------------------


def test_leaves() -> None:
    """Texts count up to a depth, an amount and a length; keys don't, those near the top come first."""
    nested: dict[str, Any] = {"a": ["one", {"k": "two"}], "b": {"c": {"d": {"e": "five"}, "x": "three"}}, "z": "top"}
    assert leaves_of(nested) == ("top", "one", "two", "three", "five")
    assert leaves_of({"a": {"b": {"c": {"d": "four"}}}}) == ("four",)
    assert leaves_of({"a": {"b": {"c": {"d": {"e": "five"}}}}}) == ()
    assert len(leaves_of({str(i): str(i) for i in range(100)})) == MAX_LEAVES
    assert leaves_of({"long": "x" * (MAX_LEAF + 1), "short": "y" * MAX_LEAF}) == ("y" * MAX_LEAF,)
    assert leaves_of({"numbers": list(range(MAX_VALUES)), "name": "near the top"}) == ("near the top",)
    assert leaves_of({"numbers": [*range(MAX_VALUES), "far away"]}) == ()
    assert leaves_of(None) == leaves_of({}) == ()


def test_leaves_are_taken_at_once() -> None:
    """What a tool puts into its arguments later is not the caller's."""
    arguments: dict[str, Any] = {"options": {"path": FILE}}
    leaves = leaves_of(arguments)
    arguments["options"]["path"] = "/srv/app/secret.txt"
    assert leaves == (FILE,)


def test_values_of_other_types() -> None:
    """Only plain JSON data is read: no code of a class runs."""

    class Lying(dict[str, str]):
        def values(self) -> Any:
            raise AssertionError("read")

    class Text(str):
        __slots__ = ()

    assert leaves_of({"a": Lying(b="c"), "d": Text("e"), "f": 1, "g": None}) == ()
    assert leaves_of(Lying(b="c")) == ()


# --- for any text ----------------------------------------------------------------------------------------------------

WORDS = [
    FILE,
    WINDOWS,
    QUERY,
    "db.corp.internal",
    "/home/ann",
    "/srv/app/x.py",
    "web.corp.internal:5432",
    KEY,
    "10.0.0.5",
]
MORE = ["SELECT a FROM b WHERE c = 1", "x", " ", ": ", "'", '"', "/", "\\", "(", ")", ".", "\n", "port 5432"]
PIECES = st.sampled_from([*WORDS, *MORE, "[redacted:path]"])
LETTERS = re.compile(r"[\W_]+")
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_only_what_was_sent(text: str, leaves: list[str]) -> None:
    """Whatever the texts are: what is said beyond the plain redaction is in the arguments."""
    answer = said(text, *leaves)
    sent = " ".join(leaves).casefold()
    plain = redact_text(text)
    # A piece that the caller did not send, not even within another word, is not said, unless it always is.
    for piece in (FILE, WINDOWS, "db.corp.internal", "/srv/app/x.py", "web.corp.internal"):
        if piece in answer and piece not in plain:
            assert piece.casefold() in sent
    for rule in (rule for rule in DEFAULT_RULES if rule.kind in KINDS):
        for start, stop in rule.spans(answer):
            found = LETTERS.sub("", answer[start:stop].casefold())
            assert "[redacted:" in answer[start:stop] or found in LETTERS.sub("", sent), rule.name
    for never in (KEY, "10.0.0.5"):
        assert not re.search(rf"(?<![\w.]){re.escape(never)}(?![\w.])", answer)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_nothing_sent(text: str) -> None:
    """Without anything that the caller sent, and with something else, the redaction is the plain one."""
    assert said(text) == said(text, "x", "nothing of it") == redact_text(text)
