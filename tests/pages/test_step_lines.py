"""Tests the steps of an operation as its page shows them, for deploys that were simulated with the real decisions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.transitions import Transition
from streamkeeper.pages.step_lines import StepLine, StepMark, find_moments, step_lines
from tests.lifecycle.deploy_world import OP
from tests.pages.played import BEGAN, STEP_S, Played


def lines(played: Played) -> dict[str, StepLine]:
    record = played.read()
    return {line.label: line for line in step_lines(record, find_moments(record.entries, OP))}


def marks(played: Played) -> dict[str, StepMark]:
    return {label: line.mark for label, line in lines(played).items()}


def having(found: dict[str, StepMark], mark: StepMark) -> list[str]:
    return [label for label, each in found.items() if each is mark]


OF_A_BACKUP = ["keep-state", "approve", "ready"]
OF_A_REBUILD = ["shadow", "catch-up", "compare", "review", "catch-up-after-drain"]


def test_finished_steps_have_start_end_and_duration_in_order() -> None:
    """In a deploy that succeeded, every required step is done with its start, end and duration in order, and the others
    are marked as not needed.
    """
    played = Played()
    assert played.play().outcome is Outcome.SUCCEEDED
    found = lines(played)
    done = [line for line in found.values() if line.mark is StepMark.DONE]
    assert [line.label for line in done] == [
        "bundle", "standby", "assess", "drain", "prove-dead", "go", "first-commit", "snapshot", "probation", "promote",
    ]  # fmt: skip
    assert having(marks(played), StepMark.NOT_NEEDED) == [*OF_A_BACKUP, *OF_A_REBUILD[:4], OF_A_REBUILD[4], "restore"]
    began = [line.began for line in done]
    assert None not in began
    assert began == sorted(began)
    assert all(line.done is not None and line.took_s is not None and line.took_s >= 0 for line in done)
    start = (BEGAN + timedelta(seconds=STEP_S * played.operation.started)).timestamp()
    assert (done[0].began, found["bundle"].result) == (start, "r0002")
    assert all(line.due is None for line in found.values())


def test_the_step_in_progress_shows_its_deadline_and_what_follows_it() -> None:
    """The step in progress shows its deadline, counted from its start with the request's limit, and what happens when
    it expires.
    """
    played = Played(request={"drain_s": 77.0})
    played.play_until("drain")
    played.perform(played.decide())  # type: ignore[arg-type]
    line = lines(played)["drain"]
    assert (line.mark, line.deadline_s) == (StepMark.UNDER_WAY, 77.0)
    assert line.began is not None
    assert line.due == line.began + 77.0
    assert "SIGKILL" in line.otherwise
    assert "drain r0001" in line.does
    later = ["prove-dead", "go", "first-commit", "snapshot", "probation", "promote"]
    assert having(marks(played), StepMark.TO_COME) == later


def test_no_step_is_marked_as_not_needed_before_the_verdict() -> None:
    """Before the verdict no step is marked as not needed; afterwards the steps that the verdict does not require
    are.
    """
    played = Played()
    played.play_until("assess")
    assert having(marks(played), StepMark.NOT_NEEDED) == []
    played.play_until("drain")
    assert "approve" in having(marks(played), StepMark.NOT_NEEDED)


def test_an_opaque_change_waits_for_a_person() -> None:
    """For an opaque change, the approve step is marked as waiting for a person, and the keep-state step shows its
    snapshot.
    """
    played = Played(verdict=Verdict.BACKUP, answer=None)
    played.play_until("approve")
    found = lines(played)
    assert (found["approve"].mark, found["keep-state"].result) == (StepMark.ASKS, "q: s0001")
    assert having(marks(played), StepMark.NOT_NEEDED) == [*OF_A_REBUILD, "restore"]


def test_the_review_step_is_undecided_until_the_outputs_are_compared() -> None:
    """The review step of a rebuild stays marked as to come until the outputs are compared, and as not needed after they
    turn out equal.
    """
    played = Played(verdict=Verdict.SWITCH, way=Transition.REBUILD, back=Transition.RETURN)
    played.play_until("compare")
    assert marks(played)["review"] is StepMark.TO_COME
    played.play_until("drain")
    assert marks(played)["review"] is StepMark.NOT_NEEDED
    assert lines(played)["compare"].result == "q: 3 rows and 3: the same"


_STAYS = "end the candidate; r0001 stays current, unaffected"
_AGAIN = "end the candidate and start r0001 again, by the assessed rollback path"
_BREAKS = {"candidate": {"serves": False}}


@pytest.mark.parametrize(
    ("played", "outcome", "given_up", "goes_back"),
    [
        (Played(verdict=Verdict.REFUSE), Outcome.REFUSED, "assess", _STAYS),
        (Played(verdict=Verdict.BACKUP, answer=False), Outcome.REFUSED, "approve", _STAYS),
        (Played(traits=_BREAKS), Outcome.FELL_BACK, "first-commit", _AGAIN),
        (Played(serving=False, traits=_BREAKS), Outcome.FAILED, "first-commit", "end the candidate"),
    ],
    ids=["refused", "declined", "fell back", "first release"],
)
def test_a_failed_operation_marks_the_step_that_was_abandoned(
    played: Played, outcome: Outcome, given_up: str, goes_back: str
) -> None:
    """A failed or refused operation marks the step at which it was given up and the steps that were not reached, and
    shows the fall-back with its duration.
    """
    assert played.play().outcome is outcome
    found = marks(played)
    assert having(found, StepMark.GIVEN_UP) == [given_up]
    assert having(found, StepMark.UNDER_WAY) == having(found, StepMark.TO_COME) == []
    assert "promote" in having(found, StepMark.NOT_REACHED)
    back = lines(played)["fall-back"]
    assert (back.mark, back.does) == (StepMark.DONE, goes_back)
    assert back.took_s is not None


def test_a_dry_run_shows_its_three_steps_as_done() -> None:
    """A dry run shows its three steps as done and none as given up."""
    played = Played(dry_run=True)
    assert played.play().outcome is Outcome.DRY_RUN
    assert marks(played) == {"bundle": StepMark.DONE, "standby": StepMark.DONE, "assess": StepMark.DONE}


def test_the_first_deploy_of_a_job_has_no_drain_step() -> None:
    """The first deploy of a job has no drain step."""
    played = Played(serving=False)
    assert played.play().outcome is Outcome.SUCCEEDED
    assert "drain" not in marks(played)
    assert lines(played)["promote"].mark is StepMark.DONE


def test_an_unreadable_time_leaves_its_step_without_a_time() -> None:
    """An entry with an unreadable time leaves its step without a time, and the steps are still shown."""
    played = Played()
    played.play()
    record = played.read()
    broken = [
        each if each.number % 2 else type(each)(number=each.number, at="", by="", record=each.record)
        for each in record.entries
    ]
    found = step_lines(record, find_moments(broken, OP))
    assert {line.mark for line in found} == {StepMark.DONE, StepMark.NOT_NEEDED}
    assert any(line.done is None for line in found if line.mark is StepMark.DONE)
