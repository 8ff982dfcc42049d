"""The `iserror` command."""

from __future__ import annotations

from iserror.cli.run import main

__all__ = ["main"]
