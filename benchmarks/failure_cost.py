"""What one failing call costs and where, for a traceback of ten frames, beside the loggers that people use today."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import structlog
import timing
from structlog.tracebacks import ExceptionDictTransformer

import iserror
from iserror import ErrorMap, ToolErrors
from iserror.errors.problem import Problem
from iserror.errors.resolve import resolve
from iserror.layers.call import Call
from iserror.layers.report import report
from iserror.logs.chain import to_json
from iserror.logs.excinfo import described
from iserror.logs.sink import FileSink
from iserror.redact import redact_text

PLAIN = "the invoice service did not answer in time"
MESSAGE = "could not connect to postgresql://app:hunter2@db.internal:5432/invoices (open files: /srv/billing/app.db)"


def fail(depth: int, message: str = MESSAGE) -> None:
    """Raise from so many frames below."""
    if depth > 1:
        fail(depth - 1, message)
    raise RuntimeError(message)


def measure(quick: bool) -> list[timing.Row]:
    with tempfile.TemporaryDirectory() as folder:
        times = asyncio.run(timing.compare(contenders(Path(folder)), rounds=5 if quick else 300, sizes=20))
    stdlib = "logging.exception to a file"
    return [
        {"work": name, f"/ {stdlib}": times.ratio(name, stdlib), "time, µs": times.seconds(name) * 1e6}
        for name in times.rounds
    ]


def contenders(folder: Path) -> dict[str, timing.Batch]:
    iserror.configure_logging(folder / "iserror.jsonl")
    guard = ToolErrors()
    exc = raised(MESSAGE)
    call, plain = failed_call(guard, exc), failed_call(guard, raised(PLAIN))
    line = _line_of(call, folder / "iserror.jsonl")
    sink = FileSink(folder / "line.jsonl")

    @guard
    def guarded() -> None:
        fail(9)

    def guarded_call() -> None:
        with contextlib.suppress(iserror.ToolFailure):
            guarded()

    standard = logging.getLogger("benchmark")
    standard.propagate = False
    handler = logging.FileHandler(folder / "logging.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    standard.addHandler(handler)

    return {
        "the traceback as data, redacted": timing.calls(described, exc),
        "redaction of its message alone": timing.calls(lambda: redact_text(MESSAGE, profile="log")),
        "the line as JSON": timing.calls(_encode(line)),
        "the line to the file": timing.calls(sink.write, line),
        "report: all of it": timing.calls(report, call),
        "report, a message without a secret": timing.calls(report, plain),
        "a failing call through @guard": timing.calls(guarded_call),
        "logging.exception to a file": timing.calls(_with(exc, standard.exception, "tool failed")),
        "structlog, dict_tracebacks to a file": timing.calls(_with(exc, *_structlog(folder / "a.jsonl"))),
        "the same without local variables": timing.calls(
            _with(exc, *_structlog(folder / "b.jsonl", show_locals=False))
        ),
    }


def failed_call(guard: ToolErrors, exc: Exception) -> Call:
    problem = resolve(exc, (ErrorMap(),))
    assert isinstance(problem, Problem)
    call = Call(guard, "export_report")
    call.problem = problem
    call.failure = problem.failure(tool=call.tool, effect="write", request_id=call.request_id, trace_id=None)
    return call


def raised(message: str) -> RuntimeError:
    try:
        fail(9, message)
    except RuntimeError as exc:
        return exc
    raise AssertionError


def _line_of(call: Call, file: Path) -> str:
    report(call)
    return file.read_text("utf-8").splitlines()[-1]


def _encode(line: str) -> Any:
    event = json.loads(line)
    return lambda: to_json(event)


def _structlog(file: Path, **options: bool) -> tuple[Any, str]:
    logger = structlog.wrap_logger(
        structlog.WriteLogger(file.open("w", encoding="utf-8")),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(**options)),
            structlog.processors.JSONRenderer(),
        ],
    )
    return logger.exception, "tool failed"


def _with(exc: BaseException, log: Any, event: str) -> Any:
    """Log as from an `except` block."""
    info = (type(exc), exc, exc.__traceback__)
    return lambda: log(event, exc_info=info)


if __name__ == "__main__":
    timing.main(measure, __doc__)
