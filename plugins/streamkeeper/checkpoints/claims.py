"""The claims of a query's epochs, stored next to its checkpoint versions: ``.claims/<installation>/0000000007.json``.

Claims are create-only and outlive the store. A journal whose newest epoch is older than the newest claim was restored
from a copy.
"""

from __future__ import annotations

from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import JournalOutdated
from streamkeeper.model.coding import from_json, to_json
from streamkeeper.model.records import epoch_claim as model
from streamkeeper.model.records.epoch_claim import EpochClaim

FOLDER = ".claims"
KEPT_CLAIMS = 10
"""How many claims are kept. Only the newest one is ever read; the others help people to reconstruct events."""
_NO_INSTALLATION = "none"


def claims_beside(version: Tree) -> Tree:
    """Return the folder with the claims of a query's epochs; ``version``: any checkpoint version of the query."""
    return tree_at(f"{version.spark_path.rpartition('/')[0]}/{FOLDER}")


def read_newest(claims: Tree, installation: str) -> EpochClaim | None:
    """Return the newest claim of an installation; None if it has no claim.

    Raises RegistryDamaged if the claim cannot be decoded, StoreUnavailable if the storage does not answer.
    """
    keys = _keys(claims, installation)
    if not keys:
        return None
    return from_json(claims.read(keys[-1]), EpochClaim, where=claims.where(keys[-1]), newest_format=model.FORMAT)


def read_all_newest(claims: Tree) -> list[EpochClaim]:
    """Return one claim per installation that has a claim: the installation's newest claim."""
    found = (read_newest(claims, name) for name in claims.folders(""))
    return [claim for claim in found if claim is not None]


def leave_claim(claims: Tree, claim: EpochClaim) -> None:
    """Store a claim that the journal has recorded, and delete all but the ``KEPT_CLAIMS`` newest claims of its
    installation.

    Repeating the call is safe. Raises JournalOutdated if another writer has claimed the same epoch.
    """
    key = _key(claim.installation, claim.epoch)
    try:
        claims.create(key, [to_json(claim)])
    except FileExistsError:
        found = from_json(claims.fresh().read(key), EpochClaim, where=claims.where(key), newest_format=model.FORMAT)
        if (found.instance, found.generation) != (claim.instance, claim.generation):
            raise JournalOutdated(
                f"two claims exist for epoch {claim.epoch}: the journal names {claim.instance}, but the claim file"
                f" {claims.where(key)} names {found.instance}"
            ) from None
    claims.delete(_keys(claims.fresh(), claim.installation)[:-KEPT_CLAIMS])


def _keys(claims: Tree, installation: str) -> list[str]:
    """Return the keys, oldest first."""
    folder = installation or _NO_INSTALLATION
    names = (name for name in claims.files(folder) if name.removesuffix(".json").isdecimal())
    return [f"{folder}/{name}" for name in sorted(names)]


def _key(installation: str, epoch: int) -> str:
    return f"{installation or _NO_INSTALLATION}/{epoch:010d}.json"
