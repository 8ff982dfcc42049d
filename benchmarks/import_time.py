"""What importing all of `iserror` takes once its dependencies are imported, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys

import timing

CODE = """
{before}
import time
start = time.process_time()
from iserror import *
print(time.process_time() - start)
"""

# All three load most of themselves at first use.
DEPENDENCIES = """
import anyio.from_thread, structlog
from pydantic import BaseModel
anyio.Event, anyio.create_task_group
type("Model", (BaseModel,), {})
"""
BEFORE = {"pydantic, structlog, anyio": DEPENDENCIES, "these and mcp": f"{DEPENDENCIES}import mcp"}


def measure(quick: bool) -> list[timing.Row]:
    rows = []
    for what, before in BEFORE.items():
        command = [sys.executable, "-c", CODE.format(before=before)]
        runs = [
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(3 if quick else 16)
        ][1:]  # the first one may write bytecode
        rows.append(
            {"imported before": what, "median, ms": statistics.median(runs) * 1e3, "least, ms": min(runs) * 1e3}
        )
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__)
