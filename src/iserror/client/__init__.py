"""The client's side: what came of a tool call, and a caller that repeats it only where that helps and is safe.

Not imported by `iserror` itself; `ToolCaller` needs the extra `iserror[client]` (tenacity).
"""

from iserror.client.caller import ToolCaller
from iserror.client.classify import classify
from iserror.client.outcome import (
    CallOutcome,
    ContractBroken,
    InputRequired,
    NotSent,
    OutcomeUnknown,
    ProtocolFailed,
    Succeeded,
    ToolFailed,
    UrlElicitationRequired,
)

__all__ = [
    "CallOutcome",
    "ContractBroken",
    "InputRequired",
    "NotSent",
    "OutcomeUnknown",
    "ProtocolFailed",
    "Succeeded",
    "ToolCaller",
    "ToolFailed",
    "UrlElicitationRequired",
    "classify",
]
