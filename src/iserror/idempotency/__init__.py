"""Idempotency keys for writes: a retry of a call gets the first result, and the tool does not run again."""

from typing import TYPE_CHECKING

from iserror.idempotency.memory import MemoryStore
from iserror.idempotency.settings import Idempotency
from iserror.idempotency.store import Entry, IdempotencyStore

if TYPE_CHECKING:
    from iserror.idempotency.redis import RedisStore

__all__ = ["Entry", "Idempotency", "IdempotencyStore", "MemoryStore", "RedisStore"]


def __getattr__(name: str) -> object:
    if name == "RedisStore":
        from iserror.idempotency.redis import RedisStore

        return RedisStore
    raise AttributeError(f"module 'iserror.idempotency' has no attribute {name!r}")
