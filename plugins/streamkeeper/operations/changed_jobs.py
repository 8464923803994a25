"""Which jobs under the jobs root are not what serves: told by the hash of their bundles, so that a helper counts."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import InvalidInput, NotFound, StreamkeeperError
from streamkeeper.model.markdown_text import visible
from streamkeeper.model.names import check_name
from streamkeeper.operations.installation import Installation
from streamkeeper.registry.bundles import build_bundle
from streamkeeper.registry.job_health import declares_job
from streamkeeper.registry.jobs import list_jobs


class ChangeKind(StrEnum):
    """How a job stands under the jobs root against what serves."""

    SAME = "same"
    CHANGED = "changed"
    FIRST = "first deploy"
    """A job of which nothing has ever served."""
    NO_FILE = "no file"
    """A job that serves and has no file here: deleted, renamed, or of another jobs root."""
    UNKNOWN = "unknown"
    """Its code or its records cannot be read."""


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """One job. ``release``: what serves, empty where nothing does; ``error``: why it is UNKNOWN."""

    job: str
    kind: ChangeKind
    release: str = ""
    error: str = ""


def find_changed_jobs(site: Installation) -> list[JobChange]:
    """Every job of the jobs root and every one that is to serve, in order; what one of them raises is its ``error``.

    Raises InvalidInput without a jobs root, StoreUnavailable without the list of jobs.
    """
    root = Path(site.settings.jobs)
    if not root.is_dir():
        raise InvalidInput(f"the jobs root {root} is not a directory", hint="point STREAMKEEPER_JOBS at it")
    return list(_changes(site, root, {*list_jobs(site.store)}))


def _changes(site: Installation, root: Path, known: set[str]) -> Iterator[JobChange]:
    for name in sorted({*known, *(path.stem for path in root.glob("*.py"))}):
        try:
            found = _look(site, root, name, known=name in known)
        except (StreamkeeperError, OSError, UnicodeError) as error:
            found = JobChange(job=visible(name), kind=ChangeKind.UNKNOWN, error=str(error))
        if found is not None:
            yield found


def _look(site: Installation, root: Path, job: str, *, known: bool) -> JobChange | None:
    """None for a file that is no job's, and for a job that has neither a file nor anything to serve."""
    file = root / f"{job}.py"
    if not known and not (file.is_file() and _may_be_job(file, job)):
        return None
    state = site.journal(check_name("job", job), writer="check").state()
    release = state.serving_release
    if not file.is_file():
        return JobChange(job=job, kind=ChangeKind.NO_FILE, release=release) if state.wanted else None
    bundle = build_bundle(root, job)
    if not release:
        return JobChange(job=job, kind=ChangeKind.FIRST)
    same = bundle.sha256 == state.releases[release].content.bundle
    return JobChange(job=job, kind=ChangeKind.SAME if same else ChangeKind.CHANGED, release=release)


def _may_be_job(file: Path, job: str) -> bool:
    """Whether a file under the jobs root holds the job of its name; a broken one that speaks of jobs may."""
    source = file.read_bytes()
    try:
        return declares_job(source, job)
    except (SyntaxError, ValueError, RecursionError):
        return b"streaming_job" in source


def checkpoints_must_be_here(site: Installation, job: str) -> None:
    """Raise NotFound where a job's checkpoints lie below a root that this machine has not, so that no look is one."""
    state = site.journal(job, writer="check").state()
    for query in state.versions:
        current = state.current_version(query)
        if current is None:
            continue
        root = state.root_of(query, current.version, site.settings.checkpoints)
        if tree_at(root).absence():
            hint = "run the check on a machine that has them; read access is enough"
            raise NotFound(f"this machine has no checkpoint root {root}", hint=hint)
