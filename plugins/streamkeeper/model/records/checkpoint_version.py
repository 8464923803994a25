"""One checkpoint version of a query, as recorded in a job's journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamkeeper.model.protocol.output_history import OutputHistory
from streamkeeper.model.records.journal_records import (
    CheckpointVersionCreated,
    EpochClaimed,
    HandedOff,
    StartOffsetsKnown,
)
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.rebuilt import RebuiltVersion


class CheckpointVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint version of a query."""

    query: str
    """The query."""
    version: str
    """The version's name."""
    release: str
    """The release that created it."""
    origin: str
    """How it was created, for a person."""
    state_format: str
    """The format of its state."""
    start_offsets: tuple[str, ...] | None = None
    """Start offsets of the version, one JSON text per source; None until its first batch was planned."""
    parent: str = ""
    """The version whose output this version continues; empty without a parent."""
    parent_batch: int | None = None
    """The last batch that the parent wrote to the output; None without a parent or until the batch is recorded."""
    batch: int | None = None
    """The number of ``parent_batch`` in this version, -1 if the version starts without a batch."""
    serves: bool = True
    """Whether the version can be current without an appointment.

    False if its creation was recorded with False, until a second record of its creation has True.
    """
    operation: str = ""
    """The deploy that created the version; empty if no deploy did."""
    root: str = ""
    """The directory below which it is stored; empty if not recorded."""
    query_id: str = ""
    """Spark's id of the query; empty until it is recorded."""
    committed: int | None = None
    """The newest committed batch according to the journal.

    The status of the driver ``claimed_by`` may report a newer batch.
    """
    claimed_by: str = ""
    """The instance that last claimed an epoch on this version."""
    installation: str = ""
    """The installation that owns it; empty if not recorded."""
    begun_at: int | None = None
    """The newest batch in the checkpoint when the version was created; None for an empty checkpoint."""
    claim: EpochState | None = None
    """The newest epoch that was claimed on it; None before the first claim, and in older copies."""
    topics: dict[str, str] = {}
    """Kafka topic -> its id when a driver last claimed this version; empty if not recorded."""
    first_topics: dict[str, str] = {}
    """Kafka topic -> its id at the first claim of this version that recorded it."""
    earlier_topics: tuple[EarlierTopics, ...] = ()
    """The ids before each claim at which one differed, oldest first."""

    @property
    def inherited(self) -> int:
        """The newest batch that an earlier version wrote, in this version's numbering; -1 without such a batch."""
        known = self.batch
        if known is None:
            known = self.parent_batch if self.parent else self.begun_at
        return -1 if known is None else known


class EarlierTopics(msgspec.Struct, frozen=True, kw_only=True):
    """The Kafka topics to which the offsets of a version's older batches belong."""

    batch: int
    """The newest of the batches whose offsets belong to ``topics``."""
    topics: dict[str, str]
    """Kafka topic -> its id when these batches were read."""


class EpochState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest epoch of one query."""

    query: str
    """The query."""
    output: str
    """The output's identity."""
    epoch: int
    """The epoch."""
    instance: str
    """The instance that claimed it."""
    generation: int
    """The generation of that instance."""
    version: str
    """The checkpoint version on which it was claimed."""
    committed: int | None = None
    """Newest batch of ``version`` at the claim, -1 for none; None in older copies."""
    first_epoch: int = 0
    """The first of the consecutive epochs claimed on ``version``; 0 in older copies."""
    first_committed: int | None = None
    """Newest batch of ``version`` at that first claim; None in older copies."""
    opens: bool = False
    """Whether no epoch had ever been claimed on ``version`` before ``first_epoch``; False in older copies."""


def output_history(versions: Sequence[CheckpointVersion], version: str, newest: EpochState | None) -> OutputHistory:
    """Return the batches that the output must contain while ``version`` is current.

    ``versions``: all versions of the query; ``newest``: the query's newest epoch, None without one.
    """
    by_name = {known.version: known for known in versions}
    known = by_name.get(version)
    inherited = -1 if known is None else known.inherited
    found = OutputHistory(
        version=version, inherited=inherited, beside=_was_beside(known), **_claims(version, known, newest)
    )
    # A parent without a batch of its own adds nothing: the batches are those of the parent's parent.
    while known is not None and known.parent and known.parent_batch is not None:
        parent = by_name.get(known.parent)
        if parent is None or known.parent_batch > parent.inherited:
            first = _claims(known.parent, parent, newest)
            return msgspec.structs.replace(
                found,
                parent=known.parent,
                parent_batch=known.parent_batch,
                parent_first_epoch=first.get("first_epoch", 0),
                parent_first_committed=first.get("first_committed"),
            )
        known = parent
    return found


def lineage_of(versions: Sequence[CheckpointVersion], version: str) -> tuple[OutputSegment, ...]:
    """Return the segments of the output while ``version`` is current, oldest first, with those of ancestors without a
    committed batch, which end at -1: the output may have a part of their batch 0.

    ``versions``: all versions of the query.
    """
    found = [OutputSegment(version)]
    for known in _with_parents(versions, version):
        if known.parent:
            found.append(OutputSegment(known.parent, -1 if known.parent_batch is None else known.parent_batch))
    return tuple(reversed(found))


def known_topics(versions: Sequence[CheckpointVersion], version: str) -> dict[str, str]:
    """Return Kafka topic -> the id of the topic to which the offsets in ``version`` belong.

    A version that continues an earlier version also has the offsets of that version. ``versions``: all versions of the
    query.
    """
    found: dict[str, str] = {}
    for known in _with_parents(versions, version):
        found = known.topics | found
    return found


def topics_at(versions: Sequence[CheckpointVersion], version: str, batch: int) -> dict[str, str]:
    """Return Kafka topic -> the id of the topic to which the offsets of a batch of ``version`` belong.

    ``versions``: all versions of the query.
    """
    known = known_topics(versions, version)
    earlier = [each for found in versions if found.version == version for each in found.earlier_topics]
    return next((known | each.topics for each in earlier if batch <= each.batch), known)


def topics_of_the_first_rows(versions: Sequence[CheckpointVersion], version: str) -> dict[str, str]:
    """Return Kafka topic -> the id of the topic from which the oldest rows in the output of ``version`` came.

    A version that continues another one also continues its output. ``versions``: all versions of the query.
    """
    found: dict[str, str] = {}
    for known in _with_parents(versions, version):
        found |= known.first_topics
    return found


def _with_parents(versions: Sequence[CheckpointVersion], version: str) -> Iterator[CheckpointVersion]:
    by_name = {known.version: known for known in versions}
    known = by_name.pop(version, None)
    while known is not None:
        yield known
        known = by_name.pop(known.parent, None)


def _was_beside(known: CheckpointVersion | None) -> bool:
    """Whether a deploy wrote the version's own batches up to its first claim next to the current output, not
    into it.
    """
    if known is None or not known.operation:
        return False
    return known.claim.opens if known.claim is not None else not known.claimed_by


def _claims(version: str, known: CheckpointVersion | None, newest: EpochState | None) -> dict[str, Any]:
    """Return the fields of a history that prove the output's epoch."""
    is_newest = newest is not None and newest.version == version
    # If another version has claimed since, the output's epoch is still at least that of this version's own claim.
    claim = newest if is_newest else known.claim if known is not None else None
    if claim is None:
        return {}
    first = {"first_epoch": claim.first_epoch, "first_committed": claim.first_committed}
    return {"epoch": claim.epoch, "epoch_committed": claim.committed, **first} if is_newest else first


def checkpoint_location(root: str, job: str, query: str = "", version: str = "") -> str:
    """Return ``<root>/<job>/<query>/<version>``, or the folder of the query or job if the rest is empty."""
    return "/".join(part for part in (root.rstrip("/"), job, query, version) if part)


def scratch_location(root: str, instance: str = "") -> str:
    """Return ``<root>/.scratch/<instance>``, the scratch space that an instance shares with its executors.

    No process needs that space after the instance has terminated. Without ``instance`` the result is the folder of all
    scratch spaces. It cannot be a job's folder, because no job's name starts with a dot.
    """
    return checkpoint_location(root, ".scratch", instance)


def created(record: CheckpointVersionCreated) -> CheckpointVersion:
    """Return the new checkpoint version that a record of its creation describes."""
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
        topics=record.topics,
        first_topics=record.topics,
    )


def seen(query: str, version: RebuiltVersion) -> CheckpointVersion:
    """Return a version that was found while rebuilding the journal; the release that created it is unknown."""
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


def claimed(before: EpochState | None, record: EpochClaimed, *, opens: bool) -> EpochState:
    """Return the epoch after a claim.

    ``before``: the query's previous epoch, None for the first claim; ``opens``: whether the version was never claimed.
    """
    committed = -1 if record.committed is None else record.committed
    first: tuple[int, int | None] = (record.epoch, committed)
    if before is not None and before.version == record.version:
        first, opens = (before.first_epoch, before.first_committed), before.opens
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
        opens=opens,
    )


def opened(version: CheckpointVersion, record: EpochClaimed, claim: EpochState) -> CheckpointVersion:
    """Return the version after a claim; unchanged if the claim is on another version."""
    if version.version != record.version:
        return version
    earlier = version.earlier_topics
    differ = any(version.topics.get(topic, identity) != identity for topic, identity in record.topics.items())
    if differ and record.committed is not None:
        earlier = (*earlier, EarlierTopics(batch=record.committed, topics=version.topics))
    return msgspec.structs.replace(
        version,
        claim=claim,
        claimed_by=record.instance,
        query_id=version.query_id or record.query_id,
        committed=_newest(version.committed, record.committed),
        earlier_topics=earlier,
        topics=version.topics | record.topics,
        first_topics=record.topics | version.first_topics,
    )


def completed(version: CheckpointVersion, record: StartOffsetsKnown | HandedOff) -> CheckpointVersion:
    """Return the version with the start offsets or the inherited last batch that ``record`` names.

    Return it unchanged if ``record`` is about another version, or if that information is already recorded.
    """
    if version.version != record.version:
        return version
    match record:
        case StartOffsetsKnown(offsets=offsets) if version.start_offsets is None:
            # This record proves that a batch was committed; the driver's status has its number.
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
