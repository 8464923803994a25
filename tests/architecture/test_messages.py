"""No decision depends on the text of a message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.places import ROOT
from tests.architecture.other_messages import other_text

CAUSES = "tests/driver/test_causes.py"
ROOMS = ["tests/compatibility", "tests/lifecycle", "tests/health", "tests/model", CAUSES]
DECIDE_NOTHING = [
    *(f"tests/compatibility/test_{name}.py" for name in ("terms", "differences", "shown")),
    *(f"tests/model/test_{name}.py" for name in ("coding", "stored_types", "job_state", "quoting")),
]
"""Files of these folders that take two thirds of the time and call no function that is recorded."""


def recorded(file: Path, rooms: list[str], other_messages: str) -> list[tuple[str, list[Any]]]:
    """Run the tests in a separate process and return each test with its decisions; parameters are left out of the ids,
    because some are messages.
    """
    told = {"STREAMKEEPER_RECORD": str(file), "STREAMKEEPER_OTHER_MESSAGES": other_messages}
    told |= {"STREAMKEEPER_CI": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.architecture.other_messages"]
    command += ["-p", "no:cacheprovider", "-m", "not spark and not s3 and not hdfs and not airflow", "--tb=no"]
    command += [*rooms, *(f"--ignore={file}" for file in DECIDE_NOTHING)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **told}, capture_output=True, timeout=280, check=False)
    lines = map(json.loads, file.read_text().splitlines())
    return [(test.partition("[")[0], decisions) for test, decisions in lines]


def differing(plain: list[tuple[str, list[Any]]], other: list[tuple[str, list[Any]]]) -> set[str]:
    """Return the tests whose decisions differ, compared up to the first text that they assert."""
    assert [test for test, _ in plain] == [test for test, _ in other]
    both = zip(plain, other, strict=True)
    return {test for (test, before), (_, after) in both if after != before[: len(after)]}


def test_a_replaced_message_keeps_its_placeholders() -> None:
    """A replaced message keeps its placeholders, so that it can still be formatted."""
    assert other_text("{count} rows of {table.name} are lost") == "{count} ebjf bs {table.name} ner ybfg"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[Any]]]:
    """The decisions of the tests with unchanged messages."""
    return recorded(tmp_path_factory.mktemp("plain") / "decisions", ROOMS, "")


@pytest.mark.storage
@pytest.mark.timeout(600)
def test_no_decision_cause_or_severity_depends_on_a_message(tmp_path: Path, plain: list[tuple[str, list[Any]]]) -> None:
    """With every message replaced, each test makes the same decisions, and more than 90 % of over 20,000 decisions are
    compared.
    """
    other = recorded(tmp_path / "other", ROOMS, "yes")
    assert not differing(plain, other)
    counts = [sum(len(decisions) for _, decisions in each) for each in (other, plain)]
    assert counts[0] > 0.9 * counts[1] > 20_000


@pytest.mark.storage
def test_a_decision_that_compares_a_replaced_text_is_found(tmp_path: Path, plain: list[tuple[str, list[Any]]]) -> None:
    """Negative control: if texts of the operating system that identify a full disk are replaced too, differing
    decisions are found.
    """
    of_causes = [each for each in plain if each[0].startswith(CAUSES)]
    assert differing(of_causes, recorded(tmp_path / "other", [CAUSES], "all"))
