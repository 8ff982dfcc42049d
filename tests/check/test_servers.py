"""`iserror check` on servers of any kind: what it makes of bad ones, what it sends, and what it prints."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from iserror.check import audit, baseline, output
from iserror.check.checks.arguments import broken
from iserror.check.checks.leaks import leaked
from iserror.check.connection import CannotRunError, safe_url
from iserror.check.finding import CHECKS, UNPROBED, Finding
from iserror.check.notes import Audit, CheckOptions
from iserror.check.target import parse
from iserror.cli import run as cli
from tests.check.test_check import SERVER
from tests.helpers.hosts import ROOT
from tests.servers.bad_server import SECRET
from tests.servers.checked_server import PASSWORD

pytestmark = [pytest.mark.hostless, pytest.mark.newest]


def main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The command in this process: its exit code, stdout and stderr."""
    try:
        code = cli.main(["check", *arguments])
    except SystemExit as exc:
        code = int(exc.code or 0)
    return (code, *capsys.readouterr())


BAD = str(ROOT / "tests" / "servers" / "bad_server.py")


def test_a_server_that_ends_in_a_call() -> None:
    """A tool that ends the process is a finding with its exit code and last words, and what is behind it is checked."""
    calls = (("do", {"n": 1}), ("do", {"n": 2}))
    steps: list[str] = []
    done = audit.check(parse(None, [sys.executable, BAD, "die"]), CheckOptions(20, calls), steps.append)
    (finding,) = done.found.values()
    assert finding.seen == "call: exit code 3; the last line on stderr: 'giving up: [redacted:openai_key]'"
    assert [step for step in steps if step.startswith("protocol 2025-11-25, ")][-5:] == [
        "protocol 2025-11-25, do: call",
        "protocol 2025-11-25, initialize",
        "protocol 2025-11-25, do: call",
        "protocol 2025-11-25, initialize",
        "protocol 2025-11-25, malformed JSON",
    ]


# --- servers of other kinds ----------------------------------------------------------------------------------

BAD_SERVERS: dict[str, set[tuple[str, str]]] = {
    "good": set(),
    "names": set(),
    "values": {("arguments.echo", "do")},
    "documented": set(),
    "documented_secret": {("leaks.secret", "")},
    "asks": set(),
    "deep": set(),
    "decorated": set(),
    "odd": set(),
    "empty": {("results.empty_text", "do")},
    "oversized": {("results.oversized", "do")},
    "surrogate": {("results.undecodable", "do")},
    "latin1": {("results.undecodable", "do")},
    "schema": {("results.output_schema", "do")},
    "traceback": {("results.exception_text", "do")},
    "returned": {("results.error_shaped_success", "do")},
    "wrapped": {("results.error_shaped_success", "do")},
    "secret": {("leaks.secret", "do")},
    "no_result": {("channels.broken_answer", "do")},
    "credulous": {("arguments.accepted", "do")},
    "hang": {("session.timeout", "do")},
    "die": {("session.died", "do")},
    "endless": {("session.tools_list", "")},
    "no_list": {("session.tools_list", "")},
    "nameless": {("session.tools_list", "")},
    "noise": {("stdout.noise", "")},
    "brittle": {("session.died", "")},
    "polite": {("channels.malformed_json", "")},
    "eager": {("channels.before_initialize", "")},
    "vague": {("channels.unknown_method", "")},
    "silent": {("session.timeout", "")},
    "garbage": {("session.timeout", ""), ("stdout.noise", "")},
    "flood": {("session.flood", "")},
}


@pytest.mark.parametrize("mode", BAD_SERVERS)
def test_bad_servers(mode: str, tmp_path: Path) -> None:
    """A server with one fault gives the findings of that fault and no other, shows no secret, and is ended."""
    pids = tmp_path / "pids"
    target = parse(None, [sys.executable, BAD, mode, str(pids)])
    # The servers that hang cost their time for each revision.
    slow = mode in ("hang", "silent", "garbage")
    done = audit.check(target, CheckOptions(timeout=2 if slow else 20, calls=(("do", {"n": 1}),), probe_all=True))
    if mode == "eager":  # it is called before it was initialised, and refuses by luck
        assert set(done.found) == set()
        return
    assert {(check, tool) for check, tool, _ in done.found} == BAD_SERVERS[mode]
    assert SECRET not in repr(done)
    for pid in map(int, pids.read_text().split()):
        assert not _runs(pid)


def _runs(pid: int) -> bool:
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.1)
    return True


def test_a_server_that_hangs_in_every_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some broken connections the rest is left out, and that is said."""
    monkeypatch.setattr(audit, "MAX_BROKEN", 2)
    done = audit.check(parse(None, [sys.executable, BAD, "stuck"]), CheckOptions(timeout=2, probe_all=True))
    assert {key[:2] for key in done.found} == {("session.timeout", "do0"), ("session.timeout", "do1")}
    assert done.skipped == {"the rest, since 2 connections broke": ["from 2025-11-25 on"]}


def test_calls_of_several_tools_at_a_time() -> None:
    """Over stdio sixteen tools are called at a time, no more: this server answers only once so many calls are open."""
    done = audit.check(parse(None, [sys.executable, BAD, "crowd"]), CheckOptions(timeout=20))
    assert (done.found, len(done.probed), done.broken) == ({}, 32, 0)


def test_which_of_several_tools_ended_the_server() -> None:
    """A server that ends while several calls are open is checked one by one: only the tool that ends it is found."""
    done = audit.check(parse(None, [sys.executable, BAD, "one_dies"]), CheckOptions(timeout=20))
    assert {key[:2] for key in done.found} == {("session.died", "do3")}
    assert len(done.probed) == 32
    assert done.skipped == {"more arguments, since the server stopped answering while it was called": ["do3"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_that_is_ended(number: int, tmp_path: Path) -> None:
    """A check that is interrupted or terminated ends the server, and what that started."""
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "iserror", "check", "--", sys.executable, BAD, "silent", str(pids)]

    # A job in the background of a shell ignores SIGINT, and so does what it starts.
    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heed) as process:
        for _ in range(400):
            if pids.exists() and pids.read_text().count("\n") == 2:
                break
            time.sleep(0.1)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, b"")
    assert not any(_runs(int(pid)) for pid in pids.read_text().split())


def test_what_nobody_thought_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that the check itself fails on is a finding, and what is behind it is still checked."""

    async def fails(*args: object) -> None:
        raise RecursionError(SECRET)

    monkeypatch.setattr(audit.results, "check", fails)
    target = parse(None, [sys.executable, BAD, "polite"])
    done = audit.check(target, CheckOptions(timeout=20, calls=(("do", {"n": 1}),)))
    assert set(done.found) == {("channels.broken_answer", "do", ""), ("channels.malformed_json", "", "")}
    assert SECRET not in repr(done)


def test_a_server_that_does_not_validate() -> None:
    """Once a tool has shown that it does not refuse arguments, it is sent no more of them, in no revision."""
    done = audit.check(parse(None, [sys.executable, BAD, "credulous"]), CheckOptions(timeout=20, probe=("do",)))
    (finding,) = done.found.values()
    assert (finding.seen, len(finding.revisions)) == ("required arguments missing: a success, 'done'", 1)
    assert done.skipped == {"more arguments, since the tool accepted some that its schema forbids": ["do"]}


# --- arguments -----------------------------------------------------------------------------------------------

CANARY = "canary0123456789abcdef"
SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": {"type": "integer", "maximum": 5}, "b": {"type": "string"}}, "required": ["a"]},
    {"properties": {"a": {"enum": ["x", "y"]}, "b": {"anyOf": [{"type": "number"}, {"type": "null"}]}}},
    {"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "array"}}, "$defs": {"A": {"type": "object"}}},
    {"properties": {"a": {"type": "string", "maxLength": 5}, "b": {"type": "boolean"}}, "required": ["a", "b"]},
    {"properties": {"a": {"type": ["string", "null"]}, "b": {"const": 7}}},
    {"properties": {"a": {"allOf": [{"type": "integer"}]}, "b": {"type": "integer", "exclusiveMinimum": 0}}},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_broken_arguments(schema: dict[str, Any]) -> None:
    """What is sent breaks the schema, always, and holds the word that is looked for wherever it holds anything."""
    sent = list(broken({"type": "object", **schema}, CANARY))
    assert sent
    for _, arguments, mark in sent:
        whole = {"type": "object", "additionalProperties": False, **schema}
        assert list(jsonschema.Draft202012Validator(whole).iter_errors(arguments))
        assert not arguments or mark in json.dumps(arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {}},
        {"properties": {"a": {}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"type": ["object", "array"]}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {}]}}},
        {"properties": {"a": {"enum": [{}]}}},
        {"properties": {"a": True}},
        {"properties": 7, "required": ["a"]},
        {"additionalProperties": False},
    ],
)
def test_arguments_that_some_host_accepts(schema: dict[str, Any]) -> None:
    """Where no arguments are certain to be refused, none are sent."""
    assert list(broken(schema, CANARY)) == []


def test_no_call_shows_what_another_shows() -> None:
    """Fields of the same type and rules of the same kind are tried once; names and values are different words."""
    kinds = [{"type": "integer", "maximum": 5}, {"type": "string", "maxLength": 3}, {"enum": ["x"]}]
    properties = {f"{letter}{number}": kind for letter in "ab" for number, kind in enumerate(kinds)}
    free = [how for how, *_ in broken({"properties": properties}, CANARY)]
    assert free == [
        "every argument of a wrong type",
        "a0 of a wrong type",
        "a1 of a wrong type",
        "a0 above its range",
        "a1 longer than it may be",
        "a2 not in the enumeration",
    ]
    bound = list(broken({"properties": properties, "required": ["a0", "undeclared"]}, CANARY))
    assert [how for how, *_ in bound] == [
        "required arguments missing",
        "an undeclared argument",
        "every argument of a wrong type",
        *free[3:],
    ]
    assert all(CANARY not in name for _, arguments, _ in bound for name in arguments)


def test_a_rule_alone_is_not_relied_on() -> None:
    """A value out of its range goes only with something else that is wrong, since a server may not check the range."""
    alone = {"properties": {"a": {"type": "integer", "maximum": 5}}}
    assert [how for how, *_ in broken(alone, CANARY)] == ["a of a wrong type"]
    two = {"properties": {"a": {"type": "integer", "maximum": 5}, "b": {"type": "string"}}}
    (arguments,) = [arguments for how, arguments, _ in broken(two, CANARY) if how == "a above its range"]
    assert set(arguments) == {"a", "b"}


# --- targets -------------------------------------------------------------------------------------------------

CANNOT_RUN = {
    "nowhere": "'nowhere' is not a target: use -- COMMAND, an http(s):// URL, module:object or file.py:object",
    "no_such_module:x": "no_such_module cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    f"{SERVER}:nothing": f"{SERVER} has no 'nothing'",
    f"{SERVER}:not_a_server": f"{SERVER}:not_a_server is of type int: name a server or a function that makes one",
    f"{SERVER}:Row": f"{SERVER}:Row cannot make a server: ValidationError: ",
    f"{SERVER}:fails": f"{SERVER}:fails cannot make a server: RuntimeError: cannot connect to postgres",
    "http://127.0.0.1:1/mcp": "cannot reach http://127.0.0.1:1/mcp: ConnectError",
}


@pytest.mark.parametrize("target", CANNOT_RUN)
def test_what_cannot_be_checked(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that cannot be loaded or reached gives exit code 2 and one line that says why, without a secret."""
    code, stdout, stderr = main(capsys, target)
    assert (code, stdout) == (2, "")
    assert stderr.startswith(f"iserror: {CANNOT_RUN[target]}")
    assert stderr.count("\n") == 1
    assert PASSWORD not in stderr


MISUSE = {
    (): "give one target",
    ("a:b", "--", "c"): "give one target",
    ("--", "no-such-command-here"): "cannot start 'no-such-command-here': No such file or directory",
    ("--json", "--format", "sarif", "a:b"): "give --json or --format, not both",
    ("--baseline", "/nowhere/x", "a:b"): "No such file or directory",
    ("--baseline", str(SERVER), "a:b"): "is not a baseline: write one with --write-baseline",
    ("--call", "x", "a:b"): "give a tool and its arguments as a JSON object",
    ("--inject", "--probe", "x", "a:b"): "give --inject or --probe, not both",
    ("--inject", "--probe-all", "a:b"): "give --inject or --probe, not both",
    ("--timeout", "0", "a:b"): "invalid timeout '0': use a number of seconds above 0",
    ("a:b", "c:d"): "unrecognized arguments: c:d",
}


@pytest.mark.parametrize("arguments", MISUSE, ids=str)
def test_misuse(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line gives exit code 2 and says what is wrong."""
    code, stdout, stderr = main(capsys, *arguments)
    assert (code, stdout) == (2, "")
    assert MISUSE[arguments] in stderr


def test_a_coroutine_that_makes_a_server() -> None:
    """A factory may be a coroutine, and a module is found from the working directory."""
    assert parse("tests.servers.checked_server:attached_later").server.name == "checked"


def test_targets_are_shown_without_credentials() -> None:
    """User, password and query of a URL are in no output, nor are a command's arguments but its script."""
    assert parse(None, ["/usr/bin/python", "/srv/server.py", "--key", SECRET]).name == "python server.py"
    assert safe_url("https://user:word@example.com/mcp?key=1#x") == "https://example.com/mcp"
    with pytest.raises(CannotRunError):
        parse("http:/nowhere")


# --- leaks ---------------------------------------------------------------------------------------------------

LONG = "a8Kd02mZq7Xw" * 2
EXAMPLES = [
    "login(user, token=<your token>)",
    'search(query, api_key="...")',
    "Set password=PASSWORD or password: str.",
    "curl -H 'Authorization: Bear" + "er $TOKEN' -H 'X-Api-Key: YOUR_API_KEY'",
    "api_key='sk-...', secret={secret}, token=${TOKEN}, pin=1234, pwd=****",
    '{"token": "your-token-here", "password": "string", "client_secret": "my_client_secret"}',
    "postgres" + "ql://user:pass" + "word@localhost/db, mysql://root:<password>@db/x",
    "run --password PASSWORD --token <token>; fetch(token=page_token)",
    "AK" + "IAIOSFODNN7EXAMPLE",
    "data:image/png;base64," + "pk_live_" + LONG,
]
CREDENTIALS = [
    "The default is pass" + "word=hunter2hunter2, not password=PASSWORD.",
    'api_key="' + "9f8a7b6c5d4e3f2a1b0c" + '"',
    "pass" + "word=correcthorsebattery",
    "Authorization: Bear" + f"er {LONG}",
    "postgres" + "ql://app:hunter2hunter2@10.0.0.9/prod",
    "the pass" + "word is hunter2hunter2x",
    "data:image/png;base64,AAAA pass" + "word=hunter2hunter2",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_texts_that_show_a_call(text: str) -> None:
    """What only holds the place of a credential is no leak, in a text or under a key."""
    assert list(leaked(text, by_key=False, is_error=False)) == []
    assert list(leaked({"text": [text]}, by_key=True, is_error=False)) == []


@pytest.mark.parametrize("text", CREDENTIALS)
def test_texts_that_show_a_credential(text: str) -> None:
    """A credential beside examples is still found."""
    assert [check for check, _ in leaked(text, by_key=False, is_error=False)] == ["leaks.secret"]
    assert [check for check, _ in leaked({"text": [text]}, by_key=True, is_error=False)] == ["leaks.secret"]


def test_the_base64_of_blobs() -> None:
    """Images, sounds, files and icons hold base64, in which no credential is looked for."""
    blob = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + LONG
    secret = "sk-" + "proj-" + LONG * 2
    holders: list[dict[str, Any]] = [
        {"type": "image", "mimeType": "image/png", "data": secret},
        {"type": "resource", "resource": {"uri": "https://example.com/x", "blob": blob}},
        {"tools": [{"name": "x", "icons": [{"src": f"data:image/png;base64,{secret}"}]}]},
    ]
    for by_key in (False, True):
        assert [kind for holder in holders for kind in leaked(holder, by_key=by_key, is_error=True)] == []
        assert list(leaked({"type": "text", "text": secret}, by_key=by_key, is_error=False))


# --- output --------------------------------------------------------------------------------------------------


def test_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings in the baseline are accepted, others are not, and what was mended is said."""
    path = tmp_path / "known.json"
    target = ("--", sys.executable, BAD, "vague")
    code, stdout, _ = main(capsys, "--write-baseline", str(path), "--json", *target)
    assert (code, json.loads(stdout)["known"]) == (0, 1)
    code, stdout, stderr = main(capsys, "--baseline", str(path), "--json", *target)
    assert (code, stderr, json.loads(stdout)["findings"]) == (0, "", [])
    baseline.write(path, [Finding("stdout.noise", "")])
    code, stdout, stderr = main(capsys, "--probe-all", "--baseline", str(path), "--json", *target)
    assert (code, [f["check"] for f in json.loads(stdout)["findings"]]) == (1, ["channels.unknown_method"])
    assert stderr == f"iserror: 1 baseline finding no longer occurs: update it with --write-baseline {path}\n"
    gone = [("arguments.echo", "do"), ("leaks.secret", "do"), ("stdout.noise", ""), ("results.empty_text", "do")]
    baseline.write(path, [Finding(check, "", tool) for check, tool in gone])
    *_, stderr = main(capsys, "--baseline", str(path), "--json", *target)
    assert stderr.startswith("iserror: 1 baseline finding no longer occurs: ")  # results.* needs no probe
    *_, stderr = main(capsys, "--probe", "do", "--baseline", str(path), "--json", *target)
    assert stderr.startswith("iserror: 4 baseline findings no longer occur: ")
    path.write_text(stdout)
    assert baseline.read(path) == {("channels.unknown_method", "", "")}


def test_a_baseline_keeps_what_was_not_probed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Writing a baseline again drops no finding of a tool that got no bad arguments, in either of the older files."""
    path, other = tmp_path / "known.json", tmp_path / "other.json"
    target = ("--json", "--", sys.executable, BAD, "vague")
    echo, leak = ("arguments.echo", "do", ""), ("leaks.secret", "do", "")
    shown, gone, removed = (
        ("channels.unknown_method", "", ""),
        ("results.empty_text", "do", ""),
        ("leaks.secret", "x", ""),
    )
    baseline.write(path, [Finding(check, "", tool) for check, tool, _ in (echo, gone, removed)])
    baseline.write(other, [Finding("leaks.secret", "", "do")])
    code, _, stderr = main(capsys, "--baseline", str(other), "--write-baseline", str(path), *target)
    assert (code, baseline.read(path)) == (0, {shown, echo, leak})
    assert stderr == f"iserror: 1 finding written to {path}; 2 kept from before, not probed now\n"
    code, _, stderr = main(capsys, "--probe", "do", "--write-baseline", str(path), *target)
    assert (code, stderr) == (0, f"iserror: 1 finding written to {path}\n")
    assert baseline.read(path) == {shown}


def test_a_baseline_replaces_no_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that isn't a baseline stays as it is, and no check runs. An empty file may be filled."""
    path = tmp_path / "server.py"
    path.write_text("mcp = 1\n")
    target = ("--json", "--", sys.executable, BAD, "vague")
    code, stdout, stderr = main(capsys, "--write-baseline", str(path), *target)
    assert (code, stdout, path.read_text()) == (2, "", "mcp = 1\n")
    assert "is not a baseline" in stderr
    path.write_text("")
    code, *_ = main(capsys, "--write-baseline", str(path), *target)
    assert (code, len(baseline.read(path))) == (0, 1)


UNWRITABLE = "pay\ufffe\uffff\x00\x1b\x85\ud800\U0001f600\n<&]]>"
"""A name with what XML 1.0 can't hold, and with what it must escape."""


@pytest.mark.parametrize("form", ["table", "sarif", "junit", "github", "json"])
def test_hostile_names(form: str) -> None:
    """Every form holds what a server says in any of its texts: JUnit is well-formed XML, a command is one line."""
    import xml.etree.ElementTree as ElementTree

    finding = Finding("arguments.echo", UNWRITABLE, UNWRITABLE, UNWRITABLE, (UNWRITABLE,))
    done = output.FinishedCheck(
        UNWRITABLE, UNWRITABLE, [UNWRITABLE], 1, [finding], 0, {UNWRITABLE: [UNWRITABLE], UNPROBED: [UNWRITABLE]}
    )
    text = output.renderer(form)(done, 100, False)
    text.encode()
    if form in ("sarif", "json"):
        json.loads(text)
    elif form == "junit":
        names = [str(case.get("name")) for case in ElementTree.fromstring(text).iter("testcase")]
        assert sum("pay\ufffd\ufffd\ufffd\ufffd\x85\ufffd\U0001f600" in name for name in names) == 3
    else:
        assert not {"\x00", "\x1b", "\ud800", "\ufffe"} & set(text)
        assert form == "table" or text.count("\n") == 2


HOSTILE = "[red]\x1b[31m::error::%0A, x\u202e"
OUTCOME = output.FinishedCheck(
    "server.py:app",
    "server.py",
    ["2025-11-25", "2025-06-18"],
    2,
    [
        Finding("arguments.echo", "amount of a wrong type: [red] 50%", "pay", "", ("2025-06-18",)),
        Finding("arguments.echo", "amount of a wrong type: [red] 50%", "refund", "", ("2025-06-18",)),
        Finding("results.oversized", "an error of 3,000 characters", "pay", "", ("2025-11-25", "2025-06-18")),
    ],
    1,
    {
        "arguments, since none are certain to be refused": ["list"],
        UNPROBED: [f"tool{number}" for number in range(257)],
    },
)


def test_table() -> None:
    """The table names each finding, those alike in one row; below it stand remedies and what was left out."""
    text = output.renderer("table")(OUTCOME, 100, False)
    assert re.search(r"│ arguments\.echo +│ pay +│ amount of a wrong type: \[red\] 50% \(and alike in 1 more\)", text)
    assert "2025-06-18" in text
    assert CHECKS["arguments.echo"].remedy in text
    assert "not checked: arguments, since none are certain to be refused: list\n" in text
    assert (
        "not probed with bad arguments: 257 tools not annotated readOnlyHint (use --probe TOOL or --probe-all)\n"
        in text
    )
    assert "tool7" not in text
    assert text.endswith("2 errors, 1 warnings, 1 known; tools: 2; revisions: 2025-11-25, 2025-06-18\n")
    assert "\x1b" not in text


def test_sarif() -> None:
    """SARIF has a rule for each check, and a result with a stable fingerprint for each finding."""
    document = json.loads(output.renderer("sarif")(OUTCOME, 100, False))
    (made,) = document["runs"]
    assert (document["version"], [rule["id"] for rule in made["tool"]["driver"]["rules"]]) == ("2.1.0", list(CHECKS))
    first, second, third = made["results"]
    assert (first["ruleId"], first["level"], third["level"]) == ("arguments.echo", "error", "warning")
    assert first["message"]["text"] == "pay: amount of a wrong type: [red] 50%"
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "server.py"
    (invocation,) = made["invocations"]
    count, _, *each = invocation["toolExecutionNotifications"]
    assert count["message"]["text"].startswith("not probed with bad arguments: 257 tools")
    assert [note["locations"][0]["logicalLocations"][0]["name"] for note in each] == OUTCOME.unprobed
    assert {note["message"]["text"].partition(": ")[2] for note in each} == {f"not checked: {UNPROBED}"}
    assert first["partialFingerprints"] != second["partialFingerprints"]


def test_junit() -> None:
    """JUnit has a failed case for each finding, a good one for each check without any, a skipped one for the rest."""
    import xml.etree.ElementTree as ElementTree

    suite = ElementTree.fromstring(output.renderer("junit")(OUTCOME, 100, False)).find("testsuite")
    assert suite is not None
    failed = [case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None]
    assert failed == ["arguments.echo pay", "arguments.echo refund", "results.oversized pay"]
    assert suite.get("failures") == "3"
    assert suite.get("tests") == str(len(CHECKS) - 2 + 3 + 258)
    assert suite.get("skipped") == "258"
    skipped = {case.get("name"): case.find("skipped") for case in suite.findall("testcase")}
    assert [
        reason.get("message")
        for name in ("not checked list", "not checked tool7")
        if (reason := skipped[name]) is not None
    ] == list(OUTCOME.skipped)


def test_junit_without_probes() -> None:
    """A check that only bad arguments can fail isn't a good case if no tool got any."""
    import xml.etree.ElementTree as ElementTree

    done = dataclasses.replace(OUTCOME, findings=[], probed=False)
    suite = ElementTree.fromstring(output.renderer("junit")(done, 100, False)).find("testsuite")
    assert suite is not None
    skipped = [str(case.get("name")) for case in suite.findall("testcase") if case.find("skipped") is not None]
    assert [name for name in skipped if name in CHECKS] == [id for id in CHECKS if id.startswith("arguments.")]


def test_json_counts_what_was_not_probed() -> None:
    """JSON has each tool that wasn't probed under the reason, and the count."""
    document = json.loads(output.renderer("json")(OUTCOME, 100, False))
    assert (document["not_probed"], document["not_checked"][UNPROBED]) == (257, OUTCOME.unprobed)


def test_github() -> None:
    """Each finding is one workflow command, with what would end it escaped."""
    first, _, third, last = output.renderer("github")(OUTCOME, 100, False).splitlines()
    assert first.startswith(
        "::error file=server.py,title=iserror arguments.echo::pay: amount of a wrong type: [red] 50%25. Name the field"
    )
    assert third.startswith("::warning ")
    assert last.startswith("::notice title=iserror check::not probed with bad arguments: 257 tools")


@pytest.mark.parametrize(("form", "package"), output._NEEDS.items())
def test_without_the_extra(form: str, package: str) -> None:
    """Without a library of the extra the output that needs it is refused by name, before anything is checked."""
    code = f"import sys; sys.modules[{package!r}] = None\nfrom iserror.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "check", "--format", form, "nowhere:x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"iserror: this output needs {package.replace('_', '-')}: pip install 'iserror[check]', or use --json\n"
    )


def test_json_without_the_extra() -> None:
    """JSON needs nothing of the extra."""
    code = (
        "import sys\nfor name in ('rich', 'sarif_pydantic', 'junitparser'):\n    sys.modules[name] = None\n"
        "from iserror.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "check", "--json", "--", sys.executable, BAD, "good"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])


def test_a_long_run_says_what_it_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that begins ten seconds after the last word on stderr is named there; a terminal shows each."""
    from iserror.cli.check import Progress

    progress = Progress()
    progress("protocol 2025-11-25, unknown tool")
    progress.since -= 11
    progress("protocol 2025-11-25, tool 7 of 258, pay: call\x1b[31m")
    progress.end()
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "iserror: protocol 2025-11-25, tool 7 of 258, pay: call\\x1b[31m\n")
    monkeypatch.setenv("COLUMNS", "41")
    monkeypatch.setattr(progress.stream, "isatty", lambda: True, raising=False)
    progress("protocol 2025-11-25, tool 8 of 258, refund: call")
    progress.end()
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"\rprotocol 2025-11-25, tool 8 of 258, refu\r\r{'':<40}\r")


def test_a_finding_holds_no_control_characters() -> None:
    """Names and texts of a server are made safe to print before anything else sees them."""
    made = Audit()
    made.add("arguments.echo", f"seen {HOSTILE}\n", f"pay{HOSTILE}", HOSTILE)
    (finding,) = made.found.values()
    assert all(text.isprintable() for text in (finding.seen, finding.tool, finding.where))


def test_every_check_is_documented() -> None:
    """The page's table has each check with its severity, reason and section, and no other."""
    page = (ROOT / "docs" / "how-to" / "check.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (\w+) \| (.+) \| \[[^]]+\]\((\S+)\) \|$", page, re.MULTILINE)
    assert rows == [(id, check.severity, check.reason, check.source) for id, check in CHECKS.items()]


def test_nothing_of_it_is_loaded_with_the_library() -> None:
    """`import iserror` loads nothing of the check, and the check's own modules load no host."""
    code = (
        "import sys, iserror, iserror.cli\nassert not [n for n in sys.modules if n.startswith('iserror.check')]\n"
        "import iserror.check.audit, iserror.check.output, iserror.check.baseline\n"
        "assert not {'mcp', 'fastmcp', 'httpx', 'sarif_pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
