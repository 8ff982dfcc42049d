"""Test a server: an in-memory client, and assertions on what tools answer.

Nothing here needs pytest. pytest finds its plugin, `iserror.testing.plugin`, by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iserror.testing.asserts import assert_protocol_error, assert_tool_error
    from iserror.testing.client import Connection, connect
    from iserror.testing.leak import assert_no_leak

__all__ = ["Connection", "assert_no_leak", "assert_protocol_error", "assert_tool_error", "connect"]

# As in `iserror` itself: pytest loads the plugin in every suite, and with it this module.
_MODULES = {
    "Connection": "client",
    "assert_no_leak": "leak",
    "assert_protocol_error": "asserts",
    "assert_tool_error": "asserts",
    "connect": "client",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value = getattr(import_module(f"iserror.testing.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'iserror.testing' has no attribute {name!r}")
