"""Tests that an output that is missing, emptied or an older copy is refused before anything of it is created."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.waiting import wait_for
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.driver import epoch
from streamkeeper.driver.epoch import Claim, open_writer, shadow_claim
from streamkeeper.driver.preflight import look_at_sink
from streamkeeper.driver.taking_over import _accepted_loss
from streamkeeper.errors import InvalidInput, OutputLost, SinkAhead
from streamkeeper.model.protocol.driver_messages import Command, CommandKind, DriverState, ExitCode
from streamkeeper.model.protocol.output_history import AcceptedLoss, OutputHistory
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.sinks.contract import Sink, SinkContext
from streamkeeper.sinks.file import FileSink
from streamkeeper.sinks.file_serving import is_shadow
from streamkeeper.sinks.foreach import ForeachBatch
from streamkeeper.sinks.sink_log import begin_log
from streamkeeper.sinks.table import TableSink
from tests.driver.driver_house import DriverHouse
from tests.snapshots.series import a_checkpoint

LAST = 7
KINDS = ("table", "file")
HISTORY = OutputHistory(version="v0001", epoch=1, epoch_committed=-1)


class Place:
    """A checkpoint that has committed batch ``LAST``, and an output that holds all of it."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.checkpoint = root / "cp" / "v0001"
        a_checkpoint(self.checkpoint, "stateless")
        self.database, self.files = root / "warehouse.db", root / "out"
        sinks: dict[str, Sink] = {
            "table": TableSink(f"sqlite:///{self.database}", table="totals", key=["customer"]),
            "file": FileSink(str(self.files)),
        }
        self.query: Any = SimpleNamespace(name="totals", sink=sinks[kind], output_mode="update", df=None)
        self.write(LAST)

    @property
    def output(self) -> Path:
        return self.database if self.kind == "table" else self.files

    def write(self, batch: int) -> None:
        """Make the output hold everything up to this batch."""
        context = SinkContext(job="sales", query="totals", version="v0001", epoch=1)
        writer = self.query.sink.open(context)
        writer.raise_fence()
        writer.close()
        if self.kind == "file":
            begin_log(f"{self.files}/v0001", batch)
            return
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS totals (customer TEXT PRIMARY KEY)")
            connection.execute("UPDATE streamkeeper_outputs SET version = 'v0001', batch_id = ?", (batch,))

    def begin(self, up_to: int | None = None, *, made: str = "") -> None:
        """Take over the query as a driver does, with an accepted loss up to a batch."""
        accepted = None if up_to is None else AcceptedLoss(batch=up_to, made=made)
        claim = Claim(
            job="sales", instance="i", generation=1, query="totals", version="v0001", output=str(self.output), epoch=2
        )
        tree = LocalTree(self.checkpoint)
        writer = open_writer(self.query, claim, tree, JobState(job="sales"), HISTORY, accepted=accepted)
        writer.close()

    def look(self) -> list[str]:
        """Return the rules that a check finds for the output."""
        return [found.rule for found in look_at_sink("sales", self.query, LocalTree(self.checkpoint), HISTORY)]


def move_away(place: Place) -> None:
    os.rename(place.output, place.root / "elsewhere")


def empty(place: Place) -> None:
    """Replace the output by an empty one, as when a disk is not mounted."""
    move_away(place)
    place.database.touch() if place.kind == "table" else place.files.mkdir()


def drop(place: Place) -> None:
    """Remove the table or the directory of the version, and keep the fence."""
    if place.kind == "file":
        shutil.rmtree(place.files / "v0001")
        return
    with sqlite3.connect(place.database) as connection:
        connection.execute("DROP TABLE totals")


def drop_row(place: Place) -> None:
    """Remove the fence, and keep the data."""
    if place.kind == "file":
        shutil.rmtree(place.files / "_streamkeeper")
        return
    with sqlite3.connect(place.database) as connection:
        connection.execute("DELETE FROM streamkeeper_outputs")


def put_older_copy(place: Place) -> None:
    """Replace the output by a copy that is one batch older."""
    if place.kind == "file":
        (place.files / "v0001" / "_spark_metadata" / str(LAST)).unlink()
        return
    with sqlite3.connect(place.database) as connection:
        connection.execute("UPDATE streamkeeper_outputs SET batch_id = ?", (LAST - 1,))


WAYS: tuple[Callable[[Place], None], ...] = (move_away, empty, drop, drop_row, put_older_copy)


def content(root: Path) -> dict[str, bytes]:
    """Return the contents of every file except those that SQLite leaves beside a database that was read."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix[-3:] != "wal"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lose", WAYS, ids=lambda way: way.__name__)
def test_an_output_that_lacks_committed_batches_is_refused(
    tmp_path: Path, kind: str, lose: Callable[[Place], None]
) -> None:
    """An output that lacks committed batches is refused by name, both by the driver and by a check, and nothing is
    created in its place.
    """
    place = Place(tmp_path, kind)
    lose(place)
    before = {path for path in tmp_path.rglob("*") if path.suffix not in (".db-wal", ".db-shm")}
    with pytest.raises(OutputLost, match=rf"{place.output} lacks committed batches: .*batch {LAST} of v0001 was"):
        place.begin()
    assert place.look() == ["output-lost"]
    assert {path for path in tmp_path.rglob("*") if path.suffix not in (".db-wal", ".db-shm")} == before


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_holds_all_committed_batches_is_accepted(tmp_path: Path, kind: str) -> None:
    """An output that holds all committed batches is taken over, even if it already holds the open batch whose commit is
    missing.
    """
    place = Place(tmp_path, kind)
    place.begin()
    (place.checkpoint / "commits" / str(LAST)).unlink()
    place.begin()
    assert place.look() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_output_is_silently_recreated_without_the_check(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check, a missing output is silently created anew without the rows written so
    far.
    """
    place = Place(tmp_path, kind)
    move_away(place)
    monkeypatch.setattr(epoch, "refuse_lost_output", lambda *_, **__: None)
    place.begin()
    assert place.output.exists()


def test_an_output_without_batch_records_is_accepted_unchecked(tmp_path: Path) -> None:
    """The output of a user's function is taken over without a check, because it keeps no record of its batches."""
    place = Place(tmp_path, "file")
    place.query.sink = ForeachBatch(lambda batch, context: None)
    place.begin()


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_over_an_empty_checkpoint_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output that holds batches is refused for an empty checkpoint, because Spark would reuse their numbers;
    negative control: without the check it is taken over.
    """
    place = Place(tmp_path, kind)
    shutil.rmtree(place.checkpoint)
    with pytest.raises(
        SinkAhead,
        match=f"ahead of checkpoint v0001: the output holds batch {LAST} of v0001, but checkpoint v0001 has no batch",
    ):
        place.begin()
    monkeypatch.setattr(epoch, "_refuse_if_ahead", lambda *_: None)
    place.begin()


@pytest.mark.parametrize("accepted", [LAST - 1, LAST])
def test_a_loss_is_accepted_up_to_a_batch(tmp_path: Path, accepted: int) -> None:
    """An accepted loss covers the batches up to the accepted one, and no batch that was committed later."""
    place = Place(tmp_path, "file")
    move_away(place)
    if accepted < LAST:
        with pytest.raises(OutputLost):
            place.begin(accepted)
        return
    place.begin(accepted)
    assert place.look() == []
    place.begin()


@pytest.mark.parametrize("kind", KINDS)
def test_an_accepted_loss_covers_no_batch_of_a_version_made_afterwards(tmp_path: Path, kind: str) -> None:
    """An accepted loss does not cover a version that was created afterwards, whose batch numbers start anew. Negative
    control: without the version's name the loss is covered.
    """
    place = Place(tmp_path, kind)
    move_away(place)
    with pytest.raises(OutputLost):
        place.begin(LAST + 5, made="v0001")
    assert not place.output.exists()
    if kind == "file":
        place.begin(LAST + 5)


@pytest.mark.parametrize(("operation", "made"), [("op-2", "v0002"), ("op-1", "")])
def test_a_loss_accepted_by_an_order_excludes_its_own_new_version(operation: str, made: str) -> None:
    """The loss that an order accepts excludes the version that its own operation created, and covers an older
    version.
    """
    version = CheckpointVersion(
        query="totals", version="v0002", release="r2", origin="fresh", state_format="", operation=operation
    )
    state = JobState(job="sales", versions={"totals": (version,)})
    order = Command(number=1, kind=CommandKind.GO, operation="op-2", output_losses={"totals": 9})
    assert _accepted_loss(state, "totals", "v0002", order) == AcceptedLoss(batch=9, made=made)
    assert _accepted_loss(state, "other", "v0001", order) is None


@pytest.mark.parametrize("lose", [drop, drop_row], ids=lambda way: way.__name__)
def test_files_without_their_fence_are_accepted_after_an_accepted_loss(
    tmp_path: Path, lose: Callable[[Place], None]
) -> None:
    """After an accepted loss, files without their fence or their version's directory are taken over as the query's
    own.
    """
    place = Place(tmp_path, "file")
    lose(place)
    place.begin(LAST)
    assert place.look() == []


def test_an_unmarked_shadow_of_an_older_version_is_continued(tmp_path: Path) -> None:
    """A shadow whose mark is missing, as older versions wrote it, is continued if its checkpoint has a batch. Negative
    control: without a batch, the directory is refused as foreign.
    """
    place = Place(tmp_path, "file")
    drop_row(place)
    claim = shadow_claim("sales", "i", 2, place.query, "v0001")
    tree, state, history = LocalTree(place.checkpoint), JobState(job="sales"), OutputHistory(version="v0001")
    open_writer(place.query, claim, tree, state, history).close()
    assert is_shadow(str(place.files), "v0001")
    drop_row(place)
    shutil.rmtree(place.checkpoint)
    with pytest.raises(InvalidInput, match="has files that Streamkeeper did not write"):
        open_writer(place.query, claim, tree, state, history)


def test_a_handed_over_version_without_commits_owns_no_files(tmp_path: Path) -> None:
    """A version that continues another one and has committed nothing owns no files yet, so that existing files are
    refused.
    """
    place = Place(tmp_path, "file")
    drop_row(place)
    claim = Claim(job="sales", instance="i", generation=1, query="totals", version="v0001", output="o", epoch=2)
    history = OutputHistory(version="v0001", parent="v0000", inherited=LAST)
    with pytest.raises(InvalidInput, match="has files that Streamkeeper did not write"):
        open_writer(place.query, claim, LocalTree(place.checkpoint), JobState(job="sales"), history)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[DriverHouse]:
    house = DriverHouse(tmp_path)
    yield house
    house.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_driver_refuses_a_lost_table_or_output_ahead_of_its_checkpoint(house: DriverHouse) -> None:
    """A driver refuses to serve over an output that is ahead of its checkpoint, whose sink would silently skip batches,
    and does not recreate a lost table until the loss is accepted; then the table holds all later rows.

    A job with ``availableNow`` finishes with the exit code ``FINISHED``, and an empty last batch counts as committed.
    """
    house.add([("a", 1)])
    house.add([])
    first = house.launch("first", params={**house.params(), "trigger": "availableNow", "files_per_trigger": 1})
    house.wait_state("first", DriverState.STANDBY)
    house.go("first", first, "totals")
    assert house.wait_exit(first, 180) == ExitCode.FINISHED
    status = house.wait_state("first", DriverState.FINISHED)
    assert status.queries["totals"].finished
    assert house.totals() == house.oracle()
    assert last_committed(LocalTree(house.checkpoint("totals", "v0001"))) == 1
    with sqlite3.connect(house.warehouse, timeout=30) as connection:
        connection.execute("UPDATE streamkeeper_outputs SET batch_id = 5")
    second = house.launch("second")
    house.wait_state("second", DriverState.STANDBY)
    house.go("second", second, "totals")
    _is_refused(
        house,
        second,
        "is ahead of checkpoint v0001: the output holds batch 5 of v0001, but checkpoint v0001 has no batch after 1",
    )
    for file in house.root.glob("warehouse.db*"):
        file.unlink()
    _is_refused(house, house.start("second", 2), "lacks committed batches: the database file")
    assert not house.warehouse.exists()
    house.expected = {}
    house.launch("third")
    house.wait_state("third", DriverState.STANDBY)
    house.appoint("third")
    house.control("third").send(CommandKind.GO, "op", {"totals": "v0001"}, output_losses={"totals": 1})
    house.add([("b", 5)])
    wait_for("what came since", lambda: house.totals() == house.oracle(), 120)


def _is_refused(house: DriverHouse, second: subprocess.Popen[bytes], why: str) -> None:
    assert house.wait_exit(second, 120) == ExitCode.REFUSED
    status = house.status("second")
    assert status is not None
    assert why in status.error


def test_files_without_their_log_are_found(tmp_path: Path) -> None:
    """A missing log of files is reported once a batch is committed, because readers follow the log; before the first
    commit it may be missing.
    """
    place = Place(tmp_path, "file")
    (place.files / "v0001" / "part-0").write_text("{}")
    shutil.rmtree(place.files / "v0001" / "_spark_metadata")

    def rules() -> list[str]:
        tree = LocalTree(place.checkpoint)
        return [found.rule for found in look_at_sink("sales", place.query, tree, None)]

    assert rules() == ["sink-log-missing"]
    shutil.rmtree(place.checkpoint / "commits")
    assert rules() == []
