"""Find jobs under the jobs root that differ from their current release.

The bundles' hashes are compared, so changes in imported modules count too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import InvalidInput, NotFound, StreamkeeperError
from streamkeeper.model.markdown_text import visible
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.job_health import declares_job
from streamkeeper.registry.jobs import list_jobs


class ChangeKind(StrEnum):
    """How a job under the jobs root compares with its current release."""

    SAME = "same"
    CHANGED = "changed"
    FIRST = "first deploy"
    """A job without a current release."""
    NO_FILE = "no file"
    """A job that is not stopped and has no file here: deleted, renamed, or from another jobs root."""
    UNKNOWN = "unknown"
    """A job whose code or records cannot be read."""


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """One job, and how it compares with its current release."""

    job: str
    """The job's name."""
    kind: ChangeKind
    """How the job compares with its current release."""
    release: str = ""
    """The current release; empty without one."""
    error: str = ""
    """Why the kind is UNKNOWN."""


def find_changed_jobs(installation: Installation) -> list[JobChange]:
    """Return the jobs whose file is in the jobs root, and the running jobs without a file, sorted by name.

    A job counts as running if it was deployed and not stopped since. A job that cannot be compared has its error in
    ``error``. Raises InvalidInput if there is no jobs root, and StoreUnavailable if the jobs cannot be listed.
    """
    root = Path(installation.settings.jobs)
    if not root.is_dir():
        raise InvalidInput(
            f"the jobs root {root} is not a directory", hint="set STREAMKEEPER_JOBS to the directory with the jobs"
        )
    return list(_changes(installation, root, {*list_jobs(installation.store)}))


def _changes(installation: Installation, root: Path, known: set[str]) -> Iterator[JobChange]:
    for name in sorted({*known, *(path.stem for path in root.glob("*.py"))}):
        try:
            found = _look(installation, root, name, known=name in known)
        except (StreamkeeperError, OSError, UnicodeError) as error:
            found = JobChange(job=visible(name), kind=ChangeKind.UNKNOWN, error=str(error))
        if found is not None:
            yield found


def _look(installation: Installation, root: Path, job: str, *, known: bool) -> JobChange | None:
    """Compare one job; None for a file without a job, and for a stopped or undeployed job without a file."""
    file = root / f"{job}.py"
    if not known and not (file.is_file() and _may_be_job(file, job)):
        return None
    state = installation.journal(job, writer="check").state()
    release = state.serving_release
    if not file.is_file():
        return JobChange(job=job, kind=ChangeKind.NO_FILE, release=release) if state.wanted else None
    bundle = build_bundle(root, job)
    if not release:
        return JobChange(job=job, kind=ChangeKind.FIRST)
    same = bundle.sha256 == state.releases[release].content.bundle
    return JobChange(job=job, kind=ChangeKind.SAME if same else ChangeKind.CHANGED, release=release)


def _may_be_job(file: Path, job: str) -> bool:
    """Whether a file declares the job with the file's name, or may declare it because the file cannot be parsed."""
    source = file.read_bytes()
    try:
        return declares_job(source, job)
    except (SyntaxError, ValueError, RecursionError):
        return b"streaming_job" in source


def checkpoints_must_be_here(installation: Installation, job: str) -> None:
    """Raise NotFound if this machine lacks the root of a job's checkpoints, without which the job cannot be checked."""
    state = installation.journal(job, writer="check").state()
    for query in state.versions:
        current = state.current_version(query)
        if current is None:
            continue
        root = state.root_of(query, current.version, installation.settings.checkpoints)
        if tree_at(root).absence():
            hint = "run the check on a machine that has this root; read access is enough"
            raise NotFound(f"this machine has no checkpoint root {root}", hint=hint)
