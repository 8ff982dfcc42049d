"""What a check found, as a table, JSON, SARIF, JUnit or GitHub's annotations.

All but JSON and the annotations need the extra `iserror[check]`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from iserror.check.finding import CHECKS, UNPROBED, Finding, needs_probes


@dataclass(frozen=True)
class Outcome:
    """A finished check.

    Args:
        target: Its name, for a person.
        path: The source file that it was loaded from, as it was given; None of other targets.
        revisions: Those that the server speaks, newest first.
        tools: How many it lists.
        findings: Those that no baseline accepts.
        known: How many a baseline accepts.
        skipped: What was not checked: why, and of which tools.
        probed: Whether any tool got bad arguments.
    """

    target: str
    path: str | None
    revisions: Sequence[str]
    tools: int
    findings: Sequence[Finding]
    known: int
    skipped: Mapping[str, Sequence[str]]
    probed: bool = True

    @property
    def unprobed(self) -> Sequence[str]:
        """The tools that got no bad arguments, since they might run."""
        return self.skipped.get(UNPROBED, ())


_NEEDS: Final = {"table": "rich", "sarif": "sarif_pydantic", "junit": "junitparser"}


def renderer(form: str) -> Callable[[Outcome, int, bool], str]:
    """The function that renders a form: `(outcome, columns, with colour) -> text`.

    Raises:
        ImportError: The library that it needs is missing.
    """
    if form in _NEEDS:
        try:
            import_module(_NEEDS[form])
        except ImportError:
            raise ImportError(
                f"this output needs {_NEEDS[form].replace('_', '-')}: pip install 'iserror[check]', or use --json"
            ) from None
    return {"table": _table, "json": _json, "sarif": _sarif, "junit": _junit, "github": _github}[form]


def _summary(outcome: Outcome) -> str:
    errors = sum(finding.severity == "error" for finding in outcome.findings)
    warnings = len(outcome.findings) - errors
    known = f", {outcome.known} known" if outcome.known else ""
    return (
        f"{errors} errors, {warnings} warnings{known}; tools: {outcome.tools}; "
        f"revisions: {', '.join(outcome.revisions) or 'none'}"
    )


def unprobed(count: int, how: str = "--probe TOOL or --probe-all") -> str:
    """Say in one line how many tools weren't probed, and how to probe them."""
    tools = "tool" if count == 1 else "tools"
    return f"not probed with bad arguments: {count:,} {tools} not annotated readOnlyHint (use {how})"


def _table(outcome: Outcome, columns: int, colour: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    console = Console(file=file, width=columns, force_terminal=colour, highlight=False)
    if outcome.findings:
        table = Table(title=Text(f"iserror check {outcome.target}"), title_justify="left", show_lines=True)
        table.add_column("check", overflow="fold")
        table.add_column("tool", overflow="fold")
        table.add_column("seen", overflow="fold", ratio=1)
        alike: dict[tuple[str, str, tuple[str, ...]], list[Finding]] = {}
        for finding in outcome.findings:
            alike.setdefault((finding.check, finding.where, finding.revisions), []).append(finding)
        for first, *rest in alike.values():
            more = f" (and alike in {len(rest)} more)" if rest else ""
            table.add_row(
                Text(first.check, style="red" if first.severity == "error" else "yellow"),
                Text("\n".join(finding.tool for finding in (first, *rest))),
                Text(first.seen + more + _in_some(first, outcome)),
            )
        console.print(table)
        for check in dict.fromkeys(finding.check for finding in outcome.findings):
            console.print(Text.assemble((check, "bold"), f": {CHECKS[check].remedy}"), soft_wrap=True)
            console.print(Text(f"  {CHECKS[check].source}"), soft_wrap=True)
    for why, tools in outcome.skipped.items():
        line = unprobed(len(tools)) if why == UNPROBED else f"not checked: {why}: {', '.join(tools)}"
        console.print(Text(line), soft_wrap=True)
    console.print(Text(_summary(outcome)), soft_wrap=True)
    return file.getvalue()


def _in_some(finding: Finding, outcome: Outcome) -> str:
    seen = finding.revisions
    return "" if not seen or list(seen) == list(outcome.revisions) else f" [{', '.join(seen)}]"


def _json(outcome: Outcome, columns: int, colour: bool) -> str:
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
        for finding in outcome.findings
    ]
    document = {
        "schema_version": 1,
        "target": outcome.target,
        "revisions": list(outcome.revisions),
        "tools": outcome.tools,
        "findings": findings,
        "known": outcome.known,
        "not_checked": {why: list(tools) for why, tools in outcome.skipped.items()},
        "not_probed": len(outcome.unprobed),
    }
    return json.dumps(document, ensure_ascii=True) + "\n"


def _named(finding: Finding) -> str:
    return f"{finding.tool}: {finding.seen}" if finding.tool else finding.seen


def _sarif(outcome: Outcome, columns: int, colour: bool) -> str:
    from sarif_pydantic import Level, Result, Run, Sarif, Tool, ToolDriver

    from iserror import __version__

    rules = [
        {
            "id": check,
            "shortDescription": {"text": known.reason},
            "help": {"text": known.remedy},
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
                "locations": [_location(outcome, finding)],
                "partialFingerprints": {"iserror/v1": hashlib.sha256("\0".join(finding.key).encode()).hexdigest()},
            }
        )
        for finding in outcome.findings
    ]
    driver = ToolDriver.model_validate({"name": "iserror check", "version": __version__, "rules": rules})
    sarif = Sarif(version="2.1.0", runs=[Run(tool=Tool(driver=driver), results=results)])
    document = sarif.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The library's model of an invocation has no notifications.
    document["runs"][0]["invocations"] = [
        {"executionSuccessful": True, "toolExecutionNotifications": list(_notifications(outcome))}
    ]
    return json.dumps(document, ensure_ascii=True, indent=2) + "\n"


def _notifications(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Yield a note for each thing that wasn't checked, the count of tools that weren't probed first."""
    if outcome.unprobed:
        yield {"level": "note", "message": {"text": unprobed(len(outcome.unprobed))}}
    for why, tools in outcome.skipped.items():
        for tool in tools:
            yield {
                "level": "note",
                "message": {"text": f"{tool}: not checked: {why}"},
                "locations": [{"logicalLocations": [{"name": tool, "kind": "function"}]}],
            }


def _location(outcome: Outcome, finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"name": finding.tool or outcome.target, "kind": "function"}]}
    if outcome.path is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": outcome.path}, "region": {"startLine": 1}}
    return location


def _junit(outcome: Outcome, columns: int, colour: bool) -> str:
    """Write a case for each finding, each check that found nothing, and each thing that wasn't checked."""
    from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

    suite = TestSuite(f"iserror check {outcome.target}")
    found = {finding.check for finding in outcome.findings}
    for check in CHECKS:
        if check not in found:
            case = TestCase(check, classname=outcome.target)
            if needs_probes(check) and outcome.unprobed and not outcome.probed:
                case.result = [Skipped(unprobed(len(outcome.unprobed)))]
            suite.add_testcase(case)
    for finding in outcome.findings:
        name = " ".join(part for part in finding.key if part)
        case = TestCase(name, classname=outcome.target)
        failure = Failure(finding.seen, finding.severity)
        failure.text = f"{finding.remedy}\n{finding.source}"
        case.result = [failure]
        suite.add_testcase(case)
    for why, tools in outcome.skipped.items():
        for tool in tools:
            case = TestCase(f"not checked {tool}", classname=outcome.target)
            case.result = [Skipped(why)]
            suite.add_testcase(case)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    written: Any = xml.tostring()  # bytes in some versions
    return str(written.decode() if isinstance(written, bytes) else written) + "\n"


def _github(outcome: Outcome, columns: int, colour: bool) -> str:
    """GitHub's workflow commands."""
    lines = []
    for finding in outcome.findings:
        place = f"file={_escaped(outcome.path)}," if outcome.path is not None else ""
        title = _escaped(f"iserror {finding.check}")
        text = f"{_named(finding)}. {finding.remedy} {finding.source}".replace("%", "%25")
        lines.append(f"::{finding.severity} {place}title={title}::{text}\n")
    if outcome.unprobed:
        lines.append(f"::notice title=iserror check::{unprobed(len(outcome.unprobed))}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
