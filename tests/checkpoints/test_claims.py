"""Claims beside a checkpoint in a directory; claims in a bucket and in HDFS are tested with their trees."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.model.records.epoch_claim import KnownEpoch, SeenClaim, find_newer
from tests.checkpoints.kept_claims import check_claims


def test_claims_are_kept_in_the_directory_of_the_checkpoint_versions(tmp_path: Path) -> None:
    """A directory keeps claims beside its checkpoint versions, even if those versions do not exist yet."""
    check_claims(str(tmp_path / "cp" / "sales" / "totals"))


def test_a_journal_without_recorded_versions_accepts_any_claimed_version() -> None:
    """A journal without recorded versions accepts any version of a claim in its epoch, while a claim of a newer epoch
    still counts as newer.
    """
    claim = SeenClaim(where="a checkpoint", epoch=3, version="v0001")
    assert find_newer(KnownEpoch(epoch=3), [claim]) == ""
    assert find_newer(KnownEpoch(epoch=2), [claim])
    assert find_newer(KnownEpoch(epoch=3, versions=("v0002",)), [claim])
