"""Where a local system keeps its things: everything below one folder."""

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
        """Streamkeeper's own: store, checkpoints, logs."""
        return self.root / "home"

    @property
    def checkpoints(self) -> Path:
        """``<job>/<query>/<version>/``."""
        return self.home / "checkpoints"

    @property
    def jobs(self) -> Path:
        """A copy of the project's jobs, to be edited where a second release is wanted."""
        return self.root / "jobs"

    @property
    def input(self) -> Path:
        """Where the producer writes."""
        return self.root / "input"

    @property
    def warehouse(self) -> Path:
        """The SQLite file that sales_totals keeps."""
        return self.root / "warehouse.db"

    @property
    def copies(self) -> Path:
        """The output of event_copy."""
        return self.root / "copies"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def processes(self) -> Path:
        """What runs now, written down."""
        return self.root / "processes.json"

    @property
    def forms(self) -> Path:
        """Filled-in trigger forms, for a person to start from."""
        return self.root / "forms"

    @property
    def report(self) -> Path:
        """What a run of it leaves to be read by a machine."""
        return self.root / "report.json"

    def prepare(self) -> None:
        """Make the folders and copy the jobs, where they are missing."""
        for folder in (self.root, self.home, self.input):
            make_folders(folder)
        if not self.jobs.exists():
            shutil.copytree(ROOT / "jobs", self.jobs, ignore=shutil.ignore_patterns("__pycache__"))

    @property
    def settings(self) -> dict[str, str]:
        """What makes a process one of this system's: also a shell, for the commands."""
        return {
            "STREAMKEEPER_HOME": str(self.home),
            "STREAMKEEPER_CHECKPOINTS": str(self.checkpoints),
            "STREAMKEEPER_JOBS": str(self.jobs),
            f"{SECRET_PREFIX}{WAREHOUSE_VARIABLE}": f"sqlite:///{self.warehouse}",
        }

    def environment(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment of everything that is started here; no setting of whoever runs it reaches in."""
        kept = {name: value for name, value in environ.items() if not name.startswith("STREAMKEEPER_")}
        python_path = os.pathsep.join((str(ROOT / "plugins"), str(ROOT)))
        return {**kept, "PYTHONPATH": python_path, **self.settings}
