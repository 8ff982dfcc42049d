"""Packs: what the exceptions of well-known libraries mean, for `ErrorMap.include`.

A pack names classes by their dotted names, so it imports no library. The pack's own module is loaded when an exception
is looked up that the pack may know.

The modules import each other in this order: `codes` and the other helpers, the tables of HTTP clients (`_stdlib`,
`_httpx`, ...), `cause`, which reads these tables, the tables of SDKs, `listed`, and this module.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from iserror.packs.listed import ListedPack
from iserror.support.look import look

if TYPE_CHECKING:
    from iserror.errors.pack import Pack
    from iserror.packs._aiohttp import aiohttp as aiohttp
    from iserror.packs._anthropic import anthropic as anthropic
    from iserror.packs._anyio import anyio as anyio
    from iserror.packs._azure_core import azure_core as azure_core
    from iserror.packs._botocore import botocore as botocore
    from iserror.packs._elasticsearch import elasticsearch as elasticsearch
    from iserror.packs._github import github as github
    from iserror.packs._github import githubkit as githubkit
    from iserror.packs._google_api_core import google_api_core as google_api_core
    from iserror.packs._grpc import grpc as grpc
    from iserror.packs._httpx import httpx as httpx
    from iserror.packs._httpx import httpx2 as httpx2
    from iserror.packs._kubernetes import kubernetes as kubernetes
    from iserror.packs._openai import openai as openai
    from iserror.packs._opensearch import opensearch as opensearch
    from iserror.packs._postgres import asyncpg as asyncpg
    from iserror.packs._postgres import psycopg as psycopg
    from iserror.packs._pydantic import pydantic as pydantic
    from iserror.packs._pymongo import pymongo as pymongo
    from iserror.packs._pymysql import pymysql as pymysql
    from iserror.packs._redis import redis as redis
    from iserror.packs._redis import valkey as valkey
    from iserror.packs._requests import requests as requests
    from iserror.packs._requests import urllib3 as urllib3
    from iserror.packs._slack_sdk import slack_sdk as slack_sdk
    from iserror.packs._sqlalchemy import sqlalchemy as sqlalchemy
    from iserror.packs._sqlite3 import sqlite3 as sqlite3
    from iserror.packs._stdlib import stdlib as stdlib
    from iserror.packs._stripe import stripe as stripe

# Pack -> its module here, and the module that shows that its library is installed. That is "" for what Python brings,
# and None for a pack that an author has to name. If two packs know a class, the first counts.
_PACKS: Final[dict[str, tuple[str, str | None]]] = {
    "anthropic": ("_anthropic", "anthropic"),
    "github": ("_github", "github"),
    "githubkit": ("_github", "githubkit"),
    "openai": ("_openai", "openai"),
    "pydantic": ("_pydantic", None),
    "slack_sdk": ("_slack_sdk", "slack_sdk"),
    "stripe": ("_stripe", "stripe"),
    "httpx": ("_httpx", "httpx"),
    "httpx2": ("_httpx", "httpx2"),
    "requests": ("_requests", "requests"),
    "urllib3": ("_requests", "urllib3"),
    "redis": ("_redis", "redis"),
    "valkey": ("_redis", "valkey"),
    "pymongo": ("_pymongo", "pymongo"),
    "sqlalchemy": ("_sqlalchemy", "sqlalchemy"),
    "sqlite3": ("_sqlite3", ""),
    "psycopg": ("_postgres", "psycopg"),
    "asyncpg": ("_postgres", "asyncpg"),
    "pymysql": ("_pymysql", "pymysql"),
    "azure_core": ("_azure_core", "azure.core"),
    "botocore": ("_botocore", "botocore"),
    "elasticsearch": ("_elasticsearch", "elastic_transport"),
    "google_api_core": ("_google_api_core", "google.api_core"),
    "grpc": ("_grpc", "grpc"),
    "kubernetes": ("_kubernetes", "kubernetes"),
    "opensearch": ("_opensearch", "opensearchpy"),
    "aiohttp": ("_aiohttp", "aiohttp"),
    "anyio": ("_anyio", "anyio"),
    "stdlib": ("_stdlib", ""),
}

# The packages that define a pack's classes, if these aren't the library alone.
_ROOTS: Final[dict[str, str]] = {
    "aiohttp": "aiohttp asyncio builtins",
    "elasticsearch": "elasticsearch elastic_transport",
    "psycopg": "psycopg psycopg_pool",
    "pydantic": "pydantic pydantic_core",
    "pymongo": "pymongo bson",
    "sqlite3": "sqlite3",
    "stdlib": "asyncio builtins concurrent http json socket ssl subprocess urllib",
}

__all__ = ["detect"]


def detect() -> tuple[Pack, ...]:
    """Return the packs of installed libraries and of what Python brings. No library is imported."""
    found = (
        name
        for name, (_, library) in _PACKS.items()
        if library is not None and (not library or look(find_spec, None, library))
    )
    return tuple(map(_pack, found))


def named_by(exception: str) -> str:
    """Return the name of the pack that knows a class by its full name; empty if none does."""
    packs = map(_pack, _PACKS)
    return next((pack.name for pack in packs if pack.may_know(exception) and exception in pack.rows), "")


def _pack(name: str) -> Pack:
    known: Pack | None = globals().get(name)
    if known is None:
        module, library = _PACKS[name]
        roots = _ROOTS.get(name) or (library or name).partition(".")[0]
        known = globals()[name] = ListedPack(name, module, frozenset(roots.split()))
    return known


def __getattr__(name: str) -> object:
    if name not in _PACKS:
        raise AttributeError(f"module 'iserror.packs' has no attribute {name!r}")
    return _pack(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKS})
