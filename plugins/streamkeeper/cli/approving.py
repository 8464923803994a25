"""``approve`` and ``decline``: a person's answer about an opaque change."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from streamkeeper.cli.given import Job, open_site
from streamkeeper.model.names import check_instance, check_name
from streamkeeper.operations.approval import answer_approval

Operation = Annotated[str, typer.Argument(metavar="OPERATION", help="As status and history name it")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the journal")]
Bundle = Annotated[str, typer.Option("--bundle", metavar="SHA256", help="Only if it is about this bundle")]


def approve(job: Job, operation: Operation, *, reason: Reason, bundle: Bundle = "") -> None:
    """Let an opaque change take over the state: the deploy that waits for it goes on."""
    _answer(job, operation, approved=True, reason=reason, bundle=bundle)


def decline(job: Job, operation: Operation, *, reason: Reason, bundle: Bundle = "") -> None:
    """Do not let an opaque change take over the state: the deploy ends, and what serves stays."""
    _answer(job, operation, approved=False, reason=reason, bundle=bundle)


def command_line(job: str, operation: str) -> str:
    """What somebody types to approve."""
    return f"streamkeeper approve {job} {operation} --reason …"


def _answer(job: str, operation: str, *, approved: bool, reason: str, bundle: str) -> None:
    site, by = open_site(), f"cli:{getpass.getuser()}"
    check_name("job", job)
    check_instance(operation)
    answer = answer_approval(site, job, operation, approved=approved, by=by, reason=reason, bundle=bundle)
    said = "approved" if answer.approved else "declined"
    typer.echo(f"operation {operation} of job {job}: {said} by {answer.by}: {answer.reason}")
