"""Decisions about an opaque change: back up the state, ask a person, verify that the approval applies to the present
evidence.
"""

from __future__ import annotations

from streamkeeper.lifecycle.actions import BackUp, CheckDrift, Decision, MarkDone, Wait
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.draining import end, gathered
from streamkeeper.lifecycle.instances import candidate_of, give_up, instance_name, make_decision, ready, start
from streamkeeper.lifecycle.steps import deadline_s
from streamkeeper.model.records.journal_records import About, ApprovalAnswered, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.requests.request import Handover

ANSWER = "an approval"
"""The name of the wait while a person decides."""
ABOUT = {Step.APPROVE: About.STATE, Step.REVIEW: About.OUTPUT}
"""The subject of the question, by the step that asks a question."""


def keep_state(observation: Observation) -> Decision:
    """Return the decision to back up the state before a person is asked. The backup is the rollback path."""
    return make_decision(
        Step.KEEP_STATE, BackUp(), "a person must approve the transition, and the backup is the rollback path"
    )


def approve(observation: Observation) -> Decision:
    """Return the decision to stop the standby or, once it has terminated, to wait for the answer.

    The standby is stopped because it would occupy resources during the wait.
    """
    step, operation = Step.APPROVE, observation.operation
    standby = instance_name(operation.operation, Role.CANDIDATE)
    if standby in observation.state.instances and not observation.state.instances[standby].ended:
        ending = end(observation, step, standby)
        if ending is not None:
            return ending
    return await_answer(observation, step)


def await_answer(observation: Observation, step: Step, *, why: str = "") -> Decision:
    """Return the decision to wait for a person's answer, to mark the step done, or to give up.

    An approval marks the step done. A rejection, an approval by a person who may not approve, and a missed deadline
    lead to giving up. ``why``: the subject of the question.
    """
    answer, limit = answer_about(observation.operation, ABOUT[step]), deadline_s(step, observation.operation.request)
    if answer is None:
        if observation.on == ANSWER and observation.waited_s > limit:
            return give_up(step, f"not approved: no answer within {limit:g} s{f' ({why})' if why else ''}")
        return make_decision(step, Wait(ANSWER, limit), f"a person must approve{f': {why}' if why else ''}")
    if answer.approved and observation.objection:
        # The process that recorded the answer may have had other lists of approvers, or none.
        return give_up(step, f"not approved: {observation.objection}")
    said = f"{answer.by}: {answer.reason or 'no reason given'}"
    return (
        make_decision(step, MarkDone(), f"approved by {said}")
        if answer.approved
        else give_up(step, f"not approved by {said}")
    )


def answer_about(operation: OperationState, about: About) -> ApprovalAnswered | None:
    """Return a person's recorded answer about this subject; None if there is no answer."""
    return operation.review if about is About.OUTPUT else operation.approval


def get_ready(observation: Observation) -> Decision:
    """Return the decision to regather the evidence on the present checkpoint, and then to compare it with the approved
    evidence.

    In a warm handover, the standby gathers the evidence. In a cold handover, an instance with the role DESCRIBER
    gathers it, and is stopped afterwards.
    """
    step, operation = Step.READY, observation.operation
    release = operation.release
    if operation.request.handover is Handover.WARM:
        name = candidate_of(operation)
        pending = start(observation, step, name, release, Role.CANDIDATE) or ready(observation, step, name)
    else:
        name = instance_name(operation.operation, Role.DESCRIBER, again=True)
        pending = start(observation, step, name, release, Role.DESCRIBER) or gathered(observation, step, name)
    if pending is not None:
        return pending
    return make_decision(step, CheckDrift(), "the evidence must match the approved one")
