"""Precision and recall of the predicate that finds errors returned as successes, over the corpus of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.errors.returned_values import ERRORS, HARD, HARMLESS

from iserror.errors.lookalike import looks_like_an_error


def rows() -> list[tuple[str, int, int]]:
    """Return what was looked at, how many values there are, and how many were taken for errors."""
    families = [(name, len(values), sum(map(looks_like_an_error, values))) for name, values in ERRORS.items()]
    families.append(("without any mark", len(HARD), sum(map(looks_like_an_error, HARD))))
    families.append(("harmless", len(HARMLESS), sum(map(looks_like_an_error, HARMLESS))))
    return families


def main() -> None:
    found = rows()
    *errors, (_, harmless, alarms) = found
    total, hits = sum(row[1] for row in errors), sum(row[2] for row in errors)
    print("| values | number | taken for errors |")
    print("| --- | --- | --- |")
    for name, number, taken in found:
        print(f"| {name} | {number} | {taken} |")
    print()
    print(
        f"Recall {hits / total:.1%} ({hits} of {total}), precision {hits / (hits + alarms):.1%} "
        f"({alarms} false alarms in {harmless} harmless values)."
    )


if __name__ == "__main__":
    main()
