"""Allow one dual run at a time, because a dual run needs two drivers of a job and the machine's memory is limited.

Correctness does not depend on this limit, so there is no lock: if two dual runs start at the same moment, both
continue.
"""

from __future__ import annotations

import msgspec

from streamkeeper.errors import PermanentError
from streamkeeper.lifecycle.steps import current_step, path
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.step import Step
from streamkeeper.operations.jobs.installation import Installation
from streamkeeper.registry.jobs import list_jobs

TURN = "another dual run"
"""What an operation waits for while another job's dual run keeps it from starting its own."""


class DualRun(msgspec.Struct, frozen=True, kw_only=True):
    """An open operation whose job currently runs two drivers."""

    job: str
    operation: str

    @property
    def sentence(self) -> str:
        """The dual run as a sentence."""
        return f"job {self.job} is in a dual run (operation {self.operation})"


def dual_run_before(installation: Installation, job: str, operation: str) -> DualRun | None:
    """Return another job's dual run that must finish before this operation may start its own; None if this operation
    need not wait.
    """
    state = installation.journal(job, f"operation:{operation}").state()
    if not _is_to_begin(state, state.operations[operation]):
        return None
    others = (other for other in list_jobs(installation.store) if other != job)
    return next((found for found in (_dual_run_of(installation, other) for other in others) if found is not None), None)


def never_came(before: DualRun, limit_s: float) -> str:
    """Return the reason for stopping an operation that has waited ``limit_s`` seconds for another job's dual run."""
    return f"{before.sentence} and has not ended within {limit_s:g} s"


def _is_to_begin(state: JobState, operation: OperationState) -> bool:
    over = operation.outcome is not None or operation.fall_back or operation.abort
    if over or Step.SHADOW not in path(operation) or operation.has_done(Step.SHADOW):
        return False
    return not _shadows(state, operation)


def _dual_run_of(installation: Installation, job: str) -> DualRun | None:
    """Return the dual run of a job; None without one.

    The dual run is over once the new driver was ordered to start, because the old driver has terminated before that
    order. A dual run that waits for a person does not count, because an answer may take a day.
    """
    try:
        state = installation.journal(job, "reader").state()
    except PermanentError:
        # Damaged records of another job must not delay this one.
        return None
    operation = state.open_operation
    if operation is None or not _shadows(state, operation) or operation.has_done(Step.GO):
        return None
    if current_step(operation) is Step.REVIEW:
        return None
    return DualRun(job=job, operation=operation.operation)


def _shadows(state: JobState, operation: OperationState) -> bool:
    shadow = state.instances.get(state.shadow)
    return shadow is not None and shadow.operation == operation.operation
