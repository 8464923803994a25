"""A drill: restore a snapshot into scratch space, resume its query there with the sink diverted, store the result."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.trees import LocalTree
from streamkeeper.errors import NotFound, PermanentError
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.protocol.drill_messages import DrillAnswer, DrillRequest
from streamkeeper.model.records.snapshot import DrillResult, Snapshot
from streamkeeper.model.secret_references import find_references, resolve
from streamkeeper.operations.jobs.installation import Installation, Resolver
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.worker_client import DriverDied, ask_driver
from streamkeeper.registry.bundles import unpack_job
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.system import clock

TIMEOUT_S = 300.0
_MODULE = "streamkeeper.driver.drill"


class DrillPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a drill besides the snapshot: the job's code, its query, and a scratch directory."""

    job: JobFile
    query: str
    scratch: Path


def released_job(installation: Installation, snapshot: Snapshot) -> DrillPlace:
    """Unpack the release that wrote a snapshot, and return the inputs for the snapshot's drill.

    Raises NotFound or RegistryDamaged.
    """
    job, _, query = snapshot.series.partition("/")
    state = read_job(installation, job)
    if snapshot.release not in state.releases:
        missing = f"job {job} has no release {snapshot.release}"
        unnamed = f"snapshot {snapshot.name} of {snapshot.series} does not record a release"
        raise NotFound(missing if snapshot.release else unnamed, hint="name the job's file with `--job-file`")
    content = state.releases[snapshot.release].content
    root = unpack_job(installation.store, job, content.bundle, installation.settings)
    file = JobFile(root=str(root), entry=content.entry, name=job, params=content.params, conf=content.conf)
    return DrillPlace(job=file, query=query, scratch=installation.settings.scratch)


def drill(
    catalogue: Catalogue,
    snapshot: Snapshot,
    place: DrillPlace,
    resolvers: Mapping[str, Resolver],
    *,
    timeout_s: float = TIMEOUT_S,
) -> DrillResult:
    """Run a drill and store its result with the snapshot. The result says whether the snapshot is verified.

    ``catalogue`` and ``snapshot``: what to restore; ``place``: code, query and scratch space; ``resolvers``: for secret
    references; ``timeout_s``: for one batch, seconds.

    Failures of the snapshot or its query are results, not errors. Raises StoreUnavailable, and PermanentError if no
    driver could be started, which is no result about the snapshot.
    """
    started = clock.monotonic()
    target = place.scratch / f"drill-{uuid.uuid4().hex}"
    try:
        answer = _resume(catalogue, snapshot, place, resolvers, target, timeout_s)
    finally:
        shutil.rmtree(target, ignore_errors=True)
    now = clock.now()
    result = DrillResult(
        id=f"{now:%Y%m%dT%H%M%S%f}-{os.getpid()}",
        ok=answer.ok,
        message=answer.message,
        batch=answer.batch,
        state_rows=answer.state_rows,
        release=snapshot.release,
        at=now.isoformat(timespec="seconds"),
        seconds=round(clock.monotonic() - started, 3),
    )
    catalogue.note_drill(snapshot.number, result)
    return result


def _resume(
    catalogue: Catalogue,
    snapshot: Snapshot,
    place: DrillPlace,
    resolvers: Mapping[str, Resolver],
    target: Path,
    timeout_s: float,
) -> DrillAnswer:
    try:
        restore(catalogue, snapshot, LocalTree(target, lasting=False))
    except PermanentError as error:
        return DrillAnswer(ok=False, message=f"the snapshot cannot be restored: {error}")
    secrets = resolve(find_references(place.job.params, place.job.conf), resolvers)
    request = DrillRequest(
        job=place.job, query=place.query, checkpoint=str(target), batch=snapshot.batch, timeout_s=timeout_s
    )
    try:
        lines = ask_driver(_MODULE, [to_json(request)], place.job.conf, secrets)
        return from_json(next(lines), DrillAnswer, where="the driver's answer")
    except DriverDied as died:
        if died.refused:
            raise
        return DrillAnswer(ok=False, message=f"the drill's driver ended: {died}")
