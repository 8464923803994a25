"""Run deploys and rollbacks by Airflow's REST interface, print their progress and compare their outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from demo.gap import handover_gap_s, moment_of_first_commit
from harness.airflow_process import Airflow
from harness.forms import DAG
from harness.system import System, Tell
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.journal_records import Outcome
from streamkeeper.model.records.operation import OperationState
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.run_names import operation_id


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report. ``verdict``, ``way`` and ``handover_gap_s`` are set only if the operation has them.

    ``first_commit_s``: seconds from the trigger of the run until every query of the candidate had committed a batch or
    had found no input.
    """

    name: str
    outcome: str
    wall_s: float
    verdict: str | None = None
    way: str | None = None
    handover_gap_s: float | None = None
    first_commit_s: float | None = None
    told: str = ""


Meanwhile = Callable[["Run"], None]
"""Called at every check of a run that is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An operation to trigger, with its expected outcome. ``verdict`` or ``way`` is None if any value is accepted."""

    name: str
    form: dict[str, Any]
    verdict: Verdict | None = None
    way: Transition | None = None
    outcome: Outcome = Outcome.SUCCEEDED
    dag: str = DAG
    meanwhile: Meanwhile | None = None

    @property
    def job(self) -> str:
        """The operation's job."""
        return str(self.form["job"])


@dataclass(slots=True)
class Run:
    """A triggered run. ``seen`` maps each task to the last state that was printed."""

    asked: Asked
    run_id: str
    began: float
    triggered: float = field(default_factory=time.time)
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        """The id of the run's operation."""
        return operation_id(self.asked.dag, self.run_id)


class Deployer:
    """Triggers operations and waits for them, all in one thread, so that an interrupt takes effect at once."""

    def __init__(self, system: System, airflow: Airflow, tell: Tell) -> None:
        self._system, self._api, self._tell = system, airflow.api, tell

    def deploy(self, asked: Asked) -> StepReport:
        """Run one operation; raises DeployFailed for an unexpected outcome, StillWaiting after the deadline."""
        return self.deploy_all([asked])[0]

    def deploy_all(self, wanted: Sequence[Asked], *, timeout_s: float = 900) -> list[StepReport]:
        """Run several operations of different jobs at once; raises like ``deploy``."""
        deadline = time.monotonic() + timeout_s
        runs = [Run(each, self._api.trigger(each.dag, each.form), time.monotonic()) for each in wanted]
        reports: dict[str, StepReport] = {}
        while len(reports) < len(runs):
            for run in [each for each in runs if each.run_id not in reports]:
                if self._look(run):
                    reports[run.run_id] = self._report(run)
                elif run.asked.meanwhile is not None:
                    run.asked.meanwhile(run)
            if time.monotonic() > deadline:
                late = ", ".join(run.asked.name for run in runs if run.run_id not in reports)
                raise StillWaiting(f"{late}: not over after {timeout_s:.0f} s")
            time.sleep(0.5)
        return [reports[run.run_id] for run in runs]

    def _look(self, run: Run) -> bool:
        """Print the new task states of a run; return whether its last task and the run itself have finished."""
        tasks = self._api.tasks(run.asked.dag, run.run_id)
        for task_id, task in tasks.items():
            state = task["state"] or ""
            if state in _WORDS and run.seen.get(task_id) != state:
                run.seen[task_id] = state
                self._tell(f"  {run.asked.name}: {task_id} {_WORDS[state]}")
        if tasks[_LAST]["state"] not in ("success", "failed", "upstream_failed", "skipped"):
            return False
        return self._api.run_state(run.asked.dag, run.run_id) in ("success", "failed")

    def _report(self, run: Run) -> StepReport:
        asked, job = run.asked, run.asked.job
        journal = self._system.installation.journal(job, "demo")
        done = journal.state().operations.get(run.operation)
        if done is None or done.outcome is None:
            raise DeployFailed(f"{asked.name}: {self._last_error(run)}", hint=f"run {run.run_id} of {asked.dag}")
        wrong = find_wrong(asked, done)
        if wrong:
            raise DeployFailed(f"{asked.name}: {wrong}: {done.sentence}", hint=f"run {run.run_id} of {asked.dag}")
        gap_s = handover_gap_s(journal, run.operation, self._system.places.checkpoints, job)
        committed = moment_of_first_commit(journal, run.operation)
        report = StepReport(
            name=asked.name,
            outcome=done.outcome.value,
            wall_s=round(time.monotonic() - run.began, 1),
            verdict=done.verdict.name if done.verdict is not None else None,
            way=ways_of(done) or None,
            handover_gap_s=None if gap_s is None else round(gap_s, 3),
            first_commit_s=None if committed is None else round(committed - run.triggered, 1),
            told=done.sentence,
        )
        gap = f", handover gap {gap_s:.2f} s" if gap_s is not None else ""
        self._tell(f"[green]{asked.name}[/]: {done.sentence}{gap} ({report.wall_s:.0f} s)")
        return report

    def _last_error(self, run: Run) -> str:
        log = self._api.task_log(run.asked.dag, run.run_id, _LAST)
        lines = [line for line in log.splitlines() if " error " in line]
        return lines[0] if lines else f"see the log of task {_LAST}"


def find_wrong(asked: Asked, done: OperationState) -> str:
    """Return a description of what is unexpected about the outcome, verdict or transition of an operation, or an empty
    text if all are as expected.
    """
    if done.outcome is not asked.outcome:
        actual = done.outcome.value if done.outcome is not None else "nothing yet"
        return f"was to end as {asked.outcome.value}, and is {actual}"
    if asked.verdict is not None and done.verdict is not asked.verdict:
        actual = done.verdict.name if done.verdict is not None else "none"
        return f"its verdict was to be {asked.verdict.name}, and is {actual}"
    if asked.way is not None and {each.way for each in done.transitions.values()} != {asked.way}:
        return f"its way was to be {asked.way.value}, and is {ways_of(done) or 'none'}"
    return ""


def ways_of(done: OperationState) -> str:
    """Return the transitions of the operation's queries, such as ``resume``."""
    return ", ".join(sorted({each.way.value for each in done.transitions.values()}))


_LAST = "finish"
_WORDS = {
    "success": "done",
    "failed": "[red]failed[/]",
    "deferred": "waits, deferred",
    "awaiting_input": "waits for a person",
    "up_for_retry": "tries again",
}
