"""An installation in its own directory, with a continuous input; all processes that it started are killed at the
end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness.places import ROOT
from harness.producer import prepare, produce
from streamkeeper.operations.jobs.installation import Installation

COMMAND = ("-m", "streamkeeper.cli.main")
"""The arguments with which Python starts the ``streamkeeper`` command."""
APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Runs a command in its own pid namespace: like a command on a different machine, it finds no driver in /proc."""


class Bed:
    """An installation for tests. ``root/home`` is the installation's home, ``root/jobs`` holds the job files,
    ``root/input`` holds the files of the producer.

    ``checkpoints``: the location of the checkpoints, if not in the home; ``master``: the Spark master whose executors
    run the tasks, if not the drivers themselves. ``drivers``: the system that runs the drivers, if not the machine of
    the commands; the commands then run in their own pid namespace. ``pod_template``: the template of the drivers' pods
    on Kubernetes.
    """

    def __init__(
        self,
        root: Path,
        job_files: list[Path],
        checkpoints: str = "",
        master: str = "",
        drivers: str = "",
        pod_template: str = "",
    ) -> None:
        # A home refuses a relative place, and URIs have none.
        self.root = root = root.absolute()
        self.home = root / "home"
        self.input = root / "input"
        self.jobs = root / "jobs"
        self.checkpoints, self.master, self.drivers = checkpoints, master, drivers
        self._pod_template = pod_template
        for folder in (self.home, self.jobs):
            folder.mkdir(parents=True, exist_ok=True)
        for file in job_files:
            shutil.copy(file, self.jobs / file.name)
        prepare(self.input)
        self._pause = threading.Event()
        self._producer: threading.Thread | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of all processes of the installation."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("STREAMKEEPER_", "AIRFLOW"))}
        here = {
            "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}",
            "STREAMKEEPER_HOME": str(self.home),
            "STREAMKEEPER_JOBS": str(self.jobs),
        }
        if self.checkpoints:
            here["STREAMKEEPER_CHECKPOINTS"] = self.checkpoints
        if self.master:
            here["STREAMKEEPER_MASTER"] = self.master
        if self.drivers:
            here |= {"STREAMKEEPER_DRIVERS": self.drivers, "STREAMKEEPER_STORE": str(self.home / "store")}
        if self._pod_template:
            here["STREAMKEEPER_POD_TEMPLATE"] = self._pod_template
        return {**kept, **here}

    @property
    def installation(self) -> Installation:
        """Return the installation, for inspecting it and for running operations in this process."""
        return Installation.from_environment(self.environment)

    def command(
        self,
        *arguments: str,
        extra: dict[str, str] | None = None,
        by: Sequence[str] = COMMAND,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the ``streamkeeper`` command in its own process, as on a command line; ``by`` replaces the way in which
        Python starts it.
        """
        return subprocess.run(
            self.program(*arguments, by=by),
            env={**self.environment, **(extra or {})},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            cwd=cwd,
        )

    def program(self, *arguments: str, by: Sequence[str] = COMMAND) -> list[str]:
        """Return the command line that runs the ``streamkeeper`` command with these arguments."""
        return [*(APART if self.drivers else ()), sys.executable, *by, *arguments]

    def processes(self) -> Iterator[psutil.Process]:
        """Yield every process of every driver tree of this installation, and of any copy of it below its root."""
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            # A pod's home is its own; its store is the site's.
            places = [Path(environment.get(f"STREAMKEEPER_{name}", "/")) for name in ("HOME", "STORE")]
            ours = any(place.is_relative_to(self.root) for place in places)
            if ours and "STREAMKEEPER_INSTANCE" in environment:
                yield process

    def start_producer(self, *, rows: int = 20, every_s: float = 0.25, seed: int = 1, customers: int = 10) -> None:
        """Write input continuously until ``stop_producer`` is called; does nothing if a producer is running."""
        if self._producer is not None:
            return
        self._pause.clear()
        choices = {"rows": rows, "every_s": every_s, "seed": seed, "customers": customers, "stop": self._pause}
        self._producer = threading.Thread(target=produce, args=(self.input,), kwargs=choices, daemon=True)
        self._producer.start()

    def stop_producer(self) -> None:
        """Stop the producer and wait for it; it writes no input after this returns."""
        self._pause.set()
        if self._producer is not None:
            self._producer.join()
            self._producer = None

    def close(self) -> None:
        """Stop the producer and kill every driver process of the installation, lowest pids first, so that supervisors
        die before their drivers.
        """
        self.stop_producer()
        for _ in range(3):
            found = sorted(self.processes(), key=lambda each: each.pid)
            for process in found:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(found, timeout=10)


@contextmanager
def fresh_bed(
    root: Path,
    job_files: list[Path],
    checkpoints: str = "",
    master: str = "",
    drivers: str = "",
    pod_template: str = "",
) -> Iterator[Bed]:
    """Provide a bed in an empty directory, and close it at the end, also after Ctrl-C."""
    shutil.rmtree(root, ignore_errors=True)
    bed = Bed(root, job_files, checkpoints, master, drivers, pod_template)
    try:
        yield bed
    finally:
        bed.close()
