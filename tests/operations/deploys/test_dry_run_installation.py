"""The temporary installation in which an unknown job's dry run is carried out; it is removed afterwards, whatever
happened in it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streamkeeper.errors import StoreUnavailable
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import InstancePlanned, OperationStarted, Role
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.deploys.dry_run_installation import leaves_nothing, place_to_try_out
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.runners.local_process import LocalProcessRunner
from tests.operations.registered_job import JOB, Registered

SLEEPER = ("/bin/sh", "-c", "sleep 60", "driver")


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """An installation with one running job."""
    (tmp_path / "home").mkdir()
    return Registered(tmp_path)


def test_only_a_dry_run_of_an_unknown_job_uses_a_temporary_installation(job: Registered) -> None:
    """Only a dry run of an unknown job uses a temporary installation; a deploy, and a dry run of a known job, are
    recorded in the job's history.
    """
    assert leaves_nothing(job.installation, DeployRequest(job="orders", dry_run=True))
    assert not leaves_nothing(job.installation, DeployRequest(job="orders"))
    assert not leaves_nothing(job.installation, DeployRequest(job=JOB, dry_run=True))


def start_and_interrupt(place: Installation) -> None:
    """Start a process in the temporary installation, and raise KeyboardInterrupt once it runs."""
    started = OperationStarted(operation="op", request=DeployRequest(job="orders", dry_run=True), steps=())
    planned = InstancePlanned(operation="op", instance="op-describer", release="r0001", role=Role.DESCRIBER)
    for record in (started, planned):
        place.journal("orders", "test").append(lambda _, record=record: record)
    spec = LaunchSpec(
        instance="op-describer", job="orders", release="r0001", mode=LaunchMode.DESCRIBE, bundle="b",
        entry="orders.py", params={}, conf={}, checkpoints="",
    )  # fmt: skip
    place.runner.launch(spec, {})
    until = time.monotonic() + 20
    while place.runner.observe("orders", "op-describer").life is not Life.ALIVE:
        assert time.monotonic() < until
    raise KeyboardInterrupt


def test_an_interrupted_dry_run_leaves_no_key_folder_or_process(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted dry run leaves no key in the store, no folder in the home directory and no process that it has
    started.
    """
    before = sorted(job.installation.store.list("")), sorted(Path(job.installation.settings.home).rglob("*"))
    monkeypatch.setitem(LocalProcessRunner.__init__.__kwdefaults__, "driver", SLEEPER)
    places = []

    def interrupted() -> None:
        with place_to_try_out(job.installation, "op", "orders") as place:
            places.append(place)
            start_and_interrupt(place)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    # What lives is seen without asking the store, which is gone.
    with pytest.raises(StoreUnavailable):
        places[0].runner.observe("orders", "op-describer")
    (Path(job.installation.settings.home) / "scratch").rmdir()
    assert before == (sorted(job.installation.store.list("")), sorted(Path(job.installation.settings.home).rglob("*")))
