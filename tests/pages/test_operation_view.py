"""Tests what the page of an operation shows."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from streamkeeper.model.manifests.finding import Assessment, Finding, QueryAssessment, Severity, Verdict
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import About, ApprovalAnswered, Outcome
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.requests.diagnosis import Recovery, RecoveryAction
from streamkeeper.model.requests.request import Rollback, StartCurrent, Strategy
from streamkeeper.operations.jobs.operation_record import read_operation
from streamkeeper.pages.operation_view import OperationView, view_operation
from tests.lifecycle.deploy_world import OP
from tests.operations.registered_job import JOB, QUERY, Registered
from tests.orchestration.asking import DIFFERING, ask, ask_about_output
from tests.pages.played import Played


def view(played: Played, **read: object) -> OperationView:
    return view_operation(played.read(**read))  # type: ignore[arg-type]


def test_the_view_shows_requester_reason_kind_and_changed_settings() -> None:
    """The view shows the requester, the reason, the kind and the settings that differ from the defaults, by the labels
    of the form.
    """
    request = {
        "requested_by": "ada",
        "reason": "faster",
        "strategy": Strategy.RESUME,
        "accept_risk": True,
        "expect_different": ("total", "count"),
        "drain_s": 5.0,
        "params": {"input": "/in"},
    }
    told = view(Played(request=request))
    assert (told.asked_by, told.reason, told.kind, told.before) == ("ada", "faster", "deploy", "r0001")
    assert dict(told.settings) == {
        "Strategy": "resume",
        "Accept the risk": "yes",
        "Columns expected to differ": "total, count",
        "Drain time limit (seconds)": "5",
    }
    assert "/in" not in str(told.settings)


def test_an_open_operation_shows_its_current_step_and_no_outcome() -> None:
    """An open operation shows its current step and has no outcome."""
    played = Played()
    played.play_until("standby")
    told = view(played)
    assert (told.is_open, told.step, told.outcome, told.tone) == (True, "standby", "", "")
    assert told.entry == played.state.number


def test_a_finished_operation_shows_its_outcome_times_and_dead_drivers() -> None:
    """A finished operation shows its outcome, its sentence, its times, and the drivers that were proven dead with their
    roles.
    """
    played = Played()
    played.play()
    told = view(played)
    assert (told.is_open, told.outcome, told.tone) == (False, "succeeded", "good")
    assert "r0002 is the current release" in told.sentence
    (ended,) = told.ended
    assert (ended.instance, ended.was) == ("old", "r0001, previous")
    assert ended.proof
    assert told.moments.started is not None
    assert told.moments.finished is not None


def test_a_fall_back_shows_its_reason_and_its_effect_on_the_release() -> None:
    """A fall-back shows its reason and that the current release was affected. Negative control: a refusal affects
    nothing, and a dry run is not shown as given up.
    """
    fell = Played(traits={"candidate": {"serves": False}})
    fell.play()
    told = view(fell)
    assert (told.outcome, told.tone, told.touched) == ("fell-back", "warn", True)
    assert "it broke" in told.given_up
    assert [each.was for each in told.ended] == ["r0001, previous", "r0002, candidate"]
    refused = Played(verdict=Verdict.REFUSE)
    refused.play()
    assert (view(refused).touched, bool(view(refused).given_up)) == (False, True)
    dry = Played(dry_run=True)
    dry.play()
    assert (view(dry).given_up, view(dry).dry_run, view(dry).outcome) == ("", True, "dry-run")


def test_findings_are_listed_with_the_transition_of_their_query() -> None:
    """The findings of a query are listed most severe first, next to its transition and its rollback path."""
    findings = tuple(
        Finding(rule=severity.value, severity=severity, where="q", evidence="a -> b")
        for severity in (Severity.NOTE, Severity.FATAL, Severity.OPAQUE)
    )
    found = Assessment(
        verdict=Verdict.RESUME, queries={"q": QueryAssessment(verdict=Verdict.RESUME, findings=findings)}
    )
    played = Played(back=Transition.RESTORE)
    played.play()
    (query,) = view(played, assessment=found).queries
    assert (query.verdict, query.goes) == ("RESUME", "resumes from v0001")
    assert query.back.startswith("r0001 returns to its last batch, from a snapshot")
    assert [each.rule for each in query.findings] == ["fatal", "opaque", "note"]


def test_a_pending_approval_shows_its_subject_start_and_deadline() -> None:
    """A pending approval shows its subject, start and deadline; once it is answered, only the first answer counts and
    is shown with its author.
    """
    played = Played(verdict=Verdict.BACKUP, answer=None, request={"approve_s": 60.0})
    played.play_until("approve")
    question = view(played).question
    assert question is not None
    assert question.about is About.STATE
    assert question.asked is not None
    assert question.due == question.asked + 60
    for by in ("ada", "bob"):
        played.record(
            ApprovalAnswered(operation=OP, approved=True, by=by, reason="read it", bundle="b", batches={"q": "7"})
        )
    told = view(played)
    assert told.question is None
    assert [(each.by, each.approved, each.about) for each in told.answers] == [
        ("ada", True, "continuing from the state")
    ]


def test_an_approval_of_a_rebuilt_output_shows_the_comparison(tmp_path: Path) -> None:
    """An approval of a rebuilt output shows the result of the comparison."""
    job = Registered(tmp_path)
    ask_about_output(job, "op2")
    told = view_operation(read_operation(job.installation, JOB, "op2"))
    assert told.question is not None
    assert told.question.about is About.OUTPUT
    assert "4 of 4 common rows differ" in told.question.why[0]
    (compared,) = told.compared
    assert (compared.query, compared.found) == (QUERY, DIFFERING)


def test_a_recovery_shows_its_action_effects_and_approver() -> None:
    """A recovery shows its action as its kind, the announced effects, and who accepted them and why."""
    recovery = Recovery(action=RecoveryAction.RESTORE, announced=("loses 3 rows",), accepted_by="ada")
    told = view(Played(request={"reason": "a disk broke"}, kind=recovery))
    assert (told.kind, told.announced) == ("restore", ("loses 3 rows",))
    assert [(each.by, each.reason) for each in told.answers] == [("ada", "a disk broke")]
    assert [view(Played(kind=each)).kind for each in (Rollback(), StartCurrent())] == ["rollback", "start"]


def test_a_missing_assessment_report_is_stated_in_its_place(tmp_path: Path) -> None:
    """A missing assessment report is stated in its place, and the queries remain visible."""
    job = Registered(tmp_path)
    ask(job, "op2")
    whole = read_operation(job.installation, JOB, "op2")
    assert (whole.unreadable, whole.assessment is not None, whole.before) == ("", True, "r0001")
    job.installation.store.delete(f"registry/{JOB}/reports/{whole.operation.report}.json")
    told = view_operation(read_operation(job.installation, JOB, "op2"))
    assert "is missing" in told.unreadable
    assert [each.query for each in told.queries] == [QUERY]


def test_reading_an_operation_stops_at_its_last_entry(tmp_path: Path) -> None:
    """The entries of an operation are read in order, without gaps, and stop at its last one, however long the journal
    has grown since.
    """
    job = Registered(tmp_path)
    ask(job, "op2")
    record = read_operation(job.installation, JOB, "op")
    state = job.installation.journal(JOB, "test").state()
    assert record.operation.outcome is Outcome.SUCCEEDED
    numbers = [entry.number for entry in record.entries]
    assert numbers == list(range(record.operation.started, numbers[-1] + 1))
    assert numbers[-1] < state.number
    assert replace(record, entries=()).before == ""


def test_a_comparison_of_equal_outputs_shows_counts_and_no_rows() -> None:
    """A rebuild whose outputs are equal shows the row counts and no differing rows."""
    played = Played(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN)
    played.play()
    (compared,) = view(played).compared
    assert compared.found == OutputComparison(old_rows=3, new_rows=3)
