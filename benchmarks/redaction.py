"""The redactor beside others: what each finds, what it spoils, and how long it takes, on the same texts."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.redact.corpus import Sample, leaks, samples
from timing import Row, calls, compare, main

from iserror import redact_text

GONE = "[redacted]"
HARMLESS = (
    "Customer cus_NffrFeUfNV2Hib has no default payment method; ask the user to add one in the billing page and "
    "try again with the invoice INV-20341, which is due on 2026-12-01 and is EUR 1,204.50."
)
# What a server author writes in an afternoon.
NAIVE = [
    re.compile(r"(?i)(password|passwd|secret|token|api[_-]?key)[\"']?\s*[=:]\s*[\"']?[^\s\"',;&]+"),
    re.compile(r"(?i)bearer\s+[\w.~+/-]+=*"),
    re.compile(r"\b(?:AKIA[A-Z0-9]{16}|gh[pousr]_\w{36}|sk-[\w-]{20,}|xox[abprs]-[\w-]+|AIza[\w-]{35})"),
    re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"://[^/\s:@]+:[^/\s@]+@"),
    re.compile(r"(?:/[\w.-]+){3,}|[A-Z]:\\[\w\\. -]+"),
    re.compile(r"\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}\b"),
]


def naive(text: str) -> str:
    for pattern in NAIVE:
        text = pattern.sub(GONE, text)
    return text


def logfire() -> Callable[[str], str]:
    from logfire._internal.scrubbing import Scrubber

    scrubber = Scrubber([])
    return lambda text: str(scrubber.scrub_value(("message",), text)[0])


def detect_secrets(stack: contextlib.ExitStack) -> Callable[[str], str]:
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    stack.enter_context(default_settings())

    def redact(text: str) -> str:
        for line in text.splitlines():
            for secret in scan_line(line):
                if secret.secret_value:
                    text = text.replace(secret.secret_value, GONE)
        return text

    return redact


# Texts that make patterns backtrack, each repeated to the length that is asked for.
HOSTILE = [
    *[
        "a",
        "=",
        "/",
        "@",
        ".",
        '"',
        "\\",
        " ",
        "1",
        "-",
        ":",
        "\n",
        "'\"",
        '\\"',
        "a@",
        "a.",
        "4-",
        "1.",
        "\u200b",
        "\x1b[",
    ],
    *[
        "ey" + "J",
        "eyJhbGciOi.",
        "-----BEGIN ",
        "http://a:",
        "http://a:a@",
        "?token=&",
        "password=",
        "password ",
        '{"password": "',
    ],
    *[
        "\n\tat ",
        '\n  File "',
        "\n    at f (",
        "SELECT ",
        "select a from ",
        "[SQL: ",
        "DE12",
        "+1 (2",
        "fe80:",
        "gh" + "p_",
        "s" + "k-",
    ],
    *[
        "/a b",
        "C:\\a",
        "\\\\a\\",
        "%20",
        "Bearer ",
        "Authorization: ",
        "Cookie: a=a; ",
        ";PWD=",
        "<password>",
        "[{(",
        "ab_- .",
    ],
    *["\\n", "select\nS   from  ,", "//a:1@ ", "eyJaxnd_", "Bind vars: (_post/"],
    *["\x9d", "\x90a", "[parameters: ", "SCREAMING_SNAKE_CASE_", "postgres://app:swordfish-7Qx9Lm9Lm9Lm9Lm@db/x"],
]

# The same behind a beginning that stands once.
HEADED = [("server at v", "_"), ("Call a", "_"), ("lookup a", "-a"), ("Key (", "()"), ("Select", "\\n")]


def seconds(redact: Callable[[str], str], text: str) -> float:
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        redact(text)
        best = min(best, time.process_time() - start)
    return best


def growth(redact: Callable[[str], str], quick: bool) -> tuple[float, float]:
    """The worst exponent of growth from 10,000 to 40,000 characters, and the worst seconds a megabyte."""
    exponent, worst = 0.0, 0.0
    texts = [*[("", unit) for unit in HOSTILE[:: 8 if quick else 1]], *HEADED[: 1 if quick else None]]
    for head, unit in texts:
        short, long = (head + unit * (size // len(unit)) for size in (10_000, 40_000))
        fast, slow = seconds(redact, short), seconds(redact, long)
        worst = max(worst, slow / len(long.encode()) * 1e6)
        if slow > 0.004:  # below that it is the clock that is measured
            exponent = max(exponent, math.log(slow / fast) / math.log(4))
    return exponent, worst


def quality(redact: Callable[[str], str], texts: list[Sample]) -> dict[str, float]:
    found: dict[str, list[bool]] = {"secret": [], "infra": [], "control": []}
    altered, lost = [], []
    for sample in texts:
        out = redact(sample.text)
        for secret, kind in sample.spans:
            if kind in found:
                found[kind].append(not leaks(secret, kind, out))
        if not sample.spans:
            altered.append(out != sample.text)
        lost += [words not in out for words in sample.keep]
    every = [gone for gones in found.values() for gone in gones]
    return {
        "secrets gone, %": 100 * sum(found["secret"]) / len(found["secret"]),
        "all gone, %": 100 * sum(every) / len(every),
        "harmless altered, %": 100 * sum(altered) / len(altered),
        "wanted lost, %": 100 * sum(lost) / len(lost),
    }


def measure(quick: bool) -> list[Row]:
    with contextlib.ExitStack() as stack:
        return beside_others(quick, stack)


def beside_others(quick: bool, stack: contextlib.ExitStack) -> list[Row]:
    contenders: dict[str, Callable[[str], str]] = {"iserror": redact_text, "naive regular expressions": naive}
    contenders |= {"logfire's scrubber": logfire(), "detect-secrets": detect_secrets(stack)}
    texts = list(samples("dev"))

    def each(redact: Callable[[str], str]) -> None:
        for sample in texts:
            redact(sample.text)

    rounds = 2 if quick else 15
    alone = asyncio.run(
        compare({name: calls(fn, HARMLESS) for name, fn in contenders.items()}, rounds=rounds, sizes=50)
    )
    together = asyncio.run(
        compare({name: calls(each, fn) for name, fn in contenders.items()}, rounds=2 if quick else 5, sizes=1)
    )
    rows: list[Row] = []
    for name, redact in contenders.items():
        exponent, worst = growth(redact, quick or name != "iserror")  # of the others, every eighth text
        rows.append(
            {
                "redactor": name,
                **quality(redact, texts),
                f"harmless text of {len(HARMLESS)} bytes, µs": alone.seconds(name) * 1e6,
                "/ iserror": alone.ratio(name, "iserror"),
                "a corpus text, mean, µs": together.seconds(name) / len(texts) * 1e6,
                "growth": exponent,
                "worst s/MB": worst,
            }
        )
    return rows


if __name__ == "__main__":
    main(measure, __doc__)
