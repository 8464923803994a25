"""Restoring a deployed query: a snapshot becomes its next checkpoint version, which the next deploy goes on from.

What is written again is told before: batches that the sink holds beyond the snapshot come a second time. A table takes
them, row by row, by key; for a sink that cannot, the restore is refused. No driver may be left that could still write.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.crash_points import crash_point
from streamkeeper.errors import OperationOpen, OperationRefused
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import Record
from streamkeeper.model.liveness import Life
from streamkeeper.model.snapshot import Snapshot
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.registered import stored_manifests
from streamkeeper.operations.sites import Site
from streamkeeper.operations.version_acts import created_from, set_aside
from streamkeeper.registry.control import Control
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import Show, restore

TABLE, FILE = "table", "file"
TAKES = {TABLE: "each row replaces the one with its key", FILE: "and readers see the batches before them once"}
"""How a sink takes rows a second time."""


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore would do.

    ``sink_batch``: the newest batch of the present version that its driver reported, None when it reported none;
    ``replayed``: how many batches the sink holds beyond the snapshot, None where that is unknown.
    """

    snapshot: str
    batch: int
    version: str
    target: str
    release: str
    sink: str
    output: str
    sink_batch: int | None
    replayed: int | None

    @property
    def sentence(self) -> str:
        """What comes a second time, for a person."""
        if self.replayed == 0:
            return f"{self.output} holds nothing beyond batch {self.batch}: nothing is written again"
        beyond = "an unknown number of batches" if self.replayed is None else f"{self.replayed} batches"
        until = "" if self.sink_batch is None else f" (up to {self.sink_batch})"
        how = TAKES.get(self.sink, "and your function gets them again")
        return f"{self.output} holds {beyond} beyond batch {self.batch}{until}; they are written again, {how}"


def plan_restore(site: Site, job: str, query: str, snapshot: Snapshot) -> RestorePlan:
    """Look before anything is written; raises NotFound, OperationOpen or OperationRefused."""
    state = read_job(site, job)
    _must_be_at_rest(site, state)
    current = state.current_version(query)
    if current is None:
        raise OperationRefused(f"job {job} has no query {query} with a checkpoint", hint="deploy it first")
    version = state.next_version(query)
    release = state.serving_release or current.release
    sink = stored_manifests(site, state, release)[query].sink
    sink_batch = _reported(site, state, query, current.version)
    same_version = snapshot.version == current.version
    return RestorePlan(
        snapshot=snapshot.name,
        batch=snapshot.batch,
        version=version,
        target=str(Path(site.settings.checkpoints) / job / query / version),
        release=release,
        sink=sink.kind,
        output=sink.output,
        sink_batch=sink_batch if same_version else None,
        replayed=max(0, sink_batch - snapshot.batch) if sink_batch is not None and same_version else None,
    )


def restore_version(
    site: Site, job: str, query: str, snapshot: Snapshot, *, accept_replay: bool = False, show: Show | None = None
) -> RestorePlan:
    """Write the next checkpoint version from a snapshot and record it; again after a crash is fine.

    Raises OperationRefused (a driver that lives, a user's function without ``accept_replay``), and what
    ``restore`` raises; then the job is as it was.
    """
    plan = plan_restore(site, job, query, snapshot)
    _must_take_a_replay(plan, snapshot, accept_replay)
    target = Path(plan.target)
    set_aside(target)
    restore(Catalogue(site.snapshots, snapshot.series), snapshot, target, show=show)
    crash_point("restore.record.before")
    carries_on = _carries_on(site, read_job(site, job), query, snapshot, plan)

    def still_wanted(now: JobState) -> Record:
        _must_be_at_rest(site, now)
        current = now.current_version(query)
        if current is None or now.next_version(query) != plan.version:
            raise OperationRefused(f"{job}/{query} has got another checkpoint version meanwhile", hint="look again")
        return msgspec.structs.replace(
            created_from(snapshot, query, plan.version, state_format=current.state_format),
            release=snapshot.release or plan.release,
            parent=snapshot.version if carries_on else "",
            parent_batch=snapshot.batch if carries_on else None,
        )

    site.journal(job, "restore").append(still_wanted)
    crash_point("restore.record.after")
    return plan


def _carries_on(site: Site, state: JobState, query: str, snapshot: Snapshot, plan: RestorePlan) -> bool:
    """Whether the output that the snapshot's version has written is the one that is written now."""
    if not snapshot.version or snapshot.release not in state.described:
        return False
    written = stored_manifests(site, state, snapshot.release).get(query)
    return written is not None and (written.sink.kind, written.sink.output) == (plan.sink, plan.output)


def _must_be_at_rest(site: Site, state: JobState) -> None:
    if state.open_operation is not None:
        raise OperationOpen(state.job, state.open_operation.operation)
    for owner in state.owners:
        seen = site.runner.observe(state.job, owner.instance)
        if seen.life not in (Life.DEAD, Life.ABSENT):
            raise OperationRefused(
                f"driver {owner.instance} of job {state.job} may still write: {seen.why}",
                hint="restore into a directory with --to, or end the driver first",
            )


def _must_take_a_replay(plan: RestorePlan, snapshot: Snapshot, accept_replay: bool) -> None:
    if plan.sink == FILE and not snapshot.version:
        raise OperationRefused(
            f"{plan.output} cannot carry on the output of a checkpoint that was not deployed from here",
            hint="restore into a directory with --to; its output begins anew in a new checkpoint version",
        )
    if plan.sink not in (TABLE, FILE) and plan.replayed != 0 and not accept_replay:
        raise OperationRefused(plan.sentence, hint="--accept-replay if the function takes batches a second time")


def _reported(site: Site, state: JobState, query: str, version: str) -> int | None:
    """The newest batch that any driver of the job said to have committed of this version."""
    found = []
    for instance in state.instances:
        status = Control(site.store, state.job, instance).read_status()
        told = status.queries.get(query) if status is not None else None
        if told is not None and told.version == version and told.committed is not None:
            found.append(told.committed)
    return max(found, default=None)
