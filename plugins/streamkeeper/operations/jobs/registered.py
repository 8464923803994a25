"""The baseline of a check: the manifests of a registered job's current release, and its current checkpoints."""

from __future__ import annotations

import msgspec

from streamkeeper.checkpoints.identity import find_loss, way_out
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.compatibility import observations
from streamkeeper.errors import NotFound, OperationRefused
from streamkeeper.model.manifests.finding import Finding
from streamkeeper.model.manifests.manifest import Manifest
from streamkeeper.model.manifests.release import ParamValue
from streamkeeper.model.names import check_name
from streamkeeper.model.protocol.damage import Damage
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.protocol.output_history import OutputHistory
from streamkeeper.model.records.checkpoint_version import CheckpointVersion, topics_of_the_first_rows
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.known_checkpoint import KnownCheckpoint
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation, JobObservation
from streamkeeper.operations.jobs.placement import find_disk, told_disk
from streamkeeper.registry.jobs import list_jobs
from streamkeeper.registry.objects import read_manifest

WAY_OUT_OF_A_COPY = "run `streamkeeper snapshot restore {series}` to continue here, or deploy under another job name"


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """The current release of a job, with its manifests, and its current checkpoints with the findings about them."""

    release: str
    """The release's name."""
    params: dict[str, ParamValue]
    """The release's params."""
    conf: dict[str, str]
    """The release's Spark conf."""
    manifests: dict[str, Manifest]
    """Query -> manifest."""
    checkpoints: dict[str, str]
    """Query -> directory of its current checkpoint version."""
    findings: dict[str, tuple[Finding, ...]]
    """Query -> findings from the records about that checkpoint version."""
    served: bool
    """Whether a running driver owns the checkpoints."""
    histories: dict[str, OutputHistory]
    """Query -> the batches that its output must contain."""
    topics: dict[str, dict[str, str]]
    """Query -> the ids of the Kafka topics to which the checkpoint's offsets belong."""
    first_topics: dict[str, dict[str, str]]
    """Query -> the ids of the Kafka topics from which the oldest rows of its output were read."""


def deployed_of(installation: Installation, job: str) -> Deployed:
    """Return the current release; raises NotFound for an unknown job, and for a job without a current release."""
    check_name("job", job)
    state = installation.journal(job, writer="check").state()
    release = state.serving_release
    if not release or release not in state.described:
        raise NotFound(
            f"job {job} has no current release",
            hint="run `streamkeeper jobs` to list all jobs, or replace `--job` with `--deployed` and `--checkpoint`",
        )
    content = state.releases[release].content
    return Deployed(
        release=release,
        params=dict(content.params),
        conf=dict(content.conf),
        manifests=stored_manifests(installation, state, release),
        checkpoints=live_checkpoints(installation, state),
        findings=recorded_findings(installation, state),
        served=is_served(installation, state),
        histories=output_histories(state),
        topics=offset_topics(state),
        first_topics=first_topics(state),
    )


def is_served(installation: Installation, state: JobState) -> bool:
    """Whether a running driver owns checkpoints of the job. If so, the open batches in them belong to that driver."""
    return any(
        DriverObservation.of(installation, state, owner.instance).liveness.life is Life.ALIVE for owner in state.owners
    )


def stored_manifests(installation: Installation, state: JobState, release: str) -> dict[str, Manifest]:
    """Return the manifests of a release, by query. Raises NotFound for a release that no driver has described."""
    hashes = state.described.get(release)
    if hashes is None:
        # A caller has read that it is described: an older copy of the store may have been put in its place since then.
        raise NotFound(f"job {state.job} records no description of {release}", hint=f"deploy {release} again")
    return {query: read_manifest(installation.store, state.job, digest) for query, digest in hashes.items()}


def live_checkpoints(installation: Installation, state: JobState) -> dict[str, str]:
    """Return the directories of the current checkpoint versions, by query.

    Queries without a current version are left out, and so are versions that belong to another installation.
    """
    return {
        query: installation.checkpoint(state, query, version.version).spark_path
        for query, version in _current_versions(state).items()
        if installation.is_mine(version.installation)
    }


def output_histories(state: JobState) -> dict[str, OutputHistory]:
    """Return, by query, the batches of the current checkpoint version that the query's output must contain."""
    return {query: state.output_history(query, version.version) for query, version in _current_versions(state).items()}


def offset_topics(state: JobState) -> dict[str, dict[str, str]]:
    """Return, by query, the ids of the Kafka topics to which the offsets in the current checkpoint version belong."""
    return {query: state.offset_topics(query, version.version) for query, version in _current_versions(state).items()}


def first_topics(state: JobState) -> dict[str, dict[str, str]]:
    """Return, by query, the ids of the Kafka topics from which the oldest rows of the current output were read."""
    return {
        query: topics_of_the_first_rows(state.versions[query], version.version)
        for query, version in _current_versions(state).items()
    }


def _current_versions(state: JobState) -> dict[str, CheckpointVersion]:
    current = {query: state.current_version(query) for query in state.versions}
    return {query: version for query, version in current.items() if version is not None}


def known_version(installation: Installation, state: JobState, query: str, version: str) -> KnownCheckpoint:
    """Return the facts that the journal and the last driver recorded about a version. Call this before reading the
    version's files.
    """
    return JobObservation(installation, state.job, state=state).known_version(query, version)


def must_know_commits(installation: Installation, state: JobState) -> None:
    """Raise RegistryDamaged or FormatTooNew if the commits of a query's last driver cannot be read.

    Without these commits, a missing checkpoint, or an older copy in its place, could be mistaken for a checkpoint that
    was never written.
    """
    for query in state.versions:
        current = state.current_version(query)
        if current is not None:
            known_version(installation, state, query, current.version)


def find_version_loss(installation: Installation, state: JobState, query: str, version: str) -> str:
    """Return, as a phrase, why this machine cannot use a checkpoint version; empty if it can.

    This machine cannot use a version that belongs to another installation, that is on the disk of another host, or
    whose files do not match its records.
    """
    return find_observed_loss(JobObservation(installation, state.job, state=state), query, version)


def find_observed_loss(job: JobObservation, query: str, version: str) -> str:
    """Return what ``find_version_loss`` returns, for a job that is already being observed."""
    installation, state = job.installation, job.state
    if foreign := find_foreign(installation, state, query, version):
        return foreign
    recorded, tree = state.version(query, version), installation.checkpoint(state, query, version)
    if recorded is not None and (host := find_disk(installation, state.job, recorded, tree)):
        return told_disk(tree, host)
    return find_loss(tree, job.known_version(query, version))


def find_foreign(installation: Installation, state: JobState, query: str, version: str) -> str:
    """Return why this installation must not touch a version, as a phrase; empty if it may touch the version.

    The records in a copied store name the checkpoints of the original installation.
    """
    recorded = state.version(query, version)
    if recorded is None or installation.is_mine(recorded.installation):
        return ""
    directory = installation.checkpoint(state, query, version)
    return f"{directory.where('')} belongs to the installation that this one was copied from"


def must_be_mine(installation: Installation, state: JobState, query: str, version: str) -> None:
    """Raise OperationRefused if a version belongs to the installation from which this installation was copied."""
    if foreign := find_foreign(installation, state, query, version):
        raise OperationRefused(foreign, hint=WAY_OUT_OF_A_COPY.format(series=f"{state.job}/{query}"))


def recorded_findings(installation: Installation, state: JobState) -> dict[str, tuple[Finding, ...]]:
    """Return, by query, the findings of a check that follow from the records of the current checkpoint version.

    Queries without such a finding are left out.
    """
    found: dict[str, tuple[Finding, ...]] = {}
    for query in state.versions:
        current = state.current_version(query)
        if current is None:
            continue
        known = known_version(installation, state, query, current.version)
        directory = installation.checkpoint(state, query, current.version)
        # No release has run since the rebuild, so the release that wrote this checkpoint is unknown.
        unknown = state.rebuilt is not None and not state.serving_release
        if foreign := find_foreign(installation, state, query, current.version):
            hint = WAY_OUT_OF_A_COPY.format(series=known.series)
            found[query] = (observations.checkpoint_of_another(current.version, foreign, hint),)
        elif host := find_disk(installation, state.job, current, directory):
            hint = f"run the command on {host}"
            found[query] = (observations.checkpoint_lost(current.version, told_disk(directory, host), hint),)
        elif loss := find_loss(directory, known):
            found[query] = (observations.checkpoint_lost(current.version, loss, way_out(known)),)
        elif state.rebuilt is not None and unknown:
            found[query] = (observations.release_unknown(current.version, f"the journal was {state.rebuilt.sentence}"),)
        elif state.root_of(query, current.version, "") not in ("", installation.settings.checkpoints):
            found[query] = (observations.checkpoint_elsewhere(current.version, directory.where("")),)
    return found


def find_damage(installation: Installation, checkpoint: Tree) -> Damage | None:
    """Return what a deployed query's checkpoint version has lost, as a Damage; None if it has lost nothing.

    None is also returned for a directory that is not a recorded version, because only a record reveals a loss.
    """
    *_, job, query, version = ("", "", "", *checkpoint.location.split("/"))
    if job not in list_jobs(installation.store):
        return None
    state = installation.journal(job, "reader").state()
    if (
        state.version(query, version) is None
        or installation.checkpoint(state, query, version).location != checkpoint.location
    ):
        return None
    known = known_version(installation, state, query, version)
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
