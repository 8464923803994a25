"""Tests the rebuild of a lost journal: which version was current, which epochs are used, and when this cannot be
determined; without I/O.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamkeeper.lifecycle.rebuilding import NO_BATCH, RebuildPlan, RebuildRequest, decide_installation, decide_rebuild
from streamkeeper.model.records.epoch_claim import EpochClaim
from streamkeeper.model.records.job_state import JobState, fold
from streamkeeper.model.records.journal_records import CheckpointVersionCreated, Entry, EpochClaimed, Record
from streamkeeper.model.records.known_checkpoint import known_checkpoint
from streamkeeper.model.records.lost_store import Fence, LostJob, SeenCheckpoint, SeenDriver, SeenSnapshots
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.rebuilt import JobRebuilt

ASKED = RebuildRequest(
    requested_by="cli:ada", reason="bucket deleted", asked_at="2026-11-23T12:00:00Z", seconds=1_795_435_200
)
OUTPUT = "sqlite:////w.db#totals"


def directory(version: str, committed: int | None = 8, planned: int | None = None) -> SeenCheckpoint:
    planned = committed if planned is None else planned
    return SeenCheckpoint(root="/cp", version=version, query_id=f"id-{version}", committed=committed, planned=planned)


def table(version: str = "v0001", batch: int | None = 8, epoch: int = 5, **more: Any) -> Fence:
    fields = {"output": OUTPUT, "owner": "sales/totals", "claimed": epoch, "installation": "mine", **more}
    return Fence(version=version, batch=batch, epoch=epoch, **fields)


def lost(*there: SeenCheckpoint, fences: tuple[Fence, ...] = (table(),), **more: Any) -> LostJob:
    """Return what is found of a job with one query ``totals`` whose store is gone."""
    fields = {"job": "sales", "host": "box", **more}
    return LostJob(
        checkpoints={"totals": there} if there else {}, fences={"totals": fences} if fences else {}, **fields
    )


def decided(seen: LostJob, **asked: Any) -> RebuildPlan:
    import msgspec

    return decide_rebuild(seen, msgspec.structs.replace(ASKED, **asked), "mine")


def recorded(plan: RebuildPlan) -> JobRebuilt:
    assert plan.record is not None, plan.refusals
    return plan.record


def state_of(*records: Record) -> JobState:
    state = JobState(job="sales")
    for number, record in enumerate(records, start=1):
        state = fold(state, Entry(number=number, at="", by="test", record=record))
    return state


def test_the_version_in_the_outputs_fence_becomes_current() -> None:
    """The version in the output's fence becomes the current one with its directory's root, query id and last commit, so
    that a deploy accepts only that checkpoint.
    """
    state = state_of(recorded(decided(lost(directory("v0001")))))
    current = state.current_version("totals")
    assert current is not None
    assert (current.version, current.root, current.query_id, current.committed) == ("v0001", "/cp", "id-v0001", 8)
    assert current.installation == "mine"
    assert known_checkpoint("sales", current, {}).begun
    assert (state.serving_release, state.wanted, state.owners) == ("", False, [])
    assert state.rebuilt is not None
    assert state.rebuilt.sentence == ("rebuilt from checkpoints on 2026-11-23 12:00 UTC, by cli:ada (bucket deleted)")


def test_the_outputs_fence_decides_which_checkpoint_is_current() -> None:
    """The output's fence, not the highest number, decides which of two checkpoints is current. Negative control:
    without a fence the rebuild is refused until a person names the version.
    """
    both = (directory("v0001"), directory("v0002", committed=20))
    state = state_of(recorded(decided(lost(*both))))
    assert state.current["totals"] == "v0001"
    assert state.next_version("totals") == "v0003"
    refused = decided(lost(*both, fences=()), unfenced=frozenset({"totals"}))
    assert refused.record is None
    assert "v0001, v0002" in refused.refusals[0]
    assert "--version sales/totals=v…" in refused.refusals[0]
    said = decided(lost(*both, fences=()), unfenced=frozenset({"totals"}), versions={"totals": "v0002"})
    assert recorded(said).queries["totals"].version == "v0002"


def test_a_retired_version_is_not_current_and_its_number_stays_reserved() -> None:
    """Checkpoint versions that were left, or that only the output and a snapshot name, are not current, and their
    numbers are never assigned again.
    """
    kept = SeenSnapshots(name="s0004", version="v0003", batch=7, versions=("v0001", "v0003"), newest_release=12)
    fence = table("v0002", versions=("v0002", "v0005"))
    seen = lost(directory("v0001"), directory("v0002"), fences=(fence,), snapshots={"totals": kept})
    state = state_of(recorded(decided(seen)))
    assert state.current["totals"] == "v0002"
    assert state.next_version("totals") == "v0006"
    assert state.next_release == 13


def test_new_claims_start_above_every_epoch_found() -> None:
    """New claims start above every epoch found in any fence, including the fence of a former output, or in a driver's
    last report.

    Negative control: without the rebuild record the same journal would assign an epoch that a stale driver may hold.
    """
    fences = (table(epoch=5), table("v0001", epoch=3, output="sqlite:////w.db#old"))
    seen = lost(directory("v0001"), fences=fences, drivers=(SeenDriver(instance="op-candidate", epoch=9, release=4),))
    record = recorded(decided(seen))
    assert record.queries["totals"].output == OUTPUT
    state = state_of(record)
    assert [state.next_epoch(query) for query in ("totals", "another")] == [10, 10]
    assert state.next_release == 5
    claim = EpochClaimed(query="totals", output=OUTPUT, epoch=10, instance="new", generation=1, version="v0001")
    assert state_of(record, claim).next_epoch("totals") == 11
    of_old = CheckpointVersionCreated(query="totals", version="v0001", release="r0001", origin="", state_format="")
    assert state_of(of_old).next_epoch("totals") <= 5


def test_a_query_without_a_fence_claims_above_the_time_in_seconds() -> None:
    """A query that writes with a function has no fence: it is rebuilt only with ``--unfenced``, and then claims above
    the time of the request in seconds; ``--unfenced`` is refused for an output that records an epoch.
    """
    seen = lost(directory("v0001"), fences=())
    refused = decided(seen)
    assert "--output" in refused.refusals[0]
    assert "--unfenced sales/totals" in refused.refusals[0]
    state = state_of(recorded(decided(seen, unfenced=frozenset({"totals"}))))
    assert state.next_epoch("totals") == ASKED.seconds + 1
    fenced = decided(lost(directory("v0001")), unfenced=frozenset({"totals"}))
    assert "records an epoch" in fenced.refusals[0]


def test_files_over_several_versions_stay_one_output() -> None:
    """A file output that was handed over between versions keeps all its segments, and a version that has begun does not
    inherit a batch. If the newer checkpoint is missing, the rebuild is refused.
    """
    fence = table(
        "v0002",
        batch=3,
        output="/out",
        serving=(OutputSegment("v0001", 8), OutputSegment("v0002")),
        versions=("v0001", "v0002"),
    )
    state = state_of(recorded(decided(lost(directory("v0001"), directory("v0002", committed=3), fences=(fence,)))))
    assert state.segments("totals", "v0002") == (OutputSegment("v0001", 8), OutputSegment("v0002"))
    current = state.current_version("totals")
    assert current is not None
    assert current.batch == NO_BATCH
    untouched = lost(directory("v0001"), directory("v0002", committed=0), fences=(replaced(fence, batch=None),))
    current = state_of(recorded(decided(untouched))).current_version("totals")
    assert current is not None
    assert current.batch == 0
    gone = decided(lost(directory("v0001"), fences=(replaced(fence, batch=None),)))
    assert "handed over to checkpoint v0002" in gone.refusals[0]


def replaced(fence: Fence, **changes: Any) -> Fence:
    import msgspec

    return msgspec.structs.replace(fence, **changes)


def test_a_missing_checkpoint_refuses_the_rebuild_with_its_snapshot() -> None:
    """A missing checkpoint refuses the rebuild with the snapshot that could replace it; a restored checkpoint may take
    its place. If the query is declared missing, its version stays on record so that it does not start from nothing.
    """
    kept = SeenSnapshots(name="s0004", version="v0001", batch=6, versions=("v0001",), newest_release=3)
    seen = lost(snapshots={"totals": kept})
    refused = decided(seen)
    assert "s0004 contains batch 6 of v0001" in refused.refusals[0]
    assert "--to <checkpoints>/sales/totals/v0002" in refused.refusals[0]
    record = recorded(decided(seen, missing=frozenset({"totals"})))
    current = state_of(record).current_version("totals")
    assert current is not None
    assert known_checkpoint("sales", current, {}).begun
    restored = lost(directory("v0002", committed=6), snapshots={"totals": kept})
    state = state_of(recorded(decided(restored, versions={"totals": "v0002"})))
    assert state.segments("totals", "v0002") == (OutputSegment("v0001", 6), OutputSegment("v0002"))
    both = decided(lost(directory("v0001"), directory("v0002")), versions={"totals": "v0002"})
    assert "omit `--version`" in both.refusals[0]


@pytest.mark.parametrize("named", ["v0001", "v0004"], ids=["an older one", "a missing one"])
def test_only_the_newest_checkpoint_version_replaces_a_missing_one(named: str) -> None:
    """A missing checkpoint can only be replaced by a version newer than all others; an older or missing version is
    refused.
    """
    seen = lost(directory("v0001"), fences=(table("v0002", versions=("v0002",)),))
    assert decided(seen, versions={"totals": named}).refusals == (
        f"query totals: checkpoint {named} cannot replace v0002, because {named} is missing or is not the newest"
        " version. Restore a snapshot into v0003, then run the command again with `--version sales/totals=v0003`",
    )


def test_an_output_ahead_of_or_behind_its_checkpoint_is_reported() -> None:
    """The rebuild reports an output that contains batches beyond its checkpoint, and an output that lacks batches that
    the checkpoint has committed.
    """
    ahead = recorded(decided(lost(directory("v0001", committed=5)))).lost
    assert "has planned batches up to 5, but its output contains batch 8" in ahead[1]
    behind = recorded(decided(lost(directory("v0001", committed=11)))).lost
    assert "its checkpoint has committed 11" in behind[1]


def test_several_queries_are_rebuilt_together_or_not_at_all() -> None:
    """One record rebuilds all queries of a job, above the highest epoch; if one query cannot be decided, nothing is
    recorded.
    """
    other = table(output="/out", owner="sales/copy", epoch=7)
    seen = LostJob(
        job="sales",
        host="box",
        checkpoints={"totals": (directory("v0001"),), "copy": (directory("v0001"), directory("v0002"))},
        fences={"totals": (table(),), "copy": (other,)},
    )
    state = state_of(recorded(decided(seen)))
    assert state.current == {"copy": "v0001", "totals": "v0001"}
    assert state.next_epoch("totals") == state.next_epoch("copy") == 8
    twice = LostJob(
        job="sales",
        checkpoints=seen.checkpoints,
        fences={**seen.fences, "copy": (other, replaced(other, output="/out2"))},
    )
    refused = decided(twice)
    assert refused.record is None
    assert len(refused.refusals) == 1
    assert "both claimed under epoch 7" in refused.refusals[0]


def test_a_rebuild_is_refused_while_a_driver_runs_or_may_run() -> None:
    """The rebuild is refused while a driver runs, or while drivers may run out of sight and nobody has stated that none
    does, because two drivers could write to one checkpoint.
    """
    alive = decided(lost(directory("v0001"), drivers=(SeenDriver(instance="op-candidate", alive="processes 7, 8"),)))
    assert alive.record is None
    assert "op-candidate still runs on box (processes 7, 8). Use `--end-drivers`" in alive.refusals[0]
    hidden = lost(directory("v0001"), unseen="this is a container (box)")
    assert "--no-driver-elsewhere" in decided(hidden).refusals[0]
    assert "none elsewhere by a person's statement" in recorded(decided(hidden, no_driver_elsewhere=True)).proof


def test_an_existing_journal_is_never_overwritten() -> None:
    """The rebuild is refused for a job that has a journal, and a rebuild record in a journal with entries changes
    nothing.
    """
    plan = decided(LostJob(job="sales", journal="job sales has a journal of 9 entries"))
    assert (plan.record, plan.refusals) == (None, ("job sales has a journal of 9 entries",))
    created = CheckpointVersionCreated(query="totals", version="v0001", release="r0001", origin="", state_format="")
    before = state_of(created)
    after = state_of(created, recorded(decided(lost(directory("v0007"), fences=(table("v0007"),)))))
    assert (after.versions, after.rebuilt) == (before.versions, None)


@pytest.mark.parametrize(
    ("wanted", "present", "others", "id", "told"),
    [
        ({"a"}, "", (), "a", ""),
        ({"a"}, "b", (), "a", ""),
        ({"a"}, "a", ("sales",), "a", ""),
        (set(), "b", ("sales",), "", ""),
        ({"a", "c"}, "", (), "", "belong to 2 installations (a, c)"),
        ({"a"}, "b", ("sales",), "", "the store already belongs to the installation b, with sales"),
    ],
)
def test_the_store_regains_the_installation_id_that_its_outputs_name(
    wanted: set[str], present: str, others: tuple[str, ...], id: str, told: str
) -> None:
    """The store gets back the installation id that the outputs name, even if the watch has created a new one since; it
    is refused if jobs are recorded under the new id or the outputs name two installations.
    """
    found, refusal = decide_installation(frozenset(wanted), present, others)
    assert found == id
    assert told in refusal if told else not refusal


def claimed(version: str, epoch: int, installation: str = "mine") -> dict[str, tuple[EpochClaim, ...]]:
    claim = EpochClaim(epoch=epoch, version=version, instance="op", generation=1, installation=installation)
    return {"totals": (claim,)}


def test_the_newest_claim_decides_the_current_version_of_a_function_output() -> None:
    """For a function output, the newest claim beside the checkpoints decides the current version and the epoch.
    Negative control: without a claim of this installation the two checkpoints cannot be told apart.
    """
    both, unfenced = (directory("v0001"), directory("v0002")), frozenset({"totals"})
    record = recorded(decided(lost(*both, fences=(), claims=claimed("v0001", 7)), unfenced=unfenced))
    assert (record.queries["totals"].version, record.epoch) == ("v0001", 7)
    for claims in ({}, claimed("v0001", 7, "another")):
        assert decided(lost(*both, fences=(), claims=claims), unfenced=unfenced).record is None
    told = decided(lost(*both, fences=(), claims=claimed("v0002", 7)), unfenced=unfenced, versions={"totals": "v0001"})
    assert told.record is None
    assert "the driver claimed v0002" in told.refusals[0]


def test_a_rebuild_is_refused_when_a_claim_postdates_the_outputs_fence() -> None:
    """The rebuild is refused when a checkpoint has a later claim than the output's fence, because the output may be an
    older copy; equal epochs are accepted.
    """
    both = (directory("v0001"), directory("v0002"))
    refused = decided(lost(*both, fences=(table("v0001", epoch=5),), claims=claimed("v0002", 6)))
    assert refused.record is None
    assert (
        "was claimed for v0001 with epoch 5, but checkpoint v0002 has a later claim, with epoch 6. If v0002 has written"
        " a batch, restore the newest" in refused.refusals[0]
    )
    same = recorded(decided(lost(*both, fences=(table("v0001", epoch=6),), claims=claimed("v0002", 6))))
    assert same.queries["totals"].version == "v0001"


def test_a_claim_without_a_checkpoint_only_takes_its_epoch() -> None:
    """A claim of this installation for a query without a checkpoint only raises the epoch, so that no other query
    claims it; a different installation's claim is ignored.
    """
    removed = EpochClaim(epoch=9, version="v0003", instance="op", generation=1, installation="mine")
    foreign = EpochClaim(epoch=99, version="v0003", instance="op", generation=1, installation="another")
    record = recorded(decided(lost(directory("v0001"), claims={"removed": (removed, foreign)})))
    assert (sorted(record.queries), record.epoch) == (["totals"], 9)


def test_a_claim_without_a_checkpoint_does_not_keep_a_removed_query() -> None:
    """A query that is declared missing is rebuilt even if its claim is later than its output's fence; the record
    includes the claimed version and epoch.
    """
    seen = lost(fences=(table("v0001", epoch=5),), claims=claimed("v0002", 6))
    record = recorded(decided(seen, missing=frozenset({"totals"})))
    assert record.epoch == 6
    assert [version.version for version in record.queries["totals"].versions] == ["v0001", "v0002"]
