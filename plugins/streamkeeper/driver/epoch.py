"""Takes a query over: claims its epoch in the journal, raises the fence in its sink, checks that the sink is not
ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.layout import id_there, last_committed, last_planned
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.source_starts import start_offsets
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.errors import Fenced, InvalidInput, JournalOutdated, OutputLost, SinkAhead
from streamkeeper.model.protocol.output_history import AcceptedLoss, OutputHistory, find_output_loss
from streamkeeper.model.records.checkpoint_version import EpochState, lineage_of
from streamkeeper.model.records.epoch_claim import SeenClaim, find_newer, known_epoch, told_outdated, way_out
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import EpochClaimed, Record, StartOffsetsKnown
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint, commits_of, known_checkpoint
from streamkeeper.sinks.contract import SinkContext, SinkWriter, WriterRole
from streamkeeper.system.crash_points import crash_point


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One query's epoch, claimed by one generation of one instance."""

    job: str
    """The job."""
    instance: str
    """The claiming instance."""
    generation: int
    """The claiming generation."""
    query: str
    """The query."""
    version: str
    """The checkpoint version."""
    output: str
    """The output."""
    epoch: int
    """The epoch; for a shadow it is the generation's number."""
    role: WriterRole = WriterRole.SERVING
    """Whether the writer is current or a shadow."""
    installation: str = ""
    """The installation's id, empty if unknown."""

    def superseded_by(self, state: JobState) -> str:
        """Return why this claim is no longer valid according to the journal; empty if it is valid."""
        if self.role is WriterRole.SHADOW:
            return "" if self.instance in (state.shadow, state.appointed) else "the dual run is over"
        if state.appointed != self.instance:
            return f"instance {state.appointed or 'none'} is appointed now, not {self.instance}"
        newest = state.epochs.get(self.query)
        if newest is None or newest.epoch != self.epoch:
            return f"epoch {self.epoch} has been superseded by epoch {newest.epoch if newest else 'none'}"
        return ""


def claim_epoch(
    channel: DriverChannel,
    job: str,
    instance: str,
    generation: int,
    query: Query,
    checkpoint: Tree,
    *,
    installation: str = "",
    seen: Collection[SeenClaim] = (),
    topics: Mapping[str, str] | None = None,
) -> tuple[Claim, JobState]:
    """Claim the next epoch of the query for this process only.

    ``job``, ``instance``, ``generation`` and ``query`` identify the claiming driver and its query; ``channel`` is the
    access to the store. ``checkpoint``: the directory of the claimed version; its present state is recorded with the
    claim. ``installation``: the installation's id, empty if unknown. ``seen``: the claims in the query's output and
    next to the checkpoint. ``topics``: Kafka topic -> its id, of all topics that the query reads.

    Raises Fenced if this instance is not appointed or a newer generation of it has the claim. Raises JournalOutdated if
    the journal is older than ``seen``: another driver may own the next epoch, and the output may not fence it off.
    """
    output, version = query.sink.describe().output, checkpoint.name
    held, committed = id_there(checkpoint.fresh()), last_committed(checkpoint.fresh())

    def decide(state: JobState) -> Record | None:
        if state.appointed != instance:
            other = f"instance {state.appointed}" if state.appointed else "no instance"
            raise Fenced(f"{other} is appointed to job {job}, so {instance} may not write")
        if newer := find_newer(known_epoch(state, query.name), seen):
            raise JournalOutdated(told_outdated(job, query.name, newer), hint=way_out(channel.store, job))
        newest = state.epochs.get(query.name)
        if newest is not None and (newest.instance, newest.generation) == (instance, generation):
            return None
        if newest is not None and newest.instance == instance and newest.generation > generation:
            raise Fenced(f"generation {newest.generation} of {instance} has taken over from generation {generation}")
        return EpochClaimed(
            query=query.name,
            output=output,
            epoch=state.next_epoch(query.name),
            instance=instance,
            generation=generation,
            version=version,
            query_id=held,
            committed=committed,
            topics=dict(topics or {}),
        )

    crash_point("driver.claim.before")
    state = channel.append(decide)
    crash_point("driver.claim.after")
    mine = state.epochs[query.name]
    if (mine.instance, mine.generation) != (instance, generation):
        raise Fenced(f"query {query.name}: generation {mine.generation} of {mine.instance} claimed epoch {mine.epoch}")
    return _claim(job, mine, version, output, installation), state


def _claim(job: str, mine: EpochState, version: str, output: str, installation: str) -> Claim:
    return Claim(
        job=job,
        instance=mine.instance,
        generation=mine.generation,
        query=mine.query,
        version=version,
        output=output,
        epoch=mine.epoch,
        installation=installation,
    )


def shadow_claim(
    job: str, instance: str, generation: int, query: Query, version: str, *, installation: str = ""
) -> Claim:
    """Return a claim for writing a shadow. The claim is not recorded in the journal, and fences only older generations
    that write the same shadow.

    ``job``: the job.
    ``instance``: this instance.
    ``generation``: this generation, which is also the epoch.
    ``query``: the query.
    ``version``: the checkpoint version whose output is the shadow.
    ``installation``: the installation's id, empty if unknown.
    """
    return Claim(
        job=job,
        instance=instance,
        generation=generation,
        query=query.name,
        version=version,
        output=query.sink.describe().output,
        epoch=generation,
        role=WriterRole.SHADOW,
        installation=installation,
    )


def writer_of(query: Query, claim: Claim, state: JobState, *, begun: bool = False) -> SinkWriter:
    """Return a writer under this claim, without raising the output's fence.

    ``begun``: whether the checkpoint version has a batch of its own.
    """
    serves = claim.role is WriterRole.SERVING
    return query.sink.open(
        SinkContext(
            job=claim.job,
            query=claim.query,
            version=claim.version,
            epoch=claim.epoch,
            output_mode=query.output_mode.lower(),
            role=claim.role,
            serving=state.segments(claim.query, claim.version) if serves else (),
            lineage=lineage_of(state.versions.get(claim.query, ()), claim.version) if serves else (),
            installation=claim.installation,
            frame=query.df,
            begun=begun,
        )
    )


def open_writer(
    query: Query,
    claim: Claim,
    checkpoint: Tree,
    state: JobState,
    history: OutputHistory,
    *,
    accepted: AcceptedLoss | None = None,
) -> SinkWriter:
    """Return a writer after raising the output's fence to the claimed epoch.

    ``query``: the query.
    ``claim``: the query's claim.
    ``checkpoint``: the directory of the claimed version.
    ``state``: the journal's state after the claim.
    ``history``: the version's history from before the claim.
    ``accepted``: the loss that a person accepted.

    Raises Fenced when the output has a newer epoch. Raises OutputLost when the output lacks batches that the checkpoint
    has committed. Raises SinkAhead when the sink has batches that the checkpoint lacks: Spark would plan new
    batches under their numbers, and the sink would silently skip the new batches.
    """
    writer = writer_of(query, claim, state, begun=_has_begun(history, checkpoint))
    try:
        # This check comes before the fence, which creates missing parts of an output.
        begins_anew = refuse_lost_output(writer, query.name, claim.output, history, checkpoint, accepted=accepted)
        crash_point("driver.fence.before")
        writer.raise_fence()
        crash_point("driver.fence.after")
        begins_after = _begins_after(state, claim)
        if begins_after is not None:
            writer.seed(begins_after)
            crash_point("driver.handoff.sink.after")
        if begins_anew is not None and begins_anew >= 0:
            writer.begin_after(query.df, begins_anew)
            crash_point("driver.output.begun.after")
        _refuse_if_ahead(writer, claim, last_planned(checkpoint.fresh()))
    except BaseException:
        writer.close()
        raise
    return writer


def look_before_claim(
    job: str, query: Query, history: OutputHistory, checkpoint: Tree, *, accepted: AcceptedLoss | None = None
) -> None:
    """Raise OutputLost in the same cases as ``refuse_lost_output``. The driver calls this before it claims an epoch.
    The call creates nothing.

    ``job``: the job.
    ``query``: the query.
    ``history``: the version's history.
    ``checkpoint``: the directory of the version.
    ``accepted``: the loss that a person accepted.
    """
    context = SinkContext(job=job, query=query.name, version=checkpoint.name, epoch=0)
    writer = query.sink.open(context)
    try:
        refuse_lost_output(writer, query.name, query.sink.describe().output, history, checkpoint, accepted=accepted)
    finally:
        writer.close()


def refuse_lost_output(
    writer: SinkWriter,
    query: str,
    output: str,
    history: OutputHistory,
    checkpoint: Tree,
    *,
    accepted: AcceptedLoss | None = None,
) -> int | None:
    """Raise OutputLost when an output lacks batches that its checkpoint has committed.

    ``writer``: reads the output's record.
    ``query``: the query, for errors.
    ``output``: the output, for errors.
    ``history``: the version's history.
    ``checkpoint``: the directory of the version.
    ``accepted``: the loss that a person accepted.

    If ``accepted`` covers the loss, return the batch after which the output continues without the lost batches. Return
    None if no batch is lost, or if the output has no record of its own and cannot be checked.
    """
    # Read first, because a running driver writes a batch before it commits it.
    committed = last_committed(checkpoint.fresh())
    expected, record = history.expects(committed), writer.read_record()
    loss = "" if record is None else find_output_loss(history, committed, record)
    if not loss or expected is None:
        return None
    if accepted is not None and accepted.covers(*expected):
        return max(history.inherited, -1 if committed is None else committed)
    raise OutputLost(
        f"query {query}: output {output} lacks committed batches: {loss}",
        hint="restore the output, or run `streamkeeper recover` for the job to see the other options",
    )


def _has_begun(history: OutputHistory, checkpoint: Tree) -> bool:
    """Whether the version has a batch of its own.

    A planned batch is sufficient, unless the checkpoint was created with batches of an earlier version. In that case
    the planned batch may be one of those, so a newer committed batch is required.
    """
    if history.inherited < 0:
        return last_planned(checkpoint.fresh()) is not None
    committed = last_committed(checkpoint.fresh())
    return committed is not None and committed > history.inherited


def _begins_after(state: JobState, claim: Claim) -> int | None:
    """Return the last batch inherited from the parent version, whose output this version continues; None if it inherits
    no batch.

    A restored version continues the numbers of its parent.
    """
    version = state.version(claim.query, claim.version)
    if claim.role is WriterRole.SHADOW or version is None or not version.parent or version.parent_batch is None:
        return None
    number = version.parent_batch if version.batch is None else version.batch
    return number if number >= 0 else None


def _refuse_if_ahead(writer: SinkWriter, claim: Claim, planned: int | None) -> None:
    written = writer.last_batch()
    if written is not None and (planned is None or written > planned):
        raise SinkAhead(
            f"query {claim.query}: output {claim.output} is ahead of checkpoint {claim.version}: the output"
            f" holds batch {written} of {claim.version}, but checkpoint {claim.version} has"
            f" {'no batch' if planned is None else f'no batch after {planned}'}",
            hint="restore the checkpoint, or start a new checkpoint version",
        )


def record_start_offsets(channel: DriverChannel, query: Query, version: str, checkpoint: Tree, sources: int) -> bool:
    """Record in the journal the offsets at which a checkpoint version started, unless they are already recorded. Return
    False, and record nothing, if the version's first batch is not planned yet.

    ``channel``: the access to the store.
    ``query``: the query.
    ``version``: the checkpoint version.
    ``checkpoint``: the directory of the version.
    ``sources``: the number of the query's sources.
    """
    if last_planned(checkpoint.fresh()) is None:
        return False
    offsets, held = start_offsets(checkpoint.fresh(), sources), id_there(checkpoint.fresh())

    def decide(state: JobState) -> Record | None:
        found = next((known for known in state.versions.get(query.name, ()) if known.version == version), None)
        if found is None or found.start_offsets is not None:
            return None
        return StartOffsetsKnown(query=query.name, version=version, offsets=offsets, query_id=held)

    channel.append(decide)
    return True


def checkpoint_of(state: JobState, checkpoints: str, query: str, versions: Mapping[str, str]) -> Tree:
    """Return the checkpoint ``<root>/<job>/<query>/<version>`` of a query.

    The root is the version's own, or ``checkpoints`` if no root is recorded. ``versions``: query -> version, from the
    ``go`` command. Raises InvalidInput if ``versions`` has no version for the query.
    """
    if query not in versions:
        raise InvalidInput(f"query {query} has no assigned checkpoint version")
    return tree_at(state.checkpoint(query, versions[query], checkpoints))


def known_at(
    channel: DriverChannel,
    state: JobState,
    job: str,
    query: str,
    version: str,
    *,
    commits: Mapping[str, int] | None = None,
) -> KnownCheckpoint:
    """Return the facts about a version from the journal, and from the last status of the driver that claimed it.

    ``channel``: the access to the store.
    ``state``: the journal's state.
    ``job``: the job.
    ``query``: the query.
    ``version``: the checkpoint version.
    ``commits``: ``<query>/<version>`` -> the newest committed batch, if this instance claimed the version itself; else
    None, and the other driver's last status is read.
    """
    recorded = state.version(query, version)
    if recorded is None:
        return KnownCheckpoint(series=f"{job}/{query}", version=version)
    if commits is None:
        commits = commits_of(channel.read_status_of(recorded.claimed_by)) if recorded.claimed_by else {}
    return known_checkpoint(job, recorded, commits)
