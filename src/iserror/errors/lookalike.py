"""Errors that a tool returns as a success: which values read like one, and what they say.

Structure counts first, words only where a text begins with them. A text may be about errors, a log may be full of them,
and a look-up that finds nothing has worked: all of these are successes.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, cast

from iserror.support.look import look
from iserror.support.sdk import either, is_result_type

MAX_TEXT: Final = 500
"""Texts of more characters are contents, not complaints."""

MAX_LINES: Final = 8
"""And so are texts of more lines."""

MAX_JSON: Final = 20_000
"""The most characters of a text that is parsed."""

MAX_BLOCKS: Final = 20
"""The most text blocks of a result that are looked at."""

MAX_ERRORS: Final = 10
"""The most messages of a list of errors that are told."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a value that reads like an error says."""

    text: str
    partial: bool = False
    """Whether there is an answer beside it."""


def looks_like_an_error(value: Any) -> bool:
    """Return True for a returned value that reads like an error although it is a success: the default predicate.

    A partial answer, with results beside the error, is none.
    """
    found = read(value)
    return found is not None and not found.partial


def read(value: Any) -> Reading | None:
    """Return what a returned value that reads like an error says, or None. Never raises.

    Args:
        value: What the tool returned: a text, JSON data, a model, a dataclass, content blocks, a host's result.
    """
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind in (int, float, bool, bytes, type(None)):
        return None
    return look(_value, None, value)


def words_in(value: Any) -> str:
    """Return what a value says that an author's predicate takes for an error."""
    found = read(value)
    if found is not None:
        return found.text
    if isinstance(value, str):
        return value
    fields = look(_fields, None, value)
    said = look(_message, "", fields) if fields is not None else ""
    return said or "\n".join(look(lambda: list(_texts(value)), [])) or "The tool returned an error."


def _value(value: Any) -> Reading | None:
    if isinstance(value, str):
        return _text(str.__str__(value))
    fields = _fields(value)
    if fields is not None:
        return _structure(fields)
    if is_result_type(cast(Hashable, type(value))):
        structured = either(value, "structured_content", "structuredContent")
        if isinstance(structured, dict):
            inside = structured["result"] if structured.keys() == {"result"} else structured
            found = read(inside) if isinstance(inside, (str, dict, list)) else None
            if found is not None:
                return found
        return _blocks(value.content)
    if isinstance(value, (list, tuple)):
        if len(value) == 1 and not _is_block(value[0]):
            fields = _fields(value[0])
            return None if fields is None else _structure(fields)
        return _blocks(value)
    return _blocks([value]) if _is_block(value) else None


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of an object; None for anything else."""
    if isinstance(value, dict):
        return None if _is_block(value) else value
    kind = type(value)
    names = getattr(kind, "model_fields", None)
    if isinstance(names, dict) and not _is_block(value) and not is_result_type(cast(Hashable, kind)):
        return {name: getattr(value, name, None) for name in names}
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(kind)}
    return None


# --- structure -------------------------------------------------------------------------------------------------

_FLAGS: Final = ("success", "ok", "succeeded", "is_success", "isSuccess")
_FAILED: Final = frozenset({"error", "failed", "failure"})
_ERRORS: Final = ("error", "errors")
_NAMES: Final = (
    *_ERRORS,
    "message",
    "error_message",
    "errorMessage",
    "error_msg",
    "err",
    "msg",
    "detail",
    "details",
    "reason",
    "exception",
)
"""Where the text is, the best first."""

_BESIDE: Final = frozenset(
    {
        *_NAMES,
        *("errorType", "error_type", "error_code", "errorCode", "code", "hint", "status", "status_code", "statusCode"),
        *("type", "request_id", "requestId", "suggestion", "timestamp", "traceback", "success", "ok", "isError"),
    }
)
"""What may have a value beside an error that no flag marks."""

_NO_ERROR: Final = re.compile(
    r"\W*(?:(?:no|without|zero|0)\s+(?:\w+\s+)?(?:errors?|failures?|problems?|issues?)\b.*|no|none|nil|null|n/?a|false"
    r"|ok|okay|nothing|success\w*)\W*",
    re.IGNORECASE | re.DOTALL,
)


def _structure(fields: Mapping[Any, Any]) -> Reading | None:
    flagged = _is_flagged(fields)
    if not flagged and not any(fields.get(name) for name in _ERRORS):
        return None
    said = _message(fields)
    if not said:
        return None
    if flagged:
        answers = (value for key, value in fields.items() if key not in _BESIDE)
        return Reading(said, any(value and isinstance(value, (list, dict, tuple)) for value in answers))
    error = next(fields[name] for name in _ERRORS if fields.get(name))
    if isinstance(error, list) and "data" in fields and fields["data"] is None:  # GraphQL
        error = next((item for item in error[:MAX_ERRORS] if isinstance(item, Mapping)), error)
    told = _said(error) if isinstance(error, Mapping) else error
    if not isinstance(told, str) or _NO_ERROR.fullmatch(told) or (len(told.split()) < 2 and told is error):
        return None
    has_others = any(_has_value(value) for key, value in fields.items() if key not in _BESIDE)
    return None if has_others else Reading(said)


def _is_flagged(fields: Mapping[Any, Any]) -> bool:
    if any(fields.get(flag) is False for flag in _FLAGS):
        return True
    if fields.get("error") is True or fields.get("isError") is True or fields.get("is_error") is True:
        return True
    status = fields.get("status")
    return isinstance(status, str) and status.strip().casefold() in _FAILED


def _has_value(value: object) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {} and value != 0


def _message(fields: Mapping[Any, Any]) -> str:
    """Return the text that names a failure; "" if there is none."""
    return next((said for name in _NAMES if (said := _said(fields.get(name)))), "")


def _said(value: object, depth: int = 0) -> str:
    if isinstance(value, str):
        return "" if _NOTHING.fullmatch(value.strip()) else value.strip()
    if depth < 2 and isinstance(value, Mapping):
        return next((said for name in _NAMES if (said := _said(value.get(name), depth + 1))), "")
    if depth < 2 and isinstance(value, (list, tuple)):
        found = [said for item in value[:MAX_ERRORS] if (said := _said(item, depth + 1))]
        return "; ".join(found)
    return ""


# --- blocks ------------------------------------------------------------------------------------------------------


def _is_block(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("type") == "text" and isinstance(value.get("text"), str) and len(value) <= 4
    return getattr(value, "type", None) == "text" and isinstance(getattr(value, "text", None), str)


def _texts(blocks: Any) -> Iterator[str]:
    for block in list(blocks)[:MAX_BLOCKS] if isinstance(blocks, (list, tuple)) else ():
        if _is_block(block):
            yield block["text"] if isinstance(block, dict) else block.text


def _blocks(blocks: Any) -> Reading | None:
    """Return what the text blocks of a result say; it is partial if another text says no error."""
    found = []
    others = len(blocks) > MAX_BLOCKS
    for text in _texts(blocks):
        reading = _text(text)
        if reading is not None:
            found.append(reading)
        elif text.strip():
            others = True
    if not found:
        return None
    return Reading("\n".join(reading.text for reading in found), others or any(reading.partial for reading in found))


# --- texts -------------------------------------------------------------------------------------------------------

_JSON_STARTS: Final = ("{", "[")
_GATE: Final = re.compile(
    r"error|fail|can(?:not|'t|’t|\snot)|could|unable|exception|traceback|denied|invalid|fatal|not\sable", re.IGNORECASE
)


def _text(text: str) -> Reading | None:
    start = text[:20].lstrip()
    if start.startswith(_JSON_STARTS) and len(text) <= MAX_JSON:
        data = _parsed(text.strip())
        if data is not None:
            fields = data[0] if isinstance(data, list) and len(data) == 1 else data
            return _structure(fields) if isinstance(fields, dict) and not _is_block(fields) else None
    if len(text) >= MAX_TEXT or text.count("\n") >= MAX_LINES or not _GATE.search(text[: MAX_TEXT // 2]):
        return None
    return Reading(text.strip()) if reads_like_an_error(text) else None


def _parsed(text: str) -> Any:
    if not any(f"{quote}{name}" in text for quote in ('"', "'") for name in ("err", "succe", "ok", "status", "isE")):
        return None
    data = look(json.loads, None, text)
    if data is None and text[:2] in ("{'", "[{") and len(text) <= MAX_TEXT * 4:  # `str()` of a dict
        data = look(ast.literal_eval, None, text)
    return data


def _choice(words: str) -> str:
    return "|".join(words.split()).replace("+", r"\s")


_DO: Final = _choice(
    """abort accept access acquire activate add allocate analy[sz]e append apply archive assign attach authenticate
    authori[sz]e backup bind build calculate call cancel capture change check checkout clean clear click
    clone close collect commit compare compile complete compress compute configure confirm connect construct
    contact convert copy count create deactivate decode decompress decrypt delete deploy describe deserialize
    detach detect determine disable disconnect dispatch display download drop dump edit enable encode encrypt
    enqueue enumerate establish evaluate exec execute expand export extract fetch fill filter find finish flush
    format forward generate get grant handle import index init initiali[sz]e insert inspect install
    instantiate interpret invoke join kill launch link list listen load locate lock log login
    merge modify monitor mount move navigate negotiate obtain open overwrite parse patch pause perform
    ping poll post prepare preview print process produce provide provision publish pull purge push put
    query queue reach read rebuild receive recogni[sz]e reconnect record recover redirect refresh register
    release reload remove rename render reopen replace reply report request reserve reset resize resolve respond
    restart restore resume retrieve retry return revert revoke rollback rotate run sample sanitize save
    scale scan schedule scrape scroll search seek select send serialize serve set sign sort spawn
    split start stat store stream submit subscribe summari[sz]e switch sync synchroni[sz]e tag
    terminate test toggle track train transcribe transfer transform translate trigger truncate type
    undo unlock unmount unpack unregister unsubscribe unzip update upgrade upload upsert use validate verify
    write zip
    """
)
_SUBJECTS: Final = _choice(
    """access action api api+call authentication authori[sz]ation command connection conversion creation decoding
    deletion download encoding execution export extraction fetch generation import index(?:ing)?
    initiali[sz]ation insert invocation job+submission load(?:ing)? login lookup operation parsing query
    read(?:ing)? request retrieval search subscription sync tool tool+call transaction update upload validation
    write
    """
)
_KINDS: Final = _choice(
    """access api application argument assertion attribute auth authentication authori[sz]ation aws azure
    bad+request browser client command config configuration connection conversion critical data database db
    decode dns docker elasticsearch encoding execution fatal fetch file filesystem gcp git github google graphql
    grpc http httpx import index input internal internal+server invalid io jira json key kubernetes login lookup
    memory mongo(?:db)? name network neo4j not+found opensearch os parameter parse(?:r)? parsing path permission
    postgres(?:ql)? processing python query rate+limit read redis request resource response runtime s3 schema
    search server service slack smtp socket sql sqlite ssh ssl storage syntax system timeout tls tool transport
    type unexpected unhandled unicode unknown upload upstream url usage validation value write xml yaml
    """
)
_ABOUT: Final = (
    "in|for|with|and|of|at|is|are|as|to|vs|guide|guidelines|strategies|strategy|patterns|practices|basics|policy|"
    "policies|middleware|techniques|rules|methods|best|codes?|systems?|tools?|made|tips"
)
_TOPICS: Final = "handling|reporting|logging|tracking|monitoring|correcting|budgeting|modell?ing|messaging|catching"
_WORD: Final = r"[a-z][a-z]"

_STARTS: Final = re.compile(
    rf"""
    (?:an?\s+|the\s+|❗\s*)?
    (?:
      (?:(?:{_KINDS})\s+){{0,2}}(?:error|exception)
      (?:
        \s*(?:\([\w\s.-]{{1,40}}\)|\[[\w\s.-]{{1,40}}\]|\#?\d{{1,6}}|code\s+[\w-]{{1,20}})?
        \**\s*[:\u2013\u2014]\s*(?P<said>\S)
        |\s+from\s+server\s*\([^)\n]{{1,60}}\)\s*:\s*\S
        |\s+-\s+{_WORD}
        |\s+(?:in|from|with)\s+[^\s:]*[_.('"`/\d][^\s:]*\s*:\s*\S
        |\s+(?:has\s+)?(?:occurred|happened|while|during|when|invoking|trying)\b
        |\s+(?!(?:{_TOPICS})\b)[a-z]{{2,20}}ing\s+['"`\w/(<{{\[]
        |\s+(?:{_TOPICS})\s+(?!(?:{_ABOUT})\b)[^:\n]{{2,80}}:\s
      )
      |(?:[\w.]{{1,80}}\.)?(?-i:[A-Z]\w{{0,60}}(?:Error|Exception))\b(?:\s*\([^)\n]{{0,80}}\))?\s*:\s*(?P<told>\S)
      |(?:\w{{1,30}}\s){{0,3}}?failed\s+to\s+(?-i:{_DO})\b
      |(?:we\s+|i\s+)?(?:cannot|can\s?not|can['’]?t|could\s?not|couldn['’]?t|(?:was\s+|am\s+|is\s+)?(?:unable|not\s+able)\s+to)
        \s+(?-i:{_DO})\b
      |(?:\w{{1,20}}\s){{0,2}}?(?:{_SUBJECTS})\s+(?:has\s+)?failed(?:\s*:\s*(?P<why>\S)|\s+(?:with|due|because)\b)
      |failed\s*:\s*(?={_WORD})
      |(?:access|permission)\s+(?:is\s+|was\s+)?denied(?=\s*(?:[:.!\u2013\u2014-]|\Z|(?:to|for|when|while)\b))
      |invalid\s+(?:arguments?|inputs?|parameters?|requests?|path|url|query)\s*:\s*\S
      |fatal\s*:\s*(?={_WORD})
      |traceback\s+\(most\s+recent\s+call\s+last\)
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MARKUP: Final = re.compile(r"[\s>#*_~❌⚠️🚫🛑✗✘❗×!]*")
_LEVELS: Final = re.compile(
    r"^\W{0,3}(?:\d\S{4,30}\s+(?:\d\S{4,20}\s+)?)?\W?(?:info|debug|warn|warning|error|trace|notice|fatal)\b",
    re.IGNORECASE | re.MULTILINE,
)
_HEADING: Final = re.compile(r"\s*(?:#{1,6}\s[^\n]{1,200}|\*\*[^\n*]{1,200}\*\*:?|[^\n]{1,80}\n[=-]{3,})\s*\n\s*\n?")
_ABOUT_IT: Final = re.compile(
    r"\bhow\s+to\s+(?:fix|solve|handle|avoid)\b|\bwhat\s+(?:it|this)\s+means\b|\bsee\s+(?:chapter|page|section)\b"
    r"|\b0\s+of\s+\d|\A[^.!\n]{0,200}\?|:\s*an?\s+\w+\s+of\b",
    re.IGNORECASE,
)
"""What a text says that explains an error, counts none or asks."""

_NOTHING: Final = re.compile(r"(?:none|null|nil|n/?a|false|nothing)\W*\Z", re.IGNORECASE)
_PROSE: Final = re.compile(
    r"\b(?:is|are|was)\s+(?:an?|the|one\s+of)\b[^.]{0,200}\b(?:that|which|code|kind|message|status)\b", re.IGNORECASE
)


def reads_like_an_error(text: str) -> bool:
    """Return True if a short text begins like a complaint, or the paragraph after its heading does."""
    if len(_LEVELS.findall(text)) > 1:  # a log
        return False
    if _begins(text):
        return True
    heading = _HEADING.match(text)
    return heading is not None and _begins(text[heading.end() :])


def _begins(text: str) -> bool:
    start = _MARKUP.match(text)
    found = _STARTS.match(text, start.end() if start is not None else 0)
    if found is None:
        return False
    if _ABOUT_IT.search(text):
        return False
    for group in ("said", "why", "told"):
        if found.group(group) is not None:
            rest = text[found.start(group) :].partition("\n")[0].strip("* \t")
            # "Error: 0.1 %" and "Errors: none" are figures, and what tells what an error is explains it.
            return bool(re.search(_WORD, rest, re.IGNORECASE)) and not _NOTHING.match(rest) and not _PROSE.search(rest)
    return True
