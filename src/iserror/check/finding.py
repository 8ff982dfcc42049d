"""The checks with their reasons, and what a check found.

The table in the documentation and the rules in SARIF are copies of `CHECKS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]

UNPROBED: Final = (
    "arguments, since the tool isn't annotated readOnlyHint and might run: probe it with --probe TOOL or --probe-all"
)
"""Why a tool got no bad arguments: a server that doesn't validate them would run the tool."""

UNREPLACED: Final = "arguments, since its body can't be replaced (a proxy, or made for each call) and might run"
"""Why a tool of a server in memory got no bad arguments."""

OWN_RUN: Final = "arguments, since only its own run method can refuse them, and that doesn't run (OpenAPI, a proxy)"
"""Why it isn't known whether a tool of a server in memory refuses bad arguments."""

NOT_PROBED: Final = (UNPROBED, UNREPLACED, OWN_RUN)
"""The reasons that `--probe` overrules."""

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification/"
_TOOLS: Final = "2025-11-25/server/tools#error-handling"
_OUTPUT: Final = "2025-11-25/server/tools#output-schema"
_SECURITY: Final = "2025-11-25/server/tools#security-considerations"
_MESSAGES: Final = "2025-11-25/basic#messages"
_LIFECYCLE: Final = "2025-11-25/basic/lifecycle#initialization"
_STDIO: Final = "2025-11-25/basic/transports#stdio"


@dataclass(frozen=True)
class Check:
    """A rule that a server must follow."""

    severity: Severity
    reason: str
    """Why breaking the rule does harm."""
    remedy: str
    """How to fix it."""
    section: str
    """Page and section below `SPECIFICATION`."""
    guarded: str = ""
    """How to fix it on a server with an attached guard, where the remedy names `guard.attach`."""

    def remedy_on(self, *, guarded: bool) -> str:
        """Return how to fix it on a server with or without an attached guard."""
        return (guarded and self.guarded) or self.remedy

    @property
    def source(self) -> str:
        """The address of the section."""
        return SPECIFICATION + self.section


CHECKS: Final[Mapping[str, Check]] = {
    # --- channels: an error goes to whoever can fix it
    "channels.unknown_tool": Check(
        "error",
        "An unknown tool is the host's mistake. A result would invite the model to guess more names.",
        "Answer with JSON-RPC error -32602. `guard.attach(server)` does this.",
        _TOOLS,
        guarded="Look for `unknown_tool='result'` in the guard's settings, or a handler that answers before it.",
    ),
    "channels.missing_name": Check(
        "error",
        "A `tools/call` without a name is malformed. Only the host can fix it.",
        "Answer with JSON-RPC error -32602.",
        _TOOLS,
    ),
    "channels.arguments_type": Check(
        "error",
        "A `tools/call` whose `arguments` aren't an object is malformed. Only the host can fix it.",
        "Answer with JSON-RPC error -32602.",
        _TOOLS,
    ),
    "channels.unknown_method": Check(
        "error",
        "A client that tries a method must learn that the server doesn't have it.",
        "Answer with JSON-RPC error -32601 (the 1.x SDK's own answer, -32602, counts too).",
        _MESSAGES,
    ),
    "channels.malformed_json": Check(
        "error",
        "Malformed JSON must not get a result, and must not end the connection.",
        "Answer with JSON-RPC error -32700, or over HTTP with status 400. On stdio, no answer is fine too.",
        _MESSAGES,
    ),
    "channels.before_initialize": Check(
        "warning",
        "Before initialization there is no negotiated revision, so the channel of an error is undefined.",
        "Refuse every request except `initialize` and `ping` with a JSON-RPC error.",
        _LIFECYCLE,
    ),
    "channels.broken_answer": Check(
        "error",
        "A client rejects an answer that breaks the schema with an exception, which ends the agent's run.",
        "Send one JSON-RPC response with either a result or an error, as defined in the schema.",
        _MESSAGES,
    ),
    # --- arguments: only calls that the input schema forbids
    "arguments.channel": Check(
        "error",
        "Since 2025-11-25, bad arguments get a result, so that the model can fix them; before, JSON-RPC error -32602.",
        "Follow the negotiated revision. `guard.attach(server)` does this.",
        _TOOLS,
        guarded="Look for `invalid_arguments=` in the guard's settings, or a handler that answers before it.",
    ),
    "arguments.echo": Check(
        "error",
        "A rejected value may be a user's secret, and an error copies it into texts and logs.",
        "Name the field and the broken rule, never the value. `guard.attach(server)` does this.",
        _SECURITY,
        guarded="Look for the server's own code that repeats the value: a middleware, or a `ToolFailure`.",
    ),
    "arguments.accepted": Check(
        "error",
        "The server accepted arguments that break the input schema, so the tool ran with values it doesn't expect.",
        "Validate arguments against the input schema before the tool runs.",
        _SECURITY,
    ),
    # --- results: answers of tools that the user asks to call
    "results.error_shaped_success": Check(
        "error",
        "A result that reads like a failure, with `isError` false, makes an agent continue as after a success.",
        "Raise an exception instead of returning, or use `ToolErrors(returned_errors='convert')`.",
        _TOOLS,
    ),
    "results.output_schema": Check(
        "error",
        "Clients validate `structuredContent` against the output schema, even in errors, and raise.",
        "Leave it out of errors, and return what the schema declares. `guard.attach(server)` does both.",
        _OUTPUT,
        guarded="Return what the schema declares, and leave `structured='always'` out of the guard's settings.",
    ),
    "results.exception_text": Check(
        "error",
        "The text of an exception reached the model: from a crash, or from a protocol error that lost its code. "
        "On `mcp`, a deliberate `ToolError` looks the same.",
        "Map known exceptions to safe messages and withhold the rest. `guard.attach(server)` does this.",
        _SECURITY,
        guarded="Look for a middleware or handler that answers with an exception's text after the guard.",
    ),
    "results.validator_text": Check(
        "error",
        "The text of a validator reached the model. It may show values, or hide the error that the tool returned.",
        "Validate successes only, and name the broken rule without the value. `guard.attach(server)` does this.",
        _OUTPUT,
        guarded="Look for a middleware or handler that answers with a validator's text after the guard.",
    ),
    "results.empty_text": Check(
        "error",
        "An error without text tells the model nothing, and some clients show nothing at all.",
        "Say what went wrong and what to change.",
        _TOOLS,
    ),
    "results.oversized": Check(
        "warning",
        "An error of more than 2,000 characters fills the context and hides what matters.",
        "Shorten it. Details belong in the log.",
        _TOOLS,
    ),
    "results.undecodable": Check(
        "error",
        "Text that isn't valid UTF-8, such as a lone surrogate, ends stdio sessions and breaks clients.",
        "Replace what can't be encoded before sending it. `guard.attach(server)` does this for errors.",
        _STDIO,
        guarded="Replace what can't be encoded before the tool returns it.",
    ),
    # --- leaks: in everything that the server sends
    "leaks.secret": Check(
        "error",
        "The server sent what looks like a credential to the client, and so to the model's provider.",
        "Keep credentials out of texts. `redact_text` finds those that slip through.",
        _SECURITY,
    ),
    "leaks.insides": Check(
        "error",
        "An error shows the server's internals: paths, SQL, hosts, stack traces.",
        "Withhold exception texts. `guard.attach(server)` does this.",
        _SECURITY,
        guarded="Take them out of the author's own words: a `ToolFailure`, a map entry's message, or its `safe=`.",
    ),
    # --- inject: only with --inject, after an injected failure
    "inject.unguarded": Check(
        "error",
        "No guard runs when the tool is called, so the host sends its failures in its own way.",
        "Use `guard.attach(server)` for all tools, or `@guard` below the decorator that registers this tool.",
        _TOOLS,
        guarded="Look for code that calls the tool without the guard, such as a handler replaced after `attach`.",
    ),
    "inject.channel": Check(
        "error",
        "A failure took the wrong channel, or the server answered a call that the client had cancelled.",
        "Look for a replaced handler or guard method between the guard and the client.",
        _TOOLS,
    ),
    "inject.code": Check(
        "error",
        "The envelope is missing or contradicts the map: code, category, outcome, or whether to retry.",
        "Look for code that changes results after the guard, and for an unintended map.",
        _TOOLS,
    ),
    "inject.text": Check(
        "error",
        "The text differs from the envelope's, is too long, or has characters that hide text or end sessions.",
        "Don't change the text of an error result after the guard.",
        _TOOLS,
    ),
    "inject.template": Check(
        "error",
        "A template of the map reads an attribute that the exception lacks, so the model gets the text without it.",
        "Fix the name in the map's entry, or set the attribute in the exception's constructor.",
        _TOOLS,
    ),
    "inject.leak": Check(
        "error",
        "A secret planted in an exception leaked: into the answer, or unredacted into the log.",
        "Remove the attribute from the map's `safe=`, and keep the redaction rules.",
        _SECURITY,
    ),
    "inject.log": Check(
        "error",
        "An operator who looks up the request id doesn't find exactly one line with the whole traceback.",
        "Look for code that drops lines or exceptions between the guard and the log.",
        _SECURITY,
    ),
    "stdout.noise": Check(
        "error",
        "On stdio, stdout carries the protocol. Any other output there breaks clients.",
        "Print and log to stderr.",
        _STDIO,
    ),
    # --- session: the server stopped answering
    "session.timeout": Check(
        "error",
        "A request got no answer in time, so the client waits and the agent stalls.",
        "Limit how long tools wait (`@guard(timeout=...)`), and answer every request.",
        "2025-11-25/basic/lifecycle#timeouts",
    ),
    "session.died": Check(
        "error",
        "The server ended or closed the connection while a request was open.",
        "Don't let a request end the process. `guard.attach(server)` catches what a tool raises, even `SystemExit`.",
        "2025-11-25/basic/lifecycle#shutdown",
        guarded="Don't let a request end the process. Look for `os._exit`, a signal, or a crash in native code.",
    ),
    "session.flood": Check(
        "error",
        "One message was larger than a client should have to hold (16 MB).",
        "Limit what a tool returns, and paginate lists.",
        "2025-11-25/server/utilities/pagination",
    ),
    "session.tools_list": Check(
        "error",
        "`tools/list` failed, never ended or listed an invalid tool, so some tools couldn't be checked.",
        "Answer with tools as defined in the schema, and with cursors that end.",
        "2025-11-25/server/tools#listing-tools",
    ),
    # --- coverage: what a guard doesn't see, on a server in memory
    "coverage.unguarded": Check(
        "error",
        "No guard sees what this tool raises, so the model gets the host's text, and the log gets nothing.",
        "Use `guard.attach(server)`, or `@guard` directly above the function.",
        _TOOLS,
    ),
    "coverage.decorator_order": Check(
        "error",
        "`@guard` is above the decorator that registers the tool, so the host runs the function without it.",
        "Put `@guard` directly above the function, below the host's decorator, or use `guard.attach(server)`.",
        _TOOLS,
    ),
    "coverage.output_type": Check(
        "error",
        "A value that can't be serialized reaches the model as Python's `repr`, or fails after the tool did its work.",
        "Return a pydantic model, a dataclass, a `TypedDict` or plain JSON values.",
        _OUTPUT,
    ),
    "coverage.unmapped_exception": Check(
        "warning",
        "The tool's module defines or raises this exception without a map entry, so the model gets an internal error.",
        "Add an entry that says what the model can do, or derive the class from one that has an entry.",
        _TOOLS,
    ),
    "coverage.template_attribute": Check(
        "error",
        "A template of the map reads an attribute that the exception lacks, so the model gets the text without it.",
        "Fix the name in the map's entry, or set the attribute in the exception's constructor.",
        _TOOLS,
    ),
    "coverage.unraised_entry": Check(
        "warning",
        "Nothing can raise the exception of this map entry: the name is misspelled, or the failure no longer exists.",
        "Fix the name, or delete the entry.",
        _TOOLS,
    ),
}


@dataclass(frozen=True)
class Finding:
    """One fault of the server. It contains no secret that was found."""

    check: str
    """The stable id, a key of `CHECKS`."""
    seen: str
    """The request and the answer, for people to confirm."""
    tool: str = ""
    where: str = ""
    """What distinguishes findings of the same check and tool: the kind of a leak, or the open request."""
    revisions: tuple[str, ...] = ()
    """The protocol revisions that show it, newest first."""
    guarded: bool = False
    """Whether a guard is attached to the server."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the finding across runs."""
        return self.check, self.tool, self.where

    @property
    def severity(self) -> Severity:
        """`error`, or `warning` if the specification only recommends the rule."""
        return CHECKS[self.check].severity

    @property
    def remedy(self) -> str:
        """How to fix it on this server."""
        return CHECKS[self.check].remedy_on(guarded=self.guarded)

    @property
    def source(self) -> str:
        """The address of the rule."""
        return CHECKS[self.check].source


def needs_probes(check: str) -> bool:
    """Return True if only bad arguments can show a finding of this check."""
    return check.startswith("arguments.")


def unprobed_in(skipped: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tools that got no bad arguments, since they might run.

    Args:
        skipped: What wasn't checked: the reason, and the tools.
    """
    return list(dict.fromkeys(chain.from_iterable(skipped.get(why, ()) for why in NOT_PROBED)))


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
