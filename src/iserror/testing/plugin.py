"""The pytest plugin: fixtures, and the checks of the servers that the configuration names.

pytest loads the plugin in every suite where the library is installed. So it imports modules when it needs them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from iserror.check.notes import Audit
    from iserror.client import CallOutcome

_NOT_CHECKED: Final = "iserror_not_checked"

_HOW: Final = "iserror_probe or iserror_probe_all"

# These checks need a stream of bytes, which a server in memory lacks.
_OF_STREAMS: Final = ("channels.malformed_json", "stdout.noise")


# --- fixtures ------------------------------------------------------------------------------------------------


@pytest.fixture
def call_tool() -> Iterator[Callable[..., CallOutcome]]:
    """Call a tool of a server in memory, in a plain test: `call_tool(server, tool, arguments=None, *, meta=None)`.

    It always returns a `CallOutcome`. Each call has its own connection; all calls of a test share one event loop. In
    an async test use `iserror.testing.connect`.
    """
    from iserror.testing.client import caller

    with caller() as call:
        yield call


@pytest.fixture
def captured_failures() -> Iterator[list[dict[str, Any]]]:
    """Collect the log records of failures in this test, as dicts, in the order in which they were logged.

    These are the library's own lines of level warning and above. They still go to the configured log, too.
    """
    from iserror.logs.chain import State

    before, State.captured = State.captured, []
    yield State.captured
    State.captured = before


# --- the servers that the configuration names ----------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    parser.addini(
        "iserror_servers", "servers to check, as module:object or file.py:object", type="linelist", default=[]
    )
    parser.addini("iserror_calls", "tools that the checks call, as TOOL={JSON arguments}", type="linelist", default=[])
    parser.addini(
        "iserror_probe",
        "tools whose bodies can't be replaced, to send arguments that their schemas forbid; a server that "
        "doesn't validate arguments runs them",
        type="linelist",
        default=[],
    )
    parser.addini(
        "iserror_probe_all",
        "send all such tools bad arguments; a server that doesn't validate arguments runs its tools",
        type="bool",
        default=False,
    )
    parser.addini("iserror_baseline", "file of findings that are accepted", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Add the checks to the tests, unless the user names single files or tests."""
    config.addinivalue_line("markers", "iserror: checks of the servers that iserror_servers names")
    if not config.getini("iserror_servers"):
        return
    if config.inipath is None:
        raise pytest.UsageError(
            "iserror_servers needs a configuration file: set it in pytest.ini, pyproject.toml, tox.ini or setup.cfg"
        )
    places = [Path(config.invocation_params.dir, argument).resolve() for argument in config.args]
    # pytest finds the file by itself in a folder that the user names.
    if all(map(Path.is_dir, places)) and not set(places) & set(config.inipath.parents):
        config.args.append(str(config.inipath))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the checks from the file that names the servers."""
    if file_path == parent.config.inipath and parent.config.getini("iserror_servers"):
        return Servers.from_parent(parent, path=file_path)
    return None


class Servers(pytest.File):
    """The configuration file."""

    def collect(self) -> Iterable[pytest.Collector]:
        """Yield a collector for each server."""
        from iserror.check import baseline, target

        named = self.config.getini("iserror_baseline")
        try:
            calls = tuple(map(target.call, self.config.getini("iserror_calls")))
            accepted = baseline.read(self.path.parent / named) if named else set()
        except (ValueError, OSError) as exc:
            raise self.CollectError(f"iserror_calls or iserror_baseline: {exc}") from None
        probe = tuple(self.config.getini("iserror_probe"))
        probe_all = self.config.getini("iserror_probe_all")
        for name in dict.fromkeys(self.config.getini("iserror_servers")):
            yield Server.from_parent(self, name=name, calls=calls, accepted=accepted, probe=probe, probe_all=probe_all)


class Server(pytest.Collector):
    """One server. It is checked once, when its first item runs."""

    def __init__(
        self,
        *,
        calls: tuple[tuple[str, Mapping[str, Any]], ...],
        accepted: set[tuple[str, str, str]],
        probe: tuple[str, ...],
        probe_all: bool,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.calls = calls
        self.accepted = accepted
        self.probe = probe
        self.probe_all = probe_all
        self.done: Audit | None = None
        self.tried = False

    def collect(self) -> Iterable[pytest.Item]:
        """Yield an item for each check that can find something."""
        from iserror.check.finding import CHECKS

        left_out = ("inject.",) if self.calls else ("inject.", "results.")
        for check in CHECKS:
            if check not in _OF_STREAMS and not check.startswith(left_out):
                yield ServerCheck.from_parent(self, name=check)

    def audit(self) -> Audit:
        """Return the findings for this server. If it cannot be checked, one item fails and the others skip."""
        if self.done is None:
            if self.tried:
                pytest.skip(f"{self.name} could not be checked")
            self.tried = True
            self.done = self._audit()
        return self.done

    def _audit(self) -> Audit:
        from iserror.check import audit, target
        from iserror.check.checks.arguments import NO_SUCH_PROBE
        from iserror.check.checks.results import NO_SUCH_TOOL
        from iserror.check.connection import CannotRunError
        from iserror.check.notes import CheckOptions

        wrong = ""
        try:
            with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning raised as an error would become a tool's answer
                patch.chdir(self.path.parent)
                patch.setattr(sys, "path", [*sys.path])
                what = target.parse(self.name)
                if what.kind != "memory":
                    raise CannotRunError(f"{self.name} is not in memory: use module:object or file.py:object")
                done = audit.check(what, CheckOptions(calls=self.calls, probe=self.probe, probe_all=self.probe_all))
            for setting, why in (("iserror_calls", NO_SUCH_TOOL), ("iserror_probe", NO_SUCH_PROBE)):
                missing = done.skipped.get(why)
                if missing and len(self.config.getini("iserror_servers")) == 1:
                    wrong = wrong or f"{setting}: {self.name} has no tool {', '.join(missing)}"
        except CannotRunError as exc:
            wrong = str(exc)
        if wrong:
            pytest.fail(wrong, pytrace=False)
        return done


class ServerCheck(pytest.Item):
    """One check of one server."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.add_marker("iserror")
        if self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(self._server.name))

    @property
    def _server(self) -> Server:
        assert isinstance(self.parent, Server)
        return self.parent

    def runtest(self) -> None:
        """Fail with the findings; skip if no tool could show any."""
        from iserror.check import output
        from iserror.check.finding import needs_probes

        server = self._server
        first = not server.tried
        done = server.audit()
        if first:
            self.user_properties += [(_NOT_CHECKED, line) for line in _not_checked(server.name, done)]
        findings = [
            finding
            for finding in done.found.values()
            if finding.check == self.name and finding.key not in server.accepted
        ]
        if findings:
            lines = []
            for finding in findings:
                some = "" if list(finding.revisions) == done.revisions else f" [{', '.join(finding.revisions)}]"
                lines.append(f"{finding.tool or server.name}: {finding.seen}{some}")
            pytest.fail("\n".join([*lines, findings[0].remedy, findings[0].source]), pytrace=False)
        if needs_probes(self.name) and not done.probed:
            pytest.skip(output.unprobed_because(done.skipped, _HOW) or output.NOTHING_PROBED)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the file and the name of the check."""
        return self.path, None, f"{self._server.name} {self.name}"


def _not_checked(server: str, done: Audit) -> Iterator[str]:
    """Yield a line for each reason why something wasn't checked."""
    from iserror.check import output

    for why, tools in done.skipped.items():
        text = output.unprobed_because({why: tools}, _HOW).removeprefix("not checked: ")
        yield f"{server}: {text or f'{why}: ' + ', '.join(tools)}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what the checks left out."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    properties = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    lines = dict.fromkeys(value for name, value in properties if name == _NOT_CHECKED)
    if lines:
        terminalreporter.section("iserror: not checked")
        for line in lines:
            terminalreporter.line(line)
