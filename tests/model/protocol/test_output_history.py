"""Tests which batches an output must contain, derived from the journal and the checkpoint's last commit alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from streamkeeper.model.protocol.output_history import OutputHistory, OutputRecord, find_output_loss
from streamkeeper.model.records.checkpoint_version import CheckpointVersion, EpochState
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import Entry, EpochClaimed

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
        (
            SINCE_EPOCH_3,
            5,
            record(2, v0002=9),
            "its epoch is 2, and batch 5 of v0001 was committed under epoch 3 or a later one",
        ),
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
    """The output must contain the newest batch that its version committed, else the batch that the version inherited;
    it may be ahead by an open batch.
    """
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
    """The journal determines the batch after which a version's own batches begin, and the version that wrote the
    earlier batches.
    """
    state = JobState(job="sales", versions={"totals": versions})
    history = state.output_history("totals", "v0002" if len(versions) > 1 else versions[0].version)
    assert (history.inherited, history.parent, history.parent_batch) == expected


def test_only_the_epoch_of_this_version_counts() -> None:
    """The epoch that a different version claimed is not used as evidence for this version."""
    epoch = EpochState(query="totals", output="t", epoch=3, instance="i", generation=1, version="v0001", committed=4)
    state = JobState(job="sales", versions={"totals": (version("v0001"), version("v0002"))}, epochs={"totals": epoch})
    assert state.output_history("totals", "v0001").epoch_committed == 4
    assert state.output_history("totals", "v0002").epoch == 0


def claims_of(*claims: tuple[int, str, int | None], state: JobState | None = None) -> JobState:
    """Return a job whose query was claimed with these epochs, versions and committed batches."""
    state = state or JobState(job="sales", versions={"totals": (version("v0001"), version("v0002"))})
    for epoch, name, committed in claims:
        claim = EpochClaimed(
            query="totals", output="t", epoch=epoch, instance="i", generation=epoch, version=name, committed=committed
        )
        state = fold(state, Entry(number=state.number + 1, at="", by="test", record=claim))
    return state


BEFORE_THE_SWITCH = record(3, v0001=40)


def test_an_idle_restart_keeps_the_proof_of_the_first_claim() -> None:
    """An idle restart keeps the evidence of the first claim: an older copy of the database from epoch 3 is detected
    although v0002 was claimed once more without new input.
    """
    restarted = claims_of((3, "v0001", None), (5, "v0002", 0), (6, "v0002", 50))
    history = restarted.output_history("totals", "v0002")
    assert (history.epoch, history.epoch_committed, history.first_epoch, history.first_committed) == (6, 50, 5, 0)
    loss = find_output_loss(history, 50, BEFORE_THE_SWITCH)
    assert loss == "its epoch is 3, and batch 50 of v0002 was committed under epoch 5 or a later one"
    assert find_output_loss(history, 50, record(5, v0001=40)) == ""


def test_claims_without_a_batch_prove_no_fence() -> None:
    """Claims between which no batch was committed do not prove that the output was fenced, so an output that still has
    the previous version's batches is not reported as a loss.
    """
    claimed = claims_of((3, "v0001", None), (5, "v0002", 10), (6, "v0002", 10))
    assert find_output_loss(claimed.output_history("totals", "v0002"), 10, BEFORE_THE_SWITCH) == ""


def rebuilt(*claims: tuple[int, str, int | None]) -> OutputHistory:
    """Return the history of v0002, which a deploy filled beside v0001 before its first claim."""
    made = msgspec.structs.replace(version("v0002"), operation="op2")
    state = JobState(job="sales", versions={"totals": (version("v0001"), made)})
    return claims_of(*claims, state=state).output_history("totals", "v0002")


@pytest.mark.parametrize("claims", [(), ((5, "v0002", 10),), ((5, "v0002", 10), (6, "v0002", 10))])
def test_missing_batches_of_a_rebuilt_version_are_a_loss(claims: tuple[Any, ...]) -> None:
    """An older copy of the database without the rebuilt version's batches is reported as a loss, because v0002 would
    otherwise continue in v0001's table without them.
    """
    history = rebuilt((3, "v0001", None), *claims)
    lost = "it holds no batch of v0002, and batch 10 of v0002 was committed"
    assert find_output_loss(history, 10, BEFORE_THE_SWITCH) == lost
    assert find_output_loss(history, 10, record(3, v0001=40, v0002=10)) == ""
    assert find_output_loss(history, 10, record(3, v0001=40, v0002=9)) != ""


def test_a_version_that_was_current_before_may_be_missing_from_the_output() -> None:
    """After a rollback to v0001 and a return to v0002 that died before its fence, v0002's record may be missing from
    the output without being a loss.
    """
    back = rebuilt((3, "v0001", None), (5, "v0002", 10), (6, "v0001", 40), (7, "v0002", 50))
    assert (back.first_epoch, back.beside) == (7, False)
    assert find_output_loss(back, 50, record(6, v0001=40)) == ""
    swapped = rebuilt((3, "v0001", None), (5, "v0002", 10))
    assert find_output_loss(swapped, 10, record(5, v0001=40)) == ""


def test_missing_batches_of_a_restored_versions_parent_are_a_loss() -> None:
    """An output that lacks the batches of v0002 is reported as a loss when v0003 continues a copy of v0002, because
    v0002's claims are compared as well as those of the copy.
    """
    copied = msgspec.structs.replace(version("v0003"), parent="v0002", parent_batch=21)
    known = {"totals": (version("v0001"), version("v0002"), copied)}
    for claims in ([], [(4, "v0003", 21)]):
        state = claims_of((1, "v0001", None), (2, "v0002", 11), *claims, state=JobState(job="sales", versions=known))
        history = state.output_history("totals", "v0003")
        lost = "its epoch is 1, and batch 21 of v0002 was committed under epoch 2 or a later one"
        assert find_output_loss(history, 21, record(1, v0001=11)) == lost
        assert find_output_loss(history, 21, record(2, v0002=21)) == ""
        assert find_output_loss(history, 21, record(3, v0001=30)) == ""


def test_another_version_ends_the_series_of_claims() -> None:
    """When a different version was claimed in between, only the claims after it count as the version's first claim."""
    back = claims_of((5, "v0002", 0), (6, "v0001", 40), (7, "v0002", 50))
    history = back.output_history("totals", "v0002")
    assert (history.first_epoch, history.first_committed) == (7, 50)


def test_a_fold_without_the_first_claim_stays_without_it() -> None:
    """A folded state of an older program, without the first claim, is judged by its newest claim only."""
    epoch = EpochState(query="totals", output="t", epoch=5, instance="i", generation=1, version="v0002", committed=0)
    state = JobState(job="sales", versions={"totals": (version("v0002"),)}, epochs={"totals": epoch})
    assert find_output_loss(state.output_history("totals", "v0002"), 50, BEFORE_THE_SWITCH) != ""
    claim = EpochClaimed(query="totals", output="t", epoch=6, instance="i", generation=2, version="v0002", committed=50)
    history = fold(state, Entry(number=1, at="", by="test", record=claim)).output_history("totals", "v0002")
    assert (history.first_epoch, history.first_committed) == (0, None)
    assert find_output_loss(history, 50, BEFORE_THE_SWITCH) == ""


def test_a_crash_between_cutover_and_fence_with_present_batches_is_no_loss() -> None:
    """After a crash between the cutover into a new output and its fence, the missing record is no loss if the rebuilt
    version's batches are present; missing batches, or a batch committed after the claim, are a loss.
    """
    unseen = OutputRecord(gone="it has no row", last={"v0002": 10})
    for claims in ([(5, "v0002", 10)], [(5, "v0002", 10), (6, "v0002", 10)]):
        history = claims_of(*claims).output_history("totals", "v0002")
        assert find_output_loss(history, 10, unseen) == ""
        # What it has not written is missing all the same.
        assert find_output_loss(history, 10, OutputRecord(gone="it has no row", last={"v0002": 9})) != ""
        # A batch committed after the claim proves that the output had its record.
        assert find_output_loss(history, 11, OutputRecord(gone="it has no row", last={"v0002": 11})) != ""


def test_a_version_keeps_its_claims_after_another_version_has_claimed() -> None:
    """A version that a handoff has left is judged by its own claims, even after the new version's claim, so that an
    older copy of the output is detected.
    """
    state = claims_of((1, "v0001", None), (2, "v0002", 6), (3, "v0003", 13))
    history = state.output_history("totals", "v0002")
    assert (history.epoch, history.first_epoch, history.first_committed) == (0, 2, 6)
    loss = find_output_loss(history, 13, record(1, v0001=3))
    assert loss == "its epoch is 1, and batch 13 of v0002 was committed under epoch 2 or a later one"
    assert find_output_loss(history, 6, record(1, v0001=6)) == ""
    assert find_output_loss(history, 13, record(3, v0001=14)) == ""
