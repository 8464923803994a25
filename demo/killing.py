"""Killing a serving driver's process, and seeing the driver come back from its checkpoint."""

from __future__ import annotations

import os
import signal
import time
from enum import Enum
from pathlib import Path

from demo.deploys import StepReport
from demo.processes import wait_until
from demo.system import System, Tell
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.control import DriverState, DriverStatus
from streamkeeper.registry.control import Control
from streamkeeper.runners.process_tree import find_tree, generation_of, mark


class Victim(Enum):
    """Which of a driver's two processes."""

    PYTHON = "Python"
    JVM = "JVM"


def kill_and_watch(system: System, job: str, victim: Victim, tell: Tell, *, timeout_s: float = 180) -> StepReport:
    """SIGKILL it and wait until a new generation has committed past the old one; raises StillWaiting."""
    began = time.monotonic()
    instance, before = _serving(system, job)
    pid = _find(job, instance, victim)
    tell(f"  kill -9 {pid}: the {victim.value} of {job}, at batch {_batch(before)}")
    os.kill(pid, signal.SIGKILL)

    def came_back() -> bool:
        now = Control(system.site.store, job, instance).read_status()
        if now is None or now.generation <= before.generation or now.state is not DriverState.SERVING:
            return False
        return all(query.committed is not None for query in now.queries.values()) and _batch(now) > _batch(before)

    if not wait_until(came_back, timeout_s=timeout_s):
        raise StillWaiting(f"{job} did not come back within {timeout_s:.0f} s of the kill", hint=f"log of {instance}")
    _, after = _serving(system, job)
    wall_s = time.monotonic() - began
    name = f"kill the {victim.value} of {job}"
    tell(
        f"[green]{name}[/]: back from its checkpoint as generation {after.generation},"
        f" batch {_batch(after)} ({wall_s:.0f} s)"
    )
    return StepReport(name=name, verdict=None, outcome="came back", handover_gap_s=None, wall_s=round(wall_s, 1))


def _serving(system: System, job: str) -> tuple[str, DriverStatus]:
    site = system.site
    instance = site.journal(job, "demo").state().serving_instance
    status = Control(site.store, job, instance).read_status()
    if status is None:
        raise DeployFailed(f"{job} has no serving driver to kill")
    return instance, status


def _batch(status: DriverStatus) -> int:
    return min(
        (query.committed if query.committed is not None else -1 for query in status.queries.values()), default=-1
    )


def _find(job: str, instance: str, victim: Victim) -> int:
    for process in find_tree(mark(job, instance)):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        is_jvm = command[0].endswith(b"java")
        # The supervisor names the driver's command too, but belongs to no generation.
        is_driver = b"streamkeeper.driver" in command and generation_of(process.pid) is not None
        if (is_jvm and victim is Victim.JVM) or (is_driver and victim is Victim.PYTHON):
            return process.pid
    raise DeployFailed(f"{instance} has no {victim.value} process")
