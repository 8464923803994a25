"""Take a snapshot, under a hold, of a query's last batch before the cutover: the rollback path to the previous release.

The snapshot is taken after the new release has committed, so that it does not lengthen the gap in the output. The
batch's files still exist at that time, because Spark keeps those of the last hundred batches. A failed snapshot does
not affect the new release, which keeps running, so the deploy continues and reports the failure.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.records.step_results import CutoverSnapshots
from streamkeeper.operations.backups.backup import back_up, hold_for
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.observation import read_job
from streamkeeper.operations.jobs.targets import target_left
from streamkeeper.snapshots.catalogue import Catalogue


def take_cutover_snapshots(
    installation: Installation, job: str, operation: str, batches: Mapping[str, int]
) -> CutoverSnapshots:
    """Take one snapshot of each query, at its batch in ``batches``; the result also contains failures. Idempotent.

    The operation holds each snapshot until the next deploy of the job takes its own cutover snapshot of the query.
    """
    state = read_job(installation, job)
    earlier = set(state.operations) - {operation}
    taken: dict[str, str] = {}
    failed: dict[str, str] = {}
    for query, batch in batches.items():
        try:
            target = target_left(installation, state, query, operation)
            hold = hold_for(operation, f"the last batch of {target.origin.release}")
            captured = back_up(installation.snapshots, target, batch=batch, hold=hold)
            Catalogue(installation.snapshots, target.series).release_all(earlier)
            taken[query] = captured.snapshot.name
        except (StreamkeeperError, OSError) as error:
            failed[query] = str(error)
    return CutoverSnapshots(taken, failed)
