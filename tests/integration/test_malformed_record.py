"""Tests the runbook entry for a malformed record that stops a job: its commands repair the job, and only that record is
missing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.model.requests.diagnosis import Problem
from tests.integration.test_recovery import JOB, ROOT, House

pytestmark = [pytest.mark.storage, pytest.mark.spark]
ENTRY = "A record fails its batch every time"


class Strict(House):
    """An installation whose job reads with ``FAILFAST`` from a job file that tests may edit."""

    @property
    def job_files(self) -> Path:
        folder = self.root / "jobs"
        if not folder.exists():
            folder.mkdir()
            text = (ROOT / "jobs" / f"{JOB}.py").read_text()
            strict = text.replace('.csv(params["input"])', '.option("mode", "FAILFAST").csv(params["input"])')
            assert strict != text
            (folder / f"{JOB}.py").write_text(strict)
        return folder

    def add_malformed(self) -> Path:
        """Add an input file whose second of three rows does not parse; the table is expected to contain the other
        two.
        """
        self.files += 1
        draft, file = self.root / "draft", self.input / f"f{self.files:06d}.csv"
        draft.write_text("m1,a,10\nm2,a,not a number\nm3,b,30\n")
        self.expected["a"].append(10)
        self.expected["b"].append(30)
        os.rename(draft, file)
        return file

    def follow(self, commands: str, **words: object) -> list[str]:
        """Run commands of the runbook with values in place of its capitalized placeholders, and return what each one
        printed.
        """
        printed = []
        for line in commands.strip().splitlines():
            given = re.sub(r"\b(JOB|FILE|CHECKPOINT|OPEN)\b", lambda found: str(words[found[0]]), line)
            done = self.command(*shlex.split(given)[1:], STREAMKEEPER_JOBS=str(self.job_files))
            # A diagnosis alone ends with 1 where something is wrong.
            assert done.returncode == (0 if line != "streamkeeper recover JOB" else 1), (
                f"{given}: {done.stdout}{done.stderr}"
            )
            printed.append(done.stdout)
        return printed


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strict]:
    """A running job to which a test can add a malformed record."""
    house = Strict(tmp_path_factory.mktemp("house"))
    house.add(("a", 1), ("b", 2))
    house.deploy()
    house.settle()
    yield house
    house.close()


def blocks() -> list[str]:
    """Return the command blocks of the runbook's entry, one text per block."""
    text = (ROOT / "docs/operations/runbook.md").read_text().partition(f"## {ENTRY}\n")[2].partition("\n## ")[0]
    return re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)


def drop_malformed(house: Strict, file: Path) -> None:
    job = house.job_files / f"{JOB}.py"
    job.write_text(job.read_text().replace("FAILFAST", "DROPMALFORMED"))
    plan, _ = house.follow(blocks()[1], JOB=JOB)
    assert "malformed-rows-dropped" in plan
    assert "dropped from now on" in plan


def edit_file(house: Strict, file: Path) -> None:
    stop, start = blocks()[2].strip().splitlines()
    house.follow(stop, JOB=JOB, FILE=file.name)
    shutil.copy(file, house.root / "set-aside.csv")
    file.write_text("m1,a,10\nm3,b,30\n")
    house.follow(start, JOB=JOB, FILE=file.name)


@pytest.mark.parametrize("fix", [drop_malformed, edit_file])
def test_the_runbooks_commands_skip_only_the_malformed_record(
    house: Strict, fix: Callable[[Strict, Path], None]
) -> None:
    """With the runbook's commands, the open batch is committed in the same checkpoint version and contains every row
    except the malformed one.
    """
    version, file = house.version, house.add_malformed()
    wait_for("the diagnosis", lambda: house.look().cause is Problem.BATCH_FAILS)
    opened = open_batch(house.checkpoint)
    looked, offsets = house.follow(blocks()[0], JOB=JOB, CHECKPOINT=house.directory, OPEN=opened)
    assert "batch-fails" in looked
    assert file.name in offsets
    fix(house, file)
    house.settle()
    assert house.version == version
    wait_for("a healthy driver", lambda: house.look().cause is Problem.NOTHING_WRONG)
