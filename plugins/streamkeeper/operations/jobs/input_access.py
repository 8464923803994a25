"""Input files that this process cannot look for, because it has another disk or another S3 server."""

from __future__ import annotations

import os

from streamkeeper.checkpoints.input_files import other_s3
from streamkeeper.model.records.job_state import JobState
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.registered import stored_manifests
from streamkeeper.registry.driver_control import Control
from streamkeeper.runners.machine import this_machine


def unseen_input(installation: Installation, state: JobState, query: str) -> dict[str, str]:
    """Return scheme -> why this process cannot check a query's input files of that scheme, such as ``file``.

    Only files on another machine's disk and on another S3 server are considered. Raises StoreUnavailable.

    A plain path names a file on the machine of the driver that owns the checkpoint version.
    """
    release, current = state.serving_release, state.current_version(query)
    manifests = stored_manifests(installation, state, release) if release in state.described else {}
    unseen = other_s3(manifests[query].confs if query in manifests else {}, os.environ)
    if current is not None and current.claimed_by:
        records = Control(installation.store, state.job, current.claimed_by).processes()
        if records and not this_machine().shares_disk(records[-1].machine, records[-1].host):
            unseen["file"] = f"local files of {records[-1].host} are not accessible from {this_machine().host}"
    return unseen
