"""The place of a dry run of a job without records in the store: a temporary folder.

Such a job has no release to compare with, so its dry run neither reads nor writes the store.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from streamkeeper.errors import WrongMachine
from streamkeeper.model.names import check_name
from streamkeeper.model.protocol.driver_messages import LOCAL
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.runner_kinds.known_runners import runner_kind
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import DriverObservation
from streamkeeper.registry.journal import has_journal
from streamkeeper.stores.store_urls import open_store
from streamkeeper.system import clock
from streamkeeper.system.private_files import make_folders

_END_S = 10.0
_LOOK_S = 0.1


def leaves_nothing(installation: Installation, request: DeployRequest) -> bool:
    """Whether the request is a dry run of a job without a journal."""
    return request.dry_run and not has_journal(installation.store, check_name("job", request.job))


def place_name(operation: str) -> str:
    """Return a name for the private installation of a dry run: the operation's id and this machine's host name."""
    return f"{operation}@{socket.gethostname()}"


def place_of(installation: Installation, name: str) -> Installation:
    """Return a private installation, with its own store and home, for the dry run of one operation.

    Repeated calls return the same installation. ``name``: the operation's id, or the result of ``place_name``.

    The drivers of the private installation run on this machine, because no other machine has that home. Raises
    WrongMachine if ``name`` names another host and that home does not exist here. Raises the errors of
    ``check_place`` if the deploy's drivers could not be started.
    """
    operation, _, host = name.partition("@")
    home = installation.settings.scratch / f"dry-run-{hashlib.sha256(operation.encode()).hexdigest()[:8]}"
    if host not in ("", socket.gethostname()) and not home.exists():
        raise WrongMachine(
            f"the dry run {operation} runs on {host}, and this machine is {socket.gethostname()}",
            hint=f"continue the dry run on {host}",
        )
    if runner_kind(installation.settings.drivers).on_nodes and not home.exists():
        installation.runner.check_place()
    make_folders(home)
    settings = replace(
        installation.settings, home=str(home), store=(home / "store").as_uri(), snapshots="", drivers=LOCAL
    )
    store = open_store(settings.store)
    return Installation.of(settings, store, installation.resolvers)


def clear_place(place: Installation, job: str) -> None:
    """Kill the drivers of a private installation from ``place_of``, and remove the installation's home and store."""
    until = clock.monotonic() + _END_S
    for instance in place.journal(job, "dry-run").state().instances:
        # A recorded end does not count: an instance that was given up may still run.
        while DriverObservation(place, job, instance).liveness.life is Life.ALIVE and clock.monotonic() < until:
            place.runner.kill(job, instance)
            clock.sleep(_LOOK_S)
    shutil.rmtree(place.settings.home, ignore_errors=True)


@contextmanager
def place_to_try_out(installation: Installation, operation: str, job: str) -> Iterator[Installation]:
    """Yield the private installation of an operation's dry run, and remove that installation on exit."""
    place = place_of(installation, operation)
    try:
        yield place
    finally:
        clear_place(place, job)
