"""The tool-error framework for FastMCP servers.

Wrap tools with a guard, say once what each domain exception means, and every failed call reaches the model as
a safe, stable, actionable error, and the operator as a log line with the full traceback under a request id.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iserror import logs as logs
    from iserror import packs as packs
    from iserror.errors.entry import From
    from iserror.errors.errormap import ErrorMap
    from iserror.errors.failure import Failure
    from iserror.errors.lookalike import looks_like_an_error
    from iserror.errors.ownwords import OwnWords
    from iserror.errors.partial import ItemFailure, PartialResult
    from iserror.errors.toolfailure import ToolFailure
    from iserror.guard import ToolErrors
    from iserror.layers.batch import Batch
    from iserror.layers.call import current_call, in_call
    from iserror.logs.configure import configure_logging
    from iserror.redact import Redactor, Rule, Safe, configure_redaction, redact_text
    from iserror.redact.speech import quoted

__all__ = [
    "Batch",
    "ErrorMap",
    "Failure",
    "From",
    "ItemFailure",
    "OwnWords",
    "PartialResult",
    "Redactor",
    "Rule",
    "Safe",
    "ToolErrors",
    "ToolFailure",
    "configure_logging",
    "configure_redaction",
    "current_call",
    "in_call",
    "looks_like_an_error",
    "quoted",
    "redact_text",
]

# Where each name is; it is imported when it is first used, so that `iserror trace` does not wait for pydantic.
_MODULES = {
    "Batch": "layers.batch",
    "ErrorMap": "errors.errormap",
    "Failure": "errors.failure",
    "From": "errors.entry",
    "ItemFailure": "errors.partial",
    "OwnWords": "errors.ownwords",
    "PartialResult": "errors.partial",
    "Redactor": "redact",
    "Rule": "redact",
    "Safe": "redact",
    "ToolErrors": "guard",
    "ToolFailure": "errors.toolfailure",
    "configure_logging": "logs.configure",
    "configure_redaction": "redact",
    "current_call": "layers.call",
    "in_call": "layers.call",
    "looks_like_an_error": "errors.lookalike",
    "quoted": "redact.speech",
    "redact_text": "redact",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value = getattr(import_module(f"iserror.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    if name in ("logs", "packs"):
        return import_module(f"iserror.{name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("iserror")
        except PackageNotFoundError:  # run from a source tree that is not installed
            return "unknown"
    raise AttributeError(f"module 'iserror' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "logs", "packs"})
