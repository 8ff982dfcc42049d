# ruff: noqa: E501 - a table
"""Values that tools return: errors in the manner of published servers, and harmless ones that a careless rule mistakes.

All of them are written for these tests. Families that differ in their words alone are made from lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

# --- errors, by family -------------------------------------------------------------------------------------------

_WHAT = [
    "no such key 'orders:7'",
    "Sheet 'Sales' not found",
    "the index is still being built",
    "limit must be at most 100",
    "Connection refused",
    "Token has expired",
    "[Errno 2] No such file or directory: 'report.docx'",
    'near "SELEC": syntax error',
    "404 Client Error: Not Found",
    "Pod web-1 is not in namespace default",
    "Read timed out after 30 s",
    "rate limit exceeded, retry in 20 s",
]

_GERUNDS = """getting retrieving reading writing executing fetching creating deleting updating parsing listing searching
converting connecting loading opening saving scanning pushing setting""".split()
_VERBS = """connect create get read write open parse delete update list search execute load save send retrieve start
convert initialize find""".split()
_OBJECTS = [
    "all fields from hash 'a'",
    "key orders:7",
    "file 'a.txt'",
    "the document",
    "/srv/data/x.csv",
    "issue PROJ-7",
    '"customers"',
    "sheet data",
]


def _texts(*starts: str) -> list[str]:
    return [start.format(_WHAT[i % len(_WHAT)]) for i, start in enumerate(starts)]


ERRORS: dict[str, list[Any]] = {
    "a false flag": [
        {"success": False, "error": _WHAT[0]},
        {"success": False, "message": _WHAT[1]},
        {"success": False, "error": {"code": 7, "message": _WHAT[2]}},
        {"success": False, "error_message": _WHAT[3]},
        {"success": False, "error": _WHAT[4], "key": "a", "type": None},
        {"success": False, "errors": ["name is required", "age is required"]},
        {"ok": False, "error": "channel_not_found"},
        {"ok": False, "error": {"code": 404, "message": "no such page"}},
        {"ok": False, "message": _WHAT[5], "channel": "general"},
        {"succeeded": False, "message": _WHAT[6]},
        {"success": False, "message": "no"},
        {"success": False, "data": None, "error": _WHAT[7]},
        {"success": False, "results": [], "error": _WHAT[8]},
        {"success": False, "detail": _WHAT[9], "attempts": 3},
    ],
    "a status": [
        {"status": "error", "message": _WHAT[0]},
        {"status": "error", "error": _WHAT[1]},
        {"status": "ERROR", "message": _WHAT[2], "tool": "search"},
        {"status": "failed", "error": _WHAT[3], "job": "j-1"},
        {"status": "failure", "message": _WHAT[4]},
        {"status": "error", "message": _WHAT[5], "file_path": "a.py", "symbol_name": "f"},
        {"status": "error", "error": {"type": "timeout", "reason": _WHAT[6]}},
        {"status": "Failed", "reason": _WHAT[7]},
    ],
    "error is true": [
        {"error": True, "message": _WHAT[0]},
        {"error": True, "message": _WHAT[1], "code": 404},
        {"isError": True, "message": _WHAT[2]},
        {"is_error": True, "error": _WHAT[3]},
    ],
    "error alone": [
        {"error": _WHAT[0]},
        {"error": _WHAT[1], "query": None},
        {"error": _WHAT[2], "code": 429},
        {"error": _WHAT[3], "error_code": "E7", "details": "wait 3 s"},
        {"error": {"message": _WHAT[4], "type": "index_not_found_exception"}},
        {"error": {"code": -1, "message": "unavailable"}},
        {"errors": "Bad request: a field is missing"},
        {"errorType": "ValidationError", "error": _WHAT[5]},
        {"error": _WHAT[6], "hint": "call list_sheets first"},
        {"error": _WHAT[7], "status": 500, "request_id": "r-1"},
        {"error": _WHAT[8], "results": [], "count": 0},
        {"error": "no such table: customers"},
    ],
    "a list of one": [[{"error": text}] for text in _WHAT[:4]] + [[{"success": False, "error": _WHAT[4]}]],
    "JSON in a text": [
        json.dumps({"success": False, "error": _WHAT[0]}),
        json.dumps({"error": _WHAT[1]}, indent=2),
        json.dumps({"status": "error", "message": _WHAT[2]}),
        "  " + json.dumps({"ok": False, "error": "not_authed"}) + "\n",
        json.dumps([{"error": _WHAT[3]}]),
        json.dumps({"error": {"message": _WHAT[4], "code": 5}}),
        str({"success": False, "error": "the key is missing"}),
        json.dumps({"success": False, "message": _WHAT[5], "items": []}, indent=4),
    ],
    "other servers' forms": [
        {"errors": [{"message": "no such field", "path": ["a"]}], "data": None},
        "Git command failed: no such branch",
        "Tool execution failed: no such file",
        "Invalid arguments: limit must be positive",
        "fatal: not a git repository",
        'Error from server (NotFound): pods "web" not found',
        "Not able to open the file",
        "Access denied: the folder is not allowed",
        "Access denied",
    ],
    "text blocks": [
        [{"type": "text", "text": f"Error: {_WHAT[0]}"}],
        [{"type": "text", "text": json.dumps({"error": _WHAT[1]})}],
        [{"type": "text", "text": f"Failed to open the file: {_WHAT[2]}"}, {"type": "text", "text": ""}],
        {"type": "text", "text": f"Error: {_WHAT[3]}"},
        [
            {"type": "text", "text": "Error: see the screenshot"},
            {"type": "image", "data": "eA==", "mimeType": "image/png"},
        ],
    ],
    "Error: ...": _texts(
        "Error: {}",
        "ERROR: {}",
        "error: {}",
        "Error - {}",
        "Error (404): {}",
        "Error 404: {}",
        "Error code 7: {}",
        "❌ Error: {}",
        "**Error**: {}",
        "**Error:** {}",
        "> Error: {}",
        "⚠️ Error: {}",
        "Error [E7]: {}",
        "Error: timeout",
        "Error occurred: {}",
        "An error occurred: {}",
        "An error occurred while searching: {}",
        "An unexpected error occurred: {}",
        "Unexpected error: {}",
        "Internal error: {}",
        "Internal server error: {}",
        "Unexpected error in list_indices: {}",
        "Error in 'get_page': {}",
        "Fatal error: {}",
    ),
    "a kind of error": _texts(
        "Redis error: {}",
        "HTTP error: {}",
        "HTTP error occurred: {}",
        "HTTP error 404: {}",
        "API error: {}",
        "Database error: {}",
        "Connection error: {}",
        "Validation error: {}",
        "SQL error: {}",
        "Network error: {}",
        "Syntax error: {}",
        "Git error: {}",
        "Permission error: {}",
        "Query error: {}",
        "Authentication error: {}",
    ),
    "an exception's name": _texts(
        "ValueError: {}",
        "redis.exceptions.ConnectionError: {}",
        "KeyError: {}",
        "FileNotFoundError: {}",
        "Exception: {}",
        "httpx.ReadTimeoutException: {}",
        "botocore.exceptions.ClientError: {}",
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: {}',
    ),
    "Error doing": [
        f"Error {word} {_OBJECTS[i % len(_OBJECTS)]}: {_WHAT[i % len(_WHAT)]}" for i, word in enumerate(_GERUNDS)
    ]
    + [f"Error {word} {_OBJECTS[(i + 3) % len(_OBJECTS)]}" for i, word in enumerate(_GERUNDS[:6])]
    + ["Error while reading the sheet: it is locked", "Error during import: row 7", "Error handling request: no body"],
    "Failed to": [
        f"Failed to {word} {_OBJECTS[i % len(_OBJECTS)]}: {_WHAT[i % len(_WHAT)]}" for i, word in enumerate(_VERBS)
    ]
    + [
        "❌ Failed to delete the index",
        "Operation failed to complete",
        "Failed: the server is down",
        "Tool failed to start",
    ],
    "Could not": [
        f"{('Could not', 'Cannot', 'Unable to', 'Couldn’t', 'Can' + chr(39) + 't', 'Can not', 'Couldn' + chr(39) + 't')[i % 7]} {word} "
        f"{_OBJECTS[i % len(_OBJECTS)]}"
        for i, word in enumerate(_VERBS)
    ]
    + [
        "Cannot perform this operation while the document is open",
        "Cannot delete the last sheet",
        "Unable to access it",
    ],
    "... failed": _texts(
        "Request failed: {}",
        "Request failed with status code 500",
        "Query failed: {}",
        "Operation failed: {}",
        "Connection failed: {}",
        "Login failed: {}",
        "Search failed due to a timeout",
        "Upload failed because the disk is full",
        "API call failed: {}",
        "Validation failed: {}",
        "Command failed with exit code 1",
        "Access denied - the path is outside of the allowed folders",
        "Permission denied: {}",
    ),
    "behind a heading": _texts(
        "# Search results\n\nError: {}",
        "## Report\n\nFailed to load the data: {}",
        "**Query**\n\nUnable to run it: {}",
        "Result\n======\n\nError executing the query: {}",
    ),
}
# What no rule finds without taking harmless texts, too.
HARD: list[Any] = [
    "Document report.docx does not exist",
    "Helm is not available on this system",
    "The sheet is locked by another user",
]

# --- harmless ----------------------------------------------------------------------------------------------------

_PROSE = """Error handling in Go: a guide to values and wrapping.
Error handling best practices for Python services.
Error reporting is a feature of the operating system.
Error correction codes add redundancy to data.
Error bars show the standard deviation.
Error messages should say what to do next.
Error rate: 0.1 %
Error count: 5
Error budget: 99.9 %
Errors: 0
Errors should never pass silently.
Errors and exceptions, chapter 8 of the tutorial
Error-free run completed.
Error 404 is the code of a page that is gone.
Error: 0
Error: none
Error: 0.05 %
Errors found: 0, warnings: 2
Failed login attempts: 3
Failed tests: 0
Failed: 0, passed: 12
Failed states are a concept of political science.
Failed to win the title in 1999 but won it in 2000: the story of a team.
Failed to impress the critics, the film was a success at the box office.
Failed to be is not to be, she said.
Failures are part of life.
Failure modes of distributed systems: an overview.
Failure is not an option, he said.
Exception handling in Python lets you catch errors.
Exceptions to the rule are listed below.
Exceptional results in the first quarter.
The call failed in 2019, the report says.
The build failed twice before it passed.
2 tests failed, 40 passed
Tests failed: 2 of 40
Could you send me the file?
Could notes be shared? Yes.
Could be better: three stars out of five.
Couldn't be happier with this phone.
Couldn't stop thinking about the book.
Can't Stop is a song of 2002.
Can't wait for the next season!
Cannot be overstated: this book is good.
Cannot is written as one word.
Unable to speak, she wrote novels that sold well.
Unable is the opposite of able.
No results found
No matches.
No errors found.
No such luck: a novel
Not found: 0 of 3 files
Nothing to do.
0 errors, 0 warnings
Success: no error occurred
Completed without errors.
All checks passed, no failures.
Found 3 errors in the log, see the lines below.
Status: failed over to the second site
Trial and error: how they found the cure
Margin of error: 3 %
Standard error: 0.3
Type I error: to reject a true hypothesis
Human error: the leading cause of accidents
Terror: a short history
Mirror: Error in translation
Denied: a memoir
Access denials rose by 4 % in May.
Tracebacks are shown by the debugger.
Debugging: what to do if you see an error
The error was fixed in version 2.
This page explains the error E7.
Fix: error in the parser
fix(parser): failed to read empty files
Revert "Failed to start" message
How to fix "Failed to connect" on Linux
Why does it say "Error: no route to host"?
Title: Error
Artist: Madeon - Error
I could not agree more.
We cannot know what the weather will be.
They failed to agree, and the talks ended.
A failed attempt, by J. Doe
An error of judgement, novel, 1987
An error in the second act makes the play funny.
An exception to this is the month of May.
Unexpected visitors: a play
Request denied rates by region
Query failed runs: 3
Operation Failed State, a documentary
Permission slips are due on Monday.
Validation of the model: error 0.02
Search: error
Log level: ERROR
level=error count=3
errors=0 warnings=1
ok
Done
True
null
Connection established, error log is empty.
Server is up. Last error: none.
Failed to build: 0 of 12 projects
Validation error: what it means and how to fix it
Failed to load resource: how to fix this message
Error: undefined is not a function - how to fix it
Type error: see chapter 4 of the book
ValueError: a subclass of Exception that is raised for a value
Permission denied errors are common on shared disks.
Access denied (1997), a film
Cannot find what you look for? Try the search page.
Healthy (0 failed probes)""".splitlines()

_LONG = [
    "Error: 404 Not Found is a status code that says that the server can't find the page. "
    + "Many sites have a page for it. " * 20,
    "Failed to start\n" + "\n".join(f"step {i}: see the manual" for i in range(12)),
    "2026-01-01 12:00:00 ERROR disk full\n2026-01-01 12:00:01 INFO retry",
    "ERROR: disk full\nERROR: disk full\nINFO: cleaned",
    "[ERROR] a\n[INFO] b",
    "12:00 error: a\n12:01 warning: b",
    "error: expected ';'\nwarning: unused variable",
    "def f():\n    raise ValueError('Error: x')",
    "try:\n    pass\nexcept Exception:\n    print('Failed to open')",
    "import sys\n\nsys.exit('Error: no file')",
    "print('Error: no file')",
    "// Error: handled by the caller\nreturn nil",
    "```\nError: connection refused\n```",
    "# Troubleshooting\n\nIf you see `Error: connection refused`, start the server.",
    "# Errors\n\nThis page lists all errors.",
    "# Release notes\n\n- Fixed: failed to open large files",
    "Search results for 'Failed to start':\n1. How to fix it\n2. Error: what now",
    "1. Error: connection refused (12 answers)\n2. Failed to connect (3 answers)",
    "commit 1a2b\nAuthor: A\n\n    Error handling for empty files",
    "diff --git a/x b/x\n-Error: a\n+Error: b",
    "| level | text |\n| --- | --- |\n| error | disk full |",
    "name,status\na,failed\nb,ok",
    "From: a@example.test\nSubject: Error: disk full\n\nPlease look.",
    'Q: Why "Failed to fetch"?\nA: The server was down.',
    "<html><title>Error</title><p>Failed to load</p></html>",
    '{"error": "two words"} and more text behind it',
    "Der Fehler: Error in der Datei",
    "« Error: introuvable » est un message.",
    '"Error: no such file" is what the program prints.',
    "'Failed to open' means that the file is locked.",
]

_VALUES: list[Any] = [
    None, True, False, 0, 1, 0.5, "", [], {}, [[]], [None], [0],
    {"errors": 0}, {"errors": []}, {"errors": None}, {"error": None}, {"error": ""}, {"error": False}, {"error": 0}, {"error": []}, {"error": {}},
    {"errors": 3, "warnings": 4, "file": "a.py"}, {"error_rate": 0.1, "errors": 12, "requests": 900}, {"error_count": 2, "message": "two lines"},
    {"error": 0.05, "mean": 3}, {"error": "0.05", "value": "2.1"}, {"rmse": 0.3, "error": 0.1}, {"error": "no"}, {"error": "None"}, {"error": "none"},
    {"error": "no error"}, {"error": "No errors found"}, {"error": "n/a", "data": 3}, {"error": "low", "model": "a"},
    {"success": True}, {"success": True, "error": None, "data": [1]}, {"success": True, "message": "Error log cleared"}, {"success": False},
    {"success": False, "id": 7}, {"success": "false"}, {"ok": False}, {"ok": True, "message": "Failed to none"}, {"status": "ok", "message": "done"},
    {"status": "failed"}, {"status": "error"}, {"status": "failed", "runs": 3}, {"status": "failed_over", "message": "the primary is b"},
    {"status": "active", "name": "failure"}, {"status": 500, "message": "a code of HTTP"}, {"statuses": ["error"], "message": "x y"},
    {"message": "Error: hello", "author": "bob", "channel": "c"}, {"text": "Failed to see the point", "likes": 3}, {"title": "Error", "year": 2015},
    {"log": "Error: disk full\nError: disk full"}, {"output": "Error: x", "exit_code": 0}, {"stdout": "", "stderr": "Error: x y", "returncode": 1},
    {"results": [{"title": "Error handling in Go", "error": "n/a"}]}, {"rows": [{"id": 1, "status": "error", "message": "late"}], "count": 1},
    {"jobs": [{"status": "failed", "message": "exit 1"}], "total": 1}, {"passed": 10, "failed": 0}, {"failed": 0, "message": "all tests passed"},
    {"errors": [{"line": 3, "message": "unused variable"}], "file": "a.py"}, {"errors": ["E501 line too long"]}, {"warnings": ["error prone code"]},
    {"error": "disk was full", "fixed": True, "by": "ann"}, {"error": "what users see", "docs": "https://docs.example.test"},
    {"error": "term of statistics", "definition": "a difference"}, {"question": "What is an error?", "error": "a wrong answer"},
    {"success": False, "error": "2 of 4 failed", "data": [1, 2]}, {"status": "error", "items": [{"a": 1}], "message": "some failed"},
    {"ok": False, "error": "one page is missing", "pages": {"a": 1}}, {"success": False, "message": "partly", "succeeded_items": ["a"]},
    [{"level": "error", "message": "disk full", "time": "12:00"}, {"level": "info", "message": "up"}],
    [{"id": 1, "status": "failed", "message": "exit 1"}, {"id": 2, "status": "ok", "message": ""}],
    [{"error": "a b"}, {"error": "c d"}], [{"error": "a b"}, {"id": 3}], ["Error: a", "Error: b"], ["Failed to open"], [1, 2, 3],
    [{"type": "text", "text": "Done"}], [{"type": "text", "text": "Error rate: 0.1 %"}], [{"type": "image", "data": "eA==", "mimeType": "image/png"}],
    [{"type": "text", "text": "Error: one page is missing"}, {"type": "text", "text": "page two: all is well"}],
    b"Error: bytes", 3 + 4j, {1: "Error: x"}, {"nested": {"error": "a b"}}, {"a": {"success": False, "error": "a b"}},
]  # fmt: skip


def _made() -> Iterator[Any]:
    """Harmless values by the hundred: figures, records, search results, log lines, documents."""
    subjects = "backups users requests builds pages tests deliveries logins sessions payments".split()
    for i, subject in enumerate(subjects):
        yield f"Failed {subject}: {i}"
        yield f"Error rate of {subject}: {i / 10} %"
        yield f"{subject.capitalize()} without errors: {90 + i}"
        yield f"No errors in {subject}."
        yield f"{i} errors in {subject}, {i} fixed"
        yield {"subject": subject, "errors": i, "failed": i, "ok": 90 + i}
        yield {"subject": subject, "error": None, "status": "ok"}
        yield {"total": 100, "failed": i, subject: ["a", "b"]}
        yield [{"subject": subject, "status": "error", "message": f"late by {n} s"} for n in range(2)]
        yield json.dumps({"subject": subject, "errors": [], "ok": True})
        yield json.dumps([{"subject": subject, "error": None}])
        yield json.dumps({"hits": [{"title": f"Error: {subject} are late", "score": i}]})
        yield f"# {subject.capitalize()}\n\nErrors of the last week: {i}"
        yield f"{subject.capitalize()} that failed to arrive were sent again."
        yield f"How to handle errors of {subject}\n\n1. Read the log.\n2. Repeat."
        yield f"Error handling of {subject} is described in chapter {i}."
        yield f"Exceptions of {subject}: see chapter {i}"
        yield f"the {subject} could not be better"
        yield f"{subject.capitalize()}: failed {i}, passed {90 + i}"
        yield f'[{{"log": "Error: {subject} are late"}}]'
        yield {"message": f"Error: {subject} are late", "from": "ops", "at": "12:00"}
        yield {"name": subject, "description": f"Failed {subject} are listed here."}
        yield f"2026-01-0{i % 9 + 1} ERROR {subject} late\n2026-01-0{i % 9 + 1} INFO {subject} done"
        yield {"error": f"{subject} are late", "rows": [1, 2], "page": i}
        yield {"status": "error budget left", "message": f"{i} %", "subject": subject}
        yield f"`Failed to open` is what {subject} print."
        yield {"exit_code": i, "stderr": f"Error: {subject}", "stdout": ""}
        yield f"{subject.capitalize()}\n{'-' * 20}\nerror: {i}\nok: {90 + i}"
        yield [f"Error: {subject}", f"{i} more"]
        yield f"Mean error of {subject}: 0.{i}"
        yield f"Retry failed {subject} with the button below."


HARMLESS: list[Any] = [*_PROSE, *_LONG, *_VALUES, *_made()]
