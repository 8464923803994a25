"""Deploys by Airflow's REST interface, told as they go, and what became of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from demo.airflow_process import Airflow
from demo.gap import handover_gap_s
from demo.releases import DAG
from demo.system import System, Tell
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.journal import Outcome
from streamkeeper.orchestration.run_names import operation_id


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report. ``verdict`` and ``handover_gap_s`` only where there are such things."""

    name: str
    verdict: str | None
    outcome: str
    handover_gap_s: float | None
    wall_s: float


@dataclass(slots=True)
class _Run:
    """A triggered run; ``seen``: the last told state of each task."""

    name: str
    form: dict[str, Any]
    run_id: str
    began: float
    seen: dict[str, str] = field(default_factory=dict)


class Deployer:
    """Triggers deploys and waits for them, all in one thread, so that an interrupt is never waited for."""

    def __init__(self, system: System, airflow: Airflow, tell: Tell) -> None:
        self._system, self._api, self._tell = system, airflow.api, tell

    def deploy(self, name: str, form: dict[str, Any]) -> StepReport:
        """Deploy one job and wait; raises DeployFailed with the operation's own sentence, StillWaiting when late."""
        return self.deploy_all({name: form})[0]

    def deploy_all(self, deploys: dict[str, dict[str, Any]], *, timeout_s: float = 600) -> list[StepReport]:
        """Deploy several jobs at once (name of the step -> the form)."""
        deadline = time.monotonic() + timeout_s
        runs = [_Run(name, form, self._api.trigger(DAG, form), time.monotonic()) for name, form in deploys.items()]
        reports: dict[str, StepReport] = {}
        while len(reports) < len(runs):
            for run in runs:
                if run.name not in reports and self._look(run):
                    reports[run.name] = self._report(run)
            if time.monotonic() > deadline:
                late = ", ".join(run.name for run in runs if run.name not in reports)
                raise StillWaiting(f"{late}: not over after {timeout_s:.0f} s")
            time.sleep(0.5)
        return [reports[name] for name in deploys]

    def _look(self, run: _Run) -> bool:
        """Tell what is new; whether the run is over."""
        over = self._api.run_state(DAG, run.run_id) in ("success", "failed")
        for task_id, task in self._api.tasks(DAG, run.run_id).items():
            state = task["state"] or ""
            if state in _WORDS and run.seen.get(task_id) != state:
                run.seen[task_id] = state
                self._tell(f"  {run.name}: {task_id.removeprefix('takeover.')} {_WORDS[state]}")
        return over

    def _report(self, run: _Run) -> StepReport:
        operation, job = operation_id(DAG, run.run_id), run.form["job"]
        journal = self._system.site.journal(job, "demo")
        done = journal.state().operations.get(operation)
        wall_s = time.monotonic() - run.began
        if done is None or done.outcome not in (Outcome.SUCCEEDED, Outcome.DRY_RUN):
            why = done.sentence if done is not None and done.outcome is not None else self._last_error(run.run_id)
            raise DeployFailed(f"{run.name}: {why}", hint=f"run {run.run_id} of {DAG}")
        gap_s = handover_gap_s(journal, operation, self._system.places.checkpoints, job)
        gap = f", handover gap {gap_s:.2f} s" if gap_s is not None else ""
        self._tell(f"[green]{run.name}[/]: {done.sentence}{gap} ({wall_s:.0f} s)")
        return StepReport(
            name=run.name,
            verdict=done.verdict.name if done.verdict is not None else None,
            outcome=done.outcome.value,
            handover_gap_s=None if gap_s is None else round(gap_s, 3),
            wall_s=round(wall_s, 1),
        )

    def _last_error(self, run_id: str) -> str:
        log = self._api.task_log(DAG, run_id, "finish")
        lines = [line for line in log.splitlines() if " error " in line]
        return lines[0] if lines else "see the log of task finish"


_WORDS = {"success": "done", "failed": "[red]failed[/]", "deferred": "waits, deferred", "up_for_retry": "tries again"}
