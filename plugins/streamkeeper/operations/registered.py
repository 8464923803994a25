"""What of a registered job a check compares with: its serving release's manifests, and its live checkpoints."""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.identity import find_loss, way_out
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility import observations
from streamkeeper.errors import NotFound, OperationRefused
from streamkeeper.model.damage import Damage
from streamkeeper.model.finding import Finding
from streamkeeper.model.job_state import JobState
from streamkeeper.model.known_checkpoint import KnownCheckpoint, commits_of, known_checkpoint
from streamkeeper.model.liveness import Life
from streamkeeper.model.manifest import Manifest
from streamkeeper.model.names import check_name
from streamkeeper.model.output_history import OutputHistory
from streamkeeper.model.release import ParamValue
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.whereabouts import find_disk, told_disk
from streamkeeper.registry.control import Control
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.objects import read_manifest

WAY_OUT_OF_A_COPY = "restore a snapshot here: streamkeeper snapshot restore {series}; or deploy under another job name"


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """The serving release of a job.

    ``checkpoints``: query -> directory of its current checkpoint version; ``findings``: what is recorded of those;
    ``served``: whether a driver writes them; ``histories``: what each query's output must hold.
    """

    release: str
    params: dict[str, ParamValue]
    conf: dict[str, str]
    manifests: dict[str, Manifest]
    checkpoints: dict[str, str]
    findings: dict[str, tuple[Finding, ...]]
    served: bool
    histories: dict[str, OutputHistory]


def deployed_of(site: Installation, job: str) -> Deployed:
    """What serves now; raises NotFound when the job is unknown or nothing of it ever served."""
    check_name("job", job)
    state = site.journal(job, writer="check").state()
    release = state.serving_release
    if not release or release not in state.described:
        raise NotFound(f"job {job} has no current release", hint="streamkeeper jobs lists all jobs; or use --deployed")
    content = state.releases[release].content
    return Deployed(
        release=release,
        params=dict(content.params),
        conf=dict(content.conf),
        manifests=stored_manifests(site, state, release),
        checkpoints=live_checkpoints(site, state),
        findings=recorded_findings(site, state),
        served=is_served(site, state),
        histories=output_histories(state),
    )


def is_served(site: Installation, state: JobState) -> bool:
    """Whether a driver that lives owns the job's checkpoints: what is under way there is its own to end."""
    return any(site.runner.observe(state.job, owner.instance).life is Life.ALIVE for owner in state.owners)


def stored_manifests(site: Installation, state: JobState, release: str) -> dict[str, Manifest]:
    """Query -> manifest, as a release described itself."""
    hashes = state.described[release]
    return {query: read_manifest(site.store, state.job, digest) for query, digest in hashes.items()}


def live_checkpoints(site: Installation, state: JobState) -> dict[str, str]:
    """Query -> directory of its current checkpoint version, as far as it has one of this installation's."""
    current = {query: state.current_version(query) for query in state.versions}
    return {
        query: site.checkpoint(state, query, version.version).spark_path
        for query, version in current.items()
        if version is not None and site.is_mine(version.installation)
    }


def output_histories(state: JobState) -> dict[str, OutputHistory]:
    """Query -> what its output must hold of its current checkpoint version."""
    current = {query: state.current_version(query) for query in state.versions}
    return {
        query: state.output_history(query, version.version) for query, version in current.items() if version is not None
    }


def known_version(site: Installation, state: JobState, query: str, version: str) -> KnownCheckpoint:
    """What the journal and the last driver of a checkpoint version say of it; read before its directory is."""
    recorded = state.version(query, version)
    if recorded is None:
        return KnownCheckpoint(series=f"{state.job}/{query}", version=version)
    by = recorded.claimed_by
    status = Control(site.store, state.job, by).read_status() if by else None
    return known_checkpoint(state.job, recorded, commits_of(status))


def must_know_commits(site: Installation, state: JobState) -> None:
    """Raise RegistryDamaged, FormatTooNew where what a query's last driver has committed cannot be read.

    Without it a checkpoint that is missing, or an older copy, could be taken for one that was never written.
    """
    for query in state.versions:
        current = state.current_version(query)
        if current is not None:
            known_version(site, state, query, current.version)


def find_version_loss(site: Installation, state: JobState, query: str, version: str) -> str:
    """What of a checkpoint version is lost, as a clause; empty when nothing is."""
    if foreign := find_foreign(site, state, query, version):
        return foreign
    recorded, tree = state.version(query, version), site.checkpoint(state, query, version)
    if recorded is not None and (host := find_disk(site, state.job, recorded, tree)):
        return told_disk(tree, host)
    return find_loss(tree, known_version(site, state, query, version))


def find_foreign(site: Installation, state: JobState, query: str, version: str) -> str:
    """Why a version is none of this installation's to touch, as a clause; empty when it is.

    In a copied store the records name the checkpoints of the installation that it was copied from.
    """
    recorded = state.version(query, version)
    if recorded is None or site.is_mine(recorded.installation):
        return ""
    directory = site.checkpoint(state, query, version)
    return f"{directory.where('')} belongs to the installation that this one was copied from"


def must_be_mine(site: Installation, state: JobState, query: str, version: str) -> None:
    """Raise OperationRefused for a version of the installation that this one was copied from."""
    if foreign := find_foreign(site, state, query, version):
        raise OperationRefused(foreign, hint=WAY_OUT_OF_A_COPY.format(series=f"{state.job}/{query}"))


def recorded_findings(site: Installation, state: JobState) -> dict[str, tuple[Finding, ...]]:
    """Query -> what the records say of its current checkpoint version, and a check has to know."""
    found: dict[str, tuple[Finding, ...]] = {}
    for query in state.versions:
        current = state.current_version(query)
        if current is None:
            continue
        known = known_version(site, state, query, current.version)
        directory = site.checkpoint(state, query, current.version)
        # Nothing served since it was made again: what wrote this checkpoint, nobody knows.
        unknown = state.rebuilt is not None and not state.serving_release
        if foreign := find_foreign(site, state, query, current.version):
            hint = WAY_OUT_OF_A_COPY.format(series=known.series)
            found[query] = (observations.checkpoint_of_another(current.version, foreign, hint),)
        elif host := find_disk(site, state.job, current, directory):
            hint = f"run it on {host}"
            found[query] = (observations.checkpoint_lost(current.version, told_disk(directory, host), hint),)
        elif loss := find_loss(directory, known):
            found[query] = (observations.checkpoint_lost(current.version, loss, way_out(known)),)
        elif state.rebuilt is not None and unknown:
            found[query] = (observations.release_unknown(current.version, f"the journal was {state.rebuilt.sentence}"),)
        elif state.root_of(query, current.version, "") not in ("", site.settings.checkpoints):
            found[query] = (observations.checkpoint_elsewhere(current.version, directory.where("")),)
    return found


def find_damage(site: Installation, checkpoint: Tree) -> Damage | None:
    """Whether a directory that is a deployed query's checkpoint version is less than what was recorded of it.

    None as well for a directory that is none: the files of a checkpoint that began anew are whole in themselves.
    """
    *_, job, query, version = ("", "", "", *checkpoint.location.split("/"))
    if job not in list_jobs(site.store):
        return None
    state = site.journal(job, "reader").state()
    if state.version(query, version) is None or site.checkpoint(state, query, version).location != checkpoint.location:
        return None
    known = known_version(site, state, query, version)
    loss = find_loss(checkpoint, known)
    if not loss:
        return None
    return Damage(
        shape="checkpoint-lost",
        where=".",
        evidence=loss,
        on_start="Streamkeeper refuses to start; Spark would start from the beginning, or write batches again.",
        safe=False,
        hint=way_out(known),
    )
