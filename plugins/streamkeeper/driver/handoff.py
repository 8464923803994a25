"""Handing a query over: a new checkpoint version begins at the exact batch at which its predecessor has ended."""

from __future__ import annotations

import uuid

from msgspec import structs

from streamkeeper.checkpoints.identity import must_be_there
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.publishing import is_published
from streamkeeper.checkpoints.seeding import REBASED, seed, seed_start
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.crash_points import crash_point
from streamkeeper.definition import Query
from streamkeeper.driver.control import StoreLine
from streamkeeper.driver.epoch import Claim, known_at, refuse_lost_output
from streamkeeper.errors import Fenced, SinkAhead
from streamkeeper.model.checkpoint_version import CheckpointVersion
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import HandedOff, Record
from streamkeeper.model.output_history import AcceptedLoss, OutputHistory
from streamkeeper.model.sink_capabilities import Numbering, capabilities_of
from streamkeeper.sinks.contract import SinkContext

NO_BATCH = -1
"""Where the state is given up the new version holds no batch of the old one: its first is 0."""


def hand_over(
    line: StoreLine,
    query: Query,
    claim: Claim,
    checkpoint: Tree,
    checkpoints: str,
    state: JobState,
    *,
    accepted: AcceptedLoss | None = None,
) -> JobState:
    """Make the claimed version's checkpoint if it is to be handed over and is not there; returns the state after it.

    Its predecessor is proven dead, so that its last batch stays the last one; it is recorded once, before anything is
    made of it. Where the predecessor has come to no batch there is nothing to carry over; one that was to be handed
    over itself, and whose driver died before, is made first. ``checkpoints``: the root of versions whose records name
    none. ``accepted``: the loss of the predecessor's output that a person accepted. Raises CheckpointLost, Fenced,
    OutputLost, SinkAhead, and what ``seed`` raises.
    """
    version = state.version(claim.query, claim.version)
    if version is None or not version.parent or is_published(checkpoint.fresh()):
        return state
    parent = tree_at(state.checkpoint(claim.query, version.parent, checkpoints))
    must_be_there(parent.fresh(), known_at(line, state, claim.job, claim.query, version.parent))
    before_it = structs.replace(claim, version=version.parent)
    state = hand_over(line, query, before_it, parent, checkpoints, state, accepted=accepted)
    if version.batch is None:
        history = state.output_history(claim.query, version.parent)
        last = _last_batch(query, claim, history, parent, accepted=accepted)
        before = state.version(claim.query, version.parent)
        if last is None and before is not None and before.batch == NO_BATCH:
            # It has come to no batch of its own, and was to begin where the one before it ended.
            last = NO_BATCH
        if last is None:
            return state
        rebase = capabilities_of(query.sink.kind).numbering is Numbering.REBASE
        begins_anew = last == NO_BATCH or _gives_state_up(state, version)
        state, version = _record(line, claim, last, NO_BATCH if begins_anew else REBASED if rebase else last)
    source, batch = _source(line, state, claim.job, version, checkpoints)
    _seed(version, source, batch, checkpoint)
    return state


def _source(
    line: StoreLine, state: JobState, job: str, version: CheckpointVersion, checkpoints: str
) -> tuple[Tree, int]:
    """The checkpoint, and its batch, at whose end a version begins: past those that hold no batch of their own."""
    ancestor = version
    while ancestor.parent_batch == NO_BATCH and (before := state.version(version.query, ancestor.parent)) is not None:
        ancestor = before
    assert ancestor.parent_batch is not None
    source = tree_at(state.checkpoint(version.query, ancestor.parent, checkpoints))
    if ancestor is not version:
        must_be_there(source.fresh(), known_at(line, state, job, version.query, ancestor.parent))
    return source, ancestor.parent_batch


def _gives_state_up(state: JobState, version: CheckpointVersion) -> bool:
    """What the operation that the version was made for has decided of it."""
    operation = state.operations.get(version.operation)
    way = operation.ways.get(version.query) if operation is not None else None
    return way is not None and way.version == version.version and way.state_given_up


def _last_batch(
    query: Query, claim: Claim, history: OutputHistory, checkpoint: Tree, *, accepted: AcceptedLoss | None
) -> int | None:
    """The last batch whose rows the output holds, as far as it can tell, else the last that was committed."""
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
            f"query {claim.query}: output {claim.output} holds batch {written} of {parent}, its checkpoint knows"
            f" {'none' if planned is None else f'up to {planned}'}",
            hint="restore the checkpoint, or rebuild",
        )
    return written if committed is None else max(written, committed)


def _record(line: StoreLine, claim: Claim, last: int, number: int) -> tuple[JobState, CheckpointVersion]:
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
    state = line.append(decide)
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
