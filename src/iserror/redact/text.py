"""Texts before and after the rules: without what cannot be seen, and bounded."""

from __future__ import annotations

from typing import Final, SupportsIndex

from iserror.redact.rule import FAILED, MARK, regex

CAP: Final = 65_536
"""How many characters of one text are read."""

MARGIN: Final = 500
"""Characters before a cut that aren't shown: a rule may know a credential by what comes after it."""


class Safe(str):
    """
    A text that you mark as safe: iserror neither redacts nor quotes it.

    It's an escape hatch for a constant of your server that looks like a secret: a path inside a container that the
    model should use, or an example token. Never wrap external text. `Safe` works as a template's value, and in a
    `ToolFailure` as message, hint or a value of `details`. iserror still makes it one line without invisible characters
    and cuts it at the field's length. A text built from it (`f"{Safe(x)}"`, `+`, a copy) is an ordinary text again.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)


# No wider than real escape sequences, so that a stray escape doesn't swallow the start of a name.
_ANSI = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[!\"$'*]?[@-~]|\x1b[()*+][0-9A-Z]|"
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n\x90\x98\x9d-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"
)
# Controls, format characters that no script needs, letters without ink, variation selectors, tags.
_UNSEEN = (
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def clean(text: str) -> str:
    """Remove invisible characters, and replace lone surrogates. Newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or not text.isascii():
        text = regex(_ANSI).sub("", text)
    text = regex("\r(?!\n)|[\x85\u2028\u2029]").sub("\n", text)
    text = regex(_UNSEEN).sub("", regex("[\x0b\x0c]").sub(" ", text))
    return regex("[\ud800-\udfff]").sub("\ufffd", text)


def bounded(text: str) -> str:
    """Clean `text` and cut it at the cap."""
    seen = clean(text[: 2 * CAP])
    if len(seen) <= CAP and len(text) <= 2 * CAP:
        return seen
    return cut_short(seen, CAP)


def cut_short(text: str, limit: int) -> str:
    """Cut a text to `limit` characters without its last word, which may be the head of a secret."""
    head = text[: limit - 2]
    end = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t"), head.rfind('","'), 0)
    if not end:  # some scripts have no blanks, and no credentials are written in them
        end = max((m.end() for m in regex("[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]").finditer(head)), default=0)
    return f"{head[:end].rstrip()} …"


def clean_line(text: str, limit: int) -> str:
    """
    Return `text` as one line of safe printable text of at most `limit` characters.

    Control, ANSI, zero-width, bidirectional and tag characters are removed. Every run of white space becomes one
    blank. A text that is cut ends with an ellipsis, never with half of a `[redacted:KIND]` marker.
    """
    try:
        line = " ".join(bounded(str.__str__(text)).split())
        if len(line) <= limit:
            return line
        line = line[: max(limit - 1, 0)]
        half = line.rfind("[")
        if half >= 0 and "]" not in line[half:] and (line.startswith(MARK, half) or MARK.startswith(line[half:])):
            line = line[:half]
        cut = (line.rstrip() + "…")[: max(limit, 0)]
        if len(regex(r'(?<!\\)"').findall(cut)) % 2 and limit > 2:  # close a quote that the cut left open
            cut = cut[:-2].rstrip("\\") + '…"'
        return cut
    except Exception:
        return FAILED[: max(limit, 0)]
