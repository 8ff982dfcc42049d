"""Run `iserror check`, and see what came of it."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.hosts import ROOT

Done = subprocess.CompletedProcess[str]


def process(*arguments: str) -> Done:
    """The command, as a process of its own."""
    command = [sys.executable, "-m", "iserror", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=190, cwd=ROOT)
