"""`iserror.packs.detect`: the packs of the libraries that are installed."""

from __future__ import annotations

import pytest

import iserror
import iserror.packs

PYTHONS_OWN = {"sqlite3", "stdlib"}


def detected() -> list[str]:
    """Return the names of the packs that `detect` finds."""
    return [pack.name for pack in iserror.packs.detect()]


def install(monkeypatch: pytest.MonkeyPatch, *libraries: str) -> None:
    """Let `detect` find these libraries and no others."""

    def find_spec(name: str) -> object:
        package, dot, _ = name.partition(".")
        if dot and package not in libraries:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return object() if name in libraries else None

    monkeypatch.setattr(iserror.packs, "find_spec", find_spec)


def test_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any library the packs of what Python brings are left."""
    install(monkeypatch)
    assert set(detected()) == PYTHONS_OWN


def test_some_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library has its pack, by the module that only this library has."""
    install(monkeypatch, "httpx", "google", "google.api_core", "azure")
    assert set(detected()) == {"httpx", "google_api_core", *PYTHONS_OWN}


def test_the_first_that_knows_a_class_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDKs stand before the HTTP clients below them, and these before what Python brings."""
    install(monkeypatch, "httpx", "openai", "aiohttp")
    assert detected() == ["openai", "httpx", "sqlite3", "aiohttp", "stdlib"]


def test_what_is_detected_is_included() -> None:
    """What `detect` returns goes into a map, and means something there."""
    errors = iserror.ErrorMap()
    errors.include(*iserror.packs.detect())
    entry = errors.find(FileNotFoundError(2, "no such file"))
    assert entry is not None
    assert entry.code == "NOT_FOUND"
    assert PYTHONS_OWN <= errors.packs.keys()
