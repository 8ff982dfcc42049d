"""Fixtures of the tests of `iserror check`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from iserror.cli import main
from tests.check.commands import Done


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The command in this process, which has loaded the host already."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    # `--inject` sets it for its process; set and deleted, it is gone again after the test.
    monkeypatch.setenv("OTEL_SDK_DISABLED", "")
    monkeypatch.delenv("OTEL_SDK_DISABLED")

    def ran(*arguments: str) -> Done:
        code = main(["check", *arguments])
        return Done(arguments, code, *capsys.readouterr())

    return ran
