"""Time several things against each other on a noisy machine, in CPU time of the process.

They take turns in short batches, so that what slows the machine slows them all; the garbage collector waits.
Ratios are taken within a round, and their median is kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Row = dict[str, Any]
Batch = Callable[[int], Awaitable[None]]


class Times:
    """Seconds a call: one figure a round for each contender."""

    def __init__(self, rounds: Mapping[str, list[float]]) -> None:
        self.rounds = rounds

    def seconds(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, to: str) -> float:
        return statistics.median(a / b for a, b in zip(self.rounds[name], self.rounds[to], strict=True))

    def difference(self, name: str, to: str) -> float:
        return statistics.median(a - b for a, b in zip(self.rounds[name], self.rounds[to], strict=True))


def calls(fn: Callable[..., object], *args: object) -> Batch:
    """A batch of calls of a plain function."""

    async def batch(times: int) -> None:
        for _ in range(times):
            fn(*args)

    return batch


def awaits(fn: Callable[..., Awaitable[object]], *args: object) -> Batch:
    """A batch of calls of a coroutine function."""

    async def batch(times: int) -> None:
        for _ in range(times):
            await fn(*args)

    return batch


async def compare(contenders: Mapping[str, Batch], *, rounds: int, sizes: int | Mapping[str, int]) -> Times:
    """Run the contenders' batches in turn; the order turns round with every round."""
    size = {name: sizes if isinstance(sizes, int) else sizes[name] for name in contenders}
    for name, batch in contenders.items():
        await batch(size[name])
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    gc.freeze()
    for _ in range(rounds):
        order.reverse()
        for name in order:
            gc.collect()
            gc.disable()
            start = time.process_time()
            await contenders[name](size[name])
            times[name].append((time.process_time() - start) / size[name])
            gc.enable()
    gc.unfreeze()
    return Times(times)


def main(measure: Callable[[bool], list[Row]], about: str | None) -> None:
    """Print the rows of a script as JSON lines."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it works")
    for row in measure(parser.parse_args().quick):
        print(json.dumps(row, ensure_ascii=False))
