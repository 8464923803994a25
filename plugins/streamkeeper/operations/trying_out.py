"""Where a dry run of a job that the store does not know takes place: in a folder that is gone afterwards.

There is nothing yet that it could be compared with, so it needs nothing of the store, and leaves nothing in it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from streamkeeper.model.journal import DeployRequest
from streamkeeper.model.liveness import Life
from streamkeeper.operations.sites import Site
from streamkeeper.registry.journal import has_journal
from streamkeeper.runners.local_process import LocalProcessRunner
from streamkeeper.stores.opening import open_store

_END_S = 10.0
_LOOK_S = 0.1


def leaves_nothing(site: Site, request: DeployRequest) -> bool:
    """Whether it is a dry run of a job that would be registered by nothing else."""
    return request.dry_run and not has_journal(site.store, request.job)


@contextmanager
def place_to_try_out(site: Site, job: str) -> Iterator[Site]:
    """The site with a store and a home for this one operation; whatever was started there is ended with it."""
    parent = Path(site.settings.home) / "scratch"
    parent.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="dry-run-", dir=parent))
    settings = replace(site.settings, home=str(home), store=(home / "store").as_uri(), snapshots="")
    store = open_store(settings.store)
    tried = Site(settings, store, LocalProcessRunner(store, settings), site.resolvers)
    try:
        yield tried
    finally:
        _end_all(tried, job)
        shutil.rmtree(home, ignore_errors=True)


def _end_all(site: Site, job: str) -> None:
    until = time.monotonic() + _END_S
    for instance in site.journal(job, "dry-run").state().instances:
        while site.runner.observe(job, instance).life is Life.ALIVE and time.monotonic() < until:
            site.runner.kill(job, instance)
            time.sleep(_LOOK_S)
