"""Which jobs a store knows."""

from __future__ import annotations

from streamkeeper.stores.contract import Store

_ROOT = "registry/"


def list_jobs(store: Store) -> list[str]:
    """Names of all jobs with anything in the registry, in order; one list request per job."""
    jobs: list[str] = []
    after = ""
    while key := next(store.list(_ROOT, after=after), ""):
        job = key.removeprefix(_ROOT).split("/", 1)[0]
        jobs.append(job)
        # "0" is the character after "/": every key of this job lies before it, every other job's key after it.
        after = f"{_ROOT}{job}0"
    return jobs
