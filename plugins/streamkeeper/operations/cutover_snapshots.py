"""The snapshot of a query's last batch before the cutover, under a hold: the rollback path to the previous release.

Taken once the new release commits, so that it does not lengthen the output's gap: Spark keeps the files of a hundred
batches. If it fails, the deploy continues and reports that: the new release runs in either case.
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
    """One snapshot for each query; failures are part of the result. Idempotent.

    The hold lasts until the next deploy of the job takes its own.
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
