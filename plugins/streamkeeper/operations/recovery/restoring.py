"""Restore a deployed query: a snapshot becomes its next checkpoint version, from which the next deploy continues.

The output is asked which batches it contains beyond the snapshot. These batches are written a second time, and the plan
announces them. A table replaces their rows by key; a table without a key deletes them first. For a topic or a user's
function the restore is refused, unless the output has no such batch or a person accepts the repetition. The restore is
also refused while a driver could still write.

One record names the version before it is filled, and a second record makes it current. Two concurrent restores
therefore create two versions or fill the same one. Neither changes files of the other or of a later driver.
"""

from __future__ import annotations

import msgspec

from streamkeeper.errors import OperationOpen, OperationRefused
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.manifests.sink_capabilities import Reconciliation
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.checkpoint_version import CheckpointVersion
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import CheckpointVersionCreated, Record
from streamkeeper.model.records.snapshot import Snapshot
from streamkeeper.operations.deploys.version_acts import (
    continues_output,
    created_from,
    fill_version,
    free_version,
    parent_of_restored,
)
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.missing_input import MissingInput, missing_for_restore
from streamkeeper.operations.jobs.observation import DriverObservation, read_job
from streamkeeper.operations.jobs.outdated import must_not_be_outdated
from streamkeeper.operations.jobs.outputs import ask, takes_again, why_not_cut_back
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.sinks.kinds.known_kinds import capabilities_of
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import Show
from streamkeeper.system.crash_points import crash_point


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a restore, with its effects."""

    snapshot: str
    """The snapshot to restore."""
    batch: int
    """The snapshot's batch."""
    current: str
    """The current checkpoint version."""
    version: str
    """The version to create."""
    target: str
    """The directory of the new version."""
    release: str
    """The release that continues in the new version."""
    sink: str
    """The kind of the query's sink."""
    output: str
    """The location that the sink writes."""
    sink_batch: int | None
    """The newest batch of the snapshot's version in the output; None if the output contains none."""
    unknown: str
    """Why ``replayed`` is unknown; else empty."""
    replayed: int | None
    """The number of batches in the output beyond the snapshot; None if unknown."""
    missing: MissingInput = MissingInput()
    """Input that would be reread, but is missing or could not be checked."""
    parent: str = ""
    """The checkpoint version that the new version continues; empty if it continues none."""

    @property
    def sentence(self) -> str:
        """A sentence about the batches that are written a second time and about the loss."""
        return f"{self._written_again}; the restore {self.missing.loss}" if self.missing.loss else self._written_again

    @property
    def _written_again(self) -> str:
        how = takes_again(self.sink, read_once=bool(self.parent))
        if self.replayed is None:
            return (
                f"it is unknown which batches beyond batch {self.batch} {self.output} contains ({self.unknown}); they"
                f" are written again, {how}"
            )
        if self.replayed == 0:
            return f"{self.output} contains no batch beyond batch {self.batch}, so no rows are written again"
        count, them = (f"{self.replayed} batches", "they are") if self.replayed > 1 else ("one batch", "it is")
        beyond = f"{count} beyond batch {self.batch} (up to {self.sink_batch})"
        return f"{self.output} contains {beyond}; {them} written again, {how}"


def plan_restore(installation: Installation, job: str, query: str, snapshot: Snapshot) -> RestorePlan:
    """Plan a restore; write nothing. Raises NotFound, OperationOpen, OperationRefused, JournalOutdated."""
    state = read_job(installation, job)
    must_not_be_outdated(installation, state)
    _must_be_at_rest(installation, state)
    current = state.current_version(query)
    if current is None:
        raise OperationRefused(f"job {job} has no query {query} with a checkpoint", hint="deploy the query first")
    release = state.serving_release or current.release
    if release not in state.described:
        raise OperationRefused(
            f"the release that wrote {current.version} of {job}/{query} is not recorded",
            hint="use `--to` to restore into a directory",
        )
    version = _reserved(state, query, snapshot) or free_version(installation, state, query)
    written = stored_manifests(installation, state, release).get(query)
    if written is None:
        raise OperationRefused(
            f"release {release} of job {job} has no query {query}", hint="use `--to` to restore into a directory"
        )
    sink = written.sink
    holds = ask(installation, state, release, query, sink, snapshot.version)
    unknown = holds.unknown
    if not unknown and snapshot.version != current.version:
        unknown = f"{current.version} has written to the output since"
    beyond = max(0, (-1 if holds.batch is None else holds.batch) - snapshot.batch)
    return RestorePlan(
        snapshot=snapshot.name,
        batch=snapshot.batch,
        current=current.version,
        version=version,
        target=str(installation.checkpoint(state, query, version)),
        release=release,
        sink=sink.kind,
        output=sink.output,
        sink_batch=holds.batch,
        unknown=unknown,
        replayed=None if unknown else beyond,
        missing=missing_for_restore(installation, state, query, snapshot, written, holds),
        parent=parent_of_restored(installation, state, query, snapshot, sink),
    )


def restore_version(
    installation: Installation,
    job: str,
    query: str,
    snapshot: Snapshot,
    *,
    catalogue: Catalogue | None = None,
    accept_replay: bool = False,
    loss_accepted_by: str = "",
    reason: str = "",
    show: Show | None = None,
) -> RestorePlan:
    """Create a checkpoint version from a snapshot, and make it current. A repeated call continues the same version.

    ``installation``: the installation; ``job``, ``query`` and ``snapshot``: what to restore; ``catalogue``: where the
    snapshot is read, None for the installation's own; ``accept_replay``: whether an output that is a user's function
    accepts batches a second time; ``loss_accepted_by`` and ``reason``: who accepts the loss of rows whose input is
    missing, and why (both are kept in the version's origin); ``show``: called with the progress.

    Raises OperationRefused for a driver that may still write, a current version that has changed meanwhile, a user's
    function without ``accept_replay``, or a loss that no entitled person has accepted. Raises the errors of
    ``restore``. After an error the job keeps its current version.
    """
    plan = plan_restore(installation, job, query, snapshot)
    state = read_job(installation, job)
    written = stored_manifests(installation, state, plan.release)[query].sink
    carries_on = continues_output(installation, state, query, snapshot, written)
    _must_take_a_replay(plan, accept_replay=accept_replay, carries_on=carries_on)
    accepted = _accepted_loss(installation, state, plan, f"{job}/{query}", loss_accepted_by, reason)
    refusal = why_not_cut_back(installation, state, plan.release, query, written, snapshot) if carries_on else ""
    if refusal:
        raise OperationRefused(
            refusal,
            hint="if the output cannot be read from here, restore access to it first; otherwise restore a newer"
            " snapshot, or rebuild the output",
        )
    crash_point("restore.record.before")
    state, reserved = _reserve(installation, plan, job, query, snapshot, accepted=accepted)
    crash_point("restore.record.after")
    fill_version(installation, state, query, reserved.version, snapshot, catalogue=catalogue, show=show)
    crash_point("restore.serve.before")
    _let_serve(installation, plan, job, reserved)
    crash_point("restore.serve.after")
    target = str(installation.checkpoint(state, query, reserved.version))
    return msgspec.structs.replace(plan, version=reserved.version, target=target)


def _reserve(
    installation: Installation, plan: RestorePlan, job: str, query: str, snapshot: Snapshot, *, accepted: str
) -> tuple[JobState, CheckpointVersion]:
    """Record the version to fill, or find the record of an interrupted restore of this snapshot.

    ``installation``: the installation; ``plan``, ``job``, ``query`` and ``snapshot``: the restore; ``accepted``: the
    accepted loss, as a phrase of the origin.
    """

    def missing(now: JobState) -> Record | None:
        current = _must_still_serve(installation, now, query, plan)
        if _reserved(now, query, snapshot):
            return None
        name, state_format = free_version(installation, now, query), current.state_format
        created = created_from(installation, now, snapshot, query, name, state_format=state_format)
        return msgspec.structs.replace(
            created,
            release=snapshot.release or plan.release,
            origin=f"{created.origin}{accepted}",
            parent=plan.parent,
            parent_batch=snapshot.batch if plan.parent else None,
        )

    state = installation.journal(job, "restore").append(missing)
    found = state.version(query, _reserved(state, query, snapshot))
    assert found is not None
    return state, found


def _let_serve(installation: Installation, plan: RestorePlan, job: str, reserved: CheckpointVersion) -> None:
    """Record the version as current, unless it is current already."""

    def still_wanted(now: JobState) -> Record | None:
        known = now.version(reserved.query, reserved.version)
        if known is None or known.serves:
            return None
        _must_still_serve(installation, now, reserved.query, plan)
        return CheckpointVersionCreated(
            query=known.query,
            version=known.version,
            release=known.release,
            origin=known.origin,
            state_format=known.state_format,
            parent=known.parent,
            parent_batch=known.parent_batch,
            root=known.root,
            query_id=known.query_id,
            committed=known.committed,
            installation=known.installation,
        )

    installation.journal(job, "restore").append(still_wanted)


def _reserved(state: JobState, query: str, snapshot: Snapshot) -> str:
    """Return the version that an earlier restore of this snapshot recorded but did not make current; empty
    without one.
    """
    named = f"snapshot {snapshot.name} of "
    found = [
        version.version
        for version in state.versions.get(query, ())
        if not version.serves
        and not version.operation
        and not version.claimed_by
        and version.origin.startswith(named)
        # Two stores of snapshots may each contain a snapshot of this name.
        and (version.query_id, version.committed) == (snapshot.query_id, snapshot.batch)
    ]
    return found[-1] if found else ""


def _must_still_serve(installation: Installation, now: JobState, query: str, plan: RestorePlan) -> CheckpointVersion:
    _must_be_at_rest(installation, now)
    current = now.current_version(query)
    if current is None or current.version != plan.current:
        raise OperationRefused(
            f"{now.job}/{query} has a different checkpoint version now", hint="start the restore again"
        )
    return current


def _must_be_at_rest(installation: Installation, state: JobState) -> None:
    if state.open_operation is not None:
        raise OperationOpen(state.job, state.open_operation.operation)
    for owner in state.owners:
        seen = DriverObservation.of(installation, state, owner.instance).liveness
        if seen.life not in (Life.DEAD, Life.ABSENT):
            raise OperationRefused(
                f"driver {owner.instance} of job {state.job} may still write: {seen.why}",
                hint=f"first run `streamkeeper stop {state.job} --reason …`, or use `--to` to restore into a directory",
            )


def _must_take_a_replay(plan: RestorePlan, *, accept_replay: bool, carries_on: bool) -> None:
    can = capabilities_of(plan.sink)
    if can.reconciles is Reconciliation.CUT_BACK and not carries_on:
        raise OperationRefused(
            f"output {plan.output} cannot continue from {plan.snapshot}: the checkpoint of this snapshot wrote to"
            " another output, or the release that wrote the checkpoint is not recorded here",
            hint="use `--to` to restore into a directory, or deploy with `--strategy rebuild`, which writes the output"
            " from the start",
        )
    if not can.takes_again and plan.replayed != 0 and not accept_replay:
        raise OperationRefused(
            plan.sentence, hint=f"use `--accept-replay` if {can.receiver} accepts batches a second time"
        )


def _accepted_loss(
    installation: Installation, state: JobState, plan: RestorePlan, series: str, by: str, reason: str
) -> str:
    """Return the accepted loss, as a phrase for the version's origin; empty without one. Raises OperationRefused.

    ``installation`` and ``state``: the installation and the job's state; ``plan``: the restore; ``series``: of the
    snapshot; ``by`` and ``reason``: of the person.
    """
    if not plan.missing.loss:
        return ""
    if not by:
        raise OperationRefused(
            f"a person must accept that the restore of {series} from {plan.snapshot} {plan.missing.loss}",
            hint="put the files back, or accept the loss with `--accept-loss --reason …`",
        )
    if objection := right_to_answer(installation.settings, state, by).objection(by):
        raise OperationRefused(
            f"the restore of {series} from {plan.snapshot} {plan.missing.loss}, and no authorized person has accepted"
            f" this: {objection}",
            hint="trigger the DAG streaming_recover, which asks an authorized person to accept the loss",
        )
    return f"; {by} accepted that it {plan.missing.loss} ({reason})"
