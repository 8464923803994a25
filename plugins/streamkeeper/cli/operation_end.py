"""Report how an operation ended: findings, planned steps of a dry run, and the ``details`` that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from rich.table import Table

from streamkeeper.cli.command_results import Report
from streamkeeper.compatibility.report import render_text, told_way
from streamkeeper.errors import DeployFailed
from streamkeeper.lifecycle.steps import PlannedStep, plan_assessed
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.protocol.check_messages import CheckAnswer, answer_json
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.operations.deploys.deploy import Deploy, Progress
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.objects import read_assessment


def render_plan(steps: tuple[PlannedStep, ...]) -> Table:
    """Return the planned steps of an operation as a table."""
    table = Table("step", "does", "deadline", "otherwise")
    for step in steps:
        table.add_row(step.step.label, step.does, f"{step.deadline_s:g} s", step.otherwise)
    return table


def report_end(report: Report, installation: Installation, running: Deploy, progress: Progress) -> None:
    """Print the findings and the outcome of an operation, and after a dry run the steps of the real run.

    Raises DeployFailed unless the operation succeeded or was a dry run.
    """
    state = running.state
    operation = state.operations[running.operation]
    assessment = read_assessment(installation.store, running.job, operation.report) if operation.report else None
    if assessment is not None:
        findings = _rendered(assessment, operation)
        report.console(whole_lines=True).print(findings, markup=False, end="")
    if progress.outcome is not None:
        report.result.outcome = progress.outcome.value
    goes_ahead = bool(operation.transitions) and not operation.refusal
    steps: tuple[PlannedStep, ...] = ()
    if operation.request.dry_run and goes_ahead:
        steps = plan_assessed(operation, serving=state.predecessor, stopped=state.stopped)
        report.console().print_table(render_plan(steps))
    report.describe(progress.sentence, **_details(state, operation, assessment, steps))
    match progress.outcome:
        case Outcome.SUCCEEDED:
            return
        case Outcome.DRY_RUN:
            if not goes_ahead:
                raise typer.Exit(1)
        case _:
            current = state.serving_release
            stays = f"{current} is the current release" if current else "there is no current release"
            raise DeployFailed(f"job {running.job}: {progress.sentence}", hint=stays)


def _rendered(assessment: Assessment, operation: OperationState) -> str:
    """Return the verdict and its findings as text; for a recovery only its result.

    The verdict of a recovery is about the files that the recovery leaves behind.
    """
    if operation.request.recovery is not None and not operation.refusal:
        return f"recovery: {operation.verdict_sentence}\n"
    return f"verdict: {render_text(assessment, decision=operation.verdict_sentence, transitions=operation.transitions)}"


def _details(
    state: JobState, operation: OperationState, assessment: Assessment | None, steps: Iterable[PlannedStep]
) -> dict[str, object]:
    """Return the ``details`` of an operation's result."""
    judged = answer_json(CheckAnswer(assessment=assessment)) if assessment is not None else {}
    return {
        "release": operation.release,
        "current_release": state.serving_release,
        "verdict": operation.verdict.name if operation.verdict is not None else None,
        "sentence": operation.verdict_sentence,
        "refusal": operation.refusal,
        "queries": judged.get("queries", {}),
        "ways": {query: {"way": way.way.value, "does": told_way(way)} for query, way in operation.transitions.items()},
        "steps": [plan_json(step) for step in steps],
    }


def plan_json(step: PlannedStep) -> dict[str, object]:
    """Return one planned step as ``--json`` prints it; ``deadline_s``: seconds."""
    return {
        "step": step.step.label,
        "does": step.does,
        "deadline_s": step.deadline_s,
        "otherwise": step.otherwise,
    }
