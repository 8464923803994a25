"""Choose the Python interpreter that runs a release. The interpreter determines PySpark and the packages, which only a
deploy may change.
"""

from __future__ import annotations

import os
import sys

from streamkeeper.model.manifests.release import Release
from streamkeeper.model.records.job_state import JobState
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.environments import read_environment
from streamkeeper.stores.contract import Store


def choose_interpreter(store: Store, state: JobState, release: Release) -> str:
    """Return the path of the interpreter for a driver of this release.

    The default is the current process's interpreter. If this interpreter's packages differ from those of the release,
    and the interpreter that ran the release earlier still exists, the earlier interpreter is returned. A rollback or a
    restart then gets the Spark under which the release was checked.
    """
    here, made_in = read_environment(), release.content.environment
    own = (here.python, here.spark, here.packages_sha256)
    if release.name not in state.described or own == (made_in.python, made_in.spark, made_in.packages_sha256):
        return sys.executable
    for instance in reversed(state.instances.values()):
        launch = (
            Control(store, state.job, instance.instance).read_launch() if instance.release == release.name else None
        )
        if launch is not None:
            return launch.python if os.access(launch.python, os.X_OK) else sys.executable
    return sys.executable
