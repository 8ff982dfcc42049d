"""Texts with values: read from an exception's attributes, or given beside the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

from iserror.errors.answers import in_words, refusal_of
from iserror.errors.foreign import MAX_WORDS
from iserror.redact.names import announces_secret
from iserror.redact.speech import MAX_MESSAGE, MAX_VALUE, Shown, filled, joined, quoted, quoted_later, quoted_value
from iserror.redact.text import Safe, clean_line
from iserror.support.look import look

MAX_ITEMS: Final = 10
"""The most items of a list that a text shows."""

MAX_LIST: Final = 250
"""The most characters of a list that a text shows. Cut later, with the message, it could lose a closing quote."""

Path: TypeAlias = tuple[str, ...]
"""Names of attributes, from the exception on, or behind `BODY`: of the answer that it stands for."""

BODY: Final = "body of 4xx"

PATH: Final = re.compile(r"(exc|body)((?:\.(?:[A-Za-z]\w*|[0-9]{1,3}))+)\Z")
_FIELD: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def path_of(text: str) -> Path | None:
    """Return the path that a text such as `exc.response.status_code` names, or None if it names none."""
    match = PATH.match(text)
    if match is None or "__" in text:
        return None
    names = tuple(match[2][1:].split("."))
    return names if match[1] == "exc" else (BODY, *names)


def spelled(path: Path) -> str:
    """Return a path as a template spells it."""
    return ".".join(("body", *path[1:]) if path[0] == BODY else ("exc", *path))


def read(exc: BaseException, path: Path) -> object:
    """Return the value at a path: of attributes, keys of a dict, numbers of a list; None if no text can show it.

    Raises:
        BaseException: Whatever the exception's attributes raise.
    """
    value: Any = exc
    for name in path:
        if name == BODY:
            value = refusal_of(exc)
        elif issubclass(type(value), dict):
            value = dict.__getitem__(value, name)
        elif name.isdecimal():
            value = value[int(name)] if issubclass(type(value), (list, tuple)) else None
        else:
            value = getattr(value, name)
    if path[0] == BODY:
        value = in_words(value)
    return None if callable(value) or isinstance(value, (bytes, bytearray, memoryview)) else value


def texts_of(value: object) -> list[str]:
    """Return a value as texts, one for each item of a list.

    Raises:
        BaseException: Whatever a foreign value raises.
    """
    if isinstance(value, Iterator):  # reading it would take it from the next reader
        return []
    if not isinstance(value, Iterable) or isinstance(value, (str, Enum)):
        return [_text(value)]
    return [_text(item) for item in itertools.islice(value, MAX_ITEMS)]


def _text(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, Safe) else look(str, "", value)


def shown_parts(
    texts: list[str], safe: bool = False, limit: int = MAX_VALUE, show: Callable[[str, int], str] = quoted_value
) -> list[str]:
    """Return the parts of a template's value, as `joined` takes them, with commas between the items of a list.

    Args:
        texts: What `texts_of` returned.
        safe: Whether the author marked the value as safe: it is shown as it is.
        limit: The most characters of each.
        show: Returns a text as data, of so many characters.
    """
    parts: list[str] = []
    before = ""
    for text in texts:
        if safe or isinstance(text, Safe):
            shown: str = Shown(clean_line(text, MAX_MESSAGE))
        elif announces_secret(before):  # what follows a command's `--password`
            shown = "[redacted:secret]"
        else:
            shown = show(text, limit)
        before = text
        if parts and sum(map(len, parts)) + len(shown) > MAX_LIST:
            break
        if shown:
            parts += [", ", shown] if parts else [shown]
    return parts


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class Template:
    """A constant text with values read from the exception: `{exc.invoice_id}`, `{body.detail}`, nothing else."""

    parts: tuple[str | Path, ...]
    """Literal texts and attribute paths in turn."""

    @classmethod
    def parse(cls, what: str, text: object) -> Template:
        """Check and split a template.

        Args:
            what: What the text is, for the message: `message of INVOICE_NOT_FOUND`.
            text: The template.

        Raises:
            ValueError: If it isn't one. The message names what is wrong with it.
        """
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{what} must be a text that is not empty, not {text!r}")
        parts: list[str | Path] = []
        for literal, field in _fields(text):
            parts.append(literal)
            if field is None:
                continue
            path = path_of(field[1:-1])
            if path is None:
                raise ValueError(
                    f"{what} {text!r}: {field!r} is no attribute path; a template reads attributes of "
                    "the exception, such as {exc.invoice_id} or {exc.args.0}, and of the body of an upstream's 4xx, "
                    "such as {body.detail} (no calls, formats or names with '__'; write {{ and }} for braces)"
                )
            parts.append(path)
        return cls(tuple(parts))

    def __str__(self) -> str:
        shown = (f"{{{spelled(part)}}}" if isinstance(part, tuple) else _escaped(part) for part in self.parts)
        return "".join(shown)

    @property
    def paths(self) -> set[Path]:
        """The attribute paths that it reads."""
        return {part for part in self.parts if isinstance(part, tuple)}

    def render(
        self, exc: BaseException, safe: AbstractSet[Path] = frozenset(), missing: list[Path] | None = None
    ) -> str:
        """Fill in the values. A missing or empty one goes, together with the punctuation around it.

        Args:
            exc: The exception to read.
            safe: Paths whose values are shown as they are.
            missing: Gets the paths without a value, if given.

        Returns:
            The text; a `Safe` if it has been redacted as a whole.
        """

        def shown_at(path: Path) -> list[str]:
            shown = shown_parts(look(_texts_at, [], exc, path), path in safe)
            if not shown and missing is not None:
                missing.append(path)
            return shown

        whole = joined(_filled(part if isinstance(part, str) else shown_at(part) for part in self.parts))
        return Safe(whole.strip()) if isinstance(whole, Safe) else whole.strip()


def _fields(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each text without fields, and the field behind it with its braces; None behind the last one."""
    literal, end = "", 0
    for match in _FIELD.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        if match.group() in ("{{", "}}"):
            literal += match.group()[0]
        else:
            yield literal, match.group()
            literal = ""
    yield literal + text[end:], None


def _filled(pieces: Iterable[str | list[str]]) -> list[str]:
    """Return the parts of a text. An empty value goes, together with the punctuation around it.

    Args:
        pieces: Literal texts, and for each value what `shown_parts` made of it.
    """
    parts: list[str] = []
    gone = False
    for piece in pieces:
        if not isinstance(piece, str):
            parts += piece
            if not piece:
                gone = True
                if parts and not isinstance(parts[-1], Shown):
                    parts[-1] = parts[-1].rstrip(" \t:=#'\"`([{<-–")
            continue
        if gone:
            piece = piece.lstrip("'\"`)]}>")
            if piece[:1].isalnum():
                piece = " " + piece
            gone = False
        parts.append(piece)
    return parts


def _texts_at(exc: BaseException, path: Path) -> list[str]:
    return texts_of(read(exc, path))


def detail_of(value: object, safe: bool) -> Any:
    """Return a value for `details`: a scalar as it is, anything else as a template shows it."""
    if isinstance(value, str):
        return Safe(value) if safe or isinstance(value, Safe) else str.__str__(value)
    if isinstance(value, (bool, int, float)):
        return value
    whole = joined(shown_parts(look(texts_of, [], value), safe, show=quoted))
    return Safe(whole) if safe else whole


# --- values that are given -----------------------------------------------------------------------------------


class TemplateString(Protocol):
    """A t-string of Python 3.14, `string.templatelib.Template`."""

    @property
    def strings(self) -> tuple[str, ...]: ...
    @property
    def interpolations(self) -> tuple[Any, ...]: ...


def is_template_string(text: object) -> TypeGuard[TemplateString]:
    """Return True for a t-string."""
    return (type(text).__module__, type(text).__name__) == ("string.templatelib", "Template")


def with_values(what: str, text: str | TemplateString, values: Mapping[str, object], unused: set[str]) -> str:
    """Return a text with values, each quoted: whatever is in one, it doesn't speak as the author.

    Args:
        what: What the text is, for the message: `message of SEARCH_FAILED`.
        text: A template with names in braces, or a t-string.
        values: The values by name. An exception means its text, or its class if it has none.
        unused: The names that no text has used yet. Those that this one uses are taken out.

    Raises:
        ValueError: If the text isn't a template of such names.
    """
    if is_template_string(text):
        return filled(_filled(_of_template_string(text)))
    pieces: list[str | list[str]] = []
    for literal, field in _fields(str.__str__(text)):
        pieces.append(literal)
        if field is None:
            continue
        name = field[1:-1]
        if not name.isidentifier():
            raise ValueError(f"{what} {text!r}: {field!r} is not a name in braces; write {{{{ and }}}} for braces")
        if name not in values:
            raise ValueError(f"{what} {text!r}: {name!r} is not in values, which has {', '.join(values) or 'no names'}")
        unused.discard(name)
        pieces.append(_shown_value(values[name]))
    return filled(_filled(pieces))


def _of_template_string(text: TemplateString) -> Iterator[str | list[str]]:
    for literal, given in itertools.zip_longest(text.strings, text.interpolations):
        yield literal
        if given is None:
            continue
        value = given.value
        if is_template_string(value):
            yield from _of_template_string(value)
            continue
        if given.conversion:
            value = look(_CONVERSIONS[given.conversion], "", value)
        if given.format_spec:
            value = look(format, "", value, given.format_spec)
        yield _shown_value(value)


_CONVERSIONS: Final[Mapping[str, Callable[[object], str]]] = {"r": repr, "s": str, "a": ascii}


def _shown_value(value: object) -> list[str]:
    if issubclass(type(value), BaseException):
        value = look(str, "", value) or type(value).__name__
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value[: MAX_WORDS * 8]).decode(errors="replace")
    return shown_parts(look(texts_of, [], value), limit=MAX_WORDS, show=quoted_later)
