"""The command line of `iserror`: what each command takes, and what it refuses."""

from __future__ import annotations

import importlib

import pytest

from iserror.cli import main

pytestmark = pytest.mark.hostless

COMMANDS = {"trace": ["0" * 32], "tail": [], "report": [], "catalog": ["module:guard"], "check": ["module:server"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows how to use the command, what it does and its options."""
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    module = importlib.import_module(f"iserror.cli.{command}")
    assert shown.startswith(f"usage: iserror {command} ")
    assert " ".join(module.DESCRIPTION.split()) in " ".join(shown.split())
    assert "--json" in shown


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`iserror --help` says what each command does."""
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for command in COMMANDS:
        assert f"{command} {importlib.import_module(f'iserror.cli.{command}').HELP}" in shown


@pytest.mark.parametrize("command", ["catalog", "check"])
def test_one_object_too_many(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one object is named, a second one is refused."""
    with pytest.raises(SystemExit) as caught:
        main([command, *COMMANDS[command], "second\x1b[2J"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("iserror: error: unrecognized arguments: second\\x1b[2J\n")


@pytest.mark.parametrize("command", ["trace", "tail", "report"])
def test_an_unknown_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that the command lacks is refused, and is never taken for a path."""
    with pytest.raises(SystemExit) as caught:
        main([command, *COMMANDS[command], "--colour"])
    assert caught.value.code == 2
    assert "unrecognized arguments: --colour" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["-1", "x", "9" * 30, "1.5"])
def test_a_line_count(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the count that was given, and what to give."""
    with pytest.raises(SystemExit):
        main(["tail", f"-n={count}"])
    assert f"invalid line count {count!r}: use a whole number" in capsys.readouterr().err


def test_files_and_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """A log is read from files or from an engine."""
    assert main(["report", "logs", "--source", "clickhouse://localhost/logs"]) == 2
    assert capsys.readouterr().err == "iserror: give --source or PATH, not both\n"
    assert main(["report", "--source", "postgres://me:hunter2@localhost/logs"]) == 2
    assert capsys.readouterr().err == "iserror: unknown --source 'postgres': use clickhouse://HOST/DATABASE\n"
