"""A server's insides: paths, stack traces, SQL, hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iserror.redact.rule import Profile, Rule, regex

_NL = r"(?:\r?\n|(?:\\r)?\\n|\A)"
_PYTHON = (
    r"[ |]{0,200}File \\{0,3}\"[^\"\n]{1,500}\", line \d{1,7}(?:, in (?:(?!\\n)[^\n]){1,200})?"
    r"(?:" + _NL + r"(?: {0,80}\|){0,20} {4,80}(?!File )(?=[^\s|])(?:(?!\\n)[^\n]){1,1000}){0,3}"
)
_JAVA = (
    r"at (?:(?<!\w...)|"
    r"(?<=\\t...))(?:[\w.$-]{1,80}/{1,2}){0,2}[\w$.<>]{3,300}\((?:[\w$.-]{1,100}\.(?:java|kt|scala|groovy|"
    r"clj)(?::\d{1,6})?|"
    r"Unknown Source|Native Method|<\w+>)\)(?: ~?\[[^\]\n]{0,200}\])?(?:\s{0,8}(?:\\n|"
    r"\\t)*\.\.\. \d{1,4} (?:more|common frames omitted))?"
)
_NODE = (
    r"at (?<!\w...)(?:(?:async |new )?[^\n():]{1,200} \((?:[^\n()]{1,400}:\d{1,7}:\d{1,7}|native|"
    r"<anonymous>|index \d+)\)|"
    r"(?:async )?(?:node:|file:|webpack|https?:|/|[A-Za-z]:[\\/])[^\s()]{1,400}:\d{1,7}:\d{1,7})|"
    r"(?m:^)[\w$.<>/*]{0,100}@(?:https?|file|webpack|moz-extension)[^\s()]{3,400}:\d{1,7}:\d{1,7}"
)
_DOTNET = (
    r"at (?<!\w...)[\w.`<>+\[\],$|]{3,300}\([^()\n]{0,400}\) in [^\n\"]{1,400}?:line \d{1,7}|"
    r"at (?<=[ \t][ \t]at )[\w`<>+\[\],$|]{1,200}\.[\w.`<>+\[\],$|]{2,300}\([^()\n]{0,400}\)|"
    r"--- End of (?:inner exception )?stack trace[^\n\\]{0,60}---"
)
_GO = (
    r"goroutine \d{1,9} \[[^\]\n]{1,80}\]:|(?:(?<![^\n])|(?<=\\n))(?!\s)(?:[^\n\\]|\\(?!n)){2,400}"
    r"(?:\n|\\n)(?:\t|\\t| {4,8})\S{1,400}\.(?:go|s):\d{1,7}(?: \+0x[0-9a-f]{1,12})?"
)
_RUST = (
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?[<\w][\w:<>{}$& ,\[\]*'()=>-]{2,300}?(?:\n|"
    r"\\n)\s{1,40}at [^\s\"]{1,400}:\d{1,7}(?::\d{1,7})?|"
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?(?:<[^\n>]{1,200}>|"
    r"[\w$]{1,100})(?:::[\w<>{}$&, #\[\]]{1,100}){1,12}(?=\n|\\n|\Z)|"
    r"panicked at (?P<v>[^\s,]{1,300}:\d{1,7}:\d{1,7})"
)
_OTHER_FRAMES = (
    r"#\d{1,3} \{main\}|#\d{1,3}\s{1,2}(?:0x[0-9a-f]{4,16} in )?"
    r"(?=[^\n#]{1,200}(?:\(\d{1,6}\): |\bat [^\n\s]{1,200}:\d))"
    r"[^\n]{1,600}|(?<![^\s\"'(])[^\s:\"']{1,300}\.(?:rb|exs?|erl):\d{1,7}:in [`'][^'\n]{1,200}'|"
    r"\([\w.-]{1,60} [\d.]{3,20}\) [\w/.-]{3,200}\.exs?:\d{1,6}: [^\n]{1,200}"
)
# `/v1/users` and `/help` are no files: a first segment that only a file system has, or one that could be
# either with a deeper path behind it.
_SURE_ROOTS = (
    r"(?:home|Users|root|var|etc|usr|opt|srv|mnt|tmp|private/(?:var|tmp|etc)|proc|sys|lib(?:32|64)?|s?bin|"
    r"boot|media|Volumes|"
    r"Library|Applications|nix|snap|dev/(?:shm|disk|sd|nvme|tty)|run/(?:secrets|user|lock|\w+d)|"
    r"workspaces?|cloudsql|kaniko)"
)
_ROOTS = (
    r"(?:" + _SURE_ROOTS + r"|builds?|github|apps?|code|src|project|repo|data|vagrant|home\d|efs|nfs|"
    r"export|vol\d*|layers|"
    r"site-packages|venv|lambda|config|secrets|storage|pgdata|go|jenkins\w*|deploy\w*|host|mount\w*|work|"
    r"dist|wwwroot|www|"
    r"htdocs|artifacts|certs?|keys|logs?|backups?|dumps?|\w{1,30}_data)"
)
_ROUTE = (
    r"(?:\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)|(?i:endpoint|route|url|prefix|"
    r"resource))[ :=]{1,2}[\"'`]?\Z"
)
_SEGMENT = (
    r"[^\s/\"'<>|,;:()\[\]{}*?`\\]{1,255}(?: [A-Z(][^\s/\"'<>|"
    r",;:\[\]{}*?`\\]{0,80}(?=[^\n\"'<>]{0,80}/)){0,3}"
)
_POSIX = (
    r"/(?<![\w.~%/$}\])]/)(?:(?<=[\"'`]/)"
    + _ROOTS
    + r"/[^\"'`\n]{1,1024}(?=[\"'`])|"
    + _ROOTS
    + r"/(?:"
    + _SEGMENT
    + r"/+){0,40}(?:[^\s\"'<>|,;:()\[\]{}*?`\\]{0,254}[\w~+=@#%$-])?|"
    r"[\w.+-]{1,100}/(?:[\w.+@-]{1,100}/){0,20}[\w.+@-]{1,100}\.(?:py|js|mjs|ts|tsx|jsx|go|rs|java|kt|rb|"
    r"php|cs|c|cc|cpp|h|so|dll|exe|sh|"
    r"conf|cfg|ini|toml|ya?ml|env|log|sqlite3?|db|pem|key|crt|p12|pfx|jks|lock|pid|sock|sql|bak|parquet)\b)"
)
_HOME = r"~\w{0,32}/(?<![\w~]~/)(?:[\w.-]{1,100}/[^\s\"'<>|,;:()]{0,400}|\.[^\s\"'<>|,;:()]{1,400})"
_WINDOWS = (
    r"[A-Za-z]:[\\/](?:(?<![A-Za-z0-9]...)|(?<=\\[nrt]...))(?:(?<=/)(?=[^\s/]+/)|(?<=\\)\\{0,3})(?![/\\])"
    r"(?:[^\\/\s\"'<>|"
    r"*?:,;]{1,255}(?: [^\\/\s\"'<>|*?:,;]{1,80}){0,5}[\\/]{1,4}){0,40}"
    r"(?:[^\\/\s\"'<>|*?:,;()\[\]{}]{0,254}[^\\/\s\"'<>|*?:,;.()\[\]{}])?"
)
_UNC = (
    r"(?<![\\\w])\\{2,4}(?:[?.]\\{1,2})?[A-Za-z0-9][\w.$-]{1,62}\\{1,2}[\w$][^\\/\s\"'<>|*?:,;]{0,100}"
    r"(?:\\{1,2}[^\\/\s\"'<>|*?:,;]{0,255}(?: [^\\/\s\"'<>|*?:,;]{1,80}(?=\\)){0,5}){0,40}"
)
_IPV4 = (
    r"(?<![\w.])(?!0\.0\.0\.0/0)(?:10(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|(?:172\.(?:1[6-9]|2\d|3[01])|192\.168|169\.254|"
    r"127\.\d{1,3}|"
    r"100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])|0\.0)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){2})(?:/\d{1,2}|"
    r":\d{1,5})?(?!\.?\d|\w)|"
    r"\bip(?:-\d{1,3}){4}\b"
)
_IPV6 = (
    r"\[?(?<![\w:.])(?:(?i:fe80|f[cd][0-9a-f]{2}):(?::?[0-9a-fA-F]{1,4}:?){1,8}|"
    r"::1(?![\w:.]))(?:%\w{1,16})?(?:/\d{1,3})?(?:\](?::\d{1,5})?)?"
)
_HOST = (
    r"(?<![\w.-])(?!(?:threading|gevent|werkzeug|asgiref)\.local\b)(?:\w[\w-]{0,62}\.){1,10}(?:internal|local|lan|corp|intranet|intra|localdomain|"
    r"home\.arpa|private|svc|consul)"
    r"(?:\.?:\d{1,5})?(?![\w(-])(?!\.[A-Za-z0-9_])"
)
_URL_HOST = r"://(?:[^\s/@\"']{0,300}@)?(?P<v>[A-Za-z][\w-]{0,62}(?::\d{1,5})?)(?=[/?#\s\"'<>),;\]\\]|\Z)"
_URL_SCHEMES = (
    r"(?i:https?|wss?|tcp|udp|grpcs?|rediss?|amqps?|postgres(?:ql)?|mysql|mariadb|mongodb|kafka|nats|"
    r"s?ftp|ldaps?|smb|"
    r"clickhouse|sqlserver|memcached?|mqtts?|consul|etcd)\Z"
)
_PORTS = "1433 1521 2181 2379 3306 5432 5672 6379 8500 9042 9092 9200 11211 26379 27017 50051"
_HOST_PORT = (
    r"(?<![\w.-])(?!(?i:port|line|code|error):)[a-zA-Z][a-zA-Z0-9-]{1,62}:(?:"
    + _PORTS.replace(" ", "|")
    + r")(?![\w.])"
)
_LOCALHOST = r"localhost:\d{1,5}(?!\w)"
_NAMED_HOST = (
    r"(?:ENOTFOUND|EAI_AGAIN|lookup|[rR]esolve(?: host)?|[hH]ost ?name|connect to host|"
    r"[uU]nknown host)[: ] ?\\?[\"']?"
    r"(?P<v>[a-z0-9]+(?:[-_][a-z0-9]+)+(?::\d{1,5})?)(?![\w.-])"
)
_PORT = r"\[redacted:(?:host|ip)\]\\?[\"']?[,:]?\s?(?:\\?[\"']?port\\?[\"']?\s?[=:]?\s?)?(?P<v>\d{2,5})(?![\w.])"

_TABLE = r"[\w.\"`\[\]]{1,200}"
_SQL = {  # keyword: what must follow it
    "select": r"\s{1,40}(?P<cols>(?:[^;sS]|"
    r"[sS](?!(?i:elect\s))){1,600}?)\s{1,40}(?P<from>(?i:from))\s{1,40}[\w\"`\[({.@#:%]",
    "insert": r"(?i:\s{1,9}(?:OR\s\w+\s{1,9}|IGNORE\s{1,9})?INTO\s{1,9}" + _TABLE + r"\s{0,9}(?:\(|VALUES|"
    r"SELECT|DEFAULT))",
    "replace": r"(?i:\s{1,9}INTO\s{1,9}" + _TABLE + r"\s{0,9}(?:\(|VALUES|SELECT))",
    "update": r"(?i:\s{1,9}(?:ONLY\s)?"
    + _TABLE
    + r"(?:\s(?:AS\s)?\w{1,30})?\s{1,40}SET\s{1,40}"
    + _TABLE
    + r"\s{0,9}=)",
    "delete": r"(?P<from>\s{1,9}(?i:from))\s{1,9}" + _TABLE,
    "merge": r"(?i:\s{1,9}INTO\s{1,9}\w(?=[^;]{1,200}\bUSING\b))",
    "with": r"(?i:\s{1,9}(?:RECURSIVE\s)?\w{1,60}(?:\s{0,9}\([^()]{1,200}\))?\s{1,9}AS\s{1,9}(?:"
    r"(?:NOT\s)?MATERIALIZED\s)?\()",
    "grant": r"(?-i:\s{1,9}[A-Z, ]{3,60}\s{1,9}ON\s{1,9}\w)",
    "exec": r"(?i:(?:UTE)?\s{1,9}(?:sp_|dbo\.|@)\w)",
    "call": r"(?-i:\s{1,9}\w+(?:\.\w+|_\w*)\()",
}
_DDL = (
    r"(?i:\s{1,9}(?:OR\sREPLACE\s{1,9})?(?:UNIQUE\s|TEMP(?:ORARY)?\s|MATERIALIZED\s)?(?:TABLE|INDEX|VIEW|"
    r"DATABASE|SCHEMA|SEQUENCE|"
    r"TRIGGER|FUNCTION|PROCEDURE|TYPE|USER|ROLE|EXTENSION)\s{1,9}(?:IF\s(?:NOT\s)?EXISTS|CONCURRENTLY|"
    r"[\w\"`\[\]]{1,100}[._\"`]\w|"
    + _TABLE
    + r"(?:\s{0,9}\(|\s{1,9}(?:ADD|DROP|ALTER|RENAME|MODIFY|ON|CASCADE|RESTRICT|WITH|"
    r"AS\s\(?SELECT|OWNER|SET\s\()|(?=\s{0,9}(?:[;\"'\n]|\Z)))))"
)
_SQL.update(dict.fromkeys(("create", "alter", "drop", "truncate"), _DDL))
_SQL_EVIDENCE = (
    r"[wW](?i:here\s+[\w.\"`(]+\s*(?:=|<|>|!|in\b|like\b|is\b|between\b))|"
    r"[jJ](?i:oin\s+\S{1,80}\s+(?:\w{1,40}\s+)?(?:on|using)\b)|"
    r"[oO](?i:rder\s+by\s+\w)|[gG](?i:roup\s+by\s+\w)|[lL](?i:imit\s+[\d?$:%])|"
    r"[uU](?i:nion\s+(?:all\s+)?select)"
)
_SQL_REST = (
    r"[^\n;]{0,8192}(?:;?[ \t]*\n(?:[ \t]+\S|(?i:from|where|and|or|join|left|inner|right|order|group|"
    r"limit|values|set|having|union|returning|on|select)\b)[^\n;]{0,4096}){0,60};?"
)


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Find SQL statements, to the quote that closes them, else to their end or that of the line."""
    low = text.lower()
    found = [
        m
        for word, rest in _SQL.items()
        if word in low
        for m in regex(f"[{word[0]}{word[0].upper()}](?i:{word[1:]}){rest}").finditer(text)
    ]
    end = plain = 0  # there is no evidence before `plain`
    for m in sorted(found, key=lambda m: m.start()):
        start = m.start()
        if start < end or (start and (text[start - 1].isalnum() or text[start - 1] in "_-")):
            continue
        if m[0][:4] == "Call":
            continue  # a sentence
        parts = m.groupdict()
        if parts.get("from") and not (m[0][:6].isupper() and parts["from"].isupper()):
            # `Select a colour from the list` needs something more to be SQL.
            listed = r"\s*(?:\*|[\w.]+\([^()]*\)|[\w.]*[._]\w+|\w+(?:\s*,\s*[\w.]+)+)\s*"
            if "cols" not in parts or not regex(listed).fullmatch(parts["cols"]):
                if m.end() + 300 <= plain:
                    continue
                if not regex(_SQL_EVIDENCE).search(text, max(m.end(), plain - 40), m.end() + 340):
                    plain = m.end() + 340
                    continue
        before = text[start - 1 : start]
        rest = regex(_SQL_REST).match(text, start)
        end = max(m.end(), rest.end() if rest else 0)
        if text[max(0, start - 6) : start].upper() == "[SQL: ":
            closed = regex(r"\](?=\s*(?:\n|\Z|\(|\[|\\n))").search(text, start, start + 16_384)
        elif before and before in "\"'`":
            closed = regex(r"(?<!\\)" + before).search(text, m.end(), m.end() + 16_384)
        else:
            closed = regex(r"\\?\"\s*(?:[}\]]|,\s*\\?\"[\w-]+\\?\"\s*:)").search(text, m.end(), end)
        end = closed.start() if closed else end
        yield start, end


def _no_version(m: re.Match[str]) -> bool:
    return not regex(r"(?i:version|build|release|driver|v)[ :=]{1,3}\Z").search(
        m.string, max(0, m.start() - 12), m.start()
    )


def _is_file(m: re.Match[str]) -> bool:
    """Whether an absolute path is a file's and not a route: `GET /app/users` is a route."""
    if regex(r"/" + _SURE_ROOTS + r"\b").match(m[0]):
        return True
    if m[0].count("/") < 2 or (m[0].endswith("/") and m[0].count("/") < 3):
        return False
    return not regex(_ROUTE).search(m.string, max(0, m.start() - 20), m.start())


def _is_service(m: re.Match[str]) -> bool:
    scheme = regex(r"[A-Za-z][A-Za-z0-9]*(?:\+\w+)?\Z").search(m.string, max(0, m.start() - 24), m.start())
    return bool(scheme and regex(_URL_SCHEMES).match(scheme.group().partition("+")[0]))


def rules() -> Iterator[Rule]:
    model: tuple[Profile, ...] = ("model",)

    def rule(name: str, kind: str, pattern: str, gates: str) -> Rule:
        return Rule(name, kind, pattern, tuple(gates.split("|")), 0, model)

    yield rule("trace_python", "trace", _PYTHON, ", line ")
    yield rule("trace_java", "trace", _JAVA, "at ")
    yield rule("trace_rust", "trace", _RUST, "::|panicked at")
    yield rule("trace_node", "trace", _NODE, "at |@http|@file|@webpack|@moz")
    yield rule("trace_dotnet", "trace", _DOTNET, "at |stack trace")
    yield rule("trace_go", "trace", _GO, ".go:|.s:|goroutine ")
    yield rule("trace_other", "trace", _OTHER_FRAMES, "#|.rb:|.ex:|.exs:|.erl:")
    yield Rule("sql", "sql", gates=tuple(_SQL), profiles=model, find=_statements)
    params = (
        r"(?i:\b(?:parameters|params|bind(?:ing)?s?(?: parameters?)?|bind values|args)[\"']?\s?[=:]\s?)"
        r"(?:(?P<v>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\]\s*(?:\n|\Z|\(|\\n))|"
        r"(?P<w>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\s|\Z)|(?P<x>[\[({](?!redacted)[^\n]{0,4000}))"
    )
    yield rule("sql_params", "sql_params", params, "[redacted:sql]")
    yield rule("file_url", "path", r"(?i:file:)/{1,3}[^\s\"'<>)]{1,1024}", "file:/")
    yield rule("path_windows", "path", _WINDOWS, ":\\|:/")
    yield rule("path_unc", "path", _UNC, "\\\\")
    yield rule("path_home", "path", _HOME, "~")
    yield Rule("path_posix", "path", _POSIX, ("/",), 0, model, check=_is_file)
    yield rule("host", "host", _HOST, ".internal|.local|.lan|.corp|.intra|.home.arpa|.private|.svc|.consul")
    yield Rule("host_url", "host", _URL_HOST, ("://",), 0, model, check=_is_service)
    yield rule("host_port", "host", _HOST_PORT, "|".join(f":{port}" for port in _PORTS.split()))
    yield rule("localhost", "host", _LOCALHOST, "localhost:")
    yield rule("host_named", "host", _NAMED_HOST, "enotfound|eai_again|lookup|resolve|host")
    ipv4 = ("10.", "172.", "192.168", "169.254", "127.", "100.", "0.0.", "ip-")
    yield Rule("ip", "ip", _IPV4, ipv4, 0, model, check=_no_version)
    yield rule("ipv6", "ip", _IPV6, "fe80|fc|fd|::1")
    yield rule("port", "port", _PORT, "[redacted:host]|[redacted:ip]")
