"""The check after a stop finds whatever still runs although its job was stopped."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.cases import JOB
from chaos.recovering import find_stirring
from chaos.scenarios import RECOVERIES
from harness.bed import Bed, fresh_bed
from streamkeeper.model.records.journal_records import DesiredChanged


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    """An installation whose input no job reads."""
    with fresh_bed(tmp_path / "site", []) as bed:
        bed.start_producer(rows=2, every_s=0.1)
        yield bed


def leave(bed: Bed) -> None:
    """Record the job as stopped."""
    wish = DesiredChanged(serve=False, requested_by="test", reason="", operation="stop-1")
    bed.installation.journal(JOB, "test").append(lambda state: None if state.stopped else wish)


def leave_running(bed: Bed) -> None:
    """Record the job as stopped, but leave a process of its driver running."""
    leave(bed)
    environment = {**bed.environment, "STREAMKEEPER_INSTANCE": f"{JOB}/r0001"}
    subprocess.run(["sh", "-c", "sleep 60 > /dev/null 2>&1 &"], env=environment, check=True)


@pytest.mark.parametrize(
    ("happens", "found"),
    [
        (leave, []),
        (leave_running, [f"{JOB}/r0001 runs after the stop", f"{JOB}/r0001 runs after a pass of the watch"]),
        (lambda bed: None, ["it is not on record as stopped any more"]),
    ],
    ids=["at-rest", "running", "wanted"],
)
def test_a_leftover_process_of_a_stopped_job_is_found(
    bed: Bed, happens: Callable[[Bed], None], found: list[str]
) -> None:
    """A leftover process and a record that no longer states the stop are both found; a job at rest yields nothing."""
    happens(bed)
    assert find_stirring(bed, bed.root / "output") == found


def test_the_recovery_campaign_covers_every_command() -> None:
    """The recovery campaign covers stop, start, watch and each way to recover."""
    asks = [each.ask for each in RECOVERIES.values()]
    assert {each.verb for each in asks} == {"", "stop", "start", "watch"}
    assert {each.recover for each in asks} == {"", "restart", "restore", "rebuild"}
