"""Credentials in URLs and HTTP headers."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from iserror.redact.names import is_argument, is_harmless, is_random, is_wordy
from iserror.redact.rule import QUOTE, Rule, any_word, group_of, has_marker, regex

_PARAM = r"[\w-]{1,40}=(?:\\?\"[^\"\n\\]{0,2000}\\?\"|[^\s,\"'\\=]{1,2000}={0,2})"
_AUTHORIZATION = (
    r"[aA](?<!\[redacted:.)(?i:uthorization)"
    + QUOTE
    + r"?\]?\s{0,4}(?:[:=]|%3A|,(?=\s?b?[\"']))\s{0,4}[\[(]?b?"
    + QUOTE
    + r"?"
    r"(?P<k>[A-Za-z][\w-]{1,30}(?: |%20|\+){1,20})?(?P<v>"
    + _PARAM
    + r"(?:,\s?"
    + _PARAM
    + r"){0,30}|[^\s\"'<>,;&\\)\]}%]{4,4096}(?:\r?\n[ \t]{1,20}[\w+/=]{16,2000})?)"
)
# The password in a DSN may contain `/` and `@`. The password in a web address ends before the path.
_USERINFO = (
    # First, whether the end of one is near: most slashes have none, and each would be read three times for that.
    r"(?://|%2F%2F)(?=[^\s\"'<>]{0,364}?(?:@|%40)[\w.\[(%/-])(?:"
    r"(?<![pP]:..)(?<![pP][sS]:..)(?<=//)[^\s:/?#@\"'<>()%]{0,100}:(?P<x>(?:[^\s\"'<>?:]|:(?!//)){1,256})@|"
    r"[^\s:/?#@\"'<>()%]{0,100}(?::|%3A)"
    r"(?:(?P<v>[^\s\"'<>/?#]{1,256})|(?P<w>[^\s\"'<>@]{1,256}))(?:@|%40))(?=[\w.\[(%/-])"
)
_URL_USER = r"//(?:(?P<v>[\w.~%+-]{16,256})@|(?P<w>[0-9a-fA-F]{32,64})(?=:))"
_USERINFO_BARE = (
    r"(?<![\w/.-])[\w.-]{1,64}:(?P<v>[^\s@/:\"'<>]{4,128})@(?:(?:tcp|unix)\(|[\w.-]{1,100}:\d{2,5}(?!\d))|"
    r"(?<![\w/.-])\w{1,32}/(?P<w>[^\s@/\"'<>]{3,64})@/{0,2}[a-zA-Z][\w.-]{0,100}:\d{2,5}/"
)


def _cookies(text: str) -> Iterator[tuple[int, int]]:
    """Find the values in Cookie and Set-Cookie headers and cookie jars, but not the attributes."""
    header = (
        r"[cC](?<!\[redacted:.)(?i:ookies?)" + QUOTE + r"?\]?(?:\s{0,4}[:=]|\s?,(?=\s?b?[\"'])| were|"
        r" (?=[\w.-]{1,80}=))\s{0,4}\[?b?"
        r"(?P<v>[^\n<>]{1,8192})"
    )
    attribute = r"path|domain|expires|max-age|samesite|version|priority|comment"
    pair = (
        r"([\w$.](?<![\w.$!-].)[\w.$!-]{0,99})(?=[=\\\"':&%`])"
        + QUOTE
        + r"?(?:=|: ?)"
        + QUOTE
        + r"?([^;\s\"'<>,&\\\]]{4,4096})"
    )
    for m in regex(header).finditer(text):
        end = m.start("v")
        for p in regex(pair).finditer(text, *m.span("v")):
            # Another header of the same map isn't a cookie.
            between = text[end : p.start(1)].strip(" \t\"'b[{(")
            if between and between[-1] not in ";," and "=" in between:
                continue
            if between and any(c in between for c in "])}"):
                continue
            end = p.end(2)
            if is_wordy(p[2]) and m[0][:12].lower().rstrip("s").startswith("cookie ") and "=" not in m[0][:9]:
                continue  # `Cookie consent=denied`
            if not regex(attribute, re.I).fullmatch(p[1]) and (";" in m[0] or text[p.end(1)] == "=" or is_random(p[2])):
                yield p.span(2)


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
    return is_argument(m) and not regex(r"\d{2,5}[/?#].*").match(m[group_of(m)])


def rules() -> Iterator[Rule]:
    yield Rule("url_userinfo", "userinfo", _USERINFO, ("@", "%40"), check=_no_port)
    yield Rule("url_token", "userinfo", _URL_USER, ("@",), check=lambda m: is_random(m[group_of(m)]))
    yield Rule("userinfo", "userinfo", _USERINFO_BARE, ("@",), check=_no_port)
    yield Rule("auth_header", "authorization", _AUTHORIZATION, ("authorization",), check=_is_credential)
    words = "bearer negotiate ssws geniekey api-key apikey"
    scheme = any_word(words) + r"(?: |%20|\+){1,20}(?P<v>[\w.~+/=-]{12,4096})"
    yield Rule("auth_scheme", "authorization", scheme, tuple(words.split()), check=_is_bearer)
    basic = r"[bB](?i:asic)(?: |%20|\+){1,20}(?P<v>[\w+/-]{6,2048}={0,2})"
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
    yield Rule("cookie", "cookie", gates=("cookie",), find=_cookies)
