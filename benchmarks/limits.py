"""What the largest failures cost, and the slowest text that a search finds for any rule of redaction."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from redaction import HEADED, HOSTILE
from tests.redact.corpus import samples
from timing import Row, main

import iserror
from iserror import ToolErrors, ToolFailure
from iserror.layers.call import Call, Request, in_call
from iserror.redact import DEFAULT_RULES, Rule
from iserror.redact.echo import MAX_LEAF, MAX_LEAVES
from iserror.support.causes import Group

parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

LONG = 200_000
PIECES = "abXY019 _-.:/@=\"'\\,;()[]{}<>|&%#$\n\t+~*"

# --- failures ----------------------------------------------------------------------------------------------------


def texts() -> Iterator[str]:
    """Long texts that are made to make patterns backtrack."""
    for head, unit in [*(("", unit) for unit in HOSTILE), *HEADED, ("", "//a:1" * 80 + "@ "), ("", "words of a text ")]:
        yield (head + unit * (LONG // len(unit) + 1))[:LONG]


def grouped(text: str) -> BaseException:
    leaves = [ValueError(text[:6_000]) for _ in range(50)]
    for leaf in leaves:
        leaf.__notes__ = [text[:6_000]] * 20  # type: ignore[attr-defined]
    return Group("all", leaves)


def chained(text: str) -> BaseException:
    exc: BaseException = grouped(text)
    for _ in range(30):
        following = RuntimeError(text)
        following.__cause__ = exc
        exc = following
    return exc


class EndlessError(Exception):
    @property
    def __notes__(self) -> Any:
        return itertools.cycle(["short"])


STATED = "a ToolFailure with such a message"
FAILURES: dict[str, Callable[[str], BaseException]] = {
    "a crash with a message of 200,000 characters": RuntimeError,
    STATED: lambda text: ToolFailure("TOO_LONG", f"x {text}"),
    "50 leaves, each with 20 notes": grouped,
    "a chain of 30 above that": chained,
    "notes without an end": lambda _: EndlessError("x"),
}


def failing(make: Callable[[str], BaseException], text: str, sent: str = "") -> float:
    """CPU seconds of a failing call through `@guard`, without what raises.

    Args:
        make: Makes the exception.
        text: Its text.
        sent: The text of which the caller's arguments are made, as many as count.
    """
    guard, exc = ToolErrors(), make(text)
    leaves = [(f"{i} {sent}")[:MAX_LEAF] for i in range(MAX_LEAVES)] if sent else []

    @guard
    def tool() -> None:
        raise exc

    best = math.inf
    for _ in range(2):
        start = time.process_time()
        outer = Call(guard, "outer", request=Request(arguments={"texts": leaves})) if sent else None
        with in_call(outer), contextlib.suppress(ToolFailure):
            tool()
        best = min(best, time.process_time() - start)
    return best


# --- rules -------------------------------------------------------------------------------------------------------


def drawn(sequence: Any, rng: random.Random) -> str:
    """Draw a text that a parsed pattern may match, but for its assertions."""
    out = ""
    for op, value in sequence:
        name = str(op)
        if name == "LITERAL":
            out += chr(value)
        elif name == "IN":
            out += one_of(value, rng)
        elif name == "BRANCH":
            out += drawn(rng.choice(value[1]), rng)
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            out += drawn(value[-1] if name == "SUBPATTERN" else value, rng)
        elif name.endswith("_REPEAT"):
            least = int(value[0])
            out += "".join(drawn(value[2], rng) for _ in range(rng.choice([least, least, least + 1, least + 3])))
        elif name == "ASSERT":
            out += drawn(value[1], rng) if rng.random() < 0.5 else ""
        else:
            out += rng.choice(PIECES)
    return out


def one_of(items: Any, rng: random.Random) -> str:
    inside = {chr(value) for op, value in items if str(op) == "LITERAL"}
    inside |= {chr(rng.randint(*value)) for op, value in items if str(op) == "RANGE"}
    if any(str(op) == "CATEGORY" for op, _ in items):
        inside |= set("a1_ ")
    if str(items[0][0]) == "NEGATE":
        inside = set(PIECES) - inside
    return rng.choice(sorted(inside) or ["a"])


def unit_of(rule: Rule, corpus: list[str], rng: random.Random) -> str:
    """Draw a text to repeat: of the rule's pattern, a part of it, a part of a real text, or its gate and some signs."""
    kind = rng.random()
    if rule.pattern and kind < 0.6:
        text = drawn(parser.parse(rule.pattern), rng)[:200]
        start = rng.randrange(len(text) + 1) if kind < 0.35 else 0
        return text[start : rng.randint(start, len(text)) if kind < 0.35 else None]
    if kind < 0.8:
        text = rng.choice(corpus)
        start = rng.randrange(len(text))
        return text[start : start + rng.randint(1, 40)]
    gates = rule.gates or rule.starts or ("",)
    return rng.choice(gates) + "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 4)))


def spent(rule: Rule, text: str) -> float:
    start = time.process_time()
    for _ in rule.spans(text):
        pass
    return time.process_time() - start


def slowest(rule: Rule, corpus: list[str], rng: random.Random, seconds: float) -> tuple[float, float, str]:
    """Search for a text that is slow for a rule; return the seconds for 64 KiB of it, how they grow, and the text."""
    worst, end = (0.0, 0.0, ""), time.process_time() + seconds
    while time.process_time() < end:
        unit = "".join(unit_of(rule, corpus, rng) for _ in range(rng.randint(1, 3))) * rng.choice([1, 1, 20])
        unit += rng.choice(["", "", "@ ", "\n", " "])
        if not unit:
            continue
        short, long = ((unit * (size // len(unit) + 1))[:size] for size in (16_384, 65_536))
        first = spent(rule, short)
        if first > 0.004 and first * 4 > worst[0] / 2:  # below that it is the clock that is measured
            second = spent(rule, long)
            worst = max(worst, (second, math.log(second / first) / math.log(4), unit))
    return worst


def measure(quick: bool) -> list[Row]:
    rows: list[Row] = []
    every = list(texts())[:: 12 if quick else 1]
    with tempfile.TemporaryDirectory() as folder:
        iserror.configure_logging(Path(folder, "log.jsonl"))
        for name, make in FAILURES.items():
            failing(make, "warm")
            rows.append({"work": name, "time, ms": max(failing(make, text) for text in every) * 1e3})
        both = max(failing(FAILURES[STATED], text, text[:MAX_LEAF]) for text in every)
        rows.append({"work": f"{STATED}, and 32 arguments of 4,096 characters", "time, ms": both * 1e3})
    corpus = [
        sample.text
        for name in ("dev", "formats", "places", "mixed", "insides")
        for sample in samples(name)
        if sample.text
    ]
    rng = random.Random(20261201)
    found = [(*slowest(rule, corpus, rng, 0.02 if quick else 4), rule.name) for rule in DEFAULT_RULES]
    for seconds, growth, unit, name in sorted(found, reverse=True)[:5]:
        print(f"{name}: {unit!r}", file=sys.stderr)
        rows.append({"work": f"rule `{name}`, 64 KiB of the slowest text", "time, ms": seconds * 1e3, "growth": growth})
    return rows


if __name__ == "__main__":
    main(measure, __doc__)
