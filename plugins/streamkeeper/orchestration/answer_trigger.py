"""The trigger that waits for a person's answer, which may be given in Airflow or on the command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk.timezone import utcnow
from airflow.triggers.base import TriggerEvent

from streamkeeper.errors import TemporaryError
from streamkeeper.lifecycle.approval_steps import ABOUT, answer_about
from streamkeeper.model.records.step import Step

if TYPE_CHECKING:
    from streamkeeper.model.records.operation import OperationState
    from streamkeeper.operations.jobs.installation import Installation

APPROVE, DECLINE = "Approve", "Decline"
POLL_S = 3.0


class AnswerTrigger(HITLTrigger):
    """Fires once a person has answered the question, or with the default answer after the timeout.

    The trigger looks for an answer in the journal and in Airflow. When a person answers in Airflow while the trigger
    waits, Airflow itself resumes the task, without this trigger.
    """

    def __init__(
        self, *, job: str, operation: str, step: str = Step.APPROVE.name, poke_interval: float = POLL_S, **kwargs: Any
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.job, self.operation, self.step = job, operation, step

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return this class's import path, and the arguments from which Airflow creates the trigger again."""
        _, made_from = super().serialize()
        where = f"{type(self).__module__}.{type(self).__qualname__}"
        return where, {**made_from, "job": self.job, "operation": self.operation, "step": self.step}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, the answer."""
        while True:
            if self.timeout_datetime and self.timeout_datetime < utcnow():
                yield await self._handle_timeout()
                return
            event = await asyncio.to_thread(self._answered_elsewhere) or await self._handle_response()
            if event is not None:
                yield event
                return
            await asyncio.sleep(self.poke_interval)

    def _answered_elsewhere(self) -> TriggerEvent | None:
        from streamkeeper.operations.jobs.installation import Installation

        try:
            installation: Installation = Installation.from_environment(os.environ)
            operation = installation.journal(self.job, f"trigger:{self.operation}").state().operations[self.operation]
        except TemporaryError as error:
            self.log.warning("%s", error)
            return None
        answer = answer_in(operation, Step[self.step])
        return None if answer is None else TriggerEvent(answer)


def answer_in(operation: OperationState, step: Step) -> dict[str, Any] | None:
    """Return the recorded answer in the shape of an answer in Airflow; None while the question is open.

    If the operation has ended, or is being rolled back or aborted, the question counts as declined.
    """
    answer = answer_about(operation, ABOUT[step])
    if answer is None and not (operation.outcome or operation.fall_back or operation.abort):
        return None
    approved = answer is not None and answer.approved
    return {
        "chosen_options": [APPROVE if approved else DECLINE],
        "params_input": {"reason": answer.reason} if answer is not None else {},
        "responded_at": utcnow(),
        "responded_by_user": None,
        "timedout": False,
    }
