"""Observe everything that a job depends on: driver, machine, checkpoints, sources, outputs, snapshots and journal.

The observation needs no Spark and changes nothing, and a driver may keep running. ``lifecycle.recovery`` interprets it.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.lasting import lasting_damages
from streamkeeper.checkpoints.layout import last_committed, last_planned
from streamkeeper.checkpoints.open_input import OpenInput, find_open_input
from streamkeeper.checkpoints.reach import Position, compare, position
from streamkeeper.errors import (
    CheckpointChanged,
    CheckpointDamaged,
    JournalLost,
    NotFound,
    StoreUnavailable,
)
from streamkeeper.health.told_errors import fault_of
from streamkeeper.lifecycle.recovery import diagnose
from streamkeeper.lifecycle.steps import current_step
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.manifests.trigger import parse_trigger
from streamkeeper.model.names import refuse_unknown
from streamkeeper.model.protocol.driver_messages import DriverStatus
from streamkeeper.model.protocol.fault_kinds import Fault, read_fault
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.observed_driver import FAILURES, ObservedDriver
from streamkeeper.model.protocol.output_history import OutputHistory, find_output_loss
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.stated_deaths import unproven_owner
from streamkeeper.model.requests.diagnosis import Diagnosis, QueryLook, RecoveryLook
from streamkeeper.operations.deploys.approval import asked_about
from streamkeeper.operations.deploys.assessing import gone_of_sources
from streamkeeper.operations.deploys.replanning import look_at_replan
from streamkeeper.operations.jobs.input_access import unseen_input
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.job_facts import failed_last, release_of
from streamkeeper.operations.jobs.observation import JobObservation, read_job
from streamkeeper.operations.jobs.old_input import told_old_input
from streamkeeper.operations.jobs.outdated import find_outdated
from streamkeeper.operations.jobs.outputs import ask
from streamkeeper.operations.jobs.registered import find_observed_loss, stored_manifests
from streamkeeper.operations.recovery.replaying import Left, choose_replay
from streamkeeper.sinks.contract import OutputAnswer
from streamkeeper.sinks.kinds.known_kinds import capabilities_of

LEAST_FREE_BYTES = 64 * 2**20
"""Free space in bytes below which Spark or the store soon fails to write."""


def diagnose_job(
    installation: Installation, job: str, *, chosen: Collection[str] = (), snapshots: Mapping[str, str] | None = None
) -> Diagnosis:
    """Observe a job and diagnose it; raises NotFound for an unknown job, InvalidInput for an unknown query.

    ``chosen``: the queries to restore or rebuild, in place of the damaged ones.
    ``snapshots``: query -> the snapshot to use.
    """
    return diagnose(look_at_job(installation, job, chosen=chosen, snapshots=snapshots), chosen=chosen)


def diagnose_without_store(job: str, error: StoreUnavailable) -> Diagnosis:
    """Return the diagnosis of a job whose installation cannot be opened, because the store does not answer."""
    return diagnose(RecoveryLook(job=job, store=error.message))


def look_at_job(
    installation: Installation, job: str, *, chosen: Collection[str] = (), snapshots: Mapping[str, str] | None = None
) -> RecoveryLook:
    """Return all observations for a diagnosis; a store that does not answer is an observation, not an error."""
    try:
        return _look(JobObservation(installation, job, state=read_job(installation, job)), chosen, snapshots or {})
    except StoreUnavailable as error:
        return RecoveryLook(job=job, store=error.message)
    except JournalLost as error:
        return RecoveryLook(job=job, lost=error.message)


def _look(job: JobObservation, chosen: Collection[str], snapshots: Mapping[str, str]) -> RecoveryLook:
    installation, state = job.installation, job.state
    release, instance, opened = state.serving_release, state.appointed, state.open_operation
    if outdated := find_outdated(installation, state):
        return RecoveryLook(job=state.job, outdated=outdated, release=release, instance=instance)
    manifests = stored_manifests(installation, state, release) if release in state.described else {}
    refuse_unknown("query", dict.fromkeys([*chosen, *snapshots]), manifests)
    seen = RecoveryLook(job=state.job, release=release, instance=instance, full=_full(installation))
    if state.stopped is not None:
        by, reason = state.stopped.requested_by or "an unknown user", state.stopped.reason or "no reason given"
        seen = msgspec.structs.replace(seen, stopped=f"{by}: {reason}")
    if opened is not None:
        opened_at = f"{opened.operation} (at {current_step(opened).label})"
        seen = msgspec.structs.replace(seen, open_operation=opened_at, waits=asked_about(opened) is not None)
    if not instance:
        return seen
    observation = job.driver(instance)
    # The liveness is read before the report, so that the report of a dead driver has its last commits.
    driver = observation.observed
    # An unreadable report is an error here, because it is the record of these commits.
    status = observation.status
    errors = _told(driver)
    wanted = frozenset(chosen)
    return msgspec.structs.replace(
        seen,
        driver=driver,
        dropped=_first(errors, Fault.SOURCE_LOST) or _refused_for_its_source(state, driver),
        exhausted=_first(errors, Fault.OUT_OF_MEMORY) or (driver.why if driver.ended_by is Fault.OUT_OF_MEMORY else ""),
        broke=_broke(status, manifests),
        queries=tuple(
            _look_at_query(
                job,
                query,
                manifest,
                status,
                wanted=wanted,
                named=snapshots.get(query, ""),
                alive=driver.life is Life.ALIVE,
            )
            for query, manifest in sorted(manifests.items())
            if state.current_version(query) is not None
        ),
    )


def _look_at_query(
    job: JobObservation,
    query: str,
    manifest: Manifest,
    status: DriverStatus | None,
    *,
    wanted: Collection[str],
    named: str,
    alive: bool,
) -> QueryLook:
    installation, state = job.installation, job.state
    current = state.current_version(query)
    assert current is not None
    version, directory = current.version, installation.checkpoint(state, query, current.version)
    lost, known = find_observed_loss(job, query, version), job.known_version(query, version)
    opened = OpenInput()
    if not lost and not alive:
        opened = find_open_input(directory.fresh(), lambda: unseen_input(installation, state, query))
    # Read before the output: a running driver writes a batch before it commits it.
    committed = None if lost else last_committed(directory.fresh())
    holds = ask(installation, state, state.serving_release, query, manifest.sink, version)
    seen = QueryLook(
        query=query,
        version=version,
        directory=directory.where(""),
        lost=lost,
        damages=() if lost else lasting_damages(directory.fresh(), stateful=bool(manifest.operators)),
        planned=last_planned(directory.fresh()),
        committed=last_committed(directory.fresh()),
        sink=manifest.sink.kind,
        output=manifest.sink.output,
        holds=holds.batch,
        sink_unknown=holds.unknown,
        sink_down=holds.down,
        input_gone=opened.missing,
        input_unchecked=opened.unchecked,
        failing=_failing(status, query),
        output_lost=_output_loss(state.output_history(query, version), committed, holds),
        unproven="" if last_committed(directory.fresh()) is None else unproven_owner(state, query),
    )
    if not seen.damaged and query not in wanted:
        return seen
    seen = msgspec.structs.replace(seen, replan=look_at_replan(installation, state, seen, directory))
    left = Left(query=seen, manifest=manifest, committed=known.committed, query_id=known.query_id)
    replay, no_restore, passed_over = choose_replay(installation, state, left, named=named)
    reads, no_rebuild = _rebuild(installation, state, seen, manifest)
    return msgspec.structs.replace(
        seen, replay=replay, no_restore=no_restore, passed_over=passed_over, rebuild=reads, no_rebuild=no_rebuild
    )


def _output_loss(history: OutputHistory, committed: int | None, holds: OutputAnswer) -> str:
    return "" if holds.record is None else find_output_loss(history, committed, holds.record)


def _told(driver: ObservedDriver) -> list[tuple[Fault | None, str]]:
    """Return the current errors of the driver and of its queries, each with its kind of fault."""
    status = driver.status
    queries = status.queries if status is not None else {}
    failing = [
        (fault_of(queries[query].fault, text), f"query {query}: {text}")
        for query in sorted(queries)
        if (text := _failing(status, query))
    ]
    of_status = status.fault if status is not None else ""
    return [
        *failing,
        (fault_of(driver.fault, driver.error), driver.error),
        (fault_of(of_status, driver.waiting), driver.waiting),
    ]


def _first(errors: list[tuple[Fault | None, str]], fault: Fault) -> str:
    return next((error for kind, error in errors if kind is fault and error), "")


def _broke(status: DriverStatus | None, queries: Collection[str]) -> frozenset[str]:
    """Return the queries whose error ended the driver's previous run. Older versions name these queries only in the
    status sentence.
    """
    if status is None:
        return frozenset()
    if read_fault(status.fault) is None:
        return frozenset(query for query in queries if f"query {query}: " in status.waiting)
    return frozenset(filter(None, (status.failed_query,)))


def _refused_for_its_source(state: JobState, driver: ObservedDriver) -> str:
    """Return why the last start was refused, if a source was the reason; else empty. The driver itself reports nothing
    in this case.
    """
    failed = failed_last(state)
    if driver.life is Life.ALIVE or failed is None or release_of(failed) != state.serving_release:
        return ""
    return failed.sentence if fault_of(failed.fault, failed.sentence) is Fault.SOURCE_LOST else ""


def _failing(status: DriverStatus | None, query: str) -> str:
    """Return the error of a batch that fails repeatedly; empty without one.

    After a restart one failure is enough, because the previous run failed too.
    """
    reported = status.queries.get(query) if status is not None else None
    if status is None or reported is None:
        return ""
    return reported.error if reported.failures >= (FAILURES if status.generation == 1 else 1) else ""


def _rebuild(installation: Installation, state: JobState, seen: QueryLook, manifest: Manifest) -> tuple[str, str]:
    """Return the input of a rebuild, and why no rebuild is possible; one of the two is empty."""
    if not capabilities_of(manifest.sink.kind).shadows:
        return "", f"its {manifest.sink.kind} output cannot be written without readers seeing it"
    if parse_trigger(manifest.trigger).available_now:
        return "", "an availableNow query ends before a cutover is possible"
    if seen.lost:
        return "", f"the end of the rebuild cannot be determined: {seen.lost}"
    if missing := gone_of_sources(installation, state, seen.query, seen.version):
        return "", missing
    directory = installation.checkpoint(state, seen.query, seen.version)
    try:
        lacking = compare(position(directory.fresh()), Position()).lacking
        return f"{lacking}{told_old_input(directory, manifest, unseen_input(installation, state, seen.query))}", ""
    except (CheckpointDamaged, CheckpointChanged, NotFound) as error:
        return "", f"the end of the rebuild cannot be determined: {error.message}"


def _full(installation: Installation) -> str:
    """Return a clause about the first full disk of the installation; empty if no disk is full."""
    settings = installation.settings
    places = [
        ("store", settings.store_directory),
        ("checkpoints", settings.checkpoint_directory),
        ("home", Path(settings.home)),
    ]
    for name, place in places:
        there = next((folder for folder in (place, *place.parents) if folder.exists()), None) if place else None
        if there is not None and (free := shutil.disk_usage(there).free) < LEAST_FREE_BYTES:
            return f"the disk of the {name} ({place}) has {free / 2**20:.0f} MiB left"
    return ""
