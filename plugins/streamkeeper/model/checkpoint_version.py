"""One checkpoint version of a query, as the records of a job's journal tell it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streamkeeper.model.journal import CheckpointVersionCreated, EpochClaimed, HandedOff, StartOffsetsKnown
from streamkeeper.model.output_history import OutputHistory
from streamkeeper.model.rebuilt import RebuiltVersion


class CheckpointVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version of a query; ``start_offsets`` once its first batch was planned.

    ``parent`` and ``parent_batch``: whose output it carries on, and the last batch of that; ``batch``: the number of
    that batch here, -1 where the version begins without one. ``serves``: False while it was made for an
    appointment that has not come. ``operation``: the deploy that made it, if one did.

    ``root`` and ``installation``: the directory below which it lies, and whose it is, empty where nobody recorded it.
    ``query_id``: Spark's id of the query, empty until it is known. ``begun_at``: the newest batch that its checkpoint
    had when it was made, None for an empty one. ``committed``: the newest batch that the journal
    knows to be committed; the status of ``claimed_by``, the instance that claimed an epoch on it last, may know a
    newer one.
    """

    query: str
    version: str
    release: str
    origin: str
    state_format: str
    start_offsets: tuple[str, ...] | None = None
    parent: str = ""
    parent_batch: int | None = None
    batch: int | None = None
    serves: bool = True
    operation: str = ""
    root: str = ""
    query_id: str = ""
    committed: int | None = None
    claimed_by: str = ""
    installation: str = ""
    begun_at: int | None = None

    @property
    def inherited(self) -> int:
        """The newest batch, in its own numbers, that it did not write itself; -1 for none."""
        known = self.batch
        if known is None:
            known = self.parent_batch if self.parent else self.begun_at
        return -1 if known is None else known


class EpochState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch of one query.

    ``committed``: newest batch of ``version`` when it was claimed, -1 for none; None in copies of before it was kept.
    ``first_epoch`` and ``first_committed``: the same of the first of the consecutive claims on ``version``; 0 and None
    in copies of before they were kept.
    """

    query: str
    output: str
    epoch: int
    instance: str
    generation: int
    version: str
    committed: int | None = None
    first_epoch: int = 0
    first_committed: int | None = None


def output_history(versions: Sequence[CheckpointVersion], version: str) -> OutputHistory:
    """What the output must hold while ``version`` serves, as far as a query's versions say."""
    by_name = {known.version: known for known in versions}
    known = by_name.get(version)
    found = OutputHistory(version=version, inherited=-1 if known is None else known.inherited)
    # A version that never wrote a batch of its own passes on what it has from the one before it.
    while known is not None and known.parent and known.parent_batch is not None:
        parent = by_name.get(known.parent)
        if parent is None or known.parent_batch > parent.inherited:
            return msgspec.structs.replace(found, parent=known.parent, parent_batch=known.parent_batch)
        known = parent
    return found


def checkpoint_location(root: str, job: str, query: str = "", version: str = "") -> str:
    """``<root>/<job>/<query>/<version>``: a checkpoint version; with less of it, all those of a query or of a job."""
    return "/".join(part for part in (root.rstrip("/"), job, query, version) if part)


def scratch_location(root: str, instance: str = "") -> str:
    """``<root>/.scratch/<instance>``: what an instance and its executors share, and nobody needs once it is dead; all
    of them without one. No job's name begins with a dot."""
    return checkpoint_location(root, ".scratch", instance)


def created(record: CheckpointVersionCreated) -> CheckpointVersion:
    """A version of which there is its first record only."""
    return CheckpointVersion(
        query=record.query,
        version=record.version,
        release=record.release,
        origin=record.origin,
        state_format=record.state_format,
        parent=record.parent,
        parent_batch=record.parent_batch,
        serves=record.serves,
        operation=record.operation,
        root=record.root,
        query_id=record.query_id,
        committed=record.committed,
        installation=record.installation,
        begun_at=record.committed,
    )


def seen(query: str, version: RebuiltVersion) -> CheckpointVersion:
    """A version as a rebuild of the journal has found it: which release began it is not known."""
    return CheckpointVersion(
        query=query,
        version=version.version,
        release="",
        origin=version.origin,
        state_format="",
        parent=version.parent,
        parent_batch=version.parent_batch,
        batch=version.batch,
        root=version.root,
        query_id=version.query_id,
        committed=version.committed,
        installation=version.installation,
    )


def claimed(before: EpochState | None, record: EpochClaimed) -> EpochState:
    """The epoch after a claim. ``before``: the query's newest epoch until then; None for the first claim."""
    committed = -1 if record.committed is None else record.committed
    first: tuple[int, int | None] = (record.epoch, committed)
    if before is not None and before.version == record.version:
        first = (before.first_epoch, before.first_committed)
    return EpochState(
        query=record.query,
        output=record.output,
        epoch=record.epoch,
        instance=record.instance,
        generation=record.generation,
        version=record.version,
        committed=committed,
        first_epoch=first[0],
        first_committed=first[1],
    )


def opened(version: CheckpointVersion, record: EpochClaimed) -> CheckpointVersion:
    """The version after a claim, where it is its own."""
    if version.version != record.version:
        return version
    return msgspec.structs.replace(
        version,
        claimed_by=record.instance,
        query_id=version.query_id or record.query_id,
        committed=_newest(version.committed, record.committed),
    )


def completed(version: CheckpointVersion, record: StartOffsetsKnown | HandedOff) -> CheckpointVersion:
    """The version with where it began, where it is its own and nothing was known of that."""
    if version.version != record.version:
        return version
    match record:
        case StartOffsetsKnown(offsets=offsets) if version.start_offsets is None:
            # Some batch was committed by then: which, the status tells.
            committed = _newest(version.committed, 0)
            query_id = version.query_id or record.query_id
            return msgspec.structs.replace(version, start_offsets=offsets, query_id=query_id, committed=committed)
        case HandedOff() if version.batch is None:
            return msgspec.structs.replace(
                version,
                parent_batch=record.parent_batch,
                batch=record.batch,
                query_id=version.query_id or record.query_id,
            )
        case _:
            return version


def _newest(*batches: int | None) -> int | None:
    return max((batch for batch in batches if batch is not None), default=None)
