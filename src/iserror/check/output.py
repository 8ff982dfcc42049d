"""The findings of a check as a table, JSON, SARIF, JUnit or GitHub annotations.

Except for JSON and the annotations, they need the `iserror[check]` extra.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from iserror.check.finding import CHECKS, NOT_PROBED, UNPROBED, Finding, needs_probes, unprobed_in


@dataclass(frozen=True)
class FinishedCheck:
    """A finished check."""

    target: str
    """The name to show."""
    path: str | None
    """The source file of the server object, as given; None for other targets."""
    revisions: Sequence[str]
    """The protocol revisions that the server supports, newest first."""
    tools: int
    """How many tools the server lists."""
    findings: Sequence[Finding]
    """The findings that no baseline accepts."""
    known: int
    """How many findings a baseline accepts."""
    skipped: Mapping[str, Sequence[str]]
    """What wasn't checked: the reason, and the tools."""
    probed: bool = True
    """Whether any tool got bad arguments."""
    guarded: bool = False
    """Whether a guard is attached to the server."""

    @property
    def unprobed(self) -> Sequence[str]:
        """The tools that got no bad arguments, since they might run."""
        return unprobed_in(self.skipped)


_NEEDS: Final = {"table": "rich", "sarif": "sarif_pydantic", "junit": "junitparser"}


def renderer(form: str) -> Callable[[FinishedCheck, int, bool], str]:
    """Return the function that renders a form: `(done, columns, color) -> text`.

    Raises:
        ImportError: If the library that the form needs is missing.
    """
    if form in _NEEDS:
        try:
            import_module(_NEEDS[form])
        except ImportError:
            raise ImportError(
                f"this output needs {_NEEDS[form].replace('_', '-')}: pip install 'iserror[check]', or use --json"
            ) from None
    if form == "json":  # It is a baseline, too, which needs the names as they are.
        return _json
    render = {"table": _table, "sarif": _sarif, "junit": _junit, "github": _github}[form]
    return lambda done, columns, color: render(_cleaned(done), columns, color)


def _summary(done: FinishedCheck) -> str:
    errors = sum(finding.severity == "error" for finding in done.findings)
    warnings = len(done.findings) - errors
    known = f", {done.known} known" if done.known else ""
    return (
        f"{errors} errors, {warnings} warnings{known}; tools: {done.tools}; "
        f"revisions: {', '.join(done.revisions) or 'none'}"
    )


def unprobed(count: int, how: str = "--probe TOOL or --probe-all") -> str:
    """Say in one line how many tools weren't probed, and how to probe them."""
    tools = "tool" if count == 1 else "tools"
    return f"not probed with bad arguments: {count:,} {tools} not annotated readOnlyHint (use {how})"


def unprobed_because(skipped: Mapping[str, Sequence[str]], how: str = "--probe TOOL or --probe-all") -> str:
    """Say in one line why tools got no bad arguments, and how to probe them; empty if no tool might have run.

    Args:
        skipped: What wasn't checked: the reason, and the tools.
        how: The options or settings that probe a tool.
    """
    lines = [
        unprobed(len(tools), how) if why == UNPROBED else f"not checked: {why} (use {how}): {', '.join(tools)}"
        for why, tools in skipped.items()
        if why in NOT_PROBED
    ]
    return "; ".join(lines)


def not_checked(why: str, tools: Sequence[str]) -> str:
    """Say in one line what wasn't checked."""
    return unprobed_because({why: tools}) or f"not checked: {why}: {', '.join(tools)}"


NOTHING_PROBED: Final = "no tool got bad arguments"

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold (section 2.2), and other formats shouldn't: controls, lone surrogates, U+FFFE, U+FFFF."""


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _cleaned(done: FinishedCheck) -> FinishedCheck:
    """Return a check whose texts every format can hold, whatever the server said."""
    return replace(
        done,
        target=_clean(done.target),
        path=None if done.path is None else _clean(done.path),
        revisions=[_clean(revision) for revision in done.revisions],
        findings=[
            replace(
                finding,
                seen=_clean(finding.seen),
                tool=_clean(finding.tool),
                where=_clean(finding.where),
                revisions=tuple(map(_clean, finding.revisions)),
            )
            for finding in done.findings
        ],
        skipped={_clean(why): [_clean(tool) for tool in tools] for why, tools in done.skipped.items()},
    )


def _table(done: FinishedCheck, columns: int, color: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    console = Console(file=file, width=columns, force_terminal=color, highlight=False)
    if done.findings:
        table = Table(title=Text(f"iserror check {done.target}"), title_justify="left", show_lines=True)
        table.add_column("check", overflow="fold")
        table.add_column("tool", overflow="fold")
        table.add_column("seen", overflow="fold", ratio=1)
        alike: dict[tuple[str, str, tuple[str, ...]], list[Finding]] = {}
        for finding in done.findings:
            alike.setdefault((finding.check, finding.where, finding.revisions), []).append(finding)
        for first, *rest in alike.values():
            more = f" (and alike in {len(rest)} more)" if rest else ""
            table.add_row(
                Text(first.check, style="red" if first.severity == "error" else "yellow"),
                Text("\n".join(finding.tool for finding in (first, *rest))),
                Text(first.seen + more + _in_some(first, done)),
            )
        console.print(table)
        for check in dict.fromkeys(finding.check for finding in done.findings):
            remedy = CHECKS[check].remedy_on(guarded=done.guarded)
            console.print(Text.assemble((check, "bold"), f": {remedy}"), soft_wrap=True)
            console.print(Text(f"  {CHECKS[check].source}"), soft_wrap=True)
    for why, tools in done.skipped.items():
        console.print(Text(not_checked(why, tools)), soft_wrap=True)
    console.print(Text(_summary(done)), soft_wrap=True)
    return file.getvalue()


def _in_some(finding: Finding, done: FinishedCheck) -> str:
    seen = finding.revisions
    return "" if not seen or list(seen) == list(done.revisions) else f" [{', '.join(seen)}]"


def _json(done: FinishedCheck, columns: int, color: bool) -> str:
    findings = [
        {
            "check": finding.check,
            "severity": finding.severity,
            "tool": finding.tool,
            "where": finding.where,
            "seen": finding.seen,
            "revisions": list(finding.revisions),
            "remedy": finding.remedy,
            "source": finding.source,
        }
        for finding in done.findings
    ]
    document = {
        "schema_version": 1,
        "target": done.target,
        "revisions": list(done.revisions),
        "tools": done.tools,
        "findings": findings,
        "known": done.known,
        "not_checked": {why: list(tools) for why, tools in done.skipped.items()},
        "not_probed": len(done.unprobed),
    }
    return json.dumps(document, ensure_ascii=True) + "\n"


def _named(finding: Finding) -> str:
    return f"{finding.tool}: {finding.seen}" if finding.tool else finding.seen


def _sarif(done: FinishedCheck, columns: int, color: bool) -> str:
    from sarif_pydantic import Level, Result, Run, Sarif, Tool, ToolDriver

    from iserror import __version__

    rules = [
        {
            "id": check,
            "shortDescription": {"text": known.reason},
            "help": {"text": known.remedy_on(guarded=done.guarded)},
            "helpUri": known.source,
            "defaultConfiguration": {"level": known.severity},
        }
        for check, known in CHECKS.items()
    ]
    results = [
        Result.model_validate(
            {
                "ruleId": finding.check,
                "ruleIndex": list(CHECKS).index(finding.check),
                "level": Level(finding.severity),
                "message": {"text": _named(finding)},
                "locations": [_location(done, finding)],
                "partialFingerprints": {"iserror/v1": hashlib.sha256("\0".join(finding.key).encode()).hexdigest()},
            }
        )
        for finding in done.findings
    ]
    driver = ToolDriver.model_validate({"name": "iserror check", "version": __version__, "rules": rules})
    sarif = Sarif(version="2.1.0", runs=[Run(tool=Tool(driver=driver), results=results)])
    document = sarif.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The library's model of an invocation has no notifications.
    document["runs"][0]["invocations"] = [
        {"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(done))}
    ]
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _notifications(done: FinishedCheck) -> Iterator[dict[str, Any]]:
    """Yield a note for each thing that wasn't checked, the count of tools that weren't probed first."""
    if done.unprobed:
        yield {"level": "note", "message": {"text": unprobed_because(done.skipped)}}
    for why, tools in done.skipped.items():
        for tool in tools:
            yield {
                "level": "note",
                "message": {"text": f"{tool}: not checked: {why}"},
                "locations": [{"logicalLocations": [{"name": tool, "kind": "function"}]}],
            }


def _location(done: FinishedCheck, finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"name": finding.tool or done.target, "kind": "function"}]}
    if done.path is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": done.path}, "region": {"startLine": 1}}
    return location


def _junit(done: FinishedCheck, columns: int, color: bool) -> str:
    """Write a case for each finding, each check that found nothing, and each thing that wasn't checked."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    suite = TestSuite(f"iserror check {done.target}")
    found = {finding.check for finding in done.findings}
    for check in CHECKS:
        if check not in found:
            case = TestCase(check, classname=done.target)
            if needs_probes(check) and not done.probed:
                case.result = [Skipped(unprobed_because(done.skipped) or NOTHING_PROBED)]
            suite.add_testcase(case)
    for finding in done.findings:
        name = " ".join(part for part in finding.key if part)
        case = TestCase(name, classname=done.target)
        failure = Failure(finding.seen, finding.severity)
        failure.text = f"{finding.remedy}\n{finding.source}"
        case.result = [failure]
        suite.add_testcase(case)
    for why, tools in done.skipped.items():
        for tool in tools:
            case = TestCase(f"not checked {tool}", classname=done.target)
            case.result = [Skipped(why)]
            suite.add_testcase(case)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    written: Any = xml.tostring()  # Some versions return bytes.
    return str(written.decode() if isinstance(written, bytes) else written) + "\n"


def _github(done: FinishedCheck, columns: int, color: bool) -> str:
    """Write GitHub workflow commands."""
    lines = []
    for finding in done.findings:
        place = f"file={_escaped(done.path)}," if done.path is not None else ""
        title = _escaped(f"iserror {finding.check}")
        text = _on_one_line(f"{_named(finding)}. {finding.remedy} {finding.source}")
        lines.append(f"::{finding.severity} {place}title={title}::{text}\n")
    if done.unprobed:
        lines.append(f"::notice title=iserror check::{_on_one_line(unprobed_because(done.skipped))}\n")
    return "".join(lines)


def _on_one_line(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped(value: str) -> str:
    return _on_one_line(value).replace(":", "%3A").replace(",", "%2C")
