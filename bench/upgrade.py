"""``python -m bench.upgrade --other PYTHON``: upgrade PySpark or Python under a serving job, and take the upgrade back.

``PYTHON`` is the interpreter of a second environment with a different PySpark or Python, and with the packages of
``requirements/runtime.in`` except Airflow. Both directions are run, from this environment to the other and back: deploy
in the first environment, deploy in the second while sales keep arriving, replay every event that was seen, roll back
with the command of the newer environment, kill the driver and let the watch of that environment restart it. The report
contains the findings of the check, the outcome of every step, the Spark and Python versions of every driver, and the
ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.report import write_report
from harness.bed import Bed, fresh_bed
from harness.ledger import compare_events, compare_totals, expected_totals, read_rows
from harness.outputs import read_event_ids, read_totals
from harness.places import ROOT
from harness.waiting import wait_for
from streamkeeper.model.coding import from_json
from streamkeeper.model.manifests.finding import Assessment
from streamkeeper.model.protocol.driver_messages import DriverState
from streamkeeper.registry.driver_control import Control
from streamkeeper.registry.objects import read_object

JOB = "upgrade_job"
HASTE = ("--probation-batches", "1", "--conf", "spark.master=local[1]", "--conf", "spark.sql.shuffle.partitions=2")
_SETTLED_S = 180.0


class Run:
    """One upgrade and its rollback on a bed of its own; ``steps`` records what was seen after each step."""

    def __init__(self, bed: Bed, before: str, after: str) -> None:
        self.bed, self.before, self.after = bed, before, after
        self.output = bed.root / "output"
        self.output.mkdir()
        self.steps: list[dict[str, Any]] = []

    def carry_out(self) -> dict[str, Any]:
        """Run all steps and return the run's part of the report."""
        params = {"input": str(self.bed.input), "output": str(self.output)}
        self.bed.start_producer(every_s=0.5)
        self._step("first", self.before, "deploy", JOB, "--params", json.dumps(params), *HASTE)
        self._step("upgrade", self.after, "deploy", JOB, *HASTE[:2], "--accept-risk")
        self._repeat_events()
        self._step("rollback", self.after, "rollback", JOB, "--reason", "back again", *HASTE[:2], "--accept-risk")
        for each in self.bed.processes():
            each.send_signal(signal.SIGKILL)
        self._step("restart by the watch", self.after, "watch", "--once", until=DriverState.SERVING)
        self.bed.stop_producer()
        return {"before": told(self.before), "after": told(self.after), "steps": self.steps, "ledger": self._ledger()}

    def _step(self, name: str, python: str, *words: str, until: DriverState | None = None) -> None:
        command = [python, "-m", "streamkeeper.cli.main", *words]
        jars = self.bed.root / "no-jars"
        environ = {**self.bed.environment, "STREAMKEEPER_JARS": str(jars)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900, check=False)
        if until is not None:
            # The pass starts a driver and does not wait for it; the next ones carry the operation on.
            deadline = time.monotonic() + _SETTLED_S
            while not self._serves() and time.monotonic() < deadline:
                done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900, check=False)
                time.sleep(2)
        self.steps.append({"step": name, "exit": done.returncode, **self._seen()})
        print(json.dumps(self.steps[-1]), flush=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr, flush=True)

    def _serves(self) -> bool:
        state = self.bed.installation.journal(JOB, "bench").state()
        status = Control(self.bed.installation.store, JOB, state.appointed).read_status()
        done = all(each.outcome is not None for each in state.operations.values())
        return done and status is not None and status.state is DriverState.SERVING and bool(list(self.bed.processes()))

    def _seen(self) -> dict[str, Any]:
        """Return the newest operation and the appointed driver."""
        state, store = self.bed.installation.journal(JOB, "bench").state(), self.bed.installation.store
        operation = list(state.operations.values())[-1]
        report = operation.report and read_object(store, JOB, "reports", operation.report, ".json")
        found = from_json(report, Assessment, where="report") if report else None
        status = Control(store, JOB, state.appointed).read_status()
        launch = Control(store, JOB, state.appointed).read_launch()
        return {
            "verdict": found.verdict.name if found else "",
            "findings": findings(found) if found else [],
            "outcome": operation.outcome.value if operation.outcome else "open",
            "sentence": operation.sentence,
            "serves": state.serving_release,
            "versions": {query: each[-1].version for query, each in state.versions.items()},
            "driver_spark": status.spark if status else "",
            "driver_python": told(launch.python)["python"] if launch and launch.python else "",
        }

    def _repeat_events(self) -> None:
        """Deliver every event so far a second time: a deduplication that has lost its state lets it through."""
        for file in sorted((self.bed.input / "events").glob("[0-9]*.csv")):
            draft = self.bed.input / "draft"
            shutil.copy(file, draft)
            os.rename(draft, file.with_name(f"again-{file.name}"))

    def _ledger(self) -> dict[str, Any]:
        sold = expected_totals(self.bed.input / "sales")
        events = {row[0] for row in read_rows(self.bed.input / "events")}
        warehouse = self.output / "warehouse.db"
        try:
            wait_for("all sales", lambda: read_totals(warehouse, "totals") == sold, timeout_s=_SETTLED_S)
            wait_for(
                "all events", lambda: len(list(read_event_ids(self.output / "firsts"))) >= len(events), timeout_s=60
            )
        except TimeoutError as error:
            print(error, flush=True)
        accounts = (
            compare_totals("totals", sold, read_totals(warehouse, "totals")),
            compare_events("firsts", events, read_event_ids(self.output / "firsts")),
        )
        return {
            each.name: {"produced": each.produced, "lost": each.lost, "duplicated": each.duplicated}
            for each in accounts
        }


def findings(found: Assessment) -> list[str]:
    """Return each finding with its query, its place and its evidence."""
    return [
        f"{query}: {each.severity.value} {each.rule}: {each.where}: {each.evidence}"
        for query, assessed in sorted(found.queries.items())
        for each in assessed.findings
    ]


def told(python: str) -> dict[str, str]:
    """Return an environment's Python and PySpark versions as it reports them."""
    code = (
        "import json, platform; from importlib.metadata import version; "
        "print(json.dumps({'python': platform.python_version(), 'spark': version('pyspark')}))"
    )
    return dict(json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout))


def main() -> int:
    """Run the upgrades, print and write the report; return 1 when a step failed or a ledger is not exact."""
    parser = argparse.ArgumentParser(prog="bench.upgrade", description="Upgrades between two environments.")
    parser.add_argument("--other", action="append", required=True, help="interpreter of another environment")
    parser.add_argument("--one-way", action="store_true", help="only from here to there")
    parser.add_argument("--out", type=Path, default=None, help="folder of the report")
    chosen = parser.parse_args()
    ended_well = True
    for other in chosen.other:
        runs, versions = [], told(other)
        name = f"upgrade-spark-{versions['spark']}-python-{versions['python']}"
        pairs = [(sys.executable, other), (other, sys.executable)][: 1 if chosen.one_way else 2]
        for before, after in pairs:
            with fresh_bed(ROOT / f"build/bench/upgrade-{os.getpid()}", [ROOT / "bench/upgrade_job.py"]) as bed:
                runs.append(Run(bed, before, after).carry_out())
            print(write_report(name, {"runs": runs}, into=chosen.out), runs[-1]["ledger"], flush=True)
            ended_well = ended_well and clean(runs[-1])
    return 0 if ended_well else 1


def clean(run: dict[str, Any]) -> bool:
    """Return whether every step succeeded and nothing was lost or doubled."""
    steps = all(each["exit"] == 0 and each["outcome"] == "succeeded" for each in run["steps"])
    return steps and not any(each["lost"] or each["duplicated"] for each in run["ledger"].values())


if __name__ == "__main__":
    raise SystemExit(main())
