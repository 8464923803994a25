"""The jobs in a store."""

from __future__ import annotations

from streamkeeper.model.names import is_name
from streamkeeper.stores.contract import Store

_ROOT = "registry/"
_ROOTS = (_ROOT, "control/", "carriers/", "incidents/")


def list_jobs(store: Store) -> list[str]:
    """Return the names of all jobs with any record in the registry, in order; one list request per thousand jobs."""
    return list_job_folders(store, _ROOT)


def list_job_folders(store: Store, root: str) -> list[str]:
    """Return the names of the jobs with a folder under ``root``, in order; other folders are skipped."""
    return sorted(filter(is_name, store.folders(root)))


def stray_folders(store: Store) -> list[str]:
    """Return the folders that lie next to the folders of jobs but do not have a valid job name, such as a copy that a
    person made.
    """
    return [f"{root}{name}" for root in _ROOTS for name in sorted(store.folders(root)) if not is_name(name)]
