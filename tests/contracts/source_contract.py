"""What every kind of source with a promise is held to: handover, rebuild and restore rest on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.reach import compare, position
from streamkeeper.checkpoints.seeding import seed
from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.sources.promises import promise_of
from tests.checkpoints.real_queries import CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_A_BATCH = 2
Batches = dict[int, list[str]]


class Place(Protocol):
    """An input of the kind; ``kind``: as a manifest names it."""

    kind: str

    def put(self, rows: list[str]) -> None:
        """Add rows, in this order."""

    def read(self, session: SparkSession) -> DataFrame:
        """A stream of them from the beginning, ``ROWS_A_BATCH`` a batch: ``row string``."""


class SourceContract:
    """Run against a ``place`` that holds nothing, and a ``spark`` session."""

    def test_the_same_offsets_give_the_same_rows(self, place: Place, spark: SparkSession, tmp_path: Path) -> None:
        """A batch that was read, and not committed, has the same rows again, whatever has come meanwhile."""
        assert promise_of(place.kind).replays
        place.put(["a", "b", "c", "d"])
        first = _run(place, spark, tmp_path, fail_after=1)
        assert (first, open_batch(LocalTree(tmp_path))) == ({0: ["a", "b"], 1: ["c", "d"]}, 1)
        place.put(["e", "f"])
        assert _run(place, spark, tmp_path) == {1: ["c", "d"], 2: ["e", "f"]}

    def test_how_far_it_has_read_is_told(self, place: Place, spark: SparkSession, tmp_path: Path) -> None:
        """Two checkpoints that have read the same are equal; of one that has read less, it is told what it lacks."""
        place.put(["a", "b", "c", "d"])
        _run(place, spark, tmp_path / "old")
        _run(place, spark, tmp_path / "new")
        place.put(["e", "f"])
        _run(place, spark, tmp_path / "old")
        old, new = position(LocalTree(tmp_path / "old")), position(LocalTree(tmp_path / "new"))
        assert compare(position(LocalTree(tmp_path / "old"), 1), new).equal
        assert (compare(old, new).holds, compare(new, old).holds) == (False, True)
        (lacking,) = compare(old, new).sources
        assert (lacking.missing, lacking.total) == (2, 6)

    def test_a_version_goes_on_where_another_has_ended(self, place: Place, spark: SparkSession, tmp_path: Path) -> None:
        """Seeded at its offsets, it reads what came after, nothing twice, and no more of the old version."""
        place.put(["a", "b", "c", "d"])
        _run(place, spark, tmp_path / "old")
        seed(LocalTree(tmp_path / "old"), LocalTree(tmp_path / "new"), 0, number=0, query_id=_NEW_ID)
        (tmp_path / "old").rename(tmp_path / "gone")
        place.put(["e", "f"])
        assert _run(place, spark, tmp_path / "new") == {1: ["c", "d"], 2: ["e", "f"]}


_NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f12"


def _run(place: Place, spark: SparkSession, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
    """Everything there is, in a session of its own; batch -> its rows."""
    session = spark.newSession()
    for key, value in CONF.items():
        session.conf.set(key, value)
    found: Batches = {}

    def take(rows: DataFrame, batch: int) -> None:
        found[batch] = sorted(row.row for row in rows.collect())
        if batch == fail_after:
            raise InterruptedError("written, not committed")

    writer: Any = place.read(session).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    query = writer.trigger(availableNow=True).start()
    if fail_after is None:
        assert query.awaitTermination(180)
    else:
        with pytest.raises(Exception, match="written, not committed"):
            query.awaitTermination(180)
    return found
