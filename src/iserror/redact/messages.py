"""Credentials in messages: signatures, links, protocol dialogues and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iserror.redact.names import HARMLESS_NAME, is_argument, is_harmless, is_random
from iserror.redact.rule import Rule, any_word, has_marker, regex

_SIGNATURE = (
    r"[sS](?i:ignature)[\w-]{0,8}[\"']?\s?[:=]\s?[\"']?(?:\w{1,10}=[^,;\s\"']{1,20},\s?){0,4}"
    r"(?:sha\d{1,3}|v\d|s)=(?P<v>[0-9a-fA-F]{32,128}|[\w+/]{32,128}={0,2})"
)
_DIALOGUES = {
    "redis_auth": (
        ("auth ",),
        r"\bAUTH (?:default |[\w.-]{1,40} )?(?P<v>[^\s\"'`]{8,256})(?<![a-z]{8})",
    ),
    "redis_args": (
        ("with args",),
        r"with args beginning with: (?P<v>[^\n;]{3,300})",
    ),
    "smtp_auth": (
        ("auth ",),
        r"\bAUTH (?:PLAIN|LOGIN|XOAUTH2|CRAM-MD5|OAUTHBEARER) (?P<v>[\w+/]{8,2048}={0,2})",
    ),
    "ftp_pass": (
        ("pass ",),
        r"(?s:\bUSER [^\n]{1,80}\n.{0,200}?)\bPASS (?P<v>[^\s\"']{3,256})",
    ),
    "imap_login": (
        (" login ",),
        r"(?<![\w.])[\w.]{1,8} LOGIN [\w.@\"-]{1,80} (?P<v>[^\s]{3,256})",
    ),
    "pragma_key": (
        ("pragma",),
        r"(?i:PRAGMA (?:re)?key)\s?=\s?[\"'](?P<v>[^\"'\n]{3,256})",
    ),
    "pgpass": (
        (":",),
        r":(?<=[\w*-]:)(?:\d{2,5}|\*):(?:[\w.-]{1,64}|\*):[\w.-]{1,64}:(?P<v>[^\s:]{4,128})(?![\w:])",
    ),
    "sql_password": (
        ("identified", "password '"),
        r"(?i:identified (?:with \S{1,60} )?by|with (?:encrypted )?password|set password =?) ?'"
        r"(?P<v>(?=[^'\n]{0,256}[^a-z'\n ])[^'\n]{1,256})'",
    ),
    "totp_secret": (
        ("totp(",),
        r"\bTOTP\([\"'](?P<v>[A-Z2-7]{16,128})",
    ),
    "device_config": (
        ("community ", "key ", "password ", "secret "),
        r"(?=[crpskCRPSK])(?:[cC]ommunity|radius-server host \S{1,80} key|[pP]assword [057]|[sS]ecret [0-9]|"
        r"[kK]ey [07]) "
        r"(?![a-z]{3,12}\b)(?P<v>\S{6,128})",
    ),
}
_LINKS = (
    r"/(?:reset(?:[-_]?password)?|password[-_]?reset|activat(?:e|ion)|verif(?:y|ication)|confirm(?:ation)?|invit(?:e|ation)|"
    r"magic(?:[-_]?link)?|unsubscribe|ics|calendar|share|public|auth|one[-_]?time)/(?:[A-Za-z0-9=]{1,12}/)?"
    r"(?:private-)?(?P<v>[\w.~-]{20,512})"
)
_URL_KEY = (
    r"[?&](?i:(?:x-)?(?:api[-_]?)?key|appid)=(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
    r"[0-9a-f]{32,64})(?![\w-])"
)
_PHRASES = {
    "seed_phrase": (
        ("phrase", "mnemonic", "words"),
        r"(?i:seed phrase|mnemonic(?: phrase)?|recovery phrase|seed words|"
        r"backup phrase)[\"']?\W{1,12}(?P<v>(?:[a-z]{3,8}[ ,]{1,2})"
        r"{8,23}[a-z]{3,8})",
    ),
    "passphrase": (
        ("passphrase", "password"),
        r"(?i:passphrase|password)\s[\"“«](?P<v>[^\s\"”»\n]{2,40}(?: [^\s\"”»\n]{2,40}){2,9})[\"”»]",
    ),
    "password_abroad": (
        (
            "passwor",
            "mot de",
            "contras",
            "senha",
            "wachtwoord",
            "hasł",
            "lösenord",
            "пароль",
            "密",
            "パス",
            "비밀",
            "：",
        ),
        r"(?i:passwort|mot de passe|contraseña|senha|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호|"
        r"password(?=\s?[：‹«「]))\s?[:：‹«「]\s?"
        r"(?P<v>[^\s›»」]{6,128})",
    ),
    "passwords": (
        ("password",),
        r"(?i:passwords? (?:tried|reset|changed|set)\b[^:\n]{0,20}?(?: to|:)) (?P<v>[^\s,]{6,80}(?:(?:, |"
        r" and )[^\s,]{6,80}){0,9})",
    ),
    "tried_login": (
        ("tried ", "credential", "in as ", "login as ", "authenticated as "),
        any_word("tried credentials?") + r" [\w.@-]{1,64}:(?P<v>[^\s\"'@:/]{5,128})|"
        r"(?i:in as|login as|authenticated as) [\w.@-]{1,64}:(?P<w>[^\s\"'@:/]{5,128})",
    ),
    "api_key_said": (
        ("key",),
        any_word("api access secret auth client license licence app account subscription")
        + r"[ -](?i:keys?)(?: provided)?:? [\"'`(<]?"
        r"(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,64}|(?:[A-Z0-9]{5}-){3,6}[A-Z0-9]{5}|"
        r"[\w-]{3,20}(?:\*{3,200}|…|\.{3,200})[\w-]{2,20})(?![\w-])",
    ),
    "token_said": (
        ("token",),
        any_word("refresh access api auth bearer device session") + r" ?(?i:token) [\"'`(<]?"
        r"(?P<v>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}(?: [0-9a-f]{8}){3,7}|[0-9a-f]{32,64})(?![\w-])",
    ),
    "backup_codes": (
        ("codes",),
        r"(?i:(?:backup|recovery|scratch) codes?:? )(?P<v>[\w-]{6,20}(?:, [\w-]{6,20}){0,19})",
    ),
    "device_code": (
        ("code",),
        r"(?i:(?:device|user|pairing|link) code:? )[\"'`]?(?P<v>[A-Z0-9]{4}-[A-Z0-9]{4})\b",
    ),
    "recovery_key": (
        ("recovery", "this key"),
        r"(?i:recovery key|(?:enter|"
        r"type) this key)\b[^:\n]{0,30}?:? [\"'`]?(?P<v>(?:[A-Za-z0-9]{4} ){3,15}[A-Za-z0-9]{4})\b",
    ),
    "sms_code": (
        ("g-",),
        r"\bG-(?P<v>\d{6})\b(?=[^\n]{0,40}(?i:code|log ?in|verif|sign in))",
    ),
    "credentials_said": (
        ("credential",),
        r"(?i:credentials?)\b[^:\n]{0,20}: (?P<v>[\w+/]{12,512}={0,2})(?![\w+/=])",
    ),
}


def _is_code(m: re.Match[str]) -> bool:
    return bool(regex(_BEFORE_CODE).search(m.string, max(0, m.start() - 80), m.start()))


def _in_prose(m: re.Match[str]) -> bool:
    """Return True if the word after `password` or `token` in a sentence looks like a secret."""
    value = m["v"].rstrip(".,;:!?)]}>")
    if value.isalpha() and value.islower():
        return False
    before = regex(r"([A-Za-z]{1,20})[ -]\Z").search(m.string, max(0, m.start() - 20), m.start())
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


def rules() -> Iterator[Rule]:
    yield Rule("signature", "secret", _SIGNATURE, ("signature",))
    yield Rule("link", "secret", _LINKS, ("/",), check=lambda m: is_random(m["v"]))
    yield Rule("url_key", "secret", _URL_KEY, ("key=", "appid="))
    for name, (gates, pattern) in (*_DIALOGUES.items(), *_PHRASES.items()):
        yield Rule(name, "secret", pattern, gates, check=is_argument)
    yield Rule(
        "prose_secret",
        "secret",
        _PROSE,
        ("pass", "pwd", "secret", "token", "key", "credential"),
        check=_in_prose,
    )
    code = ("passcode", "otp", "pin ", "pin:", " code", "-code", "password")
    yield Rule("one_time_code", "code", _CODE, code, check=_is_code)
