"""``make up`` starts the demo's system and leaves it running; ``make down`` stops it."""

from __future__ import annotations

import shlex

import msgspec

from demo.deploys import Asked, Deployer
from demo.show import Screen
from harness.airflow_process import HOST
from harness.forms import DAG, JOBS, deploy_conf
from harness.places import Places
from harness.system import PRODUCER, System
from streamkeeper.pages.page_address import page_address


def bring_up(places: Places, screen: Screen, *, port: int) -> None:
    """Start Airflow and the producer and deploy both jobs. If the system was started before, only its dead processes
    are restarted.
    """
    system = System(places, screen.tell)
    if system.was_started():
        revive(system, screen, port=port)
        return
    system.stop()
    places.prepare()
    try:
        screen.tell("starting the producer and Airflow")
        system.start_producer()
        airflow = system.start_airflow(port=port)
        system.wait_for_airflow(airflow)
        forms = [deploy_conf(places, job, files_per_trigger=100, reason="make up", on_open="abort") for job in JOBS]
        Deployer(system, airflow, screen.tell).deploy_all([Asked(name=form["job"], form=form) for form in forms])
    except BaseException:
        system.stop()
        raise
    write_forms(places)
    screen.tell(f"[bold]Airflow: {airflow.url}/dags/{DAG}[/]")
    screen.tell(f"[bold]all jobs: {page_address(airflow.url)}[/]")
    screen.tell(f"no login: it listens on {HOST} only, and whoever opens it there is an admin")
    screen.tell(f"to deploy by hand: edit {places.jobs}, then trigger with a form from {places.forms}")
    settings = {**places.settings, "AIRFLOW__API__BASE_URL": airflow.url}
    variables = " ".join(shlex.quote(f"{name}={value}") for name, value in settings.items())
    screen.tell(f"for the command line: export {variables}")
    screen.tell("`make down` stops it all")


def revive(system: System, screen: Screen, *, port: int) -> None:
    """Restart the dead processes of a system that ``bring_up`` started. Running drivers are not touched.

    The watch restarts a dead driver as soon as Airflow runs its DAG.
    """
    dead = system.dead_parts()
    if not dead:
        screen.tell("it is up already; `make down` stops it")
        return
    screen.tell(f"no process is left of: {', '.join(dead)}; starting again what has died")
    system.start_producer()
    if set(dead) - {PRODUCER}:
        airflow = system.restart_airflow(port=port)
        system.wait_for_airflow(airflow)
        screen.tell(f"[bold]Airflow: {airflow.url}/dags/{DAG}[/]; its watch starts drivers that have died")


def write_forms(places: Places) -> None:
    """Write a filled-in form for each job, as JSON for the advanced view of Airflow's trigger form."""
    places.forms.mkdir(exist_ok=True)
    for job in JOBS:
        form = deploy_conf(places, job, files_per_trigger=50, reason="deployed by hand")
        (places.forms / f"{job}.json").write_bytes(msgspec.json.format(msgspec.json.encode(form), indent=2) + b"\n")


def take_down(places: Places, screen: Screen) -> None:
    """Stop all processes of the system. The files stay."""
    if not places.root.exists():
        screen.tell("nothing is up")
        return
    System(places, screen.tell).stop()
    screen.tell(f"all stopped; the files stay in {places.root}")
