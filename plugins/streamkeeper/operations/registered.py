"""What of a registered job a check compares with: its serving release's manifests, and its live checkpoints."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamkeeper.errors import NotFound
from streamkeeper.model.coding import from_json
from streamkeeper.model.job_state import JobState
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.names import check_name
from streamkeeper.model.release import ParamValue
from streamkeeper.operations.sites import Site
from streamkeeper.registry.objects import read_object


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """The serving release of a job; ``checkpoints``: query -> directory of its current checkpoint version."""

    release: str
    params: dict[str, ParamValue]
    conf: dict[str, str]
    manifests: dict[str, Manifest]
    checkpoints: dict[str, str]


def deployed_of(site: Site, job: str) -> Deployed:
    """What serves now; raises NotFound when the job is unknown or nothing of it ever served."""
    check_name("job", job)
    state = site.journal(job, writer="check").state()
    release = state.serving_release
    if not release or release not in state.described:
        raise NotFound(f"no release of job {job} serves", hint="streamkeeper jobs lists them; or name --deployed")
    content = state.releases[release].content
    return Deployed(
        release=release,
        params=dict(content.params),
        conf=dict(content.conf),
        manifests=stored_manifests(site, state, release),
        checkpoints=live_checkpoints(site, state),
    )


def stored_manifests(site: Site, state: JobState, release: str) -> dict[str, Manifest]:
    """Query -> manifest, as a release described itself."""
    hashes = state.described[release]
    return {query: _manifest(site, state.job, digest) for query, digest in hashes.items()}


def live_checkpoints(site: Site, state: JobState) -> dict[str, str]:
    """Query -> directory of its current checkpoint version, as far as it has one."""
    root = Path(site.settings.checkpoints) / state.job
    current = {query: state.current_version(query) for query in state.versions}
    return {query: str(root / query / each.version) for query, each in current.items() if each is not None}


def _manifest(site: Site, job: str, digest: str) -> Manifest:
    data = read_object(site.store, job, "manifests", digest, ".json")
    return from_json(data, Manifest, where=f"manifest {digest}")
