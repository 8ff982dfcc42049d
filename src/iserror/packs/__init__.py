"""Packs: what the exceptions of well-known libraries mean, for `ErrorMap.include`.

A pack names classes by their dotted names, so that it imports nothing. It is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from iserror.attempt import attempt

if TYPE_CHECKING:
    from iserror.packs._azure_core import azure_core as azure_core
    from iserror.packs._botocore import botocore as botocore
    from iserror.packs._elasticsearch import elasticsearch as elasticsearch
    from iserror.packs._google_api_core import google_api_core as google_api_core
    from iserror.packs._grpc import grpc as grpc
    from iserror.packs._httpx import httpx as httpx
    from iserror.packs._kubernetes import kubernetes as kubernetes
    from iserror.packs._opensearch import opensearch as opensearch
    from iserror.packs.pack import Pack

# Pack -> its module here, and the one that tells whether its library is installed; "" for what Python brings. Where two
# know a class, the first counts.
_PACKS: Final = {
    "azure_core": ("_azure_core", "azure.core"),
    "botocore": ("_botocore", "botocore"),
    "elasticsearch": ("_elasticsearch", "elastic_transport"),
    "google_api_core": ("_google_api_core", "google.api_core"),
    "grpc": ("_grpc", "grpc"),
    "httpx": ("_httpx", "httpx"),
    "kubernetes": ("_kubernetes", "kubernetes"),
    "opensearch": ("_opensearch", "opensearchpy"),
}

__all__ = ["detect"]


def detect() -> tuple[Pack, ...]:
    """Return the packs of the libraries that are installed, and of what Python brings; none of them is imported."""
    found = (name for name, (_, library) in _PACKS.items() if not library or attempt(find_spec, None, library))
    return tuple(map(_load, found))


def _load(name: str) -> Pack:
    pack: Pack = getattr(import_module(f"iserror.packs.{_PACKS[name][0]}"), name)
    return pack


def __getattr__(name: str) -> object:
    if name not in _PACKS:
        raise AttributeError(f"module 'iserror.packs' has no attribute {name!r}")
    pack = globals()[name] = _load(name)
    return pack


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKS})
