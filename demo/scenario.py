"""The main demo: two jobs are deployed, changed, killed, lost and restored, and one ledger counts lost and duplicated
rows.
"""

from __future__ import annotations

from demo.acts.deploying import deploy_first, kill_drivers, resume_and_hand_off
from demo.acts.going_back import ask_for_failure, check_fall_back, roll_back
from demo.acts.stage import Act, Stage
from demo.acts.switching import ask_for_approval, check_approval, rebuild
from demo.deploys import Deployer, StepReport
from demo.playing import from_nothing, play_all, settle, write_report
from demo.recovery import SCHEDULES, back_up_by_schedule, drill, hold_backups, lose_and_recover
from demo.show import Screen
from harness.forms import EVENT_COPY, JOBS, ROLLBACK_DAG, SALES_TOTALS
from harness.ledger import Account, events_so_far, read_rows, totals_so_far
from harness.outputs import read_event_ids, read_totals
from harness.places import Places
from harness.producer import EVENTS, SALES


def approve_and_fall_back(stage: Stage) -> list[StepReport]:
    """Deploy an opaque change of one job and a failing release of the other job at the same time."""
    approved, failed = stage.deployer.deploy_all([ask_for_approval(stage), ask_for_failure(stage)])
    return [check_approval(stage, approved), check_fall_back(stage, failed)]


def save_and_recover(stage: Stage) -> list[StepReport]:
    """Run a scheduled backup and its drill, then delete a checkpoint and restore it."""
    return [
        back_up_by_schedule(stage.system, stage.airflow, stage.tell),
        drill(stage.system, stage.airflow, stage.tell),
        *lose_and_recover(stage.system, stage.airflow, stage.deployer, stage.tell),
    ]


ACTS = (
    Act("first releases", "both jobs, from nothing", deploy_first),
    Act("resume and handoff", "one change fits its checkpoint, the other needs a new one", resume_and_hand_off),
    Act("kill", "the Python of one driver and the JVM of the other, with SIGKILL", kill_drivers),
    Act("rebuild", "one more aggregate: read all again beside what serves, compare, ask a person, cut over", rebuild),
    Act(
        "approval, and automatic rollback",
        "nothing can prove the one change: its state is kept and a person asked; the other fails on what comes later",
        approve_and_fall_back,
    ),
    Act("rollback", "back to the release before the rebuild, and its checkpoint version", roll_back),
    Act(
        "backup, drill, recovery",
        "a checkpoint is deleted under a killed driver: the watch raises it, and a recovery brings it back",
        save_and_recover,
    ),
)


def run_demo(places: Places, screen: Screen) -> bool:
    """Run the demo from empty folders; return whether the ledger is clean. All started processes are stopped."""
    with from_nothing(places, screen, SCHEDULES) as system:
        screen.tell("starting the producer and Airflow")
        system.start_producer()
        airflow = system.start_airflow()
        system.wait_for_airflow(airflow)
        system.wait_for_dag(airflow, ROLLBACK_DAG)
        hold_backups(airflow)
        screen.tell(f"Airflow is healthy at {airflow.url}")
        stage = Stage(system, airflow, Deployer(system, airflow, screen.tell), screen.tell)
        acts = play_all(stage, ACTS, lambda: draw_up(places), screen)
        screen.tell("stopping the producer; the jobs read what is left")
        system.stop_producer()
        accounts = settle(system, JOBS, lambda: draw_up(places), screen)
    return write_report(places, acts, accounts, screen)


def draw_up(places: Places) -> list[Account]:
    """Return the current ledger. The output is read before the input, so that every row in the output is already in the
    input.
    """
    totals, copied = read_totals(places.warehouse), list(read_event_ids(places.copies))
    sales, events = list(read_rows(places.input / SALES)), [row[0] for row in read_rows(places.input / EVENTS)]
    return [totals_so_far(SALES_TOTALS, sales, totals), events_so_far(EVENT_COPY, events, copied)]
