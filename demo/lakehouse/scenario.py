"""The demo of a lakehouse: Kafka to a Delta table on S3, with the tasks on a Spark cluster.

Its acts are a resume, a rebuild, an approved change, a release whose wrong rows are taken back, and a killed driver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from demo.acts.event_counts import EventCountActs
from demo.acts.stage import Act, Stage
from demo.acts.switching import Approver
from demo.deploys import Asked, StepReport
from demo.kafka.jobs import EVENT_COUNTS
from demo.lakehouse.edits import COUNTED_OTHERWISE, COUNTED_TWICE, TO_DELTA, WITH_LARGEST
from demo.playing import write_report
from demo.recovery import RECOVER, kill_and_recover
from demo.releases import Edit, edit
from demo.remote import CLUSTER_CONF, remote_stage
from demo.show import Screen
from harness.delta_tables import DeltaReader
from harness.forms import ROLLBACK_DAG
from harness.ledger import Totals
from harness.places import Places
from harness.remote_servers import S3, find_programs
from harness.s3_server import FIRST_BUCKET
from harness.topic_ledger import Counts, counts_in, sums_of
from harness.variables import set_variables
from harness.waiting import wait_until
from streamkeeper.errors import DeployFailed, StillWaiting
from streamkeeper.model.manifests.finding import Verdict
from streamkeeper.model.records.transitions import Transition

_QUERY = "counts"
_SEEN_S = 60.0


def run_lakehouse_demo(places: Places, screen: Screen) -> bool:
    """Run the demo from empty folders; return whether the ledger is clean. All started processes are stopped.

    Raises NotFound, before anything is started, if the programs of a server are missing.
    """
    find_programs()
    table = f"s3a://{FIRST_BUCKET}/tables/{EVENT_COUNTS}"
    with (
        remote_stage(
            places,
            screen,
            S3,
            starting="S3, a Spark cluster with two workers, and Kafka",
            describe=lambda where: f"the table: {table}; checkpoints: {where.environment['STREAMKEEPER_CHECKPOINTS']}",
        ) as remote,
        set_variables(remote.where.environment),
    ):
        screen.tell(edit(places, TO_DELTA))
        read = DeltaTable(DeltaReader(table))
        played = EventCountActs(
            topic=remote.topic,
            conf=CLUSTER_CONF,
            counts=read.counts,
            sums=read.sums,
            params={"warehouse": table},
            per_trigger=10_000,
            larger=WITH_LARGEST,
        )
        acts, accounts = played.play(remote.stage, (*played.begin, *Mistakes(played).all()), screen)
    return write_report(places, acts, accounts, screen)


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """The Delta table of event_counts."""

    reader: DeltaReader

    def counts(self) -> Counts:
        """Return its rows; empty while the table does not exist."""
        return counts_in(self.reader.rows())

    def sums(self) -> dict[str, Totals]:
        """Return its rows summed by customer."""
        return sums_of(self.counts())


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The acts that ask a person, take back wrong rows and kill the driver."""

    played: EventCountActs

    def all(self) -> tuple[Act, ...]:
        """Return all acts in their order."""
        return (
            Act("approval", "nothing can prove the change: its state is kept and a person asked", self._approve),
            Act(
                "bad rows taken back",
                "a release counts each event twice: back to the release before, and the state and table of that time",
                self._take_back,
            ),
            Act("driver killed", "and its supervisor: the watch raises it, a recovery starts it again", self._recover),
        )

    def _approve(self, stage: Stage) -> list[StepReport]:
        return [self._deploy_approved(stage, COUNTED_OTHERWISE, "approved", "read, it means the same")]

    def _take_back(self, stage: Stage) -> list[StepReport]:
        good = stage.state(EVENT_COUNTS).serving_release
        bad = self._deploy_approved(stage, COUNTED_TWICE, "a mistake", "nobody saw the mistake")
        kept = stage.last_operation(EVENT_COUNTS).kept_state[_QUERY]
        began = time.monotonic()
        if not wait_until(lambda: not all(each.clean for each in self.played.ledger()), timeout_s=_SEEN_S, poll_s=0.5):
            raise StillWaiting("the table has no wrong row yet")
        stage.tell(f"  the table has wrong rows after {time.monotonic() - began:.0f} s; {kept} is from before")
        edit(stage.places, COUNTED_TWICE.reverse)
        back = Asked(
            name=f"{EVENT_COUNTS}: back to {good}",
            form={"job": EVENT_COUNTS, "release": good, "reason": "it counts twice", "accept_risk": True},
            dag=ROLLBACK_DAG,
        )
        restored = Asked(
            name=f"{EVENT_COUNTS}: restored",
            form={
                "job": EVENT_COUNTS,
                "action": "restore",
                "query": _QUERY,
                "snapshot": kept,
                "reason": "its rows since then are wrong",
            },
            way=Transition.RESTORE,
            dag=RECOVER,
            meanwhile=Approver(stage.airflow.api, stage.tell, "accept", "Kafka still has all events"),
        )
        reports = [bad, stage.deployer.deploy(back), stage.deployer.deploy(restored)]
        wrong = [each for each in self.played.ledger() if not each.clean]
        if wrong:
            raise DeployFailed(f"wrong rows are left: {'; '.join(wrong[0].examples)}")
        return reports

    def _recover(self, stage: Stage) -> list[StepReport]:
        return kill_and_recover(stage.system, stage.airflow, stage.deployer, stage.tell, EVENT_COUNTS)

    def _deploy_approved(self, stage: Stage, change: Edit, name: str, reason: str) -> StepReport:
        stage.tell(f"  {edit(stage.places, change)}")
        asked = Asked(
            name=f"{EVENT_COUNTS}: {name}",
            form=self.played.form(reason=change.description),
            verdict=Verdict.BACKUP,
            way=Transition.RESUME,
            meanwhile=Approver(stage.airflow.api, stage.tell, "backup.approve", reason),
        )
        return stage.deployer.deploy(asked)
