"""The tool-error framework for FastMCP servers.

Wrap tools with a guard, say once what each domain exception means, and every failed call reaches the model as
a safe, stable, actionable error, and the operator as a log line with the full traceback under a request id.
"""

from iserror.call import current_call
from iserror.errormap import ErrorMap
from iserror.failure import Failure, ToolFailure, quoted
from iserror.guard import ToolErrors
from iserror.logs import configure_logging
from iserror.redact import Redactor, Rule, Safe, configure_redaction, redact_text

__all__ = [
    "ErrorMap",
    "Failure",
    "Redactor",
    "Rule",
    "Safe",
    "ToolErrors",
    "ToolFailure",
    "configure_logging",
    "configure_redaction",
    "current_call",
    "quoted",
    "redact_text",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("iserror")
        except PackageNotFoundError:  # run from a source tree that is not installed
            return "unknown"
    raise AttributeError(f"module 'iserror' has no attribute {name!r}")
