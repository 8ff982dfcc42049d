"""The client's side: the outcome of a tool call, and a caller that retries it only where that helps and is safe.

`iserror` itself doesn't import this package. `ToolCaller` needs the `iserror[client]` extra (tenacity).
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
