"""The snapshot of the batch at which a query changed hands: the way back to the release before, under a hold.

Taken once the new release commits, so that it costs no time in the output's gap: Spark keeps the files of a hundred
batches. Should it fail, the deploy goes on and says so: the new release serves either way.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamkeeper.errors import StreamkeeperError
from streamkeeper.model.step_results import CutoverSnapshots
from streamkeeper.operations.backup import back_up, hold_for
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.targets import target_left
from streamkeeper.snapshots.catalogue import Catalogue


def take_cutover_snapshots(
    site: Installation, job: str, operation: str, batches: Mapping[str, int]
) -> CutoverSnapshots:
    """One of each query, as far as they can be taken. Idempotent.

    The hold lasts until the next deploy of the job has one of its own.
    """
    earlier = set(read_job(site, job).operations) - {operation}
    taken: dict[str, str] = {}
    failed: dict[str, str] = {}
    for query, batch in batches.items():
        try:
            target = target_left(site, job, query, operation)
            hold = hold_for(operation, f"the last batch of {target.origin.release}")
            captured = back_up(site.snapshots, target, batch=batch, hold=hold)
            Catalogue(site.snapshots, target.series).release_all(earlier)
            taken[query] = captured.snapshot.name
        except (StreamkeeperError, OSError) as error:
            failed[query] = str(error)
    return CutoverSnapshots(taken, failed)
