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
from streamkeeper.model.records.job_state import JobState
from streamkeeper.model.records.operation import OperationState


@dataclass(frozen=True, slots=True)
class Stage:
    """The running system, its Airflow, the deployer, and the function that prints progress on the screen."""

    system: System
    airflow: Airflow
    deployer: Deployer
    tell: Tell

    @property
    def places(self) -> Places:
        """The folders of the demo."""
        return self.system.places

    def state(self, job: str) -> JobState:
        """Return the current state of a job, from its journal."""
        return self.system.installation.journal(job, "demo").state()

    def last_operation(self, job: str) -> OperationState:
        """Return the job's last started operation."""
        return max(self.state(job).operations.values(), key=lambda each: each.started)

    def form(self, job: str, reason: str, **fields: object) -> dict[str, object]:
        """Return the values of the trigger form for every release after the first."""
        return deploy_conf(self.places, job, files_per_trigger=400, reason=reason, **fields)


@dataclass(frozen=True, slots=True)
class Act:
    """One act. ``play`` raises if the outcome is unexpected; ``promises`` is the text printed before the act."""

    name: str
    promises: str
    play: Callable[[Stage], list[StepReport]]


class ActReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an act: its steps, and the ledger afterwards."""

    name: str
    steps: list[StepReport]
    ledger: list[Account]
    wall_s: float
