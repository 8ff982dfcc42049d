"""`pymongo`, synchronous and asynchronous, and what is built on it, such as motor and beanie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iserror.errors.pack import By, Pack
from iserror.errors.template import Template
from iserror.packs import codes, sql
from iserror.support.causes import frames

# MongoDB rolls nothing back outside a transaction: what an operation on many documents did before it failed, stays.
_PARTLY: Final = codes.UPSTREAM_REJECTED.unproven()
_STOPPED: Final = replace(
    codes.QUERY_TIMEOUT.unproven(),
    message=Template(("The database stopped the operation: it took too long.",)),
)
_SOME: Final = replace(
    codes.UPSTREAM_REJECTED,
    message=Template(("A service that this tool needs did a part of the request, and refused the rest.",)),
    hint=codes.UPSTREAM_ERROR.hint,
    outcome="partial",
)

_COUNTS: Final = ("nInserted", "nUpserted", "nModified", "nRemoved", "nDeleted", "writeConcernErrors")
_MANY: Final = ("update_many", "delete_many")
_CODES: Final = {
    "many": _PARTLY,
    "1": codes.UPSTREAM_ERROR,
    "2": codes.QUERY_INVALID,
    "6": codes.UPSTREAM_UNAVAILABLE,
    "7": codes.UPSTREAM_UNAVAILABLE,
    "8": codes.UPSTREAM_ERROR,
    "9": codes.QUERY_INVALID,
    "11": codes.UPSTREAM_UNAUTHENTICATED,
    "13": codes.UPSTREAM_PERMISSION_DENIED,
    "14": codes.QUERY_INVALID,
    "18": codes.UPSTREAM_UNAUTHENTICATED,
    "24": codes.LOCK_TIMEOUT,
    "26": codes.NOT_FOUND,
    "27": codes.NOT_FOUND,
    "46": codes.LOCK_TIMEOUT,
    "48": codes.ALREADY_EXISTS,
    "50": _STOPPED,
    "59": codes.UPSTREAM_UNIMPLEMENTED,
    "66": codes.INVALID_VALUE,
    "89": codes.UPSTREAM_TIMEOUT,
    "112": codes.TRANSACTION_CONFLICT,
    "121": sql.CHECK,
    "133": sql.OVERLOADED,
    "202": codes.UPSTREAM_TIMEOUT,
    "246": codes.TRANSACTION_CONFLICT,
    "262": _STOPPED,
    "391": codes.UPSTREAM_UNAUTHENTICATED,
    "10334": codes.INVALID_VALUE,
    "14031": codes.STORAGE_FULL,
    "40324": codes.QUERY_INVALID,
}


def _many(exc: BaseException) -> str | None:
    return "many" if any(frame.f_code.co_name in _MANY for frame in frames(exc)) else None


def _code(exc: Any) -> str | None:
    code = str(exc.code)
    # Whole numbers only: 133 isn't 13.
    return (_many(exc) or code) if code in _CODES else None


def _not_primary(exc: Any) -> str | None:
    code = str(exc.details["code"])
    return code if code in ("10107", "13435", "13436") else None


def _some(exc: Any) -> str | None:
    return "some" if any(exc.details.get(name) for name in _COUNTS) else None


def _bulk(exc: Any) -> object:
    """Return `some` if any write of a bulk was done, else the code of the inserts if they all failed with the same one.

    If an update or delete of many documents fails, the counts leave out what it did before.
    """
    failed = {"many" if "q" in error["op"] else str(error["code"]) for error in exc.details["writeErrors"]}
    return _some(exc) or (failed.pop() if len(failed) == 1 else None)


pymongo: Final = Pack(
    name="pymongo",
    sources=(
        "https://pymongo.readthedocs.io/en/stable/api/pymongo/errors.html",
        "https://www.mongodb.com/docs/manual/reference/error-codes/",
        "https://www.mongodb.com/docs/manual/core/retryable-writes/",
        "https://www.mongodb.com/docs/manual/core/write-operations-atomicity/",
        "https://www.mongodb.com/docs/manual/reference/write-concern/",
    ),
    rows={
        # pymongo raises this only if no attempt was sent. If a retry fails, it raises the first attempt's failure.
        "pymongo.errors.ServerSelectionTimeoutError": codes.DEPENDENCY_UNAVAILABLE,
        "pymongo.errors.WaitQueueTimeoutError": codes.DEPENDENCY_BUSY,
        "pymongo.errors.NetworkTimeout": codes.UPSTREAM_TIMEOUT,
        # The codes that refuse an operation: the member can't write, or can't read. A step-down may interrupt one.
        "pymongo.errors.NotPrimaryError": By(
            "code",
            _not_primary,
            {"10107": sql.OVERLOADED, "13435": sql.OVERLOADED, "13436": sql.OVERLOADED},
            codes.UPSTREAM_UNAVAILABLE,
        ),
        "pymongo.errors.AutoReconnect": codes.CONNECTION_LOST,
        "pymongo.errors.ConnectionFailure": codes.CONNECTION_LOST,
        "pymongo.errors.ProtocolError": codes.UPSTREAM_INVALID_RESPONSE,
        "pymongo.errors.DuplicateKeyError": By("operation on", _many, {"many": _PARTLY}, codes.ALREADY_EXISTS),
        # It was written, and its copying to other members was not confirmed.
        "pymongo.errors.WTimeoutError": codes.UPSTREAM_TIMEOUT,
        "pymongo.errors.WriteConcernError": codes.UPSTREAM_ERROR,
        "pymongo.errors.BulkWriteError": By(
            "writes", _bulk, {"some": _SOME, "11000": codes.ALREADY_EXISTS, "121": sql.CHECK}, _PARTLY
        ),
        "pymongo.errors.ClientBulkWriteException": By("writes", _some, {"some": _SOME}, _PARTLY),
        "pymongo.errors.ExecutionTimeout": _STOPPED,
        # The server forgot the position. The tool has to read again from the beginning.
        "pymongo.errors.CursorNotFound": codes.UPSTREAM_ERROR,
        "pymongo.errors.WriteError": sql.NAMED_ONLY,
        "pymongo.errors.OperationFailure": By("code", _code, _CODES),
        "pymongo.errors.DocumentTooLarge": codes.INVALID_VALUE,
        "bson.errors.InvalidId": codes.INVALID_VALUE,
    },
)
