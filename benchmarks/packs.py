"""What the packs cost: all of them included in a fresh process, and the look-up of an exception."""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys

import httpx
import timing

import iserror
from iserror.packs import _PACKS

INCLUDE = """
import time, iserror
errors = iserror.ErrorMap()
start = time.process_time()
from iserror import packs
errors.include(*{packs})
print(time.process_time() - start)
"""


class OwnError(Exception):
    pass


def raised(url: str, status: int | None = None) -> Exception:
    """A real exception of httpx."""
    try:
        if status is None:
            httpx.get(url, trust_env=False)
        httpx.Response(status or 0, request=httpx.Request("GET", url)).raise_for_status()
    except httpx.HTTPError as exc:
        return exc
    raise AssertionError("it did not fail")


def exceptions() -> dict[str, Exception]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    try:
        open("/no/such/file")  # noqa: SIM115 - it cannot be opened
    except OSError as exc:
        missing = exc
    return {
        "an entry of the map's own": OwnError(),
        "nothing knows it": ValueError(),
        "by class: httpx.ReadTimeout": httpx.ReadTimeout(""),
        "by errno: FileNotFoundError": missing,
        "by status: httpx, 503": raised(url, 503),
        "by traceback and causes: httpx, refused": raised(url),
    }


def measure(quick: bool) -> list[timing.Row]:
    rows: list[timing.Row] = []
    for what, packs in (
        (f"include all {len(_PACKS)} packs", "[getattr(packs, name) for name in packs._PACKS]"),
        ("include what detect() finds", "packs.detect()"),
    ):
        command = [sys.executable, "-c", INCLUDE.format(packs=packs)]
        runs = [
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(3 if quick else 16)
        ][1:]  # the first one may write bytecode
        rows.append({"what": what, "time, µs": statistics.median(runs) * 1e6})
    errors = iserror.ErrorMap()
    errors.add(OwnError, code="OWN", category="internal", message="Its own.")
    errors.include(*(getattr(iserror.packs, name) for name in _PACKS))
    found = exceptions()
    contenders = {name: timing.calls(errors.find, exc) for name, exc in found.items()}
    times = asyncio.run(timing.compare(contenders, rounds=5 if quick else 60, sizes=2_000))
    own = next(iter(found))
    return rows + [
        {"what": f"look up: {name}", "/ own entry": times.ratio(name, own), "time, µs": times.seconds(name) * 1e6}
        for name in found
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__)
