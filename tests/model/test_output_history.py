"""Which batches an output must hold, from the journal and the checkpoint's last commit alone."""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.model.checkpoint_version import CheckpointVersion, EpochState
from streamkeeper.model.job_state import JobState
from streamkeeper.model.output_history import OutputHistory, OutputRecord, find_output_loss

PLAIN = OutputHistory(version="v0001")
SEEDED = OutputHistory(version="v0002", inherited=7, parent="v0001", parent_batch=7)
SINCE_EPOCH_3 = OutputHistory(version="v0001", epoch=3, epoch_committed=4)


def record(epoch: int = 9, **last: int) -> OutputRecord:
    return OutputRecord(epoch=epoch, last=last)


def files(**last: int) -> OutputRecord:
    return OutputRecord(epoch=9, last=last, every_version=True)


@pytest.mark.parametrize(
    ("history", "committed", "found", "loss"),
    [
        (PLAIN, None, OutputRecord(gone="the file is missing"), ""),
        (PLAIN, 5, OutputRecord(gone="the file is missing"), "the file is missing, and batch 5 of v0001 was committed"),
        (PLAIN, 5, record(v0001=5), ""),
        (PLAIN, 5, record(v0001=6), ""),
        (PLAIN, 5, record(v0001=4), "it holds batch 4 of v0001, and batch 5 of v0001 was committed"),
        (PLAIN, 0, record(), "it holds no batch, and batch 0 of v0001 was committed"),
        (PLAIN, 5, files(v0002=9), "it holds no batch of v0001, and batch 5 of v0001 was committed"),
        (PLAIN, 5, record(v0002=9), ""),
        (PLAIN, 5, OutputRecord(gone="it has no row", last={"v0001": 5}), ""),
        (SINCE_EPOCH_3, 4, OutputRecord(gone="gone", last={"v0001": 5}), "gone, and batch 4 of v0001 was committed"),
        (SINCE_EPOCH_3, 5, record(2, v0002=9), "its epoch is 2, and batch 5 of v0001 was committed under epoch 3"),
        (SINCE_EPOCH_3, 4, record(2, v0002=9), ""),
        (SINCE_EPOCH_3, 5, record(3, v0002=9), ""),
        (SEEDED, 7, record(v0001=7), ""),
        (SEEDED, 7, record(v0001=6), "it holds batch 6 of v0001, and batch 7 of v0001 was committed"),
        (SEEDED, None, record(), "it holds no batch, and batch 7 of v0001 was committed"),
        (SEEDED, 8, files(v0001=7, v0002=7), "it holds batch 7 of v0002, and batch 8 of v0002 was committed"),
    ],
)
def test_a_committed_batch_must_be_in_the_output(
    history: OutputHistory, committed: int | None, found: OutputRecord, loss: str
) -> None:
    """The newest own batch of a version, else the batch it inherited; an output may be ahead by an open batch."""
    assert find_output_loss(history, committed, found) == loss


def version(name: str, **more: Any) -> CheckpointVersion:
    return CheckpointVersion(query="totals", version=name, release="r0001", origin="", state_format="", **more)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((version("v0001"),), (-1, "", -1)),
        # Handed over: a table keeps the numbers, files begin anew with 0.
        ((version("v0001"), version("v0002", parent="v0001", parent_batch=7, batch=7)), (7, "v0001", 7)),
        ((version("v0001"), version("v0002", parent="v0001", parent_batch=7, batch=0)), (0, "v0001", 7)),
        # Its state was given up: it begins without a batch.
        ((version("v0001"), version("v0002", parent="v0001", parent_batch=7, batch=-1)), (-1, "v0001", 7)),
        # Recorded, and not handed over yet.
        ((version("v0001"), version("v0002", parent="v0001")), (-1, "", -1)),
        # Restored; from elsewhere; rebuilt.
        ((version("v0001"), version("v0002", parent="v0001", parent_batch=3, begun_at=3)), (3, "v0001", 3)),
        ((version("v0002", begun_at=3),), (3, "", -1)),
        ((version("v0001"), version("v0002")), (-1, "", -1)),
        # The version between never wrote a batch of its own.
        (
            (
                version("v0001", parent="v0000", parent_batch=7, batch=0),
                version("v0002", parent="v0001", parent_batch=0, batch=0),
            ),
            (0, "v0000", 7),
        ),
    ],
)
def test_what_a_version_inherits_comes_from_the_journal(
    versions: tuple[CheckpointVersion, ...], expected: tuple[int, str, int]
) -> None:
    """Its own batches begin after it; for those before, the version that wrote them must be in the output."""
    state = JobState(job="sales", versions={"totals": versions})
    history = state.output_history("totals", "v0002" if len(versions) > 1 else versions[0].version)
    assert (history.inherited, history.parent, history.parent_batch) == expected


def test_only_the_epoch_of_this_version_counts() -> None:
    """What was committed when another version's epoch was claimed says nothing of this one."""
    epoch = EpochState(query="totals", output="t", epoch=3, instance="i", generation=1, version="v0001", committed=4)
    state = JobState(job="sales", versions={"totals": (version("v0001"), version("v0002"))}, epochs={"totals": epoch})
    assert state.output_history("totals", "v0001").epoch_committed == 4
    assert state.output_history("totals", "v0002").epoch == 0
