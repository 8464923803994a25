"""Rebuilding the journals of a store that was lost: look at every other place, decide, record.

One create-only record makes a job's journal again, whole: a rebuild that is killed has made it or has not, and the same
command goes on with the jobs that are left. In checkpoints, outputs and snapshots nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.layout import id_there, is_version_name, last_committed, last_planned
from streamkeeper.crash_points import crash_point
from streamkeeper.errors import InvalidInput, KeyMissing, OperationRefused, RegistryDamaged, StreamkeeperError
from streamkeeper.lifecycle.rebuilding import Asked, RebuildPlan, decide_installation, decide_rebuild
from streamkeeper.model.coding import from_json
from streamkeeper.model.fleet import INDEX_KEY
from streamkeeper.model.installation import Owner
from streamkeeper.model.job_state import JobState
from streamkeeper.model.journal import Record
from streamkeeper.model.lost_store import Fence, LostJob, SeenCheckpoint, SeenDriver, SeenSnapshots
from streamkeeper.model.names import check_name, release_number
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.model.snapshot import Snapshot, series_of_query
from streamkeeper.operations.sites import Site
from streamkeeper.registry.control import Control, instances
from streamkeeper.registry.installations import OWNER_FILE, read_installation, take_back
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.journal import has_journal
from streamkeeper.runners.leftovers import end_leftovers, find_leftovers, why_unseen
from streamkeeper.runners.machine import this_machine
from streamkeeper.sinks.fences import read_fences
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.stores.contract import Store
from streamkeeper.stores.opening import open_store


class Rebuild(msgspec.Struct, frozen=True, kw_only=True):
    """What would be recorded. ``installation``: the id that the store gets back, empty for whichever it has;
    ``known``: jobs whose journals are there, with what they say of themselves."""

    installation: str
    plans: tuple[RebuildPlan, ...]
    known: tuple[str, ...] = ()


def plan_rebuild(
    site: Site,
    asked: Asked,
    *,
    job: str = "",
    outputs: Iterable[str] = (),
    unfenced: Iterable[str] = (),
    versions: Mapping[str, str] | None = None,
) -> Rebuild:
    """Look at every place; changes nothing. ``job``: only that one; ``outputs``: databases' URLs, or references to
    them, and directories; ``unfenced`` and ``versions``: of queries, as ``<job>/<query>``.

    Raises InvalidInput or NotFound for a place that is none, StoreUnavailable for one that does not answer,
    OperationRefused where the installation cannot be told.
    """
    root = Path(site.settings.checkpoints)
    if not root.is_dir():
        raise InvalidInput(f"the checkpoint root {root} is not there", hint="mount it, or set STREAMKEEPER_CHECKPOINTS")
    fences = [each for place in outputs for each in read_fences(_filled_in(site, place))]
    snapshots = open_store(site.settings.snapshots) if site.settings.snapshots else site.store
    owners = {each.owner.partition("/")[0] for each in fences}
    found = sorted({check_name("job", job)} if job else {*_folders(root), *owners})
    lost = [_look(site, each, root, fences, snapshots) for each in found]
    ids = {each.installation for of in lost for every in of.fences.values() for each in every}
    ids |= {each.installation for of in lost for each in of.drivers} | {_owner_of(snapshots)}
    present = read_installation(site.store)
    others = tuple(each for each in list_jobs(site.store) if has_journal(site.store, each))
    id, refusal = decide_installation(frozenset(ids - {""}), present.id if present is not None else "", others)
    if refusal:
        raise OperationRefused(refusal)
    id = id or (present.id if present is not None else "")
    plans, known = [], []
    for each in lost:
        if each.journal and not job:
            known.append(f"{each.job}: {each.journal}")
            continue
        plans.append(decide_rebuild(each, _asked_of(asked, each.job, unfenced, versions or {}), id))
    _must_be_known({*unfenced, *(versions or {})}, lost)
    return Rebuild(installation=id, plans=tuple(plans), known=tuple(known))


def end_drivers(site: Site, jobs: Collection[str]) -> list[str]:
    """End every driver of these jobs that lives here; returns what was ended, in lines. Raises OperationRefused for one
    that cannot be."""
    told = []
    for job in jobs:
        for each in find_leftovers(job, site.settings):
            told.append(f"driver {each.instance} of {job} was ended ({each.sentence})")
        if left := end_leftovers(job, site.settings):
            raise OperationRefused(f"driver {left[0].instance} of {job} cannot be ended: {left[0].sentence}")
    return told


def record_rebuild(site: Site, rebuild: Rebuild, *, by: str, reason: str) -> list[str]:
    """Record what was planned; returns the jobs. One that has got a journal meanwhile is left as it is.

    Raises OperationRefused where a driver has come to life since it was planned.
    """
    planned = [each for each in rebuild.plans if each.record is not None]
    if not planned:
        return []
    crash_point("rebuild.installation.before")
    installation = take_back(site.store, site.settings.home, rebuild.installation, by=by, reason=reason)
    crash_point("rebuild.installation.after")
    # What the watch remembers is of the journals that were lost: it would wait for their next entries.
    site.store.delete(INDEX_KEY)
    made = []
    for each in planned:
        if left := find_leftovers(each.job, site.settings, [installation.id]):
            raise OperationRefused(f"driver {left[0].instance} of {each.job} runs again: {left[0].sentence}")

        def first(state: JobState, plan: RebuildPlan = each) -> Record | None:
            return plan.record if state.number == 0 else None

        crash_point("rebuild.journal.before")
        state = site.journal(each.job, f"rebuild:{by}").append(first)
        crash_point("rebuild.journal.after")
        if state.rebuilt is not None:
            made.append(each.job)
    return made


def _look(site: Site, job: str, root: Path, fences: Iterable[Fence], snapshots: Store) -> LostJob:
    """Everything that is known of one job."""
    why = _journal_there(site, job)
    if why:
        return LostJob(job=job, journal=why)
    mine: dict[str, tuple[Fence, ...]] = {}
    for each in fences:
        owner, _, query = each.owner.partition("/")
        if owner == job:
            mine[query] = (*mine.get(query, ()), each)
    checkpoints = {query: tuple(_checkpoints(root, job, query)) for query in _folders(root / job)}
    checkpoints = {query: each for query, each in checkpoints.items() if each}
    kept = {query: _snapshots(snapshots, job, query) for query in sorted({*mine, *checkpoints})}
    ids = [each.installation for every in mine.values() for each in every]
    directories = [root / job / query / each.version for query, every in checkpoints.items() for each in every]
    return LostJob(
        job=job,
        checkpoints=checkpoints,
        fences=mine,
        snapshots={query: each for query, each in kept.items() if each is not None},
        drivers=(*_recorded(site, job), *_living(site, job, ids)),
        unseen=why_unseen([root, *directories]),
        host=this_machine().host,
    )


def _journal_there(site: Site, job: str) -> str:
    """Why a job's journal is not to be made again; empty where there is none."""
    try:
        state = site.journal(job, "reader").state()
    except RegistryDamaged as error:
        return (
            f"the journal of job {job} is not lost but damaged: {error.message}; put it back from the store's version"
            f" history, or move {site.store.url}/registry/{job} away and rebuild"
        )
    if state.number == 0:
        return ""
    if state.rebuilt is not None:
        return f"job {job} was {state.rebuilt.sentence}: deploy it"
    return f"job {job} has a journal of {state.number} entries, which is never overwritten: streamkeeper status {job}"


def _folders(directory: Path) -> list[str]:
    """Names of jobs or queries; what could not be one is passed over."""
    found = []
    for each in sorted(directory.iterdir()) if directory.is_dir() else []:
        with suppress(InvalidInput):
            if each.is_dir():
                found.append(check_name("folder", each.name))
    return found


def _checkpoints(root: Path, job: str, query: str) -> Iterator[SeenCheckpoint]:
    for each in sorted((root / job / query).iterdir()):
        if each.is_dir() and is_version_name(each.name):
            yield SeenCheckpoint(
                root=str(root),
                version=each.name,
                query_id=id_there(each),
                committed=last_committed(each),
                planned=last_planned(each),
            )


def _snapshots(store: Store, job: str, query: str) -> SeenSnapshots | None:
    """None where there are none that can be read."""
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
        versions=tuple(sorted({each.version for each in found if each.version})),
        newest_release=max((release_number(each.release) for each in found if each.release), default=0),
    )


def _recorded(site: Site, job: str) -> Iterator[SeenDriver]:
    """Drivers of which records are left, where only the journal was lost; a driver that goes on writes its own anew."""
    for instance in instances(site.store, job):
        control = Control(site.store, job, instance)
        with suppress(StreamkeeperError):
            launch, status = control.read_launch(), control.read_status()
            release = launch.release if launch is not None else status.release if status is not None else ""
            queries = status.queries.values() if status is not None else ()
            yield SeenDriver(
                instance=instance,
                epoch=max((each.epoch for each in queries), default=0),
                release=release_number(release) if release else 0,
                installation=launch.installation if launch is not None else "",
            )


def _living(site: Site, job: str, installations: Collection[str]) -> Iterator[SeenDriver]:
    for each in find_leftovers(job, site.settings, [id for id in installations if id]):
        yield SeenDriver(instance=each.instance, alive=each.sentence, installation=each.installation)


def _owner_of(snapshots: Store) -> str:
    """The installation that a store of snapshots apart belongs to; empty where it does not say."""
    try:
        return from_json(snapshots.read(OWNER_FILE), Owner, where=OWNER_FILE).id
    except KeyMissing:
        return ""


def _filled_in(site: Site, place: str) -> str:
    """A database's URL may be a secret reference, as in a job's params."""
    secrets = resolve(find_references({"output": place}, {}), site.resolvers)
    return secrets.get(place, place)


def _asked_of(asked: Asked, job: str, unfenced: Iterable[str], versions: Mapping[str, str]) -> Asked:
    mine = f"{job}/"
    return msgspec.structs.replace(
        asked,
        unfenced=frozenset(each.removeprefix(mine) for each in unfenced if each.startswith(mine)),
        versions={each.removeprefix(mine): version for each, version in versions.items() if each.startswith(mine)},
    )


def _must_be_known(named: Collection[str], lost: Iterable[LostJob]) -> None:
    known = {f"{each.job}/{query}" for each in lost for query in each.queries}
    for each in sorted(named):
        if each not in known:
            raise InvalidInput(
                f"{each} is no query that was found", hint=f"write JOB/QUERY: {', '.join(sorted(known))}"
            )
