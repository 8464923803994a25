"""The acts that save a checkpoint and bring it back: a scheduled backup, its drill, a checkpoint that is deleted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from demo.airflow_process import Airflow
from demo.deploys import Asked, Deployer, StepReport
from demo.processes import wait_until
from demo.releases import SALES_TOTALS
from demo.system import System, Tell
from streamkeeper.errors import DeployFailed, InvalidInput, StillWaiting
from streamkeeper.model.finding import Verdict
from streamkeeper.model.liveness import Life
from streamkeeper.model.snapshot import series_of_query
from streamkeeper.model.ways import Way
from streamkeeper.operations.targets import query_target
from streamkeeper.snapshots.catalogue import Catalogue

BACKUP, DRILL = "streaming_backup", "streaming_drill"
QUERY = "totals"
SERIES = series_of_query(SALES_TOTALS, QUERY)


SCHEDULES = {
    "STREAMKEEPER_BACKUP_SCHEDULE": "* * * * *",
    "STREAMKEEPER_DRILL_SCHEDULE": "never",
    "STREAMKEEPER_PRUNE_SCHEDULE": "never",
    "STREAMKEEPER_WATCH_SCHEDULE": "never",
}
"""Backups start by themselves in their act, and nothing else does: each act is to be seen."""


def hold_backups(airflow: Airflow) -> None:
    """Stop the backups' schedule until their act; raises StillWaiting when Airflow does not know it."""

    def held() -> bool:
        try:
            airflow.api.set_paused(BACKUP, True)
        except InvalidInput:
            return False
        return airflow.api.has_dag(DRILL)

    if not wait_until(held, timeout_s=60, poll_s=0.5):
        raise StillWaiting(f"Airflow does not know the DAGs {BACKUP} and {DRILL} after 60 s")


def back_up_by_schedule(system: System, airflow: Airflow, tell: Tell, *, timeout_s: float = 300) -> StepReport:
    """Let the scheduler start a backup by itself, while the jobs run; raises StillWaiting or DeployFailed."""
    began = time.monotonic()
    before = set(airflow.api.runs(BACKUP))
    airflow.api.set_paused(BACKUP, False)
    try:
        run = _scheduled_run(airflow, before, timeout_s)
        state = airflow.api.wait_for_run(BACKUP, run, timeout_s=timeout_s)
    finally:
        airflow.api.set_paused(BACKUP, True)
    newest = Catalogue(system.site.snapshots, SERIES).newest()
    if state != "success" or newest is None:
        raise DeployFailed(f"the scheduled backup ended as {state}", hint=f"run {run} of {BACKUP}")
    told = f"{newest.name} holds batch {newest.batch}: {len(newest.files)} files, {newest.bytes:,} bytes"
    return _report("scheduled backup", told, began, tell)


def drill(system: System, airflow: Airflow, tell: Tell, *, timeout_s: float = 600) -> StepReport:
    """Restore that snapshot into a scratch place and resume the real query on it; raises DeployFailed."""
    began = time.monotonic()
    run = airflow.api.trigger(DRILL, {"job": SALES_TOTALS})
    state = airflow.api.wait_for_run(DRILL, run, timeout_s=timeout_s)
    catalogue = Catalogue(system.site.snapshots, SERIES)
    number = catalogue.numbers()[-1]
    results = catalogue.drills(number)
    if state != "success" or not results or not results[-1].ok:
        why = results[-1].message if results else "it has no result"
        raise DeployFailed(f"the drill ended as {state}: {why}", hint=f"run {run} of {DRILL}")
    return _report("drill", f"verified: {results[-1].message}", began, tell)


def lose_and_restore(system: System, deployer: Deployer, tell: Tell) -> list[StepReport]:
    """Kill the driver, delete its checkpoint, restore the newest snapshot, deploy the same release on it."""
    began = time.monotonic()
    release = system.site.journal(SALES_TOTALS, "demo").state().serving_release
    checkpoint = Path(query_target(system.site, SALES_TOTALS, QUERY).location)
    _kill(system)
    shutil.rmtree(checkpoint)
    tell(f"  the checkpoint {checkpoint.name} of {SERIES} is deleted")
    command = [sys.executable, "-m", "streamkeeper.cli.main", "snapshot", "restore", SERIES]
    done = subprocess.run(command, env=system.environment, capture_output=True, text=True, timeout=120, check=False)
    for line in done.stdout.splitlines():
        tell(f"  {line}")
    if done.returncode != 0:
        raise DeployFailed(f"the snapshot could not be restored: {done.stderr.strip()}")
    restored = _report("checkpoint deleted and restored", done.stdout.splitlines()[0], began, tell)
    again = Asked(
        name=f"{SALES_TOTALS}: {release} from the snapshot",
        form={"job": SALES_TOTALS, "release": release, "reason": "its checkpoint was lost"},
        verdict=Verdict.RESUME,
        way=Way.RESUME,
    )
    return [restored, deployer.deploy(again)]


def _kill(system: System) -> None:
    """Every process of the serving driver, so that nobody starts it again."""
    instance = system.site.journal(SALES_TOTALS, "demo").state().serving_instance

    def dead() -> bool:
        system.site.runner.kill(SALES_TOTALS, instance)
        return system.site.runner.observe(SALES_TOTALS, instance).life is Life.DEAD

    if not wait_until(dead, timeout_s=30):
        raise StillWaiting(f"{instance} does not end")


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
