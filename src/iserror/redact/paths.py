"""Paths of a server's files, as opposed to routes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iserror.redact.rule import Rule, model_rule, regex

# `/v1/users` and `/help` aren't files. A path is a file's if only file systems have its first segment, or if the
# first segment is ambiguous and more segments follow.
_SURE_ROOTS = (
    r"(?:home|Users|root|var|etc|usr|opt|srv|mnt|tmp|private/(?:var|tmp|etc)|proc|sys|lib(?:32|64)?|s?bin|"
    r"boot|media|Volumes|"
    r"Library|Applications|nix|snap|dev/(?:shm|disk|sd|nvme|tty)|run/(?:secrets|user|lock|\w{1,40}d)|"
    r"workspaces?|cloudsql|kaniko)"
)
_ROOTS = (
    r"(?:" + _SURE_ROOTS + r"|builds?|github|apps?|code|src|project|repo|data|vagrant|home\d|efs|nfs|"
    r"export|vol\d{0,4}|layers|"
    r"site-packages|venv|lambda|config|secrets|storage|pgdata|go|jenkins\w{0,30}|deploy\w{0,30}|host|mount\w{0,30}|work|"
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
    + r"/{1,9}){0,40}(?:[^\s\"'<>|,;:()\[\]{}*?`\\]{0,254}[\w~+=@#%$-])?|"
    r"[\w.+-]{1,100}/(?:[\w.+@-]{1,100}/){0,20}[\w.+@-]{1,100}\.(?:py|js|mjs|ts|tsx|jsx|go|rs|java|kt|rb|"
    r"php|cs|c|cc|cpp|h|so|dll|exe|sh|"
    r"conf|cfg|ini|toml|ya?ml|env|log|sqlite3?|db|pem|key|crt|p12|pfx|jks|lock|pid|sock|sql|bak|parquet)\b)"
)
_HOME = r"~\w{0,32}/(?<![\w~]~/)(?:[\w.-]{1,100}/[^\s\"'<>|,;:()]{0,400}|\.[^\s\"'<>|,;:()]{1,400})"
_WINDOWS = (
    r"[A-Za-z]:[\\/](?:(?<![A-Za-z0-9]...)|(?<=\\[nrt]...))(?:(?<=/)(?=[^\s/]{1,255}/)|(?<=\\)\\{0,3})(?![/\\])"
    r"(?:[^\\/\s\"'<>|"
    r"*?:,;]{1,255}(?: [^\\/\s\"'<>|*?:,;]{1,80}){0,5}[\\/]{1,4}){0,40}"
    r"(?:[^\\/\s\"'<>|*?:,;()\[\]{}]{0,254}[^\\/\s\"'<>|*?:,;.()\[\]{}])?"
)
_UNC = (
    r"(?<![\\\w])\\{2,4}(?:[?.]\\{1,2})?[A-Za-z0-9][\w.$-]{1,62}\\{1,2}[\w$][^\\/\s\"'<>|*?:,;]{0,100}"
    r"(?:\\{1,2}[^\\/\s\"'<>|*?:,;]{0,255}(?: [^\\/\s\"'<>|*?:,;]{1,80}(?=\\)){0,5}){0,40}"
)


def _is_file(m: re.Match[str]) -> bool:
    """Return True if an absolute path is a file's. `GET /app/users` is a route."""
    if regex(r"/" + _SURE_ROOTS + r"\b").match(m[0]):
        return True
    if m[0].count("/") < 2 or (m[0].endswith("/") and m[0].count("/") < 3):
        return False
    return not regex(_ROUTE).search(m.string, max(0, m.start() - 20), m.start())


def rules() -> Iterator[Rule]:
    yield model_rule(
        "file_url",
        "path",
        r"(?<=[\"'])(?i:file:)/{1,3}[^\"'<>\n]{1,1024}|(?i:file:)/{1,3}[^\s\"'<>)]{1,1024}",
        "file:/",
    )
    yield model_rule("path_windows", "path", _WINDOWS, ":\\|:/")
    yield model_rule("path_unc", "path", _UNC, "\\\\")
    environment = r"(?:%\w{3,30}%|\$env:\w{3,30})(?P<v>(?:\\{1,2}[^\\/\s\"'<>|*?:,;]{1,255}){1,40})"
    yield model_rule("path_environment", "path", environment, "%\\|env:")
    yield model_rule("path_json", "path", r"(?<![\w\\])(?:\\/[\w.@+-]{1,100}){2,40}", "\\/")
    yield model_rule("path_home", "path", _HOME, "~")
    yield Rule("path_posix", "path", _POSIX, ("/",), 0, ("model",), check=_is_file)
