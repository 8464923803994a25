"""A job as a release or as the job's file, with its code, so that two of them can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamkeeper.compatibility.differences import JobVersion
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.protocol.check_messages import JobFile
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.bundles import read_bundle, read_code
from streamkeeper.registry.objects import read_object


def released_version(installation: Installation, state: JobState, release: str) -> JobVersion:
    """Return a release as a JobVersion, with the code from its bundle.

    Raises RegistryDamaged if the bundle is missing or was changed.
    """
    content = state.releases[release].content
    bundle = read_object(installation.store, state.job, "bundles", content.bundle, ".zip")
    return JobVersion(
        name=release,
        entry=content.entry,
        files=read_bundle(bundle, content.bundle),
        params=content.params,
        conf=content.conf,
        manifests=stored_manifests(installation, state, release) if release in state.described else None,
    )


def file_version(name: str, job: JobFile, manifests: Mapping[str, Manifest] | None) -> JobVersion:
    """Return a job as a JobVersion, with the code from the job's file; raises the errors of ``read_code``."""
    return JobVersion(
        name=name,
        entry=job.entry,
        files=read_code(Path(job.root), job.entry),
        params=job.params,
        conf=job.conf,
        manifests=manifests,
    )
