"""Starts and stops the whole running system: a producer, Airflow, and the drivers that its deploys start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from harness.airflow_process import NAME as AIRFLOW
from harness.airflow_process import Airflow, dead_parts, start_airflow, wait_until_healthy
from harness.forms import DAG
from harness.places import ROOT, Places
from harness.processes import StartedProcess, StartedProcesses, is_running
from harness.waiting import wait_until
from streamkeeper.errors import StillWaiting
from streamkeeper.model.protocol.driver_messages import CommandKind
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.jobs import list_jobs

PRODUCER = "producer"
Tell = Callable[[str], None]
_DRAINED_BY = "demo-end"


class System:
    """All processes of one system."""

    def __init__(self, places: Places, tell: Tell) -> None:
        self.places = places
        self._tell = tell
        self._processes = StartedProcesses(places.processes)
        self.environment = places.environment()
        self.airflow_settings: dict[str, str] = {}

    @property
    def installation(self) -> Installation:
        """Return the system's Streamkeeper installation, as the drivers and Airflow see it."""
        return Installation.from_environment(self.environment)

    def start_producer(self) -> None:
        """Start the producer of sales, unless it is running already."""
        if any(each.name == PRODUCER and is_running(each) for each in self._processes.read()):
            return
        self._processes.stop(PRODUCER, grace_s=0)
        self.start_process(PRODUCER, [sys.executable, "-m", "harness.producer", str(self.places.input)])

    def stop_producer(self) -> None:
        """Stop the producer once it has completed its current file."""
        self.stop_process(PRODUCER, grace_s=10)

    def start_process(self, name: str, command: Sequence[str]) -> StartedProcess:
        """Start a process that is stopped together with the rest of the system; its output goes to ``<name>.log``."""
        log = self.places.root / f"{name}.log"
        return self._processes.start(name, command, environ=self.environment, log=log, cwd=ROOT)

    def stop_process(self, name: str, *, grace_s: float) -> None:
        """Ask a process to terminate, and kill it after ``grace_s`` seconds."""
        self._processes.stop(name, grace_s=grace_s)

    def begin_refunds(self) -> None:
        """Make the producer also write a new kind of event."""
        for each in self._processes.read():
            if each.name == PRODUCER and is_running(each):
                os.kill(each.pid, signal.SIGUSR1)

    def start_airflow(self, *, port: int = 0) -> Airflow:
        """Start Airflow without waiting; ``wait_for_airflow`` returns once it can be used."""
        return start_airflow(
            self._processes,
            root=ROOT,
            home=self.places.airflow,
            environ=self.environment,
            port=port,
            settings=self.airflow_settings,
        )

    def wait_for_airflow(self, airflow: Airflow, *, timeout_s: float = 240) -> None:
        """Return once Airflow is healthy and has loaded the DAG of a deploy; raises StillWaiting or InvalidInput."""
        wait_until_healthy(airflow, timeout_s=timeout_s)
        self.wait_for_dag(airflow, DAG)

    def wait_for_dag(self, airflow: Airflow, dag: str) -> None:
        """Return once the DAG can be triggered; raises StillWaiting with the import errors that Airflow reports."""
        if not wait_until(lambda: airflow.api.has_dag(dag), timeout_s=60, poll_s=0.5):
            errors = "; ".join(str(each["stack_trace"]).strip()[-300:] for each in airflow.api.import_errors())
            raise StillWaiting(f"Airflow does not know the DAG {dag} after 60 s: {errors or 'no import error'}")

    def dead_parts(self) -> list[str]:
        """Return what was started and is no longer running: the producer, Airflow, or parts of Airflow. Drivers are
        left out, because the watch takes care of them.
        """
        known = {each.name: each for each in self._processes.read()}
        dead = [name for name in (PRODUCER, AIRFLOW) if name in known and not is_running(known[name])]
        return dead if AIRFLOW not in known or AIRFLOW in dead else [*dead, *dead_parts(known[AIRFLOW])]

    def was_started(self) -> bool:
        """Return whether Airflow was started here and has not been stopped since."""
        return any(each.name == AIRFLOW for each in self._processes.read())

    def restart_airflow(self, *, port: int) -> Airflow:
        """Stop what is left of Airflow, and start all of it; drivers and the producer keep running."""
        self._processes.stop(AIRFLOW, grace_s=15)
        return self.start_airflow(port=port)

    def drain(self, jobs: tuple[str, ...], *, timeout_s: float = 60) -> None:
        """Stop the serving drivers at a batch boundary; raises StillWaiting with the names of those that did not
        stop.
        """
        installation = self.installation
        serving = {job: installation.journal(job, "demo").state().serving_instance for job in jobs}
        serving = {job: instance for job, instance in serving.items() if instance}
        for job, instance in serving.items():
            Control(installation.store, job, instance).send(CommandKind.DRAIN, _DRAINED_BY)
            installation.runner.notify(job, instance)

        def all_dead() -> bool:
            return all(installation.runner.observe(*each).life is Life.DEAD for each in serving.items())

        if not wait_until(all_dead, timeout_s=timeout_s):
            raise StillWaiting(f"{', '.join(serving.values())} did not drain within {timeout_s:.0f} s")

    def stop(self) -> None:
        """Stop Airflow first, so that nothing restarts a driver, then the producer, then every driver."""
        if any(each.name == AIRFLOW for each in self._processes.read()):
            self._tell("stopping Airflow")
        self._processes.stop_all()
        self._kill_drivers()

    def _kill_drivers(self) -> None:
        if not (self.places.home / "store").exists():
            return
        installation = self.installation
        alive = [each for job in list_jobs(installation.store) for each in self._living(installation, job)]
        for job, instance in alive:
            self._tell(f"ending driver {instance} of {job}")
            installation.runner.kill(job, instance)

        def all_gone() -> bool:
            return all(installation.runner.observe(*each).life is not Life.ALIVE for each in alive)

        if not wait_until(all_gone, timeout_s=20):
            self._tell("a driver does not end: see `ps`")

    @staticmethod
    def _living(installation: Installation, job: str) -> list[tuple[str, str]]:
        planned = installation.journal(job, "demo").state().instances.values()
        return [
            (job, each.instance)
            for each in planned
            if installation.runner.observe(job, each.instance).life is Life.ALIVE
        ]
