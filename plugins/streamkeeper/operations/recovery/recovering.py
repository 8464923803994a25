"""Recover a job: diagnose it, announce the effects, have a person accept losses or duplicates, and run one recorded
deploy.

A restart, a restore and a rebuild are deploys of the current release with announced transitions; recovery has no other
mechanism. So each of them continues after a crash, has a probation and a rollback path, and is part of the history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.requests.diagnosis import Diagnosis, Option, Problem, Recovery, RecoveryAction
from streamkeeper.model.requests.request import DeployRequest, Handover, Strategy
from streamkeeper.model.requests.request_limits import check_request
from streamkeeper.operations.deploys.deploy import Deploy
from streamkeeper.operations.deploys.replanning import copy_without_plans
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.placement import must_see_drivers
from streamkeeper.operations.recovery.diagnosing import diagnose_job


class RecoveryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to recover one job, with the action, the accepted effects and the snapshots to use."""

    request: DeployRequest
    """The job, the reason, the requester and the deadlines of the deploy that carries out the recovery."""
    action: RecoveryAction
    """The requested action."""
    queries: tuple[str, ...] = ()
    """The queries to recover in place of the damaged ones. They may also be healthy."""
    snapshots: dict[str, str] = {}
    """Query -> the snapshot to use."""
    accepted_by: str = ""
    """Who accepts the announced loss or duplicates; empty if no person has."""
    accepted_by_id: str = ""
    """That person's id in Airflow; empty outside Airflow."""
    accept_loss: bool = False
    """Whether that person accepts the announced loss."""
    accept_replay: bool = False
    """Whether that person accepts the announced duplicates."""
    announced: tuple[str, ...] = ()
    """The effects that were shown to that person earlier; empty if they are shown now."""

    @property
    def job(self) -> str:
        """The job."""
        return self.request.job


def diagnose_for(installation: Installation, asked: RecoveryRequest) -> Diagnosis:
    """Diagnose the job for a request; raises NotFound, InvalidInput."""
    check_request(asked.request)
    if asked.snapshots and asked.action is not RecoveryAction.RESTORE:
        raise InvalidInput("a snapshot can be named only for the action restore")
    return diagnose_job(installation, asked.job, chosen=[*asked.queries, *asked.snapshots], snapshots=asked.snapshots)


def open_recovery(
    installation: Installation, operation: str, asked: RecoveryRequest, *, diagnosis: Diagnosis | None = None
) -> Deploy:
    """Start the recovery and return its operation.

    If an operation with this id exists, or an open recovery with the same action, return that operation instead.

    ``diagnosis``: the job's current diagnosis, if the caller has one. Raises OperationRefused for an impossible action,
    for a loss or duplicates that no entitled person has accepted, and for effects that differ from the announced ones.
    Raises NotFound, InvalidInput and WrongMachine.
    """
    state = installation.journal(asked.job, "recover").state()
    opened = state.open_operation
    if operation in state.operations:
        return Deploy.load(installation, asked.job, operation)
    if opened is not None and opened.request.recovery is not None and opened.request.recovery.asked_for is asked.action:
        return Deploy.load(installation, asked.job, opened.operation)
    # A checkpoint on another disk does not prevent a recovery: a snapshot can be restored here.
    must_see_drivers(installation, state)
    found = diagnosis or diagnose_for(installation, asked)
    option = must_be_possible(found, asked.action)
    announced = announcements(option)
    if missing := not_accepted(option, asked):
        raise OperationRefused(
            f"a person must accept the effects of {asked.action.value} on {asked.job}: {'; '.join(costly(option))}",
            hint=f"to accept them, add `{' '.join(missing)} --reason …`",
        )
    right = right_to_answer(installation.settings, state, asked.request.requested_by)
    if option.asks and (objection := right.objection(asked.accepted_by, asked.accepted_by_id)):
        raise OperationRefused(
            f"{asked.action.value} of {asked.job} loses or duplicates rows, and no authorized person has accepted this:"
            f" {objection}",
            hint="trigger the DAG streaming_recover, which asks an authorized person to accept the effects",
        )
    if option.asks and asked.announced and asked.announced != announced:
        raise OperationRefused(
            f"the effects have changed since they were accepted: {'; '.join(costly(option))}",
            hint="diagnose the job again, and decide whether to accept the new effects",
        )
    copies = (
        copy_without_plans(installation, asked.job, option.replans) if asked.action is RecoveryAction.REPLAN else {}
    )
    return Deploy.open(installation, operation, recovery_request(state.serving_release, asked, found, copies=copies))


def must_be_possible(found: Diagnosis, action: RecoveryAction) -> Option:
    """Return the option for an action; raises OperationRefused if the action is not possible."""
    option = found.option(action)
    if not option.possible:
        raise OperationRefused(f"{action.value} of {found.job} is not possible: {option.why_not}", hint=found.advice)
    return option


def not_accepted(option: Option, asked: RecoveryRequest) -> list[str]:
    """Return the command-line options, such as ``--accept-loss``, that the request lacks to accept all effects."""
    accepts = bool(asked.accepted_by)
    loses, doubles = any(price.lost for price in option.prices), any(price.doubles for price in option.prices)
    missing = ["--accept-loss"] if loses and not (accepts and asked.accept_loss) else []
    return [*missing, "--accept-replay"] if doubles and not (accepts and asked.accept_replay) else missing


def announcements(option: Option) -> tuple[str, ...]:
    """Return the effects of an option: one sentence for each output."""
    return tuple(price.sentence for price in option.prices)


def costly(option: Option) -> list[str]:
    """Return one sentence for each output that would lose rows or contain rows twice."""
    return [price.sentence for price in option.prices if price.asks]


def recovery_request(
    release: str, asked: RecoveryRequest, found: Diagnosis, *, copies: Mapping[str, str] | None = None
) -> DeployRequest:
    """Return the request of the deploy that carries out an announced recovery. A dry run prints that deploy's steps.

    ``release``: the current release; ``copies``: for a replan, query -> the snapshot without the plan of the open
    batch.
    """
    option = found.option(asked.action)
    replans = asked.action is RecoveryAction.REPLAN
    loses = option.asks and asked.accept_loss and found.cause is Problem.OUTPUT_LOST
    rebuilt = tuple(price.query for price in option.prices) if asked.action is RecoveryAction.REBUILD else ()
    request = msgspec.structs.replace(
        asked.request,
        release=release,
        strategy=Strategy.REBUILD if rebuilt else Strategy.RESUME,
        handover=Handover.WARM,
        dry_run=False,
        reason=asked.request.reason or f"recover: {found.sentence}",
        accept_output_loss=loses and asked.action is RecoveryAction.RESTART,
    )
    recovery = Recovery(
        action=RecoveryAction.RESTORE if replans else asked.action,
        cause=found.cause.value,
        snapshots=dict(copies or {}) if replans else option.snapshots,
        replans=option.replans if replans else {},
        rebuilt=rebuilt,
        announced=announcements(option),
        accepted_by=asked.accepted_by if option.asks else "",
        losses=tuple(price.query for price in option.prices if price.lost),
    )
    return request.of_kind(recovery)
