"""Names that announce a secret, and values that may be one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from iserror.redact.rule import group_of, has_marker, regex

_STRONG_NAME = (
    r"(?:passw(?:or)?d|passwrd|passwort|kennwort|contraseña|senha|пароль|密码|passphrase|passcode|pwd|"
    r"secret|token|"
    r"(?:api|access|secret|priv(?:ate)?|auth|account|(?:en|de)crypt(?:ion)?|signing|shared|master|"
    r"subscription|storage|"
    r"servicerole|consumer|instrumentation|functions?|ssh|c[iy]pher|crypto?|hmac|jwt|aes|rsa|fernet|"
    r"webhook|license|unseal|recovery|vault|"
    r"app(?:lication)?|root|admin|recovery|deploy|client|server|integration)key|jwt|bearer|basicauth|"
    r"(?:client|saml)assertion|samlresponse|sess(?:ion)?id|csrf|xsrf|connectsid|mnemonic|(?:seed|"
    r"recovery)phrase|"
    r"(?:recovery|backup)codes?|codeverifier|(?:access|amz|goog)signature|(?:otp|mfa|2fa)seed|secretid|unsealkeysb64|psk|pepper|crumb|dockerconfigjson|dockercfg|mysapsso2|"
    r"honeycombteam|presharedkey|(?<=\Ax)(?!idempotency|cache|sort|partition|routing|object|amzobject|surrogate)\w{1,100}key)"
    r"(?:\d{1,2}|(?<!token)s|base|hash|value|text|b64|base64|plain|raw|old|new|confirm\w{0,40}|data|(?:(?<=accesskey)|(?<=privatekey))id)?\Z"
)
HARMLESS_NAME = (
    r"(?:page|next|prev|previous|continu(?:e|ation)|sync|cursor|pagination|skip|resume|progress|start|end|"
    r"stop|eos|bos|"
    r"pad|unk|mask|sep|cls|max|min|num|total|prompt|completion|input|output|first|last|special|delta|"
    r"change|watch|"
    r"unexpected|public|per|nextpage)token|.*publickey\w*"
)
_WEAK_NAME = (
    r"key|auth|credentials?|creds?|sig|signature|session|sid|code|ticket|assertion|seed|salt|nonce|"
    r"verifier|hmac|sas|"
    r"passkey|login|pat"
)
_DIGIT_NAME = r"pin|otp|totp|cvv2?|cvc2?|(?:pin|otp|mfa|2fa|totp|verification|security|login|sms)code"
_OTHER_PASSES = (
    r"(?:by|com|tres|sur|over|under|boarding|season|one|two|single|multi|first|second|band|render|shader)pass\Z"
)
# Letters that look Latin. An attacker may spell a name with them.
_LOOKALIKES = str.maketrans("аеіјорсѕухԁɡ", "aeijopcsyxdg")


MAX_NAME: Final = 256
"""How many characters of a name are read, from its end. A key in a structure may have any length."""


def grade_of(name: str) -> str:
    """Grade a key by its name: `strong`, `pass`, `digits`, `weak` (only random values count), or empty."""
    return _grade_of(name[-MAX_NAME:])


@lru_cache(maxsize=1024)
def _grade_of(name: str) -> str:
    if not name.isascii() and (latin := name.lower().translate(_LOOKALIKES)).isascii():
        name = latin
    flat = "".join(c for c in name.lower() if c.isalnum())
    if regex(HARMLESS_NAME).fullmatch(flat) or regex(r"(?!.*api).*session(?:[_-]id|Id|ID)").fullmatch(name):
        return ""
    if regex(_STRONG_NAME).search(flat):
        return "strong"
    if regex(_DIGIT_NAME).fullmatch(flat):
        return "digits"
    # The other names are short. `key` must be a separate word, as in `sort_key` and not in `monkey`.
    last = regex(r"(?:[A-Z]?[a-z]{1,60}|[A-Z]{1,60})\d{0,2}\Z").search(name)
    word = last.group().lower().rstrip("0123456789") if last else ""
    if word == "pw":
        return "pass"
    if flat.endswith("pass") and not regex(_OTHER_PASSES).search(flat):
        return "pass"
    return "weak" if regex(_WEAK_NAME).fullmatch(word) else ""


def announces_secret(flag: str) -> bool:
    """Return True if a secret follows this flag of a command line."""
    return flag.startswith("-") and "=" not in flag and grade_of(flag[:100]) in ("strong", "pass")


_HARMLESS_VALUE = (
    r"(?i:[\[(<]?(?:filtered|masked|removed|redacted|protected|hidden|secret|omitted|elided|empty|unset)[\])>]?|"
    r"[01]|-1|~|![a-z]+|read|write|null|none|nil|true|false|undefined|n/?a|yes|no|on|off|str(?:ing)?|int|bytes|bool|float|"
    r"secretstr|any|object|"
    r"required|optional|missing|invalid|expired|incorrect|empty|wrong|rejected|denied|unknown|hidden|"
    r"unset|not|set|"
    r"provided|is|was|has|must|or|and|[*•xX.]+|<[\w -]*>?|"
    r"\$\{[^}]*\}?|\$\(?[a-z_]+\)?|await|new|lambda|yield|"
    r"\{{1,2} ?[\w.]* ?\}{0,2}|%\(\w+\)s|%[a-z]|your[-_].*|\[redacted.*|(?:os|self|cls|process|settings|"
    r"config|env|this|args|kwargs|request|req|ctx|"
    r"secrets|var|local|module|data|options?|params?|optional|union)[.\[][\w\"'].*|[\w.]{0,40}(?:getenv|"
    r"environ|get|getpass|"
    r"str|decrypt\w*|read\w*|load\w*)[(\[].*)|:[a-z_]{2,40}|[a-z_]{1,20}(?:\.[a-zA-Z_]{2,20}){1,4}\(.*|[a-z]{2,20}(?:[A-Z][a-z]{1,20}){1,4}\(.*"
)


def is_harmless(value: str) -> bool:
    """Return True if `value` is a placeholder, a type, an expression, or only a marker."""
    if has_marker(value):
        return is_wordy(regex(r"\[redacted:\w+\]?").sub("", value).strip())
    return not value or bool(regex(_HARMLESS_VALUE, re.S).fullmatch(value))


def is_wordy(value: str) -> bool:
    """Return True if `value` reads as a word or a name: letters, with capitals only as in names."""
    word = value.strip(".,:;!?()")
    return bool(
        regex(r"(?:[^\W\d_][^\W\d_A-Z]*|[A-Z]+|(?:[A-Z][a-z]{2,}){2,4}|[a-z]+(?:['’-][a-z]+)*)?").fullmatch(word)
    )


def is_random(value: str) -> bool:
    """Return True if a part of `value` is too irregular for a word, a date, a number or a UUID."""
    if len(value) < 12 or regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch(value):
        return False
    for piece in regex(r"[A-Za-z0-9]{12,}").findall(value[:512]):
        if not piece.isalpha() and not piece.isdigit():
            return True
        if (
            len(piece) >= 20
            and len(regex(r"[A-Z](?![a-z]{2})").findall(piece)) * 5 >= len(piece)
            and not piece.isupper()
        ):
            return True
    changes = len(regex(r"[a-z](?=[A-Z0-9])|[A-Z](?=\d)|\d(?=[A-Za-z])").findall(value[:512]))
    return len(value) >= 16 and changes * 5 >= min(len(value), 512) and any(c.isdigit() for c in value)


def counts(grade: str, value: str, sep: str = "=", quoted: bool = True, more: bool = False) -> bool:
    """
    Return True if `value` under a name of this grade is a secret.

    Args:
        grade: The grade of its name.
        value: The value, without quotes.
        sep: What separates the name from the value.
        quoted: Whether the value is in quotes.
        more: Whether further words follow on its line.
    """
    if not grade or (grade == "weak" and len(value) < 12) or is_harmless(value):
        return False
    if grade == "digits":
        return bool(regex(r"\d[\d -]{2,8}").fullmatch(value))
    if grade == "weak":
        return is_random(value)
    if grade == "pass" and (is_wordy(value) or value.isdigit()):
        return len(value) > 5 and "=" in sep
    if sep == ",":  # a pair in a tuple, or only two names in a list
        return not is_wordy(value) and not regex(r"[a-z_.-]+|[A-Z_.-]+").fullmatch(value)
    if quoted or "=" in sep:
        return True
    if is_wordy(value):  # `password: required here` is prose, `password: swordfish` is not
        return not more and value[-1].isalnum()
    return not (more and len(value) < 4)


def is_argument(m: re.Match[str]) -> bool:
    """Return True if the finding of a match isn't a placeholder or a marker."""
    found = m[group_of(m)]
    placeholder = regex(r"(?i:passw(?:or)?d|pass|pwd|secret|token|pw|[A-Z_]*PASSWORD)").fullmatch(found)
    return not (placeholder or has_marker(found) or is_harmless(found))
