"""A pass of the watch: what it raises, repeats, clears and sends, alone, beside a second watch, and after a pass that
was killed.
"""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.checkpoint_files import QUERY_ID
from harness.fault_store import WRITES, AtCall, FaultStore
from streamkeeper.model.protocol.driver_messages import DriverExit, DriverState
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.journal_records import (
    ApprovalAnswered,
    InstanceEnded,
    InstancePlanned,
    OperationStarted,
    Role,
    StartOffsetsKnown,
    StepDone,
)
from streamkeeper.model.requests.request import DeployRequest, StartCurrent
from streamkeeper.model.watch.fleet_index import FleetIndex
from streamkeeper.model.watch.incident import (
    IncidentCleared,
    IncidentEntry,
    IncidentRaised,
    IncidentRepeated,
    NoticeSent,
)
from streamkeeper.model.watch.job_status import JobStatus
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.fleet import watching
from streamkeeper.operations.fleet.watch_acts import Begun
from streamkeeper.operations.fleet.watching import PassReport, WatchPass, look_now, run_pass
from streamkeeper.operations.jobs import carriers
from streamkeeper.operations.jobs.carriers import Carrier, note_carrier, this_process
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.notices import Message
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.fleet import read_index
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.stores.counting import CountingStore
from tests.checkpoints.damaging import lose
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import ask


class Crash(BaseException):
    """The exception that stands for the death of the process."""


def crash() -> None:
    raise Crash


class Clock:
    """A clock that the test sets, in seconds since 1970; it starts at the present time, like the times of the test's
    files.
    """

    def __init__(self) -> None:
        self.at = time.time()

    def __call__(self) -> float:
        return self.at


class House:
    """A job with a dead driver, a clock, and a list of the messages that were sent."""

    def __init__(self, root: Path) -> None:
        self.job = Registered(root)
        self.job.record(StartOffsetsKnown(query=QUERY, version="v0001", offsets=("null",), query_id=QUERY_ID))
        self.job.report(committed=7)
        self.job.take()
        self.clock = Clock()
        self.told: list[Message] = []
        self.installation: Installation = self.job.installation

    def make(self, *, after_s: float = 0.0, **given: object) -> PassReport:
        """Make one pass, ``after_s`` later; unless a test changes it, the pass only observes and sends notices."""
        self.clock.at += after_s
        if self.job.runner.life is Life.ALIVE:
            self.beat()
        values = {"acts": False, "senders": {"mail": self.told.append}, **given}
        return run_pass(WatchPass(installation=self.installation, now=self.clock, **values))  # type: ignore[arg-type]

    def beat(self) -> None:
        """Write the driver's next status."""
        control = Control(self.job.installation.store, JOB, "op-candidate")
        before = control.read_status()
        assert before is not None
        control.write_status(replace(before, state=DriverState.SERVING, beat=before.beat + 1))

    @property
    def entries(self) -> list[IncidentEntry]:
        return list(IncidentLog(self.job.installation.store, JOB).entries())

    def raised(self) -> list[str]:
        """Return the rules of the raised incidents, in order."""
        return [each.record.symptom.rule for each in self.entries if isinstance(each.record, IncidentRaised)]

    def index(self) -> FleetIndex:
        found = read_index(self.installation.store, self.installation.id)
        assert found is not None
        return found


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A job that should run, with a snapshot and a driver that is proven dead."""
    return House(tmp_path)


def test_a_waiting_approval_does_not_hide_the_page_about_a_dead_driver(house: House) -> None:
    """A waiting approval does not hide the page about a dead driver. Negative control: while the approved operation
    replaces the driver, ``driver-dead`` is not reported.
    """
    ask(house.job, "op2")
    worst = house.make(after_s=400).index.rows[0]
    assert worst.symptoms[0].rule == "driver-dead"
    assert {"driver-dead", "approval-waiting"} <= {symptom.rule for symptom in worst.symptoms}
    assert house.raised()[0] == "driver-dead"
    answer = {"by": "ann", "reason": "meant", "bundle": "c", "batches": {}}
    house.job.record(ApprovalAnswered(operation="op2", approved=True, **answer))  # type: ignore[arg-type]
    for step in ("approve", "ready"):
        house.job.record(StepDone(operation="op2", step=step))
    assert "driver-dead" not in {symptom.rule for symptom in house.make(after_s=60).index.rows[0].symptoms}


def test_a_dead_driver_is_raised_repeated_and_cleared(house: House) -> None:
    """A dead driver makes one incident that is raised at once, repeated after half an hour and cleared once the driver
    lives; a notice is sent for each, in order.
    """
    house.make()
    house.make(after_s=60)
    house.make(after_s=1740)
    house.job.runner.life = Life.ALIVE
    house.make(after_s=60)
    house.make(after_s=60)
    kinds = [type(each.record) for each in house.entries if not isinstance(each.record, NoticeSent)]
    assert kinds == [IncidentRaised, IncidentRepeated, IncidentCleared]
    assert [each.event for each in house.told] == ["raised", "repeated", "cleared"]
    assert house.told[0].subject == "[page] sales: driver-dead raised"
    assert "op-candidate" in house.told[0].text
    assert "Runbook: Nothing serves" in house.told[0].text


def test_a_frozen_process_raises_a_ticket_in_the_second_consecutive_pass(house: House) -> None:
    """A frozen process under a driver that still reports raises an incident only in the second consecutive pass; a pass
    without it restarts the count.
    """
    house.job.runner.life, house.job.runner.frozen = Life.ALIVE, True
    house.make()
    house.job.runner.frozen = False
    house.make(after_s=60)
    house.job.runner.frozen = True
    house.make(after_s=60)
    assert "frozen-in-part" not in house.raised()
    house.make(after_s=60)
    assert house.raised() == ["frozen-in-part"]


@pytest.mark.parametrize(("life", "raised"), [(Life.DEAD, ["checkpoint-damaged"]), (Life.ALIVE, [])])
def test_the_truncated_offset_file_of_a_dead_driver_is_reported(house: House, life: Life, raised: list[str]) -> None:
    """A truncated offset file of a dead driver is reported in the first pass, and nothing is started; of a live driver
    it is not, because the driver may be writing.
    """
    newest = max((house.job.directory / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    newest.write_bytes(newest.read_bytes()[:5])
    house.job.runner.life = life
    house.make(acts=True)
    assert house.raised() == raised
    assert set(house.job.installation.journal(JOB, "test").state().operations) == {"op"}


def test_a_job_that_is_well_costs_few_requests(house: House) -> None:
    """A pass over a healthy job costs a fixed, small number of requests: the index, the jobs, the folders that reveal
    lost jobs, the open questions, the last prune, and the job's newest entries and status.
    """
    house.job.runner.life = Life.ALIVE
    house.make()
    assert house.make(after_s=1).index.requests == 1 + 1 + 1 + 3 + 4 + 1 + 2 + 1
    assert not house.entries


def test_two_watches_raise_and_send_once(house: House) -> None:
    """Concurrent passes that see the same dead driver create one incident, and only its writer sends the notice."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: house.make(), range(8)))
    assert house.raised() == ["driver-dead"]
    assert len(house.told) == 1


def test_without_a_second_decision_two_watches_raise_an_incident_twice(house: House) -> None:
    """Negative control: a watch that does not decide again after reading what the other one wrote raises the incident
    twice.
    """

    for _ in range(2):
        log = IncidentLog(house.job.installation.store, JOB)
        look, _memory = watching.compose_look(
            house.installation,
            watching.look_at_fleet(house.installation, None, now=house.clock.at)[0],
            house.clock.at,
            None,
        )
        symptom = watching.find_symptoms(look)[0]
        log.append(lambda _, symptom=symptom: IncidentRaised(symptom=symptom), now=house.clock.at)
    assert house.raised() == ["driver-dead", "driver-dead"]


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_pass_that_dies_halfway_is_finished_by_the_next(house: House, nth: int) -> None:
    """After a pass was killed before any of its writes, the next pass raises the missing incident, sends the unsent
    notice and writes the index.
    """
    dying = FaultStore(house.job.installation.store, AtCall(nth, crash, of=WRITES))
    house.installation = dataclasses.replace(house.job.installation, store=dying)
    died = False
    try:
        house.make()
    except Crash:
        died = True
    assert died is (nth <= 4)
    house.installation = house.job.installation
    house.make(after_s=60)
    assert house.raised() == ["driver-dead"]
    assert {each.subject for each in house.told} == {"[page] sales: driver-dead raised"}
    assert len(house.told) == (2 if nth == 3 else 1)
    assert [row.standing for row in house.index().rows] == [JobStatus.FAILED]
    house.make(after_s=60)
    assert len(house.told) == (2 if nth == 3 else 1)


@pytest.mark.parametrize(
    ("notifier", "forgets", "starts"), [("dies", False, 3), ("works", False, 3), ("works", True, 8)]
)
def test_a_pass_killed_while_sending_keeps_the_limit_of_starts(
    house: House, monkeypatch: pytest.MonkeyPatch, notifier: str, forgets: bool, starts: int
) -> None:
    """Passes that are killed while they send a notice keep the limit of starts, like passes that complete. Negative
    control: without the index of the pass before, each pass starts the job.
    """
    begun: list[str] = []

    def begin(*given: object) -> Begun:
        begun.append(given[3].act.value)  # type: ignore[attr-defined]
        return Begun(sentence="starts it again")

    def mail(message: Message) -> None:
        if notifier == "dies":
            raise Crash

    monkeypatch.setattr(watching, "begin", begin)
    for _ in range(8):
        with suppress(Crash):
            house.make(after_s=240, acts=True, senders={"mail": mail})
        if forgets:
            house.installation.store.delete("fleet/index.json")
    assert begun.count("start") == starts


def test_a_failing_notifier_is_reported_and_retried_and_delays_no_other(house: House) -> None:
    """A failing notifier is reported in the index and retried until it works, and a second notifier receives each
    notice exactly once.
    """
    other: list[Message] = []
    broken = [True]

    def mail(message: Message) -> None:
        if broken:
            raise ConnectionRefusedError("no server there")
        house.told.append(message)

    senders = {"mail": mail, "hook": other.append}
    report = house.make(senders=senders)
    assert any("notifier mail failed" in line and "no server there" in line for line in report.index.failed)
    house.make(after_s=60, senders=senders)
    broken.clear()
    assert house.make(after_s=60, senders=senders).index.failed == ()
    assert [each.event for each in house.told] == ["raised"]
    assert [each.event for each in other] == ["raised"]


def test_a_job_with_damaged_records_is_reported_and_hides_no_other_job(house: House) -> None:
    """A job with damaged records has a row of its own with the symptom ``journal-unreadable``, and the other jobs are
    still checked.
    """
    house.make()
    house.job.installation.store.create("registry/broken/journal/0000000001.json", b"{")
    house.job.runner.life = Life.ALIVE
    report = house.make(after_s=60)
    rows = {row.job: row for row in report.index.rows}
    assert rows["broken"].standing is JobStatus.UNKNOWN
    assert "cannot be read" in rows["broken"].unlooked["records"]
    assert [each.rule for each in rows["broken"].symptoms] == ["journal-unreadable"]
    assert rows[JOB].symptoms == ()


def test_a_missing_checkpoint_is_reported_as_the_cause_of_a_dead_driver(house: House) -> None:
    """For a dead driver with a missing checkpoint the pass reports ``checkpoint-missing`` as the cause, and starts
    nothing.
    """
    house.make()
    lose(house.job.directory, "missing")
    report = house.make(after_s=60, acts=True)
    assert [each.rule for each in report.index.rows[0].symptoms] == ["checkpoint-missing"]
    assert house.job.installation.journal(JOB, "test").state().open_operation is None


def test_uncheckable_input_of_a_dead_driver_is_reported(house: House) -> None:
    """Input files on gs:// of an open batch are reported as not checked; that alone does not prevent a start."""
    house.job.tree.plan(8)
    log = house.job.directory / "sources" / "0" / "8"
    log.write_text(log.read_text().replace("file:///in", "gs://bucket/in"))
    report = house.make(dry_run=True, acts=True)
    (told,) = [each for each in report.index.rows[0].symptoms if each.rule == "not-looked"]
    assert "1 of 1 files of open batch 8 are not checked, such as gs://bucket/in/f8.json" in told.cause
    assert any(line.startswith("would start sales") for line in report.lines)


def test_local_input_of_a_driver_elsewhere_is_not_reported_as_missing(house: House) -> None:
    """Local input of a driver on a different machine is not reported as missing, because its disk is not visible here.
    Negative control: without the record of that machine it is reported.
    """
    house.job.tree.plan(8)
    assert [each.rule for each in house.make(dry_run=True).index.rows[0].symptoms] == ["input-gone"]
    house.job.write_process("elsewhere")
    assert "input-gone" not in [each.rule for each in house.make(dry_run=True).index.rows[0].symptoms]


def test_a_rule_that_is_switched_off_raises_nothing(house: House) -> None:
    """Negative control: with the rule ``driver-dead`` disabled, a pass over a dead driver raises nothing."""
    house.make(but=frozenset({"driver-dead"}))
    assert house.raised() == []


def test_a_dry_run_pass_reports_but_writes_and_sends_nothing(house: House) -> None:
    """A dry run reports the incident and the start that a pass would make, and neither writes records or the index nor
    sends notices.
    """
    report = house.make(dry_run=True, acts=True)
    assert any(line.startswith("would be raised page driver-dead of sales") for line in report.lines)
    assert any(line.startswith("would start sales: op-candidate has terminated") for line in report.lines)
    assert house.entries == []
    assert read_index(house.installation.store, house.installation.id) is None
    assert house.told == []


def test_the_watch_neither_pages_nor_starts_a_stopped_job(house: House) -> None:
    """The watch raises no incident for a stopped job and does not start it."""
    from streamkeeper.model.records.journal_records import DesiredChanged

    house.job.record(DesiredChanged(serve=False, requested_by="ann", reason="for the night"))
    report = house.make(acts=True)
    assert report.index.rows[0].stopped == "by ann: for the night"
    assert house.entries == []
    assert house.job.installation.journal(JOB, "test").state().open_operation is None


@pytest.mark.parametrize(
    ("state", "code", "error"),
    [
        (DriverState.FENCED, 4, "superseded"),
        (DriverState.FAILED, 7, "it ended refused: no such column"),
        (DriverState.FAILED, 5, "it failed with exit code 5; 5 restarts in 10 minutes used up: boom"),
        (DriverState.FAILED, 5, "query totals: output t holds batch 9 of v0001, its checkpoint knows up to 7"),
    ],
)
def test_a_driver_that_a_start_cannot_fix_is_not_started(
    house: House, state: DriverState, code: int, error: str
) -> None:
    """A driver that was superseded, was refused, is in a crash loop, or has a sink ahead of its checkpoint raises one
    incident and is not started.
    """
    ending = DriverExit(instance="op-candidate", state=state, code=code, error=error)
    Control(house.job.installation.store, JOB, "op-candidate").write_exit(ending)
    house.make(acts=True)
    assert len(house.raised()) == 1
    assert house.job.installation.journal(JOB, "test").state().open_operation is None


def test_the_watch_takes_an_overdue_snapshot(house: House) -> None:
    """The watch takes a snapshot of a commit that is older than the objective, records that in the incident, and clears
    the incident in the next pass.
    """
    house.job.runner.life = Life.ALIVE
    settings = replace(house.installation.settings, objective_s=300.0)
    house.installation = dataclasses.replace(house.installation, settings=settings)
    house.make()
    house.job.commit(8)
    newest = house.job.catalogue.numbers()
    house.make(after_s=700, acts=True)
    assert house.raised() == ["backup-late"]
    assert len(house.job.catalogue.numbers()) == len(newest) + 1
    assert [each.event for each in house.told] == ["raised", "acted"]
    house.make(after_s=60, acts=True)
    assert [each.event for each in house.told][2:] == ["cleared"]


def test_an_operation_is_continued_only_if_its_process_is_proven_dead(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch continues an operation only if its process has provably terminated; it leaves an operation whose
    process lives or is unknown.
    """
    house.job.runner.life = Life.ALIVE
    Deploy.open(house.job.installation, "op2", DeployRequest(job=JOB, release="r0009"))

    def outcome() -> object:
        return house.job.installation.journal(JOB, "test").state().operations["op2"].outcome

    house.make(acts=True)
    assert outcome() is None
    note_carrier(house.job.installation.store, JOB, "op2", this_process())
    house.make(after_s=60, acts=True)
    assert outcome() is None
    gone = Carrier(machine=carriers.this_machine().text, host=carriers.this_machine().host, pid=4_000_000, started=1)
    note_carrier(house.job.installation.store, JOB, "op2", gone)
    house.make(after_s=60, acts=True)
    assert outcome() is not None
    assert house.raised() == ["operation-open"]


def test_the_watch_continues_a_dag_runs_operation_only_after_the_run_finished(house: House) -> None:
    """The watch continues an operation of a DAG run only if Airflow reports that this run has finished."""
    Deploy.open(house.job.installation, "op2", DeployRequest(job=JOB, release="r0009"))
    note_carrier(house.job.installation.store, JOB, "op2", Carrier(dag="streaming_deploy", run="manual_1"))
    house.make(acts=True, run_is_over=lambda dag, run: False)
    assert house.job.installation.journal(JOB, "test").state().operations["op2"].outcome is None
    house.make(after_s=60, acts=True, run_is_over=lambda dag, run: (dag, run) == ("streaming_deploy", "manual_1"))
    assert house.job.installation.journal(JOB, "test").state().operations["op2"].outcome is not None


def test_a_live_read_works_without_an_index_and_with_an_outdated_one(house: House) -> None:
    """A live read shows the present status without an index and beside an outdated one; with an index it costs fewer
    requests.
    """
    store = CountingStore(house.job.installation.store)
    site = dataclasses.replace(house.job.installation, store=store)
    assert [row.standing for row in look_now(site, now=house.clock.at).rows] == [JobStatus.FAILED]
    cold = store.requests
    house.make()
    house.job.runner.life = Life.ALIVE
    house.beat()
    store.requests = 0
    (row,) = look_now(site, now=house.clock.at + 60).rows
    assert (row.standing, row.release) == (JobStatus.SERVING, "r0001")
    assert store.requests < cold


def test_a_damaged_index_is_passed_over(house: House) -> None:
    """A pass ignores a damaged index, reads the records instead, and keeps the single incident."""
    house.make()
    house.job.installation.store.replace("fleet/index.json", b"{")
    house.make(after_s=60)
    assert house.raised() == ["driver-dead"]
    assert house.index().number == 1


def test_a_pass_leaves_a_job_of_a_different_machine_to_its_own_watch(house: House) -> None:
    """A pass on a different machine than the job's raises, clears and sends nothing for it, and keeps its row."""
    house.job.runner.life = Life.ALIVE
    house.make()
    before = house.index().rows[0]
    house.job.runner.elsewhere = "far-away"
    report = house.make(after_s=60, acts=True)
    assert report.lines == ("1 job is left to the watch on far-away",)
    kept = house.index().rows[0]
    assert replace(kept, memory=before.memory) == before
    assert (house.entries, house.told) == ([], [])


def test_an_open_incident_of_a_job_elsewhere_stays_open(house: House) -> None:
    """A pass on a different machine leaves the job's open incident open, because it cannot observe whether the cause
    persists.
    """
    house.make()
    house.job.runner.elsewhere = "far-away"
    house.make(after_s=60)
    assert [type(each.record) for each in house.entries if not isinstance(each.record, NoticeSent)] == [IncidentRaised]
    assert [each.rule for each in house.index().rows[0].symptoms] == ["driver-dead"]


def test_a_job_unobserved_for_ten_minutes_raises_driver_unknown(house: House) -> None:
    """A job that no pass can observe raises ``driver-unknown`` ten minutes after the last pass that could, and not
    earlier; a pass that can observe it restarts the count.
    """
    house.job.runner.life, house.job.runner.elsewhere = Life.ALIVE, "far-away"
    house.make()
    house.make(after_s=540)
    house.job.runner.elsewhere = ""
    house.make(after_s=30)
    house.job.runner.elsewhere = "far-away"
    house.make(after_s=30)
    house.make(after_s=570)
    assert house.raised() == []
    house.make(after_s=30)
    assert house.raised() == ["driver-unknown"]


def test_without_patience_each_pass_elsewhere_raises_an_incident(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: without the ten minutes of patience, the incident is raised each time a pass runs on a
    different machine.
    """
    monkeypatch.setattr(watching, "ELSEWHERE_S", 0.0)
    house.job.runner.life = Life.ALIVE
    for elsewhere in ("", "far-away", "", "far-away"):
        house.job.runner.elsewhere = elsewhere
        house.make(after_s=60)
    assert house.raised() == ["driver-unknown", "driver-unknown"]


def test_a_checkpoint_on_another_disk_is_not_missing(house: House) -> None:
    """A checkpoint of a driver that ran on a different machine is not reported as missing, and nothing is started."""
    house.job.runner.life = Life.ALIVE
    house.make()
    house.job.runner.life = Life.DEAD
    lose(house.job.directory, "missing")
    house.job.write_process("far-away")
    house.make(after_s=60, acts=True)
    assert house.raised() == []
    assert house.job.installation.journal(JOB, "test").state().open_operation is None


@pytest.mark.parametrize("elsewhere", ["far-away", ""], ids=["on another machine", "where nobody can look"])
def test_a_start_with_its_driver_elsewhere_is_left_to_that_machines_watch(house: House, elsewhere: str) -> None:
    """A start whose new driver runs on a different machine is left to that machine's watch and is not reported as a
    failure. Negative control: a start whose driver cannot be observed from any machine is given up.
    """
    house.job.record(InstanceEnded(operation="op", instance="op-candidate", proof="gone", exit="failed"))
    start = DeployRequest(job=JOB, release="r0001").of_kind(StartCurrent())
    for record in (
        OperationStarted(operation="again-1", request=start, steps=()),
        StepDone(operation="again-1", step="bundle", result={"release": "r0001"}),
        InstancePlanned(operation="again-1", instance="again-1-candidate", release="r0001", role=Role.CANDIDATE),
    ):
        house.job.record(record)
    before = house.job.installation.journal(JOB, "test").state().number
    house.job.runner.life, house.job.runner.elsewhere = Life.UNKNOWN, elsewhere
    report = house.make(acts=True, act_s=0.5)
    state = house.job.installation.journal(JOB, "test").state()
    assert report.index.failed == ()
    assert (state.number == before, state.open_operation is not None) == (bool(elsewhere), bool(elsewhere))
