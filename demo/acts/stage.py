"""The system that an act works on, and the report of an act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from demo.deploys import Deployer, StepReport
from harness.airflow_process import Airflow
from harness.forms import deploy_conf
from harness.ledger import Account
from harness.places import Places
from harness.system import System, Tell
from streamkeeper.model.job_state import JobState
from streamkeeper.model.operation import OperationState


@dataclass(frozen=True, slots=True)
class Stage:
    """The running system, its Airflow, and the printer."""

    system: System
    airflow: Airflow
    deployer: Deployer
    tell: Tell

    @property
    def places(self) -> Places:
        """The folders of the demo."""
        return self.system.places

    def state(self, job: str) -> JobState:
        """The current state of the job's journal."""
        return self.system.site.journal(job, "demo").state()

    def last_operation(self, job: str) -> OperationState:
        """The operation that was started last."""
        return max(self.state(job).operations.values(), key=lambda each: each.started)

    def form(self, job: str, reason: str, **fields: object) -> dict[str, object]:
        """The trigger form of every release after the first."""
        return deploy_conf(self.places, job, files_per_trigger=400, reason=reason, **fields)


@dataclass(frozen=True, slots=True)
class Act:
    """``play`` raises if the outcome is unexpected; ``promises``: the announcement before the act."""

    name: str
    promises: str
    play: Callable[[Stage], list[StepReport]]


class ActReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an act: its steps, and the ledger afterwards."""

    name: str
    steps: list[StepReport]
    ledger: list[Account]
    wall_s: float
