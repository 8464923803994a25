"""Tests backups, restores and prunes of a registered job's queries, with real stores and files and without Spark."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.checkpoint_files import QUERY_ID
from streamkeeper.checkpoints import publishing
from streamkeeper.checkpoints.growth import Growth
from streamkeeper.checkpoints.trees import LocalTree, Tree
from streamkeeper.errors import (
    CheckpointDamaged,
    InvalidInput,
    NotFound,
    OperationOpen,
    OperationRefused,
    StoreUnavailable,
)
from streamkeeper.model.coding import to_json
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.manifests.manifest import SinkDescription
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import (
    Assessed,
    HandedOff,
    InstanceAppointed,
    InstancePlanned,
    OperationFinished,
    OperationStarted,
    Outcome,
    ReleaseDescribed,
    ReleasePromoted,
    ReleaseRegistered,
    Role,
)
from streamkeeper.model.records.output_segments import OutputSegment
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.backups import pruning
from streamkeeper.operations.backups.backup import back_up, lateness_of
from streamkeeper.operations.backups.pruning import plan_prune, prune, read_policy, tell_run
from streamkeeper.operations.deploys.cutover_snapshots import take_cutover_snapshots
from streamkeeper.operations.jobs.observation import recorded_jobs
from streamkeeper.operations.jobs.outputs import ask
from streamkeeper.operations.jobs.targets import all_targets, query_target
from streamkeeper.operations.recovery import restoring
from streamkeeper.operations.recovery.restoring import RestorePlan, plan_restore, restore_version
from streamkeeper.registry.objects import put_object
from streamkeeper.sinks.contract import OutputAnswer
from streamkeeper.snapshots.catalogue import Catalogue
from streamkeeper.snapshots.restore import restore
from streamkeeper.snapshots.retention import Policy
from streamkeeper.stores.local import LocalStore
from tests.compatibility.manifests import STATEFUL
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.snapshots.series import a_checkpoint, files_below, wanted


@pytest.fixture
def job(tmp_path: Path) -> Registered:
    """A job whose query writes a table."""
    return Registered(tmp_path)


def test_a_snapshot_records_its_version_release_and_batch(job: Registered) -> None:
    """A snapshot in the catalogue records its checkpoint version, release and batch."""
    job.take()
    snapshot = job.catalogue.read(1)
    assert (snapshot.version, snapshot.release, snapshot.batch) == ("v0001", "r0001", 7)
    assert [each.series for each in all_targets(job.installation)] == ["sales/totals"]


def test_an_unknown_query_is_refused_with_the_jobs_queries(job: Registered) -> None:
    """An unknown query is refused with the names of the job's queries, and an unknown job is reported as such."""
    with pytest.raises(NotFound, match="name one of its queries: totals"):
        query_target(job.installation, JOB, "nope")
    with pytest.raises(NotFound, match="not known"):
        all_targets(job.installation, job="nope")


def test_a_backup_of_a_lost_checkpoint_names_the_restore_command(job: Registered) -> None:
    """A backup of a missing checkpoint directory fails with the command that restores it."""
    shutil.rmtree(job.directory)
    with pytest.raises(CheckpointDamaged, match="streamkeeper snapshot restore sales/totals"):
        job.take()


def test_lateness_counts_from_the_first_commit_that_no_snapshot_holds(job: Registered) -> None:
    """A backup's lateness counts from the oldest commit that no snapshot contains, so an idle job is never late."""
    target = query_target(job.installation, JOB, QUERY)
    os.utime(job.directory / "commits/0", (1000, 1000))
    first = lateness_of(job.installation, target, now=datetime.fromtimestamp(5000, UTC))
    assert first is not None
    assert (first.behind, first.late_s) == (None, 4000)
    assert "there is no snapshot" in first.exceeds(3999)
    job.take()
    resting = lateness_of(job.installation, target, now=datetime.now(UTC) + timedelta(days=30))
    assert resting is not None
    assert (resting.behind, resting.exceeds(60)) == (0, "")
    job.commit(8)
    job.commit(9)
    late = lateness_of(job.installation, target, now=datetime.now(UTC) + timedelta(hours=2))
    assert late is not None
    assert late.behind == 2
    assert "s0001 is 2 batches behind" in late.exceeds(3600)


def test_a_restore_creates_the_next_version_and_announces_the_replay(job: Registered) -> None:
    """A restore creates the next checkpoint version from the snapshot and announces which batches are replayed,
    according to the table itself and not to the driver's last report, and what may be lost.
    """
    name = job.take()
    kept = wanted(job.directory, 7)
    job.report(committed=7)
    job.write_table(12)
    shutil.rmtree(job.directory)
    plan = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert plan.sentence == (
        f"sqlite:///{job.warehouse}#totals contains 5 batches beyond batch 7 (up to 12); they are written again,"
        " each row replaces the one with its key; the restore may lose rows: the files, and whether they still"
        f" exist, are unknown ({job.directory} is missing)"
    )
    assert job.versions == ["v0001"]
    accepts = {"loss_accepted_by": "ada", "reason": "test data"}
    done = restore_version(job.installation, JOB, QUERY, job.catalogue.read(1), **accepts)
    assert done == plan
    assert job.versions == ["v0001", "v0002"]
    assert files_below(job.directory.with_name("v0002")) == kept
    state = job.installation.journal(JOB, "test").state()
    restored = state.versions[QUERY][-1]
    assert restored.origin.startswith(f"snapshot {name} of v0001 at batch 7; ada accepted that it may lose rows: the")
    assert (restored.query_id, restored.committed, restored.root) == (
        QUERY_ID,
        7,
        job.installation.settings.checkpoints,
    )
    assert state.current_version(QUERY) == restored


@pytest.mark.parametrize(
    ("sink", "holds", "told"),
    [
        ("table", "nothing beyond", ["contains no batch beyond batch 7, so no rows are written again"]),
        ("table", "one beyond", ["contains one batch beyond batch 7 (up to 8); it is written again"]),
        ("table", "another version", ["it is unknown", "(checkpoint version v0009 has written to table totals since)"]),
        ("table", "another owner", ["it is unknown", "(table totals is written by other/totals)"]),
        ("table", "no database", ["it is unknown", "warehouse.db does not exist"]),
        ("file", "nothing beyond", ["contains no batch beyond batch 7, so no rows are written again"]),
        ("file", "one beyond", ["contains one batch beyond batch 7 (up to 8); it is written again"]),
        ("file", "no directory", ["it is unknown", "out does not exist"]),
        ("foreach", "whatever", ["it is unknown", "Streamkeeper cannot query the output of a function"]),
    ],
)
def test_the_announced_replay_is_read_from_the_output(tmp_path: Path, sink: str, holds: str, told: list[str]) -> None:
    """The announced replay is read from the output itself; for an output that cannot be queried the restore states that
    it is unknown.
    """
    job = Registered(tmp_path / "j", sink=sink)
    job.take()
    job.report(committed=7)
    write = job.write_table if sink == "table" else job.write_files
    match holds:
        case "nothing beyond":
            write(7)
        case "one beyond":
            write(8)
        case "another version":
            write(7, version="v0009")
        case "another owner":
            job.write_table(7, owner="other/totals")
        case "no database":
            job.warehouse.unlink()
    plan = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert all(each in plan.sentence for each in told), plan.sentence
    assert (plan.replayed is None) is ("it is unknown" in told)


def test_a_table_behind_a_secret_url_is_queried_with_the_resolved_secret(job: Registered) -> None:
    """A table whose URL is a secret in the release's params is queried with the resolved secret; if the secret cannot
    be resolved, the contents are unknown.
    """
    job.take()
    job.write_table(9)
    state = job.installation.journal(JOB, "test").state()
    first = state.releases["r0001"]
    params = {"n": 3, "warehouse": "secret://env/WAREHOUSE"}
    named = replace(state, releases={"r0001": replace(first, content=replace(first.content, params=params))})
    sink = SinkDescription(kind="table", output="postgresql://127.0.0.1:1/db#totals", options={})
    silent = ask(job.installation, named, "r0001", QUERY, sink, "v0001")
    assert silent.unknown.startswith("the secret of the output cannot be resolved here")
    known = dataclasses.replace(
        job.installation, resolvers={"env": lambda _: "postgresql+psycopg://ada:hunter2@127.0.0.1:1/db"}
    )
    answer = ask(known, named, "r0001", QUERY, sink, "v0001")
    assert answer.unknown == "postgresql://127.0.0.1:1/db does not answer: OperationalError"


@pytest.mark.parametrize(("kind", "shown"), [("table", "***#totals"), ("file", "***")])
def test_an_output_masked_as_a_whole_is_found_through_its_secret(job: Registered, kind: str, shown: str) -> None:
    """An output whose stored description is masked as a whole is found through its secret. If the secret now names a
    different place, the contents are unknown.
    """
    job.write_table(9)
    job.write_files(9)
    place = {"table": f"sqlite:///{job.warehouse}", "file": str(job.output)}[kind]
    state = job.installation.journal(JOB, "test").state()
    first = state.releases["r0001"]
    named = replace(
        state,
        releases={"r0001": replace(first, content=replace(first.content, params={"out": "secret://env/OUT"}))},
    )
    sink = SinkDescription(kind=kind, output=shown, options={})
    known = dataclasses.replace(job.installation, resolvers={"env": lambda _: place})
    told = ask(known, named, "r0001", QUERY, sink, "v0001")
    assert replace(told, record=None) == OutputAnswer(batch=9)
    elsewhere = dataclasses.replace(job.installation, resolvers={"env": lambda _: f"{place}.gone"})
    answer = ask(elsewhere, named, "r0001", QUERY, sink, "v0001")
    assert answer.unknown == "*** does not exist", answer


def test_the_drivers_last_report_would_announce_no_replay(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: an answer with the driver's last committed batch would announce no replay, although the table
    contains 39 batches more.
    """
    job.take()
    job.report(committed=7)
    job.write_table(46)
    with monkeypatch.context() as patch:
        patch.setattr(restoring, "ask", lambda *_: OutputAnswer(batch=7))
        told = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1))
        assert (told.replayed, "no rows are written again" in told.sentence) == (0, True)
    assert plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1)).replayed == 39


def test_a_restore_never_touches_a_directory_that_it_did_not_record(job: Registered) -> None:
    """A restore skips the name of an unrecorded directory and leaves that directory unchanged."""
    job.take()
    stray = job.directory.with_name("v0002")
    stray.mkdir()
    (stray / "metadata").write_text("of somebody else")
    assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0003"
    assert (stray / "metadata").read_text() == "of somebody else"
    assert job.versions == ["v0001", "v0003"]
    assert files_below(job.directory.with_name("v0003")) == wanted(job.directory, 7)


class Died(BaseException):
    """Simulates the end of the process at a crash point."""


def die_at(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """Make the next restore in this process stop at the crash point."""

    def reached(name: str) -> None:
        if name == point:
            raise Died

    for module in (restoring, publishing):
        monkeypatch.setattr(module, "crash_point", reached)


@pytest.mark.parametrize(
    "point",
    ["restore.record.after", "publish.metadata.before", "publish.metadata.after", "restore.serve.before"],
)
def test_a_repeated_restore_completes_the_recorded_version(
    job: Registered, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The previous version stays current until a restore is complete, and a repeated restore completes the recorded
    version instead of creating a further one.
    """
    job.take()
    with monkeypatch.context() as patch:
        die_at(patch, point)
        with pytest.raises(Died):
            restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    state = job.installation.journal(JOB, "test").state()
    assert state.current_version(QUERY).version == "v0001"
    assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0002"
    assert job.versions == ["v0001", "v0002"]
    assert files_below(job.directory.with_name("v0002")) == wanted(job.directory, 7)


def a_slower_restore(job: Registered, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> RestorePlan:
    """Run a restore that pauses after its plan while ``meanwhile`` is called, and then continues."""
    plan, planned = restoring.plan_restore, []

    def pause(*given: Any) -> RestorePlan:
        planned.append(plan(*given))
        if len(planned) == 1:
            meanwhile()
        return planned[0]

    monkeypatch.setattr(restoring, "plan_restore", pause)
    return restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))


def test_the_slower_of_two_restores_is_refused_without_changes(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower of two restores is refused and changes nothing once the faster one's version is current and a driver
    has committed to it.
    """
    job.take()
    served = job.directory.with_name("v0002") / "commits" / "99"

    def another_one_and_a_driver() -> None:
        assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0002"
        job.record(job.epoch("v0002", 2))
        served.write_text("a batch of the driver that serves on it")

    with pytest.raises(OperationRefused, match="has a different checkpoint version now"):
        a_slower_restore(job, monkeypatch, another_one_and_a_driver)
    assert served.exists()
    assert job.installation.journal(JOB, "test").state().current_version(QUERY).version == "v0002"


def test_a_restore_is_refused_when_a_shadow_fills_its_version(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore is refused and changes nothing when a deploy has begun since its plan and its dual run fills the
    version of that name.
    """
    job.take()
    shadow = job.directory.with_name("v0002") / "commits" / "0"

    def a_dual_run() -> None:
        job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
        job.record(replace(job.version("v0002"), serves=False, operation="op2"))
        shadow.parent.mkdir(parents=True)
        shadow.write_text("a batch of the shadow")

    with pytest.raises(OperationOpen):
        a_slower_restore(job, monkeypatch, a_dual_run)
    assert shadow.exists()


def test_a_restore_that_moves_the_directory_early_removes_a_live_version(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: a restore that moves the directory aside before the second check removes a live version."""
    job.take()
    plan = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1))
    served = job.directory.with_name("v0002") / "commits" / "99"
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    served.write_text("a batch of the driver that serves on it")
    Path(plan.target).rename(Path(plan.target).with_name(".aside"))
    restore(job.catalogue, job.catalogue.read(1), LocalTree(Path(plan.target)))
    assert not served.exists()


@pytest.mark.parametrize("life", [Life.ALIVE, Life.UNKNOWN])
def test_a_restore_is_refused_while_a_driver_may_still_write(job: Registered, life: Life) -> None:
    """A restore is refused while the driver is alive or its life is unknown."""
    job.take()
    job.runner.life = life
    with pytest.raises(OperationRefused, match="may still write"):
        restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert job.versions == ["v0001"]


def test_no_restore_while_an_operation_is_open(job: Registered) -> None:
    """A restore is refused while an operation is open, and creates no directory."""
    job.take()
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    with pytest.raises(OperationOpen):
        restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    assert not job.directory.with_name("v0002").exists()


def test_a_restore_into_a_function_is_refused_unless_accepted(tmp_path: Path) -> None:
    """A restore with a function as the sink is refused unless the replay is accepted."""
    function = Registered(tmp_path / "g", sink="foreach")
    function.take()
    function.report(committed=7)
    with pytest.raises(OperationRefused, match="--accept-replay"):
        restore_version(function.installation, JOB, QUERY, function.catalogue.read(1))
    assert function.versions == ["v0001"]
    restore_version(function.installation, JOB, QUERY, function.catalogue.read(1), accept_replay=True)
    assert function.versions == ["v0001", "v0002"]


def test_a_restored_file_output_continues_after_the_snapshots_batch(tmp_path: Path) -> None:
    """The output of a restored file sink consists of the old version up to the snapshot's batch and then the new
    version, so that no row is read twice.
    """
    files = Registered(tmp_path / "f", sink="file")
    files.take()
    snapshot = files.catalogue.read(1)
    restore_version(files.installation, JOB, QUERY, snapshot)
    state = files.installation.journal(JOB, "test").state()
    assert state.segments(QUERY, "v0002") == (OutputSegment("v0001", snapshot.batch), OutputSegment("v0002"))


def other_output(job: Registered, kind: str = "file") -> None:
    """Promote a release that writes to a different output of this kind of sink."""
    manifest = replace(STATEFUL, query=QUERY, sink=SinkDescription(kind=kind, output="/elsewhere", options={}))
    digest = put_object(job.installation.store, JOB, "manifests", to_json(manifest), ".json")
    first = job.installation.journal(JOB, "test").state().releases["r0001"]
    content = replace(first.content, bundle="d" * 64)
    job.record(ReleaseRegistered(release=replace(first, number=2, content=content)))
    job.record(ReleaseDescribed(release="r0002", manifests={QUERY: digest}))
    job.record(ReleasePromoted(operation="op", release="r0002", instance="op-candidate"))


def test_a_restore_is_refused_if_the_files_output_has_moved(tmp_path: Path) -> None:
    """A restore is refused if the release now writes files to a different place, because a sink log that begins in the
    middle is damaged to Spark.
    """
    files = Registered(tmp_path / "f", sink="file")
    files.take()
    other_output(files)
    with pytest.raises(OperationRefused, match=r"/elsewhere cannot continue from s0001: "):
        restore_version(files.installation, JOB, QUERY, files.catalogue.read(1))
    assert files.versions == ["v0001"]


@pytest.mark.parametrize(("known", "segments"), [(True, ("v0001", "v0002")), (False, ("v0002",))])
def test_a_restore_to_before_another_topic_names_the_batches_that_it_replaces(
    tmp_path: Path, known: bool, segments: tuple[str, ...]
) -> None:
    """A version restored from a snapshot whose release wrote to another topic continues the snapshot's version, if that
    is a version of this query, so readers can drop what is sent again. Otherwise the plan does not promise that.
    """
    job = Registered(tmp_path / "k", sink="kafka")
    if known:
        job.record(replace(job.epoch("v0001", 2), query_id=QUERY_ID))
    job.take()
    other_output(job, "kafka")
    plan = restore_version(job.installation, JOB, QUERY, job.catalogue.read(1), accept_replay=True)
    state = job.installation.journal(JOB, "test").state()
    assert tuple(each.version for each in state.segments(QUERY, plan.version)) == segments
    assert ("newest_attempts" in plan.sentence) is known


@pytest.mark.parametrize("sink", ["file", "table"])
def test_a_replay_is_unknown_after_a_different_version_was_appointed(tmp_path: Path, sink: str) -> None:
    """After a different version was appointed, a restore states that the replay is unknown, because the output of the
    snapshot's own version does not show the newer version's batches.
    """
    job = Registered(tmp_path / "j", sink=sink)
    job.take()
    (job.write_table if sink == "table" else job.write_files)(7)
    assert "no rows are written again" in plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1)).sentence
    job.record(job.version("v0002"))
    job.record(InstanceAppointed(operation="op", instance="op-candidate", versions={QUERY: "v0002"}))
    sentence = plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1)).sentence
    assert "it is unknown which batches" in sentence
    assert "(v0002 has written to the output since)" in sentence


def test_an_interrupted_restore_is_completed_only_from_its_original_store(
    job: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted restore from a different store is completed only from that store; a snapshot of the same name in
    the installation's own store goes into a new version.
    """
    job.take()
    elsewhere = Catalogue(LocalStore(tmp_path / "elsewhere"), f"{JOB}/{QUERY}")
    job.commit(8)
    back_up(elsewhere.store, query_target(job.installation, JOB, QUERY))
    with monkeypatch.context() as patch:
        die_at(patch, "restore.record.after")
        with pytest.raises(Died):
            restore_version(job.installation, JOB, QUERY, elsewhere.read(1), catalogue=elsewhere)
    done = restore_version(
        job.installation, JOB, QUERY, job.catalogue.read(1), loss_accepted_by="ada", reason="no input here"
    )
    state = job.installation.journal(JOB, "test").state()
    assert (done.version, state.version(QUERY, done.version).committed) == ("v0003", 7)
    again = restore_version(job.installation, JOB, QUERY, elsewhere.read(1), catalogue=elsewhere)
    assert (again.version, again.batch) == ("v0002", 8)
    assert (job.directory.with_name("v0002") / "commits" / "8").exists()
    assert job.installation.journal(JOB, "test").state().current_version(QUERY).version == "v0002"


def test_a_query_that_the_job_has_not_any_more_is_refused_by_name(job: Registered) -> None:
    """A restore of a query that the job no longer has is refused by name."""
    job.take()
    job.record(ReleaseDescribed(release="r0001", manifests={}))
    with pytest.raises(OperationRefused, match="has no query totals"):
        plan_restore(job.installation, JOB, QUERY, job.catalogue.read(1))


def test_the_cutover_snapshot_is_held_until_the_next_deploy_has_its_own(job: Registered) -> None:
    """A cutover snapshot is held until the next deploy has taken its own, and a repeated call returns the same
    snapshot.
    """
    assert take_cutover_snapshots(job.installation, JOB, "op", {QUERY: 6}).taken == {QUERY: "s0001"}
    assert [each.owner for each in job.catalogue.holds(1)] == ["op"]
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    assert take_cutover_snapshots(job.installation, JOB, "op2", {QUERY: 7}).taken == {QUERY: "s0002"}
    assert job.catalogue.holds(1) == []
    assert take_cutover_snapshots(job.installation, JOB, "op2", {QUERY: 7}).taken == {QUERY: "s0002"}


def test_the_cutover_snapshot_of_a_switch_is_a_batch_of_the_version_that_was_left(job: Registered) -> None:
    """The cutover snapshot of a switch is taken from the version that was left, even though the new version also has a
    batch with that number.
    """
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    job.record(
        Assessed(
            operation="op2", verdict=Verdict.SWITCH, reverse=Verdict.SWITCH, sentence="", report="",
            transitions={QUERY: QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002")},
        )
    )  # fmt: skip
    job.record(job.version("v0002"))
    job.record(InstancePlanned(operation="op2", instance="op2-candidate", release="r0002", role=Role.CANDIDATE))
    job.record(InstanceAppointed(operation="op2", instance="op2-candidate", versions={QUERY: "v0002"}))
    a_checkpoint(job.directory.with_name("v0002"), "hdfs", batches=8)
    assert take_cutover_snapshots(job.installation, JOB, "op2", {QUERY: 6}).taken == {QUERY: "s0001"}
    kept = job.catalogue.read(1)
    assert (kept.version, kept.release, kept.batch) == ("v0001", "r0001", 6)
    job.take()
    later = job.catalogue.read(2)
    assert (later.version, later.release) == ("v0002", "r0002")


def test_a_cutover_snapshot_of_a_missing_batch_is_reported_as_failed(job: Registered) -> None:
    """A cutover snapshot of a missing batch or query is reported as failed without raising an error."""
    snapshots = take_cutover_snapshots(job.installation, JOB, "op", {QUERY: 70, "gone": 1})
    assert (snapshots.taken, set(snapshots.failed)) == ({}, {QUERY, "gone"})


def test_a_prune_shortens_retired_versions_and_keeps_the_live_one(job: Registered) -> None:
    """A prune removes old batches of a retired version once a driver has claimed the newer one, and the whole version
    after the newer one has committed long enough; the live version is unchanged.
    """
    job.take()
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    before = files_below(job.directory)
    prune(job.installation.snapshots, plan_prune(job.installation))
    assert files_below(job.directory) == before
    job.record(job.epoch("v0002", 2))
    live = files_below(job.directory.with_name("v0002"))
    run = plan_prune(job.installation)
    lines = list(tell_run(run))
    assert any("v0001: old batches" in line for line in lines)
    assert files_below(job.directory) == before
    report = prune(job.installation.snapshots, run)
    assert report.failed == ()
    assert report.files > 0
    assert files_below(job.directory) == wanted(job.directory, 7)
    assert files_below(job.directory.with_name("v0002")) == live
    ahead = plan_prune(job.installation, now=datetime.now(UTC) + timedelta(days=8))
    prune(job.installation.snapshots, ahead)
    assert job.directory.exists(), "a clock that is ahead, or a job that stands still, takes no way back"
    later = (datetime.now(UTC) + timedelta(days=8)).timestamp()
    os.utime(job.directory.with_name("v0002") / "commits/7", (later, later))
    prune(job.installation.snapshots, plan_prune(job.installation))
    assert not job.directory.exists()
    assert files_below(job.directory.with_name("v0002")) == live


def test_an_open_operation_protects_noncurrent_versions_from_a_prune(job: Registered) -> None:
    """While an operation is open, a prune leaves the version to roll back to and the candidate's version unchanged.

    Negative control: once the operation has finished, old batches of both are pruned.
    """
    job.take()
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    job.record(job.epoch("v0002", 2))
    job.record(OperationStarted(operation="op2", request=DeployRequest(job=JOB), steps=()))
    job.record(replace(job.version("v0003"), serves=False, operation="op2"))
    candidate = job.directory.with_name("v0003")
    a_checkpoint(candidate, "hdfs", batches=5)
    before = {root: files_below(root) for root in (job.directory, candidate)}
    report = prune(job.installation.snapshots, plan_prune(job.installation))
    assert report.failed == ()
    assert {root: files_below(root) for root in before} == before
    job.record(OperationFinished(operation="op2", outcome=Outcome.ABORTED, sentence="aborted"))
    assert prune(job.installation.snapshots, plan_prune(job.installation)).failed == ()
    assert files_below(job.directory) == wanted(job.directory, 7) != before[job.directory]
    assert files_below(candidate) == wanted(candidate, 4) != before[candidate]


def age(root: Path) -> None:
    """Make all files in the directory older than any active writer's."""
    for path in root.rglob("*"):
        os.utime(path, (1000, 1000))


def left_half(job: Registered, *, batch: int | None) -> Path:
    """Create the incomplete v0002 of a driver that died during its handoff, with v0003 current since; return its
    directory.
    """
    job.record(replace(job.version("v0002"), parent="v0001", parent_batch=7, serves=False, operation="op"))
    job.record(HandedOff(query=QUERY, version="v0002", parent_batch=7, batch=7, query_id="a-new-id"))
    job.take()
    assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0003"
    job.record(job.epoch("v0003", 2))
    half = LocalTree(job.directory.with_name("v0002"))
    half.create("offsets/7", [(job.directory / "offsets/7").read_bytes()])
    if batch is not None:
        half.create(f"commits/{batch}", [b"v1\n{}"])
    return half.root


def test_a_version_that_was_never_published_is_pruned(job: Registered) -> None:
    """An old version without metadata, whose maker died before publishing it, is pruned; a recent one is kept, because
    its writer may only be slow.
    """
    half = left_half(job, batch=7)
    assert prune(job.installation.snapshots, plan_prune(job.installation)).failed == ()
    assert half.exists(), "its writer may only be slow"
    age(half)
    report = prune(job.installation.snapshots, plan_prune(job.installation))
    assert report.failed == ()
    assert not half.exists()
    assert files_below(job.directory) == wanted(job.directory, 7)


def test_a_version_that_lost_its_metadata_is_not_pruned(job: Registered) -> None:
    """Negative control: a version without metadata that has committed a batch of its own is not pruned."""
    half = left_half(job, batch=8)
    age(half)
    prune(job.installation.snapshots, plan_prune(job.installation))
    assert sorted(files_below(half)) == ["commits/8", "offsets/7"]


def test_a_damaged_snapshot_series_does_not_block_other_prunes(job: Registered) -> None:
    """A damaged snapshot series is reported and not pruned, and the other series are pruned."""
    for batch in (8, 9):
        job.take()
        job.commit(batch)
    job.take()
    other = Catalogue(job.installation.snapshots, "other/query")
    job.installation.snapshots.create(other.index_key(1), b"not a snapshot")
    run = plan_prune(job.installation, policy=Policy(keep_last=1, hourly=0, daily=0, weekly=0, monthly=0))
    report = prune(job.installation.snapshots, run)
    assert report.snapshots == 2
    assert [each.split(":")[0] for each in report.failed] == ["other/query"]


def test_an_interrupted_push_is_not_listed_as_a_job(job: Registered) -> None:
    """A push that died after storing its bundle is not listed as a job, and backups and prunes of all jobs skip it."""
    job.installation.store.create("registry/pushed/bundles/abc.zip", b"of a deploy that died at once")
    assert recorded_jobs(job.installation) == [JOB]
    assert [each.series for each in all_targets(job.installation)] == ["sales/totals"]
    assert plan_prune(job.installation).untold == ()
    (told,) = plan_prune(job.installation, job="pushed").untold
    assert told.startswith("pushed: job pushed is not known")


def test_a_prune_of_all_jobs_reports_an_emptied_checkpoint(job: Registered) -> None:
    """A prune of all jobs reports an emptied checkpoint directory instead of treating it as a job that has not
    begun.
    """
    shutil.rmtree(job.directory)
    job.directory.mkdir()
    (told,) = plan_prune(job.installation).untold
    assert told.startswith(f"sales: {job.directory} is not a checkpoint")


def test_the_directory_of_a_killed_restore_is_pruned_only_when_old(
    job: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unpublished directory of a killed restore is pruned only when it is old; a repeated restore then creates the
    version completely.
    """
    job.take()
    with monkeypatch.context() as patch:
        die_at(patch, "publish.metadata.before")
        with pytest.raises(Died):
            restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    half = job.directory.with_name("v0002")
    left = files_below(half)
    assert "metadata" not in left
    run = plan_prune(job.installation)
    assert (run.untold, prune(job.installation.snapshots, run).failed) == ((), ())
    assert files_below(half) == left
    age(half)
    assert prune(job.installation.snapshots, plan_prune(job.installation)).failed == ()
    assert not half.exists()
    assert restore_version(job.installation, JOB, QUERY, job.catalogue.read(1)).version == "v0002"
    assert files_below(half) == wanted(job.directory, 7)


@pytest.mark.parametrize("marked", [True, False])
def test_an_interrupted_removal_of_a_version_is_completed(job: Registered, marked: bool) -> None:
    """An interrupted removal of a version is completed because of its mark. Negative control: without the mark a
    version that lost its metadata is unchanged.
    """
    job.take()
    restore_version(job.installation, JOB, QUERY, job.catalogue.read(1))
    job.record(job.epoch("v0002", 2))
    tree = LocalTree(job.directory)
    if marked:
        tree.create("removing", [tree.read("metadata")])
    tree.delete(["metadata"])
    before = files_below(job.directory)
    prune(job.installation.snapshots, plan_prune(job.installation))
    assert files_below(job.directory) == ({} if marked else before)


def test_a_prune_reports_the_size_of_checkpoints_and_sink_logs(tmp_path: Path) -> None:
    """A prune reports the size of checkpoints and of file sinks' logs, which Spark never shortens."""
    job = Registered(tmp_path, sink="file")
    log = tmp_path / "out" / "v0001" / "_spark_metadata"
    log.mkdir(parents=True)
    for name, content in {"8": "v1\nx", "9.compact": "v1\n" + "x" * 500, "10": "v1\ny"}.items():
        (log / name).write_text(content)
    lines = list(tell_run(plan_prune(job.installation)))
    assert any(line.startswith(f"size {job.directory}: ") for line in lines)
    assert f"size {log}: 3 files (0 of them checksums), 511 bytes, its largest compacted entry 503" in lines


def test_a_prune_plans_the_rest_if_an_output_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the storage of an output does not answer, a prune names the output as not planned, and still plans the
    checkpoints of the job.
    """
    job = Registered(tmp_path, sink="file")
    (tmp_path / "out" / "v0001" / "_spark_metadata").mkdir(parents=True)

    def down(tree: Tree) -> Growth:
        raise StoreUnavailable(f"cannot list {tree}")

    monkeypatch.setattr(pruning, "sink_log_growth", down)
    lines = list(tell_run(plan_prune(job.installation)))
    assert any(line.startswith(f"size {job.directory}: ") for line in lines)
    assert any(line.startswith(f"cannot plan the output of {JOB}/{QUERY}: cannot list ") for line in lines)


def test_a_retention_policy_keeps_defaults_and_refuses_invalid_parts() -> None:
    """A retention policy keeps its defaults for omitted parts, and invalid parts are refused."""
    assert read_policy("last=5, daily=0") == Policy(keep_last=5, daily=0)
    for wrong in ("last", "last=x", "yearly=3", "last=0", "last=-1"):
        with pytest.raises(InvalidInput):
            read_policy(wrong)


def test_a_backup_fails_when_its_store_is_unavailable(job: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup fails with an error when its store is unavailable."""

    def down(*_: object, **__: object) -> None:
        raise StoreUnavailable("the store is down")

    monkeypatch.setattr(LocalStore, "create", down)
    with pytest.raises(StoreUnavailable):
        job.take()
