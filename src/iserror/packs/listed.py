"""`ListedPack`: a pack of this library, which loads its table when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from iserror.errors.entry import Entry
from iserror.errors.pack import By, Pack
from iserror.errors.vocabulary import Category
from iserror.packs.codes import VOCABULARY


class ListedPack(Pack):
    """A pack of this library. Its module is loaded when an exception is looked up that the pack may know.

    Args:
        name: The pack's name.
        module: The name of the module in `iserror.packs` that has the pack's table.
        roots: The packages that define the exceptions in the table.
    """

    def __init__(self, name: str, module: str, roots: frozenset[str]) -> None:
        self.name = name
        self._module = module
        self._roots = roots
        self._pack: Pack | None = None

    def _loaded(self) -> tuple[tuple[str, ...], Mapping[str, Entry | By]]:
        if self._pack is None:
            self._pack = getattr(import_module(f"iserror.packs.{self._module}"), self.name)
        return self._pack._loaded()

    def may_know(self, name: str) -> bool:
        return name.partition(".")[0] in self._roots

    def meanings(self) -> Mapping[str, Category]:
        """Return the whole vocabulary, so that including a pack doesn't load its table."""
        return {code: entry.category for code, entry in VOCABULARY.items()}
