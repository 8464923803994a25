"""Which jobs a store knows."""

from __future__ import annotations

from streamkeeper.model.names import is_name
from streamkeeper.stores.contract import Store

_ROOT = "registry/"
_ROOTS = (_ROOT, "control/", "carriers/", "incidents/")


def list_jobs(store: Store) -> list[str]:
    """Names of all jobs with anything in the registry, in order; one list request for a thousand jobs."""
    return list_job_folders(store, _ROOT)


def list_job_folders(store: Store, root: str) -> list[str]:
    """Names of the jobs with a folder under ``root``, in order; a folder that no job can be named by is passed over."""
    return sorted(filter(is_name, store.folders(root)))


def stray_folders(store: Store) -> list[str]:
    """The folders beside those of jobs that no job can be named by, as copies that somebody has kept."""
    return [f"{root}{name}" for root in _ROOTS for name in sorted(store.folders(root)) if not is_name(name)]
