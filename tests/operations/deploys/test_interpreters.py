"""Which Python interpreter a release is started in, according to real launch records."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from streamkeeper.model.manifests.release import Release
from streamkeeper.model.protocol.driver_messages import LaunchMode, LaunchSpec
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.deploys.interpreters import choose_interpreter
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.environments import read_environment
from tests.operations.registered_job import JOB, Registered


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose release was made in a different environment."""
    return Registered(tmp_path)


def launched(job: Registered, python: str) -> None:
    """Record that the release's driver was started in this interpreter."""
    spec = LaunchSpec(
        instance="op-candidate",
        job=JOB,
        release="r0001",
        mode=LaunchMode.STANDBY,
        bundle="",
        entry="sales.py",
        params={},
        conf={},
        checkpoints="",
        python=python,
    )
    Control(job.installation.store, JOB, "op-candidate").write_launch(spec)


def chosen(job: Registered, **changes: object) -> str:
    """Return the interpreter chosen for the current release; ``changes`` are applied to the job's state."""
    state = msgspec.structs.replace(job.installation.journal(JOB, "test").state(), **changes)
    return choose_interpreter(job.installation.store, state, state.releases["r0001"])


def test_a_release_is_restarted_in_the_interpreter_that_ran_it(job: Registered, tmp_path: Path) -> None:
    """A release is restarted in the interpreter that ran it, so that a rollback, a restart and a fallback use the Spark
    that the release was checked under.
    """
    other = tmp_path / "python"
    other.touch(0o700)
    launched(job, str(other))
    assert chosen(job) == str(other)


def test_a_missing_interpreter_is_replaced_by_the_present_one(job: Registered, tmp_path: Path) -> None:
    """A release whose recorded interpreter is missing is started in the present one."""
    launched(job, str(tmp_path / "gone"))
    assert chosen(job) == sys.executable


@pytest.mark.parametrize("recorded", [False, True])
def test_a_launch_record_without_interpreter_starts_in_the_present_one(job: Registered, recorded: bool) -> None:
    """A release whose launch record is missing, or names no interpreter, is started in the present one."""
    if recorded:
        launched(job, "")
    assert chosen(job) == sys.executable


def test_a_release_never_described_starts_in_the_present_interpreter(job: Registered, tmp_path: Path) -> None:
    """A release that was never described, such as one pushed by CI, is started in the present interpreter."""
    other = tmp_path / "python"
    other.touch(0o700)
    launched(job, str(other))
    assert chosen(job, described={}) == sys.executable


def test_a_release_with_equal_packages_starts_in_the_present_interpreter(job: Registered, tmp_path: Path) -> None:
    """A release with the same packages as the present environment is started in the present interpreter, even if a
    different one is recorded.
    """
    other = tmp_path / "python"
    other.touch(0o700)
    launched(job, str(other))
    state: JobState = job.installation.journal(JOB, "test").state()
    release = state.releases["r0001"]
    content = msgspec.structs.replace(release.content, environment=read_environment())
    here = Release(job=JOB, number=release.number, content=content)
    assert choose_interpreter(job.installation.store, state, here) == sys.executable
