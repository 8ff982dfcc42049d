"""A stdio server that logs to a folder of small files, so that it rotates and compresses all the time.

`python log_server.py FOLDER MAX_BYTES`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import structlog

from iserror import ToolErrors, configure_logging
from tests.helpers.hosts import IS_FASTMCP, new_server


def build(folder: str, max_bytes: str) -> Any:
    """The server; nothing is logged yet."""
    configure_logging(folder, max_bytes=int(max_bytes))
    server = new_server()
    ToolErrors().attach(server)

    @server.tool()
    def fail(number: int) -> str:
        structlog.get_logger().info("about to fail", number=number)
        raise RuntimeError(f"no such row: {number}")

    return server


def serve(server: Any) -> None:
    """Serve until stdin ends."""
    server.run(**({"show_banner": False} if IS_FASTMCP else {}))


if __name__ == "__main__":
    serve(build(*sys.argv[1:]))
