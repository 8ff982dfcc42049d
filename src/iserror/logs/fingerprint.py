"""Fingerprints: equal calls are seen as equal without a value in the log, by a keyed hash of tool and arguments."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iserror.support.look import look, shield

FINGERPRINT_KEY: Final = "ISERROR_FINGERPRINT_KEY"


class _Key:
    """The key of this process."""

    value: bytes | None = None
    """The key, once one was needed."""
    folder: Path | None = None
    """The folder of the log, where the key is kept."""


def keep_key_in(folder: Path | None) -> None:
    """Set the folder of the key, for when the environment has none; None keeps the key in memory."""
    _Key.value, _Key.folder = None, folder


def fingerprint(tool: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Hash a tool and its arguments with a secret key: equal calls are seen, values can't be guessed."""
    text = None if arguments is None else look(_as_text, None, tool, arguments)
    return None if text is None else shield(_digest, None, text)


def _as_text(tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([tool, arguments], sort_keys=True, default=str, ensure_ascii=True)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), key=_key(), digest_size=8).hexdigest()


def _key() -> bytes:
    if _Key.value is None:
        given = os.environ.get(FINGERPRINT_KEY, "").encode()
        _Key.value = hashlib.blake2b(given, digest_size=32).digest() if given else _stored_key()
    return _Key.value


def _stored_key() -> bytes:
    """Return the key beside the log, which the first process that needs one makes; without a folder, a fresh key."""
    fresh, folder = secrets.token_bytes(32), _Key.folder
    if folder is None:
        return fresh
    file = folder / ".iserror-fingerprint-key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}-{os.getpid()}-{secrets.token_hex(4)}")
        temporary.touch(0o600)
        try:
            temporary.write_bytes(fresh)
            os.link(temporary, file)  # atomic: another process never reads half a key
        finally:
            temporary.unlink()
    except OSError:
        pass  # the file is there already, or the folder takes no files
    try:
        # Not through a link, and not waiting for a named pipe: others may write to the folder too.
        fd = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return fresh
    try:
        owner = os.fstat(fd).st_uid
        stored = os.read(fd, 33) if owner == getattr(os, "geteuid", lambda: owner)() else b""
    except OSError:  # a folder of this name, a named pipe
        return fresh
    finally:
        os.close(fd)
    return stored if len(stored) == 32 else fresh
