"""Registration of releases. A release is a job's code, params and conf, immutable and numbered. The job's code is never
run.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.release import STATE_FORMAT, Environment, ParamValue, Release, ReleaseContent
from streamkeeper.model.names import check_name
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import ReleaseRegistered
from streamkeeper.model.secret_references import find_references
from streamkeeper.model.settings.release_conf import MASTER, check_release_conf
from streamkeeper.model.settings.settings import Settings
from streamkeeper.operations.jobs.lost_jobs import must_not_be_lost
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.environments import read_environment
from streamkeeper.registry.executor_environments import keep_archive
from streamkeeper.registry.journal import Journal
from streamkeeper.registry.objects import put_object

if TYPE_CHECKING:
    from streamkeeper.operations.jobs.installation import Installation


def push_release(
    installation: Installation, job: str, *, params: Mapping[str, ParamValue], conf: Mapping[str, str], writer: str = ""
) -> Release:
    """Register the code under the jobs root with these params and conf, and return the release.

    ``installation``: the installation; ``job``: the job's name; ``params`` and ``conf``: of the release; ``writer``:
    the author of the journal entry, empty for this process.

    If a release with the same content exists, that release is returned, so any number of pushes may run at once. Raises
    InvalidInput, NotFound, JournalLost or JobUnusable before the registration, and StoreUnavailable at any time. After
    StoreUnavailable, push again.
    """
    must_not_be_lost(installation, check_name("job", job))
    find_references(params, conf)
    check_release_conf(conf, installation.settings.confs)
    bundle = build_bundle(Path(installation.settings.jobs), job)
    content = ReleaseContent(
        bundle=bundle.sha256,
        bundle_bytes=len(bundle.data),
        entry=bundle.entry,
        params=dict(params),
        conf=dict(conf),
        environment=_environment(installation.settings, conf),
        state_format=STATE_FORMAT,
        health=bundle.health,
        approvers=bundle.approvers,
    )
    put_object(installation.store, job, "bundles", bundle.data, ".zip")
    return _register(Journal(installation.store, job, writer=writer or _this_process()), job, content)


def _environment(settings: Settings, conf: Mapping[str, str]) -> Environment:
    """Return the environment of the drivers, and of remote executors if the release's tasks run there."""
    archive = keep_archive(settings) if settings.master and MASTER not in conf else ""
    return read_environment(conf, settings.jars, settings.checkpoints, archive)


def _register(journal: Journal, job: str, content: ReleaseContent) -> Release:
    def decide(state: JobState) -> ReleaseRegistered | None:
        if _registered(state, content) is not None:
            return None
        return ReleaseRegistered(release=Release(job=job, number=state.next_release, content=content))

    release = _registered(journal.append(decide), content)
    if release is None:
        raise RegistryDamaged(f"job {job}: the release that was just registered is not in its journal")
    return release


def _registered(state: JobState, content: ReleaseContent) -> Release | None:
    """Return the release with this content; None without one. The stored forms are compared, because 1, 1.0 and True
    are equal in Python.
    """
    wanted = to_json(content)
    return next((release for release in state.releases.values() if to_json(release.content) == wanted), None)


def _this_process() -> str:
    return f"release-push@{socket.gethostname()}:{os.getpid()}"
