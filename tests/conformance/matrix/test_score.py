"""Tests of the scorer: it must fail for each kind of mistake that a check can make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conformance.matrix.__main__ import ask
from conformance.matrix.case import Case, Job, Outcome
from conformance.matrix.cases import CASES, pairs, read_recorded
from conformance.matrix.data import Data, File
from conformance.matrix.outcome import judge
from conformance.matrix.realistic_jobs import TOTALS, edited
from conformance.matrix.record import Truth
from conformance.matrix.runs import Run, UnitRun, cell_text
from conformance.matrix.score import Answer, Grade, grade, read_answer, score

JOB = Job('s.groupBy("k").agg(F.sum("x").alias("s"))')
CASE = Case("c", "sum -> max", JOB, JOB, "aggregate", group="aggregation", providers=("hdfs",))
OPAQUE = replace(CASE, id="o", opaque=True)
DECLINED = replace(CASE, id="d", declined=True)


def truth(outcome: Outcome, case: Case = CASE) -> Truth:
    return Truth(
        id=case.id,
        provider="hdfs",
        key="",
        outcome=outcome,
        measured=outcome,
        error_class="",
        evidence="want (a,5) | got (a,9)",
        seconds=1.0,
    )


def graded(outcome: Outcome, verdict: str, case: Case = CASE) -> Grade:
    return grade(case, truth(outcome, case), Answer(verdict=verdict))


@pytest.mark.parametrize("outcome", [each for each in Outcome if not each.safe])
def test_resume_for_an_unsafe_change_fails_the_score(outcome: Outcome) -> None:
    """RESUME for a change with an unsafe outcome is graded as unsafe, and one such answer fails the whole score."""
    assert graded(outcome, "RESUME") is Grade.UNSAFE
    assert graded(outcome, "RESUME", OPAQUE) is Grade.UNSAFE
    right = (CASE, truth(Outcome.CORRECT), Answer(verdict="RESUME"))
    wrong = (CASE, truth(outcome), Answer(verdict="RESUME"))
    assert not score([right]).failed
    assert score([right, wrong]).failed


@pytest.mark.parametrize("outcome", [each for each in Outcome if not each.safe])
def test_switch_and_refuse_are_right_for_an_unsafe_change(outcome: Outcome) -> None:
    """SWITCH and REFUSE are both right for a change with an unsafe outcome."""
    assert graded(outcome, "SWITCH") is graded(outcome, "REFUSE") is Grade.RIGHT


@pytest.mark.parametrize("outcome", [Outcome.CORRECT, Outcome.IGNORED])
def test_stopping_a_safe_change_is_a_false_alarm(outcome: Outcome) -> None:
    """For a change with a safe outcome RESUME is right, and BACKUP, SWITCH and REFUSE are false alarms."""
    assert [graded(outcome, verdict) for verdict in ("RESUME", "BACKUP", "SWITCH", "REFUSE")] == [
        Grade.RIGHT,
        Grade.FALSE_ALARM,
        Grade.FALSE_ALARM,
        Grade.FALSE_ALARM,
    ]


def test_a_backup_answers_opaque_changes_only() -> None:
    """BACKUP is right for opaque changes, such as Python code in the state, and unproven for a change that the plan
    shows.
    """
    assert graded(Outcome.WRONG, "BACKUP", OPAQUE) is graded(Outcome.CORRECT, "BACKUP", OPAQUE) is Grade.RIGHT
    assert graded(Outcome.WRONG, "BACKUP") is Grade.UNPROVEN


def test_an_error_counts_as_unanswered() -> None:
    """An error counts as unanswered, unless the case expects that the candidate is declined."""
    assert graded(Outcome.WRONG, "ERROR") is graded(Outcome.CORRECT, "ERROR") is Grade.UNANSWERED
    assert graded(Outcome.REFUSED, "ERROR", DECLINED) is Grade.RIGHT


def test_the_matrix_counts_every_answer() -> None:
    """The score counts answers by outcome and verdict, counts backups separately, and lists unsafe answers first among
    the misses.
    """
    found = score(
        [
            (CASE, truth(Outcome.CORRECT), Answer(verdict="SWITCH", rules=("upstream-changed (breaking)",))),
            (CASE, truth(Outcome.WRONG), Answer(verdict="RESUME")),
            (OPAQUE, truth(Outcome.WRONG, OPAQUE), Answer(verdict="BACKUP")),
        ]
    )
    assert dict(found.matrix) == {("may go on", "SWITCH"): 1, ("must stop", "RESUME"): 1, ("must stop", "BACKUP"): 1}
    assert dict(found.backups) == {True: 1}
    assert [each.grade for each in found.misses] == [Grade.UNSAFE, Grade.FALSE_ALARM]


def test_an_answer_is_read_with_its_rules_strictest_first() -> None:
    """An answer is read from the command's JSON, with its rules sorted by severity and its seconds summed."""
    note = {"rule": "trigger-changed", "severity": "note", "where": "", "evidence": "", "hint": "", "reference": ""}
    breaking = {**note, "rule": "grouping-keys-changed", "severity": "breaking"}
    query = {"verdict": "SWITCH", "findings": [note, breaking]}
    line = {"verdict": "SWITCH", "queries": {"q": query}, "seconds": {"describe": 0.25, "rehearse": 1.5}}
    assert read_answer(line) == Answer(
        verdict="SWITCH", rules=("grouping-keys-changed (breaking)", "trigger-changed (note)"), seconds=1.75
    )


@pytest.mark.parametrize("line", [{"error": "no such job"}, {"verdict": "MAYBE"}, {}])
def test_what_is_no_verdict_is_an_error(line: dict[str, object]) -> None:
    """An answer with an error, an unknown verdict or no verdict is read as an error."""
    assert read_answer(line).verdict == "ERROR"


def test_a_check_that_says_resume_to_everything_fails_the_bench(tmp_path: Path) -> None:
    """Negative control: a check that answers RESUME to everything fails the bench, with the unsafe case among the
    misses.
    """
    requests = tmp_path / "requests.jsonl"
    requests.write_text("{}\n{}\n")

    def careless(file: Path) -> Iterable[dict[str, Any]]:
        return [{"verdict": "RESUME"} for _ in file.read_text().splitlines()]

    wanted = [(CASE, "hdfs"), (OPAQUE, "hdfs")]
    known = {("c", "hdfs"): truth(Outcome.CORRECT), ("o", "hdfs"): truth(Outcome.WRONG, OPAQUE)}
    found = ask(wanted, known, requests, careless)
    assert found.failed
    assert [(each.id, each.grade) for each in found.misses] == [("o", Grade.UNSAFE)]


def rows(*cells: tuple[str, ...], batch: int = 0, **more: Any) -> Run:
    return Run(columns=("k", "s"), batches={batch: list(cells)}, **more)


A, B, C = ("a", "9"), ("b", "2"), ("c", "7")


def from_scratch(tail: Run, *head: tuple[str, ...]) -> UnitRun:
    return UnitRun(head=rows(*head), tail=tail)


@pytest.mark.parametrize(
    ("got", "wanted", "outcome"),
    [
        (rows(A, B), rows(B, A), Outcome.CORRECT),
        (rows(A), rows(A, B), Outcome.LOSES),
        (rows(A, C), rows(A), Outcome.DUPLICATES),
        (rows(A, B), rows(A), Outcome.WRONG),
        (rows(A), rows(B), Outcome.WRONG),
        (rows(A, A), rows(A), Outcome.WRONG),
        (Run(error_class="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"), rows(A), Outcome.REFUSED),
        (Run(error_class="NEVER_ENDS"), rows(A), Outcome.NEVER_ENDS),
    ],
)
def test_outcomes_follow_from_the_rows(got: Run, wanted: Run, outcome: Outcome) -> None:
    """The outcome follows from the rows of the resumed run and of a run from scratch; a row that was already written
    before the change is a duplicate.
    """
    assert judge(CASE, before=rows(C), got=got, scratch=from_scratch(wanted)).outcome is outcome


def test_a_row_written_twice_in_append_mode_is_a_duplicate() -> None:
    """In append mode rows may be written earlier or later than from scratch, but a row that was already written before
    the change is a duplicate.
    """
    append = replace(CASE, old=JOB.but(mode="append"), new=JOB.but(mode="append"))
    early = from_scratch(rows(A), C)
    assert judge(append, before=rows(), got=rows(A, C), scratch=early).outcome is Outcome.CORRECT
    assert judge(append, before=rows(C), got=rows(A, C), scratch=early).outcome is Outcome.DUPLICATES
    changed = replace(append, old=JOB)
    assert (
        judge(changed, before=rows(C), got=rows(A, C), scratch=from_scratch(rows(A, C))).outcome is Outcome.DUPLICATES
    )
    assert judge(changed, before=rows(B), got=rows(A, C), scratch=from_scratch(rows(A, C))).outcome is Outcome.CORRECT


def test_a_pinned_setting_is_ignored_only_when_the_rows_are_right() -> None:
    """A setting that the checkpoint pins is judged as ignored if the rows are right, and as wrong if they are not."""
    assert (
        judge(CASE, before=rows(C), got=rows(A), scratch=from_scratch(rows(A)), pinned=("x=2",)).outcome
        is Outcome.IGNORED
    )
    assert (
        judge(CASE, before=rows(C), got=rows(A), scratch=from_scratch(rows(B)), pinned=("x=2",)).outcome
        is Outcome.WRONG
    )


def test_an_output_that_cannot_be_read_is_wrong() -> None:
    """An output that cannot be read is judged as wrong, even if the batches wrote the right rows."""
    got = rows(A, batch=1, kind="file", unread="FileNotFoundException")
    assert judge(CASE, before=rows(C), got=got, scratch=from_scratch(rows(A))).outcome is Outcome.WRONG


def test_an_output_must_hold_the_old_rows_and_the_new_ones() -> None:
    """A file output must contain the old and the new rows; a batch that is replayed counts once."""
    held = [{"k": "c", "s": "7"}, {"k": "a", "s": "9"}]
    got = rows(A, batch=1, kind="file", held=held)
    before = rows(C, kind="file")
    assert judge(CASE, before=before, got=got, scratch=from_scratch(rows(A))).outcome is Outcome.CORRECT
    again = Run(columns=("k", "s"), batches={0: [C], 1: [A]}, kind="file", held=held)
    assert judge(CASE, before=before, got=again, scratch=from_scratch(rows(A))).outcome is Outcome.CORRECT
    lost = rows(A, batch=1, kind="file", held=held[1:])
    assert judge(CASE, before=before, got=lost, scratch=from_scratch(rows(A))).outcome is Outcome.WRONG


def test_a_table_row_with_a_key_absent_from_scratch_is_wrong() -> None:
    """In cases about sinks, a table with a row whose key a run from scratch does not produce is wrong, also in complete
    mode; in other cases it is correct.
    """
    old, due = {"k": "c", "s": "7"}, {"k": "a", "s": "9"}

    def in_table(*held: dict[str, str]) -> Run:
        return Run(columns=("k", "s"), batches={1: [A]}, kind="table", key=("k",), held=list(held))

    before = Run(columns=("k", "s"), batches={0: [C]}, kind="table", key=("k",), held=[old])
    scratch = UnitRun(head=before, tail=in_table(due))
    keyed = replace(CASE, group="sinks")
    assert judge(keyed, before=before, got=in_table(old, due), scratch=scratch).outcome is Outcome.WRONG
    assert judge(CASE, before=before, got=in_table(old, due), scratch=scratch).outcome is Outcome.CORRECT
    scratch = UnitRun(head=before, tail=in_table(old, due))
    assert judge(keyed, before=before, got=in_table(old, due), scratch=scratch).outcome is Outcome.CORRECT
    whole = replace(keyed, new=JOB.but(mode="complete"))
    scratch = UnitRun(head=before, tail=in_table(due))
    assert judge(whole, before=before, got=in_table(due), scratch=scratch).outcome is Outcome.CORRECT
    assert judge(whole, before=before, got=in_table(old, due), scratch=scratch).outcome is Outcome.WRONG


def test_a_declared_outcome_replaces_the_measured_one_except_for_a_refusal() -> None:
    """A case's declared outcome replaces the one measured from rows, which is kept beside it; a refusal by Spark still
    counts.
    """
    case = replace(CASE, truth=(Outcome.CORRECT, "history is not computed again"))
    found = judge(case, before=rows(C), got=rows(A), scratch=from_scratch(rows(B)))
    assert (found.outcome, found.measured) == (Outcome.CORRECT, Outcome.WRONG)
    refused = judge(case, before=rows(C), got=Run(error_class="X"), scratch=from_scratch(rows(B)))
    assert refused.outcome is Outcome.REFUSED


def test_there_are_at_least_160_pairs_that_cover_every_group() -> None:
    """There are at least 160 pairs, including every recorded one and at least 40 more cases, and a spread of 60 covers
    every group.
    """
    found = list(pairs())
    recorded = read_recorded()
    assert len(found) >= 160
    assert recorded.keys() <= {(case.id, provider) for case, provider in found}
    assert len(CASES.keys() - {name for name, _ in recorded}) >= 40
    assert len(list(pairs(spread=60))) == 60
    assert len({case.group for case, _ in pairs(spread=60)}) == len({case.group for case in CASES.values()})


def test_every_job_file_compiles() -> None:
    """The job file of every case compiles."""
    for case in CASES.values():
        for job in (case.old, case.new):
            compile(job.render(), case.id, "exec")


def test_the_key_of_a_case_changes_with_its_content() -> None:
    """A case's key changes with its job, damage, settings, params, provider or declared outcome, and not with its
    name.
    """
    key = CASE.key("hdfs")
    assert replace(CASE, id="other").key("hdfs") == key
    changed = [
        replace(CASE, new=JOB.but(mode="complete")),
        replace(CASE, damage="state_gone"),
        replace(CASE, candidate_conf={"spark.sql.shuffle.partitions": "5"}),
        replace(CASE, params={"number": 2}),
        replace(CASE, truth=(Outcome.CORRECT, "said so")),
    ]
    assert len({key, CASE.key("rocksdb"), *(each.key("hdfs") for each in changed)}) == 7


def test_a_named_twin_is_a_case_without_a_twin() -> None:
    """The twin that a case names is a case that has no twin itself."""
    assert {case.twin for case in CASES.values()} - {""} <= CASES.keys()
    assert not any(CASES[case.twin].twin for case in CASES.values() if case.twin)


def test_present_times_are_normalized_in_compared_rows() -> None:
    """The present time and date are normalized to ``today`` in compared rows; any other time stays unchanged."""
    now = datetime.now(UTC)
    assert cell_text([now, now.date()]) == "[today,today]"
    assert cell_text((datetime(2026, 1, 1, 10, tzinfo=UTC), None)) == "(2026-01-01 10:00:00+00:00,NULL)"


def test_an_edit_that_replaces_nothing_raises_an_error() -> None:
    """An edit of a job that finds nothing to replace raises an error, so that no pair is a control by mistake."""
    assert edited(TOTALS, ("processed_at", "written_at")) != TOTALS
    with pytest.raises(ValueError, match="written_at"):
        edited(TOTALS, ("written_at", "processed_at"))


def test_only_control_cases_leave_the_job_unchanged() -> None:
    """In the realistic group every case whose change is not a control has a different job before and after."""
    for case in CASES.values():
        if case.group == "realistic" and "control" not in case.change:
            assert case.old != case.new, case.id


def test_static_tables_are_stored_outside_the_input_directory_and_kept(tmp_path: Path) -> None:
    """Static tables are written outside the input's directory, and are kept when the input files of the change are
    removed.
    """
    data = Data((File(("one",)),), (File(("two",)),), form="text", tables=(("a.csv", "k\n"), ("b.parquet", '{"k": 1}')))
    data.place(tmp_path, after=True)
    assert (tmp_path / "a/a1.text").read_text() == "two\n"
    data.place(tmp_path, after=False)
    assert not (tmp_path / "a/a1.text").exists()
    assert (tmp_path / "dims/a.csv").read_text() == "k\n"
    assert (tmp_path / "dims/b.parquet").read_bytes()[:4] == b"PAR1"
