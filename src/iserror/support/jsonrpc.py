"""JSON-RPC and MCP by number and name: codes, `_meta` keys, revisions, sizes."""

from __future__ import annotations

import json
from typing import Any, Final

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002

# Codes that MCP gives a meaning (specification 2026-07-28, basic protocol, error codes).
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042

FAILURE_KEY: Final = "iserror/failure"
"""The key of the envelope, in `_meta` of a result and in `data` of a JSON-RPC error."""

REQUEST_ID_KEY: Final = "iserror/request_id"
"""The key of the request id in `data` of a JSON-RPC error."""

UPSTREAM_KEY: Final = "iserror/upstream"
"""The `_meta` key of what another server, whose error is passed on, calls its own request."""

OWN_KEYS: Final = "iserror/"
"""The beginning of the keys that only this library writes."""

TOOL_FAILURE_KEY: Final = "io.modelcontextprotocol/toolFailure"
"""The `_meta` key of the draft in pull requests 3312 and 3313 of the specification."""

RESULT_REVISION: Final = "2025-11-25"
"""The revision that made invalid arguments a tool execution error (SEP-1303)."""

STATELESS_REVISION: Final = "2026-07-28"
"""The first revision without -32002 and -32042."""

MAX_DATA: Final = 8_000
"""Bytes of JSON that `data` or `_meta` may hold. More isn't sent."""


def json_size(value: Any) -> int:
    """Return the length of the JSON text in bytes; for a value without one, more than is ever allowed."""
    try:
        return len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return 1 << 30
