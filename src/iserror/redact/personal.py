"""Personal data, by checksum where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iserror.redact.rule import Rule


def _luhn(m: re.Match[str]) -> bool:
    digits = [int(c) for c in m[0] if c.isdigit()]
    doubled = [d if i % 2 == 0 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(reversed(digits))]
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _mod97(m: re.Match[str]) -> bool:
    flat = m[0].replace(" ", "").upper()
    return int("".join(str(int(c, 36)) for c in flat[4:] + flat[:4])) % 97 == 1


def rules() -> Iterator[Rule]:
    email = r"(?<!//)(?<![\w.%+-])[\w.%+'-]{1,64}(?:@|%40)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@])"
    yield Rule("email", "email", email, ("@", "%40"), pii=True)
    iban = (
        r"(?<!\w)[A-Za-z]{2}\d{2}(?:[A-Za-z0-9]{11,30}|"
        r"(?: [A-Z0-9]{4}){2,7}(?: (?=[A-Z]{0,2}\d)[A-Z0-9]{1,3})?)(?!\w)"
    )
    yield Rule("iban", "iban", iban, pii=True, check=_mod97)
    card = (
        r"(?<![\w.-])[2-6]\d{3}(?:[ .\xa0-]?\d{4}){2}(?:[ .\xa0-]?\d{1,7})(?![\w-])|"
        r"(?<![\w.-])3[068]\d{2}[ -]?\d{6}[ -]?\d{4}(?![\w-])|"
        r"(?<![\w.-])3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?![\w-])"
    )
    yield Rule("card", "card", card, pii=True, check=_luhn)
    phone = (
        r"(?<![\w+.-])(?:(?:\+|00(?<!\d 00)(?=[1-9]\d{1,2}[ .-]))"
        r"\d{1,3}[ .-]?(?:\(0?\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){2,4}|"
        r"\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])"
    )
    yield Rule("phone", "phone", phone, ("+", "(", "-", "00"), pii=True)
