"""``question``, ``approve`` and ``decline``: show the question of an operation, and record a person's answer."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkeeper.cli import options
from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import JsonResult, Report, reporting
from streamkeeper.cli.common_options import Job, load_installation, load_read_only
from streamkeeper.errors import OperationRefused
from streamkeeper.model.names import check_instance
from streamkeeper.model.records.journal_records import About
from streamkeeper.operations.deploys.approval import answer_approval, asked_about
from streamkeeper.operations.deploys.questions import render_question, subject_of
from streamkeeper.operations.jobs.observation import read_job

Operation = Annotated[
    str, typer.Argument(metavar="OPERATION", help="Id of the operation, as `streamkeeper status` prints it")
]
Reason = Annotated[str, options.asked("reason", help="Your reason for this answer, recorded in the job's journal")]
Bundle = Annotated[
    str,
    typer.Option(
        "--bundle",
        metavar="SHA256",
        help="Refuse the answer unless the question is about the bundle with this SHA-256",
    ),
]
Asked = Annotated[
    About | None,
    typer.Option(
        "--about",
        help="Refuse the answer unless the question is about this subject: state (may the change continue with the"
        " state) or output (may the rebuilt output become current)",
    ),
]


def question(job: Job, operation: Operation, *, json: JsonResult = False) -> None:
    """Show the question that a waiting operation asks a person: findings, snapshots taken, differing rows, rollback
    cost."""
    with reporting("question", job=job, as_json=json) as report:
        installation = load_read_only()
        state = read_job(installation, job)
        report.result.operation = check_instance(operation)
        asked = state.operations.get(operation)
        about = asked_about(asked) if asked is not None else None
        if asked is None or about is None:
            raise OperationRefused(
                f"operation {operation} of job {job} has no open question",
                hint=f"run `streamkeeper status {job}` to see its operations",
            )
        subject, text = subject_of(state, asked), render_question(installation, state, asked, whole=True)
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
    """Approve the question of a waiting operation, which then continues. Depending on the question, the new release
    takes over the state despite an opaque change, or the rebuilt output replaces the current one."""
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
    """Decline the question of a waiting operation, which then ends. The current release stays current."""
    with reporting("decline", job=job, as_json=json) as report:
        _answer(report, job, operation, approved=False, reason=reason, bundle=bundle, about=about)


def command_line(job: str, operation: str, about: About) -> str:
    """Return the command that approves an operation; ``about``: the question that it answers."""
    return f"streamkeeper approve {job} {operation} --about {about.value} --reason …"


def _answer(
    report: Report, job: str, operation: str, *, approved: bool, reason: str, bundle: str, about: About | None
) -> None:
    installation, by = load_installation(), caller()
    read_job(installation, job)
    report.result.operation = check_instance(operation)
    answer = answer_approval(
        installation, job, operation, approved=approved, by=by, reason=reason, bundle=bundle, about=about
    )
    answered = "approved" if answer.approved else "declined"
    report.end(
        f"operation {operation} of job {job}: {answered} by {answer.by}: {answer.reason}",
        approved=answer.approved,
        by=answer.by,
        reason=answer.reason,
    )
