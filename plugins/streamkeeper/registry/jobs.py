"""Which jobs a store knows."""

from __future__ import annotations

from streamkeeper.stores.contract import Store

_ROOT = "registry/"


def list_jobs(store: Store) -> list[str]:
    """Names of all jobs with anything in the registry, in order; one list request for a thousand jobs."""
    return sorted(store.folders(_ROOT))
