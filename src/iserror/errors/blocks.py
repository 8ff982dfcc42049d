"""The blocks of a failure beside its text: a screenshot of what went wrong, a link to a trace, and their bounds.

A block is in the form in which it is sent, a dict. Another server may have made it: whatever isn't known is left out,
and what is left out is named.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import AnyUrl

from iserror.redact import redact_text
from iserror.redact.text import clean, clean_line
from iserror.support.jsonrpc import json_size
from iserror.support.look import look

MAX_BLOCKS: Final = 8
"""The most blocks of a failure, without its text."""

MAX_BYTES: Final = 1 << 20
"""The most bytes of JSON of all of them."""

MAX_LOOKED: Final = 200
"""The most blocks that are looked at."""

MAX_TEXT: Final = 65_536
"""The most characters of an embedded text: as many as the redactor reads."""

MAX_TEXTS: Final = MAX_BLOCKS * MAX_TEXT
"""The most characters of embedded texts that are redacted for one failure, kept or not."""

MAX_URI: Final = 2_000
MAX_NAME: Final = 200
MAX_ABOUT: Final = 1_000

_NAMES: Final = {"image": "image", "audio": "audio clip", "resource_link": "link", "resource": "resource"}
_MIME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,80}/[\w.+*-]{1,80}(?:;[\w .=+\"-]{1,100})?\Z")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,40}:\S+\Z")
# `jar:file:///srv/app/x.jar!/y` names a file of the server as well.
_FILE: Final = re.compile(r"(?:[a-z][a-z0-9+.-]{0,40}:){0,8}file:", re.IGNORECASE)
_MORE: Final[Mapping[str, Any]] = {"type": "more"}


def wire_block(block: object) -> dict[str, Any] | None:
    """Return a content block as it is sent: of an SDK's object, a host's helper or a dict; None for anything else."""
    if isinstance(block, Mapping):
        found: Any = dict(block)
    else:
        for name in ("to_image_content", "to_audio_content", "to_resource_content"):
            make = getattr(block, name, None)
            if callable(make):
                block = make()
                break
        dump = getattr(type(block), "model_dump", None)
        found = dump(block, mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def checked_content(content: Iterable[object]) -> tuple[dict[str, Any], ...]:
    """Return the blocks of `ToolFailure(content=...)` as they are sent.

    Raises:
        TypeError: If it isn't a list of content blocks.
        ValueError: If a block is a text.
    """
    if isinstance(content, (str, bytes, Mapping)) or not isinstance(content, Iterable):
        raise TypeError(f"content must be a list of content blocks, not {type(content).__name__}")
    found = []
    for block in content:
        made = look(wire_block, None, block)
        if made is not None and made["type"] == "text":
            raise ValueError("content is for what isn't a text: put texts into message and hint")
        if made is None or made["type"] not in _NAMES:
            raise TypeError(
                f"content: {type(block).__name__} isn't a content block; use ImageContent, AudioContent, ResourceLink "
                "or EmbeddedResource of mcp.types, or their JSON"
            )
        found.append(made)
    return tuple(found)


def others(content: object) -> tuple[Mapping[str, Any], ...]:
    """Return the blocks of a result that aren't texts, as they are sent; a last one says that it has more."""
    if not isinstance(content, (list, tuple)):
        return ()
    made = (look(wire_block, None, block) for block in islice(content, MAX_LOOKED))
    found = tuple(block for block in made if block is not None and block["type"] != "text")
    return (*found, _MORE) if found and len(content) > MAX_LOOKED else found


def safe_blocks(
    blocks: Sequence[Mapping[str, Any]], is_callers: Callable[[str], bool] = lambda _: False
) -> tuple[list[dict[str, Any]], str]:
    """Return blocks as a client may get them, and a line that names what is left out; "" if nothing is.

    Args:
        blocks: As they would be sent.
        is_callers: Whether the caller of this call sent a URI itself. Other `file:` URIs are the server's.
    """
    more = any(block.get("type") == _MORE["type"] for block in blocks[-1:])
    blocks = blocks[:-1] if more else blocks
    safe = _each_safe(blocks, is_callers)
    kept = [block for block in safe if block is not None]
    dropped = Counter(_name(block) for block, made in zip(blocks, safe, strict=False) if made is None)
    dropped["block"] += len(blocks) - len(safe)
    said = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in dropped.items() if count]
    cut = sum(made is not None and _is_cut(block) for block, made in zip(blocks, safe, strict=False))
    if cut:
        said.append(f"the end of {cut} resource{'s' if cut > 1 else ''}")
    if more:
        said.append("and more" if said else "more blocks")
    return kept, f"Left out: {', '.join(said)}." if said else ""


def stored_blocks(blocks: Sequence[Mapping[str, Any]], room: int) -> list[dict[str, Any]]:
    """Return blocks as a store may keep them: redacted, and only the type of those that can't be sent or don't fit.

    `file:` URIs stay: whether they are the caller's own is decided where the failure is sent again.

    Args:
        blocks: As they would be sent.
        room: Bytes of JSON that the store has for them.
    """
    kept: list[dict[str, Any]] = []
    safe = _each_safe(blocks, lambda _: True)
    for block, made in zip(blocks, safe, strict=False):
        # A text that was cut is left out as a whole: a store can't say that its end is missing.
        size = json_size(made)
        if made is None or size > room or _is_cut(block):
            kept.append({"type": kind if isinstance(kind := block.get("type"), str) and kind in _NAMES else "block"})
        else:
            kept.append(made)
            room -= size
    return [*kept, dict(_MORE)] if len(blocks) > len(safe) else kept


def _each_safe(blocks: Sequence[Mapping[str, Any]], is_callers: Callable[[str], bool]) -> list[dict[str, Any] | None]:
    """Return for each of the first `MAX_LOOKED` blocks what may be sent of it; None for one that is left out."""
    found: list[dict[str, Any] | None] = []
    kept, room, texts = 0, MAX_BYTES, MAX_TEXTS
    for block in blocks[:MAX_LOOKED]:
        kind = block.get("type")
        texts -= min(len(_embedded_text(block)), MAX_TEXT)
        # Another server may send many: no work for those that are left out in any case.
        can = kept < MAX_BLOCKS and texts >= 0 and isinstance(kind, str) and kind in _SAFE
        safe = look(_SAFE[kind], None, block, is_callers) if can else None
        size = 0 if safe is None else json_size(safe)
        if safe is None or size > room:
            found.append(None)
            continue
        found.append(safe)
        kept += 1
        room -= size
    return found


def _name(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    return _NAMES.get(kind, "block") if isinstance(kind, str) else "block"


def _embedded_text(block: Mapping[str, Any]) -> str:
    held = block.get("resource")
    text = held.get("text") if isinstance(held, Mapping) else None
    return str.__str__(text) if isinstance(text, str) else ""


def _is_cut(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "resource" and len(_embedded_text(block)) > MAX_TEXT


def _media(block: Mapping[str, Any], is_callers: Callable[[str], bool]) -> dict[str, Any] | None:
    data, mime = block.get("data"), block.get("mimeType")
    if not _is_base64(data) or not _is_mime(mime):
        return None
    return {"type": block["type"], "data": data, "mimeType": mime, **_annotations(block)}


def _link(block: Mapping[str, Any], is_callers: Callable[[str], bool]) -> dict[str, Any] | None:
    uri = _safe_uri(block.get("uri"), is_callers)
    name = _text(block.get("name"), MAX_NAME)
    if uri is None or not name:
        return None
    found: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": name}
    for key, limit in (("title", MAX_NAME), ("description", MAX_ABOUT)):
        said = _text(block.get(key), limit)
        if said:
            found[key] = said
    if _is_mime(block.get("mimeType")):
        found["mimeType"] = block["mimeType"]
    size = block.get("size")
    if type(size) is int and 0 <= size < 2**53:
        found["size"] = size
    return {**found, **_annotations(block)}


def _embedded(block: Mapping[str, Any], is_callers: Callable[[str], bool]) -> dict[str, Any] | None:
    held = block.get("resource")
    uri = _safe_uri(held.get("uri"), is_callers) if isinstance(held, Mapping) else None
    if uri is None or not isinstance(held, Mapping):
        return None
    inside: dict[str, Any] = {"uri": uri}
    if _is_mime(held.get("mimeType")):
        inside["mimeType"] = held["mimeType"]
    if isinstance(held.get("text"), str):
        # A file's content is no sentence of the server's: what it says of paths and hosts stays.
        inside["text"] = clean(redact_text(str.__str__(held["text"])[:MAX_TEXT], profile="log"))
    elif _is_base64(held.get("blob")):
        inside["blob"] = held["blob"]
    else:
        return None
    return {"type": "resource", "resource": inside, **_annotations(block)}


_SAFE: Final[Mapping[Any, Callable[..., dict[str, Any] | None]]] = {
    "image": _media,
    "audio": _media,
    "resource_link": _link,
    "resource": _embedded,
}


def _safe_uri(uri: object, is_callers: Callable[[str], bool]) -> str | None:
    text = str.__str__(uri) if isinstance(uri, str) else ""
    if not text or len(text) > MAX_URI or not _URI.match(text) or clean_line(text, MAX_URI) != text:
        return None
    if _FILE.match(text) and not is_callers(text):
        return None
    # A marker has brackets, which a URI can't have.
    safe = re.sub(r"\[redacted:(\w+)\]", r"redacted-\1", redact_text(text, profile="log"))
    # SDK 1.x refuses a whole result for one malformed URI, and writes the others in pydantic's form: so do all hosts.
    return look(lambda: str(AnyUrl(safe)), None)


def _annotations(block: Mapping[str, Any]) -> dict[str, Any]:
    given = block.get("annotations")
    if not isinstance(given, Mapping):
        return {}
    found: dict[str, Any] = {}
    audience = given.get("audience")
    if isinstance(audience, (list, tuple)):
        found["audience"] = [one for one in audience if one in ("user", "assistant")][:2]
    priority = given.get("priority")
    if isinstance(priority, (int, float)) and not isinstance(priority, bool) and 0 <= priority <= 1:
        found["priority"] = priority
    return {"annotations": found} if found else {}


def _text(value: object, limit: int) -> str:
    return (
        clean_line(redact_text(str.__str__(value)[: limit * 8], profile="log"), limit) if isinstance(value, str) else ""
    )


def _is_mime(value: object) -> bool:
    return isinstance(value, str) and _MIME.match(value) is not None


def _is_base64(value: object) -> bool:
    if not isinstance(value, str) or not value or len(value) > MAX_BYTES:
        return False
    return look(lambda: base64.b64decode(str.__str__(value), validate=True) is not None, False)
