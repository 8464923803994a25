"""The folders of a local system, all below one root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from streamkeeper.model.settings.setting_variables import SECRET_PREFIX
from streamkeeper.system.private_files import make_folders

ROOT = Path(__file__).resolve().parents[1]
WAREHOUSE_VARIABLE = "DEMO_WAREHOUSE"


class Places(msgspec.Struct, frozen=True):
    """The folders of one system below ``root``."""

    root: Path

    @property
    def home(self) -> Path:
        """Return the folder of Streamkeeper's own files: store, checkpoints and logs."""
        return self.root / "home"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints, which contains ``<job>/<query>/<version>/``."""
        return self.home / "checkpoints"

    @property
    def jobs(self) -> Path:
        """Return the folder with a copy of the project's jobs, which can be edited for further releases."""
        return self.root / "jobs"

    @property
    def input(self) -> Path:
        """Return the folder that the producer writes to."""
        return self.root / "input"

    @property
    def warehouse(self) -> Path:
        """Return the SQLite file that sales_totals writes."""
        return self.root / "warehouse.db"

    @property
    def copies(self) -> Path:
        """Return the output folder of event_copy."""
        return self.root / "copies"

    @property
    def airflow(self) -> Path:
        """Return the folder for AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def processes(self) -> Path:
        """Return the file that records the running processes."""
        return self.root / "processes.json"

    @property
    def forms(self) -> Path:
        """Return the folder with filled-in trigger forms for manual deploys."""
        return self.root / "forms"

    @property
    def report(self) -> Path:
        """Return the file for the machine-readable report of a run."""
        return self.root / "report.json"

    def prepare(self) -> None:
        """Create the folders, and copy the jobs if they are missing."""
        for folder in (self.root, self.home, self.input):
            make_folders(folder)
        if not self.jobs.exists():
            shutil.copytree(ROOT / "jobs", self.jobs, ignore=shutil.ignore_patterns("__pycache__"))

    @property
    def settings(self) -> dict[str, str]:
        """Return the variables that make a process, or a shell with its commands, use this system."""
        return {
            "STREAMKEEPER_HOME": str(self.home),
            "STREAMKEEPER_CHECKPOINTS": str(self.checkpoints),
            "STREAMKEEPER_JOBS": str(self.jobs),
            f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": f"sqlite:///{self.warehouse}",
        }

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment of all processes of this system, without the Streamkeeper settings of ``environ``."""
        kept = {name: value for name, value in environ.items() if not name.startswith("STREAMKEEPER_")}
        python_path = os.pathsep.join((str(ROOT / "plugins"), str(ROOT)))
        return {**kept, "PYTHONPATH": python_path, **self.settings}
