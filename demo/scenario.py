"""The demo itself: two jobs deployed, deployed again while they run, killed, and the ledger drawn up at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import msgspec

from demo.airflow_process import Airflow
from demo.deploys import Deployer, StepReport
from demo.killing import Victim, kill_and_watch
from demo.ledger import Account, compare_events, compare_totals, expected_totals, read_rows
from demo.outputs import read_event_ids, read_totals
from demo.places import Places
from demo.processes import wait_until
from demo.producer import EVENTS, SALES
from demo.recovery import SCHEDULES, back_up_by_schedule, drill, hold_backups, lose_and_restore
from demo.releases import EVENT_COPY, JOBS, SALES_TOTALS, deploy_conf, edit_event_copy
from demo.show import Screen
from demo.system import System


class LedgerReport(msgspec.Struct, frozen=True):
    """The sums of all accounts."""

    produced: int
    lost: int
    duplicated: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``build/demo/report.json``."""

    ledger: LedgerReport
    steps: list[StepReport]
    wall_s: float


def run_demo(places: Places, screen: Screen) -> bool:
    """Run it from nothing; whether the ledger is clean. Everything it started is stopped, however it ends."""
    system = System(places, screen.tell)
    system.environment.update(SCHEDULES)
    system.stop()
    shutil.rmtree(places.root, ignore_errors=True)
    places.prepare()
    try:
        screen.tell("starting the producer and Airflow")
        system.start_producer()
        airflow = system.start_airflow()
        system.wait_for_airflow(airflow)
        hold_backups(airflow)
        screen.tell(f"Airflow is healthy at {airflow.url}")
        steps = run_steps(system, airflow, screen)
        accounts = settle(system, screen)
    finally:
        system.stop()
    write_report(places, steps, accounts, screen)
    return all(account.clean for account in accounts)


def run_steps(system: System, airflow: Airflow, screen: Screen) -> list[StepReport]:
    """Deploy, deploy again, kill; raises when a step fails."""
    places, deployer = system.places, Deployer(system, airflow, screen.tell)
    screen.tell("warm-up: a dry run of release 1, which describes and assesses it and changes nothing")
    warm_up = deploy_conf(places, SALES_TOTALS, files_per_trigger=100, reason="warm-up of Airflow", dry_run=True)
    steps = [deployer.deploy("dry run of sales_totals", warm_up)]
    screen.tell("deploying release 1 of both jobs")
    first = {
        f"{job} release 1": deploy_conf(places, job, files_per_trigger=100, reason="first release") for job in JOBS
    }
    steps += deployer.deploy_all(first)
    screen.tell(f"deploying release 2 while release 1 serves: 50 files per trigger; {edit_event_copy(places)}")
    for job in JOBS:
        second = deploy_conf(places, job, files_per_trigger=50, reason="a compatible change", handover="warm")
        steps.append(deployer.deploy(f"{job} release 2", second))
    screen.tell("killing drivers")
    steps += kill_and_watch(system, {SALES_TOTALS: Victim.PYTHON, EVENT_COPY: Victim.JVM}, screen.tell)
    screen.tell("backing up while both jobs run: the scheduler starts it by itself, every minute")
    steps.append(back_up_by_schedule(system, airflow, screen.tell))
    screen.tell("the drill: the snapshot is restored beside, and its query resumed on it")
    steps.append(drill(system, airflow, screen.tell))
    screen.tell(f"killing {SALES_TOTALS} for good, and deleting its checkpoint")
    same = deploy_conf(places, SALES_TOTALS, files_per_trigger=50, reason="its checkpoint was lost", handover="warm")
    steps += lose_and_restore(system, deployer, same, screen.tell)
    return steps


def settle(system: System, screen: Screen) -> list[Account]:
    """Stop the producer, let the jobs read all there is, drain them, and draw up the ledger."""
    screen.tell("stopping the producer; the jobs read what is left")
    system.stop_producer()
    wait_until(lambda: all(not account.lost for account in draw_up(system.places)), timeout_s=180, poll_s=0.5)
    system.drain(JOBS)
    screen.tell("both jobs are drained")
    return draw_up(system.places)


def draw_up(places: Places) -> list[Account]:
    """The ledger as it stands."""
    totals = compare_totals(SALES_TOTALS, expected_totals(places.input / SALES), read_totals(places.warehouse))
    produced = (row[0] for row in read_rows(places.input / EVENTS))
    return [totals, compare_events(EVENT_COPY, produced, read_event_ids(places.copies))]


def write_report(places: Places, steps: Sequence[StepReport], accounts: Sequence[Account], screen: Screen) -> None:
    """Print the end and write ``report.json``."""
    ledger = LedgerReport(
        sum(each.produced for each in accounts),
        sum(each.lost for each in accounts),
        sum(each.duplicated for each in accounts),
    )
    report = Report(ledger=ledger, steps=list(steps), wall_s=round(screen.elapsed_s, 1))
    places.report.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    screen.show_steps(steps)
    screen.show_ledger(accounts)
    screen.tell(f"report: {places.report}")
