"""What every kind of source with a promise is held to: handover, rebuild and restore rest on it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from streamkeeper.checkpoints.layout import open_batch
from streamkeeper.checkpoints.reach import compare, position
from streamkeeper.checkpoints.seeding import seed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.sources.known_sources import promise_of

ROWS_A_BATCH = 2
Batches = dict[int, list[str]]


class Place(Protocol):
    """An input of the kind; ``kind``: as a manifest names it."""

    kind: str

    def put(self, rows: list[str]) -> None:
        """Add rows, in this order."""

    def run(self, checkpoint: Path, *, fail_after: int | None = None) -> Batches:
        """Read all that is there, from the beginning or from where the checkpoint stands, ``ROWS_A_BATCH`` a batch.

        Returns batch -> its rows. ``fail_after``: the batch that fails when its rows have been read, before its commit.
        """

    def tree(self, checkpoint: Path) -> Tree:
        """The files of a checkpoint."""

    def take_away(self, checkpoint: Path) -> None:
        """Let a checkpoint be missing from now on."""


class SourceContract:
    """Run against a ``place`` that holds nothing."""

    def test_the_same_offsets_give_the_same_rows(self, place: Place, tmp_path: Path) -> None:
        """A batch that was read, and not committed, has the same rows again, whatever has come meanwhile."""
        assert promise_of(place.kind).replays
        place.put(["a", "b", "c", "d"])
        first = place.run(tmp_path, fail_after=1)
        assert (first, open_batch(place.tree(tmp_path))) == ({0: ["a", "b"], 1: ["c", "d"]}, 1)
        place.put(["e", "f"])
        assert place.run(tmp_path) == {1: ["c", "d"], 2: ["e", "f"]}

    def test_how_far_it_has_read_is_told(self, place: Place, tmp_path: Path) -> None:
        """Two checkpoints that have read the same are equal; of one that has read less, it is told what it lacks."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        place.run(tmp_path / "new")
        place.put(["e", "f"])
        place.run(tmp_path / "old")
        old, new = position(place.tree(tmp_path / "old")), position(place.tree(tmp_path / "new"))
        assert compare(position(place.tree(tmp_path / "old"), 1), new).equal
        assert (compare(old, new).holds, compare(new, old).holds) == (False, True)
        (lacking,) = compare(old, new).sources
        assert (lacking.missing, lacking.total) == (2, 6)

    def test_a_version_goes_on_where_another_has_ended(self, place: Place, tmp_path: Path) -> None:
        """Seeded at its offsets, it reads what came after, nothing twice, and no more of the old version."""
        place.put(["a", "b", "c", "d"])
        place.run(tmp_path / "old")
        seed(place.tree(tmp_path / "old"), place.tree(tmp_path / "new"), 0, number=0, query_id=_NEW_ID)
        place.take_away(tmp_path / "old")
        place.put(["e", "f"])
        assert place.run(tmp_path / "new") == {1: ["c", "d"], 2: ["e", "f"]}


_NEW_ID = "6d2a5f52-3c0a-4a50-9c8e-0d3b6b5c1f12"
