"""A server's insides: paths, stack traces, SQL, hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from iserror.redact.rule import Profile, Rule, regex

_NL = r"(?:\r?\n|(?:\\r)?\\n|\A)"
_PYTHON = (
    r"[ |]{0,200}File (?:\\{0,3}\"|&quot;)[^\"\n]{1,500}?(?:\"|&quot;), line \d{1,7}"
    r"(?:,? in (?:<\w{1,40}>|top-level [a-z ]{4,20}|[\w.<>$]{1,200}))?(?!\w)"
    r"(?:" + _NL + r"(?: {0,80}\|){0,20} {4,80}(?!File )(?=[^\s|])(?:(?!\\n)[^\n]){1,1000}){0,3}"
)
_JAVA = (
    r"(?:at (?:(?<!\w...)|(?<=\\t...)|(?<=&nbsp;...))(?:\w{1,40} @ )?|(?<=[\[,] )|(?<=\[))"
    r"(?:[\w.$@-]{1,80}/{1,2}){0,2}(?:[\w$.<>@-]|&[lg]t;){3,300}\("
    r"(?:[\w$.-]{1,100}\.(?:java|kt|scala|groovy|clj)(?::\d{1,6})?|Unknown Source|Native Method|<\w+>)\)"
    r"(?: ~?\[[^\]\n]{0,200}\])?(?:\s{0,8}(?:\\n|\\t)*\.\.\. \d{1,4} (?:more|common frames omitted))?"
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
    r"goroutine \d{1,9} \[[^\]\n]{1,80}\]:|created by [^\n\\]{1,200}(?:\n|\\n)(?:\t|\\t)[^\s\"]{1,400}|"
    r"(?:(?<![^\n|])|(?<=\\n)|(?<=\")|(?<=: ))[ ]{0,4}[\w./*()~{}\[\]$-]{2,300}(?:\([^()\n]{0,200}\)|\.\.\.)?"
    r"(?:\n|\\n)(?:[ |]{0,6}\t|\\t| {4,8})[^\s\"]{1,400}\.(?:go|s):\d{1,7}(?: \+0x[0-9a-f]{1,12})?"
)
_RUST = (
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?[<\w][\w:<>{}$& ,\[\]*'()=>-]{2,300}?(?:\n|"
    r"\\n)\s{1,40}at [^\s\"]{1,400}:\d{1,7}(?::\d{1,7})?|"
    r"(?<!\S)\d{1,3}:\s{1,4}(?:0x[0-9a-f]{4,16} - )?(?:<[^\n>]{1,200}>|"
    r"[\w$]{1,100})(?:::[\w<>{}$&, #\[\]]{1,100}){1,12}(?=\n|\\n|\Z)|"
    r"panicked at (?P<v>[^\s,]{1,300}:\d{1,7}:\d{1,7})"
)
_HEX = r"0x[0-9a-fA-F]{4,16}"
_PLACE = r"[\w)\]>]\.\w{1,6}:\d"  # a file with a line
# Frames that begin a line, by what is sure of each; up to the end of the line.
_FRAMES = (
    # PHP, gdb, sanitizers, Dart; boost; glog
    r"#\d{1,3}\s{1,4}(?=[^\n]{0,300}(?:"
    + _HEX
    + r"|"
    + _PLACE
    + r"|\.\w{1,6}\(\d{1,6}\): |\{main\}|\[internal function\]|virt ))",
    r"\d{1,3}#\s(?=[^\n]{0,300}(?:::| in /| at ))",
    r"@\s{1,8}" + _HEX + r"\s",
    # Swift, Kotlin native, Rust, WebAssembly
    r"(?:at )?\d{1,3}[:.]?\s{1,8}(?:\[\w{1,6}\] )?(?:[\w.+-]{1,80}\s{1,40})?0x[0-9a-fA-F]{4,16}\s",
    r"\d{1,3}:\s{1,4}__?\w{1,80}(?=\n\s{1,40}at )|at \./[^\s:]{1,200}:\d{1,7}:\d{1,7}",
    # "at", in the words of several languages
    r"(?:at|from|in|bei|à|w|en|em|da|by)\s(?=[^\n]{0,400}?(?:"
    + _PLACE
    + r"|:(?:line|Zeile|ligne|línea|wiersz|riga|linha) ?\d|"
    r"\.\w{1,6}[,:]? line \d|\[" + _HEX + r"\] in |wasm-function\[|\]:" + _HEX + r"|\[native code\]))",
    r"at (?:<\w{1,40}>, <[\w ]{1,40}>: line \d|\w{1,40}:\w{1,60}\(\w{0,60}\)(?!\S)|\w{1,80}\(Closure\b)|"
    r"at REPL\d{1,5}:\d",
    r"(?:bei|à|w|en)\s[\w`<>+\[\],$|]{1,200}\.[\w.`<>+\[\],$|]{2,300}\([^()\n]{0,400}\)",
    # Ruby, Lua, Python in a box, IPython, Elixir
    r"(?:from )?\S{1,300}:\d{1,7}:? in (?:function|upvalue|main chunk|local|method|field|[`'<\w])",
    r"\[(?:C|string \"[^\"\n]{1,100}\")\](?::\d{1,7})?: in |\(\.\.\.tail calls\.\.\.\)",
    r"File /\S{1,300}:\d{1,7}, in |(?:lib|test|src)/\S{1,200}\.exs?:\d{1,7}: |iex:\d{1,7}: |"
    r"\([\w.-]{1,60} [\d.]{1,20}\) \S{1,200}\.(?:exs?|erl):\d{1,7}: ",
    # browsers, Dart
    r"[\w$.<>/ *]{0,100}@(?:https?:|webpack|file:|blob:|\w{2,20}-extension:|\[(?:native|wasm) code\])|"
    r"\[(?:native|wasm) code\](?=\n)",
    r"<\?>\.wasm-function\[",
    r"(?:package|dart):\S{1,200} \d{1,6}:\d{1,6}\s",
    # glibc, WinDbg, PHP, R, Perl, Go
    r"\S{1,200}\([^()\s]{0,200}\+"
    + "0x[0-9a-f]{1,16}"
    + r"\)\s?\[0x[0-9a-f]{4,16}\]|\w{1,60}![\w:<>~]{1,200}\+0x[0-9a-f]{1,8}",
    r"PHP\s{1,4}\d{1,3}\. |\d{1,3}: (?=[^\n]{1,300} at [^\s#]{1,200}#\d)|\d{1,3}\. [│├└─ ]{1,40}\w[\w.]{0,60}:{2,3}\w",
    r"[\w:{} .]{1,200}(?:\([^()\n]{0,300}(?:\([^()\n]{0,100}\)[^()\n]{0,100}){0,4}\))?\s?"
    r"called at (?=[^\n]{1,300} line \d)",
    # shells, Haskell, Julia, PowerShell
    r"/\S{1,200}: line \d{1,7}: |\w{1,60}, called at (?=\S{1,300}:\d)|"
    r"\[\d{1,3}\] [^\n]{1,300}\n\s{1,20}@ (?=[^\n]{1,300}:\d)|"
    r"At (?=[^\n]{1,300}:\d{1,7} char:\d)(?:[^\n]{1,400}(?:\n\+[^\n]{0,300}){1,3})?",
    r"\S{1,300}\.go:\d{1,7} \(0x[0-9a-f]{4,16}\)(?:\n\t[^\n]{1,300})?",
)
_FRAME = r"(?:[ \t│|]|\\t|&nbsp;){0,80}(?P<v>(?:" + "|".join(_FRAMES) + r")(?:(?!\\n|<br|\"[,\]}])[^\n]){0,600})"
# What at least one of them has; most lines have none of it.
_LIKE_A_FRAME = (
    r"[^\n:(#@\[]{0,200}(?:[:(#]\d|line \d|0x|\([^\n]{0,400}\)|@|\[(?:C|native|string|wasm|0x)|"
    r"[:\[#][^\n]{0,300}[\d)])"
)


def _frames(text: str) -> Iterator[tuple[int, int]]:
    """Find stack frames that take a line of their own, in whatever way the lines are kept apart."""
    frame = regex(_FRAME).match
    starts = (
        m.end() for m in regex(r"[\n\\<\[\"](?:(?<=\n)(?!\n)|(?<=\\)n|(?<=<)br ?/?>|(?<=\")(?=#))").finditer(text)
    )
    for at in (0, *starts):
        if not regex(_LIKE_A_FRAME).match(text, at):
            continue
        m = frame(text, at)
        if m:
            yield m.span("v")


# Those that stand anywhere.
_OTHER_FRAMES = (
    r"#\d{1,3} \{main\}|#\d{1,3}\s{1,2}(?:0x[0-9a-f]{4,16} in )?"
    r"(?=[^\n#]{1,200}(?:\.\w{1,6}\(\d{1,6}\): |\bat [^\n\s]{1,200}:\d))"
    r"[^\n]{1,600}|(?<![^\s\"'(])(?:\(eval at [^\s()]{1,200}\)|[^\s:\"']{1,300}\.(?:rb|erb|rake|exs?|"
    r"erl)):\d{1,7}:in [`'][^'\n]{1,200}'|"
    r"\([\w.-]{1,60} [\d.]{3,20}\) [\w/.-]{3,200}\.exs?:\d{1,6}: [^\n]{1,200}|"
    r"\bat (?:/[^\s]{1,300}|\(eval \d{1,6}\)) line \d{1,7}(?:, <\w{1,20}> line \d{1,9})?\.?|"
    r"\{\w{1,80},\w{1,80},(?:\d{1,3}|\[[^\[\]\n]{0,200}\]),\s{0,8}\[(?:\{file,[^\[\]]{1,400}\})?\]\}|"
    r"(?<=in )(?:function\s{1,3}|call from\s{1,3})?\w{1,80}:\w{1,80}/\d{1,3}(?: \([^()\n]{1,200}, line \d{1,7}\)|"
    r" line \d{1,7})|"
    r"\{ fn: \"[^\"\n]{1,200}\", file: \"[^\"\n]{1,300}\", line: \d{1,7} \}|"
    r"(?<=\(from )[^\s()]{1,200}\.R#\d{1,7}|(?<=Calls: )[\w.$:]{1,100}(?: -> [\w.$:<>]{1,100}){1,20}|"
    r"(?<=Error in )[\w.:$]{1,80}\([^\n]{0,200}\)(?= : )"
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
    r"::1(?![\w:.])|::1(?=:\d{4,5}(?!\w)))(?:%\w{1,16})?(?:/\d{1,3})?(?:\](?::\d{1,5})?|(?<=:1):\d{4,5})?"
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
_PORTS: Final = frozenset(
    [
        "1433",
        "1521",
        "2181",
        "2379",
        "3306",
        "5432",
        "5672",
        "6379",
        "8500",
        "9042",
        "9092",
        "9200",
        "11211",
        "26379",
        "27017",
        "50051",
    ]
)
_SERVER = r"[a-zA-Z][\w-]{1,62}"
_NAMED_HOST = (
    r"(?=[ElrRhHcCuUnNsdD*])(?:(?:ENOTFOUND|EAI_AGAIN|lookup|[rR]esolve(?: host)?|[hH]ost ?name|connect to host|"
    r"[uU]nknown host|[nN]ode name)"
    r"[: ] ?\\?[\"']?(?P<v>[a-z0-9]+(?:[-_][a-z0-9]+)+(?::\d{1,5})?)(?![\w.-])|"
    r"(?:[cC]onnect to|running on host|server at|upstream) \\?[\"']?(?P<x>[a-zA-Z]\w*(?:[-_\d]\w*|db|mq))\\?[\"']?"
    r"(?= port| \(|,| and accepting|/)|"
    r"(?:[hH]ost|HOST|[hH]ostname)=[\"']?(?P<x1>" + _SERVER + r")[\"']?(?=[\"']?,\s?(?:[pP]ort)=)|"
    r"(?:[dD]ial|[cC]onnect|[rR]efused)[^\n]{0,40}\([\"'](?P<x2>" + _SERVER + r")[\"'](?=, \d{2,5}\))|"
    r"\*(?P<x3>(?:\.[\w-]{1,63}){1,4}\.(?:svc|local|internal|corp))(?![\w.]))"
)
_NEAR_SERVER = (
    r"(?i:connect|dial|upstream|host|ECONN|UNREACH|TIMEDOUT|\bvia\b|proxy|broker|container|thrd|dns:/|refused|reach|"
    r"peer|listen|server|cluster|node|lookup|resol)"
)
_BESIDE_IP = r"\[(?P<v>" + _SERVER + r")(?=/\[redacted:ip\])"
_NEAR_PORT = (
    r"\[redacted:(?:host|ip)\](?:[\"')\]]|%5D){0,3}(?:\[redacted:ip\])?[,:;]?\s?"
    r"(?:[^\n\d\[]{0,30}?(?i:port)[\"']?\s?[=:(]{0,2}\s?(?:Some\()?[\"']?|:)(?P<v>\d{2,5})(?![\w.])|"
    r"(?i:\bport )(?P<w>\d{2,5})(?= on \[redacted:host| after)|"
    r"\[redacted:host\][\"']? and accepting TCP/IP connections on port (?P<x>\d{2,5})"
)
_LISTENING = (
    r"[lL](?i:isten (?:tcp|udp)\d? )(?:\[::\]|::|\*|)?:(?P<v>\d{2,5})(?!\w)|"
    r"[iI](?i:n use )(?:\[::\]|::|\*|)?:(?P<w>\d{2,5})(?!\w)|"
    r"[pP](?i:ort )(?P<x>\d{2,5})(?= (?:was |is )?already in use)"
)
_PORT = r"\[redacted:(?:host|ip)\]\\?[\"']?[,:]?\s?(?:\\?[\"']?port\\?[\"']?\s?[=:]?\s?)?(?P<v>\d{2,5})(?![\w.])"


def _servers(text: str) -> Iterator[tuple[int, int]]:
    """Find bare names with a port: of well-known services, and where the words beside them speak of a connection."""
    for m in regex(r":(\d{1,5})(?![\w.]*\w)").finditer(text):
        at = m.start()
        name = regex(r"[a-zA-Z0-9_-]{1,62}[a-zA-Z](?![\w.@/-])").match(text[max(0, at - 64) : at][::-1])
        if name is None:
            continue
        start, found = at - name.end(), name.group()[::-1].lower()
        if found in ("port", "line", "code", "error", "column", "row"):
            continue
        if found != "localhost" and m[1] not in _PORTS:
            near = text[max(0, start - 60) : start] + text[m.end() : m.end() + 60]
            if len(m[1]) < 4 or not regex(_NEAR_SERVER).search(near):
                continue
        yield start, m.end()


_TABLE = r"(?:[\w.\"`\[\]]|\\\"){1,200}"
_SQL = {  # keyword: what must follow it
    "select": r"(?:\s|\\n){1,40}(?P<cols>(?:[^;sS]|"
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
    "call": r"(?-i:\s{1,9}\w+(?:\.\w+|_\w*)\()",
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
    r"[wW](?i:here\s+[\w.\"`(]+\s*(?:=|<|>|!|in\b|like\b|is\s+(?:not\s+)?null\b|between\b))|"
    r"[jJ](?i:oin\s+\S{1,80}\s+(?:\w{1,40}\s+)?(?:on|using)\b)|"
    r"[oO](?i:rder\s+by\s+\w)|[gG](?i:roup\s+by\s+\w)|[lL](?i:imit\s+[\d?$:%])|"
    r"[uU](?i:nion\s+(?:all\s+)?select)"
)
_SQL_REST = (
    r"[^\n;]{0,8192}(?:;?[ \t]*\n(?:[ \t]+\S|(?i:from|where|and|or|join|left|inner|right|order|group|"
    r"limit|values|set|having|union|returning|on|select)\b)[^\n;]{0,4096}){0,60};?"
)


# What databases quote of a statement, and of rows and parameters.
_EXCERPT = (
    r"(?i:query|statement|sql)\\?[\"']?\s?[=:]\s?(?P<q>\\?[\"'])(?=(?i:select|insert|update|delete|with|create|alter|drop|merge)\s)"
    r"(?P<x1>(?:(?!(?P=q))(?:[^\\\n]|\\.)){3,4000})|"
    r"(?<=LINE \d: )(?P<v>[^\n]{3,1000})|(?<=LINE \d\d: )(?P<w>[^\n]{3,1000})|"
    r"\[(?:SQL|query): (?!\[redacted)(?P<x>(?:[^\]\n]|\](?!\s*(?:\n|\Z|\())){3,4000})"
)
_VALUES = (
    r"[kK]ey \((?:[^()\n]|\([^()\n]{0,100}\)){1,200}\)=\((?P<v>[^\n]{1,1000}?)\)(?= (?:already exists|is|"
    r"conflicts|does)|\.|\Z|\")|"
    r"[rR]ow contains \((?P<w>[^\n]{1,2000}?)\)(?=\.|\Z|\n|\")|"
    r"Duplicate entry '(?P<x>[^'\n]{1,500})' for key|"
    r"dup key: \{ ?(?P<x1>[^{}\n]{1,500}?) ?\}|"
    r"binding parameter \[\d{1,4}\] as \[\w{1,40}\] - \[(?P<x2>[^\n]{0,1000}?)\](?=\s|\Z)|"
    r"(?:\[parameters: |Parameters=\[|Bind vars: |with params |"
    r"\(args: )(?!\[redacted)(?P<x3>[\[(@{'](?:[^\n\[]|\[(?!parameters)){1,4000}?)"
    r"(?=\]\s*(?:\n|\Z)|\], |\Z|\n|\)\s*\Z)|"
    r"parameters: (?P<x4>\$1 = [^\n]{1,2000})|"
    r"(?<=\[redacted:sql\]\n)params: (?P<x5>[^\n]{1,2000})"
)


# What a message says after the statement that it is about.
_SAID = (
    r"\s(?:failed|was (?:denied|rejected|not)|is not (?!null)|record not found|returned|timed out|could not|"
    r"cannot)\b|\s: \w|, line \d|\.\s\("
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
        if m[0][1].islower():  # a sentence may begin with such a word, and hold it
            if m[0][:4] in ("Call", "call") and text[max(0, start - 1) : start] != "{":
                continue
            if m[0][0].isupper() and not regex(f"{_SQL_EVIDENCE}|(?i:values\\s*\\()").search(
                text, m.end() - 2, m.end() + 340
            ):
                continue
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
            closed = regex(r"\](?=\s*(?:\n|\Z|\(|\[|\\n)| [a-z])").search(text, start, start + 16_384)
        elif before and before in "\"'`":
            closed = regex(r"(?<!\\)" + before).search(text, m.end(), m.end() + 16_384)
        else:
            closed = regex(r"\\?\"\s*(?:[}\]]|,\s*\\?\"[\w-]+\\?\"\s*:)").search(text, m.end(), end)
        end = closed.start() if closed else end
        said = regex(_SAID).search(text, m.end(), end)
        end = said.start() if said else end
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
    yield rule("trace_java", "trace", _JAVA, "at |.java:|.kt:|.scala:")
    yield rule("trace_rust", "trace", _RUST, "::|panicked at|: _")
    yield rule("trace_node", "trace", _NODE, "at |@http|@file|@webpack|@moz")
    yield rule("trace_dotnet", "trace", _DOTNET, "at |stack trace")
    yield rule("trace_go", "trace", _GO, ".go:|.s:|goroutine ")
    yield rule(
        "trace_other",
        "trace",
        _OTHER_FRAMES,
        "#|.rb:|.erb:|.ex:|.exs:|.erl:| line |eval at|in function|in call|{file|,[|fn:|error in|calls:|.r#",
    )
    yield Rule("trace_frame", "trace", gates=("\n", "\\n", "<br", "#"), profiles=model, find=_frames)
    yield Rule("sql", "sql", gates=tuple(_SQL), profiles=model, find=_statements)
    params = (
        r"(?i:\b(?:parameters|params|bind(?:ing)?s?(?: parameters?)?|bind values|args)[\"']?\s?[=:]\s?)"
        r"(?:(?P<v>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\]\s*(?:\n|\Z|\(|\\n))|"
        r"(?P<w>[\[({](?!redacted)[^\n]{0,4000}[\])}])(?=\s|\Z)|(?P<x>[\[({](?!redacted)[^\n]{0,4000}))"
    )
    yield rule("sql_params", "sql_params", params, "[redacted:sql]")
    yield rule("sql_excerpt", "sql", _EXCERPT, "line |sql|query|statement")
    yield rule(
        "sql_values",
        "sql_params",
        _VALUES,
        "key |row contains|duplicate entry|binding|parameters|params|args|bind vars|dup key",
    )
    yield rule(
        "file_url",
        "path",
        r"(?<=[\"'])(?i:file:)/{1,3}[^\"'<>\n]{1,1024}|(?i:file:)/{1,3}[^\s\"'<>)]{1,1024}",
        "file:/",
    )
    yield rule("path_windows", "path", _WINDOWS, ":\\|:/")
    yield rule("path_unc", "path", _UNC, "\\\\")
    environment = r"(?:%\w{3,30}%|\$env:\w{3,30})(?P<v>(?:\\{1,2}[^\\/\s\"'<>|*?:,;]{1,255}){1,40})"
    yield rule("path_environment", "path", environment, "%\\|env:")
    yield rule("path_json", "path", r"(?<![\w\\])(?:\\/[\w.@+-]{1,100}){2,40}", "\\/")
    yield rule("path_home", "path", _HOME, "~")
    yield Rule("path_posix", "path", _POSIX, ("/",), 0, model, check=_is_file)
    yield rule("host", "host", _HOST, ".internal|.local|.lan|.corp|.intra|.home.arpa|.private|.svc|.consul")
    yield Rule("host_url", "host", _URL_HOST, ("://",), 0, model, check=_is_service)
    ipv4 = ("10.", "172.", "192.168", "169.254", "127.", "100.", "0.0.", "ip-")
    yield Rule("ip", "ip", _IPV4, ipv4, 0, model, check=_no_version)
    yield rule("ipv6", "ip", _IPV6, "fe80|fc|fd|::1")
    yield Rule("host_port", "host", gates=(":",), profiles=model, find=_servers)
    named = "enotfound|eai_again|lookup|resolve|host|connect to|connecting|server at|upstream|dial|*."
    yield rule("host_named", "host", _NAMED_HOST, named)
    yield rule("host_beside_ip", "host", _BESIDE_IP, "[redacted:ip]")
    yield rule("port", "port", _PORT, "[redacted:host]|[redacted:ip]")
    yield rule("port_near", "port", _NEAR_PORT, "[redacted:host]|[redacted:ip]")
    yield rule("port_listening", "port", _LISTENING, "listen |in use")
