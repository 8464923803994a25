"""Recovering a registered job without a running driver: what is read from its files, what is announced, and who accepts
it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from harness.checkpoint_files import QUERY_ID
from streamkeeper.checkpoints import input_files
from streamkeeper.errors import CheckpointDamaged, InvalidInput, OperationRefused, StoreUnavailable
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState
from streamkeeper.model.protocol.liveness import Life, Liveness
from streamkeeper.model.records.journal_records import (
    DesiredChanged,
    OperationFinished,
    OperationStarted,
    Outcome,
    StartOffsetsKnown,
    StepDone,
)
from streamkeeper.model.records.snapshot import DrillResult
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.asked_fields import Verb, asked_fields
from streamkeeper.model.requests.diagnosis import Diagnosis, Option, Problem, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest, StartCurrent
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.replanning import must_not_hold
from streamkeeper.operations.recovery import diagnosing
from streamkeeper.operations.recovery.diagnoses import render_diagnosis
from streamkeeper.operations.recovery.diagnosing import diagnose_job, look_at_job
from streamkeeper.operations.recovery.recovering import RecoveryRequest, diagnose_for, open_recovery, recovery_request
from streamkeeper.operations.recovery.restoring import restore_version
from streamkeeper.registry.driver_control import Control
from tests.checkpoints.damaging import LOSSES, lose
from tests.operations.registered_job import JOB, QUERY, Registered, RestingRunner

RESTART, RESTORE, REBUILD = RecoveryAction.RESTART, RecoveryAction.RESTORE, RecoveryAction.REBUILD
REPLAN = RecoveryAction.REPLAN


def registered(root: Path, sink: str = "table") -> Registered:
    """Return a job that has committed batches 0 to 7, according to its journal, its driver's last status and its
    table.
    """
    job = Registered(root, sink=sink)
    job.record(StartOffsetsKnown(query=QUERY, version="v0001", offsets=("null",), query_id=QUERY_ID))
    job.report(committed=7)
    job.write_table(7)
    return job


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    return registered(tmp_path)


def asked(action: RecoveryAction = RESTORE, **more: Any) -> RecoveryRequest:
    request = DeployRequest(job=JOB, reason="it was damaged", requested_by="ada")
    return RecoveryRequest(request=request, action=action, **more)


def test_a_recovery_has_the_deadlines_of_a_deploy() -> None:
    """Each of the seven deadlines of a recovery's form and command is passed on to its deploy."""
    deadlines = [each.name for each in asked_fields(DeployRequest, Verb.RECOVER).values() if each.ask.unit]
    assert len(deadlines) == 7
    found = Diagnosis(job=JOB, cause=Problem.NOTHING_WRONG, sentence="", options=(Option(action=RESTART),))
    wanted = {name: number for number, name in enumerate(deadlines, 1)}
    request = recovery_request(
        "r0001", RecoveryRequest(request=DeployRequest(job=JOB, **wanted), action=RESTART), found
    )
    assert {name: getattr(request, name) for name in deadlines} == wanted


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_checkpoint_is_diagnosed_and_its_newest_snapshot_offered(job: Registered, how: str) -> None:
    """A lost checkpoint is diagnosed with its directory, and a restore of the newest snapshot is offered first; it
    replays and loses nothing and needs no acceptance.
    """
    job.take()
    lose(job.directory, how)
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.options[0].action) == (Problem.CHECKPOINT_LOST, RESTORE)
    assert str(job.directory) in found.sentence
    assert found.options[0].snapshots == {QUERY: "s0001"}
    assert not found.options[0].asks
    page = render_diagnosis(found)
    assert "**restart**: not possible" in page
    assert "reads nothing again; writes nothing again; loses nothing" in page


def test_batches_after_a_lost_checkpoints_snapshot_need_an_accepted_loss(job: Registered) -> None:
    """A lost checkpoint with a batch after its snapshot needs an accepted loss, because its list of input files is lost
    too; the acceptance is recorded with the announcement.
    """
    job.take()
    job.commit(8)
    job.report(committed=8)
    job.write_table(8)
    lose(job.directory, "missing")
    option = diagnose_job(job.installation, JOB).option(RESTORE)
    assert option.asks
    assert "possibly some of it" in option.prices[0].lost
    with pytest.raises(OperationRefused, match="a person must accept the effects of.*--accept-loss"):
        open_recovery(job.installation, "op2", asked())
    assert "op2" not in job.installation.journal(JOB, "test").state().operations
    started = open_recovery(job.installation, "op2", asked(accepted_by="ada", accept_loss=True))
    recover = started.state.operations["op2"].request.recovery
    assert recover is not None
    assert (recover.accepted_by, recover.snapshots) == ("ada", {QUERY: "s0001"})
    assert "LOSES possibly" in recover.announced[0]


def test_a_recovery_with_a_cost_other_than_the_accepted_one_is_refused(job: Registered) -> None:
    """A recovery is refused if its cost differs from the one that was accepted."""
    job.take()
    job.commit(8)
    job.report(committed=8)
    lose(job.directory, "missing")
    stale = asked(accepted_by="ada", accept_loss=True, announced=("query totals: loses nothing",))
    with pytest.raises(OperationRefused, match="the effects have changed since they were accepted"):
        open_recovery(job.installation, "op2", stale)


@pytest.mark.parametrize(
    ("sink", "written"),
    [
        ("foreach", "so your function receives them TWICE"),
        (
            "kafka",
            "so the topic receives them TWICE; with batch_headers, a reader that uses newest_attempts sees them once",
        ),
    ],
)
def test_an_output_without_a_record_receives_batches_twice_only_with_accept_replay(
    tmp_path: Path, sink: str, written: str
) -> None:
    """A recovery that would send batches to a function or a topic twice says so and needs ``--accept-replay``, and its
    rebuild is not possible.
    """
    job = registered(tmp_path, sink=sink)
    job.take()
    job.commit(8)
    job.report(committed=8)
    (job.directory / "commits/8").write_text("")
    found = diagnose_job(job.installation, JOB)
    assert found.cause is Problem.CHECKPOINT_DAMAGED
    (price,) = found.option(RESTORE).prices
    assert price.doubles
    assert price.written == f"the same, {written}"
    with pytest.raises(OperationRefused, match="--accept-replay"):
        open_recovery(job.installation, "op2", asked(accepted_by="ada", accept_loss=True))
    assert "cannot be written without readers seeing it" in found.option(REBUILD).why_not


class CommittingRunner(RestingRunner):
    """A runner whose driver commits and reports a batch while it is observed, and is then dead."""

    def __init__(self, job: Registered) -> None:
        super().__init__()
        self.job = job

    def observe(self, job: str, instance: str) -> Liveness:
        self.job.report(committed=8)
        return super().observe(job, instance)


def test_a_batch_committed_during_the_diagnosis_counts_in_its_cost(tmp_path: Path) -> None:
    """A batch that is committed during the diagnosis has the same cost as one that was committed before it."""
    job = registered(tmp_path, sink="foreach")
    job.take()
    lose(job.directory, "missing")
    before = diagnose_job(job.installation, JOB).option(RESTORE).prices
    installation = replace(job.installation, runner=CommittingRunner(job))
    during = diagnose_job(installation, JOB).option(RESTORE).prices
    assert during == diagnose_job(job.installation, JOB).option(RESTORE).prices
    assert during != before


def cut_plan(job: Registered, listed: Path | None = None) -> None:
    """Plan batch 8 and truncate its offsets file; ``listed`` is the input file that the batch was to read."""
    job.tree.plan(8)
    plan = job.directory / "offsets/8"
    plan.write_bytes(plan.read_bytes()[:20])
    if listed is not None:
        entry = {"path": listed.as_uri(), "timestamp": 1, "batchId": 8}
        (job.directory / "sources/0/8").write_text("v1\n" + json.dumps(entry))


def content_of(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory with its content."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_replan_copies_the_checkpoint_up_to_its_last_commit(job: Registered, tmp_path: Path) -> None:
    """A recovery by a replan records its cost, copies the checkpoint up to the last commit, and leaves the damaged
    directory unchanged; a repeated request returns the same operation. Negative control: an ordinary snapshot of that
    directory fails.
    """
    there = tmp_path / "f8.json"
    there.write_text("{}")
    cut_plan(job, there)
    before = content_of(job.directory)
    with pytest.raises(CheckpointDamaged):
        job.take()
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.options[0].action) == (Problem.CHECKPOINT_DAMAGED, REPLAN)
    opened = open_recovery(job.installation, "op2", asked(REPLAN))
    assert open_recovery(job.installation, "op3", asked(REPLAN)).operation == "op2"
    recover = opened.state.operations["op2"].request.recovery
    assert recover is not None
    assert (recover.asked_for, recover.action, recover.replans) == (REPLAN, RESTORE, {QUERY: 8})
    assert recover.announced == (found.options[0].prices[0].sentence,)
    (copy,) = recover.snapshots.values()
    taken = job.catalogue.read(int(copy[1:]))
    assert (taken.batch, taken.pending) == (7, False)
    assert {file.path for file in taken.files}.isdisjoint({"offsets/8", "sources/0/8"})
    assert content_of(job.directory) == before


def test_a_replan_with_a_missing_input_file_needs_an_accepted_loss(job: Registered) -> None:
    """A replan whose input file is missing needs an accepted loss, because Spark would plan the batch without the file
    and report nothing.
    """
    cut_plan(job)
    with pytest.raises(
        OperationRefused, match="1 of 1 files that the source had listed for it are missing.*--accept-loss"
    ):
        open_recovery(job.installation, "op2", asked(REPLAN))
    open_recovery(job.installation, "op2", asked(REPLAN, accepted_by="ada", accept_loss=True))


@pytest.mark.parametrize(
    ("sink", "holds", "told"), [("foreach", 7, "may have seen it"), ("table", 8, "contains batch 8")]
)
def test_a_replan_is_refused_if_the_output_may_contain_the_batch(
    tmp_path: Path, sink: str, holds: int, told: str
) -> None:
    """A replan is refused if the output contains, or may contain, the batch; the output is checked when the recovery is
    opened and once more before the replan.
    """
    job = registered(tmp_path, sink=sink)
    cut_plan(job)
    job.write_table(holds)
    with pytest.raises(OperationRefused, match=told):
        open_recovery(job.installation, "op2", asked(REPLAN))
    refused = "batch 8 must not be planned again, because output .* (may contain this batch: |contains batch 8 )"
    with pytest.raises(OperationRefused, match=refused):
        must_not_hold(job.installation, job.installation.journal(JOB, "test").state(), {QUERY: 8})
    assert "op2" not in job.installation.journal(JOB, "test").state().operations


def test_a_repeated_recovery_request_continues_the_open_operation(job: Registered) -> None:
    """A repeated recovery request continues the open operation, under the same id or a different one; a request for a
    different action is refused.
    """
    job.take()
    lose(job.directory, "missing")
    first = open_recovery(job.installation, "op2", asked())
    assert open_recovery(job.installation, "op2", asked()).operation == first.operation
    assert open_recovery(job.installation, "op3", asked()).operation == "op2"
    with pytest.raises(OperationRefused, match="another operation is open"):
        open_recovery(job.installation, "op3", asked(REBUILD))


def test_the_deploy_of_a_recovery_restores_the_announced_snapshot(job: Registered) -> None:
    """The deploy of a recovery restores the announced snapshot although its assessment finds the lost checkpoint, and
    it has no way back.
    """
    job.take()
    lose(job.directory, "missing")
    running = open_recovery(job.installation, "op2", asked())
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0001"}))
    job.gather("op2")
    state = running.state
    found = assess_candidate(job.installation, state, state.operations["op2"], "r0001")
    assert (found.verdict, found.refusal) == (Verdict.REFUSE, "")
    way = found.transitions[QUERY]
    assert (way.way, way.before, way.version, way.snapshot, way.back) == (
        Transition.RESTORE, "v0001", "v0002", "s0001", None,
    )  # fmt: skip
    assert found.sentence.startswith("RESTORE: query totals: returns from v0001 to batch 7 (s0001), as v0002")


def test_without_an_announcement_a_deploy_onto_a_lost_checkpoint_is_refused(job: Registered) -> None:
    """Negative control: an ordinary deploy onto a lost checkpoint is refused."""
    job.take()
    lose(job.directory, "missing")
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB, release="r0001"), steps=()))
    job.record(StepDone(operation="op2", step="bundle", result={"release": "r0001"}))
    job.gather("op2")
    state = job.installation.journal(JOB, "test").state()
    assert "checkpoint-lost" in assess_candidate(job.installation, state, state.operations["op2"], "r0001").refusal


@pytest.mark.parametrize("there", [True, False], ids=["files there", "files gone"])
def test_a_drilled_snapshot_is_preferred_unless_its_replay_loses_rows(
    job: Registered, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """A recovery prefers a drilled snapshot unless its replay would lose rows that a newer snapshot contains; the other
    one is named and can be requested.
    """
    monkeypatch.setattr(input_files, "_look_on_disk", lambda paths: ([] if there else paths, {}))
    job.take()
    drilled = DrillResult(id="d1", ok=True, message="batch 8 ran", at="2026-01-01")
    job.catalogue.note_drill(1, drilled)
    job.commit(8)
    job.take()
    job.report(committed=8)
    job.write_table(8)
    (job.directory / "commits/8").write_text("")
    (look,) = look_at_job(job.installation, JOB).queries
    assert look.replay is not None
    chosen = (look.replay.snapshot, look.replay.verified, look.replay.batches)
    assert chosen == (("s0001", True, 1) if there else ("s0002", False, 0))
    assert ("s0002 (batch 8, not verified by a drill)" if there else "s0001 (batch 7, verified)") in look.passed_over[0]
    named = diagnose_job(job.installation, JOB, snapshots={QUERY: "s0001"}).option(RESTORE)
    assert named.snapshots == {QUERY: "s0001"}
    assert named.asks is not there


def test_uncheckable_input_makes_a_replay_need_acceptance(job: Registered) -> None:
    """Input on gs:// is reported as not checked: a replay may lose rows and needs acceptance, and a rebuild is not
    possible.
    """
    job.take()
    job.commit(8)
    job.tree.plan(9)
    job.report(committed=8)
    for entry in (8, 9):
        log = job.directory / "sources" / "0" / (f"{entry}.compact" if entry == 9 else str(entry))
        log.write_text(log.read_text().replace("file:///in", "gs://bucket/in"))
    found = diagnose_job(job.installation, JOB, chosen=[QUERY])
    assert found.cause is not Problem.INPUT_GONE
    unchecked = "1 of 1 files of open batch 9 are not checked, such as gs://bucket/in/f9.json"
    assert any(unchecked in line for line in found.evidence)
    replay, rebuild = found.option(RESTORE), found.option(REBUILD)
    assert "possibly some of it: 2 of 2 files that were read since are not checked" in replay.prices[0].lost
    assert replay.asks
    assert "this check does not read gs://" in rebuild.why_not


def test_a_snapshot_that_is_damaged_is_passed_over(job: Registered) -> None:
    """A damaged snapshot is not used for a recovery, because every object of a snapshot is read first; the next older
    one is used.
    """
    job.take()
    job.commit(8)
    job.take()
    job.report(committed=8)
    lose(job.directory, "missing")
    only = set(job.catalogue.read(2).packs) - set(job.catalogue.read(1).packs)
    assert only
    job.installation.store.delete(job.catalogue.pack_key(only.pop().name))
    (look,) = look_at_job(job.installation, JOB).queries
    assert look.replay is not None
    assert look.replay.snapshot == "s0001"
    assert "s0002 (batch 8) cannot be restored" in look.passed_over[0]


def test_a_restored_version_is_recoverable_from_its_predecessors_snapshot(job: Registered) -> None:
    """A restored version that is damaged before its first backup can be recovered from the snapshot of the version
    before.
    """
    job.take()
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    job.record(job.epoch("v0002", 2))
    restored = job.directory.with_name("v0002")
    (restored / "commits/7").write_text("")
    (look,) = look_at_job(job.installation, JOB).queries
    assert look.version == "v0002"
    assert look.replay is not None
    assert (look.replay.snapshot, look.replay.batches, look.replay.unknown) == ("s0001", 0, "")


def test_without_a_snapshot_a_restore_is_not_possible(job: Registered) -> None:
    """Without a snapshot a restore is not possible, and for a missing checkpoint a rebuild is not possible either,
    because its end cannot be determined.
    """
    lose(job.directory, "missing")
    found = diagnose_job(job.installation, JOB)
    assert found.option(RESTORE).why_not == "query totals: there is no snapshot of the query"
    assert "the end of the rebuild cannot be determined" in found.option(REBUILD).why_not
    with pytest.raises(OperationRefused, match="restore of sales is not possible: query totals: there is no snapshot"):
        open_recovery(job.installation, "op2", asked())


def test_a_sink_that_is_ahead_is_named_with_both_batches(job: Registered) -> None:
    """A sink ahead of its checkpoint, as after a return to an older checkpoint, is diagnosed with both batch
    numbers.
    """
    job.take()
    job.write_table(12)
    found = diagnose_job(job.installation, JOB)
    assert found.cause is Problem.SINK_AHEAD
    assert "contains batch 12 of v0001, but its checkpoint has planned only up to 7" in found.sentence
    assert found.option(RESTORE).prices[0].written


def test_a_store_that_does_not_answer_is_the_cause(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable store is the diagnosed cause and does not raise an error."""

    def refuse(*_: object) -> None:
        raise StoreUnavailable("s3://bucket does not answer")

    monkeypatch.setattr(diagnosing, "read_job", refuse)
    assert diagnose_job(job.installation, JOB).cause is Problem.STORE_OUT_OF_REACH


def test_a_full_disk_is_the_cause(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is the diagnosed cause, and no action is possible, because nothing can be written."""
    monkeypatch.setattr(diagnosing, "LEAST_FREE_BYTES", 1 << 80)
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.options[0].possible) == (Problem.DISK_FULL, False)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("query totals: KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: gone", Problem.SOURCE_OFFSET_LOST),
        ("the JVM exited on its own: java.lang.OutOfMemoryError (exit code 52)", Problem.OUT_OF_MEMORY),
        ("ValueError: 3 is no colour", Problem.DRIVER_FAILED),
    ],
)
def test_the_diagnosed_cause_depends_on_the_drivers_exit_message(job: Registered, error: str, cause: Problem) -> None:
    """The diagnosis derives the cause from the driver's exit message: lost source offsets, lack of memory, or any other
    failure.
    """
    ending = DriverExit(instance="op-candidate", state=DriverState.FAILED, code=5, error=error)
    Control(job.installation.store, JOB, "op-candidate").write_exit(ending)
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, error in found.sentence) == (cause, True)


def test_a_start_refused_for_missing_offsets_is_the_diagnosed_cause(job: Registered) -> None:
    """If the last start was refused because the source no longer has the offsets, that refusal is the diagnosed
    cause.
    """
    told = "query totals: source-no-longer-holds-offsets (events partition 0: offsets 5 to 9 are gone)"
    request = DeployRequest(job=JOB, release=job.installation.journal(JOB, "t").state().serving_release)
    request = request.of_kind(StartCurrent())
    job.record(OperationStarted(operation="again-1", request=request, steps=()))
    job.record(OperationFinished(operation="again-1", outcome=Outcome.REFUSED, sentence=told))
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.sentence) == (Problem.SOURCE_OFFSET_LOST, told)


def test_a_stopped_job_is_diagnosed_as_stopped_and_not_recovered(job: Registered) -> None:
    """A stopped job is diagnosed as stopped, and its recovery is refused until a person starts it."""
    job.record(DesiredChanged(serve=False, requested_by="ada", reason="quarter end"))
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.sentence) == (Problem.STOPPED, "the job was stopped by ada: quarter end")
    with pytest.raises(OperationRefused, match="start it first"):
        open_recovery(job.installation, "op2", asked(RESTART))


def test_a_running_driver_is_diagnosed_as_nothing_wrong(job: Registered) -> None:
    """A running driver with intact files is diagnosed as ``NOTHING_WRONG``."""
    from streamkeeper.model.protocol.driver_messages import DriverState, DriverStatus
    from streamkeeper.registry.driver_control import Control

    job.runner.life = Life.ALIVE
    Control(job.installation.store, JOB, "op-candidate").write_status(
        DriverStatus(instance="op-candidate", release="r0001", generation=1, state=DriverState.SERVING, beat=10, at="")
    )
    assert diagnose_job(job.installation, JOB).cause is Problem.NOTHING_WRONG


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"queries": ("nope",)}, "nope"),
        ({"snapshots": {"nope": "s0001"}}, "nope"),
        ({"snapshots": {QUERY: "latest"}}, "is not a snapshot"),
    ],
)
def test_unknown_queries_and_snapshots_are_refused_by_name(job: Registered, more: dict[str, Any], line: str) -> None:
    """Unknown queries and snapshots are refused by name before anything is read."""
    with pytest.raises(InvalidInput, match=line):
        diagnose_for(job.installation, asked(**more))


def test_diagnosing_a_missing_directory_writes_no_journal_entry(job: Registered) -> None:
    """Diagnosing a job with a missing directory writes no journal entry."""
    shutil.rmtree(job.directory)
    before = job.installation.journal(JOB, "test").state().number
    diagnose_job(job.installation, JOB)
    assert job.installation.journal(JOB, "test").state().number == before


@pytest.mark.parametrize("older", [False, True], ids=["missing", "an older copy"])
def test_a_restart_without_a_lost_outputs_rows_needs_an_accepted_loss(job: Registered, older: bool) -> None:
    """A lost or outdated output is the diagnosed cause; a restart without its rows needs an accepted loss, with which
    the driver continues after the last committed batch.
    """
    if older:
        job.write_table(6)
    else:
        job.warehouse.unlink()
    found = diagnose_job(job.installation, JOB)
    assert (found.cause, found.option(RESTART).possible) == (Problem.OUTPUT_LOST, True)
    assert f"{job.warehouse}#totals lacks committed batches" in found.sentence
    restart = asked(action=RESTART)
    with pytest.raises(OperationRefused, match="effects of restart on sales: .*LOSES the rows that the output"):
        open_recovery(job.installation, "op2", restart)
    why = structs.replace(restart.request, reason="the disk is gone")
    accepted = structs.replace(restart, request=why, accepted_by="ada", accept_loss=True)
    request = open_recovery(job.installation, "op2", accepted).state.operations["op2"].request
    assert request.accept_output_loss
    assert not recovery_request("r0001", restart, found).accept_output_loss
