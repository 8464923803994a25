"""Deploys by Airflow's REST interface, told as they go, and what became of them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from demo.airflow_process import Airflow
from demo.gap import handover_gap_s
from demo.releases import DAG
from demo.system import System, Tell
from streamkeeper.errors import DeployFailed
from streamkeeper.model.journal import Outcome
from streamkeeper.orchestration.run_names import operation_id

_WORTH_TELLING = frozenset({"success", "failed", "up_for_retry", "deferred"})


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report. ``verdict`` and ``handover_gap_s`` only where there are such things."""

    name: str
    verdict: str | None
    outcome: str
    handover_gap_s: float | None
    wall_s: float


class Deployer:
    """Triggers deploys and waits for them."""

    def __init__(self, system: System, airflow: Airflow, tell: Tell) -> None:
        self._system, self._api, self._tell = system, airflow.api, tell

    def deploy_all(self, deploys: dict[str, dict[str, Any]]) -> list[StepReport]:
        """Deploy several jobs at once (name of the step -> the form); raises DeployFailed when one fails."""
        with ThreadPoolExecutor(max_workers=len(deploys)) as pool:
            return list(pool.map(self.deploy, deploys.keys(), deploys.values()))

    def deploy(self, name: str, form: dict[str, Any], *, timeout_s: float = 300) -> StepReport:
        """Deploy one job and wait; raises DeployFailed with the operation's own sentence."""
        began = time.monotonic()
        run_id = self._api.trigger(DAG, form)
        self._api.wait_for_run(DAG, run_id, timeout_s=timeout_s, on_change=self._teller(name))
        operation = operation_id(DAG, run_id)
        journal = self._system.site.journal(form["job"], "demo")
        done = journal.state().operations.get(operation)
        wall_s = time.monotonic() - began
        if done is None or done.outcome not in (Outcome.SUCCEEDED, Outcome.DRY_RUN):
            why = done.sentence if done is not None and done.outcome is not None else self._last_error(run_id)
            raise DeployFailed(f"{name}: {why}", hint=f"run {run_id} of {DAG}")
        gap_s = handover_gap_s(journal, operation, self._system.places.checkpoints, form["job"])
        gap = f", handover gap {gap_s:.2f} s" if gap_s is not None else ""
        self._tell(f"[green]{name}[/]: {done.sentence}{gap} ({wall_s:.0f} s)")
        return StepReport(
            name=name,
            verdict=done.verdict.name if done.verdict is not None else None,
            outcome=done.outcome.value,
            handover_gap_s=None if gap_s is None else round(gap_s, 3),
            wall_s=round(wall_s, 1),
        )

    def _teller(self, name: str) -> Any:
        def on_change(task_id: str, state: str) -> None:
            if state in _WORTH_TELLING and not (state == "success" and task_id == "choose"):
                self._tell(f"  {name}: {task_id.removeprefix('resume.')} {_WORDS.get(state, state)}")

        return on_change

    def _last_error(self, run_id: str) -> str:
        log = self._api.task_log(DAG, run_id, "finish")
        lines = [line for line in log.splitlines() if " error " in line]
        return lines[0] if lines else "see the log of task finish"


_WORDS = {"success": "done", "failed": "[red]failed[/]", "deferred": "waits, deferred", "up_for_retry": "tries again"}
