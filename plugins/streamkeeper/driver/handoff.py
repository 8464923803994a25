"""Moves a stateless query to a new checkpoint version, which starts at the exact batch where its predecessor ended."""

from __future__ import annotations

import uuid

from msgspec import structs

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.identity import must_be_there
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.seeding import REBASED, seed, seed_start
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.driver_channel import DriverChannel
from streamkeeper.driver.epoch import Claim, known_at, refuse_lost_output
from streamkeeper.errors import Fenced, SinkAhead
from streamkeeper.model.manifests.sink_capabilities import Numbering
from streamkeeper.model.protocol.output_history import AcceptedLoss, OutputHistory
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import HandedOff, Record
from streamkeeper.sinks.contract import SinkContext
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.system.crash_points import crash_point

NO_BATCH = -1
"""The inherited batch of a version that contains no batch of its parent, for example because the state is given up. Its
first batch is 0.
"""


def hand_over(
    channel: DriverChannel,
    query: Query,
    claim: Claim,
    checkpoint: Tree,
    checkpoints: str,
    state: JobState,
    *,
    accepted: AcceptedLoss | None = None,
) -> JobState:
    """Create the checkpoint of the claimed version, if this version continues another one (its predecessor) and has no
    checkpoint yet. In any case, return the job's present state.

    ``channel``: the access to the store.
    ``query``: the query.
    ``claim``: the query's claim.
    ``checkpoint``: the directory of the claimed version.
    ``checkpoints``: the root directory of checkpoint versions for which the journal records no root.
    ``state``: the journal's state.
    ``accepted``: the loss of the predecessor's output that a person accepted.

    The predecessor's driver is proven terminated, so the predecessor's last batch is final. That batch is recorded
    once, before any file is created from it. If the predecessor has no batch and no inherited position, no checkpoint
    is created. If the predecessor itself continues another version, and the predecessor's checkpoint was never created,
    that checkpoint is created first. Raises CheckpointLost, Fenced, OutputLost, SinkAhead, and the errors of ``seed``.
    """
    version = state.version(claim.query, claim.version)
    if version is None or not version.parent or is_published(checkpoint.fresh()):
        return state
    parent = tree_at(state.checkpoint(claim.query, version.parent, checkpoints))
    must_be_there(parent.fresh(), known_at(channel, state, claim.job, claim.query, version.parent))
    before_it = structs.replace(claim, version=version.parent)
    state = hand_over(channel, query, before_it, parent, checkpoints, state, accepted=accepted)
    if version.batch is None:
        history = state.output_history(claim.query, version.parent)
        last = _last_batch(query, claim, history, parent, accepted=accepted)
        before = state.version(claim.query, version.parent)
        if last is None and before is not None and before.batch == NO_BATCH:
            # The parent has no batch of its own, and was to start where its own parent ended.
            last = NO_BATCH
        if last is None:
            return state
        rebase = capabilities_of(query.sink.kind).numbering is Numbering.REBASE
        begins_anew = last == NO_BATCH or _gives_state_up(state, version)
        state, version = _record(channel, claim, last, NO_BATCH if begins_anew else REBASED if rebase else last)
    source, batch = _source(channel, state, claim.job, version, checkpoints)
    _seed(version, source, batch, checkpoint)
    return state


def _source(
    channel: DriverChannel, state: JobState, job: str, version: CheckpointVersion, checkpoints: str
) -> tuple[Tree, int]:
    """Return the checkpoint and the batch after which a version starts. Parents without a batch of their own are
    skipped.

    ``state`` is the journal's state, ``channel`` the access to the store, ``job`` the job, and ``version`` the new
    version. ``checkpoints``: the root of versions whose records name none.
    """
    ancestor = version
    while ancestor.parent_batch == NO_BATCH and (before := state.version(version.query, ancestor.parent)) is not None:
        ancestor = before
    assert ancestor.parent_batch is not None
    source = tree_at(state.checkpoint(version.query, ancestor.parent, checkpoints))
    if ancestor is not version:
        must_be_there(source.fresh(), known_at(channel, state, job, version.query, ancestor.parent))
    return source, ancestor.parent_batch


def _gives_state_up(state: JobState, version: CheckpointVersion) -> bool:
    """Whether the operation that created the version gave up the state."""
    operation = state.operations.get(version.operation)
    way = operation.transitions.get(version.query) if operation is not None else None
    return way is not None and way.version == version.version and way.state_given_up


def _last_batch(
    query: Query, claim: Claim, history: OutputHistory, checkpoint: Tree, *, accepted: AcceptedLoss | None
) -> int | None:
    """Return the last batch whose rows the output has. If the output does not record batches, return the last committed
    batch.

    ``query`` is the query and ``claim`` its claim. ``history`` is the predecessor's history and ``checkpoint`` its
    directory. ``accepted``: the loss that a person accepted.
    """
    parent = history.version
    writer = query.sink.open(
        SinkContext(job=claim.job, query=claim.query, version=parent, epoch=0, output_mode=query.output_mode.lower())
    )
    try:
        refuse_lost_output(writer, claim.query, claim.output, history, checkpoint, accepted=accepted)
        written = writer.last_batch()
    finally:
        writer.close()
    planned, committed = last_planned(checkpoint.fresh()), last_committed(checkpoint.fresh())
    if written is None:
        return committed
    if planned is None or written > planned:
        raise SinkAhead(
            f"query {claim.query}: output {claim.output} is ahead of checkpoint {parent}: the output holds batch"
            f" {written} of {parent}, but checkpoint {parent} has"
            f" {'no batch' if planned is None else f'no batch after {planned}'}",
            hint="restore the checkpoint, or deploy with `--strategy rebuild`",
        )
    return written if committed is None else max(written, committed)


def _record(channel: DriverChannel, claim: Claim, last: int, number: int) -> tuple[JobState, CheckpointVersion]:
    def decide(state: JobState) -> Record | None:
        superseded = claim.superseded_by(state)
        if superseded:
            raise Fenced(f"query {claim.query}: {superseded}")
        known = state.version(claim.query, claim.version)
        if known is None or known.batch is not None:
            return None
        identity = str(uuid.uuid4())
        return HandedOff(query=claim.query, version=claim.version, parent_batch=last, batch=number, query_id=identity)

    crash_point("driver.handoff.record.before")
    state = channel.append(decide)
    crash_point("driver.handoff.record.after")
    version = state.version(claim.query, claim.version)
    assert version is not None
    return state, version


def _seed(version: CheckpointVersion, source: Tree, batch: int, checkpoint: Tree) -> None:
    identity, target = version.query_id or str(uuid.uuid4()), checkpoint.fresh()
    crash_point("driver.handoff.seed.before")
    if version.batch == NO_BATCH:
        seed_start(source.fresh(), target, batch, query_id=identity)
    else:
        assert version.batch is not None
        seed(source.fresh(), target, batch, number=version.batch, query_id=identity)
    crash_point("driver.handoff.seed.after")
