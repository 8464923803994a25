"""A recovery: diagnosed, announced, accepted where it loses or doubles, and carried out as one recorded deploy.

There is no second machinery: a restart, a restore and a rebuild are the serving release's deploy, with its ways chosen
by what was announced. So each goes on after a crash, has a probation and a way back, and stands in the history.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamkeeper.errors import InvalidInput, OperationRefused
from streamkeeper.lifecycle.right_to_answer import right_to_answer
from streamkeeper.model.names import check_instance, check_name
from streamkeeper.model.recovery import Cause, Diagnosis, Option, Recovery, RecoveryAction
from streamkeeper.model.request import DeployRequest, Handover, Strategy
from streamkeeper.operations.deploy import Deploy
from streamkeeper.operations.diagnosing import diagnose_job
from streamkeeper.operations.installation import Installation
from streamkeeper.operations.replanning import copy_without_plans
from streamkeeper.operations.whereabouts import must_see_drivers

_DEFAULTS = DeployRequest(job="any")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants done. ``queries``: although they are sound; ``snapshots``: query -> which one to take.

    ``accepted_by``: who takes the loss (``accept_loss``), the doubling (``accept_replay``), that were announced; empty:
    nobody; ``accepted_by_id``: their id in Airflow. ``announced``: what they have seen, empty where they see it now.
    Durations are seconds, as in a deploy.
    """

    job: str
    action: RecoveryAction
    queries: tuple[str, ...] = ()
    snapshots: dict[str, str] = {}
    reason: str = ""
    requested_by: str = ""
    accepted_by: str = ""
    accepted_by_id: str = ""
    accept_loss: bool = False
    accept_replay: bool = False
    announced: tuple[str, ...] = ()
    drain_s: float = _DEFAULTS.drain_s
    standby_s: float = _DEFAULTS.standby_s
    first_commit_s: float = _DEFAULTS.first_commit_s
    approve_s: float = _DEFAULTS.approve_s
    catch_up_s: float = _DEFAULTS.catch_up_s
    probation_batches: int = _DEFAULTS.probation_batches
    probation_s: float = _DEFAULTS.probation_s


def diagnose_for(site: Installation, asked: Asked) -> Diagnosis:
    """Look at the job for what is asked; raises NotFound, InvalidInput."""
    check_name("job", asked.job)
    if asked.snapshots and asked.action is not RecoveryAction.RESTORE:
        raise InvalidInput("a snapshot can be named only for the action restore")
    return diagnose_job(site, asked.job, chosen=[*asked.queries, *asked.snapshots], snapshots=asked.snapshots)


def open_recovery(site: Installation, operation: str, asked: Asked, *, diagnosis: Diagnosis | None = None) -> Deploy:
    """Start the recovery, or find it started: by this id, or an open one of the same action, which is carried on.

    ``diagnosis``: where it was made just now. Raises OperationRefused for an action that is not possible, for one that
    loses or doubles and that nobody who may has accepted, and for one that is not what was announced; NotFound,
    InvalidInput, WrongMachine.
    """
    check_instance(operation)
    state = site.journal(check_name("job", asked.job), "recover").state()
    opened = state.open_operation
    if operation in state.operations:
        return Deploy.load(site, asked.job, operation)
    if opened is not None and opened.request.recover is not None and opened.request.recover.asked_for is asked.action:
        return Deploy.load(site, asked.job, opened.operation)
    # A checkpoint on another disk is none of its reasons: a snapshot may come back here.
    must_see_drivers(site, state)
    found = diagnosis or diagnose_for(site, asked)
    option = must_be_possible(found, asked.action)
    announced = announcements(option)
    if missing := not_accepted(option, asked):
        raise OperationRefused(
            f"{asked.action.value} of {asked.job} needs a person: {'; '.join(costly(option))}",
            hint=f"{' '.join(missing)} and a --reason, if you accept that",
        )
    right = right_to_answer(site.settings, state, asked.requested_by)
    if option.asks and (objection := right.objection(asked.accepted_by, asked.accepted_by_id)):
        raise OperationRefused(
            f"{asked.action.value} of {asked.job} loses or duplicates rows, and is not accepted: {objection}",
            hint="the DAG streaming_recover asks a person who may accept it",
        )
    if option.asks and asked.announced and asked.announced != announced:
        raise OperationRefused(
            f"the effects have changed since they were accepted: {'; '.join(costly(option))}",
            hint="diagnose the job again, and accept the new effects",
        )
    copies = copy_without_plans(site, asked.job, option.replans) if asked.action is RecoveryAction.REPLAN else {}
    return Deploy.open(site, operation, recovery_request(state.serving_release, asked, found, copies=copies))


def must_be_possible(found: Diagnosis, action: RecoveryAction) -> Option:
    """What is said of an action; raises OperationRefused for one that there is not."""
    option = found.option(action)
    if not option.possible:
        raise OperationRefused(f"{action.value} of {found.job} is not possible: {option.why_not}", hint=found.advice)
    return option


def not_accepted(option: Option, asked: Asked) -> list[str]:
    """The flags that are missing for what an action loses or doubles."""
    accepts = bool(asked.accepted_by)
    loses, doubles = any(price.lost for price in option.prices), any(price.doubles for price in option.prices)
    missing = ["--accept-loss"] if loses and not (accepts and asked.accept_loss) else []
    return [*missing, "--accept-replay"] if doubles and not (accepts and asked.accept_replay) else missing


def announcements(option: Option) -> tuple[str, ...]:
    """One sentence for each output."""
    return tuple(price.sentence for price in option.prices)


def costly(option: Option) -> list[str]:
    """The sentences of the outputs that lose or double."""
    return [price.sentence for price in option.prices if price.asks]


def recovery_request(
    release: str, asked: Asked, found: Diagnosis, *, copies: Mapping[str, str] | None = None
) -> DeployRequest:
    """The deploy that carries out what was announced; a dry run prints its steps.

    ``copies``: query -> the snapshot without the plan of the batch that is planned again.
    """
    option = found.option(asked.action)
    replans = asked.action is RecoveryAction.REPLAN
    loses = option.asks and asked.accept_loss and found.cause is Cause.OUTPUT_LOST
    rebuilt = tuple(price.query for price in option.prices) if asked.action is RecoveryAction.REBUILD else ()
    return DeployRequest(
        job=asked.job,
        release=release,
        strategy=Strategy.REBUILD if rebuilt else Strategy.RESUME,
        handover=Handover.WARM,
        reason=asked.reason or f"recover: {found.sentence}",
        requested_by=asked.requested_by,
        accept_output_loss=loses and asked.action is RecoveryAction.RESTART,
        drain_s=asked.drain_s,
        standby_s=asked.standby_s,
        first_commit_s=asked.first_commit_s,
        approve_s=asked.approve_s,
        catch_up_s=asked.catch_up_s,
        probation_batches=asked.probation_batches,
        probation_s=asked.probation_s,
        recover=Recovery(
            action=RecoveryAction.RESTORE if replans else asked.action,
            cause=found.cause.value,
            snapshots=dict(copies or {}) if replans else option.snapshots,
            replans=option.replans if replans else {},
            rebuilt=rebuilt,
            announced=announcements(option),
            accepted_by=asked.accepted_by if option.asks else "",
        ),
    )
