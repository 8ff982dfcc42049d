"""Internal hosts, private addresses and ports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from iserror.redact.rule import Rule, model_rule, regex

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
    r"[: ] ?\\?[\"']?(?P<v>[a-z0-9]{1,63}(?:[-_][a-z0-9]{1,63}){1,20}(?::\d{1,5})?)(?![\w.-])|"
    r"(?:[cC]onnect to|running on host|server at|upstream) \\?[\"']?"
    r"(?P<x>[a-zA-Z](?=[^\W\d_]{0,62}[-_\d]|\w{0,60}(?:db|mq)(?!\w))\w{0,62}(?:-\w{0,62})?)\\?[\"']?"
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
    """Find bare names with the port of a known service, or beside words about a connection."""
    for m in regex(r":(\d{1,5})(?!\.{0,20}\w)").finditer(text):
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


def _no_version(m: re.Match[str]) -> bool:
    return not regex(r"(?i:version|build|release|driver|v)[ :=]{1,3}\Z").search(
        m.string, max(0, m.start() - 12), m.start()
    )


def _is_service(m: re.Match[str]) -> bool:
    scheme = regex(r"[A-Za-z][A-Za-z0-9]{0,23}(?:\+\w{1,22})?\Z").search(m.string, max(0, m.start() - 24), m.start())
    return bool(scheme and regex(_URL_SCHEMES).match(scheme.group().partition("+")[0]))


def rules() -> Iterator[Rule]:
    yield model_rule("host", "host", _HOST, ".internal|.local|.lan|.corp|.intra|.home.arpa|.private|.svc|.consul")
    yield Rule("host_url", "host", _URL_HOST, ("://",), 0, ("model",), check=_is_service)
    ipv4 = ("10.", "172.", "192.168", "169.254", "127.", "100.", "0.0.", "ip-")
    yield Rule("ip", "ip", _IPV4, ipv4, 0, ("model",), check=_no_version)
    yield model_rule("ipv6", "ip", _IPV6, "fe80|fc|fd|::1")
    yield Rule("host_port", "host", gates=(":",), profiles=("model",), find=_servers)
    named = "enotfound|eai_again|lookup|resolve|host|connect to|connecting|server at|upstream|dial|*."
    yield model_rule("host_named", "host", _NAMED_HOST, named)
    yield model_rule("host_beside_ip", "host", _BESIDE_IP, "[redacted:ip]")
    yield model_rule("port", "port", _PORT, "[redacted:host]|[redacted:ip]")
    yield model_rule("port_near", "port", _NEAR_PORT, "[redacted:host]|[redacted:ip]")
    yield model_rule("port_listening", "port", _LISTENING, "listen |in use")
