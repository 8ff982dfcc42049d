"""The options of a check, and the notes that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from iserror.check.finding import Finding
from iserror.redact.speech import safe_line, safe_name


@dataclass(frozen=True)
class CheckOptions:
    """What a user asks for beyond the checks that run no tool."""

    timeout: float = 30.0
    """The timeout of each request, in seconds."""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Tools to call, with their arguments."""
    read_only: bool = False
    """Whether to call the tools that are annotated `readOnlyHint` as well."""
    inject: bool = False
    """Whether to inject faults instead, into a server in memory. `calls` only give arguments then; no body runs."""
    probe: tuple[str, ...] = ()
    """Tools that get bad arguments like those annotated `readOnlyHint`. A server that doesn't validate runs them."""
    probe_all: bool = False
    """Whether every tool gets bad arguments."""


@dataclass
class Audit:
    """What a check found so far."""

    found: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    """The findings by key."""
    skipped: dict[str, list[str]] = field(default_factory=dict)
    """What wasn't checked: the reason, and the tools."""
    revisions: list[str] = field(default_factory=list)
    """The protocol revisions that the server supports, newest first."""
    tools: int = 0
    """How many tools the server lists."""
    names: set[str] = field(default_factory=set)
    """The names of the tools that the server lists in any revision, as sent."""
    probed: set[str] = field(default_factory=set)
    """The tools that got bad arguments."""
    revision: str = ""
    """The negotiated revision."""
    broken: int = 0
    """How many connections broke."""
    accepting: set[str] = field(default_factory=set)
    """The tools that accepted bad arguments."""
    stopped: set[str] = field(default_factory=set)
    """The tools in whose calls the server stopped answering."""
    guarded: bool = False
    """Whether a guard is attached to the server, as far as its answers or the server object show."""
    knows_its_tools: bool = True
    """Whether the server has refused all calls of unknown tools so far."""

    def add(self, check: str, seen: str, tool: str = "", where: str = "") -> None:
        """Note a finding, or add the revision to the same finding in another revision."""
        tool, where = safe_name(tool), safe_line(where, 80, empty="")
        here = (self.revision,) if self.revision else ()
        known = self.found.get((check, tool, where))
        if known is None:
            self.found[check, tool, where] = Finding(check, safe_line(seen, 300), tool, where, here)
        elif not set(here) <= set(known.revisions):
            self.found[known.key] = replace(known, revisions=known.revisions + here)

    def skip(self, why: str, tool: str) -> None:
        """Note once that a tool wasn't checked, and why."""
        tools = self.skipped.setdefault(why, [])
        if (name := safe_name(tool)) not in tools:
            tools.append(name)
