"""Kills a process of a current driver and verifies that the driver resumes from its checkpoint."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum
from pathlib import Path

from demo.deploys import StepReport
from harness.system import System, Tell
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.process_tree import find_tree, generation_of, mark


class Victim(Enum):
    """The kind of process of a driver that is killed."""

    PYTHON = "Python"
    JVM = "JVM"


def kill_and_watch(
    system: System, victims: dict[str, Victim], tell: Tell, *, timeout_s: float = 600
) -> list[StepReport]:
    """Send SIGKILL to one process of each job's driver, and wait until every restarted driver has committed a batch.

    Raises StillWaiting with the names of the jobs whose drivers did not commit in time.
    """
    began = time.monotonic()
    before = {job: _kill(system, job, victim, tell) for job, victim in victims.items()}
    reports: dict[str, StepReport] = {}

    def all_came_back() -> bool:
        for job, killed in before.items():
            now = serving_driver(system, job)
            if job not in reports and _came_back(killed, now):
                reports[job] = _report(f"kill the {victims[job].value} of {job}", now, time.monotonic() - began, tell)
        return len(reports) == len(before)

    if not wait_until(all_came_back, timeout_s=timeout_s):
        lost = ", ".join(job for job in before if job not in reports)
        raise StillWaiting(f"{lost} did not come back within {timeout_s:.0f} s of the kill")
    return [reports[job] for job in victims]


def serving_driver(system: System, job: str) -> DriverStatus:
    """Return the current driver's status; raises DeployFailed if the job has no current driver."""
    installation = system.installation
    instance = installation.journal(job, "demo").state().serving_instance
    status = Control(installation.store, job, instance).read_status() if instance else None
    if status is None:
        raise DeployFailed(f"{job} has no serving driver to kill")
    return status


def _kill(system: System, job: str, victim: Victim, tell: Tell) -> DriverStatus:
    status = serving_driver(system, job)
    pid = _find(job, status.instance, victim)
    tell(f"  kill -9 {pid}: the {victim.value} of {job}, at batch {_batch(status)}")
    os.kill(pid, signal.SIGKILL)
    return status


def _came_back(before: DriverStatus, now: DriverStatus) -> bool:
    if now.generation <= before.generation or now.state is not DriverState.SERVING:
        return False
    return all(query.committed is not None for query in now.queries.values()) and _batch(now) > _batch(before)


def _report(name: str, now: DriverStatus, wall_s: float, tell: Tell) -> StepReport:
    text = f"back from its checkpoint as generation {now.generation}, batch {_batch(now)}"
    tell(f"[green]{name}[/]: {text} ({wall_s:.0f} s)")
    return StepReport(name=name, outcome="came back", wall_s=round(wall_s, 1), told=text)


def _batch(status: DriverStatus) -> int:
    return min(
        (query.committed if query.committed is not None else -1 for query in status.queries.values()), default=-1
    )


def _find(job: str, instance: str, victim: Victim) -> int:
    for process in find_tree(mark(job, instance)):
        try:
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # a child that ended after the tree was read
        is_jvm = command[0].endswith(b"java")
        # The supervisor's command line contains the driver's too, but the supervisor belongs to no generation.
        is_driver = b"streamkeeper.driver" in command and generation_of(process.pid) is not None
        if (is_jvm and victim is Victim.JVM) or (is_driver and victim is Victim.PYTHON):
            return process.pid
    raise DeployFailed(f"{instance} has no {victim.value} process")
