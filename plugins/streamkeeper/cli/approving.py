"""``question``, ``approve`` and ``decline``: show what an operation asks, and record the answer."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.cli import options
from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import JsonResult, Report, reporting
from streamkeeper.cli.given import Job, open_site, open_to_look
from streamkeeper.errors import OperationRefused
from streamkeeper.model.journal import About
from streamkeeper.model.names import check_instance
from streamkeeper.operations.approval import answer_approval, asked_about
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.questions import render_question, subject_of

Operation = Annotated[str, typer.Argument(metavar="OPERATION", help="The operation's id, as printed by status")]
Reason = Annotated[str, options.asked("reason")]
Bundle = Annotated[
    str, typer.Option("--bundle", metavar="SHA256", help="Answer only if the question is about this bundle")
]
Asked = Annotated[About | None, typer.Option("--about", help="Answer only if the question is about this")]


def question(job: Job, operation: Operation, *, json: JsonResult = False) -> None:
    """Show the question that an operation asks: findings, snapshots taken, differing rows, rollback cost."""
    with reporting("question", job=job, as_json=json) as report:
        site = open_to_look()
        state = read_job(site, job)
        report.result.operation = check_instance(operation)
        asked = state.operations.get(operation)
        about = asked_about(asked) if asked is not None else None
        if asked is None or about is None:
            raise OperationRefused(
                f"operation {operation} of job {job} has no open question", hint=f"see: streamkeeper status {job}"
            )
        subject, text = subject_of(state, asked), render_question(site, state, asked, whole=True)
        report.describe(subject, about=about.value, release=asked.release, question=text)
        if not json:
            console = report.console()
            console.print(subject, markup=False)
            console.print_markdown(text)


def approve(
    job: Job,
    operation: Operation,
    *,
    reason: Reason,
    bundle: Bundle = "",
    about: Asked = None,
    json: JsonResult = False,
) -> None:
    """Approve: the new release may continue from the state of an opaque change, or the rebuilt output may replace the
    current one. The waiting operation continues."""
    with reporting("approve", job=job, as_json=json) as report:
        _answer(report, job, operation, approved=True, reason=reason, bundle=bundle, about=about)


def decline(
    job: Job,
    operation: Operation,
    *,
    reason: Reason,
    bundle: Bundle = "",
    about: Asked = None,
    json: JsonResult = False,
) -> None:
    """Decline: the waiting operation ends, and the current release stays current."""
    with reporting("decline", job=job, as_json=json) as report:
        _answer(report, job, operation, approved=False, reason=reason, bundle=bundle, about=about)


def command_line(job: str, operation: str) -> str:
    """The command that approves."""
    return f"streamkeeper approve {job} {operation} --reason …"


def _answer(
    report: Report, job: str, operation: str, *, approved: bool, reason: str, bundle: str, about: About | None
) -> None:
    site, by = open_site(), caller()
    read_job(site, job)
    report.result.operation = check_instance(operation)
    answer = answer_approval(site, job, operation, approved=approved, by=by, reason=reason, bundle=bundle, about=about)
    answered = "approved" if answer.approved else "declined"
    report.end(
        f"operation {operation} of job {job}: {answered} by {answer.by}: {answer.reason}",
        approved=answer.approved,
        by=answer.by,
        reason=answer.reason,
    )
