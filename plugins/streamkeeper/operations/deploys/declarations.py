"""The declaration of a job's file, read by a short-lived process: importing the file runs the job's own code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from streamkeeper.errors import RegistryDamaged
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.declaration import Declaration
from streamkeeper.model.settings.settings import Settings
from streamkeeper.registry.bundles import unpack_bundle
from streamkeeper.runners.variables import driver_variables

PATIENCE_S = 60.0
"""Seconds that the import of a file may take here; a longer import is left to a driver, which has no such limit."""


def ask_declaration(settings: Settings, bundle: bytes, entry: str, job: str) -> Declaration:
    """Return the declaration of a job from its file in a bundle, as a driver of this installation would read it.

    Return an empty declaration if only a driver can read the file.

    Raises RegistryDamaged for data that is not a bundle.
    """
    with TemporaryDirectory(prefix="streamkeeper-declaration-") as scratch:
        root, answer = Path(scratch, "code"), Path(scratch, "answer.json")
        unpack_bundle(bundle, root)
        command = [sys.executable, "-m", "streamkeeper.driver.declaring", str(root), entry, job, str(answer)]
        home = Path(settings.home)
        try:
            # Files instead of pipes: a process that the job's file leaves behind would keep pipes open.
            subprocess.run(
                command,
                env=driver_variables(os.environ, settings),
                cwd=home if home.is_dir() else scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE_S,
                check=True,
            )
            return from_json(answer.read_bytes(), Declaration, where=f"the declaration of job {job}")
        except (OSError, subprocess.SubprocessError, RegistryDamaged):
            return Declaration()
