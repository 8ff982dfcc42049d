"""`iserror catalog`: every code of a server for its readers, and codes that stay what they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import iserror
from iserror import ErrorMap, ToolErrors
from iserror.cli import main
from iserror.cli.codes import changes, codes_of, load, own_alone, to_html, to_json, to_markdown
from tests.helpers.hosts import ROOT, new_server

pytestmark = pytest.mark.sdk


class NotFound(Exception):
    pass


class Busy(Exception):
    pass


class Odd(Exception):
    pass


def build(**other: Any) -> ToolErrors:
    """A guard with a map, and one tool with a map of its own."""
    errors, own = ErrorMap(), ErrorMap()
    errors.add(
        NotFound,
        **{
            "code": "INVOICE_NOT_FOUND",
            "category": "not_found",
            "message": "No invoice {exc.invoice_id} in {{brackets}}.",
            "hint": "Ask | the *user*.",
            **other,
        },
    )
    errors.add("httpx.ConnectError", code="UPSTREAM_DOWN", category="unavailable", message="Down.", retryable=True)
    own.add(Busy, code="BUSY", category="unavailable", message="<b>", retryable=True, retry_after=2)
    guard = ToolErrors(errors)
    for name in ("pay", "refund"):

        def tool() -> None:
            raise Busy

        tool.__name__ = name
        guard(errors=own)(tool)
    return guard


HERE = __name__
CODES: dict[str, Any] = {
    "BUSY": {
        "category": "unavailable",
        "retryable": True,
        "entries": [
            {
                "exception": f"{HERE}.Busy",
                "message": "<b>",
                "retryable": True,
                "retry_after": 2,
                "outcome": "unknown",
                "tools": ["pay", "refund"],
            }
        ],
    },
    "INVOICE_NOT_FOUND": {
        "category": "not_found",
        "retryable": False,
        "entries": [
            {
                "exception": f"{HERE}.NotFound",
                "message": "No invoice {exc.invoice_id} in {{brackets}}.",
                "hint": "Ask | the *user*.",
                "retryable": False,
                "outcome": "not_applied",
            }
        ],
    },
    "UPSTREAM_DOWN": {
        "category": "unavailable",
        "retryable": True,
        "entries": [
            {"exception": "httpx.ConnectError", "message": "Down.", "retryable": True, "outcome": "unknown"},
        ],
    },
}


def test_the_codes_of_a_guard() -> None:
    """Every entry of the guard's map and of each tool's own, under its code, with the tools of the latter."""
    assert codes_of(build()) == CODES


def test_the_codes_of_a_server_and_of_a_map() -> None:
    """A server has the codes of its guard, a map its own."""
    guard, server = build(), new_server()
    guard.attach(server)
    assert codes_of(server) == CODES
    assert set(codes_of(guard.errors)) == {"INVOICE_NOT_FOUND", "UPSTREAM_DOWN"}


def test_as_markdown() -> None:
    """The table has one row an entry, and nothing in it breaks the table."""
    lines = to_markdown(codes_of(build())).splitlines()
    here = f"{HERE}.Busy"
    assert lines[2] == rf"| `BUSY` | unavailable | \<b\> |  | yes, after 2 s | unknown | pay, refund | {here} |"
    words = r"No invoice {exc.invoice_id} in {{brackets}}. | Ask \| the \*user\*."
    assert lines[3] == f"| `INVOICE_NOT_FOUND` | not_found | {words} | no | not_applied | all | {HERE}.NotFound |"
    assert len(lines) == 5


def test_as_html() -> None:
    """The page has one row an entry, and markup shows as text."""
    page = to_html(codes_of(build()), "a <title>")
    assert page.count("<tr id=") == 3
    assert "<b>" not in page
    assert "<td>&lt;b&gt;</td>" in page
    assert "a &lt;title&gt;" in page


def test_nothing_changed() -> None:
    """The same codes, and new ones beside them, are no change."""
    codes = codes_of(build())
    before = to_json(codes)
    assert json.loads(before)["codes"] == CODES
    assert changes(before, codes) == []
    assert changes(to_json({"BUSY": CODES["BUSY"]}), codes) == []
    assert changes(before, codes_of(build(message="Other words.", hint=None))) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"code": "NO_INVOICE"}, "INVOICE_NOT_FOUND is gone"),
        ({"category": "out_of_range"}, "INVOICE_NOT_FOUND had the category not_found and now has out_of_range"),
        ({"retryable": True}, "INVOICE_NOT_FOUND promised that a retry cannot help, and now says the opposite"),
    ],
)
def test_what_changed(now: dict[str, Any], said: str) -> None:
    """A code that is gone, or whose category or retryable is another, is found."""
    (found,) = changes(to_json(codes_of(build())), codes_of(build(**now)))
    assert found.startswith(said)


def test_a_code_of_another_failure() -> None:
    """A code that stands for none of its exceptions any more was reused."""
    errors = ErrorMap()
    errors.add(Odd, code="UPSTREAM_DOWN", category="unavailable", message="Odd.", retryable=True)
    (found,) = changes(to_json({"UPSTREAM_DOWN": CODES["UPSTREAM_DOWN"]}), codes_of(errors))
    assert found.startswith(f"UPSTREAM_DOWN stood for httpx.ConnectError and now stands for {HERE}.Odd")


def test_a_retired_code() -> None:
    """A code that was let go on purpose may be missing, and must not come back."""
    before = json.loads(to_json(codes_of(build())))
    before["retired"] = ["BUSY"]
    codes = codes_of(build())
    assert changes(json.dumps(before), codes) == ["BUSY is retired, but in use again: take a new code"]
    del codes["BUSY"]
    assert changes(json.dumps(before), codes) == []


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"schema_version": 1, "codes": {"A_B": {}}}',
        '{"schema_version": 2, "codes": {}}',
        "[" * 99_999,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_catalogue(before: str) -> None:
    """A file that is no catalogue is refused with a word on how to get one."""
    with pytest.raises(ValueError, match=r"not a code catalog .*--json|schema_version 2"):
        changes(before, {})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no_colon", "invalid object 'no_colon': use module:name"),
        ("no_such_module:x", "ModuleNotFoundError"),
        ("no_such_file.py:x", "cannot load 'no_such_file.py:x'"),
        ("json:no_such_name", "AttributeError"),
        ("json:dumps", "has no codes: name a ToolErrors, an ErrorMap, a pack or a server"),
    ],
)
def test_what_cannot_be_loaded(spec: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What names no guard ends with exit code 2 and says why."""
    assert main(["catalog", spec]) == 2
    assert said in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` writes what `--check` reads: 0 if the codes are what they were, 1 and why if not."""
    spec = "examples/billing/error_map.py:billing_errors"
    command = [sys.executable, "-m", "iserror", "catalog", spec]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=ROOT, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / "catalog.json"
    file.write_text(done.stdout)

    def check() -> tuple[int, str]:
        done = subprocess.run([*command, "--check", str(file)], capture_output=True, text=True, cwd=ROOT, timeout=50)
        return done.returncode, done.stdout

    assert check() == (0, "")
    file.write_text(done.stdout.replace('"PAYMENT_DECLINED"', '"CARD_DECLINED"'))
    code, said = check()
    assert code == 1
    assert said.startswith("CARD_DECLINED is gone")


def test_a_module_is_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the working folder, and a nested name in it, are found."""
    (tmp_path / "catalog_target_module.py").write_text(
        "from iserror import ErrorMap\nclass Box:\n    errors = ErrorMap()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert isinstance(load("catalog_target_module:Box.errors"), ErrorMap)
    sys.modules.pop("catalog_target_module")


def test_packs(capsys: pytest.CaptureFixture[str]) -> None:
    """The codes of packs that a map includes are listed beside its own, each with its exception and when it holds."""
    guard = build()
    own = set(codes_of(guard))
    guard.errors.include(iserror.packs.httpx)
    codes = codes_of(guard)
    assert own < set(codes)
    assert codes["BUSY"] == CODES["BUSY"]
    (limited,) = codes["UPSTREAM_RATE_LIMITED"]["entries"]
    assert (limited["exception"], limited["retry_after"]) == (
        "httpx.HTTPStatusError (status 429)",
        "from the exception",
    )
    assert changes(to_json(codes), codes_of(guard)) == []
    assert [change.partition(" is gone")[0] for change in changes(to_json(codes), codes_of(build()))] == sorted(
        set(codes) - own
    )
    assert main(["catalog", "--json", "iserror.packs:httpx"]) == 0
    assert set(json.loads(capsys.readouterr().out)["codes"]) == set(codes) - own


def test_own_codes_come_first() -> None:
    """Own codes stand before those of packs, which are one row each, in a table of their own, or left out."""
    guard = build()
    own = list(codes_of(guard))
    guard.errors.include(iserror.packs.httpx)
    codes = codes_of(guard)
    assert list(codes)[: len(own)] == own
    folded, whole, alone = to_markdown(codes), to_markdown(codes, unfold=True), to_markdown(own_alone(codes))
    first, second = folded.split("\n\n")
    assert first + "\n" == alone == to_markdown(codes_of(build()))
    row = next(line for line in second.splitlines() if "UPSTREAM_REJECTED" in line)
    assert row.split(" | ")[3:] == ["httpx", "1 |"]
    assert len(whole.splitlines()) > len(folded.splitlines())
    assert to_html(codes, "Codes").count("<table>") == 2


def test_a_changed_outcome() -> None:
    """The outcome of an exception is a promise: clients decide by it whether to repeat a call."""

    def one(outcome: Any) -> dict[str, Any]:
        errors = ErrorMap()
        errors.add(LookupError, code="GONE", category="not_found", message="Gone.", outcome=outcome)
        return codes_of(errors)

    (said,) = changes(to_json(one("not_applied")), one("unknown"))
    assert said.startswith("GONE of builtins.LookupError had the outcome not_applied and now has unknown")
    assert changes(to_json(one("unknown")), one("unknown")) == []


def test_unrecorded_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new code is named on stderr; `--strict` fails for it, and `--update` records it and keeps the retired ones."""
    spec = f"{ROOT}/examples/billing/error_map.py:billing_errors"
    assert main(["catalog", spec, "--json", "--own"]) == 0
    whole = json.loads(capsys.readouterr().out)
    gone = sorted(whole["codes"])[0]
    file = tmp_path / "catalog.json"
    codes = {name: code for name, code in whole["codes"].items() if name != gone}
    file.write_text(json.dumps({"schema_version": 1, "codes": codes, "retired": ["OLD_CODE"]}))
    check = ["catalog", spec, "--own", "--check", str(file)]
    assert main(check) == 0
    assert f"unrecorded codes: {gone}; --update records them" in capsys.readouterr().err
    assert main([*check, "--strict"]) == 1
    assert main([*check, "--update"]) == 0
    assert json.loads(file.read_text()) == {**whole, "retired": ["OLD_CODE"]}
    capsys.readouterr()
    assert main([*check, "--strict"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["catalog", spec, "--strict"]) == 2
