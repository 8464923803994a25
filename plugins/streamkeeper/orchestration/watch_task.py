"""The task of the watch. It makes one pass, reports the result in the log and through notifiers, and
updates an asset.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Param

from streamkeeper.errors import InvalidInput
from streamkeeper.orchestration.notifiers import make_senders
from streamkeeper.orchestration.tasks import AskedTask, load_installation

if TYPE_CHECKING:
    from airflow.sdk import Context

    from streamkeeper.model.watch.fleet_index import FleetIndex

LONGEST_PASS = timedelta(minutes=10)
HEALTH = Asset(name="streamkeeper_health", uri="streamkeeper://health")
"""The asset that every pass updates. DAGs that are scheduled on it run when the health of jobs may have changed."""
ACTS = "STREAMKEEPER_WATCH_ACTS"


def watch_form(_jobs: Path | None = None) -> dict[str, Param]:
    """Return the fields of the trigger form; a scheduled run uses their defaults."""
    return {
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description_md="Report the incidents that the watch would raise and the actions that it would take, and"
            " write nothing",
        )
    }


class WatchOperator(AskedTask):
    """Makes one pass of the watch. If a notifier fails, the error is logged, and the next pass retries it."""

    form = staticmethod(watch_form)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[HEALTH], **kwargs)

    def work(self, context: Context) -> str:
        """Make the pass, and return a sentence with the numbers of observed jobs and of jobs with problems. Raises
        StoreUnavailable.
        """
        from streamkeeper.operations.fleet.watching import WatchPass, run_pass

        dry_run = bool(self.asked(context)["dry_run"])
        made = WatchPass(
            installation=load_installation(),
            senders=make_senders(os.environ, context),
            run_is_over=lambda dag, run: _is_over(context, dag, run),
            dry_run=dry_run,
            acts=read_acts(os.environ),
            by_airflow=True,
        )
        report = run_pass(made)
        for line in report.index.failed:
            self.log.warning("%s", line)
        self._report(context, list(report.lines) or ["nothing new"])
        sentence = tell_pass(report.index)
        self.log.info("%s", sentence)
        if not dry_run and "outlet_events" in context:
            context["outlet_events"][HEALTH].extra = health_of(report.index)
        return sentence


def read_acts(environ: Mapping[str, str]) -> bool:
    """Whether this watch takes actions. Raises InvalidInput for a value other than ``yes``, ``no`` and empty.

    ``STREAMKEEPER_WATCH_ACTS=no`` leaves the actions to another watch.
    """
    text = environ.get(ACTS, "").strip().lower() or "yes"
    if text not in ("yes", "no"):
        raise InvalidInput(f"{ACTS}={text} is neither yes nor no", hint=f"set it to no, or leave {ACTS} out for yes")
    return text == "yes"


def tell_pass(index: FleetIndex) -> str:
    """Return the result of a pass as one sentence."""
    wrong = sum(1 for row in index.rows if row.symptoms)
    return f"{len(index.rows)} jobs in {index.seconds:.1f} s, {wrong} with problems"


def health_of(index: FleetIndex) -> dict[str, Any]:
    """Return the content of the asset's event: the number of jobs at each severity, and the problems of each job."""
    severities = Counter(row.worst.value for row in index.rows if row.worst is not None)
    wrong = {row.job: sorted({symptom.rule for symptom in row.symptoms}) for row in index.rows if row.symptoms}
    return {"number": index.number, "jobs": len(index.rows), "severities": dict(severities), "wrong": wrong}


def _is_over(context: Context, dag: str, run: str) -> bool:
    """Whether Airflow reports that a run has succeeded or failed; False if Airflow has no record of the run."""
    return bool(context["ti"].get_dr_count(dag_id=dag, run_ids=[run], states=["failed", "success"]))
