"""The map: what it refuses when it is built, what it finds, and what it says."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import enum
import itertools
import json
import re
import sys
import types
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args

import pytest

from iserror import ErrorMap, Failure, ToolErrors, ToolFailure
from iserror.errors.verdict import ADVICE_PATTERN, Basis, judge
from iserror.errors.vocabulary import Category, Effect, Outcome
from iserror.errors.wait import parse_retry_after
from iserror.support.causes import Group
from tests.helpers import hosts

pytestmark = pytest.mark.hostless


class Base(Exception):
    def __init__(self, value: object = None, **more: object) -> None:
        super().__init__("text")
        if value is not None:
            self.value = value
        self.__dict__.update(more)


class Child(Base):
    pass


class Other(Exception):
    pass


class Worded(Base):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.args = (text,)


def say(errors: ErrorMap, exc: BaseException, effect: Effect | None = None, local: ErrorMap | None = None) -> Failure:
    """What a guarded function says of an exception."""

    @ToolErrors(errors)(effect=effect, errors=local)
    def tool() -> None:
        raise exc

    with pytest.raises(ToolFailure) as caught:
        tool()
    assert caught.value.failure is not None
    return caught.value.failure


def one(exception: Any = Base, **entry: Any) -> ErrorMap:
    """A map with one entry, well formed where the test says nothing."""
    errors = ErrorMap()
    errors.add(exception, **{"code": "GONE", "category": "not_found", "message": "Gone.", **entry})
    return errors


# --- bad input ---------------------------------------------------------------------------------------------------

PATH = r"is no attribute path; a template reads attributes of the exception, such as \{exc.invoice_id\}"
BAD_TEMPLATES = (
    "{exc}|{value}|{}|{0}|{exc.}|{exc.value()}|{exc.value[0]}|{exc['value']}|{exc.__class__}|{exc.args.__class__}|"
    "{exc.a__b}|{exc._private}|{exc.value!r}|{exc.value:>10}|{exc.value.-1}|{exc.0x}|{body}|{body.__len__}|"
    "{ exc.value }|{exc.value|exc.value}|{other.value}|{exc.value + 1}|{{exc.value}"
).split("|")
BAD_CODES = ["", "AB", "gone", "GONE-1", "_GONE", "GONE_", "GO__NE", "1GONE", "GONE\n", "G" * 65, "ÄRGER", 7, None]
CODE = "code .* is not valid: use 3 to 64 characters of A-Z, 0-9 and single underscores"
WAIT = "retry_after .* is neither seconds .*, a timedelta nor a function"
NO_TEXT = " of GONE must be a text that is not empty"
NO_PATH = "isn't an attribute path of the exception, such as 'invoice_id'"
BAD_ENTRIES: list[tuple[dict[str, Any], str]] = [
    *(({"code": code}, CODE) for code in BAD_CODES),
    *(({"category": c}, "category .* is not valid: use one of aborted, ") for c in ("gone", "", 7, None, "NOT_FOUND")),
    ({"outcome": "maybe"}, "outcome 'maybe' is not valid: use one of applied, not_applied, partial, unknown"),
    ({"code": "TIMEOUT"}, "code TIMEOUT means category 'deadline_exceeded' already and cannot mean 'not_found'"),
    ({"retryable": "yes"}, "retryable must be True or False, not 'yes'"),
    ({"retry_after": 2}, "retry_after for GONE needs retryable=True"),
    *(({"retry_after": wait, "retryable": True}, WAIT) for wait in (-1, float("nan"), True, "2", [2])),
    *(({"message": message}, f"message{NO_TEXT}") for message in ("", " \n", None, 7, b"x")),
    *(({"hint": hint}, f"hint{NO_TEXT}") for hint in ("", 7)),
    *(({"message": f"Gone: {template}."}, PATH) for template in BAD_TEMPLATES),
    ({"hint": "See {exc.value()}."}, PATH),
    ({"details": "value"}, "details of GONE must be a list of attribute names, not the text 'value'"),
    *(({"details": [name]}, NO_PATH) for name in ("", "__class__", "value()", "a b", 7)),
    ({"details": {7: "value"}}, NO_PATH),
]


@pytest.mark.parametrize(("entry", "words"), BAD_ENTRIES)
def test_bad_entry(entry: dict[str, Any], words: str) -> None:
    """A malformed entry is refused when it is added, in words that name what is wrong, and is not added."""
    errors = ErrorMap()
    with pytest.raises(ValueError, match=words):
        errors.add(Base, **{"code": "GONE", "category": "not_found", "message": "Gone.", **entry})
    assert len(errors) == 0


NO_NAMES = ["Base", "httpx.", ".httpx", "a b.c", ""]
NO_TYPES = [Base(), int, None, 7, object(), [Base], BaseException, SystemExit, KeyboardInterrupt, GeneratorExit]


@pytest.mark.parametrize("exception", [*NO_NAMES, *NO_TYPES, asyncio.CancelledError])
def test_no_exception_type(exception: Any) -> None:
    """What is no subclass of Exception and no dotted name is a TypeError that says what an entry needs."""
    words = "isn't a dotted name of an" if isinstance(exception, str) else "an entry needs a subclass of"
    with pytest.raises(TypeError, match=words):
        one(exception)


def test_duplicate() -> None:
    """A second entry for a type, or a code with a second category, is refused, and the first stays."""
    errors = one()
    with pytest.raises(ValueError, match=f"{__name__}.Base already has an entry: edit it"):
        errors.add(Base, code="OTHER", category="aborted", message="Other.")
    with pytest.raises(ValueError, match="code GONE means category 'not_found' already and cannot mean 'aborted' too"):
        errors.add(Other, code="GONE", category="aborted", message="Other.")
    errors.add(Other, code="GONE", category="not_found", message="Gone too.")
    assert [say(errors, exc).message for exc in (Base(), Other())] == ["Gone.", "Gone too."]


async def _tool() -> None: ...


INF, NAN = float("inf"), float("nan")
BAD_SETTINGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"unknown_tool": "auto"}, ValueError, "unknown_tool 'auto' is not valid: use one of protocol, result"),
    ({"invalid_arguments": "never"}, ValueError, "use one of auto, protocol, result"),
    ({"returned_errors": True}, ValueError, "use one of convert, log, off"),
    ({"structured": None}, ValueError, "use one of always, auto, never"),
    ({"tool_failure_meta": 1}, ValueError, "use True or False"),
    ({"log_arguments": "no"}, ValueError, "use True or False"),
    ({"on_error": "hook"}, TypeError, "on_error must be a (plain )?function, not 'hook'"),
    ({"is_returned_error": 7}, TypeError, "is_returned_error must be a (plain )?function, not 7"),
    ({"errors": {}}, TypeError, "errors must be an ErrorMap, not dict"),
]


BAD_GUARDS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (_tool, {"effect": "delete"}, ValueError, "effect 'delete' is not valid: use one of idempotent, read, write"),
    (_tool, {"errors": {}}, TypeError, "errors must be an ErrorMap, not dict"),
    *((_tool, {"timeout": t}, ValueError, "use a number of seconds above 0") for t in (0, -1, True, "1", INF, NAN)),
    (lambda: None, {"timeout": 1}, ValueError, "only an async function can be stopped"),
    (Base, {}, TypeError, "@guard needs a function"),
    (staticmethod(_tool), {}, TypeError, "put it below @staticmethod"),
    (classmethod(_tool), {}, TypeError, "@guard needs a"),
    (types.SimpleNamespace(fn=_tool, parameters={}, name="pay"), {}, TypeError, "'pay' is registered already"),
]


@pytest.mark.parametrize(("fn", "options", "error", "words"), BAD_GUARDS)
def test_bad_guard(fn: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    """A guard on what is no function, or with an option that is not valid, is refused where it stands."""
    with pytest.raises(error, match=words):
        ToolErrors()(**options)(fn)


@pytest.mark.parametrize(("settings", "error", "words"), BAD_SETTINGS)
def test_bad_setting(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """An unknown setting or value is refused when the guard is made."""
    with pytest.raises(error, match=words):
        ToolErrors(**settings)


BAD_FAILURES = [("gone", "Gone."), ("GONE", ""), ("GONE", " \n"), ("GONE", None), ("GONE", 7)]


@pytest.mark.parametrize("arguments", BAD_FAILURES)
def test_bad_tool_failure(arguments: tuple[Any, ...]) -> None:
    """A malformed ToolFailure is refused where it is made."""
    with pytest.raises(ValueError):
        ToolFailure(*arguments)
    for bad in ({"category": "gone"}, {"outcome": "maybe"}):
        with pytest.raises(ValueError, match="is not valid: use one of"):
            ToolFailure("GONE", "Gone.", **bad)  # type: ignore[arg-type]


# --- look-up -----------------------------------------------------------------------------------------------------


def linked(exc: BaseException, **links: Any) -> BaseException:
    """The exception with its `cause`, `context` and `suppress_context` set."""
    for name, value in links.items():
        setattr(exc, f"__{name}__", value)
    return exc


class Empty(Base):
    """Falsy, as an exception that is a collection of errors may be."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (Base(), "BASE"),
        (Child(), "CHILD"),
        (type("Grandchild", (Child,), {})(), "CHILD"),
        (Other(), "INTERNAL_ERROR"),
        (linked(Other(), cause=Child()), "CHILD"),
        (linked(Other("lost: text\n of base"), context=Base("text of base")), "INTERNAL_ERROR"),
        (linked(Other("Lost: THE  text of the base"), context=Other("The text of the base")), "INTERNAL_ERROR"),
        (linked(Other("lost: short base"), context=Worded("short base")), "INTERNAL_ERROR"),
        (linked(Other("lost: one-long-word-alone"), context=Worded("one-long-word-alone")), "INTERNAL_ERROR"),
        (linked(Other("Lost: THE text\n of the base"), context=Worded("the text of the base")), "BASE"),
        (linked(Other(), context=Base()), "INTERNAL_ERROR"),
        (linked(Other(), cause=Other(), context=Base()), "INTERNAL_ERROR"),
        (linked(Other(), cause=linked(Other(), context=Base())), "INTERNAL_ERROR"),
        (linked(Other(), cause=linked(Other("of the wordy base"), context=Worded("the wordy base"))), "BASE"),
        (
            linked(Other("x"), context=linked(Other("of the wordy base"), context=Worded("the wordy base"))),
            "INTERNAL_ERROR",
        ),
        (linked(Base(), cause=Child()), "BASE"),
        (linked(Other(), context=Base(), suppress_context=True), "INTERNAL_ERROR"),
        (linked(Other(), cause=Empty()), "BASE"),
        (linked(hosts.ToolError("no"), cause=Base()), "BASE"),
        (hosts.ToolError("no"), "TOOL_ERROR"),
        (Group("x", [Child()]), "CHILD"),
        (Group("x", [Child(), Group("y", [Child()])]), "CHILD"),
        (Group("x", [Child(), Base()]), "BASE"),
        (Group("x", [Child(), Other()]), "INTERNAL_ERROR"),
        (Group("x", [linked(Other(), cause=Base())]), "BASE"),
        (linked(Other(), cause=Group("x", [Child()])), "CHILD"),
    ],
)
def test_lookup(exc: BaseException, code: str) -> None:
    """The nearest class wins, then causes; of a group the least certain leaf.

    A context counts only if it isn't suppressed, and if the exception that it led to repeats its words.
    """
    errors = one(Base, code="BASE", category="unavailable", message="Base.")
    errors.add(Child, code="CHILD", category="not_found", message="Child.", retryable=True)
    assert say(errors, exc).code == code


def test_local_map_first() -> None:
    """An entry of the tool's own map goes before the guard's, however near that one is."""
    errors, local = one(Child, code="CHILD"), one(Base, code="LOCAL")
    assert [say(errors, Child(), local=local).code, say(errors, Child()).code] == ["LOCAL", "CHILD"]
    assert say(errors, Other(), local=local).code == "INTERNAL_ERROR"


def test_dotted_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dotted name finds a class where it is defined or re-exported, and its subclasses; nothing is imported."""
    public = types.ModuleType("public_api")
    public.Error = Other  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "public_api", public)
    assert say(one("public_api.Error"), Other()).code == "GONE"
    assert say(one(f"{__name__}.Base"), Child()).code == "GONE"
    assert say(one("never_imported.Error"), Other()).code == "INTERNAL_ERROR"
    assert "never_imported" not in sys.modules
    assert say(one("json.JSONDecodeError"), json.JSONDecodeError("x", "y", 0)).code == "GONE"
    assert say(one("builtins.LookupError"), KeyError(1)).code == "GONE"


def test_entry_added_later() -> None:
    """An entry that is added after a failure counts from the next one on."""
    errors = one(Base)
    assert say(errors, Other()).code == "INTERNAL_ERROR"
    errors.add(Other, code="OTHER", category="aborted", message="Other.")
    assert say(errors, Other()).code == "OTHER"


# --- templates and details ---------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


SHOWN: list[tuple[object, str]] = [
    ("INV-42", "INV-42"),
    ("a b", '"a b"'),
    ("", None),
    (None, None),
    (7, "7"),
    (-7.5, "-7.5"),
    (True, "true"),
    (Decimal("1.50"), "1.50"),
    (Colour.RED, "red"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (dt.date(2026, 1, 2), "2026-01-02"),
    (dt.datetime(2026, 1, 2, 3, 4), '"2026-01-02 03:04:00"'),
    ([], None),
    (["welcome", "release-notes"], "welcome, release-notes"),
    (list(range(12)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    ({"b": 1, "a": 2}, "b, a"),
    (frozenset("a"), "a"),
    (b"bytes", None),
    (print, None),
    ('say "yes"\n', '"say \\"yes\\""'),
    ("x" * 200, '"' + "x" * 119 + '…"'),
    (10**5000, None),
    ("{exc.value}", '"{exc.value}"'),
    ("\ud800", '"\ufffd"'),
    ("\u202e\u200b", None),
    (["a", None], "a"),
]  # type: ignore[list-item]


@pytest.mark.parametrize(("value", "shown"), SHOWN, ids=range(len(SHOWN)))
def test_value(value: object, shown: str | None) -> None:
    """A value stands bare or as one quoted text; without one the sentence closes up, and no colon dangles."""
    failure = say(one(message="No invoice with id: {exc.value}.", hint="Not ({exc.value}) again."), Base(value))
    if shown is None:
        assert (failure.message, failure.hint) == ("No invoice with id.", "Not again.")
    else:
        assert (failure.message, failure.hint) == (f"No invoice with id: {shown}.", f"Not ({shown}) again.")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{exc.value}", "The tool failed."),
        ("No {exc.value} here.", "No here."),
        ("Gone: {exc.value}", "Gone"),
        ("{{literal}} {exc.there}", "{literal} yes"),
        ("{exc.inner.name} and {exc.inner.missing}.", "deep and."),
        ("id={exc.value}, name={exc.there}.", "id, name=yes."),
        ('"{exc.value}" is gone.', "is gone."),
    ],
)
def test_template(template: str, said: str) -> None:
    """Braces, deeper paths and attributes that are missing are dealt with one by one."""
    exc = Base(there="yes", inner=types.SimpleNamespace(name="deep"))
    assert say(one(message=template), exc).message == said


def test_details() -> None:
    """Details hold the named attributes that the exception has, flat and safe, under the given keys."""
    entry = one(details={"invoice": "value", "many": "many", "gone": "missing", "none": "none", "n": "inner.n"})
    exc = Base("INV-1", many=["a", "b"], none=None, inner=types.SimpleNamespace(n=2**70))
    assert say(entry, exc).details == {"invoice": "INV-1", "many": "a, b", "n": str(2**70)}
    assert say(one(details=["value"]), Base()).details is None


# --- waits, outcomes, advice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (7, 7.0),
        (2.5, 2.5),
        (Decimal("1.5"), 1.5),
        ("7", 7.0),
        (" 7.5 ", 7.5),
        (b"7", 7.0),
        (dt.timedelta(minutes=2), 120.0),
        (10**9, 86400.0),
        ("999999999", 86400.0),
        (dt.datetime(2000, 1, 1), 0.0),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0.0),
        *((bad, None) for bad in (None, True, -1, NAN, INF, 10**400, dt.timedelta(seconds=-1), object(), [1])),
        *((bad, None) for bad in ("", "-7", "soon", "7 seconds", "nan", "1e3", "٧", "9" * 5000, "\ud800", b"\xff")),
    ],
)  # fmt: skip
def test_retry_after(value: object, seconds: float | None) -> None:
    """Numbers, texts, intervals and dates give seconds, a day at most; anything else gives none."""
    assert parse_retry_after(value) == seconds


FORMS: dict[str, Callable[[dt.datetime], object]] = {
    "aware": lambda at: at,
    "header": lambda at: email.utils.format_datetime(at, usegmt=True),
    "naive": lambda at: at.replace(tzinfo=None),
}


@pytest.mark.parametrize("form", FORMS)
def test_retry_after_date(form: str) -> None:
    """A date gives the seconds until then."""
    soon = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=100)
    seconds = parse_retry_after(FORMS[form](soon))
    assert seconds is not None
    assert 0 < seconds <= 100


# The rules of the wire format's page in the test's own words: each is a condition on its left, tried in order.

NOTHING_APPLIED = {
    "invalid_argument", "not_found", "already_exists", "permission_denied", "unauthenticated",
    "failed_precondition", "out_of_range", "unimplemented", "resource_exhausted",
}  # fmt: skip
CHANGE = {"invalid_argument", "not_found", "already_exists", "failed_precondition", "out_of_range"}
FOR_THE_USER = {"unauthenticated", "permission_denied", "unimplemented"}
CODES = ["GONE", "INTERNAL_ERROR", "INVALID_OUTPUT", "TOOL_ERROR", "RETURNED_ERROR", "CLIENT_CANNOT_ASK"]


def expected(
    code: str, category: str, effect: str | None, said: str | None, basis: str, can_help: bool, untouched: bool
) -> tuple[str, bool, str | None]:
    proven = True
    if effect == "read" or untouched:
        outcome = "not_applied"
    elif basis == "category":
        outcome, proven = ("not_applied" if category in NOTHING_APPLIED else "unknown"), False
    else:
        outcome, proven = said or "unknown", basis != "upstream"
    retryable = can_help and (effect in ("read", "idempotent") or (outcome == "not_applied" and proven))
    own_words = code in ("TOOL_ERROR", "RETURNED_ERROR")
    rules: list[tuple[bool, str | None]] = [
        (retryable, "may be repeated"),
        (outcome == "applied" and effect == "write", "it took effect, check before any further call"),
        (outcome == "partial", "part of it took effect, check before any further call"),
        (category in FOR_THE_USER or code == "CLIENT_CANNOT_ASK", "stop and tell the user"),
        (
            outcome == "unknown" and effect == "write" and not own_words,
            "it may have taken effect, check before any further call",
        ),
        (code in ("INTERNAL_ERROR", "INVALID_OUTPUT"), "stop and tell the user"),
        (own_words, None),
        (outcome == "unknown" and effect is None, "repeat it only if it changes nothing"),
        (outcome == "not_applied" and category in CHANGE, "change the call first"),
        (outcome == "not_applied", "do not repeat it unchanged"),
        (True, None),
    ]
    return outcome, retryable, next(advice for holds, advice in rules if holds)


@pytest.mark.parametrize("basis", get_args(Basis))
@pytest.mark.parametrize("effect", [*get_args(Effect), None])
def test_table(basis: Basis, effect: Effect | None) -> None:
    """Outcome, `retryable` and advice follow the page's rules for every code, category, outcome and evidence."""
    said = (None, *get_args(Outcome))
    cases = itertools.product(CODES, get_args(Category), said, (False, True), (False, True))
    seen = set()
    for code, category, outcome, can_help, untouched in cases:
        found = judge(
            code=code, category=category, effect=effect, outcome=outcome, basis=basis, can_help=can_help,
            untouched=untouched,
        )  # fmt: skip
        wanted = expected(code, category, effect, outcome, basis, can_help, untouched)
        assert (found.outcome, found.retryable, found.advice) == wanted, (code, category, outcome, can_help, untouched)
        assert found.advice is None or re.match(ADVICE_PATTERN, found.advice)
        seen.add(found.advice)
    assert len(seen) > 3


@pytest.mark.parametrize("effect", [*get_args(Effect), None])
def test_with_a_key(effect: Effect | None) -> None:
    """A failure that may have applied something stays with the key: only `not_applied` may be repeated with it."""
    for outcome in get_args(Outcome):
        for basis in get_args(Basis):
            found = judge(
                code="GONE",
                category="not_found",
                effect=effect,
                outcome=outcome,
                basis=basis,
                can_help=True,
                keyed=True,
            )
            assert found.retryable == (found.outcome == "not_applied"), (outcome, basis)


class Librarys(ValueError):
    """Its entry is one of `ValueError`, which isn't the author's own."""


def test_whose_category_it_is() -> None:
    """A category says that nothing was applied only for a class of the author's own, raised itself."""
    errors = one(ValueError, code="BAD_VALUE", category="invalid_argument")
    errors.add(Base, code="GONE", category="not_found", message="Gone.")
    errors.add("httpx.HTTPStatusError", code="REFUSED", category="not_found", message="Refused.")
    outcomes = {
        "own": say(errors, Base()).outcome,
        "subclass of own": say(errors, Child()).outcome,
        "cause": say(errors, linked(Other(), cause=Base())).outcome,
        "standard library's": say(errors, ValueError("x")).outcome,
        "standard library's base": say(errors, Librarys("x")).outcome,
        "group": say(errors, Group("x", [Base()])).outcome,
        "context": say(errors, linked(Other("it says text of it"), context=Worded("text of it"))).outcome,
        "said": say(one(ValueError, outcome="not_applied"), ValueError("x")).outcome,
    }
    assert outcomes == {
        "own": "not_applied",
        "subclass of own": "not_applied",
        "cause": "not_applied",
        "standard library's": "unknown",
        "standard library's base": "unknown",
        "group": "unknown",
        "context": "unknown",
        "said": "not_applied",
    }
    assert [entry.own for _, entry in errors.entries] == [False, True, False]


@pytest.mark.parametrize(
    ("wait", "advice"), [(2, "2 s"), (0.25, "0.3 s"), (dt.timedelta(hours=1), "3600 s"), (lambda e: "7", "7 s")]
)
def test_advice_to_wait(wait: Any, advice: str) -> None:
    """The wait is in the text, and only where a repeat is safe."""
    errors = one(category="unavailable", retryable=True, retry_after=wait)
    read, write = say(errors, Base(), "read"), say(errors, Base(), "write")
    assert read.text.endswith(f"[tool failed; may be repeated after {advice}; request_id: {read.request_id}]")
    assert (write.retry_after, write.retryable) == (None, False)
