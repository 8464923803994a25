"""The outcome of an operation, read from the journal alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.protocol.output_comparison import OutputComparison
from streamkeeper.model.records.journal_records import (
    Assessed,
    InstanceEnded,
    OperationFinished,
    OperationStarted,
    Outcome,
    Record,
    StepBegun,
    StepDone,
)
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.operations.jobs.endings import read_ending, render_ending
from tests.operations.registered_job import JOB, QUERY, Registered

OPERATION = "op2"


def finished(job: Registered, *handover: Record) -> None:
    """Record a finished rebuild with a comparison and these handover records."""
    compared = {QUERY: OutputComparison(old_rows=3, new_rows=3, differing=1, columns={"total": 1})}
    for each in (
        OperationStarted(operation=OPERATION, request=DeployRequest(job=JOB), steps=()),
        StepDone(operation=OPERATION, step="bundle", result={"release": "r0002"}),
        Assessed(
            operation=OPERATION,
            verdict=Verdict.SWITCH,
            reverse=Verdict.SWITCH,
            sentence="SWITCH: query totals: rebuild in v0002, beside v0001",
            report="",
            transitions={QUERY: QueryTransition(way=Transition.REBUILD, before="v0001", version="v0002")},
        ),
        StepDone(operation=OPERATION, step="compare", compared=compared),
        *handover,
        OperationFinished(operation=OPERATION, outcome=Outcome.SUCCEEDED, sentence="r0002 <serves>"),
    ):
        job.record(each)


@pytest.mark.parametrize(
    ("relieved", "known"), [(True, True), (False, False)], ids=["", "control: nobody was relieved"]
)
def test_the_outcome_contains_verdict_transitions_and_handover_time(
    tmp_path: Path, relieved: bool, known: bool
) -> None:
    """The outcome contains the verdict, the transitions and the compared output; it contains a handover time only if a
    running driver was replaced.
    """
    job = Registered(tmp_path)
    serving = job.installation.journal(JOB, "test").state().serving_instance
    ended = (InstanceEnded(operation=OPERATION, instance=serving, proof="gone", exit="drained"),) if relieved else ()
    finished(
        job,
        StepBegun(operation=OPERATION, step="drain"),
        *ended,
        StepDone(operation=OPERATION, step="first-commit"),
    )
    ending = read_ending(job.installation.journal(JOB, "test"), OPERATION)
    assert (ending.job, ending.release, ending.outcome, ending.verdict) == (JOB, "r0002", "succeeded", "SWITCH")
    assert ending.queries == {QUERY: "rebuild in v0002, beside v0001"}
    assert ending.compared == {QUERY: "3 rows and 3: 0 only old, 0 only new, 1 differ (total 1)"}
    assert (ending.handover_s is not None) is relieved
    page = render_ending(ending)
    assert page.startswith("## succeeded\n\nr0002 \\<serves>\n")
    assert ("from drain to first commit" in page) is relieved
