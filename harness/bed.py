"""A site of its own in one directory, with input that keeps coming; leaving it ends every process it started."""

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
"""What Python starts the ``streamkeeper`` command by."""
APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""In a pid namespace of its own: as a command on another machine, it finds no driver in /proc."""


class Bed:
    """``root/home``: the site; ``root/jobs``: the job files; ``root/input``: what the producer writes.

    ``checkpoints``: where they lie, if not in the site; ``master``: whose executors run the tasks, if not its drivers.
    ``drivers``: who runs those, if not the machine of its commands, which then see no process but their own;
    ``pod_template``: what Kubernetes' pods of them are made from.
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
        """What its processes run in."""
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
        """The site, for looking at it and for running operations in this process."""
        return Installation.from_environment(self.environment)

    def command(
        self,
        *arguments: str,
        extra: dict[str, str] | None = None,
        by: Sequence[str] = COMMAND,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the ``streamkeeper`` command as a person would; ``by``: another way to start it."""
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
        """The command's words."""
        return [*(APART if self.drivers else ()), sys.executable, *by, *arguments]

    def processes(self) -> Iterator[psutil.Process]:
        """Every process of every driver tree of this site, and of any copy of it below its root."""
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
        """Keep writing input until ``stop_producer``; one producer at a time."""
        if self._producer is not None:
            return
        self._pause.clear()
        choices = {"rows": rows, "every_s": every_s, "seed": seed, "customers": customers, "stop": self._pause}
        self._producer = threading.Thread(target=produce, args=(self.input,), kwargs=choices, daemon=True)
        self._producer.start()

    def stop_producer(self) -> None:
        """No input after this returns."""
        self._pause.set()
        if self._producer is not None:
            self._producer.join()
            self._producer = None

    def close(self) -> None:
        """End every process of the site, supervisors first."""
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
    """A bed in an empty directory, closed at the end, also on Ctrl-C."""
    shutil.rmtree(root, ignore_errors=True)
    bed = Bed(root, job_files, checkpoints, master, drivers, pod_template)
    try:
        yield bed
    finally:
        bed.close()
