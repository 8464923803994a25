"""The acts that save and recover a job: a scheduled backup, its drill, a deleted checkpoint and a killed driver."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from demo.acts.switching import Approver
from demo.deploys import Asked, Deployer, StepReport
from harness.airflow_process import Airflow
from harness.forms import SALES_TOTALS
from harness.system import System, Tell
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, InvalidInput, StillWaiting
from streamkeeper.model.protocol.liveness import Life
from streamkeeper.model.records.snapshot import series_of_query
from streamkeeper.model.records.transitions import Transition
from streamkeeper.model.watch.health import Urgency
from streamkeeper.operations.jobs.targets import query_target
from streamkeeper.registry.incidents import IncidentLog
from streamkeeper.snapshots.catalogue import Catalogue

BACKUP, DRILL, WATCH, RECOVER = "streaming_backup", "streaming_drill", "streaming_watch", "streaming_recover"
LOST, DEAD = "checkpoint-missing", "driver-dead"
QUERY = "totals"
SERIES = series_of_query(SALES_TOTALS, QUERY)


SCHEDULES = {
    "STREAMKEEPER_BACKUP_SCHEDULE": "* * * * *",
    "STREAMKEEPER_DRILL_SCHEDULE": "never",
    "STREAMKEEPER_PRUNE_SCHEDULE": "never",
    "STREAMKEEPER_WATCH_SCHEDULE": "never",
}
"""Only the backup starts by schedule, and only during its act, so that each act is visible on its own."""
BY_HAND = {
    **SCHEDULES,
    "STREAMKEEPER_BACKUP_SCHEDULE": "never",
    # Show the recovery: a watch that acts would have started the driver first.
    "STREAMKEEPER_WATCH_ACTS": "no",
}
"""The settings of the demos without a backup: no DAG starts by schedule."""


def hold_backups(airflow: Airflow) -> None:
    """Pause the backups' schedule until their act; raises StillWaiting if Airflow has not loaded the DAG."""

    def held() -> bool:
        try:
            airflow.api.set_paused(BACKUP, True)
        except InvalidInput:
            return False
        return airflow.api.has_dag(DRILL)

    if not wait_until(held, timeout_s=60, poll_s=0.5):
        raise StillWaiting(f"Airflow does not know the DAGs {BACKUP} and {DRILL} after 60 s")


def back_up_by_schedule(system: System, airflow: Airflow, tell: Tell, *, timeout_s: float = 300) -> StepReport:
    """Let the scheduler start a backup while the jobs run; raises StillWaiting if it starts or finishes too late,
    DeployFailed if it fails.
    """
    began = time.monotonic()
    before = set(airflow.api.runs(BACKUP))
    airflow.api.set_paused(BACKUP, False)
    try:
        run = _scheduled_run(airflow, before, timeout_s)
        state = airflow.api.wait_for_run(BACKUP, run, timeout_s=timeout_s)
    finally:
        airflow.api.set_paused(BACKUP, True)
    newest = Catalogue(system.installation.snapshots, SERIES).newest()
    if state != "success" or newest is None:
        raise DeployFailed(f"the scheduled backup ended as {state}", hint=f"run {run} of {BACKUP}")
    text = f"{newest.name} holds batch {newest.batch}: {len(newest.files)} files, {newest.bytes:,} bytes"
    return _report("scheduled backup", text, began, tell)


def drill(system: System, airflow: Airflow, tell: Tell, *, timeout_s: float = 600) -> StepReport:
    """Run a drill of the newest snapshot and return the report; raises DeployFailed if the drill fails."""
    began = time.monotonic()
    run = airflow.api.trigger(DRILL, {"job": SALES_TOTALS})
    state = airflow.api.wait_for_run(DRILL, run, timeout_s=timeout_s)
    catalogue = Catalogue(system.installation.snapshots, SERIES)
    number = catalogue.numbers()[-1]
    results = catalogue.drills(number)
    if state != "success" or not results or not results[-1].ok:
        why = results[-1].message if results else "it has no result"
        raise DeployFailed(f"the drill ended as {state}: {why}", hint=f"run {run} of {DRILL}")
    return _report("drill", f"verified: {results[-1].message}", began, tell)


def lose_and_recover(system: System, airflow: Airflow, deployer: Deployer, tell: Tell) -> list[StepReport]:
    """Kill the driver and delete its checkpoint; the watch raises an incident, and the recovery restores the
    checkpoint.

    Raises DeployFailed if the watch reports a different problem, or still reports a problem after the recovery.
    """
    checkpoint = Path(query_target(system.installation, SALES_TOTALS, QUERY).location)
    _kill(system, SALES_TOTALS)
    shutil.rmtree(checkpoint)
    tell(f"  the checkpoint {checkpoint.name} of {SERIES} is deleted under its killed driver")
    recovery = Asked(
        name=f"{SALES_TOTALS}: recovered",
        form={"job": SALES_TOTALS, "action": "restore", "reason": "its checkpoint was deleted"},
        way=Transition.RESTORE,
        dag=RECOVER,
        meanwhile=Approver(airflow.api, tell, "accept", "nothing deletes sales files"),
    )
    return _raise_and_recover(system, airflow, deployer, tell, recovery, wanted=LOST)


def kill_and_recover(system: System, airflow: Airflow, deployer: Deployer, tell: Tell, job: str) -> list[StepReport]:
    """Kill every process of the driver; the watch raises an incident, and the recovery restarts the driver.

    The watch must be configured to notify only, not to restart drivers itself. Raises like ``lose_and_recover``.
    """
    tell(f"  {_kill(system, job)} is killed, and its supervisor too")
    return recover_dead(system, airflow, deployer, tell, job, reason="its driver was killed")


def recover_dead(
    system: System, airflow: Airflow, deployer: Deployer, tell: Tell, job: str, *, reason: str
) -> list[StepReport]:
    """Let the watch raise an incident for a driver that has already terminated, and recover the job."""
    recovery = Asked(
        name=f"{job}: recovered",
        form={"job": job, "action": "restart", "reason": reason},
        way=Transition.RESUME,
        dag=RECOVER,
    )
    return _raise_and_recover(system, airflow, deployer, tell, recovery, wanted=DEAD)


def _raise_and_recover(
    system: System, airflow: Airflow, deployer: Deployer, tell: Tell, recovery: Asked, *, wanted: str
) -> list[StepReport]:
    """Run the watch, the recovery, and the watch a second time. The first pass must raise the rule ``wanted``, the last
    one no problem.
    """
    raised = _watched(system, airflow, tell, recovery.job, wanted=wanted)
    return [raised, deployer.deploy(recovery), _watched(system, airflow, tell, recovery.job, wanted="")]


def _watched(
    system: System, airflow: Airflow, tell: Tell, job: str, *, wanted: str, timeout_s: float = 120
) -> StepReport:
    """Trigger one pass of the watch. Afterwards ``wanted`` must be the only open rule of severity ``page``; an empty
    text means that none may be open.
    """
    began = time.monotonic()
    state = airflow.api.wait_for_run(WATCH, airflow.api.trigger(WATCH, {}), timeout_s=timeout_s)
    found = IncidentLog(system.installation.store, job).state().open.values()
    pages = {each.symptom.rule: each.symptom for each in found if each.symptom.severity is Urgency.PAGE}
    if state != "success" or set(pages) != ({wanted} if wanted else set()):
        causes = ", ".join(each.cause for each in pages.values()) or "nothing"
        raise DeployFailed(f"the watch ended as {state}, and says: {causes}", hint=f"streamkeeper incidents {job}")
    causes = pages[wanted].cause if wanted else "nothing is wrong any more"
    return _report("watch", causes, began, tell)


def _kill(system: System, job: str) -> str:
    """Kill every process of the current driver, including its supervisor, so that nothing restarts it; return the name
    of the driver instance.
    """
    instance = system.installation.journal(job, "demo").state().serving_instance

    def dead() -> bool:
        system.installation.runner.kill(job, instance)
        return system.installation.runner.observe(job, instance).life is Life.DEAD

    if not wait_until(dead, timeout_s=30):
        raise StillWaiting(f"{instance} does not end")
    return instance


def _scheduled_run(airflow: Airflow, before: set[str], timeout_s: float) -> str:
    found: list[str] = []

    def started() -> bool:
        runs = airflow.api.runs(BACKUP)
        found[:] = [run for run, kind in runs.items() if kind == "scheduled" and run not in before]
        return bool(found)

    if not wait_until(started, timeout_s=timeout_s, poll_s=0.5):
        raise StillWaiting(f"the scheduler started no backup within {timeout_s:.0f} s")
    return found[0]


def _report(name: str, outcome: str, began: float, tell: Tell) -> StepReport:
    wall_s = round(time.monotonic() - began, 1)
    tell(f"[green]{name}[/]: {outcome} ({wall_s:.0f} s)")
    return StepReport(name=name, outcome="done", wall_s=wall_s, told=outcome)
