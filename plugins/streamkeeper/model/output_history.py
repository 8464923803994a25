"""The batches that an output must contain according to its checkpoint, and those that it lacks. Pure.

A batch is written to its output before Spark commits it in the checkpoint. A committed batch therefore proves that the
output's own record names this batch or a later one; a batch without rows is recorded like any other. An output without
that record is missing, was emptied, or is an older copy.
"""

from __future__ import annotations

import msgspec


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An output's own record, for one query's checkpoint versions."""

    gone: str = ""
    """The missing part of the current output, as a clause; empty if it is complete."""
    epoch: int = 0
    """The newest epoch in it."""
    last: dict[str, int] = {}
    """Checkpoint version -> newest batch."""
    every_version: bool = False
    """Whether the record keeps all versions; otherwise only the version that wrote last."""


class OutputHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The own and inherited batches of a checkpoint version."""

    version: str
    """The version."""
    inherited: int = -1
    """Newest batch, in the version's own numbers, that an earlier version wrote; -1 for none."""
    parent: str = ""
    """That earlier version."""
    parent_batch: int = -1
    """The same batch in the earlier version's numbers."""
    epoch: int = 0
    """The newest epoch claimed on this version; 0 for none."""
    epoch_committed: int | None = None
    """Newest batch committed at that claim; None if not recorded."""
    first_epoch: int = 0
    """The first of the consecutive epochs claimed on this version; 0 if not recorded."""
    first_committed: int | None = None
    """Newest batch committed at that first claim; None if not recorded."""

    def expects(self, committed: int | None) -> tuple[str, int] | None:
        """The newest batch that the output must contain, with its checkpoint version; None if no batch is proven."""
        if committed is not None and committed > self.inherited:
            return self.version, committed
        return (self.parent, self.parent_batch) if self.parent and self.parent_batch >= 0 else None


class AcceptedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of output that a person accepted for one operation, as of its assessment.

    ``batch``: newest committed batch that the output may lack.
    ``made``: the checkpoint version that the operation created afterwards, with batch numbers of its own; a loss of
      these is another loss. Empty without one.
    """

    batch: int
    made: str = ""

    def covers(self, version: str, batch: int) -> bool:
        """Whether the output may lack ``batch`` of ``version``."""
        return version != self.made and batch <= self.batch


def find_output_loss(history: OutputHistory, committed: int | None, record: OutputRecord) -> str:
    """The committed batches that the output lacks, as a clause; empty if it lacks none."""
    expected = history.expects(committed)
    if expected is None:
        return ""
    version, batch = expected
    proof = f"batch {batch} of {version} was committed"
    held = record.last.get(version)
    # A shadow version exists before its output does. A claim creates no output, its fence does: only a batch committed
    # after the claim proves that the fence was raised.
    own, before = version == history.version, history.first_committed
    fenced = history.epoch and not (own and before is not None and batch <= before)
    unseen = held is not None and held >= batch and not fenced
    if record.gone and not unseen:
        return f"{record.gone}, and {proof}"
    if held is not None:
        return "" if held >= batch else f"it holds batch {held} of {version}, and {proof}"
    if not record.last:
        return f"it holds no batch, and {proof}"
    if record.every_version:
        return f"it holds no batch of {version}, and {proof}"
    # Another version wrote last. A batch committed since an epoch was claimed proves that epoch's fence. The first
    # claim proves most: a driver that restarts without input claims again and commits nothing.
    epoch, known = history.first_epoch, history.first_committed
    if not epoch:
        epoch, known = history.epoch, history.epoch_committed
    if own and known is not None and batch > known and record.epoch < epoch:
        return f"its epoch is {record.epoch}, and {proof} under epoch {epoch} or a later one"
    return ""
