"""Ensures that a query continues where it was: in the same checkpoint directory, without repeating a committed batch.

The check runs before every start of a run, including restarts in the process, and at the gate for every batch. A
directory can be unmounted, emptied or replaced at any time, and Spark starts over in the directory that it finds.
"""

from __future__ import annotations

from msgspec import structs

from streamkeeper.checkpoints.identity import must_be_there, way_out
from streamkeeper.checkpoints.layout import last_committed
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import CheckpointLost, InputGone
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint


class Continuity:
    """The observed facts about one query's checkpoint, over all runs of the query in this process.

    ``known``: the recorded facts about the checkpoint version. The main thread starts runs, Spark's thread delivers
    batches, and a third thread looks at the sources; each thread writes its own fields.
    """

    def __init__(self, directory: Tree, known: KnownCheckpoint) -> None:
        self._directory = directory
        self._known = known
        self._query_id = known.query_id
        self._done = last_committed(directory.fresh())
        self._admitted: int | None = None
        self._input_gone: InputGone | None = None

    def refuse_input(self, error: InputGone) -> None:
        """Refuse every further batch and every further start of a run, because the input is no longer the input of the
        checkpoint.
        """
        self._input_gone = error

    def check_start(self) -> None:
        """Raise CheckpointLost unless the checkpoint directory matches the records and what this process has observed
        itself. Raises InputGone after ``refuse_input``.
        """
        self._must_have_its_input()
        batches = [batch for batch in (self._known.committed, self._done) if batch is not None]
        must_be_there(self._directory.fresh(), self._now(committed=max(batches, default=None)))
        if self._admitted is not None and not self._directory.fresh().has(f"offsets/{self._admitted}"):
            # Spark would plan the batch again with other rows, and the output may already have the batch of this id.
            raise CheckpointLost(
                f"{self._known.name} has gone back to an older state: the plan of batch {self._admitted} is missing in"
                f" {self._directory.where('')}, although this driver has already run this batch",
                hint=way_out(self._known),
            )

    def note_start(self, query_id: str) -> None:
        """Record that a run started, with Spark's id of the query. From now on the checkpoint directory must exist."""
        self._query_id = query_id

    def check_batch(self, batch_id: int) -> None:
        """Raise CheckpointLost if the batch is already committed, if the directory no longer contains the recorded
        checkpoint, or if the commit of the previous batch is missing although this process has recorded a committed
        batch. Raises InputGone after ``refuse_input``.
        """
        self._must_have_its_input()
        if self._done is not None and batch_id <= self._done:
            raise CheckpointLost(
                f"{self._known.name} has gone back to an older state: Spark now runs batch {batch_id}, although Spark"
                f" has already committed batch {self._done}",
                hint=way_out(self._known),
            )
        must_be_there(self._directory.fresh(), self._now(committed=None))
        before = batch_id - 1
        if self._done is not None and not self._directory.fresh().has(f"commits/{before}"):
            raise CheckpointLost(
                f"{self._known.name} has gone back to an older state: the commit of batch {before} is missing in"
                f" {self._directory.where('')}, although Spark has already committed this batch",
                hint=way_out(self._known),
            )

    def note_batch(self, batch_id: int) -> None:
        """Record that a batch passes the gate, which means that the previous batch was committed."""
        self._admitted = batch_id
        if batch_id > 0:
            self._done = batch_id - 1

    def _must_have_its_input(self) -> None:
        if self._input_gone is not None:
            raise self._input_gone

    def _now(self, *, committed: int | None) -> KnownCheckpoint:
        begun = self._known.begun or bool(self._query_id) or self._done is not None
        return structs.replace(self._known, query_id=self._query_id, committed=committed, begun=begun)
