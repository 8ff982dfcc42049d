"""Secrets and internals in what a server sends: the kind and the place, never the text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from iserror.check.notes import Audit
from iserror.check.session import Answer
from iserror.client.outcome import ToolFailed
from iserror.redact import redact, redact_text
from iserror.redact.rule import MARK, Profile
from iserror.redact.text import CAP

_KINDS: Final = re.compile(re.escape(MARK) + r"(\w{1,40})\]")
_BOUNDS: Final = {"size", "cycle", "int"}
"""Markers of parts that the redactor doesn't read."""


def note_leaks(audit: Audit, answer: Answer, tool: str) -> None:
    """Note secrets in an answer, and internals in an error.

    A success may contain paths and SQL, since they can be the tool's purpose.
    """
    received = answer.received
    if not isinstance(received, dict):
        return
    is_error = isinstance(answer.outcome, ToolFailed) or "error" in received
    for where, part, by_key in parts(received):
        for check, kind in leaked(part, by_key=by_key, is_error=is_error):
            audit.add(check, f"{kind} in {where}", tool, kind)


def leaked(part: object, *, by_key: bool, is_error: bool) -> Iterator[tuple[str, str]]:
    """Yield the leaks in a part of an answer: the check, and the kind."""
    secrets: set[str] = set()
    profiles: tuple[Profile, ...] = ("log", "model") if is_error else ("log",)
    for profile in profiles:
        kinds = _kinds(part, profile, by_key) - secrets
        secrets |= kinds
        for kind in sorted(kinds):
            yield "leaks.secret" if profile == "log" else "leaks.insides", kind


def parts(received: dict[str, Any]) -> Iterator[tuple[str, object, bool]]:
    """Yield the parts of an answer: the place, the value, and whether its keys describe the values.

    The keys of schemas don't.
    """
    error, result = received.get("error"), received.get("result")
    if isinstance(error, dict):
        yield "the error's message", error.get("message"), False
        yield "the error's data", error.get("data"), True
    elif isinstance(result, dict):
        for key, value in result.items():
            if key == "content" and isinstance(value, list):
                for number, block in enumerate(value):
                    yield f"content[{number}]", block, False
            else:
                yield key, value, key == "structuredContent"
    elif "method" in received:
        yield "a notification", received.get("params"), True


def _kinds(value: object, profile: Profile, by_key: bool) -> set[str]:
    if by_key:
        value = _readable(value, 0)
        before, after = Counter(_markers(value)), Counter(_markers(redact(value, profile=profile)))
        return set(after - before) - _BOUNDS
    kinds: set[str] = set()
    for text in _texts(value):
        kinds |= _kinds_in(text, profile)
    return kinds


@lru_cache(maxsize=4096)  # Answers repeat texts: a listing is the same in each revision.
def _kinds_in(text: str, profile: Profile) -> frozenset[str]:
    text = _without_examples(text)
    before, after = Counter(_KINDS.findall(text)), Counter(_KINDS.findall(redact_text(text, profile=profile)))
    return frozenset(after - before) - _BOUNDS


def _markers(value: object) -> list[str]:
    return _KINDS.findall(json.dumps(value))


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, without the base64 of blobs."""
    waiting = [value]  # A loop instead of recursion, since an answer may be nested deeply.
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += (inner for key, inner in item.items() if not _is_blob(item, key, inner))
        elif isinstance(item, list):
            waiting += item


def _readable(value: object, depth: int) -> object:
    """Return a copy of a value without blobs and examples. Levels that the redactor doesn't read are left out."""
    if isinstance(value, str):
        return "" if _is_example(value) else _without_examples(value)
    if isinstance(value, dict) and depth < MAX_LEVELS:
        inside = ((key, inner) for key, inner in value.items() if not _is_blob(value, key, inner))
        return {key: _readable(inner, depth + 1) for key, inner in inside}
    if isinstance(value, list) and depth < MAX_LEVELS:
        return [_readable(inner, depth + 1) for inner in value]
    return None if isinstance(value, (dict, list)) else value


# --- what only looks like a credential -----------------------------------------------------------------------

MAX_LEVELS: Final = 20

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_DATA_URI: Final = re.compile(r"data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w.=\"-]{1,80}){0,8},[^\s\"'<>)]*", re.IGNORECASE)


def _is_blob(holder: dict[str, Any], key: str, value: object) -> bool:
    """Return True for base64 that the protocol puts into a field: an image, a sound, a file."""
    if not isinstance(value, str):
        return False
    if key == "blob":
        return "uri" in holder or _is_base64(value)
    return key == "data" and ("mimeType" in holder or _is_base64(value))


def _is_base64(text: str) -> bool:
    return _BASE64.fullmatch("".join(text.split())) is not None


_VALUE: Final = (
    r"(?P<value>\"[^\"\n]{0,100}\"|'[^'\n]{0,100}'|`[^`\n]{0,100}`|<[^<>\n]{1,100}>|\{{1,2}[^{}\n]{0,100}\}{1,2}"
    r"|\$\{[^{}\n]{1,100}\}|\[[^\[\]\n]{1,100}\]|[^\s\"'`<>,;&)\]}|]{1,100})"
)
_TERM: Final = (
    r"(?:passw(?:or)?d|passphrase|pwd|pass|secret|token|credentials?|auth|key|authorization|cookie|session|signature|dsn"
    r"|pin|otp|code)"
)
_ASSIGNED: Final = (
    re.compile(
        rf"(?<![\w.-])[\w.-]{{0,60}}?{_TERM}[\w-]{{0,20}}"
        rf"[\"'`]?\s{{0,3}}(?:[=:]{{1,2}}|=>)\s{{0,3}}(?:bearer |basic |token )?{_VALUE}",
        re.IGNORECASE,
    ),
    re.compile(rf"(?<![\w.-])(?:--?[\w-]{{0,40}}?{_TERM}|bearer|basic) {{1,3}}{_VALUE}", re.IGNORECASE),
)
"""A name of a credential, and what is written as its value."""

_DOCUMENTED: Final = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{8,60}EXAMPLE(?:KEY)?(?![A-Za-z0-9/+])")
"""The credentials of AWS's own documentation."""

_USER_INFO: Final = re.compile(r"[a-z][a-z0-9+.-]{1,30}://[^\s/@:]{0,60}:(?P<value>[^\s/@]{1,60})@", re.IGNORECASE)

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_EXAMPLE_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
a abc access account admin an any api app apikey auth authorization base basic bearer bot change changeme client
code cookie credential credentials cursor current db default demo dummy empty enter env example fake false foo
bar baz for from generated github goes gitlab google here id in insert int integer is jwt key keys login me my
mytoken name new next none null number oauth of old openai optional or page param pass passphrase passwd
password passwords personal pin placeholder private pwd redacted refresh replace required sample secret secrets
session signature slack some string str stripe test text the this to todo token tokens true type unset user
userpass username valid value values var variable webhook with x xx xxx xxxx xxxxx xxxxxx xxxxxxxx you your
yours
""",
    )
)
"""Words that stand for a credential where a text shows how a call is written."""


def _is_example(value: str) -> bool:
    """Return True for text that only holds the place of a value: `<your token>`, `...`, `PASSWORD`, `${TOKEN}`."""
    bare = value.strip().strip("\"'`").strip()
    for opening, closing in ("<>", "{}", "[]", "()", "%%"):
        if len(bare) > 2 and bare.startswith(opening) and bare.endswith(closing):
            return all(word.isalpha() or word.isspace() for word in re.split(r"[\s_.\-{}<>|/]+", bare[1:-1]) if word)
    if re.fullmatch(r"\$\{[\w:.-]{1,80}\}|\$[A-Za-z_]\w{0,60}|\$\{\{[\w\s.-]{1,80}\}\}|%\(?\w{0,40}\)?s?", bare):
        return True
    if sum(char.isalnum() for char in bare) < 3 or re.fullmatch(r"[\w-]{1,12}(?:\.{3}|…)", bare):
        return True
    if _DOCUMENTED.fullmatch(bare):
        return True
    bare = re.sub(r"(?<!\d)(?:1234?5?6?7?8?9?0?|0{1,8})(?!\d)", "", bare)
    words = [word for part in re.split(r"[\W_]+", bare) for word in _WORDS.findall(part)]
    letters = sum(map(len, words))
    if letters < sum(char.isalnum() for char in bare):  # with digits, or in another alphabet, it may be real
        return False
    return all(word.lower() in _EXAMPLE_WORDS or set(word.lower()) == {"x"} for word in words)


def _without_examples(text: str) -> str:
    """Return a text without data URIs, and with nothing where it shows the place of a credential."""
    text = text[: 2 * CAP]  # The redactor doesn't read further.
    if "data:" in text.lower():
        text = _DATA_URI.sub("data:", text)
    for assigned in (*_ASSIGNED, _USER_INFO):
        text = assigned.sub(_emptied, text)
    return _DOCUMENTED.sub("<>", text)


def _emptied(m: re.Match[str]) -> str:
    if not _is_example(m["value"]):
        return m[0]
    start, end = m.span("value")
    return f"{m[0][: start - m.start()]}<>{m[0][end - m.start() :]}"
