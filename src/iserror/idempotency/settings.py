"""`Idempotency`: where keys are kept, for how long a retry waits, and who shares a scope."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from iserror.idempotency.memory import MemoryStore
from iserror.idempotency.store import IdempotencyStore

MIN_LEASE = 0.1


class Idempotency:
    """Say where idempotency keys are kept, for how long a retry waits, and who shares a scope.

    Args:
        store: Keeps the keys (default: a `MemoryStore` in this process).
        wait: Seconds for which a retry waits for the first call with its key, 0 or more (default: 30).
        lease: Seconds, 0.1 or more, after which the key of a process that died counts as lost. A running call renews
            it three times as often.
        subject: `() -> str | None`, called in the tool's context: who is calling. None means an unknown caller. By
            default, the access token decides.
        allow_unauthenticated: Whether callers without a token may use keys over HTTP, and where it isn't known how a
            call came. All of them share one scope: who knows another's key and arguments gets that result.

    Raises:
        TypeError, ValueError: If a setting isn't one of these.
    """

    def __init__(
        self,
        store: IdempotencyStore | None = None,
        *,
        wait: float = 30.0,
        lease: float = 10.0,
        subject: Callable[[], str | None] | None = None,
        allow_unauthenticated: bool = False,
    ) -> None:
        for what, value, least in (("wait", wait, 0.0), ("lease", lease, MIN_LEASE)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < math.inf:
                raise ValueError(f"{what} {value!r} is not valid: use a number of seconds, {least:g} or more")
        if subject is not None and (not callable(subject) or inspect.iscoroutinefunction(subject)):
            raise TypeError(f"subject must be a plain function, not {subject!r}")
        if not isinstance(allow_unauthenticated, bool):
            raise ValueError(f"allow_unauthenticated {allow_unauthenticated!r} is not valid: use True or False")
        for method in ("claim", "renew", "finish", "release"):
            if store is not None and not callable(getattr(store, method, None)):
                raise TypeError(f"store must have the method {method!r}: {store!r} has none")
        self.store: IdempotencyStore = store if store is not None else MemoryStore()
        self.wait = float(wait)
        self.lease = float(lease)
        self.subject = subject
        self.allow_unauthenticated = allow_unauthenticated
        self.functions: dict[tuple[str, str], list[Callable[..., Any]]] = {}
        """The first two of each module and qualified name that have a key."""
