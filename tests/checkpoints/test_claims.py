"""Claims beside a checkpoint in a directory; those in a bucket and in HDFS are tested with their trees."""

from __future__ import annotations

from pathlib import Path

from streamkeeper.model.records.epoch_claim import KnownEpoch, SeenClaim, find_newer
from tests.checkpoints.kept_claims import check_claims


def test_a_directory_keeps_claims(tmp_path: Path) -> None:
    """Beside versions that need not be there yet."""
    check_claims(str(tmp_path / "cp" / "sales" / "totals"))


def test_a_journal_of_before_versions_were_recorded_is_not_refused() -> None:
    """It names none, and its epochs still count."""
    claim = SeenClaim(where="a checkpoint", epoch=3, version="v0001")
    assert find_newer(KnownEpoch(epoch=3), [claim]) == ""
    assert find_newer(KnownEpoch(epoch=2), [claim])
    assert find_newer(KnownEpoch(epoch=3, versions=("v0002",)), [claim])
