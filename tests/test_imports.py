"""`import iserror` is cheap and loads no host; every public name says what it is."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import iserror

pytestmark = pytest.mark.sdk


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_no_host_is_loaded() -> None:
    """Importing the library loads no host, no test tool and no module that only some calls need."""
    unwanted = "{'mcp', 'mcp_types', 'fastmcp', 'pytest', 'jsonschema', 'referencing', 'httpx', 'opentelemetry'}"
    code = f"import sys, iserror; print(sorted({unwanted} & {{name.partition('.')[0] for name in sys.modules}}))"
    assert run(code) == "[]\n"


def test_what_a_server_does_not_need() -> None:
    """A server without keys loads neither the client's side, nor the layer of idempotency keys, nor what they need."""
    code = """
import sys, iserror
iserror.ToolErrors()(lambda: None), iserror.PartialResult, iserror.Batch
unwanted = ('iserror.client', 'iserror.idempotency', 'tenacity', 'redis')
print([name for name in sys.modules if name.startswith(unwanted)])
"""
    assert run(code) == "[]\n"


def test_a_key_loads_no_redis() -> None:
    """A tool with an idempotency key that is kept in memory loads neither redis nor a host."""
    code = """
import sys, iserror
print(iserror.ToolErrors()(idempotency_key='key')(lambda key: key)('k'))
print({'redis', 'mcp', 'fastmcp', 'iserror.idempotency.redis'} & set(sys.modules))
"""
    assert run(code) == "k\nset()\n"


def test_a_guard_without_a_host() -> None:
    """A guarded function fails as it should in a process that has loaded no host, and none is loaded for it."""
    code = """
import sys, iserror
try:
    iserror.ToolErrors()(lambda: 1 / 0)()
except iserror.ToolFailure as exc:
    print(exc.code, type(exc) is iserror.ToolFailure, {'mcp', 'fastmcp'} & set(sys.modules))
"""
    assert run(code) == "INTERNAL_ERROR True set()\n"


def test_structlog_is_left_alone() -> None:
    """Importing the library and making a guard configure neither structlog nor logging."""
    code = """
import logging, structlog, iserror
iserror.ToolErrors()
print(structlog.is_configured(), logging.getLogger().handlers)
"""
    assert run(code) == "False []\n"


def test_every_public_name_has_a_docstring() -> None:
    """Every name of `__all__`, and every public member of its classes, has a docstring of its own."""
    bare = []
    for name in iserror.__all__:
        thing = getattr(iserror, name)
        members = vars(thing).items() if inspect.isclass(thing) else ()
        bare += [name] if not inspect.getdoc(thing) else []
        for member, value in members:
            target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith(("_", "model_")) and inspect.isfunction(target) and not target.__doc__:
                bare.append(f"{name}.{member}")
    assert bare == []


def test_version() -> None:
    """The version is that of the installed package, and other names are still missing."""
    from importlib.metadata import version

    assert iserror.__version__ == version("iserror")
    assert not hasattr(iserror, "no_such_name")
