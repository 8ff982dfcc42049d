"""SQL statements, their parameters, and what databases quote of both."""

from __future__ import annotations

from collections.abc import Iterator

from iserror.redact.rule import Rule, model_rule, regex

_TABLE = r"(?:[\w.\"`\[\]]|\\\"){1,200}"
# Keyword: what must follow it.
_SQL = {
    "select": r"(?:\s|\\n){1,40}(?P<cols>(?:[^;sS]|"
    r"[sS](?!(?i:elect)(?:\s|\\n))){1,600}?)\s{1,40}(?P<from>(?i:from))\s{1,40}[\w\"`\[({.@#:%]",
    "insert": r"(?i:\s{1,9}(?:OR\s\w{1,40}\s{1,9}|IGNORE\s{1,9})?INTO\s{1,9}" + _TABLE + r"\s{0,9}(?:\(|VALUES|"
    r"SELECT|DEFAULT))",
    "replace": r"(?i:\s{1,9}INTO\s{1,9}" + _TABLE + r"\s{0,9}(?:\(|VALUES|SELECT))",
    "update": r"(?i:\s{1,9}(?:ONLY\s)?"
    + _TABLE
    + r"(?:\s(?:AS\s)?\w{1,30})?\s{1,40}SET\s{1,40}"
    + _TABLE
    + r"\s{0,9}=)",
    "delete": r"(?P<from>\s{1,9}(?i:from))\s{1,9}" + _TABLE,
    "merge": r"(?i:\s{1,9}(?:INTO\s{1,9})?[\w\"`\[](?=[^;]{1,200}\bUSING\b))",
    "with": r"(?i:\s{1,9}(?:RECURSIVE\s)?\w{1,60}(?:\s{0,9}\([^()]{1,200}\))?\s{1,9}AS\s{1,9}(?:"
    r"(?:NOT\s)?MATERIALIZED\s)?\()",
    "grant": r"(?-i:\s{1,9}[A-Z, ]{3,60}\s{1,9}ON\s{1,9}\w)",
    "upsert": r"(?i:\s{1,9}INTO\s{1,9}" + _TABLE + r"\s{0,9}\()",
    "show": r"(?-i:\s{1,9}(?:FULL |CREATE |INDEX |TABLE )[A-Z ]{0,20}(?:FROM\s|TABLE\s)?[`\w])",
    "match": r"(?-i:\s{1,9}\([\w:` {},.'\"-]{1,200}\)(?=[^\n]{1,400}\b(?:RETURN|DELETE|SET|WHERE|CREATE)\b))",
    "pragma": r"\s{1,9}\w{1,40}(?:\.\w{1,40})?\s?[(=]",
    "copy": r"(?-i:\s{1,9}" + _TABLE + r"\s?\([^()\n]{1,400}\)\s{1,9}(?:FROM|TO)\s)",
    "refresh": r"(?i:\s{1,9}MATERIALIZED\s{1,9}VIEW\s)",
    "explain": r"(?i:\s{1,9}(?:ANALYZE\s{1,9}|\([^()\n]{1,80}\)\s{1,9})?(?:SELECT|UPDATE|DELETE|INSERT|WITH)\s)",
    "set": r"(?-i:\s{1,9}(?:LOCAL|SESSION|GLOBAL)\s{1,9}\w{1,60}\s?(?:=|TO)\s)",
    "begin": r"(?-i:\s{1,9}[\w.]{2,80}\([^()\n]{0,200}\);)",
    "lock": r"(?-i:\s{1,9}TABLES?\s{1,9}\w)",
    "declare": r"(?-i:\s{1,9}@?\w{1,60}\s{1,9}(?i:CURSOR|INT|VARCHAR|NVARCHAR|TABLE)\b)",
    "exec": r"(?i:(?:UTE)?\s{1,9}(?:sp_|dbo\.|@)\w)",
    "call": r"(?-i:\s{1,9}(?=\w{1,60}[._])\w{1,60}(?:\.\w{1,60})?\()",
}
_DDL = (
    r"(?i:\s{1,9}(?:OR\sREPLACE\s{1,9})?(?:UNIQUE\s|TEMP(?:ORARY)?\s|MATERIALIZED\s)?(?:TABLE(?:\sONLY)?|INDEX|VIEW|"
    r"DATABASE|SCHEMA|SEQUENCE|"
    r"TRIGGER|FUNCTION|PROCEDURE|TYPE|USER|ROLE|EXTENSION)\s{1,9}(?:IF\s(?:NOT\s)?EXISTS|CONCURRENTLY|"
    r"[\w\"`\[\]]{1,100}[._\"`]\w|"
    + _TABLE
    + r"(?:\s{0,9}\(|\s{1,9}(?:ADD|DROP|ALTER|RENAME|MODIFY|IDENTIFIED|PASSWORD|WITH PASSWORD|ON|CASCADE|RESTRICT|WITH|"
    r"AS\s\(?SELECT|OWNER|SET\s\()|(?=\s{0,9}(?:[;\"'\n]|\Z)))))"
)
_SQL.update(dict.fromkeys(("create", "alter", "drop", "truncate"), _DDL))
_SQL_EVIDENCE = (
    r"[wW](?i:here\s{1,40}[\w.\"`(]{1,200}\s{0,40}(?:=|<|>|!|in\b|like\b|is\s{1,40}(?:not\s{1,40})?null\b|between\b))|"
    r"[jJ](?i:oin\s{1,40}\S{1,80}\s{1,40}(?:\w{1,40}\s{1,40})?(?:on|using)\b)|"
    r"[oO](?i:rder\s{1,40}by\s{1,40}\w)|[gG](?i:roup\s{1,40}by\s{1,40}\w)|[lL](?i:imit\s{1,40}[\d?$:%])|"
    r"[uU](?i:nion\s{1,40}(?:all\s{1,40})?select)"
)
_SQL_REST = (
    r"[^\n;]{0,8192}(?:;?[ \t]*\n(?:[ \t]+\S|(?i:from|where|and|or|join|left|inner|right|order|group|"
    r"limit|values|set|having|union|returning|on|select)\b)[^\n;]{0,4096}){0,60};?"
)
# Excerpts of statements, rows and parameters that databases quote.
_EXCERPT = (
    r"(?i:query|statement|sql)\\?[\"']?\s?[=:]\s?(?P<q>\\?[\"'])(?=(?i:select|insert|update|delete|with|create|alter|drop|merge)\s)"
    r"(?P<x1>(?:(?!(?P=q))(?:[^\\\n]|\\.)){3,4000})|"
    r"(?<=LINE \d: )(?P<v>[^\n]{3,1000})|(?<=LINE \d\d: )(?P<w>[^\n]{3,1000})|"
    r"\[(?:SQL|query): (?!\[redacted)(?P<x>(?:[^\]\n]|\](?!\s{0,40}(?:\n|\Z|\())){3,4000})"
)
_VALUES = (
    r"[kK]ey \((?:[^()\n]|\([^()\n]{0,100}\)){1,200}\)=\((?P<v>[^\n]{1,1000}?)\)(?= (?:already exists|is|"
    r"conflicts|does)|\.|\Z|\")|"
    r"[rR]ow contains \((?P<w>[^\n]{1,2000}?)\)(?=\.|\Z|\n|\")|"
    r"Duplicate entry '(?P<x>[^'\n]{1,500})' for key|"
    r"dup key: \{ ?(?P<x1>[^{}\n]{1,500}?) ?\}|"
    r"binding parameter \[\d{1,4}\] as \[\w{1,40}\] - \[(?P<x2>[^\n]{0,1000}?)\](?=\s|\Z)|"
    r"(?:\[parameters: |Parameters=\[|Bind vars: |with params |"
    r"\(args: )(?!\[redacted)(?P<x3>[\[(@{'](?:(?:[^\n\[]|\[(?!parameters)){1,4000}?"
    r"(?=\]\s{0,40}(?:\n|\Z)|\], |\Z|\n|\)\s{0,40}\Z|\[parameters)|[^\n]{4000}))|"
    r"parameters: (?P<x4>\$1 = [^\n]{1,2000})|"
    r"(?<=\[redacted:sql\]\n)params: (?P<x5>[^\n]{1,2000})"
)
# Words that end a statement inside a message about it.
_SAID = (
    r"\s(?:failed|was (?:denied|rejected|not)|is not (?!null)|record not found|returned|timed out|could not|"
    r"cannot)\b|\s: \w|, line \d|\.\s\("
)


class _Evidence:
    """A search for words that only SQL has, which reads little of a text twice."""

    def __init__(self, text: str, pattern: str) -> None:
        self.text, self.search = text, regex(pattern).search
        self.plain = 0
        """The text before this position has no evidence."""

    def follows(self, at: int) -> bool:
        """Return True if evidence follows within some 300 characters."""
        if at + 300 <= self.plain:
            return False
        # What begins shortly before `plain` may be longer than the window was.
        if self.search(self.text, max(at, self.plain - 120), at + 340):
            return True
        self.plain = at + 340
        return False


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Find SQL statements, up to the closing quote, or up to their end or the end of the line."""
    low = text.lower()
    found = [
        m
        for word, rest in _SQL.items()
        if word in low
        for m in regex(f"[{word[0]}{word[0].upper()}](?i:{word[1:]}){rest}").finditer(text)
    ]
    evidence = _Evidence(text, _SQL_EVIDENCE)
    insertion = _Evidence(text, _SQL_EVIDENCE + r"|(?i:values\s{0,40}\()")
    end = 0
    for m in sorted(found, key=lambda m: m.start()):
        start = m.start()
        if start < end or (start and (text[start - 1].isalnum() or text[start - 1] in "_-")):
            continue
        if m[0][1].islower():  # a sentence may contain such a word
            if m[0][:4] in ("Call", "call") and text[max(0, start - 1) : start] != "{":
                continue
            if m[0][0].isupper() and not insertion.follows(m.end() - 2):
                continue
        parts = m.groupdict()
        if parts.get("from") and not (m[0][:6].isupper() and parts["from"].isupper()):
            # `Select a colour from the list` needs something more to be SQL.
            listed = r"\s*(?:\*|[\w.]+\([^()]*\)|[\w.]*[._]\w+|\w+(?:\s*,\s*[\w.]+)+)\s*"
            is_list = "cols" in parts and regex(listed).fullmatch(parts["cols"])
            if not (is_list or evidence.follows(m.end())):
                continue
        before = text[start - 1 : start]
        rest = regex(_SQL_REST).match(text, start)
        end = max(m.end(), rest.end() if rest else 0)
        if text[max(0, start - 6) : start].upper() == "[SQL: ":
            closed = regex(r"\](?=\s{0,40}(?:\n|\Z|\(|\[|\\n)| [a-z])").search(text, start, start + 16_384)
        elif before and before in "\"'`":
            closed = regex(r"(?<!\\)" + before).search(text, m.end(), m.end() + 16_384)
        else:
            closed = regex(r"\\?\"\s{0,40}(?:[}\]]|,\s{0,40}\\?\"[\w-]{1,80}\\?\"\s{0,40}:)").search(text, m.end(), end)
        end = closed.start() if closed else end
        said = regex(_SAID).search(text, m.end(), end)
        end = said.start() if said else end
        yield start, end


def rules() -> Iterator[Rule]:
    yield Rule("sql", "sql", gates=tuple(_SQL), profiles=("model",), find=_statements)
    params = (
        r"(?i:\b(?:parameters|params|bind(?:ing)?s?(?: parameters?)?|bind values|args)[\"']?\s?[=:]\s?)"
        r"(?:(?P<v>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\]\s{0,40}(?:\n|\Z|\(|\\n))|"
        r"(?P<w>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\s|\Z)|(?P<x>[\[({](?!redacted)[^\n]{0,4000}))"
    )
    yield model_rule("sql_params", "sql_params", params, "[redacted:sql]")
    yield model_rule("sql_excerpt", "sql", _EXCERPT, "line |sql|query|statement")
    yield model_rule(
        "sql_values",
        "sql_params",
        _VALUES,
        "key |row contains|duplicate entry|binding|parameters|params|args|bind vars|dup key",
    )
