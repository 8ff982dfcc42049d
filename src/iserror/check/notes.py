"""What a run is asked for, and what it has noted so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from iserror.check.finding import Finding
from iserror.redact.speech import safe_line, safe_name


@dataclass(frozen=True)
class Options:
    """What is asked for besides the checks that run no tool.

    Args:
        timeout: Seconds for each request.
        calls: Tools to call, with their arguments.
        read_only: Whether to call the tools that are annotated `readOnlyHint` too.
        probe: Tools to send bad arguments besides those annotated `readOnlyHint`. A server that doesn't validate
            arguments runs them.
        probe_all: Whether to send bad arguments to every tool.
        inject: Whether to inject faults instead, into a server in memory; `calls` are arguments then, no body runs.
    """

    timeout: float = 30.0
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    read_only: bool = False
    inject: bool = False
    probe: tuple[str, ...] = ()
    probe_all: bool = False


@dataclass
class Audit:
    """What a check found so far."""

    found: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """What was not checked: why, and of which tools."""
    revisions: list[str] = field(default_factory=list)
    """Those that the server speaks, newest first."""
    tools: int = 0
    names: set[str] = field(default_factory=set)
    """The tools that the server has listed in any revision, by their names as they came."""
    probed: set[str] = field(default_factory=set)
    """The tools that got bad arguments."""
    revision: str = ""
    """The one in force."""
    broken: int = 0
    """Connections that broke."""
    validates: bool = True
    """Whether the server has refused all arguments that it must."""
    knows_its_tools: bool = True
    """Whether the server has answered no call of an unknown tool with a success."""

    def add(self, check: str, seen: str, tool: str = "", where: str = "") -> None:
        """Note a finding; the same one in another revision is not another one."""
        tool, where = safe_name(tool), safe_line(where, 80, empty="")
        here = (self.revision,) if self.revision else ()
        finding = Finding(check, safe_line(seen, 300), tool, where, here)
        known = self.found.setdefault(finding.key, finding)
        if not set(here) <= set(known.revisions):
            self.found[finding.key] = replace(known, revisions=known.revisions + here)

    def skip(self, why: str, tool: str) -> None:
        """Say what of a tool was not checked, once."""
        tools = self.skipped.setdefault(why, [])
        if (name := safe_name(tool)) not in tools:
            tools.append(name)
