"""Tests of the options of the program itself: the version and the shell completion."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from streamkeeper.cli.main import app


def test_the_version_is_that_of_the_package() -> None:
    """``--version`` prints the package's version in one line with exit code 0, without an installation."""
    done = CliRunner(env={"STREAMKEEPER_HOME": None}).invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"streamkeeper {version('streamkeeper')}\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("streamkeeper roll", "rollback"),
        ("streamkeeper snapshot res", "restore"),
        ("streamkeeper deploy j --on", "--on-open"),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, expected: str) -> None:
    """Bash completion completes commands, subcommands and options."""
    asked = {"_STREAMKEEPER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    call = "import sys; sys.argv[0] = 'streamkeeper'; from streamkeeper.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", call], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [expected], done.stderr


def test_the_completion_can_be_installed() -> None:
    """The help lists ``--install-completion``, ``--show-completion`` and ``--version``."""
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).stdout
    assert ("--install-completion" in shown, "--show-completion" in shown, "--version" in shown) == (True, True, True)
