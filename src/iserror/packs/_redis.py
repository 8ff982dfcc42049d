"""`redis`, and its fork `valkey`: the same rows, by other module names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.packs import codes, sql
from iserror.support.causes import frames


def _phase(exc: BaseException) -> str | None:
    """Return `connecting` if a command waited for its first connection, so that nothing of it was sent.

    The class is the same for a connection that was refused and one that broke. The cause doesn't tell either: after a
    connection broke, the client retries the command (since redis 6 by default) and raises the last failure, which may
    be a refused connection. A client of a cluster takes a connection for each attempt.
    """
    found = None
    for frame in frames(exc):
        module = frame.f_globals["__name__"]
        if module.endswith(".cluster"):
            return None
        if module.endswith(".connection") and frame.f_code.co_name == "get_connection":
            found = "connecting"
    return found


def _pipelined(exc: BaseException) -> str | None:
    return "pipeline" if any(frame.f_code.co_name.endswith("raise_first_error") for frame in frames(exc)) else None


def _code(exc: Any) -> str | None:
    """Return the first word of the server's answer. In RESP it is the kind of error: `WRONGTYPE`."""
    word = exc.args[0].partition(" ")[0]
    return _pipelined(exc) or (word if word.isupper() else None)


# Redis rolls nothing back: the other commands of a pipeline or transaction stay, and what a script did until it failed.
_PARTLY: Final = codes.UPSTREAM_REJECTED.unproven()


def _refused(entry: Entry) -> By:
    return By("raised by", _pipelined, {"pipeline": _PARTLY}, entry)


def _connecting(entry: Entry, otherwise: Entry) -> By:
    return By("phase", _phase, {"connecting": entry}, otherwise)


def _acquiring(exc: BaseException) -> str | None:
    *_, last = frames(exc)
    return "acquire" if last.f_code.co_name in ("__enter__", "__aenter__") else None


def _rows(library: str, cluster: str) -> Mapping[str, Entry | By]:
    rows: dict[str, Entry | By] = {
        "TimeoutError": _connecting(codes.DEPENDENCY_UNAVAILABLE, codes.UPSTREAM_TIMEOUT),
        "ConnectionError": _connecting(codes.DEPENDENCY_UNAVAILABLE, codes.CONNECTION_LOST),
        "BusyLoadingError": _connecting(sql.OVERLOADED, codes.UPSTREAM_UNAVAILABLE),
        "MaxConnectionsError": codes.DEPENDENCY_BUSY,
        "AuthenticationError": codes.UPSTREAM_UNAUTHENTICATED,
        "AuthenticationWrongNumberOfArgsError": codes.UPSTREAM_UNAUTHENTICATED,
        "AuthorizationError": codes.UPSTREAM_UNAUTHENTICATED,
        "ExternalAuthProviderError": codes.UPSTREAM_UNAUTHENTICATED,
        "NoPermissionError": _refused(codes.UPSTREAM_PERMISSION_DENIED),
        "OutOfMemoryError": _refused(codes.STORAGE_FULL),
        "ReadOnlyError": _refused(codes.READ_ONLY),
        "NoScriptError": _refused(codes.QUERY_INVALID),
        "ExecAbortError": codes.QUERY_INVALID,
        "WatchError": codes.TRANSACTION_CONFLICT,
        # It waited for a lock in vain; of the others, one that ran out may have let something else in between.
        "LockError": By("raised by", _acquiring, {"acquire": codes.LOCK_TIMEOUT}),
        "LockNotOwnedError": codes.UPSTREAM_CONFLICT.unproven(),
        "ClusterDownError": _refused(sql.OVERLOADED),
        "MasterDownError": _refused(sql.OVERLOADED),
        "TryAgainError": _refused(sql.OVERLOADED),
        "ClusterCrossSlotError": _refused(codes.QUERY_INVALID),
        "SlotNotCoveredError": codes.DEPENDENCY_UNAVAILABLE,
        "ClusterError": codes.UPSTREAM_UNAVAILABLE,
        cluster: codes.UPSTREAM_UNAVAILABLE,
        "InvalidResponse": codes.UPSTREAM_INVALID_RESPONSE,
        "ResponseError": By(
            "answer",
            _code,
            {
                "pipeline": _PARTLY,
                "BUSY": sql.OVERLOADED,
                # valkey-py has no class for these.
                "CLUSTERDOWN": sql.OVERLOADED,
                "MASTERDOWN": sql.OVERLOADED,
                "TRYAGAIN": sql.OVERLOADED,
                "CROSSSLOT": codes.QUERY_INVALID,
                "MISCONF": codes.READ_ONLY,
                "NOREPLICAS": sql.OVERLOADED,
                # In a script, this may be the last command.
                "WRONGTYPE": codes.QUERY_INVALID.unproven(),
            },
            _PARTLY,
        ),
    }
    return {f"{library}.exceptions.{name}": row for name, row in rows.items()}


_SOURCES: Final = (
    "https://redis.readthedocs.io/en/stable/exceptions.html",
    "https://redis.readthedocs.io/en/stable/retry.html",
    "https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors",
    "https://redis.io/docs/latest/develop/using-commands/transactions/#what-about-rollbacks",
    "https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/",
)

redis: Final = Pack("redis", _SOURCES, _rows("redis", "RedisClusterException"))
valkey: Final = Pack("valkey", _SOURCES, _rows("valkey", "ValkeyClusterException"))
