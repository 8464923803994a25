"""``recover``: diagnose a job, print the possible actions with their costs, and carry one out."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from streamkeeper.cli.caller import caller
from streamkeeper.cli.command_results import CommandResult, Report
from streamkeeper.cli.common_options import Json, load_installation, load_read_only
from streamkeeper.cli.deploying import finish, new_operation
from streamkeeper.cli.operation_end import render_plan
from streamkeeper.cli.options import takes_request
from streamkeeper.cli.terminal import Console, echo_json
from streamkeeper.errors import InvalidInput, StoreUnavailable
from streamkeeper.lifecycle.steps import PlannedStep, plan_assessed
from streamkeeper.model.coding import to_json
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import QueryTransition, Transition
from streamkeeper.model.requests.asked_fields import Verb
from streamkeeper.model.requests.diagnosis import Diagnosis, Problem, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.trigger_forms import ACTIONS
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.recovery.diagnoses import render_diagnosis
from streamkeeper.operations.recovery.diagnosing import diagnose_without_store
from streamkeeper.operations.recovery.recovering import (
    RecoveryRequest,
    diagnose_for,
    must_be_possible,
    open_recovery,
    recovery_request,
)

Action = Annotated[RecoveryAction, typer.Option("--action", help=ACTIONS.replace("`", ""))]
Queries = Annotated[
    list[str] | None,
    typer.Option(
        "--query",
        metavar="QUERY",
        help="Name of a query to restore or rebuild, damaged or not. Without --query and --snapshot, all damaged"
        " queries. Repeatable",
    ),
]
Snapshots = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot",
        metavar="QUERY=ID",
        help="With --action restore, restore the query from this snapshot, like totals=s0042, instead of from the"
        " snapshot that the diagnosis names. Repeatable",
    ),
]
Replay = Annotated[
    bool,
    typer.Option(
        "--accept-replay",
        help="Accept the replay that the diagnosis announces for the action: a topic or a sink function may receive"
        " batches twice",
    ),
]
Loss = Annotated[
    bool, typer.Option("--accept-loss", help="Accept the data loss that the diagnosis announces for the action")
]


@takes_request(Verb.RECOVER)
def recover(
    *,
    action: Action = RecoveryAction.DIAGNOSE,
    query: Queries = None,
    snapshot: Snapshots = None,
    request: DeployRequest,
    accept_replay: Replay = False,
    accept_loss: Loss = False,
    json: Json = False,
) -> None:
    """Diagnose a job, or recover it with --action. A diagnosis changes nothing, and its exit code is 1 if something is
    wrong. The same command continues an interrupted recovery."""
    by = caller()
    if (accept_loss or accept_replay) and not request.reason:
        raise InvalidInput("--accept-loss and --accept-replay require a reason", hint="add `--reason TEXT`")
    asked = RecoveryRequest(
        request=replace(request, requested_by=by),
        action=action,
        queries=tuple(query or ()),
        snapshots=_read_snapshots(snapshot),
        accepted_by=by if accept_loss or accept_replay else "",
        accept_loss=accept_loss,
        accept_replay=accept_replay,
    )
    try:
        installation = load_read_only() if action is RecoveryAction.DIAGNOSE or request.dry_run else load_installation()
        found = diagnose_for(installation, asked)
    except StoreUnavailable as error:
        # An unavailable store is a cause that a diagnosis can report; every other action needs the store.
        if action is not RecoveryAction.DIAGNOSE:
            raise
        found = diagnose_without_store(request.job, error)
    if json:
        echo_json(to_json(found))
    else:
        Console().print_markdown(render_diagnosis(found))
    if action is RecoveryAction.DIAGNOSE:
        if found.cause is not Problem.NOTHING_WRONG:
            raise typer.Exit(1)
        return
    if request.dry_run:
        must_be_possible(found, action)
        if not json:
            _show_plan(installation, asked, found)
        return
    # With --json, stdout has the diagnosis, and the progress goes to stderr.
    running = open_recovery(installation, new_operation(), asked, diagnosis=found)
    finish(_report(request.job, as_json=json), installation, running)


def _report(job: str, *, as_json: bool) -> Report:
    return Report(CommandResult(command="recover", job=job), as_json=as_json)


def _show_plan(installation: Installation, asked: RecoveryRequest, found: Diagnosis) -> None:
    serving = installation.journal(asked.job, "reader").state().serving_release
    Console().print_table(render_plan(plan_recovery(serving, asked, found)))


def plan_recovery(serving: str, asked: RecoveryRequest, found: Diagnosis) -> tuple[PlannedStep, ...]:
    """Return the steps that the requested action would take. ``serving``: the current release; ``asked``: the requested
    action and its options; ``found``: the diagnosis of the job.
    """
    request = recovery_request(serving, asked, found)
    recover = request.recovery
    assert recover is not None
    transitions = {query: QueryTransition(way=Transition.RESTORE) for query in (*recover.snapshots, *recover.replans)}
    transitions |= {query: QueryTransition(way=Transition.REBUILD) for query in recover.rebuilt}
    operation = OperationState(operation="", request=request, steps=(), started=0, transitions=transitions)
    return plan_assessed(operation, serving=serving)


def _read_snapshots(pairs: list[str] | None) -> dict[str, str]:
    """Parse ``["totals=s0042"]`` into query -> snapshot; raises InvalidInput."""
    found: dict[str, str] = {}
    for pair in pairs or []:
        query, separator, name = pair.partition("=")
        if not separator or not query or not name:
            raise InvalidInput(f"--snapshot {pair!r} is not QUERY=ID", hint="write it like `--snapshot totals=s0042`")
        found[query] = name
    return found
