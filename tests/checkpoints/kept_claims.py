"""A contract that claims beside a checkpoint fulfill on every kind of tree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from streamkeeper.checkpoints.claims import FOLDER, KEPT_CLAIMS, claims_beside, leave_claim, read_all_newest
from streamkeeper.checkpoints.opening import tree_at
from streamkeeper.errors import JournalOutdated
from streamkeeper.model.records.epoch_claim import EpochClaim

CLAIM = EpochClaim(epoch=1, version="v0001", instance="first", generation=1, installation="mine")


def check_claims(place: str) -> None:
    """Check that each epoch has one winner, the newest claim is found, old claims are deleted, and each installation
    has its own.
    """
    folder = claims_beside(tree_at(f"{place}/v0001"))
    assert read_all_newest(folder) == []
    leave_claim(folder, CLAIM)
    leave_claim(claims_beside(tree_at(f"{place}/v0002")), CLAIM)
    with pytest.raises(JournalOutdated, match=r"the journal names second, but the claim file \S+ names first"):
        leave_claim(folder, replace(CLAIM, instance="second"))
    for epoch in range(2, KEPT_CLAIMS + 3):
        leave_claim(folder, replace(CLAIM, epoch=epoch, version="v0002"))
    leave_claim(folder, replace(CLAIM, epoch=40, installation="another"))
    assert [(each.installation, each.epoch, each.version) for each in read_all_newest(folder.fresh())] == [
        ("another", 40, "v0001"),
        ("mine", KEPT_CLAIMS + 2, "v0002"),
    ]
    assert len(tree_at(f"{place}/{FOLDER}").files("mine")) == KEPT_CLAIMS
