"""A described exception: the data that the log writes and reads back.

`excinfo.describe` makes it from an exception, `to_json` and `read` translate it to a log line and back. Everything
that shows, counts or checks an exception of the log takes it from here. Nothing heavy is imported: `iserror trace`
starts with this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


class Frame(NamedTuple):
    """One step of a traceback. Without a file, it stands for frames that were left out."""

    file: str
    line: int
    function: str
    source: str


@dataclass(slots=True)
class Link:
    """One exception of a chain."""

    type: str
    """The class with its module; a builtin without."""
    message: str
    relation: str = ""
    """How this exception led to the one before it in the chain: `cause` or `context`. The first has none."""
    notes: Sequence[str] = ()
    frames: Sequence[Frame] = ()
    """Outermost first."""
    exceptions: Sequence[Sequence[Link]] | None = None
    """The chains of a group's members. None if this exception isn't a group."""
    exceptions_left_out: int = 0
    """How many members of the group have no chain here."""


Chain = Sequence[Link]
"""An exception, then the exceptions that led to it."""


def every_link(chain: Chain) -> Iterator[Link]:
    """Yield each exception of a chain, and each exception in the chains of its groups."""
    for link in chain:
        yield link
        for inner in link.exceptions or ():
            yield from every_link(inner)


def to_json(chain: Chain) -> list[dict[str, Any]]:
    """Return a chain as the log writes it. The order of the keys is the order on disk."""
    return [_link_to_json(link) for link in chain]


def _link_to_json(link: Link) -> dict[str, Any]:
    item: dict[str, Any] = {"type": link.type, "message": link.message}
    if link.relation:
        item["relation"] = link.relation
    if link.notes:
        item["notes"] = list(link.notes)
    item["frames"] = [frame._asdict() for frame in link.frames]
    if link.exceptions is not None:
        item["exceptions"] = [to_json(chain) for chain in link.exceptions]
        if link.exceptions_left_out:
            item["exceptions_left_out"] = link.exceptions_left_out
    return item


_DEEPEST: Final = 60
"""Groups inside one another that are read. The log writes fewer, but another program may have written the line."""


def read(value: object) -> Chain:
    """Read a chain from whatever a log line holds in its place. What isn't a chain is left out; never raises."""
    return _read(value, 0)


def _read(value: object, depth: int) -> Chain:
    return [_link(item, depth) for item in _list(value) if isinstance(item, dict)]


def _link(item: dict[Any, Any], depth: int) -> Link:
    chains = item.get("exceptions")
    inner = _list(chains) if depth < _DEEPEST else []
    left_out = item.get("exceptions_left_out")
    return Link(
        type=_text(item.get("type")),
        message=_text(item.get("message")),
        relation=_text(item.get("relation")),
        notes=[_text(note) for note in _list(item.get("notes"))],
        frames=[_frame(frame) for frame in _list(item.get("frames")) if isinstance(frame, dict)],
        exceptions=[chain for found in inner if (chain := _read(found, depth + 1))] if type(chains) is list else None,
        exceptions_left_out=left_out if type(left_out) is int else 0,
    )


def _frame(item: dict[Any, Any]) -> Frame:
    line = item.get("line")
    return Frame(
        file=_text(item.get("file")),
        line=line if type(line) is int and 0 <= line < _LARGEST else 0,
        function=_text(item.get("function")),
        source=_text(item.get("source")),
    )


_LARGEST: Final = 10**15
"""A number from here on says nothing, and may have more digits than Python prints."""


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a text as it is, and a number as text. Anything else in a text's place says nothing."""
    if isinstance(value, str):
        return value
    return str(value) if type(value) in (int, float) and -_LARGEST < value < _LARGEST else ""
