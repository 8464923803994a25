"""The state of a query: the rows that its batches have added up, in the files of one HDFS-backed state store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.simulation.input import InputFiles
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.model.manifests.manifest import Operator, StateColumn

if TYPE_CHECKING:
    from harness.simulation.world import World

OPERATOR = Operator(
    kind="aggregate",
    keys=("k",),
    expressions=("k", "sum(x)"),
    upstream="~Aggregate [k], [k, sum(x)]",
    key_columns=(StateColumn(meaning="key(source 0.x)", type="string"),),
    values=(StateColumn(meaning="sum(source 0.x)", type="long"),),
    shape=("source 0",),
    resolved=True,
)
_STORE = "state/0/0"
_METADATA = {
    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1}],
}
_DESCRIPTIONS = {
    "state/0/_metadata/metadata": b"v1\n" + json.dumps(_METADATA).encode(),
    f"{_STORE}/_metadata/schema": b"\x00\x02v2",
}
_SNAPSHOT_EVERY = 5
"""A snapshot is written after this many changes; Spark writes one after ten."""


class StateLost(Exception):
    """Raised when Spark cannot load the state of a batch, because a file of it is missing."""


class StateStore:
    """The state as one run sees it: it is read once, and then kept in memory."""

    def __init__(self, world: World, tree: Tree, *, whole: bool = True) -> None:
        """Open the state; ``whole``: whether every batch must continue with the rows that follow those of the batch
        before it.
        """
        self._world, self._tree, self._whole = world, tree, whole
        self._loaded: dict[int, tuple[int, ...]] = {0: ()}
        """Version -> the rows in it."""

    def add(self, batch: int, rows: Sequence[int]) -> None:
        """Add the rows of a batch, which creates the version after it; a batch that is rerun replaces its version."""
        before = self.load(batch)
        if twice := set(before).intersection(rows):
            self._world.scheduler.break_rule(f"batch {batch} adds row {min(twice)} to a state that has it")
        after = tuple(sorted({*before, *rows}))
        # An operation may fall back to a version that had not read the last rows of a topic that is gone.
        reached = self._world.input.begin if 0 in after else 0
        gone = {row for row in self._world.input.gaps(set(after)) if row >= reached}
        if self._whole and self._world.rules.no_gaps and gone and not self._may_lack(gone):
            self._world.scheduler.break_rule(f"the state after batch {batch} lacks a row below {after[-1]}")
        content = json.dumps(after).encode()
        for path, description in _DESCRIPTIONS.items():
            if not self._tree.has(path):
                self._put(path, description)
        self._put(f"{_STORE}/{batch + 1}.delta", content)
        if (batch + 1) % _SNAPSHOT_EVERY == 0:
            self._put(f"{_STORE}/{batch + 1}.snapshot", content)
        self._loaded = {batch: before, batch + 1: after}

    def _may_lack(self, rows: set[int]) -> bool:
        """Return whether this is a shadow that never catches up, because the files of these rows were deleted before it
        could list them.
        """
        world = self._world
        removed = world.input.removed if isinstance(world.input, InputFiles) else set()
        return rows <= removed and world.current_checkpoint() != self._tree.where("")

    def load(self, version: int) -> tuple[int, ...]:
        """Return the rows in a version, from the newest snapshot and every change after it; raises StateLost."""
        if version in self._loaded:
            return self._loaded[version]
        self._world.scheduler.seam()
        there = set(self._tree.fresh().files(_STORE))
        snapshot = max((number for number in range(version + 1) if f"{number}.snapshot" in there), default=0)
        for number in range(snapshot + 1, version + 1):
            if f"{number}.delta" not in there:
                raise StateLost(f"{_STORE}/{number}.delta does not exist")
        name = f"{version}.snapshot" if snapshot == version else f"{version}.delta"
        return tuple(json.loads(self._tree.read(f"{_STORE}/{name}")))

    def _put(self, path: str, content: bytes) -> None:
        files, place = self._world.files, self._tree.where(path)
        self._world.scheduler.seam()
        if files.get(place) is not None:
            files.remove(place)
        files.create(place, content)


def export_state(checkpoint: Path, target: Path, *, batch: int | None = None) -> None:
    """Write one file per state store, in place of ``exporting.export_state``, whose process reads the state with
    Spark.
    """
    del checkpoint
    target.mkdir(parents=True)
    (target / "0.parquet").write_text(f"state after batch {batch}")
