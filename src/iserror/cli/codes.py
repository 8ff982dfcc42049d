"""The catalog of a server's error codes: collect it, render it, and compare it with an earlier one."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, cast

from iserror.errors.entry import Entry
from iserror.errors.errormap import ErrorMap
from iserror.errors.pack import Pack
from iserror.guard import ToolErrors
from iserror.hosts import guard_of
from iserror.support.loading import full_name, imported

SCHEMA_VERSION: Final = 1

Code = dict[str, Any]
"""A code: `category`, `retryable` (True if a retry can help for any entry) and `entries`, one per exception."""


def load(spec: str) -> object:
    """Return the object that `module:name` or `file.py:name` names. Modules in the working folder are found too.

    Raises:
        ValueError: If there is no such object, or the module cannot be imported.
    """
    module, colon, path = spec.rpartition(":")
    if not colon or not module or not path:
        raise ValueError(f"invalid object {spec!r}: use module:name or file.py:name")
    try:
        found: Any = imported(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as exc:
        raise ValueError(f"cannot load {spec!r}: {type(exc).__name__}: {exc}") from exc
    return found


def codes_of(source: object) -> dict[str, Code]:
    """Return every code that a guard or a map can issue: the author's own first, each part in alphabetical order.

    Args:
        source: A `ToolErrors`, an `ErrorMap`, a pack, or a server with a guard attached.

    Raises:
        TypeError: If the source is anything else.
    """
    known = (ToolErrors, ErrorMap, Pack)
    guard = source if isinstance(source, known) else guard_of(source)
    if isinstance(guard, Pack):
        alone = ErrorMap()
        alone.include(guard)
        maps: list[tuple[str | None, ErrorMap]] = [(None, alone)]
    elif isinstance(guard, ErrorMap):
        maps = [(None, guard)]
    elif isinstance(guard, ToolErrors):
        maps = [(None, guard.errors), *guard.local_maps]
    else:
        raise TypeError(
            f"a {type(source).__name__} has no codes: name a ToolErrors, an ErrorMap, a pack or a server with a guard "
            "attached"
        )
    codes: dict[str, Code] = {}
    for tool, errors in maps:
        for exception, entry, pack in _entries(errors):
            for name in entry.all_codes:
                code = codes.setdefault(name, {"category": entry.category, "retryable": False, "entries": []})
                code["retryable"] = code["retryable"] or entry.retryable
                _add(code["entries"], exception, entry, tool, None if isinstance(guard, Pack) else pack)
    return dict(sorted(codes.items(), key=lambda item: (not is_own(item[1]), item[0])))


def is_own(code: Code) -> bool:
    """Return True for a code that an entry of the author's own gives."""
    return any("pack" not in entry for entry in code["entries"])


def own_alone(codes: Mapping[str, Code]) -> dict[str, Code]:
    """Return the codes of the author's own entries, with these entries alone."""
    own = {name: code for name, code in codes.items() if is_own(code)}
    return {
        name: {**code, "entries": [entry for entry in code["entries"] if "pack" not in entry]}
        for name, code in own.items()
    }


def _entries(errors: ErrorMap) -> Iterator[tuple[str, Entry, str | None]]:
    """Yield the entries of a map and its packs, each with its exception, its condition if it has one, and the pack."""
    for exception, entry in (*errors.entries, *errors.general):
        name = full_name(exception)
        yield f"{name} ({entry.when})" if entry.when is not None else name, entry, None
    for pack in errors.packs.values():
        for name, when, entry in pack.entries():
            yield f"{name} ({when})" if when else name, entry, pack.name


def _add(entries: list[dict[str, Any]], exception: str, entry: Entry, tool: str | None, pack: str | None) -> None:
    said = {
        "exception": exception,
        "pack": pack,
        "message": str(entry.message),
        "hint": None if entry.hint is None else str(entry.hint),
        "retryable": entry.retryable,
        "retry_after": _wait(entry.retry_after),
        "outcome": entry.claim,
        "details": [key for key, _ in entry.details],
        "tools": None if tool is None else [tool],
    }
    said = {key: value for key, value in said.items() if value not in (None, [])}
    for known in entries:  # the same map on several tools
        if tool is not None and {**known, "tools": None} == {**said, "tools": None} and "tools" in known:
            known["tools"] += [tool] if tool not in known["tools"] else []
            return
    entries.append(said)


def _wait(retry_after: object) -> float | str | None:
    if callable(retry_after):
        return "from the exception"
    return retry_after.total_seconds() if isinstance(retry_after, timedelta) else cast("float | None", retry_after)


# --- for readers ---------------------------------------------------------------------------------------------


def to_json(codes: Mapping[str, Code], retired: list[str] | None = None) -> str:
    """Render the catalog as JSON, which `changes` reads."""
    whole = {"schema_version": SCHEMA_VERSION, "codes": codes, **({"retired": retired} if retired else {})}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


HEADINGS: Final = (
    "Code",
    "Category",
    "Message",
    "Hint",
    "A retry can help",
    "Outcome in a write",
    "Tools",
    "Exception",
)


def _rows(codes: Mapping[str, Code]) -> Iterator[tuple[str, ...]]:
    for name, code in codes.items():
        for entry in code["entries"]:
            can, wait = "yes" if entry["retryable"] else "no", entry.get("retry_after")
            if wait is not None:
                can += f", wait: {wait}" if isinstance(wait, str) else f", after {wait:g} s"
            tools = ", ".join(entry.get("tools", ())) or "all"
            words = entry["message"], entry.get("hint", "")
            yield (name, code["category"], *words, can, entry["outcome"], tools, entry["exception"])


FOLDED: Final = ("Code", "Category", "A retry can help", "Packs", "Exceptions")


def _folded(codes: Mapping[str, Code]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each code that packs give, with the packs and how many exceptions it stands for."""
    for name, code in codes.items():
        packed = [entry for entry in code["entries"] if "pack" in entry]
        if packed:
            packs = ", ".join(sorted({entry["pack"] for entry in packed}))
            yield name, code["category"], "yes" if code["retryable"] else "no", packs, str(len(packed))


def _tables(codes: Mapping[str, Code], unfold: bool) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the tables of a catalog, each with its headings: own entries, then packs, a code a row."""
    packed = list(_folded(codes))
    if unfold or not packed:
        return [(HEADINGS, list(_rows(codes)))]
    own = list(_rows(own_alone(codes)))
    return [*([(HEADINGS, own)] if own else []), (FOLDED, packed)]


def to_markdown(codes: Mapping[str, Code], *, unfold: bool = False) -> str:
    """Render the catalog as a table, and a second one of what packs give.

    Args:
        codes: The codes.
        unfold: Whether each entry of a pack has its row among the others.
    """
    tables = []
    for headings, rows in _tables(codes, unfold):
        lines = [" | ".join(headings), " | ".join("---" for _ in headings)]
        lines += [" | ".join(_cell(value) for value in row) for row in rows]
        tables.append("".join(f"| {line} |\n" for line in lines))
    return "\n".join(tables)


def _cell(text: str) -> str:
    plain = re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(text.split()))
    return f"`{text}`" if re.fullmatch(r"[A-Z][A-Z0-9_]+", text) else plain


def to_html(codes: Mapping[str, Code], title: str, *, unfold: bool = False) -> str:
    """Render the catalog as a whole page; `unfold` as in `to_markdown`."""
    tables = ""
    for headings, rows in _tables(codes, unfold):
        head = "".join(f"<th>{name}</th>" for name in headings)
        body = "".join(
            f'<tr id="{row[0]}">' + "".join(f"<td>{html.escape(value)}</td>" for value in row) + "</tr>\n"
            for row in rows
        )
        tables += f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n"
    name = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
        "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem}table{border-collapse:collapse}"
        "th,td{border:1px solid #8888;padding:.3rem .6rem;text-align:left;vertical-align:top}"
        "td:first-child{font-family:monospace}</style></head>\n"
        f"<body><h1>{name}</h1>\n{tables}</body></html>\n"
    )


# --- codes are stable ----------------------------------------------------------------------------------------


def changes(before: str, codes: Mapping[str, Code]) -> list[str]:
    """Find what an earlier catalog promises and today's codes don't keep. A new code breaks nothing.

    Args:
        before: The output of `to_json`. Its list `retired` names the codes that are gone on purpose.
        codes: Today's codes.

    Returns:
        One sentence per breaking change.

    Raises:
        ValueError: If `before` isn't a catalog.
    """
    try:
        whole = json.loads(before)
        version, old, retired = whole["schema_version"], whole["codes"], whole.get("retired", [])
        meanings = {name: (code["category"], code["retryable"], _outcomes(code)) for name, code in old.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ValueError(
            f"not a code catalog ({type(exc).__name__}): create one with `iserror catalog --json`"
        ) from None
    if version != SCHEMA_VERSION:
        raise ValueError(f"unknown schema_version {version!r}: this version of iserror reads {SCHEMA_VERSION}")
    found = [f"{name} is retired, but in use again: take a new code" for name in retired if name in codes]
    for name, (category, retryable, outcomes) in meanings.items():
        now = codes.get(name)
        if now is None:
            if name not in retired:
                found.append(f'{name} is gone: clients may know it. To remove it on purpose, add it to "retired"')
            continue
        if now["category"] != category:
            found.append(f"{name} had the category {category} and now has {now['category']}: take a new code")
        if now["retryable"] != retryable:
            promised = "can help" if retryable else "cannot help"
            found.append(f"{name} promised that a retry {promised}, and now says the opposite: take a new code")
        found += _changed_outcomes(name, outcomes, _outcomes(now))
        if not outcomes.keys() & _outcomes(now).keys():
            earlier, today = (", ".join(sorted(names)) for names in (outcomes, _outcomes(now)))
            found.append(
                f"{name} stood for {earlier} and now stands for {today}: take a new code for another failure. If the "
                "class was only renamed, create the catalog again"
            )
    return found


def unrecorded(before: str, codes: Mapping[str, Code]) -> list[str]:
    """Return the codes that an earlier catalog doesn't have. `changes` has found that it is one."""
    whole = json.loads(before)
    return [name for name in codes if name not in whole["codes"] and name not in whole.get("retired", [])]


def updated(before: str, codes: Mapping[str, Code]) -> str:
    """Return today's catalog as JSON, with what an earlier one says of retired codes."""
    return to_json(codes, json.loads(before).get("retired"))


def _outcomes(code: Code) -> dict[str, set[str]]:
    """Return the outcomes in a write, by exception."""
    found: dict[str, set[str]] = {}
    for entry in code["entries"]:
        found.setdefault(entry["exception"], set()).add(entry.get("outcome", ""))
    return found


def _changed_outcomes(code: str, before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> Iterator[str]:
    for exception in sorted(before.keys() & now.keys()):
        if before[exception] != now[exception]:
            earlier, today = (" and ".join(sorted(names)) for names in (before[exception], now[exception]))
            yield (
                f"{code} of {exception} had the outcome {earlier} and now has {today}: clients decide by that whether "
                "to repeat a call"
            )
