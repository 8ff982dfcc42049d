"""
Take credentials out of texts and plain data, and for a model the server's insides too.

`redact_text` is for one text, `redact` for a structure, `clean_line` makes one safe printable line, and a
`Redactor` holds named rules that can be added and removed. All this is a second line of defence: it knows
formats and names, it cannot know that `Tuesday` is somebody's password.

Time is linear in the text: a rule runs only when one of its literal gates occurs, repetitions are bounded
wherever a failed match could start again one character further, and inputs are capped before matching.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal

__all__ = ["DEFAULT_RULES", "Redactor", "Rule", "clean_line", "redact", "redact_text"]

Profile = Literal["model", "log"]

_FAILED = "[redacted]"
_MARK = "[redacted:"
_MARKER = r"\[redacted:\w{1,40}\]"
_CAP = 65_536  # characters of one text that are looked at
_PASSES, _SHORT = 5, 8_192  # a text of at most so many characters is gone through so many times
_DEPTH, _NODES, _CHARS = 12, 5_000, 262_144  # bounds of one structure

_re = lru_cache(maxsize=None)(re.compile)  # compiled at first use: importing the module stays cheap


@dataclasses.dataclass(frozen=True)
class Rule:
    """
    One named kind of finding.

    Args:
        name: Unique in a redactor; what `Redactor.remove` takes.
        kind: What stands in the marker `[redacted:KIND]`: letters, digits and underscores.
        pattern: A regular expression. Of a match the first group that took part among `v`, `w` and `x` is
            replaced, or the whole match.
        gates: Lower-case literals, one of which must occur in the lower-cased text; empty means always.
        run: Length, in characters, that the longest run of word characters, dots and hyphens of the text must
            have for the rule to be tried; 16 or more, or 0 for any.
        profiles: Where the rule holds.
        pii: Whether it holds only with `pii=True`.
        check: Says of a match whether it counts, where a pattern alone cannot.
        find: Yields start and end of each finding itself, in place of `pattern`.
    """

    name: str
    kind: str
    pattern: str = ""
    gates: tuple[str, ...] = ()
    run: int = 0
    profiles: tuple[Profile, ...] = ("model", "log")
    pii: bool = False
    check: Callable[[re.Match[str]], bool] | None = None
    find: Callable[[str], Iterable[tuple[int, int]]] | None = None

    def spans(self, text: str) -> Iterable[tuple[int, int]]:
        """Yield start and end, in characters, of each finding in `text`, in order."""
        if self.find is not None:
            yield from self.find(text)
            return
        for m in _re(self.pattern).finditer(text):
            if self.check is None or self.check(m):
                yield m.span(_group(m))


def _group(m: re.Match[str]) -> str | int:
    return next((g for g in "vwx" if g in m.re.groupindex and m.start(g) >= 0), 0)


def _words(words: str) -> str:
    """Spell a case-insensitive choice of words so that `re` can reject a position by its first character."""
    return "(?:" + "|".join(f"[{w[0].lower()}{w[0].upper()}](?i:{w[1:]})" for w in words.split()) + ")"


# --- names and values ------------------------------------------------------------------------------

_STRONG_NAME = (
    r"(?:passw(?:or)?d|passwrd|passwort|kennwort|contraseña|senha|пароль|密码|passphrase|passcode|pwd|"
    r"secret|token|"
    r"(?:api|access|secret|priv(?:ate)?|auth|account|(?:en|de)crypt(?:ion)?|signing|shared|master|"
    r"subscription|storage|"
    r"servicerole|consumer|instrumentation|functions?|ssh|c[iy]pher|crypto?|hmac|jwt|aes|rsa|fernet|"
    r"webhook|license|"
    r"app(?:lication)?|root|admin|recovery|deploy|client|server|integration)key|jwt|bearer|basicauth|"
    r"(?:client|saml)assertion|samlresponse|sess(?:ion)?id|csrf|xsrf|connectsid|mnemonic|(?:seed|"
    r"recovery)phrase|"
    r"(?:recovery|backup)codes?|codeverifier|(?:access|amz|goog)signature|(?:otp|mfa|2fa)seed)"
    r"(?:\d{1,2}|(?<!token)s|base|hash|value|text|b64|base64|plain|raw|old|new|confirm\w*|data|(?<=key)id)?\Z"
)
_HARMLESS_NAME = (
    r"(?:page|next|prev|previous|continu(?:e|ation)|sync|cursor|pagination|skip|resume|progress|start|end|"
    r"stop|eos|bos|"
    r"pad|unk|mask|sep|cls|max|min|num|total|prompt|completion|input|output|first|last|special|delta|"
    r"change|watch|"
    r"unexpected|public|per|nextpage)token|.*publickey\w*"
)
_WEAK_NAME = (
    r"key|auth|credentials?|creds?|sig|signature|session|sid|code|ticket|assertion|seed|salt|nonce|"
    r"verifier|hmac|sas|"
    r"passkey"
)
_DIGIT_NAME = r"pin|otp|totp|cvv2?|cvc2?|(?:pin|otp|mfa|2fa|totp|verification|security|login|sms)code"


@lru_cache(maxsize=1024)
def _grade(name: str) -> str:
    """Grade a key by its name: `strong`, `pass`, `digits`, `weak` (only random values count), or empty."""
    flat = "".join(c for c in name.lower() if c.isalnum())
    if _re(_HARMLESS_NAME).fullmatch(flat) or _re(r".*session(?:[_-]id|Id|ID)").fullmatch(name):
        return ""
    if _re(_STRONG_NAME).search(flat):
        return "strong"
    if _re(_DIGIT_NAME).fullmatch(flat):
        return "digits"
    # The others are short: `key` must be a word of its own, as in `sort_key` and not in `monkey`.
    last = _re(r"(?:[A-Z]?[a-z]+|[A-Z]+)\d{0,2}\Z").search(name)
    word = last.group().lower().rstrip("0123456789") if last else ""
    if word == "pass" or _re(r"(?:db|user|smtp|mail|root|admin|ftp|ssh|redis|auth|svc)pass").fullmatch(flat):
        return "pass"
    return "weak" if _re(_WEAK_NAME).fullmatch(word) else ""


_HARMLESS_VALUE = (
    r"(?i:null|none|nil|true|false|undefined|n/?a|yes|no|on|off|str(?:ing)?|int|bytes|bool|float|"
    r"secretstr|any|object|"
    r"required|optional|missing|invalid|expired|incorrect|empty|wrong|rejected|denied|unknown|hidden|"
    r"unset|not|set|"
    r"filtered|masked|removed|redacted|protected|provided|is|was|has|must|or|and|[*•xX.]+|<[\w -]*>?|"
    r"\$\{[^}]*\}?|\$\(?[a-z_]+\)?|await|new|lambda|yield|"
    r"\{{1,2} ?[\w.]* ?\}{0,2}|%\(\w+\)s|%[a-z]|your[-_].*|\[redacted.*|(?:os|self|cls|process|settings|"
    r"config|env|this|args|kwargs|request|req|ctx|"
    r"secrets|var|local|module|data|options?|params?|optional|union)[.\[][\w\"'].*|[\w.]{0,40}(?:getenv|"
    r"environ|get|getpass|"
    r"str|decrypt\w*|read\w*|load\w*)[(\[].*)"
)


def _harmless(value: str) -> bool:
    """Whether `value` is a placeholder, a type, an expression, or holds nothing but a marker."""
    if _has_marker(value):
        return _wordy(_re(r"\[redacted:\w+\]?").sub("", value).strip())
    return not value or bool(_re(_HARMLESS_VALUE, re.S).fullmatch(value))


def _wordy(value: str) -> bool:
    """Whether `value` reads as a word or a name: letters, with capitals only where names have them."""
    word = value.strip(".,:;!?()")
    return bool(_re(r"(?:[^\W\d_][^\W\d_A-Z]*|[A-Z]+|(?:[A-Z][a-z]{2,}){2,4}|[a-z]+(?:['’-][a-z]+)*)?").fullmatch(word))


def _random(value: str) -> bool:
    """Whether `value` holds a piece too irregular for a word, a date, a number or a UUID."""
    if len(value) < 12 or _re(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch(value):
        return False
    for piece in _re(r"[A-Za-z0-9]{12,}").findall(value[:512]):
        if not piece.isalpha() and not piece.isdigit():
            return True
        if len(piece) >= 20 and len(_re(r"[A-Z](?![a-z]{2})").findall(piece)) * 5 >= len(piece) and not piece.isupper():
            return True
    changes = len(_re(r"[a-z](?=[A-Z0-9])|[A-Z](?=\d)|\d(?=[A-Za-z])").findall(value[:512]))
    return len(value) >= 16 and changes * 5 >= min(len(value), 512) and any(c.isdigit() for c in value)


def _counts(grade: str, value: str, sep: str = "=", quoted: bool = True, more: bool = False) -> bool:
    """Whether `value` under a name of this grade is a secret; `more`: further words follow in its line."""
    if not grade or (grade == "weak" and len(value) < 12) or _harmless(value):
        return False
    if grade == "digits":
        return bool(_re(r"\d[\d -]{2,8}").fullmatch(value))
    if grade == "weak":
        return _random(value)
    if grade == "pass" and (_wordy(value) or value.isdigit()):
        return len(value) > 5 and "=" in sep
    if sep == ",":  # a pair in a tuple, or only two names in a list
        return not _wordy(value) and not _re(r"[a-z_.-]+|[A-Z_.-]+").fullmatch(value)
    if quoted or "=" in sep:
        return True
    if _wordy(value):  # `password: required here` is prose, `password: swordfish` is not
        return not more and value[-1].isalnum()
    return not (more and len(value) < 4)


# --- assignments -----------------------------------------------------------------------------------

_QUOTE = r"(?:\\{0,6}[\"'`]|&quot;|&#3[49];|%22)"  # of any escape level
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
    r"(?P<q>" + _QUOTE + r")(?P<v>(?:[^\n\\\"'`&%]{1,1024}|(?!(?P=q))(?:\\.|[^\n\\])){0,512})|"
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
        if at < end or not (grade := _grade(name)):
            continue
        value = _re(_VALUE).match(text, at)
        if value is None or value.lastgroup is None:
            continue
        start, stop = value.span(value.lastgroup)
        bare = value.lastgroup == "u"
        more = bare and bool(_re(r"[ \t]+[^\W_]|[ \t]+\(|[),|\]]|[ \t]*=").match(text, stop))
        found = text[start:stop]
        if bare and _re(r"[A-Za-z_][A-Za-z_.]*:?").fullmatch(found) and _grade(found.rstrip(":")) == "strong":
            continue  # `password=password`: one name given for another
        if _counts(grade, found, sep, not bare, more):
            yield start, stop
        elif stop - start < 64:  # a long harmless value is not read again for each name in it
            continue
        end = value.end()


def _assignments(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names in JSON, YAML, env, queries, arguments, headers and connection strings."""

    def named() -> Iterator[tuple[str, str, int]]:
        name_before = _re(_EMAN).match
        for m in _re(_SEPARATOR).finditer(text):
            at = m.start()
            name = name_before(text[max(0, at - 150) : at][::-1])
            if name and not _marked(text, at - name.end()):
                yield name["k"][::-1], "=" if m["s"][-1:] in "dD" else m["s"], m.end()

    return _assigned(text, named())


def _flags(text: str) -> Iterator[tuple[int, int]]:
    """Find values of secret names behind the flags of a command line."""
    return _assigned(text, ((m["k"], m["s"] or ",", m.end()) for m in _re(_FLAG).finditer(text)))


def _cookies(text: str) -> Iterator[tuple[int, int]]:
    """Find the values in Cookie and Set-Cookie headers and cookie jars, but not the attributes."""
    header = (
        r"[cC](?<!\[redacted:.)(?i:ookies?)" + _QUOTE + r"?\]?(?:\s{0,4}[:=]|\s?,(?=\s?b?[\"'])| were|"
        r" (?=[\w.-]{1,80}=))\s{0,4}\[?b?"
        r"(?P<v>[^\n<>]{1,8192})"
    )
    attribute = r"path|domain|expires|max-age|samesite|version|priority|comment"
    pair = (
        r"([\w$](?<![\w.$!-].)[\w.$!-]{0,99})(?=[=\\\"':&%`])"
        + _QUOTE
        + r"?(?:=|: ?)"
        + _QUOTE
        + r"?([^;\s\"'<>,&\\]{4,4096})"
    )
    for m in _re(header).finditer(text):
        for p in _re(pair).finditer(text, *m.span("v")):
            if not _re(attribute, re.I).fullmatch(p[1]) and (";" in m[0] or text[p.end(1)] == "=" or _random(p[2])):
                yield p.span(2)


def _is_code(m: re.Match[str]) -> bool:
    return bool(_re(_BEFORE_CODE).search(m.string, max(0, m.start() - 80), m.start()))


def _named(m: re.Match[str]) -> bool:
    value = m[_group(m)].strip()
    if " " in value and all(map(_wordy, value.split())):
        return False
    return _counts(_grade(m["k"]), value)


def _in_prose(m: re.Match[str]) -> bool:
    """Whether what follows the word `password` or `token` in a sentence looks like one."""
    value = m["v"].rstrip(".,;:!?)]}>")
    if value.isalpha() and value.islower():
        return False
    before = _re(r"([A-Za-z]+)[ -]\Z").search(m.string, max(0, m.start() - 20), m.start())
    if before and _re(_HARMLESS_NAME).fullmatch(f"{before[1]}{m[0][:5]}".lower()):
        return False
    odd = _random(value)
    if not odd and m[0][:3].lower() not in ("key", "tok", "cre"):
        odd = sum(bool(_re(c).search(value)) for c in ("[a-z]", "[A-Z]", r"\d", r"[^\w\s.,:'-]")) > 2
    return odd and not _has_marker(value) and not _harmless(value)


_PROSE = (
    r"(?<![\w-])"
    + _words("password passwd passphrase pwd secret token key credentials?")
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
    _words("name key field") + _QUOTE + r"?\s{0,4}[:=]\s{0,4}(?P<q>" + _QUOTE + r")(?P<k>[\w.-]{2,80})(?P=q)"
    r"(?:[^\n<>]{0,20}(?i:value)" + _QUOTE + r"?\s{0,4}[:=]\s{0,4}" + _QUOTE + r"(?P<v>(?:(?!(?P=q))"
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

# --- credentials by their formats ------------------------------------------------------------------

# A start, also after the `\n` and `%3D` of escaped texts.
_B = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
# The tail of a shortened token (`sk-proj-abc...xyz`) is secret too.
_CUT = r"(?:(?:\.{3}|…|\*{3,})[\w/+=-]{3,})?"

# Tokens that their owner gave a prefix; a body of sixteen characters or more follows.
_PREFIXES = {
    "anthropic_key": "sk-ant-",
    "openai_key": "sk-proj- sk-svcacct- sk-admin- sk-or-v1- sk-lf-",
    "github_token": "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    "gitlab_token": "glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- "
    "glffct- GR1348941",
    "google_key": "AIza ya29. GOCSPX- 1//0 AQ.Ab GOOG1",
    "slack_token": "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb- xoxp- xoxr- xoxs- xapp-",
    "stripe_key": "sk_live_ sk_test_ rk_live_ rk_test_",
    "sendgrid_key": "SG.",
    "mail_key": "xkeysib- xsmtpsib- re_ md-",
    "npm_token": "npm_",
    "package_token": "pypi-Ag rubygems_ oy2 cio CLOJARS_ AKCp cmVmdGtu",
    "docker_token": "dckr_pat_ dckr_oat_",
    "huggingface_token": "hf_ api_org_",
    "digitalocean_token": "dop_v1_ doo_v1_ dor_v1_ dos_v1_ dot_v1_",
    "shopify_token": "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_",
    "square_token": "sq0atp- sq0csp- sq0idp- EAAA EAAl",
    "facebook_token": "EAAC EAAB EAAG EAAD",
    "atlassian_token": "ATATT3 ATCTT3 ATBB ATCBB",
    "vault_token": "hvs. hvb. hvr.",
    "ai_key": (
        "xai- gsk_ pplx- r8_ nvapi- lsv2_pt_ lsv2_sk_ pcsk_ tvly- fc- e2b_ jina_ csk- fw_ tgp_v1_ "
        "apify_api_ rpa_ "
        "wandb_v1_ sk_ co_ sk-"
    ),
    "cloud_token": (
        "dapi dkea dose HRKU- fo1_ fm1_ fm2_ FlyV1 nfp_ nfc_ nfo_ nfu_ nfb_ sbp_ sb_secret_ pscale_tkn_ "
        "pscale_pw_ "
        "pscale_oauth_ napi_ npg_ tskey- pul- vcp_ vci_ vca_ vcr_ vck_ cfut_ cfat_ cfk_ v1.0- "
        "ocid1.credential "
        "LTAI AKID t1. y0_ AQVN ory_ sha256~ "
    ),
    "vendor_token": (
        "glc_ glsa_ NRAK- NRII- NRAA- NRRA- sntrys_ sntryu_ sntrya_ lin_api_ lin_oauth_ ntn_ secret_ "
        "figd_ figo_ figu_ figr_ "
        "ops_eyJ PMAK- access-sandbox- access-development- access-production- access_token$ sl.u. sl.B "
        "dt0c01. dt0s01. "
        "EZAK EZTK FLWSECK- FLWSECK_TEST- duffel_live_ duffel_test_ CFPAT- fio-u- pnu_ rdme_ sgp_ tfp_ "
        "CCIPAT_ CCIPRJ_ bkua_ "
        "sqp_ squ_ sqa_ phx_ aio_ rzp_live_ rzp_test_ shippo_live_ shippo_test_ "
        "AGE-SECRET-KEY-1 pat-na1- pat-eu1- sdk- api- mob- patt_ pk_live_sk_ oauth2_ ghcr_ tok_live_ "
        "key_live_ lip_ api_live_ "
        "test_sk_ live_sk_ hcaik_ hcalk_ rnd_ ubi_ dnkey- Zapier- TK-"
    ),
}

# The other formats: gates (separated by spaces), the length of the shortest, and a pattern.
_FORMATS = {
    "stripe_key": ("whsec_", 20, r"whsec_[\w+/=-]{20,}"),
    "jwt": (
        "eyj",
        16,
        _B + r"eyJ[\w-]{8,4096}(?:\.|%2E)(?=\.?[\w-]{2})[\w-]{0,8192}(?:(?:\.|"
        r"%2E)[\w-]{0,8192}){0,3}",
    ),
    "aws_session_token": (
        "igojb3jpz2lu iqojb3jpz2lu fwogzxivyxdz fqogzxivyxdz absk bedrock-api-key-",
        16,
        _B + r"(?:I[Qg]oJb3JpZ2lu|F[wQ]oGZXIvYXdz|ABSK|bedrock-api-key-)[\w+/=%-]{20,}",
    ),
    "aws_key": (
        "akia asia abia acca",
        20,
        r"(?:AKIA|ASIA|ABIA|ACCA)(?:(?<![A-Za-z0-9]....)|(?<=\\[nrt]....))[A-Z0-9]{16}(?![A-Z0-9])"
        r"(?:[\"']?[ ,:;/|]{1,3}[\"']?[\w/+]{40}(?![\w/+=]))?",
    ),
    "google_key": ("aaaa goog", 24, r"AAAA[\w-]{7}:[\w-]{100,}|GOOG[A-Z0-9]{20,60}"),
    "slack_webhook": (
        "hooks.slack",
        16,
        r"hooks\.slack(?:-gov)?\.com/(?:services|triggers|"
        r"workflows)/(?P<v>[\w/-]{16,})",
    ),
    "discord_webhook": ("/webhooks/", 16, r"discord(?:app)?\.com/api(?:/v\d+)?/webhooks/(?P<v>[\w/-]{20,})"),
    "webhook": (
        "webhook hook/ hooks/ hc-ping.com",
        0,
        r"webhook\.office\.com/webhookb2/(?P<v>[\w@/-]{36,})|hooks\.zapier\.com/hooks/catch/(?P<w>[\w/]{6,})|"
        r"/(?:open-apis/bot/v2/hook|hooks?|hc-ping\.com|webhooks?)/(?P<x>[A-Za-z0-9-]{20,})",
    ),
    "twilio_key": ("sk", 34, r"SK(?:(?<![A-Za-z0-9]..)|(?<=\\[nrt]..))[0-9a-fA-F]{32}(?![0-9A-Za-z])"),
    "mail_key": (
        "key- -us -",
        36,
        r"(?:key-[0-9a-f]{32}|[0-9a-f](?<![\w-].)[0-9a-f]{31}-(?:us\d{1,2}|"
        r"[0-9a-f]{8}-[0-9a-f]{8}))(?![\w-])",
    ),
    "telegram_token": (":a", 35, r"(?<!\d)\d{6,12}:A[\w-]{34}(?![\w-])"),
    "discord_token": (
        ".",
        58,
        r"[MNO](?:(?<![\w-].)|(?<=\\[nrt].))[\w-]{22,27}\.[\w-]{6,7}\.[\w-]{27,}|"
        r"mfa\.[\w-]{80,}",
    ),
    "azure_secret": (
        "q~ azdo jqqj99 azfu +a",
        0,
        r"[\w.~-]{3}\dQ~[\w.~-]{30,}|[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}|"
        r"[A-Za-z0-9]{50,56}JQQJ99[A-Za-z0-9]{20,}|"
        r"[\w-]{40,48}AzFu[\w-]{4,8}={0,2}|[\w/+]{30,76}\+(?:ASt|ARm|ASb|AEh|AIo|ACR|ABa)[\w/+]{4,12}={0,2}",
    ),
    "vendor_token": (
        ".atlasv1. mmk nral .hcp. pat sk.eyj dp.",
        34,
        _B + r"(?:\w{14}\.(?:atlasv1|hcp)\.[\w-]{50,}|\w{6}_\w{29}_mmk|[0-9a-f]{36,40}NRAL|"
        r"pat[A-Za-z0-9]{14}\.[0-9a-f]{60,}|"
        r"sk\.eyJ[\w.-]{20,}|dp\.[a-z]{2,5}\.[\w.-]{36,})",
    ),
    "asana_token": ("/", 32, r"(?<![\w/])[12]/\d{12,20}(?:/\d{12,20})?:[0-9a-f]{32}"),
    # A shape that many vendors chose: name_live_..., name-pat-..., name_v1_...
    "prefixed_token": (
        "_live_ _test_ _pat_ _sk_ _secret_ _api_ _key_ _token_ _v1_ -pat- -sk- -api- -key- -token-",
        24,
        _B + r"[A-Za-z][A-Za-z0-9]{1,15}[_-](?:live|test|pat|sk|secret|api|key|token|"
        r"v1)[_-](?:[a-z]{2,8}[_-])?[A-Za-z0-9]{20,}",
    ),
    "password_hash": (
        "$ } scram-",
        0,
        r"\$(?:2[abxy]?|[1567y]|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]*|bcrypt[\w-]*|"
        r"md5)\$[^\s\"'<>;]{8,512}|"
        r"(?:pbkdf2|argon2|bcrypt|scrypt|md5|sha1|sha256|"
        r"sha512)(?:[_:]\w+){0,4}\$[^\s\"'<>;$]{1,64}\$[^\s\"'<>;]{8,512}|"
        r"\{S?(?:SHA|MD5|CRYPT)\d{0,3}\}[\w+/=$.]{16,}|SCRAM-SHA-\d+\$[\w+/=$:]{20,}",
    ),
}

_PEM = (
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:(?:[^-]|"
    r"-(?!---)){0,32768}-{4,5} ?END [A-Z0-9 ]{1,60}-{4,5}|"
    r"(?:(?:\s|\\[nr])*[\w+/=]{16,100}){0,400}(?:(?:\s|\\[nr])*[\w+/]{1,100}=*(?![\w ]))?)"  # cut off: no END
)
_PARAM = r"[\w-]{1,40}=(?:\\?\"[^\"\n\\]{0,2000}\\?\"|[^\s,\"'\\]{0,2000})"
_AUTHORIZATION = (
    r"[aA](?<!\[redacted:.)(?i:uthorization)"
    + _QUOTE
    + r"?\]?\s{0,4}(?:[:=]|%3A|,(?=\s?b?[\"']))\s{0,4}[\[(]?b?"
    + _QUOTE
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


def _has_body(m: re.Match[str]) -> bool:
    body = m["body"]
    return (sum(c.isdigit() for c in body) > 1 or _random(body)) and (
        m["p"] not in ("sk-", "sk_", "co_") or _random(body)
    )


def _is_basic(m: re.Match[str]) -> bool:
    try:
        return b":" in base64.b64decode(m["v"] + "=" * (-len(m["v"]) % 4))
    except (binascii.Error, ValueError):
        return False


def _is_credential(m: re.Match[str]) -> bool:
    return not _has_marker(m["v"]) and (not _wordy(m["v"]) or _random(m["v"])) and not _harmless(m["v"])


def _is_bearer(m: re.Match[str]) -> bool:
    return _is_credential(m) and not _re(r"[A-Za-z_-]{2,30}=(?!=|\Z)").match(m["v"])  # `Bearer realm="api"`


def _no_port(m: re.Match[str]) -> bool:
    return not _re(r"\d{2,5}[/?#].*").match(m[_group(m)]) and not _has_marker(m[_group(m)])


def _secret_rules() -> Iterator[Rule]:
    yield Rule("private_key", "private_key", _PEM, ("private key",))
    putty = r"Private-Lines: \d+(?P<v>(?:\s|\\[nr])+(?:[\w+/=]{16,80}(?:\s|\\[nr])*){1,200})"
    yield Rule("putty_key", "private_key", putty, ("private-lines",))
    jwk = r"\"(?:d|p|q|dp|dq|qi|k)\\?\"\s?:\s?\\?\"(?P<v>[\w-]{20,2000})"
    yield Rule("jwk", "private_key", jwk, ("kty",))
    for kind, prefixes in _PREFIXES.items():
        starts = prefixes.split()
        pattern = (
            _B + r"(?P<p>" + "|".join(map(re.escape, starts)) + r")(?P<body>[\w-]{14,}"
            r"(?:[.~=$][\w-]{2,}){0,20}={0,2}|"
            r"[\w-]{6,64}(?:[.~=$][\w-]{3,}){1,20}|[\w-]{6,}(?=\.{3}|…|\*{3}))" + _CUT
        )
        yield Rule(kind, kind, pattern, tuple(w.lower() for w in starts), 16, check=_has_body)
    for kind, (gates, run, pattern) in _FORMATS.items():
        name = f"{kind}_format" if kind in _PREFIXES else kind
        yield Rule(name, kind, f"(?:{pattern}){_CUT}", tuple(gates.split()), run)
    yield Rule("url_userinfo", "userinfo", _USERINFO, ("@", "%40"), check=_no_port)
    yield Rule("url_token", "userinfo", r"//(?P<v>[\w.~%+-]{16,256})@", ("@",), check=lambda m: _random(m["v"]))
    yield Rule("userinfo", "userinfo", _USERINFO_BARE, ("@",), check=_no_port)
    yield Rule("auth_header", "authorization", _AUTHORIZATION, ("authorization",), check=_is_credential)
    words = "bearer negotiate ssws geniekey api-key apikey"
    scheme = _words(words) + r"(?: |%20|\+)+(?P<v>[\w.~+/=-]{12,4096})"
    yield Rule("auth_scheme", "authorization", scheme, tuple(words.split()), check=_is_bearer)
    basic = r"[bB](?i:asic)(?: |%20|\+)+(?P<v>[\w+/-]{6,2048}={0,2})"
    yield Rule("auth_basic", "authorization", basic, ("basic",), check=_is_basic)
    digest = (
        _words("digest oauth")
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


# --- a server's insides: paths, traces, SQL, hosts -------------------------------------------------

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
    r"(?<![\w.])(?:10(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}|(?:172\.(?:1[6-9]|2\d|3[01])|192\.168|169\.254|"
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
    r"(?<![\w.-])(?:\w[\w-]{0,62}\.){1,10}(?:internal|local|lan|corp|intranet|intra|localdomain|"
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
_HOST_PORT = r"(?<![\w.-])(?!port|line|code)[a-zA-Z][a-zA-Z0-9-]{1,62}:(?:" + _PORTS.replace(" ", "|") + r")(?![\w.])"
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
    "merge": r"(?i:\s{1,9}INTO\s{1,9}\w)",
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
        for m in _re(f"[{word[0]}{word[0].upper()}](?i:{word[1:]}){rest}").finditer(text)
    ]
    end = plain = 0  # there is no evidence before `plain`
    for m in sorted(found, key=lambda m: m.start()):
        start = m.start()
        if start < end or (start and (text[start - 1].isalnum() or text[start - 1] in "_-")):
            continue
        parts = m.groupdict()
        if parts.get("from") and not (m[0][:6].isupper() and parts["from"].isupper()):
            # `Select a colour from the list` needs something more to be SQL.
            listed = r"\s*(?:\*|[\w.]+\([^()]*\)|[\w.]*[._]\w+|\w+(?:\s*,\s*[\w.]+)+)\s*"
            if "cols" not in parts or not _re(listed).fullmatch(parts["cols"]):
                if m.end() + 300 <= plain:
                    continue
                if not _re(_SQL_EVIDENCE).search(text, max(m.end(), plain - 40), m.end() + 340):
                    plain = m.end() + 340
                    continue
        before = text[start - 1 : start]
        rest = _re(_SQL_REST).match(text, start)
        end = max(m.end(), rest.end() if rest else 0)
        if text[max(0, start - 6) : start].upper() == "[SQL: ":
            closed = _re(r"\](?=\s*(?:\n|\Z|\(|\[|\\n))").search(text, start, start + 16_384)
        elif before and before in "\"'`":
            closed = _re(r"(?<!\\)" + before).search(text, m.end(), m.end() + 16_384)
        else:
            closed = _re(r"\\?\"\s*(?:[}\]]|,\s*\\?\"[\w-]+\\?\"\s*:)").search(text, m.end(), end)
        end = closed.start() if closed else end
        yield start, end


def _no_version(m: re.Match[str]) -> bool:
    return not _re(r"(?i:version|build|release|driver|v)[ :=]{1,3}\Z").search(
        m.string, max(0, m.start() - 12), m.start()
    )


def _is_file(m: re.Match[str]) -> bool:
    """Whether an absolute path is a file's and not a route: `GET /app/users` is a route."""
    if _re(r"/" + _SURE_ROOTS + r"\b").match(m[0]):
        return True
    if m[0].count("/") < 2 or (m[0].endswith("/") and m[0].count("/") < 3):
        return False
    return not _re(_ROUTE).search(m.string, max(0, m.start() - 20), m.start())


def _is_service(m: re.Match[str]) -> bool:
    scheme = _re(r"[A-Za-z][A-Za-z0-9]*(?:\+\w+)?\Z").search(m.string, max(0, m.start() - 24), m.start())
    return bool(scheme and _re(_URL_SCHEMES).match(scheme.group().partition("+")[0]))


def _model_rules() -> Iterator[Rule]:
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


# --- personal data ---------------------------------------------------------------------------------


def _luhn(m: re.Match[str]) -> bool:
    digits = [int(c) for c in m[0] if c.isdigit()]
    doubled = [d if i % 2 == 0 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(reversed(digits))]
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _mod97(m: re.Match[str]) -> bool:
    flat = m[0].replace(" ", "").upper()
    return int("".join(str(int(c, 36)) for c in flat[4:] + flat[:4])) % 97 == 1


def _pii_rules() -> Iterator[Rule]:
    email = r"(?<!//)(?<![\w.%+-])[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@])"
    yield Rule("email", "email", email, ("@",), pii=True)
    iban = (
        r"(?<!\w)[A-Za-z]{2}\d{2}(?:[A-Za-z0-9]{11,30}|"
        r"(?: [A-Z0-9]{4}){2,7}(?: (?=[A-Z]{0,2}\d)[A-Z0-9]{1,3})?)(?!\w)"
    )
    yield Rule("iban", "iban", iban, pii=True, check=_mod97)
    card = (
        r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}(?:[ -]?\d{1,7})(?![\w-])|"
        r"(?<![\w.-])3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?![\w-])"
    )
    yield Rule("card", "card", card, pii=True, check=_luhn)
    phone = (
        r"(?<![\w+.-])(?:\+\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){2,4}|"
        r"\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])"
    )
    yield Rule("phone", "phone", phone, ("+", "(", "-"), pii=True)


DEFAULT_RULES: tuple[Rule, ...] = (*_secret_rules(), *_model_rules(), *_pii_rules())
"""The rules of `redact_text`, in the order in which they are applied."""


# --- texts -----------------------------------------------------------------------------------------

# Nothing wider than what terminals are really sent, lest a stray escape swallows the start of a name.
_ANSI = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[!\"$'*]?[@-~]|\x1b[()*+][0-9A-Z]|"
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
)
# Controls, format characters that no script needs to be read, letters without ink, variation selectors, tags.
_UNSEEN = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def _clean(text: str) -> str:
    """Remove what cannot be seen and what is not UTF-8; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or not text.isascii():
        text = _re(_ANSI).sub("", text)
    text = _re("\r(?!\n)|[\x85\u2028\u2029]").sub("\n", text)
    text = _re(_UNSEEN).sub("", _re("[\x0b\x0c]").sub(" ", text))
    return _re("[\ud800-\udfff]").sub("\ufffd", text)


def _bounded(text: str) -> str:
    """Clean `text` and cut it at the cap, together with its last word: that may be the head of a secret."""
    clean = _clean(text[: 2 * _CAP])
    if len(clean) <= _CAP and len(text) <= 2 * _CAP:
        return clean
    head = clean[: _CAP - 2]
    end = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t"), head.rfind('","'), 0)
    return f"{head[:end].rstrip()} …"


class _Gates:
    """Which rules a text could concern, found by looking for each gate once."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.always = [i for i, r in enumerate(rules) if not r.gates or r.gates[0].startswith(_MARK)]
        self.behind: dict[str, list[int]] = {}
        for i, rule in enumerate(rules):
            for gate in rule.gates:
                self.behind.setdefault(gate, []).append(i)
        self.near = {g for g, behind in self.behind.items() if any(not rules[i].run for i in behind)}
        self.far = self.behind.keys() - self.near  # gates of rules that need a long word

    def open(self, text: str) -> Iterable[Rule]:
        """Return the rules with an open gate, in their order."""
        low = text.lower()
        run = max(map(len, _re(r"[\w.…*-]{16,}").findall(low)), default=0)
        found = set(self.always)
        found.update(*[self.behind[g] for g in self.near if g in low])
        if run:
            found.update(*[self.behind[g] for g in self.far if g in low])
        return [self.rules[i] for i in sorted(found) if self.rules[i].run <= run]


class Redactor:
    """
    An immutable, ordered set of rules.

    Args:
        rules: The rules, applied in this order; the default ones when left out.
    """

    def __init__(self, rules: Iterable[Rule] = DEFAULT_RULES) -> None:
        self.rules: tuple[Rule, ...] = tuple(rules)
        self._gates: dict[tuple[Profile, bool], _Gates] = {}

    def add(self, *rules: Rule) -> Redactor:
        """Return a redactor that applies `rules` before its own; a name already taken is a `ValueError`."""
        names = [r.name for r in (*rules, *self.rules)]
        if taken := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"rule names must be unique: {', '.join(taken)}")
        for rule in rules:
            re.compile(rule.pattern)
            if not re.fullmatch(r"\w+", rule.kind):
                raise ValueError(f"a kind has letters, digits and underscores only: {rule.kind!r}")
        return Redactor((*rules, *self.rules))

    def remove(self, *names: str) -> Redactor:
        """Return a redactor without the rules of these names; an unknown name is a `KeyError`."""
        if unknown := set(names) - {r.name for r in self.rules}:
            raise KeyError(", ".join(sorted(unknown)))
        return Redactor(r for r in self.rules if r.name not in names)

    def redact_text(self, text: str, *, profile: Profile = "model", pii: bool = False) -> str:
        """Return `text` with each finding replaced by `[redacted:KIND]`; see the function of this name."""
        try:
            text = _bounded(text)
            # A marker ends with a bracket where a letter may have stood, so another rule can match beside it.
            # Short texts are therefore gone through until nothing changes; long ones would only take longer.
            for _ in range(_PASSES):
                before = text
                for rule in self._gates_of(profile, pii).open(text):
                    if not rule.gates or rule.gates[0][:10] != _MARK or any(g in text for g in rule.gates):
                        text = _replace(text, rule)
                if text == before or len(before) > _SHORT:
                    break
            return _bounded(text)
        except Exception:
            return _FAILED

    def _gates_of(self, profile: Profile, pii: bool) -> _Gates:
        gates = self._gates.get((profile, pii))
        if gates is None:
            if profile not in ("model", "log"):
                raise ValueError(f"unknown profile: {profile!r}")
            gates = _Gates([r for r in self.rules if profile in r.profiles and (pii or not r.pii)])
            self._gates[profile, pii] = gates
        return gates

    def redact(self, value: object, *, profile: Profile = "model", pii: bool = False) -> object:
        """Return `value` as plain JSON data with its secrets replaced; see the function of this name."""
        try:
            return _Walk(self, profile, pii).plain(value, 0, "")
        except Exception:
            return _FAILED


def _has_marker(text: str) -> bool:
    """Whether there is a whole marker in the text; the head of one alone proves nothing."""
    return _MARK in text and _re(_MARKER).search(text) is not None


def _marked(text: str, start: int) -> bool:
    """Whether a whole marker begins at `start` or surrounds it."""
    opened = text.rfind("[", max(0, start - 60), start + 1)
    if opened < 0 or not text.startswith(_MARK, opened):
        return False
    whole = _re(_MARKER).match(text, opened)
    return whole is not None and start < whole.end()


def _replace(text: str, rule: Rule) -> str:
    parts: list[str] = []
    end = 0
    for start, stop in rule.spans(text):
        if start < end or stop <= start or _marked(text, start):
            continue
        between = text[end:start]
        if not parts or between.strip():  # findings with only blanks between them share one marker
            parts += (between, f"{_MARK}{rule.kind}]")
        end = stop
    return "".join((*parts, text[end:])) if parts else text


def clean_line(text: str, limit: int) -> str:
    """
    Return `text` as one line of safe printable text of at most `limit` characters.

    Control, ANSI, zero-width, bidirectional and tag characters are removed, every run of white space becomes
    one blank, and a text that is cut ends with an ellipsis, never with a half of a `[redacted:KIND]` marker.
    """
    try:
        line = " ".join(_bounded(text).split())
        if len(line) <= limit:
            return line
        line = line[: max(limit - 1, 0)]
        half = line.rfind("[")
        if half >= 0 and "]" not in line[half:] and (line.startswith(_MARK, half) or _MARK.startswith(line[half:])):
            line = line[:half]
        return (line.rstrip() + "…")[: max(limit, 0)]
    except Exception:
        return _FAILED[: max(limit, 0)]


# --- structures ------------------------------------------------------------------------------------


class _Walk:
    """One walk through one structure: what is left of its bounds, and the containers it stands in."""

    def __init__(self, redactor: Redactor, profile: Profile, pii: bool) -> None:
        self.redactor, self.profile, self.pii = redactor, profile, pii
        self.nodes, self.chars = _NODES, _CHARS
        self.above: set[int] = set()

    def plain(self, value: object, depth: int, grade: str) -> object:
        """Return `value` as JSON data; `grade` is that of the key above it."""
        self.nodes -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(str.__str__(value), grade)
        if isinstance(value, (int, float)):
            return self.number(value, grade)
        if id(value) in self.above:
            return "[redacted:cycle]"
        if depth >= _DEPTH or self.nodes <= 0:
            return "[redacted:size]"
        self.above.add(id(value))
        try:
            return self.container(value, depth, grade)
        finally:
            self.above.discard(id(value))

    def container(self, value: object, depth: int, grade: str) -> object:
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):
            value = dump(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            result: dict[str, object] = {}
            for key, item in value.items():
                if self.nodes <= 0:
                    result["…"] = "[redacted:size]"
                    break
                name = str.__str__(key) if isinstance(key, str) else str(self.plain(key, _DEPTH, ""))
                own = "strong" if grade == "strong" else _grade(name)
                header = _re(r"(?:proxy-)?authorization|(?:set-)?cookies?").fullmatch(name.lower().replace("_", "-"))
                result[self.text(name, "")] = self.plain(item, depth + 1, "strong" if header else own)
            return result
        if isinstance(value, (list, tuple, AbstractSet)):
            items: list[object] = []
            for item in value:
                if self.nodes <= 0:
                    items.append("[redacted:size]")
                    break
                items.append(self.plain(item, depth + 1, grade))
            return items
        return f"{_MARK}{''.join(_re('[A-Za-z0-9_]').findall(type(value).__name__)) or 'object'}]"

    def text(self, value: str, grade: str) -> str:
        if self.chars <= 0:
            return "[redacted:size]"
        self.chars -= len(value)
        if _counts(grade, value.strip()):
            return "[redacted:secret]"
        return self.redactor.redact_text(value, profile=self.profile, pii=self.pii)

    def number(self, value: int | float, grade: str) -> object:
        if grade == "strong" or (grade == "digits" and _counts(grade, str(value))):
            return "[redacted:secret]"
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else repr(float(value))
        return int(value) if value.bit_length() <= 256 else "[redacted:int]"


_DEFAULT = Redactor()


def redact_text(text: str, *, profile: Profile = "model", pii: bool = False) -> str:
    """
    Return `text` with each finding replaced by `[redacted:KIND]`.

    Newlines and tabs stay, other control and invisible characters go. What lies beyond 65,536 characters is
    dropped. Should anything raise, the result is the constant `[redacted]`.

    Args:
        text: Any string, lone surrogates included; the result is always valid UTF-8 text.
        profile: `model` for what a client sees; `log` keeps paths, stack traces, SQL and hosts for operators.
        pii: Whether e-mail addresses, phone, card and account numbers go too.
    """
    return _DEFAULT.redact_text(text, profile=profile, pii=pii)


def redact(value: object, *, profile: Profile = "model", pii: bool = False) -> object:
    """
    Return `value` as plain JSON data with its secrets replaced; `value` itself is never changed.

    Dicts, lists, tuples, sets, dataclasses and pydantic models are walked, by key name and by value, twelve
    levels and 5,000 values at most; a cycle ends in a marker. NaN and infinities become strings, any other
    object becomes `[redacted:TypeName]`. Should anything raise, the result is the constant `[redacted]`.

    Args:
        value: Anything.
        profile: As for `redact_text`.
        pii: As for `redact_text`.
    """
    return _DEFAULT.redact(value, profile=profile, pii=pii)
