"""The DAG files load without heavy imports, can be serialized and keep the conventions; each check runs in its own
process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamkeeper.lifecycle.steps import STEPS
from streamkeeper.model.records.step import Step

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]
SCHEDULES = {
    "streaming_backup": "@hourly",
    "streaming_drill": "20 2 * * *",
    "streaming_prune": "40 4 * * *",
    "streaming_watch": "* * * * *",
}
DESIRED = {"streaming_stop": "stop", "streaming_start": "start"}
TAKEOVER = {
    "takeover.first_commit": ["takeover.handover"],
    "takeover.snapshot": ["takeover.first_commit"],
    "takeover.probation": ["takeover.snapshot"],
    "takeover.promote": ["takeover.probation"],
    "fall_back": ["takeover.promote"],
}
END = {"announce_failure": ["finish"], "done": ["announce_failure", "finish"]}

LOOK = """
import json, sys, time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
before = set(sys.modules)
began = time.monotonic()
bag = DagBag(sys.argv[1])
seconds = time.monotonic() - began
new = set(sys.modules) - before
loaded = sorted({name.partition(".")[0] for name in new})
rooms = sorted({name.split(".")[1] for name in new if name.startswith("streamkeeper.")})
dags = {}
for dag in bag.dags.values():
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    again = DagSerialization.from_dict(stored)
    dags[dag.dag_id] = {
        "tags": sorted(dag.tags), "catchup": dag.catchup, "doc": bool(dag.doc_md), "again": sorted(again.task_ids),
        "schedule": dag.schedule, "runs": dag.max_active_runs,
        "tasks": {task.task_id: {
            "upstream": sorted(task.upstream_task_ids), "rule": task.trigger_rule, "retries": task.retries,
            "policy": task.retry_policy is not None, "timeout": task.execution_timeout is not None,
            "mapped": task.is_mapped, "at_once": task.max_active_tis_per_dag,
            "step": getattr(getattr(task, "step", None), "name", None),
        } for task in dag.tasks},
    }
print("LOOK" + json.dumps({"errors": bag.import_errors, "seconds": seconds, "loaded": loaded, "rooms": rooms,
    "dags": dags}))
"""


def look_at(dags: Path, home: Path, **more: str) -> dict[str, Any]:
    """Return what Airflow reads from a folder of DAG files; ``more`` are further environment variables."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "STREAMKEEPER_JOBS": str(ROOT / "jobs"),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(dags)], env=environ, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = next(line for line in done.stdout.splitlines() if line.startswith("LOOK"))
    result: dict[str, Any] = json.loads(told.removeprefix("LOOK"))
    return result


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return look_at(ROOT / "dags", tmp_path_factory.mktemp("airflow"))


def test_every_dag_file_loads(seen: dict[str, Any]) -> None:
    """All DAG files are parsed without an error and give exactly the expected DAGs."""
    assert seen["errors"] == {}
    others = {"streaming_deploy", "streaming_recover", "streaming_rollback", "streaming_state_dead"}
    assert set(seen["dags"]) == {*others, *DESIRED, *SCHEDULES}


def test_parsing_loads_nothing_heavy(seen: dict[str, Any]) -> None:
    """Parsing the DAG files imports neither Spark, an S3 client, pandas, nor the packages that run operations, and
    takes less than 5 s.
    """
    assert {"pyspark", "py4j", "boto3", "botocore", "pandas", "pyarrow"}.isdisjoint(seen["loaded"])
    assert {"operations", "runners", "snapshots", "driver", "inspection"}.isdisjoint(seen["rooms"])
    assert seen["seconds"] < 5


def test_a_heavy_import_in_a_dag_file_is_found(tmp_path: Path) -> None:
    """Negative control: a DAG file that imports pandas at its top is found by the same check."""
    (tmp_path / "dags").mkdir()
    text = "import pandas\nfrom airflow.sdk import dag\n@dag(schedule=None)\ndef heavy(): ...\nheavy()\n"
    (tmp_path / "dags" / "heavy.py").write_text(text)
    assert "pandas" in look_at(tmp_path / "dags", tmp_path / "home")["loaded"]


def test_a_dag_survives_serialisation(seen: dict[str, Any]) -> None:
    """A DAG that is read back from its serialized form has the same tasks."""
    for dag in seen["dags"].values():
        assert dag["again"] == sorted(dag["tasks"])


def test_every_dag_and_task_follows_the_conventions(seen: dict[str, Any]) -> None:
    """Every DAG has tags and documentation and does not catch up; every task has 5 retries and the policy that retries
    only temporary errors.
    """
    for dag in seen["dags"].values():
        assert dag["tags"]
        assert dag["doc"]
        assert not dag["catchup"]
        for task in dag["tasks"].values():
            assert task["retries"] == 5
            assert task["policy"]


def test_the_deploy_reads_like_the_runbook(seen: dict[str, Any]) -> None:
    """The deploy DAG has the runbook's order of tasks, its branches, the fallback, and one last task that decides the
    run's state.
    """
    tasks = seen["dags"]["streaming_deploy"]["tasks"]
    after = {name: task["upstream"] for name, task in tasks.items()}
    assert after == {
        "bundle": [],
        "standby": ["bundle"],
        "assess": ["standby"],
        "choose": ["assess"],
        "backup.keep_state": ["choose"],
        "backup.rest": ["backup.keep_state"],
        "backup.approve": ["backup.rest"],
        "backup.answer": ["backup.approve"],
        "backup.ready": ["backup.answer"],
        "choose_again": ["backup.ready", "choose"],
        "dual_run.shadow": ["choose", "choose_again"],
        "dual_run.catch_up": ["dual_run.shadow"],
        "dual_run.compare": ["dual_run.catch_up"],
        "dual_run.review": ["dual_run.compare"],
        "dual_run.answer": ["dual_run.review"],
        "takeover.handover": ["choose", "choose_again", "dual_run.answer"],
        **TAKEOVER,
        "finish": ["choose", "choose_again", "fall_back"],
        **END,
    }
    assert tasks["fall_back"]["rule"] == "one_failed"
    assert tasks["finish"]["rule"] == "all_done"


def against_the_table(tasks: dict[str, Any], steps: set[Step]) -> list[str]:
    """Return the steps without a task of their name, and the tasks that come after a task of a later step."""
    own = {name: Step[task["step"]] for name, task in tasks.items() if task["step"]}
    named = {(name.rpartition(".")[2], step) for name, step in own.items()}
    lacking = [step.label for step in sorted(steps) if (step.name.lower(), step) not in named]

    def before(name: str) -> set[str]:
        upstream = set(tasks[name]["upstream"])
        return upstream.union(*map(before, upstream))

    late = [
        f"{name} comes after {other}" for name in own for other in before(name) & own.keys() if own[name] < own[other]
    ]
    return [*lacking, *late]


HANDED_OVER = {Step.DRAIN, Step.PROVE_DEAD, Step.CATCH_UP_AFTER_DRAIN, Step.RESTORE, Step.GO}
"""Steps that a single task carries out without a pause."""
WITHOUT_PERSON_OR_DUAL_RUN = {step for step in Step if not Step.KEEP_STATE <= step <= Step.REVIEW}
"""The steps of a rollback."""


@pytest.mark.parametrize(
    ("dag", "steps"),
    [
        ("streaming_deploy", set(Step)),
        ("streaming_recover", set(Step)),
        ("streaming_rollback", WITHOUT_PERSON_OR_DUAL_RUN),
    ],
)
def test_every_step_of_the_table_has_its_task(seen: dict[str, Any], dag: str, steps: set[Step]) -> None:
    """Every step has a task with its name, in the order of the step table; one task carries out the steps between drain
    and go.
    """
    tasks = seen["dags"][dag]["tasks"]
    assert [*(row.step for row in STEPS), Step.FALL_BACK] == list(Step)
    assert against_the_table(tasks, steps - HANDED_OVER) == []
    assert tasks["takeover.handover"]["step"] == max(HANDED_OVER).name


def test_a_graph_that_differs_from_the_step_table_is_reported() -> None:
    """Negative control: a step without a task, a task with a different name and tasks in the wrong order are
    reported.
    """
    tasks = {
        "assess": {"step": "STANDBY", "upstream": ["bundle"]},
        "bundle": {"step": "BUNDLE", "upstream": ["group.go"]},
        "group.go": {"step": "GO", "upstream": []},
    }
    told = against_the_table(tasks, {Step.BUNDLE, Step.STANDBY, Step.ASSESS, Step.GO})
    assert sorted(told) == ["assess", "assess comes after group.go", "bundle comes after group.go", "standby"]


def test_the_rollback_reads_like_the_runbook(seen: dict[str, Any]) -> None:
    """The rollback DAG assesses before it acts and has the same takeover as a deploy."""
    tasks = seen["dags"]["streaming_rollback"]["tasks"]
    assert {name: task["upstream"] for name, task in tasks.items()} == {
        "bundle": [],
        "standby": ["bundle"],
        "assess": ["standby"],
        "choose": ["assess"],
        "takeover.handover": ["choose"],
        **TAKEOVER,
        "finish": ["choose", "fall_back"],
        **END,
    }
    assert tasks["finish"]["rule"] == "all_done"


def test_a_stop_and_a_start_are_one_task_each(seen: dict[str, Any]) -> None:
    """The stop and start DAGs consist of one task each and have no schedule."""
    for name, task in DESIRED.items():
        assert list(seen["dags"][name]["tasks"]) == [task]
        assert seen["dags"][name]["schedule"] is None


def test_a_stated_termination_is_recorded_before_the_copy(seen: dict[str, Any]) -> None:
    """The DAG of a stated termination records the statement before it copies the checkpoint, in which no driver may
    continue from then on.
    """
    tasks = seen["dags"]["streaming_state_dead"]["tasks"]
    assert {name: task["upstream"] for name, task in tasks.items()} == {"state": [], "copy": ["state"]}


def test_the_recovery_reads_like_the_runbook(seen: dict[str, Any]) -> None:
    """The recovery DAG diagnoses, asks for acceptance and then has the tasks of a deploy."""
    tasks = seen["dags"]["streaming_recover"]["tasks"]
    after = {name: task["upstream"] for name, task in tasks.items()}
    deploy = {name: task["upstream"] for name, task in seen["dags"]["streaming_deploy"]["tasks"].items()}
    assert {name: after.pop(name) for name in ("diagnose", "decide", "accept")} == {
        "diagnose": [],
        "decide": ["diagnose"],
        "accept": ["decide"],
    }
    assert after.pop("bundle") == ["accept", "decide"]
    assert after.pop("finish") == ["choose", "choose_again", "decide", "fall_back"]
    assert after == {name: each for name, each in deploy.items() if name not in ("bundle", "finish")}
    assert tasks["finish"]["rule"] == "all_done"


def test_backups_drills_and_prunes_read_like_the_runbook(seen: dict[str, Any]) -> None:
    """The backup, drill and prune DAGs first list their work; queries are mapped tasks, and the check of the backup
    objective runs whatever the outcome of the backups.
    """
    order = {
        name: {task_id: task["upstream"] for task_id, task in seen["dags"][name]["tasks"].items()} for name in SCHEDULES
    }
    assert order == {
        "streaming_backup": {"find": [], "backup": ["find"], "objective": ["backup"]},
        "streaming_drill": {"find": [], "drill": ["find"]},
        "streaming_prune": {"plan": [], "prune": ["plan"]},
        "streaming_watch": {"watch": []},
    }
    backup, drill = seen["dags"]["streaming_backup"]["tasks"], seen["dags"]["streaming_drill"]["tasks"]
    assert backup["backup"]["mapped"]
    assert backup["objective"]["rule"] == "all_done"
    assert (drill["drill"]["mapped"], drill["drill"]["at_once"]) == (True, 1)


def test_scheduled_dags_have_one_active_run_and_a_time_limit(seen: dict[str, Any]) -> None:
    """Each scheduled DAG has one active run at most, and each of its tasks has a time limit."""
    for name, schedule in SCHEDULES.items():
        assert seen["dags"][name]["schedule"] == schedule
        assert seen["dags"][name]["runs"] == 1
        assert all(task["timeout"] for task in seen["dags"][name]["tasks"].values())


def test_an_installation_sets_its_own_schedules(tmp_path: Path) -> None:
    """Environment variables set the schedules; an invalid one is an import error that names the variable and disables
    only its own DAG.
    """
    seen = look_at(
        ROOT / "dags",
        tmp_path,
        STREAMKEEPER_BACKUP_SCHEDULE="*/10 * * * *",
        STREAMKEEPER_DRILL_SCHEDULE="never",
        STREAMKEEPER_PRUNE_SCHEDULE="sometimes",
    )
    assert seen["dags"]["streaming_backup"]["schedule"] == "*/10 * * * *"
    assert seen["dags"]["streaming_drill"]["schedule"] is None
    assert "streaming_prune" not in seen["dags"]
    assert [Path(file).name for file in seen["errors"]] == ["streaming_prune.py"]
    assert "STREAMKEEPER_PRUNE_SCHEDULE=sometimes is not a schedule" in next(iter(seen["errors"].values()))
