"""What an act works on, and what there is to tell of it afterwards."""

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
    """The running system, the Airflow beside it, and who tells."""

    system: System
    airflow: Airflow
    deployer: Deployer
    tell: Tell

    @property
    def places(self) -> Places:
        """Where the demo keeps its things."""
        return self.system.places

    def state(self, job: str) -> JobState:
        """What the job's journal adds up to now."""
        return self.system.site.journal(job, "demo").state()

    def last_operation(self, job: str) -> OperationState:
        """The one that was begun last."""
        return max(self.state(job).operations.values(), key=lambda each: each.started)

    def form(self, job: str, reason: str, **fields: object) -> dict[str, object]:
        """The trigger form of every release after the first."""
        return deploy_conf(self.places, job, files_per_trigger=400, reason=reason, **fields)


@dataclass(frozen=True, slots=True)
class Act:
    """``play`` raises when something did not become what it was to; ``promises``: what the audience is told before."""

    name: str
    promises: str
    play: Callable[[Stage], list[StepReport]]


class ActReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an act was: its steps, and the ledger when it was over."""

    name: str
    steps: list[StepReport]
    ledger: list[Account]
    wall_s: float
