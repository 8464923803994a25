"""``question``, ``approve`` and ``decline``: what a person is asked, and the answer."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markdown import Markdown

from streamkeeper.cli import options
from streamkeeper.cli.caller import caller
from streamkeeper.cli.given import Job, open_site, open_to_look
from streamkeeper.cli.terminal import Console, echo
from streamkeeper.errors import OperationRefused
from streamkeeper.model.journal import About
from streamkeeper.model.names import check_instance
from streamkeeper.operations.approval import answer_approval, asked_about
from streamkeeper.operations.overview import read_job
from streamkeeper.operations.questions import render_question, subject_of

Operation = Annotated[str, typer.Argument(metavar="OPERATION", help="As status and history name it")]
Reason = Annotated[str, options.asked("reason")]
Bundle = Annotated[str, typer.Option("--bundle", metavar="SHA256", help="Only if it is about this bundle")]
Asked = Annotated[About | None, typer.Option("--about", help="Only if this is what is asked about")]


def question(job: Job, operation: Operation) -> None:
    """Show what an operation asks a person: findings, kept state, rows that differ, what a way back costs."""
    site = open_to_look()
    state = read_job(site, job)
    check_instance(operation)
    asked = state.operations.get(operation)
    if asked is None or asked_about(asked) is None:
        raise OperationRefused(
            f"operation {operation} of job {job} asks nobody", hint=f"see: streamkeeper status {job}"
        )
    console = Console()
    console.print(subject_of(state, asked), markup=False)
    console.print(Markdown(render_question(site, state, asked, whole=True)))


def approve(job: Job, operation: Operation, *, reason: Reason, bundle: Bundle = "", about: Asked = None) -> None:
    """Let an opaque change take over the state, or a rebuilt output serve: the deploy that waits for it goes on."""
    _answer(job, operation, approved=True, reason=reason, bundle=bundle, about=about)


def decline(job: Job, operation: Operation, *, reason: Reason, bundle: Bundle = "", about: Asked = None) -> None:
    """Do not let it: the deploy ends, and what serves stays."""
    _answer(job, operation, approved=False, reason=reason, bundle=bundle, about=about)


def command_line(job: str, operation: str) -> str:
    """What somebody types to approve."""
    return f"streamkeeper approve {job} {operation} --reason …"


def _answer(job: str, operation: str, *, approved: bool, reason: str, bundle: str, about: About | None) -> None:
    site, by = open_site(), caller()
    read_job(site, job)
    check_instance(operation)
    answer = answer_approval(site, job, operation, approved=approved, by=by, reason=reason, bundle=bundle, about=about)
    said = "approved" if answer.approved else "declined"
    echo(f"operation {operation} of job {job}: {said} by {answer.by}: {answer.reason}")
