"""Deploys the first releases of both jobs, then a resume and a handoff at the same time; kills drivers."""

from __future__ import annotations

from demo.acts.stage import Stage
from demo.deploys import Asked, StepReport
from demo.killing import Victim, kill_and_watch
from demo.releases import PARTITIONED, edit
from harness.forms import EVENT_COPY, JOBS, SALES_TOTALS, deploy_conf
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition


def deploy_first(stage: Stage) -> list[StepReport]:
    """Deploy the first release of both jobs at once."""
    wanted = [
        Asked(
            name=f"{job}: first release",
            form=deploy_conf(stage.places, job, files_per_trigger=100, reason="first release"),
            way=Transition.START,
        )
        for job in JOBS
    ]
    return stage.deployer.deploy_all(wanted)


def resume_and_hand_off(stage: Stage) -> list[StepReport]:
    """Change both jobs at once. One change fits the checkpoint; the other needs a new checkpoint version."""
    stage.tell("  sales_totals: 400 files per trigger instead of 100")
    stage.tell(f"  {edit(stage.places, PARTITIONED)}")
    resumed = Asked(
        name="sales_totals: resume",
        form=stage.form(SALES_TOTALS, "a compatible change"),
        verdict=Verdict.RESUME,
        way=Transition.RESUME,
    )
    handed_off = Asked(
        name="event_copy: handoff",
        form=stage.form(EVENT_COPY, "partitioned by kind"),
        verdict=Verdict.SWITCH,
        way=Transition.HANDOFF,
    )
    return stage.deployer.deploy_all([resumed, handed_off])


def kill_drivers(stage: Stage) -> list[StepReport]:
    """Send SIGKILL to the Python process of one driver and to the JVM of the other."""
    return kill_and_watch(stage.system, {SALES_TOTALS: Victim.PYTHON, EVENT_COPY: Victim.JVM}, stage.tell)
