"""Where a dry run of a job that the store does not know takes place: in a folder that is gone afterwards.

There is nothing yet that it could be compared with, so it needs nothing of the store, and leaves nothing in it.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from streamkeeper.errors import WrongMachine
from streamkeeper.model.control import LOCAL
from streamkeeper.model.liveness import Life
from streamkeeper.model.names import check_name
from streamkeeper.model.request import DeployRequest
from streamkeeper.operations.installation import Installation
from streamkeeper.private_files import make_folders
from streamkeeper.registry.journal import has_journal
from streamkeeper.stores.opening import open_store

_END_S = 10.0
_LOOK_S = 0.1


def leaves_nothing(site: Installation, request: DeployRequest) -> bool:
    """Whether it is a dry run of a job that would be registered by nothing else."""
    return request.dry_run and not has_journal(site.store, check_name("job", request.job))


def place_name(operation: str) -> str:
    """What tells others of an operation's place, and which machine has it."""
    return f"{operation}@{socket.gethostname()}"


def place_of(site: Installation, name: str) -> Installation:
    """The site with a store and a home for this one operation; whoever asks again gets the same.

    ``name``: the operation's, or what ``place_name`` makes of it. Its drivers are this machine's, which alone has that
    home. Raises WrongMachine on any other, and as ``check_place`` where those of the deploy could not be started.
    """
    operation, _, host = name.partition("@")
    home = site.settings.scratch / f"dry-run-{hashlib.sha256(operation.encode()).hexdigest()[:8]}"
    if host not in ("", socket.gethostname()) and not home.exists():
        raise WrongMachine(
            f"the dry run {operation} runs on {host}, and this machine is {socket.gethostname()}",
            hint=f"continue it on {host}",
        )
    if site.settings.drivers != LOCAL and not home.exists():
        site.runner.check_place()
    make_folders(home)
    settings = replace(site.settings, home=str(home), store=(home / "store").as_uri(), snapshots="", drivers=LOCAL)
    store = open_store(settings.store)
    return Installation.of(settings, store, site.resolvers)


def clear_place(place: Installation, job: str) -> None:
    """End whatever was started there, and remove it."""
    until = time.monotonic() + _END_S
    for instance in place.journal(job, "dry-run").state().instances:
        while place.runner.observe(job, instance).life is Life.ALIVE and time.monotonic() < until:
            place.runner.kill(job, instance)
            time.sleep(_LOOK_S)
    shutil.rmtree(place.settings.home, ignore_errors=True)


@contextmanager
def place_to_try_out(site: Installation, operation: str, job: str) -> Iterator[Installation]:
    """The place of an operation, which is gone afterwards."""
    place = place_of(site, operation)
    try:
        yield place
    finally:
        clear_place(place, job)
