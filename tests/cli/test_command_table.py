"""Tests of the table of commands: its help lines, and which modules the program imports before a command needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from streamkeeper.cli.main import COMMANDS, app
from streamkeeper.registry.installations import open_installation
from streamkeeper.stores.local import LocalStore

SLOW = {"airflow", "boto3", "botocore", "kubernetes", "pendulum", "psycopg", "pyspark", "requests", "sqlalchemy"}
PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from streamkeeper.cli.main import main
main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation without jobs."""
    open_installation(LocalStore(tmp_path / "store"), str(tmp_path))
    return tmp_path


def imported_by(home: Path, *words: str, before: str = "") -> set[str]:
    """Run a command in its own process, after the code in ``before``, and return the modules that are in
    ``sys.modules`` when it exits.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMKEEPER_")}
    done = subprocess.run(
        [sys.executable, "-c", before + PROGRAM, *words],
        env={**kept, "STREAMKEEPER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [("--help",), ("jobs",)], ids=" ".join)
def test_help_and_job_list_import_no_slow_library(home: Path, words: tuple[str, ...]) -> None:
    """The help and the job list of an empty store load none of the slow libraries that only some commands need."""
    assert imported_by(home, *words) & SLOW == set()


def test_the_help_imports_no_command(home: Path) -> None:
    """The program's help imports only the table of commands, none of the modules that implement them."""
    loaded = imported_by(home, "--help")
    assert {f"streamkeeper.cli.{each.target.partition('.')[0]}" for each in COMMANDS.values()} & loaded == set()
    assert "streamkeeper.operations" not in loaded


def test_a_slow_import_is_noticed(home: Path) -> None:
    """Negative control: a slow library that the program's process imports on purpose is found."""
    assert imported_by(home, "jobs", before="import pendulum") & SLOW == {"pendulum"}


def test_help_texts_in_the_table_equal_those_of_the_commands() -> None:
    """The help text of each command in the table equals the first paragraph of the command's own help."""
    group: Any = typer.main.get_command(app)
    own = {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in group.commands.items()}
    assert {name: listed.help for name, listed in COMMANDS.items()} == own
