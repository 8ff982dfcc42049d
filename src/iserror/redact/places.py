"""Credentials told by where they stand: assignments, headers, URLs, command lines, sentences."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from iserror.redact.names import HARMLESS_NAME, counts, grade_of, is_harmless, is_random, is_wordy
from iserror.redact.rule import Rule, any_word, group_of, has_marker, is_marked, regex

QUOTE = r"(?:\\{0,6}[\"'`]|&quot;|&#3[49];|%22)"  # of any escape level
# What separates a name from its value, and, read backwards from there, the name.
_SEPARATOR = (
    r"(?P<s>[:=](?:(?<=\w\w.)|(?<=[\w\])\"'`; \t\\][\])\"'`; \t].))(?:[=>](?!=))?|"
    r"%3[dDaA](?<=[\w%-]...)|,(?<=[\"'],)(?=\s?b?[\"']))\s{0,40}"
)
_EMAN = r"[ \t]{0,40}\]?(?:[\"'`]\\{0,6}|;touq&|;[94]3#&|22%)?\]?(?P<k>[\w.$-]{1,100})"
_FLAG = r"(?P<k>-(?<![\w.$-]-)-?[a-zA-Z][\w-]{2,40})(?:(?P<s>[ \t])[ \t]{0,4}|[\"'],\s?(?=b?[\"']))"
_VALUE = (
    r"(?!\[redacted|<)(?:[\[(]\s{0,4}(?=b?[\"']))?(?:[bBrRuU]{1,2}(?=[\"']))?(?:"
    # Quoted, closed or cut off.
    r"(?P<q>" + QUOTE + r")(?P<v>(?:[^\n\\\"'`&%]{1,1024}|(?!(?P=q))(?:\\.|[^\n\\])){0,512})|"
    r"\{(?P<b>[^{}\"':\n][^{}\n]{0,500})\}|\[(?P<l>[^\[\]{}\n]{1,2000})\]|"  # ODBC braces, a list
    r"[|>][+-]?\d?[ \t]*\r?\n[ \t]+(?P<y>[^\n]{1,2000}(?:\n[ \t]+[^\n]{1,2000}){0,40})|"  # a YAML block
    # Bare: `&`, `,` and `;` end it where another key, a blank or the end follows; brackets before a non-word.
    r"(?P<u>(?:[^\s\"'`<>&,;)}\]\\|%]{1,1024}|%(?!2[26cC])|[&,;](?!\s|\Z|amp;|quot;|lt;|[\w.-]{1,40}=)|"
    r"[)}\]\"'](?=\w)|\\(?![\\nrt\"'])){1,512}))"
)


def _assigned(text: str, named: Iterable[tuple[str, str, int]]) -> Iterator[tuple[int, int]]:
    """Find the values behind names, each given with its separator and the position of its value."""
    end = 0
    for name, sep, at in named:
        if at < end or not (grade := grade_of(name)):
            continue
        value = regex(_VALUE).match(text, at)
        if value is None or value.lastgroup is None:
            continue
        start, stop = value.span(value.lastgroup)
        bare = value.lastgroup == "u"
        more = bare and bool(regex(r"[ \t]+[^\W_]|[ \t]+\(|[),|\]]|[ \t]*=").match(text, stop))
        found = text[start:stop]
        if bare and regex(r"[A-Za-z_][A-Za-z_.]*:?").fullmatch(found) and grade_of(found.rstrip(":")) == "strong":
            continue  # `password=password`: one name given for another
        if counts(grade, found, sep, not bare, more):
            yield start, stop
        elif stop - start < 64:  # a long harmless value is not read again for each name in it
            continue
        end = value.end()


def _assignments(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names in JSON, YAML, env, queries, arguments, headers and connection strings."""

    def named() -> Iterator[tuple[str, str, int]]:
        name_before = regex(_EMAN).match
        for m in regex(_SEPARATOR).finditer(text):
            at = m.start()
            name = name_before(text[max(0, at - 150) : at][::-1])
            if name and not is_marked(text, at - name.end()):
                yield name["k"][::-1], "=" if m["s"][-1:] in "dD" else m["s"], m.end()

    return _assigned(text, named())


def _flags(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names behind the flags of a command line."""
    return _assigned(text, ((m["k"], m["s"] or ",", m.end()) for m in regex(_FLAG).finditer(text)))


def _cookies(text: str) -> Iterator[tuple[int, int]]:
    """Find the values in Cookie and Set-Cookie headers and cookie jars, but not the attributes."""
    header = (
        r"[cC](?<!\[redacted:.)(?i:ookies?)" + QUOTE + r"?\]?(?:\s{0,4}[:=]|\s?,(?=\s?b?[\"'])| were|"
        r" (?=[\w.-]{1,80}=))\s{0,4}\[?b?"
        r"(?P<v>[^\n<>]{1,8192})"
    )
    attribute = r"path|domain|expires|max-age|samesite|version|priority|comment"
    pair = (
        r"([\w$](?<![\w.$!-].)[\w.$!-]{0,99})(?=[=\\\"':&%`])"
        + QUOTE
        + r"?(?:=|: ?)"
        + QUOTE
        + r"?([^;\s\"'<>,&\\]{4,4096})"
    )
    for m in regex(header).finditer(text):
        for p in regex(pair).finditer(text, *m.span("v")):
            if not regex(attribute, re.I).fullmatch(p[1]) and (";" in m[0] or text[p.end(1)] == "=" or is_random(p[2])):
                yield p.span(2)


def _is_code(m: re.Match[str]) -> bool:
    return bool(regex(_BEFORE_CODE).search(m.string, max(0, m.start() - 80), m.start()))


def _named(m: re.Match[str]) -> bool:
    value = m[group_of(m)].strip()
    if " " in value and all(map(is_wordy, value.split())):
        return False
    return counts(grade_of(m["k"]), value)


def _in_prose(m: re.Match[str]) -> bool:
    """Whether what follows the word `password` or `token` in a sentence looks like one."""
    value = m["v"].rstrip(".,;:!?)]}>")
    if value.isalpha() and value.islower():
        return False
    before = regex(r"([A-Za-z]+)[ -]\Z").search(m.string, max(0, m.start() - 20), m.start())
    if before and regex(HARMLESS_NAME).fullmatch(f"{before[1]}{m[0][:5]}".lower()):
        return False
    odd = is_random(value)
    if not odd and m[0][:3].lower() not in ("key", "tok", "cre"):
        odd = sum(bool(regex(c).search(value)) for c in ("[a-z]", "[A-Z]", r"\d", r"[^\w\s.,:'-]")) > 2
    return odd and not has_marker(value) and not is_harmless(value)


_PROSE = (
    r"(?<![\w-])"
    + any_word("password passwd passphrase pwd secret token key credentials?")
    + r"(?: (?:is|was|of|value|provided|given|used|"
    r"supplied|received|got|now)){0,3}[:=]?\s{1,2}(?P<q>[\"'`“«])?(?P<v>[^\s\"'`”»]{6,512})"
)
_CODE = r"\d(?<![\w.-].)(?:[ -]?\d){3,8}(?!\w|\.\d)"
_BEFORE_CODE = (
    r"(?i:passcode|\botp|\btotp|\bpin|\b(?:one-time|verification|security|login|access|2fa|mfa|"
    r"auth\w{0,12})[ -](?:code|password|pin))"
    r"(?i: (?:code|is|was|for [\w.@-]{1,60})){0,3}\s?[:=]?\s[\"']?\Z"
)
_NAME_VALUE = (
    any_word("name key field") + QUOTE + r"?\s{0,4}[:=]\s{0,4}(?P<q>" + QUOTE + r")(?P<k>[\w.-]{2,80})(?P=q)"
    r"(?:[^\n<>]{0,20}(?i:value)" + QUOTE + r"?\s{0,4}[:=]\s{0,4}" + QUOTE + r"(?P<v>(?:(?!(?P=q))"
    r"[^\n]){1,2000})|"
    r"[^\n<>]{0,100}>(?P<w>[^<\n]{1,2000})<|(?:\r?\n|\\r\\n|\\n){2}(?P<x>[^\r\n\\]{1,2000}))"
)
_CLI = (
    r"\b(?:(?:curl|wget|https?|xh)\b[^\n|]{0,200}?\s[\"']?(?:-u|--(?:proxy-)?user|-U|-a|"
    r"--auth)(?:[\"'],)?[ =]?\s?[\"']?[\w.@+-]{1,64}:|"
    r"(?:mysql\w*|mariadb\w*|7z)\b[^\n|]{0,200}?\s[\"']?-p(?=[^\s\"'])|"
    r"(?:redis-cli|valkey-cli|sshpass|mongo\w*|(?:docker|podman|helm|oc|az)\b[^\n|]{0,40}\slogin|ldap\w+|"
    r"sqlcmd|bcp|unzip|zip|"
    r"rabbitmqadmin|mosquitto_\w+|ipmitool|influx|clickhouse-client|cqlsh)\b[^\n|]{0,200}?\s[\"']?-(?:a|p|"
    r"w|P|pw)(?:[\"'],)?\s{0,2}[\"']?|"
    r"smbclient\b[^\n|]{0,200}?-U\s?[\"']?[\w.\\-]{1,64}%|openssl\b[^\n|]{0,200}?\spass:)(?P<v>[^\s\"'|"
    r"]{3,256})"
)

_PARAM = r"[\w-]{1,40}=(?:\\?\"[^\"\n\\]{0,2000}\\?\"|[^\s,\"'\\]{0,2000})"
_AUTHORIZATION = (
    r"[aA](?<!\[redacted:.)(?i:uthorization)"
    + QUOTE
    + r"?\]?\s{0,4}(?:[:=]|%3A|,(?=\s?b?[\"']))\s{0,4}[\[(]?b?"
    + QUOTE
    + r"?"
    r"(?P<k>[A-Za-z][\w-]{1,30}(?: |%20|\+)+)?(?P<v>"
    + _PARAM
    + r"(?:,\s?"
    + _PARAM
    + r"){0,30}|[^\s\"'<>,;&\\)\]}%]{4,4096})"
)
# The password of a DSN may hold `/` and `@`; that of a web address ends before the path.
_USERINFO = (
    r"(?:(?<![pP]:)(?<![pP][sS]:)//[^\s:/?#@\"'<>()%]{0,100}:(?P<x>(?:[^\s\"'<>?:]|:(?!//)){1,256})@|"
    r"(?://|%2F%2F)[^\s:/?#@\"'<>()%]{0,100}(?::|%3A)"
    r"(?:(?P<v>[^\s\"'<>/?#]{1,256})|(?P<w>[^\s\"'<>@]{1,256}))(?:@|%40))(?=[\w.\[(%-])"
)
_USERINFO_BARE = (
    r"(?<![\w/.-])[\w.-]{1,64}:(?P<v>[^\s@/:\"'<>]{4,128})@(?:(?:tcp|unix)\(|[\w.-]{1,100}:\d{2,5}(?!\d))|"
    r"(?<![\w/.-])\w{1,32}/(?P<w>[^\s@/\"'<>]{3,64})@/{0,2}[a-zA-Z][\w.-]{0,100}:\d{2,5}/"
)


def _is_basic(m: re.Match[str]) -> bool:
    try:
        return b":" in base64.b64decode(m["v"] + "=" * (-len(m["v"]) % 4))
    except (binascii.Error, ValueError):
        return False


def _is_credential(m: re.Match[str]) -> bool:
    return not has_marker(m["v"]) and (not is_wordy(m["v"]) or is_random(m["v"])) and not is_harmless(m["v"])


def _is_bearer(m: re.Match[str]) -> bool:
    return _is_credential(m) and not regex(r"[A-Za-z_-]{2,30}=(?!=|\Z)").match(m["v"])  # `Bearer realm="api"`


def _no_port(m: re.Match[str]) -> bool:
    return not regex(r"\d{2,5}[/?#].*").match(m[group_of(m)]) and not has_marker(m[group_of(m)])


def rules() -> Iterator[Rule]:
    yield Rule("url_userinfo", "userinfo", _USERINFO, ("@", "%40"), check=_no_port)
    yield Rule("url_token", "userinfo", r"//(?P<v>[\w.~%+-]{16,256})@", ("@",), check=lambda m: is_random(m["v"]))
    yield Rule("userinfo", "userinfo", _USERINFO_BARE, ("@",), check=_no_port)
    yield Rule("auth_header", "authorization", _AUTHORIZATION, ("authorization",), check=_is_credential)
    words = "bearer negotiate ssws geniekey api-key apikey"
    scheme = any_word(words) + r"(?: |%20|\+)+(?P<v>[\w.~+/=-]{12,4096})"
    yield Rule("auth_scheme", "authorization", scheme, tuple(words.split()), check=_is_bearer)
    basic = r"[bB](?i:asic)(?: |%20|\+)+(?P<v>[\w+/-]{6,2048}={0,2})"
    yield Rule("auth_basic", "authorization", basic, ("basic",), check=_is_basic)
    digest = (
        any_word("digest oauth")
        + r"\s(?P<v>(?=[^\n]{0,400}(?:response|signature|token)=)"
        + _PARAM
        + r"(?:,\s?"
        + _PARAM
        + r"){1,30})"
    )
    yield Rule("auth_digest", "authorization", digest, ("digest", "oauth"))
    pair = r"[aA](?i:uth)[\"']?\s?[=:]\s?[\[(][\"'][^\"'\n]{0,80}[\"'],\s?[\"'](?P<v>[^\"'\n]{1,200})[\"']"
    yield Rule("auth_pair", "secret", pair, ("auth",))
    yield Rule("cookie", "cookie", gates=("cookie",), find=_cookies)
    element = (
        r"<(?P<k>[\w:.-]{2,80})(?:\s[^<>]{0,300})?>\s{0,8}(?:<!\[CDATA\[)?(?:(?P<v>[^<>]{1,4096}?)(?=<|"
        r"\]\])|(?P<w>[^\s<>]{3,4096})\Z)"
    )
    yield Rule("xml_element", "secret", element, ("<",), check=_named)
    yield Rule("name_value", "secret", _NAME_VALUE, ("name", "key", "field"), check=_named)
    yield Rule("assignment", "secret", gates=("=", ":", "%3d", "',", '",'), find=_assignments)
    yield Rule("flag", "secret", gates=(" -", "'-", '"-'), find=_flags)
    yield Rule("cli_password", "secret", _CLI, (" -", "'-", '"-', " pass:"))
    yield Rule(
        "prose_secret",
        "secret",
        _PROSE,
        ("pass", "pwd", "secret", "token", "key", "credential"),
        check=_in_prose,
    )
    code = ("passcode", "otp", "pin ", "pin:", " code", "-code", "password")
    yield Rule("one_time_code", "code", _CODE, code, check=_is_code)
