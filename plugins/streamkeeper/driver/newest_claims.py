"""Finds the claims of a driver's query outside the store, before it claims the next epoch."""

from __future__ import annotations

from streamkeeper.authoring.definition import Query
from streamkeeper.checkpoints.claims import claims_beside, leave_claim, read_all_newest
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.driver.epoch import Claim
from streamkeeper.errors import JournalOutdated
from streamkeeper.model.records.epoch_claim import EpochClaim, SeenClaim
from streamkeeper.sinks.contract import SinkContext


def see_claims(job: str, query: Query, checkpoint: Tree, *, installation: str = "") -> tuple[SeenClaim, ...]:
    """Return the newest claims that exist next to the checkpoint and in the output; changes nothing.

    Raises JournalOutdated if another installation made the last claim of this checkpoint version.
    """
    folder = claims_beside(checkpoint)
    found = []
    for claim in read_all_newest(folder):
        if claim.installation in ("", installation):
            found.append(
                SeenClaim(
                    where=f"checkpoint {folder.where('').rpartition('/')[0]}",
                    epoch=claim.epoch,
                    version=claim.version,
                    instance=claim.instance,
                    generation=claim.generation,
                )
            )
        elif claim.version == checkpoint.name:
            mine = installation[:8] or "without an id"
            raise JournalOutdated(
                f"checkpoint {checkpoint.where('')} was last claimed by the installation {claim.installation[:8]}, not"
                f" by this one ({mine})",
                hint="if the other installation's store was lost, run `streamkeeper registry rebuild`. If this"
                " checkpoint is a copy from the other installation, restore a snapshot into a new version instead",
            )
    held = _of_output(job, query, checkpoint.name, installation)
    return (*found, held) if held is not None else tuple(found)


def keep_claim(claim: Claim, checkpoint: Tree) -> None:
    """Store a claim next to the checkpoint. The journal must already contain the claim."""
    leave_claim(
        claims_beside(checkpoint),
        EpochClaim(
            epoch=claim.epoch,
            version=claim.version,
            instance=claim.instance,
            generation=claim.generation,
            installation=claim.installation,
        ),
    )


def _of_output(job: str, query: Query, version: str, installation: str) -> SeenClaim | None:
    mode = query.output_mode.lower()
    context = SinkContext(
        job=job, query=query.name, version=version, epoch=0, output_mode=mode, installation=installation
    )
    writer = query.sink.open(context)
    try:
        newest = writer.newest_claim()
    finally:
        writer.close()
    if newest is None:
        return None
    return SeenClaim(where=f"output {query.sink.describe().output}", epoch=newest.epoch, version=newest.version)
