"""The batches that an output must contain according to its checkpoint, and the batches that the output lacks.

A batch is written to its output before Spark commits it in the checkpoint. The output's own record must therefore name
the last committed batch or a later one, since a batch without rows is recorded too. If the record does not, the output
is missing, was emptied, or is an older copy.
"""

from __future__ import annotations

import msgspec


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An output's own record of the epochs and batches of one query's checkpoint versions."""

    gone: str = ""
    """The missing part of the current output, as a phrase; empty if it is complete."""
    epoch: int = 0
    """The newest epoch in the record; 0 if it contains no epoch."""
    last: dict[str, int] = {}
    """Checkpoint version -> its newest batch in the output."""
    every_version: bool = False
    """Whether the record keeps all versions; otherwise it keeps only the version that wrote last."""


class OutputHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded facts about the batches of a checkpoint version, including the batches that it inherited."""

    version: str
    """The version."""
    inherited: int = -1
    """The newest batch, in this version's numbers, that an earlier version wrote; -1 for none."""
    parent: str = ""
    """The earlier version that wrote the inherited batch; empty for none."""
    parent_batch: int = -1
    """The number of the inherited batch in the earlier version; -1 for none."""
    epoch: int = 0
    """The newest epoch claimed on this version; 0 for none."""
    epoch_committed: int | None = None
    """The newest batch that was committed when that epoch was claimed; None if not recorded."""
    first_epoch: int = 0
    """The first of the consecutive epochs claimed on this version; 0 if not recorded."""
    first_committed: int | None = None
    """The newest batch that was committed when that first epoch was claimed; None if not recorded."""
    parent_first_epoch: int = 0
    """The same as ``first_epoch``, but for ``parent``."""
    parent_first_committed: int | None = None
    """The same as ``first_committed``, but for ``parent``."""
    beside: bool = False
    """Whether this version's own batches up to its very first claim were written next to the current output, as a
    shadow.

    The first fence of the version puts them in the output's place.
    """

    def expects(self, committed: int | None) -> tuple[str, int] | None:
        """Return version and number of the newest batch that the output must contain; None if no such batch is known.

        ``committed`` is the newest batch that this version has committed, None if unknown.
        """
        if committed is not None and committed > self.inherited:
            return self.version, committed
        return (self.parent, self.parent_batch) if self.parent and self.parent_batch >= 0 else None


class AcceptedLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of output that a person accepted for one operation, as the assessment reported it.

    ``batch``: the newest committed batch that the output may lack.
    ``made``: the checkpoint version that the operation created afterwards; empty if it created none. Batches of this
    version have numbers of their own, and the acceptance does not cover them.
    """

    batch: int
    made: str = ""

    def covers(self, version: str, batch: int) -> bool:
        """Whether the person accepted that the output lacks ``batch`` of ``version``."""
        return version != self.made and batch <= self.batch


def find_output_loss(history: OutputHistory, committed: int | None, record: OutputRecord) -> str:
    """Return evidence that the output lacks committed batches, as a phrase; empty if there is no such evidence."""
    expected = history.expects(committed)
    if expected is None:
        return ""
    version, batch = expected
    proof = f"batch {batch} of {version} was committed"
    held = record.last.get(version)
    # A shadow version exists before its output. The output is created when the epoch's fence is written to it, and not
    # by the claim of the epoch: only a batch committed after the claim proves that the fence was written.
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
    if own and history.beside and (not history.first_epoch or record.epoch < history.first_epoch):
        # The version's first fence is not raised, so its batches must still be beside the output.
        return f"it holds no batch of {version}, and {proof}"
    # Another version wrote last. A batch that was committed after an epoch's claim proves that this epoch's fence was
    # written. The first claim proves most, because a driver that restarts without input claims again without commits.
    epoch, known = history.first_epoch, history.first_committed
    if not own:
        epoch, known = history.parent_first_epoch, history.parent_first_committed
    elif not epoch:
        epoch, known = history.epoch, history.epoch_committed
    if known is not None and batch > known and record.epoch < epoch:
        return f"its epoch is {record.epoch}, and {proof} under epoch {epoch} or a later one"
    return ""
