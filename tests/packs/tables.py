"""The tables of docs/reference/packs.md, from the packs: `python -m tests.packs.tables` writes them again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from iserror import packs
from iserror.errors.entry import Entry
from iserror.errors.pack import Pack
from iserror.packs.codes import VOCABULARY
from iserror.packs.http import STATUSES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "packs.md"
_BETWEEN = re.compile(r"(<!-- (vocabulary|statuses|packs) -->\n).*?(<!-- end -->)", re.DOTALL)


def _can_help(entry: Entry) -> str:
    return ("yes, after the wait that it says" if entry.retry_after else "yes") if entry.retryable else "no"


def vocabulary() -> Iterator[str]:
    """All codes and what they say."""
    yield "| code | category | message | hint | message and hint if the outcome is unknown | a repeat can help | "
    yield "outcome | log |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
    for code, entry in VOCABULARY.items():
        other = entry.unproven()
        changed = entry.outcome == "not_applied" and (other.message, other.hint) != (entry.message, entry.hint)
        unsure = f"{other.message} {other.hint or ''}".strip() if changed else ""
        yield (
            f"| `{code}` | `{entry.category}` | {entry.message} | {entry.hint or ''} | {unsure} | {_can_help(entry)} | "
            f"`{entry.outcome}` | {entry.level} |\n"
        )


def statuses() -> Iterator[str]:
    """What a status means, of every HTTP client."""
    yield "| status | code |\n| --- | --- |\n"
    for status, entry in STATUSES.items():
        yield f"| {status if len(status) == 3 else f'other {status}xx'} | `{entry.code}` |\n"


def _rows(pack: Pack) -> Iterator[tuple[str, str, Entry | None]]:
    """Exceptions, when, entry; None where it goes by the status alone, as the table above has it."""
    shared: dict[int, list[str]] = {}
    for exception, row in pack.rows.items():
        shared.setdefault(id(row), []).append(f"`{exception}`")
    for names in shared.values():
        row, exceptions = pack.rows[names[0].strip("`")], "<br>".join(names)
        if isinstance(row, Entry):
            yield exceptions, "", row
            continue
        if {key: entry.code for key, entry in row.entries.items()} == {k: e.code for k, e in STATUSES.items()}:
            yield exceptions, "", None
            continue
        alike: dict[tuple[str, str, str], list[str]] = {}
        for key, entry in row.entries.items():
            alike.setdefault(_said(entry), []).append(key)
        for keys in alike.values():
            yield exceptions, f"{row.what} {', '.join(keys)}", row.entries[keys[0]]
        if row.otherwise is not None:
            yield exceptions, "any other", row.otherwise


def _said(entry: Entry) -> tuple[str, str, str]:
    return entry.code, _can_help(entry), str(entry.outcome)


def tables() -> Iterator[str]:
    """One table a pack, exceptions of one meaning together."""
    for name in packs._PACKS:
        pack: Pack = getattr(packs, name)
        sources = ", ".join(f"<{source}>" for source in pack.sources)
        yield f"\n### `{name}`\n\nAfter {sources}.\n\n"
        yield "| exception | when | code | a repeat can help | outcome |\n| --- | --- | --- | --- | --- |\n"
        alike: dict[tuple[str, str, str, str], list[str]] = {}
        for exceptions, when, entry in _rows(pack):
            said = _said(entry) if entry is not None else ("", "", "")
            alike.setdefault((when, *said), []).append(exceptions)
        before = ""
        for (when, code, helps, outcome), exceptions in alike.items():
            which = "<br>".join(exceptions)
            meaning = f"`{code}` | {helps} | `{outcome}`" if code else "[by status](#http-statuses) | |"
            yield f"| {which if which != before else 'as above'} | {when} | {meaning} |\n"
            before = which


def page(text: str) -> str:
    """The page with its tables as they are now."""
    made = {"vocabulary": vocabulary, "statuses": statuses, "packs": tables}
    return _BETWEEN.sub(lambda match: match[1] + "".join(made[match[2]]()) + match[3], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
