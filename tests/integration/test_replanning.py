"""A plan that is cut short under a killed driver, with a real driver and a real table: the batch is planned again."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed, open_batch
from streamkeeper.errors import OperationRefused
from streamkeeper.model.journal import Outcome
from streamkeeper.model.recovery import Cause, RecoveryAction
from tests.integration.test_recovery import JOB, House

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
REPLAN, RESTORE = RecoveryAction.REPLAN, RecoveryAction.RESTORE


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A job that serves, and a snapshot two batches old."""
    made = House(tmp_path)
    made.add(("a", 1), ("b", 2))
    made.deploy()
    made.settle()
    made.take()
    for amount in (3, 4):
        made.add(("a", amount))
        made.settle()
    yield made
    made.close()


def kill_with_open_batch(house: House) -> int:
    """Plan one more batch, let it write nothing, kill the driver and cut the plan short; the batch."""
    committed = last_committed(house.checkpoint)
    assert committed is not None
    # The table cannot be written while somebody else writes the database.
    with sqlite3.connect(house.warehouse, timeout=30, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        house.add(("b", 5), ("c", 6))
        wait_for("the plan", lambda: open_batch(house.checkpoint) == committed + 1, 60)
        house.kill()
        other.execute("ROLLBACK")
    cut_short(house.directory, committed + 1)
    return committed + 1


def cut_short(directory: Path, batch: int) -> None:
    """As a power cut leaves it."""
    plan = directory / "offsets" / str(batch)
    plan.write_bytes(plan.read_bytes()[: plan.stat().st_size // 2])


def content_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_batch_whose_plan_is_cut_short_is_planned_again(house: House) -> None:
    """Killed once the new version is on record, the command goes on when it is typed again: no committed batch is
    replayed, every row is there once, and the damaged directory is as it was. Negative controls: a restart is refused
    for what Spark would do, and a restore goes back two batches."""
    version, before = house.version, house.site.journal(JOB, "test").state().operations.keys()
    batch, damaged = kill_with_open_batch(house), house.directory
    left = content_of(damaged)
    found = house.look()
    assert (found.cause, found.options[0].action) == (Cause.CHECKPOINT_DAMAGED, REPLAN), found
    assert f"reads batch {batch}, perhaps with other offsets (1 files" in found.options[0].prices[0].sentence
    assert "2 batches after batch" in found.option(RESTORE).prices[0].sentence
    with pytest.raises(OperationRefused, match="Spark refuses to start"):
        house.recover("restarted", RecoveryAction.RESTART)
    words = ["recover", JOB, "--action", "replan", "--probation-batches", "0", "--reason", "plan cut short"]
    first = house.command(*words, STREAMKEEPER_CRASH="restore.record.after")
    assert first.returncode == -signal.SIGKILL, first.stdout + first.stderr
    second = house.command(*words)
    assert second.returncode == 0, second.stdout + second.stderr
    operations = house.site.journal(JOB, "test").state().operations
    assert [operations[name].outcome for name in operations.keys() - before] == [Outcome.SUCCEEDED]
    assert house.version == version + 1
    house.settle()
    house.add(("c", 7))
    house.settle()
    assert content_of(damaged) == left


def test_a_batch_that_the_table_holds_is_not_planned_again(house: House) -> None:
    """Its commit and the end of its plan are gone, and the table has its rows. Negative control: with the
    damaged plan deleted by hand, as Spark's users do, the batch would get other rows and be skipped, and a start is
    refused, for the checkpoint has gone back."""
    house.kill()
    batch = last_committed(house.checkpoint)
    assert batch is not None
    for name in (str(batch), f".{batch}.crc"):
        (house.directory / "commits" / name).unlink(missing_ok=True)
    cut_short(house.directory, batch)
    refused = house.look().option(REPLAN).why_not
    assert f"contains batch {batch}; planned again with other rows, the batch would be skipped" in refused
    with pytest.raises(OperationRefused, match="planned again"):
        house.recover("replanned", REPLAN)
    for name in (str(batch), f".{batch}.crc"):
        (house.directory / "offsets" / name).unlink(missing_ok=True)
    assert house.look().cause is Cause.CHECKPOINT_LOST
