"""Rebuild the journals of a lost store: inspect every other place, decide, and record the result.

One create-only record recreates a job's journal completely. If a rebuild is killed, each job either has this record or
not, and the same command continues with the remaining jobs. Checkpoints, outputs and snapshots are not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from streamkeeper.checkpoints.claims import FOLDER, read_all_newest
from streamkeeper.checkpoints.layout import id_there, is_version_name, last_committed, last_planned
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import InvalidInput, KeyMissing, OperationRefused, RegistryDamaged, StreamkeeperError
from streamkeeper.lifecycle.rebuilding import RebuildPlan, RebuildRequest, decide_installation, decide_rebuild
from streamkeeper.model.coding import from_json
from streamkeeper.model.names import check_name, release_number
from streamkeeper.model.records.checkpoint_version import checkpoint_location
from streamkeeper.model.records.epoch_claim import EpochClaim, way_out
from streamkeeper.model.records.installation_record import Owner
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Record
from streamkeeper.model.records.lost_store import Fence, LostJob, SeenCheckpoint, SeenDriver, SeenSnapshots
from streamkeeper.model.records.snapshot import Snapshot, series_of_query
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.model.settings.settings import Settings
from streamkeeper.model.watch.fleet_index import INDEX_KEY
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.outdated import find_outdated
from streamkeeper.registry.driver_control import Control, instances
from streamkeeper.registry.installations import OWNER_FILE, find_misplaced, read_installation, take_back
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import has_journal
from streamkeeper.runners.leftovers import end_leftovers, find_leftovers, why_unseen
from streamkeeper.runners.machine import this_machine
from streamkeeper.sinks.fences import read_fences
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.contract import Store
from streamkeeper.system.crash_points import crash_point


class Rebuild(msgspec.Struct, frozen=True, kw_only=True):
    """The planned records for rebuilding journals.

    ``installation``: the id to record for the store, empty to keep its own; ``plans``: one for each job; ``known``: one
    sentence for each job whose journal exists.
    """

    installation: str
    plans: tuple[RebuildPlan, ...]
    known: tuple[str, ...] = ()


def plan_rebuild(
    installation: Installation,
    asked: RebuildRequest,
    *,
    job: str = "",
    outputs: Iterable[str] = (),
    unfenced: Iterable[str] = (),
    missing: Iterable[str] = (),
    versions: Mapping[str, str] | None = None,
) -> Rebuild:
    """Inspect every place and return the plan for rebuilding the journals; nothing is changed.

    ``installation``: the installation; ``asked``: the person's statements; ``job``: the only job to plan, empty for
    all; ``outputs``: URLs of databases, references to such URLs, and directories; ``unfenced``: queries that write with
    a user's function or to a topic; ``missing``: queries that the job no longer has; ``versions``: query -> current
    version. Queries are written ``<job>/<query>``.

    Raises InvalidInput or NotFound for an invalid place, StoreUnavailable for a place that does not answer, and
    OperationRefused if the installation cannot be determined.
    """
    root = checkpoint_root(installation.settings)
    present = read_installation(installation.store)
    if misplaced := find_misplaced(installation.store, present, installation.settings.home):
        raise OperationRefused(
            misplaced,
            hint="if the original still exists, do not rebuild here: a copy must not take over the outputs of its"
            " original. If the original no longer exists, run `streamkeeper home new --reason …`, then run"
            " `streamkeeper registry rebuild`",
        )
    # Keyed by output: if a place is named twice, each output counts once.
    fences = {
        (fence.output, fence.server): fence
        for place in outputs
        for fence in read_fences(_filled_in(installation, place))
    }.values()
    owners = {fence.owner.partition("/")[0] for fence in fences}
    found = sorted({check_name("job", job)} if job else {*_folders(root, ""), *owners})
    seen = [_look(installation, name, root, fences, installation.unclaimed_snapshots) for name in found]
    # An empty folder is not a job.
    lost = [lost_job for lost_job in seen if job or lost_job.journal or lost_job.queries]
    ids = {fence.installation for of in lost for every in of.fences.values() for fence in every}
    ids |= {driver.installation for of in lost for driver in of.drivers} | {_owner_of(installation.unclaimed_snapshots)}
    ids = ids - {""} or _ids_of_claims(lost, present.id if present is not None else "")
    others = tuple(other for other in list_jobs(installation.store) if has_journal(installation.store, other))
    id, refusal = decide_installation(frozenset(ids), present.id if present is not None else "", others)
    if refusal:
        raise OperationRefused(refusal)
    id = id or (present.id if present is not None else "")
    plans, known = [], []
    for lost_job in lost:
        if lost_job.journal and not job:
            known.append(f"{lost_job.job}: {lost_job.journal}")
            continue
        plans.append(decide_rebuild(lost_job, _asked_of(asked, lost_job.job, unfenced, missing, versions or {}), id))
    _must_be_known({*unfenced, *missing, *(versions or {})}, lost)
    return Rebuild(installation=id, plans=tuple(plans), known=tuple(known))


def checkpoint_root(settings: Settings) -> Tree:
    """Return the root of the checkpoints, where lost jobs are found; raises InvalidInput if it does not exist."""
    root = tree_at(settings.checkpoints)
    if root.absence():
        hint = "mount it, or set STREAMKEEPER_CHECKPOINTS"
        raise InvalidInput(f"the checkpoint root {root.where('')} does not exist", hint=hint)
    return root


def end_drivers(installation: Installation, jobs: Collection[str]) -> list[str]:
    """Terminate every driver of these jobs on this machine. Return one line per terminated driver. Raises
    OperationRefused for a driver that cannot be terminated.
    """
    lines = []
    for job in jobs:
        for leftover in find_leftovers(job, installation.settings):
            lines.append(f"driver {leftover.instance} of {job} was stopped ({leftover.sentence})")
        if left := end_leftovers(job, installation.settings):
            raise OperationRefused(f"driver {left[0].instance} of {job} cannot be stopped: {left[0].sentence}")
    return lines


def record_rebuild(installation: Installation, rebuild: Rebuild, *, by: str, reason: str) -> list[str]:
    """Record the planned journals and return their jobs. A job that has a journal now is not changed.

    ``by`` and ``reason``: who requests the rebuild, and why. Raises OperationRefused if a driver has started since the
    planning.
    """
    planned = [plan for plan in rebuild.plans if plan.record is not None]
    if not planned:
        return []
    crash_point("rebuild.installation.before")
    recorded = take_back(installation.store, installation.settings.home, rebuild.installation, by=by, reason=reason)
    crash_point("rebuild.installation.after")
    # The index of the watch contains the lost journals, so the watch would wait for their next entries.
    installation.store.delete(INDEX_KEY)
    made = []
    for job_plan in planned:
        if left := find_leftovers(job_plan.job, installation.settings, [recorded.id]):
            raise OperationRefused(f"driver {left[0].instance} of {job_plan.job} is running again: {left[0].sentence}")

        def first(state: JobState, plan: RebuildPlan = job_plan) -> Record | None:
            return plan.record if state.number == 0 else None

        crash_point("rebuild.journal.before")
        state = installation.journal(job_plan.job, f"rebuild:{by}").append(first)
        crash_point("rebuild.journal.after")
        if state.rebuilt is not None:
            made.append(job_plan.job)
    return made


def _look(installation: Installation, job: str, root: Tree, fences: Iterable[Fence], snapshots: Store) -> LostJob:
    """Return all evidence of one job.

    ``installation`` and ``job``: the installation and the job; ``root``: the root of the checkpoints; ``fences``: the
    fences of all outputs; ``snapshots``: the store of the snapshots.
    """
    why = _journal_there(installation, job)
    if why:
        return LostJob(job=job, journal=why)
    mine: dict[str, tuple[Fence, ...]] = {}
    for fence in fences:
        owner, _, query = fence.owner.partition("/")
        if owner == job:
            mine[query] = (*mine.get(query, ()), fence)
    try:
        checkpoints = {query: tuple(_checkpoints(root, job, query)) for query in _folders(root, job)}
        # Also for a query whose versions were deleted: its claims still exist.
        claimed = {query: _claims(root, job, query) for query in checkpoints}
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from error
    checkpoints = {query: versions for query, versions in checkpoints.items() if versions}
    kept = {query: _snapshots(snapshots, job, query) for query in sorted({*mine, *checkpoints})}
    ids = [fence.installation for every in mine.values() for fence in every]
    directories = [
        checkpoint_location(root.spark_path, job, query, checkpoint.version)
        for query, every in checkpoints.items()
        for checkpoint in every
    ]
    return LostJob(
        job=job,
        checkpoints=checkpoints,
        claims={query: found for query, found in claimed.items() if found},
        fences=mine,
        snapshots={query: seen for query, seen in kept.items() if seen is not None},
        drivers=(*_recorded(installation, job), *_living(installation, job, ids)),
        unseen=why_unseen(directories or [root.spark_path]),
        host=this_machine().host,
    )


def _journal_there(installation: Installation, job: str) -> str:
    """Return why a job's journal must not be recreated; empty if the job has no journal."""
    try:
        state = installation.journal(job, "reader").state()
    except RegistryDamaged as error:
        return (
            f"the journal of job {job} is not lost but damaged: {error.message}. Put the journal back from the store's"
            f" version history, or move {installation.store.url}/registry/{job} away and rebuild it"
        )
    if state.number == 0:
        return ""
    if outdated := find_outdated(installation, state):
        return f"{outdated}; {way_out(installation.store.url, job)}"
    if state.rebuilt is not None:
        return f"job {job} was {state.rebuilt.sentence}; deploy it"
    return (
        f"job {job} has a journal of {state.number} entries, which is never overwritten (`streamkeeper status {job}`)"
    )


def _folders(root: Tree, folder: str) -> list[str]:
    """Return the names of jobs or queries; folders with invalid names are skipped."""
    found = []
    for name in root.folders(folder):
        with suppress(InvalidInput):
            found.append(check_name("folder", name))
    return found


def _checkpoints(root: Tree, job: str, query: str) -> Iterator[SeenCheckpoint]:
    for name in filter(is_version_name, root.folders(f"{job}/{query}")):
        checkpoint = tree_at(checkpoint_location(root.spark_path, job, query, name))
        yield SeenCheckpoint(
            root=root.spark_path,
            version=name,
            query_id=id_there(checkpoint),
            committed=last_committed(checkpoint),
            planned=last_planned(checkpoint),
        )


def _claims(root: Tree, job: str, query: str) -> tuple[EpochClaim, ...]:
    return tuple(read_all_newest(tree_at(f"{checkpoint_location(root.spark_path, job, query)}/{FOLDER}")))


def _ids_of_claims(lost: Iterable[LostJob], present: str) -> set[str]:
    """Return the ids of the installations that claimed the checkpoints; two installations may share a root."""
    # A query without a checkpoint may have been removed under an earlier installation.
    of_checkpoints = [claims for of in lost for query, claims in of.claims.items() if query in of.checkpoints]
    found = {claim.installation for claims in of_checkpoints for claim in claims} - {""}
    return {present} if present in found else found


def _snapshots(store: Store, job: str, query: str) -> SeenSnapshots | None:
    """Return the snapshots of a query; None if none can be read."""
    catalogue = Catalogue(store, series_of_query(job, query))
    found: list[Snapshot] = []
    for number in catalogue.numbers():
        with suppress(StreamkeeperError):
            found.append(catalogue.read(number))
    if not found:
        return None
    return SeenSnapshots(
        name=found[-1].name,
        version=found[-1].version,
        batch=found[-1].batch,
        versions=tuple(sorted({snapshot.version for snapshot in found if snapshot.version})),
        newest_release=max((release_number(snapshot.release) for snapshot in found if snapshot.release), default=0),
    )


def _recorded(installation: Installation, job: str) -> Iterator[SeenDriver]:
    """Yield the drivers that have a record. There is one if only the journal was lost, or if a running driver rewrote
    its own record.
    """
    for instance in instances(installation.store, job):
        control = Control(installation.store, job, instance)
        with suppress(StreamkeeperError):
            launch, status = control.read_launch(), control.find_status()
            release = launch.release if launch is not None else status.release if status is not None else ""
            queries = status.queries.values() if status is not None else ()
            yield SeenDriver(
                instance=instance,
                epoch=max((query.epoch for query in queries), default=0),
                release=release_number(release) if release else 0,
                installation=launch.installation if launch is not None else "",
            )


def _living(installation: Installation, job: str, installations: Collection[str]) -> Iterator[SeenDriver]:
    for leftover in find_leftovers(job, installation.settings, [id for id in installations if id]):
        yield SeenDriver(instance=leftover.instance, alive=leftover.sentence, installation=leftover.installation)


def _owner_of(snapshots: Store) -> str:
    """Return the id of the installation that owns a separate store of snapshots; empty if none is recorded."""
    try:
        return from_json(snapshots.read(OWNER_FILE), Owner, where=OWNER_FILE).id
    except KeyMissing:
        return ""


def _filled_in(installation: Installation, place: str) -> str:
    """Return the place with its secret resolved. Like a job's params, a place may be a reference to a
    database's URL.
    """
    secrets = resolve(find_references({"output": place}, {}), installation.resolvers)
    return secrets.get(place, place)


def _asked_of(
    asked: RebuildRequest, job: str, unfenced: Iterable[str], missing: Iterable[str], versions: Mapping[str, str]
) -> RebuildRequest:
    mine = f"{job}/"
    return msgspec.structs.replace(
        asked,
        unfenced=frozenset(name.removeprefix(mine) for name in unfenced if name.startswith(mine)),
        missing=frozenset(name.removeprefix(mine) for name in missing if name.startswith(mine)),
        versions={name.removeprefix(mine): version for name, version in versions.items() if name.startswith(mine)},
    )


def _must_be_known(named: Collection[str], lost: Iterable[LostJob]) -> None:
    known = {f"{lost_job.job}/{query}" for lost_job in lost for query in lost_job.queries}
    # For a job with a journal, the reason for not rebuilding it helps more than the report of an unknown query.
    recorded = {lost_job.job for lost_job in lost if lost_job.journal}
    for name in sorted(named):
        if name not in known and name.partition("/")[0] not in recorded:
            raise InvalidInput(f"query {name} was not found", hint=f"name one of {', '.join(sorted(known))}")
