"""Rollbacks, restores and rebuilds over deleted input, with real stores and files: the loss is reported, and a person
must accept it.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.checkpoint_files import Tree
from streamkeeper.errors import OperationRefused
from streamkeeper.model.manifests.finding import Finding, Severity, Verdict
from streamkeeper.model.records.journal_records import (
    Assessed,
    FallBackDecided,
    InstanceAppointed,
    InstanceEnded,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest, Handover, Rollback, Strategy
from streamkeeper.operations.deploys import assessing
from streamkeeper.operations.deploys.assessing import assess_candidate
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.jobs.missing_input import (
    MissingInput,
    missing_to_fall_back,
    must_still_be_there,
    not_known,
)
from streamkeeper.operations.recovery import restoring
from streamkeeper.operations.recovery.diagnosing import diagnose_job
from streamkeeper.operations.recovery.restoring import plan_restore, restore_version
from tests.compatibility.manifests import STATEFUL
from tests.operations.deploys.test_blast_radius import deployed
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.snapshots.series import salt_state

ACCEPTED = {"loss_accepted_by": "ada", "reason": "the files were test data"}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """The directory that the query reads from."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def job(tmp_path: Path, inputs: Path) -> Registered:
    """A job with batch 7 in snapshot s0001 and a later batch 8 whose input file exists."""
    job = Registered(tmp_path)
    read_from(job.directory, inputs)
    job.take()
    add_batch(job, job.tree, inputs, 8)
    job.write_table(8)
    return job


def read_from(directory: Path, inputs: Path) -> None:
    """Change a checkpoint's source log to name files in this directory, and create those files."""
    for log in (directory / "sources" / "0").iterdir():
        if not log.name.startswith("."):
            log.write_text(log.read_text().replace("file:///in/", f"file://{inputs}/"))
    for batch in range(9):
        (inputs / f"f{batch}.json").write_text("{}")


def add_batch(job: Registered, tree: Tree, inputs: Path, batch: int) -> None:
    tree.plan(batch)
    tree.commit(batch, snapshot=True)
    salt_state(tree.root)
    read_from(tree.root, inputs)


def gone(inputs: Path, clause: str = "1 of 1") -> str:
    return f"loses rows: {clause} files that were read since are missing, such as {inputs}/f8.json"


def test_a_restore_with_complete_input_needs_no_acceptance(job: Registered, inputs: Path) -> None:
    """A restore needs no acceptance while the files that were read after the snapshot exist; earlier files may be
    deleted, because the snapshot contains their results.
    """
    (inputs / "f3.json").unlink()
    sentence = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1)).sentence
    assert sentence.endswith("(up to 8); it is written again, each row replaces the one with its key")
    assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0002"


def test_a_restore_over_deleted_input_needs_an_accepted_loss(job: Registered, inputs: Path) -> None:
    """A restore over deleted input names the files and needs an accepted loss; the acceptance is recorded with the
    restored version and does not cover a later restore.
    """
    (inputs / "f8.json").unlink()
    snapshot = job.catalogue.read(1)
    assert plan_restore(job.installation, JOB, QUERY, snapshot).sentence.endswith(f"; the restore {gone(inputs)}")
    for accepts in ({}, {"accept_replay": True}):
        with pytest.raises(OperationRefused, match="f8.json.*--accept-loss"):
            restore_version(job.installation, JOB, QUERY, snapshot, **accepts)
    assert job.versions == ["v0001"]
    restore_version(job.installation, JOB, QUERY, snapshot, **ACCEPTED)
    state = job.installation.journal(JOB, "test").state()
    assert state.versions[QUERY][-1].origin.endswith(
        f"at batch 7; ada accepted that it {gone(inputs)} (the files were test data)"
    )
    (inputs / "f9.json").write_text("{}")
    restored = job.directory.with_name("v0002")
    tree = object.__new__(Tree)
    tree.root, tree.kind, tree.leftovers = restored, "hdfs", False
    add_batch(job, tree, inputs, 8)
    (inputs / "f8.json").unlink()
    with pytest.raises(OperationRefused, match="--accept-loss"):
        restore_version(job.installation, JOB, QUERY, snapshot)


def test_without_the_input_check_a_restore_promises_rows_of_deleted_files(
    job: Registered, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the check of its input, the restore promises to write rows whose file is deleted."""
    (inputs / "f8.json").unlink()
    monkeypatch.setattr(restoring, "missing_for_restore", lambda *_: MissingInput())
    plan = restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert "it is written again" in plan.sentence
    assert not (inputs / "f8.json").exists()


def test_input_files_that_cannot_be_checked_count_as_a_loss(job: Registered, inputs: Path) -> None:
    """Input files that cannot be checked, such as files on gs://, count as a possible loss in a restore and in a
    recovery.
    """
    log = job.directory / "sources" / "0" / "8"
    log.write_text(log.read_text().replace(f"file://{inputs}", "gs://bucket"))
    with pytest.raises(
        OperationRefused, match=r"may lose rows: 1 of 1 .* are not checked, such as gs://bucket/f8.json"
    ):
        restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    price = diagnose_job(job.installation, JOB, chosen=[QUERY]).option(RecoveryAction.RESTORE).prices[0]
    assert "1 of 1 files that were read since are not checked" in price.lost


def test_only_approvers_can_accept_the_loss_of_a_restore(tmp_path: Path, inputs: Path) -> None:
    """Only the release's approvers can accept the loss of a restore."""
    job = Registered(tmp_path, approvers=("bob",))
    read_from(job.directory, inputs)
    job.take()
    add_batch(job, job.tree, inputs, 8)
    (inputs / "f8.json").unlink()
    with pytest.raises(
        OperationRefused, match="and no authorized person has accepted this: ada is not among the approvers"
    ):
        restore_version(job.installation, JOB, QUERY, job.catalogue.read(1), **ACCEPTED)


@pytest.mark.parametrize(
    ("kind", "options", "lost"),
    [("kafka", {}, ""), ("kafka", {"failondataloss": "false"}, "may lose rows"), ("file", {}, "may lose rows")],
)
def test_unknown_input_counts_as_a_loss_unless_the_reader_fails_on_it(
    kind: str, options: dict[str, str], lost: str
) -> None:
    """Unknown input counts as a possible loss, except for Kafka without ``failondataloss=false``, whose reader fails on
    missing records.
    """
    source = replace(STATEFUL.sources[0], kind=kind, options=options)
    assert not_known(replace(STATEFUL, sources=(source,)), "damaged").loss.startswith(lost)
    assert bool(not_known(replace(STATEFUL, sources=(source,)), "damaged").loss) is bool(lost)


def rebuilt(job: Registered, inputs: Path) -> None:
    """Record that r0002 runs on v0002, which has read the file of batch 8, and that v0001 stopped at batch 7."""
    state = job.installation.journal(JOB, "test").state()
    first = state.releases["r0001"]
    content = replace(first.content, bundle="c" * 64)
    job.record(ReleaseRegistered(release=replace(first, number=2, content=content)))
    job.record(ReleaseDescribed(release="r0002", manifests=state.described["r0001"]))
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0001"}))
    job.record(ReleasePromoted(operation="op", release="r0001", instance="op-candidate"))
    job.record(replace(job.version("v0002"), serves=False, release="r0002"))
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0002"}))
    job.record(ReleasePromoted(operation="op", release="r0002", instance="op-candidate"))
    Tree(job.directory.with_name("v0002"), "hdfs", batches=9)
    read_from(job.directory.with_name("v0002"), inputs)


def roll_back(job: Registered, operation: str, **request: Any) -> Assessed:
    """Return the assessment of a rollback to a release that cannot use the state of v0002."""
    wanted = DeployRequest(job=JOB, release="r0001", reason="sums", requested_by="ada", **request)
    wanted = wanted.of_kind(Rollback())
    Deploy.open(job.installation, operation, wanted)
    breaking = Finding(rule="state-keys-changed", severity=Severity.BREAKING, where="operator", evidence="a -> b")
    job.gather(operation, breaking, against="r0002")
    state = job.installation.journal(JOB, "test").state()
    found = assess_candidate(job.installation, state, state.operations[operation], "r0001")
    Deploy.load(job.installation, JOB, operation).abort(requested_by="ada", reason="looked at")
    job.record(OperationFinished(operation=operation, outcome=Outcome.ABORTED, sentence="looked at"))
    return found


def test_a_rollback_over_deleted_input_needs_an_accepted_loss(
    tmp_path: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback over deleted input is refused with the query, the files and the way out unless the loss is accepted.
    Negative control: without the check, the rollback goes ahead although the rows of batch 8 would be in neither
    version.
    """
    job = Registered(tmp_path)
    read_from(job.directory, inputs)
    rebuilt(job, inputs)
    there = roll_back(job, "op2")
    assert (there.refusal, there.transitions[QUERY].way, there.transitions[QUERY].version) == (
        "",
        Transition.RETURN,
        "v0001",
    )
    (inputs / "f8.json").unlink()
    refused = roll_back(job, "op3")
    assert refused.refusal == (
        f"query {QUERY}: going back to v0001 {gone(inputs)}; put the files back, or accept the loss with accept_loss"
    )
    assert roll_back(job, "op4", accept_loss=True).transitions[QUERY].way is Transition.RETURN
    assert "f8.json" in roll_back(job, "op5", accept_loss=True).sentence
    monkeypatch.setattr(assessing, "missing_for_way", lambda *_: MissingInput())
    assert roll_back(job, "op6").transitions[QUERY].way is Transition.RETURN


@pytest.mark.parametrize("rebuild", [True, False], ids=["a chosen rebuild", "a switch"])
def test_a_rebuild_with_deleted_input_is_refused_at_the_assessment(
    job: Registered, inputs: Path, rebuild: bool
) -> None:
    """A rebuild with a deleted input file is refused at the assessment, whether a person chose it or the verdict
    requires it; with the file it is planned.
    """
    for there in (True, False):
        operation = "op-there" if there else "op-gone"
        if not there:
            (inputs / "f3.json").unlink()
        strategy = Strategy.REBUILD if rebuild else Strategy.AUTO
        Deploy.open(job.installation, operation, DeployRequest(job=JOB, release="r0001", strategy=strategy))
        breaking = Finding(rule="state-keys-changed", severity=Severity.BREAKING, where="operator", evidence="a -> b")
        job.gather(operation, *(() if rebuild else (breaking,)))
        state = job.installation.journal(JOB, "test").state()
        found = assess_candidate(job.installation, state, state.operations[operation], "r0001")
        assert bool(found.refusal) is not there, found.sentence
        assert (f"1 of the 9 files that were read are missing: {inputs}/f3.json" in found.refusal) is not there
        Deploy.load(job.installation, JOB, operation).abort(requested_by="ada", reason="looked at")
        job.record(OperationFinished(operation=operation, outcome=Outcome.ABORTED, sentence="looked at"))


@pytest.mark.parametrize("named", [True, False], ids=["by the cutover snapshot", "by its last batch"])
def test_a_fallback_reports_input_files_deleted_since_the_cutover(tmp_path: Path, inputs: Path, named: bool) -> None:
    """A fallback reports the input files that were read since the cutover and then deleted, and reports nothing while
    they exist.
    """
    job = Registered(tmp_path)
    read_from(job.directory, inputs)
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", back=Transition.RESTORE)
    deployed(job, way, snapshot=job.take() if named else "")
    add_batch(job, job.tree, inputs, 8)
    state = job.installation.journal(JOB, "test").state()
    assert missing_to_fall_back(job.installation, state, state.operations["op2"]) == {}
    (inputs / "f8.json").unlink()
    assert missing_to_fall_back(job.installation, state, state.operations["op2"]) == {
        QUERY: f"going back to v0001 {gone(inputs)}"
    }


def test_a_fallback_from_a_version_never_opened_loses_nothing(tmp_path: Path) -> None:
    """A fallback from a version that its candidate never opened loses nothing."""
    job = Registered(tmp_path)
    job.record(replace(job.version("v0002"), serves=False))
    deployed(job, QueryTransition(way=Transition.HANDOFF, before="v0001", version="v0002", back=Transition.RETURN))
    state = job.installation.journal(JOB, "test").state()
    assert missing_to_fall_back(job.installation, state, state.operations["op2"]) == {}


def test_a_fallback_checks_its_input_before_it_returns_to_the_old_release(tmp_path: Path, inputs: Path) -> None:
    """A fallback checks its input first: with a deleted file the operation fails and the candidate's release stays the
    current one; with the file it returns to the old release.
    """
    for there in (False, True):
        job = Registered(tmp_path / str(there))
        read_from(job.directory, inputs)
        fails_in_probation(job)
        add_batch(job, job.tree, inputs, 8)
        deploy = Deploy.load(job.installation, JOB, "op2")
        if there:
            assert "loses rows" not in deploy.advance(Step.FALL_BACK).sentence
            assert deploy.state.serving_release == "r0001"
            continue
        (inputs / "f8.json").unlink()
        ended = deploy.advance(Step.FALL_BACK)
        assert ended.outcome is Outcome.FAILED
        assert f"no batch came; query {QUERY}: going back to v0001 {gone(inputs)}; no driver runs" in ended.sentence
        assert deploy.state.serving_release == "r0002"


def test_a_fallback_without_its_snapshot_fails_with_both_errors(tmp_path: Path) -> None:
    """A fallback without the snapshot that it needs fails with both errors, because a person must act, rather than
    repeat the failed step forever.
    """
    job = Registered(tmp_path)
    fails_in_probation(job)
    shutil.rmtree(job.directory / "commits")
    ended = Deploy.load(job.installation, JOB, "op2").advance(Step.FALL_BACK)
    assert ended.outcome is Outcome.FAILED
    assert ended.sentence.startswith("no batch came; r0001 could not be restarted: no snapshot of the last batch")


def fails_in_probation(job: Registered) -> None:
    """Record that r0002 took over v0001 after batch 7 and failed, and that r0001 cannot use its state."""
    state = job.installation.journal(JOB, "test").state()
    first = state.releases["r0001"]
    way = QueryTransition(way=Transition.RESUME, before="v0001", version="v0001", back=Transition.RESTORE)
    verdicts = {"verdict": Verdict.RESUME, "reverse": Verdict.SWITCH, "sentence": "RESUME", "report": ""}
    for record in (
        ReleaseRegistered(release=replace(first, number=2, content=replace(first.content, bundle="c" * 64))),
        ReleaseDescribed(release="r0002", manifests=state.described["r0001"]),
        OperationStarted(operation="op2", request=DeployRequest(job=JOB, handover=Handover.COLD), steps=()),
        StepDone(operation="op2", step="bundle", result={"release": "r0002"}),
        Assessed(operation="op2", transitions={QUERY: way}, **verdicts),
        StepBegun(operation="op2", step="drain"),
        InstanceEnded(operation="op2", instance="op-candidate", proof="ended", exit="failed"),
        StepDone(operation="op2", step="prove-dead", result={QUERY: "7"}),
        InstancePlanned(operation="op2", instance="op2-candidate", release="r0002", role=Role.CANDIDATE),
        InstanceAppointed(operation="op2", instance="op2-candidate", versions={QUERY: "v0001"}),
        FallBackDecided(operation="op2", reason="no batch came"),
        InstanceEnded(operation="op2", instance="op2-candidate", proof="ended", exit="failed"),
    ):
        job.record(record)


@pytest.mark.parametrize("way", [Transition.RESTORE, Transition.RETURN])
def test_files_deleted_while_the_old_driver_runs_stop_a_restore(tmp_path: Path, inputs: Path, way: Transition) -> None:
    """Files that are deleted after the announcement, while the old driver still runs, stop a restore or a return unless
    a person has accepted the loss. Negative control: a transition that replays nothing needs no file.
    """
    job = Registered(tmp_path)
    read_from(job.directory, inputs)
    taken = job.take()
    if way is Transition.RETURN:
        rebuilt(job, inputs)
    else:
        add_batch(job, job.tree, inputs, 8)
    before, version = ("v0001", "v0002") if way is Transition.RESTORE else ("v0002", "v0001")
    deployed(
        job,
        QueryTransition(way=way, before=before, version=version, snapshot=taken if way is Transition.RESTORE else ""),
    )
    state = job.installation.journal(JOB, "test").state()
    operation = state.operations["op2"]
    must_still_be_there(job.installation, state, operation)
    (inputs / "f8.json").unlink()
    with pytest.raises(OperationRefused, match=rf"would lose rows, because files were deleted .*{inputs}/f8.json"):
        must_still_be_there(job.installation, state, operation)
    for losses, refused in (((QUERY,), False), (("another",), True), ((), True)):
        recover = Recovery(action=RecoveryAction.RESTORE, losses=losses)
        asked = replace(operation, request=operation.request.of_kind(recover))
        with pytest.raises(OperationRefused) if refused else nullcontext():
            must_still_be_there(job.installation, state, asked)
    must_still_be_there(
        job.installation, state, replace(operation, request=replace(operation.request, accept_loss=True))
    )
    same = {QUERY: QueryTransition(way=Transition.RESUME, before=before, version=before)}
    must_still_be_there(job.installation, state, replace(operation, transitions=same))
