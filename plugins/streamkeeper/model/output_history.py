"""What an output must hold of the batches that a checkpoint has committed, and what it lacks of them. Pure.

A batch is written to its output before Spark commits it in the checkpoint. So a committed batch proves that the
output's own record names this batch or a later one; a batch without rows is recorded like any other. An output without
that record is missing, was emptied, or is an older copy.
"""

from __future__ import annotations

import msgspec


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an output's own record says, as far as one query's checkpoint versions are concerned.

    ``gone``: what of the serving output is missing, as a clause; empty when it is all there. ``last``: checkpoint
    version -> newest batch. ``every_version``: the record keeps all versions; else only the version that wrote last.
    """

    gone: str = ""
    epoch: int = 0
    last: dict[str, int] = {}
    every_version: bool = False


class OutputHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Which batches of a checkpoint ``version`` are its own, and which it has from an earlier one.

    ``inherited``: newest batch in the version's own numbers that an earlier version wrote, -1 for none; ``parent`` and
    ``parent_batch``: that version and the batch in its numbers. ``epoch``: the newest one claimed on this version, 0
    for none; ``epoch_committed``: newest batch committed when it was claimed, None where it was not recorded.
    ``first_epoch`` and ``first_committed``: the same of the first of its consecutive claims on this version; 0 and None
    where that was not recorded.
    """

    version: str
    inherited: int = -1
    parent: str = ""
    parent_batch: int = -1
    epoch: int = 0
    epoch_committed: int | None = None
    first_epoch: int = 0
    first_committed: int | None = None

    def expects(self, committed: int | None) -> tuple[str, int] | None:
        """The newest batch that the output must hold, with its checkpoint version; None when nothing is proven."""
        if committed is not None and committed > self.inherited:
            return self.version, committed
        return (self.parent, self.parent_batch) if self.parent and self.parent_batch >= 0 else None


class AcceptedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of output that a person accepted for one operation, as it was at its assessment.

    ``batch``: newest committed batch that the output may lack; ``made``: the checkpoint version that the operation made
    afterwards, which counts its batches anew: a loss of these is another one. Empty where it made none.
    """

    batch: int
    made: str = ""

    def covers(self, version: str, batch: int) -> bool:
        """Whether the output may lack ``batch`` of ``version``."""
        return version != self.made and batch <= self.batch


def find_output_loss(history: OutputHistory, committed: int | None, record: OutputRecord) -> str:
    """Which committed batches the output lacks, as a clause; empty when it lacks none."""
    expected = history.expects(committed)
    if expected is None:
        return ""
    version, batch = expected
    proof = f"batch {batch} of {version} was committed"
    held = record.last.get(version)
    # A version that was written unseen exists before its output does. A claim creates no output, its fence does: only
    # a batch committed after the claim proves that the fence was raised.
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
    # Another version wrote last. A batch committed since an epoch was claimed proves that epoch's fence. The first of
    # the claims proves most: a driver that restarts without input claims again and commits nothing.
    epoch, known = history.first_epoch, history.first_committed
    if not epoch:
        epoch, known = history.epoch, history.epoch_committed
    if own and known is not None and batch > known and record.epoch < epoch:
        return f"its epoch is {record.epoch}, and {proof} under epoch {epoch} or a later one"
    return ""
