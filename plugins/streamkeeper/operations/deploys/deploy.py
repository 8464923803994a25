"""The deploy: observe, decide, record and act, until a step is done, a wait is needed, or the operation has ended."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TypeGuard

import msgspec

from streamkeeper.checkpoints.trees import Tree
from streamkeeper.errors import InvalidInput, OperationOpen, OperationRefused, PermanentError, StreamkeeperError
from streamkeeper.lifecycle.actions import (
    Action,
    Appoint,
    Decision,
    FallBack,
    Finish,
    GiveUpStarting,
    Kill,
    Launch,
    Wait,
)
from streamkeeper.lifecycle.approval_steps import ABOUT, answer_about
from streamkeeper.lifecycle.decision_input import Observation
from streamkeeper.lifecycle.deploy_steps import decide
from streamkeeper.lifecycle.fall_back import reserve_of
from streamkeeper.lifecycle.instances import kill_wait
from streamkeeper.lifecycle.right_to_answer import must_have_right
from streamkeeper.lifecycle.steps import PlannedStep, current_step, plan_deploy
from streamkeeper.model.names import check_instance
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.journal_records import AbortRequested, OperationStarted, Outcome, Record, Role
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.model.records.transitions import Reached
from streamkeeper.model.requests.request import DeployRequest
from streamkeeper.model.requests.request_limits import check_request
from streamkeeper.operations.deploys.approval import right_of
from streamkeeper.operations.deploys.catching_up import how_far, last_written
from streamkeeper.operations.deploys.deploy_acts import DeployActs, unknown_operation
from streamkeeper.operations.deploys.repeated_requests import must_be_the_same
from streamkeeper.operations.jobs.forgetting import must_not_be_forgotten
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.operations.jobs.lost_jobs import must_not_be_lost
from streamkeeper.operations.jobs.missing_input import missing_to_fall_back
from streamkeeper.operations.jobs.observation import DriverObservation
from streamkeeper.operations.jobs.outdated import must_not_be_outdated_as_far_as_seen
from streamkeeper.operations.jobs.placement import must_see, running_instances
from streamkeeper.operations.jobs.registered import must_know_commits
from streamkeeper.system import clock
from streamkeeper.system.crash_points import crash_point

POLL_S = 0.1
"""Pause between two observations while this process waits, seconds."""


class OnOpen(Enum):
    """How a new deploy treats another open operation."""

    REFUSE = "refuse"
    CONTINUE = "continue"
    ABORT = "abort"


class ProgressKind(Enum):
    """The result of one call of ``Deploy.advance``."""

    DONE = "done"
    """Every step up to the requested one is done."""
    WAITING = "waiting"
    """An external event is needed; observe again soon."""
    FALLING_BACK = "falling-back"
    """The candidate was given up; advance to FALL_BACK to end the operation properly."""
    ENDED = "ended"
    """The operation has its outcome."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an operation; pass ``on`` and ``waited_s`` to ``Deploy.load`` to continue it."""

    kind: ProgressKind
    """The result of the advance."""
    step: Step
    """The step that the operation has reached."""
    sentence: str
    """The progress in words."""
    outcome: Outcome | None = None
    """The outcome of an ended operation, or the expected one of an operation that was given up; else None."""
    on: str = ""
    """The event that the operation waits for; empty without a wait."""
    waited_s: float = 0.0
    """How long that wait has lasted, seconds."""
    deadline_s: float = 0.0
    """How long that wait may last, seconds; 0 if an action that just started has to be observed soon."""


class Deploy:
    """One deploy of one job; its whole state is in the journal, so any process may continue it."""

    def __init__(
        self, installation: Installation, job: str, operation: str, *, on: str = "", waited_s: float = 0.0
    ) -> None:
        self.installation, self.job, self.operation = installation, job, operation
        self._journal = installation.journal(job, f"operation:{operation}")
        self._acts = DeployActs(installation, self._journal, job, operation)
        self._on, self._since = on, clock.monotonic() - waited_s

    @classmethod
    def open(
        cls,
        installation: Installation,
        operation: str,
        request: DeployRequest,
        *,
        on_open: OnOpen = OnOpen.REFUSE,
        prepare: Callable[[JobState], DeployRequest] | None = None,
        allowed: Callable[[JobState], None] | None = None,
    ) -> Deploy:
        """Start the operation and return it, or return it if it was started before. All checks of a request are here.

        ``operation``: a new id; ``on_open``: whether to refuse (OperationOpen), continue or abort another open
        operation; ``prepare``: checks a request against the job's state before a new operation, and returns the request
        to record; ``allowed``: raises if the operation must not start in the given state.

        The order: the request by itself; ``prepare``, and the request that it returns; whether the journal is outdated
        or lost; the commits to fall back to; and, as part of recording, whether the id has another request, the right
        to answer in advance, other operations, a forgotten job, ``allowed``. Raises InvalidInput, JournalOutdated,
        JournalLost and OperationRefused.
        """
        check_request(request)
        check_instance(operation)
        if request.dry_run and on_open is not OnOpen.REFUSE:
            raise InvalidInput(f"a dry run cannot {on_open.value} an open operation", hint="omit on_open")
        deploy = cls(installation, request.job, operation)
        state = deploy.state
        free = state.open_operation is None or on_open is OnOpen.ABORT
        if prepare is not None and free and operation not in state.operations:
            request = prepare(state)
            # It inherits params and confs, which count for the limits too.
            check_request(request)
            # The driver that runs may have recorded new epochs meanwhile.
            state = deploy.state
        must_not_be_outdated_as_far_as_seen(installation, state)
        if state.number == 0:
            must_not_be_lost(installation, request.job)
        if state.open_operation is None and operation not in state.operations:
            # Checked before the record: without the commits no operation could continue or fall back.
            must_know_commits(installation, state)
        other = deploy._start(request, on_open, allowed)
        if other is None:
            return deploy
        deploy = cls(installation, request.job, other)
        if on_open is OnOpen.CONTINUE:
            return deploy
        deploy.abort(requested_by=request.requested_by, reason=f"superseded by {operation}: {request.reason}")
        deploy.run(until=Step.FALL_BACK)
        return cls.open(installation, operation, request, on_open=OnOpen.REFUSE, allowed=allowed)

    @classmethod
    def load(
        cls, installation: Installation, job: str, operation: str, *, on: str = "", waited_s: float = 0.0
    ) -> Deploy:
        """Return a started deploy; raises NotFound.

        ``on`` and ``waited_s``: as in the deploy's last ``Progress``.
        """
        deploy = cls(installation, job, check_instance(operation), on=on, waited_s=waited_s)
        if operation not in deploy.state.operations:
            raise unknown_operation(job, operation)
        return deploy

    @property
    def state(self) -> JobState:
        """The job's state as recorded now."""
        return self._journal.state()

    def plan(self) -> tuple[PlannedStep, ...]:
        """Return the steps that this deploy announced, in order."""
        state = self.state
        operation = state.operations[self.operation]
        announced = set(operation.steps)
        everything = plan_deploy(operation.request, serving=state.predecessor, stopped=state.stopped)
        return tuple(step for step in everything if step.step.tag in announced)

    def abort(self, *, requested_by: str, reason: str) -> None:
        """Request to abort the operation.

        The next ``advance`` that reaches the operation's current step then gives up the candidate. An ``advance`` to
        FALL_BACK rolls back and ends the operation.
        If only the promotion is left, the request has no effect. Raises OperationRefused if the operation has ended.
        """

        def ask(state: JobState) -> Record | None:
            current = state.operations.get(self.operation)
            if current is None:
                raise unknown_operation(self.job, self.operation)
            if current.outcome is not None:
                raise OperationRefused(f"operation {self.operation} has already ended: {current.sentence}")
            if current.abort:
                return None
            return AbortRequested(operation=self.operation, requested_by=requested_by, reason=reason)

        self._journal.append(ask)

    def advance(self, until: Step) -> Progress:
        """Carry out steps up to ``until``, as far as they need no waiting, and return the progress.

        Raises TemporaryError if the store fails. Raises WrongMachine if a driver can only be observed from another
        machine: ``advance`` must then be called there, and the operation stays open.
        """
        while True:
            observation = self._observe()
            self._must_be_here(observation)
            decision = decide(observation)
            if decision is None:
                return self._ended(observation.operation)
            if observation.operation.fall_back and until is not Step.FALL_BACK:
                return Progress(
                    kind=ProgressKind.FALLING_BACK,
                    step=decision.step,
                    sentence=observation.operation.fall_back,
                    outcome=observation.operation.outcome_if_untouched,
                )
            if decision.step > until:
                return Progress(kind=ProgressKind.DONE, step=until, sentence=decision.reason)
            if isinstance(decision.action, Wait):
                return self._waiting(decision, decision.action.on, decision.action.deadline_s)
            self._carry_out(decision)
            if isinstance(decision.action, Kill):
                return self._waiting(decision, kill_wait(decision.action.instance))
            if isinstance(decision.action, Launch):
                return self._waiting(decision, self._on)
            self._on = ""

    def run(self, until: Step = Step.FALL_BACK, *, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Advance and wait until the step ``until`` is done or the operation has ended; every wait has a deadline."""
        while True:
            progress = self.advance(until)
            if on_progress is not None:
                on_progress(progress)
            if progress.kind is not ProgressKind.WAITING:
                return progress
            clock.sleep(POLL_S)

    def _start(self, request: DeployRequest, on_open: OnOpen, allowed: Callable[[JobState], None] | None) -> str | None:
        """Start this operation; or return the id of the open one that ``on_open`` continues or aborts, else None."""
        found: list[str] = []

        def begin(state: JobState) -> Record | None:
            found.clear()
            if self.operation in state.operations:
                must_be_the_same(state.operations[self.operation], request)
                return None
            must_have_right(self.installation.settings, state, request)
            other = state.open_operation
            if other is None:
                must_not_be_forgotten(state, request)
                if allowed is not None:
                    allowed(state)
                steps = plan_deploy(request, serving=state.predecessor, stopped=state.stopped)
                return OperationStarted(
                    operation=self.operation, request=request, steps=tuple(step.step.tag for step in steps)
                )
            if on_open is OnOpen.REFUSE:
                raise OperationOpen(request.job, other.operation)
            found.append(other.operation)
            return None

        self._journal.append(begin)
        return found[0] if found else None

    def _observe(self) -> Observation:
        state = self._journal.state()
        operation = state.operations.get(self.operation)
        if operation is None:
            # An older copy of the store may have been put in its place since the start of this operation.
            raise unknown_operation(self.job, self.operation)
        names = {owner.instance for owner in state.owners}
        names |= {instance.instance for instance in state.instances.values() if instance.operation == self.operation}
        waited = clock.monotonic() - self._since if self._on else 0.0
        drivers = {name: DriverObservation.of(self.installation, state, name) for name in sorted(names)}
        return Observation(
            state=state,
            operation=operation,
            seen={name: driver.observed_by(self.operation) for name, driver in drivers.items()},
            reached=self._reached(state, operation),
            objection=self._objection(state, operation),
            lost_back=self._lost_back(state, operation),
            on=self._on,
            waited_s=waited,
        )

    def _must_be_here(self, observation: Observation) -> None:
        if observation.operation.outcome is None:
            seen = {name: each.liveness for name, each in observation.seen.items()}
            must_see(self.job, running_instances(observation.state), seen)

    def _objection(self, state: JobState, operation: OperationState) -> str:
        about = ABOUT.get(current_step(operation))
        answer = answer_about(operation, about) if about is not None else None
        return right_of(self.installation, state, operation).objection(answer.by) if answer is not None else ""

    def _reached(self, state: JobState, operation: OperationState) -> dict[str, Reached]:
        """Return query -> how far the dual run has caught up; empty in steps that do not need this."""
        step = current_step(operation)
        if step not in (Step.CATCH_UP, Step.CATCH_UP_AFTER_DRAIN):
            return {}
        reached: dict[str, Reached] = {}
        for query, way in operation.rebuilt.items():
            old = self.installation.checkpoint(state, query, way.before)
            new = self.installation.checkpoint(state, query, way.version)
            until = self._last_written(state, query, old) if step is Step.CATCH_UP_AFTER_DRAIN else None
            reached[query] = how_far(old, new, until=until)
        return reached

    def _lost_back(self, state: JobState, operation: OperationState) -> dict[str, str]:
        """Return query -> the rows that its rollback path loses; empty until the candidate that read these rows has
        terminated.
        """
        candidates = state.instances_of(operation.operation, Role.CANDIDATE)
        went = operation.fall_back and any(instance.appointed for instance in candidates)
        if operation.outcome is not None or not went or state.owners:
            return {}
        return missing_to_fall_back(self.installation, state, operation)

    def _last_written(self, state: JobState, query: str, old: Tree) -> int | None:
        epoch = state.epochs.get(query)
        driver = DriverObservation.of(self.installation, state, epoch.instance) if epoch is not None else None
        return last_written(old, epoch, driver.readable_status if driver is not None else None)

    def _carry_out(self, decision: Decision) -> None:
        name = f"act.{decision.step.label}.{type(decision.action).__name__.lower()}"
        crash_point(f"{name}.before")
        try:
            self._acts.carry_out(decision)
        except StreamkeeperError as error:
            self._acts.carry_out(self._instead(decision, error))
        crash_point(f"{name}.after")

    def _instead(self, decision: Decision, error: StreamkeeperError) -> Decision:
        """Return the decision to take instead of the one whose action failed; raise the error if there is no such
        decision.
        """
        step, action = decision.step, decision.action
        permanent = isinstance(error, PermanentError)
        known = self.state.operations.get(self.operation)
        if known is None:
            raise error
        if self._starts_old_release(action) and (permanent or self._is_reserve(action.instance)):
            # Another attempt follows the reserve's; after the last attempt no decision is left.
            return Decision(step=step, action=GiveUpStarting(action.instance), reason=str(error))
        if isinstance(action, FallBack) or not permanent:
            raise error
        if known.fall_back:
            # To decide the same again would repeat the failed action without end.
            lost = f"{self.state.predecessor} could not be restarted: {error}"
            return Decision(step=step, action=Finish(Outcome.FAILED), reason=f"{known.fall_back}; {lost}")
        return Decision(step=step, action=FallBack(Outcome.REFUSED), reason=str(error))

    def _starts_old_release(self, action: Action) -> TypeGuard[Launch | Appoint]:
        if not isinstance(action, Launch | Appoint):
            return False
        instance = self.state.instances.get(action.instance)
        return instance is not None and instance.role is Role.FALLBACK

    def _is_reserve(self, instance: str) -> bool:
        return instance == reserve_of(self.state.operations[self.operation])

    def _waiting(self, decision: Decision, on: str, deadline_s: float = 0.0) -> Progress:
        if on != self._on or not on:
            self._on, self._since = on or decision.step.label, clock.monotonic()
        return Progress(
            kind=ProgressKind.WAITING,
            step=decision.step,
            sentence=decision.reason,
            on=self._on,
            waited_s=clock.monotonic() - self._since,
            deadline_s=deadline_s,
        )

    def _ended(self, operation: OperationState) -> Progress:
        return Progress(
            kind=ProgressKind.ENDED,
            step=Step.FALL_BACK if operation.fall_back else Step.PROMOTE,
            sentence=operation.sentence,
            outcome=operation.outcome,
        )
