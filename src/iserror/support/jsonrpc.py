"""JSON-RPC and MCP by number and name: codes, `_meta` keys, revisions, sizes."""

from __future__ import annotations

import json
from typing import Any, Final

# JSON-RPC codes with a meaning of their own (specification 2026-07-28, basic protocol, error codes).
URL_ELICITATION_REQUIRED: Final = -32042


MISSING_CLIENT_CAPABILITY: Final = -32021


FAILURE_KEY: Final = "iserror/failure"


REQUEST_ID_KEY: Final = "iserror/request_id"


INVALID_PARAMS: Final = -32602


INTERNAL_ERROR: Final = -32603


# The first revision without -32002 and -32042.
STATELESS_REVISION: Final = "2026-07-28"


MAX_DATA: Final = 8_000
"""Bytes of JSON; more is not sent."""


def json_size(value: Any) -> int:
    """Length of the JSON text; of what has none, more than is ever allowed."""
    try:
        return len(json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return 1 << 30


TOOL_FAILURE_KEY: Final = "io.modelcontextprotocol/toolFailure"


# SEP-1303 made invalid arguments a tool execution error with this revision.
RESULT_REVISION: Final = "2025-11-25"
