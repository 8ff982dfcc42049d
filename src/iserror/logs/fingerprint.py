"""Calls that are equal, told apart from others without a value in the log: a keyed hash of tool and arguments."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from iserror.support.look import attempt

FINGERPRINT_KEY: Final = "ISERROR_FINGERPRINT_KEY"


class _Key:
    """The key of this process, once one was needed, and the folder beside whose log it is kept."""

    value: bytes | None = None
    folder: Path | None = None


def keep_key_in(folder: Path | None) -> None:
    """Say where the key is kept where the environment has none; None keeps it in memory."""
    _Key.value, _Key.folder = None, folder


def fingerprint(tool: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Hash a tool and its arguments with a secret key: equal calls are seen, values cannot be guessed."""
    if arguments is None:
        return None

    def digest() -> str:
        text = json.dumps([tool, arguments], sort_keys=True, default=str, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), key=_key(), digest_size=8).hexdigest()

    return attempt(digest, None)


def _key() -> bytes:
    if _Key.value is None:
        given = os.environ.get(FINGERPRINT_KEY, "").encode()
        _Key.value = hashlib.blake2b(given, digest_size=32).digest() if given else _stored_key()
    return _Key.value


def _stored_key() -> bytes:
    """The key beside the log, made by the first process that needs it; of this process alone without one."""
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
        pass  # it is there already, or the folder takes no files
    try:
        # Not through a link, and not waiting for a named pipe: others may write to the folder too.
        fd = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return fresh
    with os.fdopen(fd, "rb") as opened:
        owner = os.fstat(fd).st_uid
        stored = opened.read(33) if owner == getattr(os, "geteuid", lambda: owner)() else b""
    return stored if len(stored) == 32 else fresh
