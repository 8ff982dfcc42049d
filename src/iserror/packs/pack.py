"""What a pack is made of, for packs by others: `Pack` and `By`."""

from __future__ import annotations

from iserror.errors.pack import By, Pack

__all__ = ["By", "Pack"]
