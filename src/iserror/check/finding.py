"""What a check looks for, why, and what it found.

`CHECKS` is the one table: the documentation's and the rules of SARIF come from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]

UNPROBED: Final = (
    "arguments, since the tool isn't annotated readOnlyHint and might run: probe it with --probe TOOL or --probe-all"
)
"""Why a tool got no bad arguments: a server that doesn't validate them would run it."""

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"
_TOOLS: Final = "2025-11-25/server/tools#error-handling"
_OUTPUT: Final = "2025-11-25/server/tools#output-schema"
_SECURITY: Final = "2025-11-25/server/tools#security-considerations"
_MESSAGES: Final = "2025-11-25/basic#messages"
_LIFECYCLE: Final = "2025-11-25/basic/lifecycle#initialization"
_STDIO: Final = "2025-11-25/basic/transports#stdio"


@dataclass(frozen=True)
class Check:
    """One thing that is looked for: why it is a fault, what mends it, and where the rule stands."""

    severity: Severity
    reason: str
    remedy: str
    section: str
    """Page and section below `SPECIFICATION`."""

    @property
    def source(self) -> str:
        """The address of the section."""
        return SPECIFICATION + self.section


CHECKS: Final[Mapping[str, Check]] = {
    # --- channels: who can mend it decides where it goes
    "channels.unknown_tool": Check(
        "error",
        "An unknown tool is the host's mistake; as a result it invites the model to guess further names.",
        "Answer with JSON-RPC error -32602; `guard.attach(server)` does.",
        _TOOLS,
    ),
    "channels.missing_name": Check(
        "error",
        "A `tools/call` without a name is malformed; the host has to mend it.",
        "Answer with JSON-RPC error -32602.",
        _TOOLS,
    ),
    "channels.arguments_type": Check(
        "error",
        "A `tools/call` whose `arguments` are no object is malformed; the host has to mend it.",
        "Answer with JSON-RPC error -32602.",
        _TOOLS,
    ),
    "channels.unknown_method": Check(
        "error",
        "A client that probes for a method needs to hear that there is none.",
        "Answer with JSON-RPC error -32601 (the 1.x SDK's own answer, -32602, counts too).",
        _MESSAGES,
    ),
    "channels.malformed_json": Check(
        "error",
        "What is no JSON must neither be answered with a result nor end the connection.",
        "Answer with JSON-RPC error -32700 or, on stdio, not at all; over HTTP with status 400.",
        _MESSAGES,
    ),
    "channels.before_initialize": Check(
        "warning",
        "Before initialization no revision is in force, so nothing says which channel an error takes.",
        "Refuse every request but `initialize` and `ping` with a JSON-RPC error.",
        _LIFECYCLE,
    ),
    "channels.broken_answer": Check(
        "error",
        "An answer that fits no schema is thrown away by the client, as an exception that ends the agent's run.",
        "Send one JSON-RPC response with either a result or an error, as the schema has it.",
        _MESSAGES,
    ),
    # --- arguments: only calls that the input schema forbids
    "arguments.channel": Check(
        "error",
        "From 2025-11-25 on bad arguments are a result, which the model can mend; before, JSON-RPC error -32602.",
        "Follow the revision in force; `guard.attach(server)` does.",
        _TOOLS,
    ),
    "arguments.echo": Check(
        "error",
        "A rejected value may be a user's secret, and comes back into texts and logs.",
        "Name the field and the broken rule, never the value; `guard.attach(server)` does.",
        _SECURITY,
    ),
    "arguments.accepted": Check(
        "error",
        "Arguments that break the input schema were not refused: the tool's body met values that it does not expect.",
        "Validate arguments against the input schema before the tool runs.",
        _SECURITY,
    ),
    # --- results: of tools that were called on purpose
    "results.error_shaped_success": Check(
        "error",
        "A text that reads like a failure with `isError` false makes an agent go on as if it had succeeded.",
        "Raise instead of returning; or `ToolErrors(returned_errors='convert')`.",
        _TOOLS,
    ),
    "results.output_schema": Check(
        "error",
        "Clients validate `structuredContent` against the output schema, of errors too, and throw.",
        "Leave it out of errors; return what the schema says. `guard.attach(server)` does and checks.",
        _OUTPUT,
    ),
    "results.exception_text": Check(
        "error",
        "An exception's own text reached the model: of a crash, or of a protocol error that lost its code "
        "(on `mcp`, a deliberate `ToolError` looks the same).",
        "Map known exceptions to safe messages and withhold the rest; `guard.attach(server)` does.",
        _SECURITY,
    ),
    "results.validator_text": Check(
        "error",
        "A validator's words reached the model: a returned error was checked as if it were a success, or values show.",
        "Check successes only, and say what broke without the value; `guard.attach(server)` does.",
        _OUTPUT,
    ),
    "results.empty_text": Check(
        "error",
        "An error without a text tells the model nothing, and some clients show nothing at all.",
        "Say what was observed and what can be changed.",
        _TOOLS,
    ),
    "results.oversized": Check(
        "warning",
        "An error of more than 2,000 characters fills the context and hides what matters.",
        "Cut it; details belong into the log.",
        _TOOLS,
    ),
    "results.undecodable": Check(
        "error",
        "Text that is no valid UTF-8 (a lone surrogate will do) ends stdio sessions and breaks clients.",
        "Replace what cannot be encoded before it is sent; `guard.attach(server)` does for errors.",
        _STDIO,
    ),
    # --- leaks: in everything that was received
    "leaks.secret": Check(
        "error",
        "What looks like a credential was sent to the client, and so to the model's provider.",
        "Do not put it into texts; `redact_text` finds what slips through.",
        _SECURITY,
    ),
    "leaks.insides": Check(
        "error",
        "An error shows the server's insides: paths, SQL, hosts, stack traces.",
        "Withhold exception texts; `guard.attach(server)` does.",
        _SECURITY,
    ),
    # --- inject: only with --inject, after a failure that the check made
    "inject.unguarded": Check(
        "error",
        "No guard runs when the tool is called, so that its failures go out as the host has them.",
        "`guard.attach(server)`, which takes in every tool, or `@guard` below the decorator that registers this one.",
        _TOOLS,
    ),
    "inject.channel": Check(
        "error",
        "A failure took another channel than its kind has, or a call was answered that its client had cancelled.",
        "Look for what stands between guard and client: a handler, or a guard's method, that was replaced.",
        _TOOLS,
    ),
    "inject.code": Check(
        "error",
        "The envelope is missing, or says something else than the map: code, category, outcome, whether to repeat.",
        "Look for what changes results behind the guard, and for another map than the one that was meant.",
        _TOOLS,
    ),
    "inject.text": Check(
        "error",
        "The text is not the envelope's, too long, or holds characters that hide text or end sessions.",
        "Leave the text of an error result as the guard made it.",
        _TOOLS,
    ),
    "inject.leak": Check(
        "error",
        "A secret that was planted in an exception came out: in the answer, or unredacted in the log.",
        "Take the attribute out of the map's `safe=`, and leave the redactor's rules in.",
        _SECURITY,
    ),
    "inject.log": Check(
        "error",
        "An operator who looks up the request id does not find one line with the whole traceback.",
        "Look for what takes lines or exceptions away between the guard and the log.",
        _SECURITY,
    ),
    "stdout.noise": Check(
        "error",
        "On stdio, stdout is the protocol: anything else there breaks clients.",
        "Print and log to stderr.",
        _STDIO,
    ),
    # --- session: the server stopped answering
    "session.timeout": Check(
        "error",
        "A request got no answer in time, so that the client waits and the agent stands still.",
        "Bound what tools wait for (`@guard(timeout=...)`), and answer every request.",
        "2025-11-25/basic/lifecycle#timeouts",
    ),
    "session.died": Check(
        "error",
        "The server ended, or closed the connection, while a request was open.",
        "Let no request end the process; `guard.attach(server)` holds what a tool raises, `SystemExit` too.",
        "2025-11-25/basic/lifecycle#shutdown",
    ),
    "session.flood": Check(
        "error",
        "One message was larger than any client should have to hold (16 MB).",
        "Bound what a tool returns; page lists.",
        "2025-11-25/server/utilities/pagination",
    ),
    "session.tools_list": Check(
        "error",
        "`tools/list` failed, never ended, or listed what is no tool, so that not every tool could be checked.",
        "Answer with tools as the schema has them, and with cursors that end.",
        "2025-11-25/server/tools#listing-tools",
    ),
    # --- coverage: what a guard does not see, of a server in memory
    "coverage.unguarded": Check(
        "error",
        "No guard sees what this tool raises, so that the model gets the host's words, and the log nothing.",
        "`guard.attach(server)`, or `@guard` directly above the function.",
        _TOOLS,
    ),
    "coverage.decorator_order": Check(
        "error",
        "`@guard` stands above the decorator that registers the tool, so that the host runs the bare function.",
        "Put `@guard` directly above the function, below the host's decorator, or `guard.attach(server)`.",
        _TOOLS,
    ),
    "coverage.output_type": Check(
        "error",
        "A value that cannot be made JSON reaches the model as Python's `repr`, or fails after the tool did its work.",
        "Return a pydantic model, a dataclass, a `TypedDict` or plain JSON values.",
        _OUTPUT,
    ),
    "coverage.unmapped_exception": Check(
        "warning",
        "The tool's module defines this exception, and the map does not know it: the model hears of an internal error.",
        "Add an entry that says what the model can do, or derive it from one that has an entry.",
        _TOOLS,
    ),
    "coverage.unraised_entry": Check(
        "warning",
        "Nothing can raise what this entry of the map names: a misspelt name, or a failure that is no longer there.",
        "Mend the name, or delete the entry.",
        _TOOLS,
    ),
}


@dataclass(frozen=True)
class Finding:
    """One fault of the server; nothing in it is a secret that was found."""

    check: str
    """The stable id, a key of `CHECKS`."""
    seen: str
    """What was sent and what came, for a person to confirm."""
    tool: str = ""
    where: str = ""
    """What tells it from others of this check and tool: the kind of a leak, the request that was open."""
    revisions: tuple[str, ...] = ()
    """The protocol revisions that it was seen in, newest first."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same finding in another run."""
        return self.check, self.tool, self.where

    @property
    def severity(self) -> Severity:
        """`error`, or `warning` where the specification only advises."""
        return CHECKS[self.check].severity

    @property
    def remedy(self) -> str:
        """What mends it."""
        return CHECKS[self.check].remedy

    @property
    def source(self) -> str:
        """The address of the rule."""
        return CHECKS[self.check].source


def needs_probes(check: str) -> bool:
    """Return True if only bad arguments can lead to a finding of this check."""
    return check.startswith("arguments.")


def may_come_of_a_probe(key: tuple[str, str, str], unprobed: Collection[str]) -> bool:
    """Return True if a finding may be missing only because these tools weren't probed.

    Args:
        key: The finding's key, as a baseline has it.
        unprobed: The tools that got no bad arguments.
    """
    check, tool, _ = key
    if not tool:  # A notification or a line on stdout belongs to no tool.
        return bool(unprobed) and check.startswith(("leaks.", "stdout."))
    of_a_call = ("arguments.", "leaks.", "session.", "channels.broken_answer", "results.undecodable")
    return tool in unprobed and check.startswith(of_a_call)
